/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/scope.h"

#include "kubeclient/client.h"

/*
 * The two requests that review a token, as kube-rbac-proxy makes them: whose it is (TokenReview),
 * and whether that user may get a page (SubjectAccessReview for a nonResourceURL). Only the token
 * is sent, then the user as the API server described it and the path.
 */

/* Request bodies; the caller's. user: from access_review_read_token. */
json_t *access_review_token_body(const char *token);
json_t *access_review_subject_body(const json_t *user, const char *path);

/* Reads the answer to a TokenReview. *ret_user has the user's fields for a SubjectAccessReview's
 * spec (user, uid, groups, extra) and is the caller's, or is NULL: the token is not valid.
 * ERR_PROTOCOL: not a TokenReview. */
int access_review_read_token(const json_t *answer, json_t **ret_user, struct err *e) MUST_CHECK;
/* Reads the answer to a SubjectAccessReview. A failed authorizer counts as a refusal, unless
 * another one allowed the access. ERR_PROTOCOL. */
int access_review_read_subject(const json_t *answer, bool *ret_allowed, struct err *e) MUST_CHECK;

/* Makes both requests. *ret_authenticated, *ret_allowed: the API server's answers. Returns what
 * kc_create returns, or ERR_PROTOCOL. */
int access_review(struct kc *kc, struct scope *s, const char *token, const char *path,
                  bool *ret_authenticated, bool *ret_allowed, struct err *e) MUST_CHECK;
