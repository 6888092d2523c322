/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/scope.h"

#include "kubeclient/client.h"

/*
 * The two questions to the API server that a token takes, as kube-rbac-proxy asks them: whose it is
 * (TokenReview), and whether that user may get a page (SubjectAccessReview with a path that is no
 * resource's). What is sent is the token, then the user as the API server described it and the
 * path: nothing else.
 */

/* Bodies of the requests; the caller's. user: from access_review_read_token. */
json_t *access_review_token_body(const char *token);
json_t *access_review_subject_body(const json_t *user, const char *path);

/* Reads an answered TokenReview. *ret_user is what a SubjectAccessReview's spec says of the user
 * (user, uid, groups, extra), the caller's, or NULL: the token is nobody's. ERR_PROTOCOL: no such
 * answer. */
int access_review_read_token(const json_t *answer, json_t **ret_user, struct err *e) MUST_CHECK;
/* Reads an answered SubjectAccessReview. An authorizer that failed while none allowed it is a no.
 * ERR_PROTOCOL. */
int access_review_read_subject(const json_t *answer, bool *ret_allowed, struct err *e) MUST_CHECK;

/* Asks both. *ret_authenticated, *ret_allowed: what the API server says. What kc_create returns,
 * ERR_PROTOCOL. */
int access_review(struct kc *kc, struct scope *s, const char *token, const char *path,
                  bool *ret_authenticated, bool *ret_allowed, struct err *e) MUST_CHECK;
