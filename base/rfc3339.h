/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Kubernetes timestamps: metav1.Time (seconds) and metav1.MicroTime. Unix milliseconds in and out.
 */
#define RFC3339_BYTES 32
int rfc3339_parse(const char *s, int64_t *ret_ms, struct err *e) MUST_CHECK;
/* The same; `otherwise` where s is NULL or no time. */
int64_t rfc3339_or(const char *s, int64_t otherwise);
/* "2026-11-20T22:55:35Z". buf holds RFC3339_BYTES. Returns buf. */
char *rfc3339_format(int64_t ms, char *buf);
/* "2026-11-20T22:55:35.123000Z" for Lease and events.k8s.io. */
char *rfc3339_format_micro(int64_t ms, char *buf);
