/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "api/gpuprofile.h"
#include "api/migconfig.h"

/*
 * What an API server would have refused, for documents that come from a file and never saw one.
 * There a field with a typing mistake would silently mean its default, and the default of a
 * geometry is "no partitions". Pure.
 */

/* doc is the whole object, spec what was decoded from it. ERR_INVALID with the path. */
int layout_check_profile(const json_t *doc, const struct gpuprofile_spec *spec,
                         struct err *e) MUST_CHECK;
int layout_check_config(const json_t *doc, const struct migconfig_spec *spec,
                        struct err *e) MUST_CHECK;
