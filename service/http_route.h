/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/sb.h"

/* A page of the HTTP server, and who writes it. */

/* Writes the body and returns the HTTP status. Called on its port's thread; must not block. */
typedef int http_get_fn(void *arg, struct sb *body);

struct http_route {
    const char *path; /* matched exactly: "/healthz" */
    http_get_fn *get;
    void *arg; /* borrowed */
};
