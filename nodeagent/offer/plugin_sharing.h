/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/err.h"

struct plugin_config;

/*
 * The block `sharing` of the plugin's file: which resources several containers share, how, and
 * under which names. Pure.
 */

/* Reads the file's sharing (NULL, null or empty: none) into ret's sharing, shared and
 * fail_requests_greater_than_one, and adds a notice for each setting that is not carried out.
 * ERR_INVALID names the path (".sharing.timeSlicing.resources[0].replicas"). */
int plugin_sharing_read(struct plugin_config *ret, const json_t *sharing, struct err *e) MUST_CHECK;
