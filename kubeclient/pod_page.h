/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/scope.h"

#include "kubeclient/way.h"

/* A page that a pod serves over HTTP, read through a port-forward (kubeclient/port_forward.h). */

/* The longest page. */
#define POD_PAGE_MAX_BYTES ((size_t)8 << 20)

struct pod_page {
    const char *ns, *pod; /* borrowed, as all of it */
    uint16_t port;
    const char *path; /* "/metrics" */
    /* The page comes over TLS. The pod's certificate is not verified: the API server and the
     * kubelet, which are, have brought the connection to that pod. */
    bool tls;
    const char *token; /* sent along; NULL: none. Whoever runs in the pod may keep it */
};

/* Reads the page, whatever it holds. way is borrowed. Caller frees *ret. ERR_FORBIDDEN,
 * ERR_NOT_FOUND and the other errors of a call come from the API server where http_status is set,
 * else from the pod. ERR_TOO_LARGE: the page is, or its headers are. */
int pod_page_get(const struct way *way, struct scope *s, const struct pod_page *page, char **ret,
                 struct err *e) MUST_CHECK;
