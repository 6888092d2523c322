/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "base/sb.h"

#include "kubeclient/client.h"

/* URLs of the API. All foreign text goes through url_add_escaped. */

/* Longest URL we make, bytes. */
#define URL_MAX_BYTES 16384

/* Appends s with every byte outside RFC 3986's unreserved set percent-encoded. "." and ".." as a
 * whole segment are encoded too, so that no proxy normalises them away. */
void url_add_escaped(struct sb *out, const char *s);

/* Appends "?name=value" or "&name=value", value escaped; nothing when value is NULL. */
void url_add_query(struct sb *out, const char *name, const char *value);
void url_add_query_int(struct sb *out, const char *name, int64_t value);

/* Appends the path of a target: /api/v1/… or /apis/GROUP/VERSION/…. A namespaced resource without
 * ns is addressed across all namespaces. */
void url_add_target(struct sb *out, const struct kc_target *t);
