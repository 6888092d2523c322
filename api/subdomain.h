/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#define SUBDOMAIN_MAX 253

/* True for a subdomain of RFC 1123, by which API servers judge the names of most objects: at most
 * SUBDOMAIN_MAX small letters, digits, '-' and '.', where each label between dots begins and ends
 * with a letter or digit. Pure. */
bool subdomain_legal(const char *name);
