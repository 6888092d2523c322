/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

#include "scheduler/pod_defaults.h"
#include "service/http_route.h"
#include "service/metrics.h"

/*
 * The mutating admission webhook, for API servers that have no MutatingAdmissionPolicy: the API server
 * posts each new pod that config/scheduler-webhook selects, as an AdmissionReview (k8s.io/api/admission/
 * v1 types.go), and gets what scheduler/pod_defaults.h adds to it. Every pod is allowed: which pods may
 * not be is for policies to say. The answer follows from the question alone.
 */
struct webhook;

#define WEBHOOK_PATH "/mutate-pods"

/* metrics is borrowed; NULL: nothing is counted. words: pod_defaults.h. */
struct webhook *webhook_new(struct metrics *metrics, struct pod_defaults_words words);
/* The route, which borrows w. */
struct http_route webhook_route(struct webhook *w);

enum webhook_outcome { WEBHOOK_PATCHED, WEBHOOK_UNCHANGED, WEBHOOK_UNREADABLE };
#define WEBHOOK_OUTCOMES 3

/* What a question is answered: an AdmissionReview with a response, or where it cannot be read
 * (WEBHOOK_UNREADABLE) a Status that says why. *ret_answer is a new reference in each case. Pure. */
enum webhook_outcome webhook_answer(const char *body, size_t len, struct pod_defaults_words words,
                                    json_t **ret_answer);

/* NULL allowed; returns NULL. */
struct webhook *webhook_free(struct webhook *w);
AUTO_DEFINE_PTR(webhook, struct webhook, webhook_free)
#define auto_webhook AUTO_PTR(webhook)
