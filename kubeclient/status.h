/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Converts metav1.Status, the API's answer for an error, to struct err (apimachinery
 * pkg/apis/meta/v1/types.go: StatusReason, StatusDetails).
 *
 *     400 405 406 415 422      ERR_INVALID        408 504  ERR_TIMEOUT
 *     401 403                  ERR_FORBIDDEN      410      ERR_EXPIRED
 *     404                      ERR_NOT_FOUND      413      ERR_TOO_LARGE
 *     409 AlreadyExists        ERR_EXISTS         429      ERR_THROTTLED
 *     409 otherwise            ERR_CONFLICT       5xx      ERR_UNAVAILABLE
 *
 * reason is the Status' reason when it is a known one, or a more precise cause:
 * "ResourceVersionTooLarge", "DisruptionBudget", "FieldManagerConflict". retry_after_ms is capped
 * at 5 min, because reflectors and the publisher do nothing for so long.
 */

/* Fills e from a Status object; http_status is used when it carries no code from 100 to 599.
 * Returns -kind, never 0. */
int kc_status_to_err(const json_t *status, int http_status, struct err *e);

/* Fills e from the body of an answer outside 2xx: a Status, or anything else (a proxy's HTML page),
 * of which the first line is quoted, cut and with control characters removed. retry_after_ms is the
 * Retry-After header's (0: none). Returns -kind, never 0. */
int kc_status_from_body(int http_status, const char *body, size_t len, int64_t retry_after_ms,
                        struct err *e);

/* A Status as a server would send it, for fakes. New reference. cause may be NULL. */
json_t *kc_status_new(int code, const char *reason, const char *message, const char *cause);
