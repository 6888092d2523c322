/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "api/gpuprofile.h"
#include "api/migconfig.h"

/*
 * Checks profiles and configs from a file, as the API server's schema would: they never passed one.
 * Unchecked, a mistyped field would silently mean its default, and the default of a geometry is
 * "no partitions". Pure.
 */

/* doc is the whole object, spec its decoded spec. ERR_INVALID with the path. */
int layout_check_profile(const json_t *doc, const struct gpuprofile_spec *spec,
                         struct err *e) MUST_CHECK;
int layout_check_config(const json_t *doc, const struct migconfig_spec *spec,
                        struct err *e) MUST_CHECK;
