/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/client.h"

/*
 * A few objects behind the client interface: get, create, update with resourceVersion, merge patch
 * of one level, and failures on order. Watches bring what is there and then wait for the scope. Any
 * thread. For tests of single-object protocols; kubeclient/fake/fake.h is the model of a whole
 * server.
 */
struct kc *kc_mini_new(void);
/* The next n calls fail so, before anything happens. */
void kc_mini_fail(struct kc *c, int n, enum err_kind kind, int http_status);
/* The next n writes happen, but the caller sees ERR_TIMEOUT. */
void kc_mini_lose_answers(struct kc *c, int n);
/* Watches and lists fail with ERR_FORBIDDEN from now on. */
void kc_mini_refuse_watches(struct kc *c);
/* The object of this name, or NULL. New reference to a copy. */
json_t *kc_mini_object(struct kc *c, const char *name);
/* The i-th object created. New reference to a copy, or NULL. */
json_t *kc_mini_nth(struct kc *c, size_t i);
/* Puts an object in, replacing its namesake, with a new version. */
void kc_mini_put(struct kc *c, const json_t *obj);
void kc_mini_drop(struct kc *c, const char *name);
/* Calls of all verbs, and of writes that happened. */
int kc_mini_calls(struct kc *c);
int kc_mini_writes(struct kc *c);
