/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "kubeclient/client.h"
#include "kubeclient/fake/fake_store.h"

/*
 * What an API server does with a write: checks, merging, field ownership, deletion with its
 * finalizers and dependants; for the fake, whose lock guards the store. now_wall_ms dates the
 * change. *ret is a copy of the result and a new reference. Errors are the server's statuses, and
 * leave the store as it was.
 */
int fake_write_create(struct fake_store *st, int64_t now_wall_ms, const struct kc_target *t,
                      const struct kc_write *w, json_t **ret, struct err *e) MUST_CHECK;
/* Update (patch false) and patches other than server-side apply. */
int fake_write_change(struct fake_store *st, int64_t now_wall_ms, const struct kc_target *t,
                      const struct kc_write *w, bool patch, json_t **ret, struct err *e) MUST_CHECK;
/* Server-side apply. */
int fake_write_apply(struct fake_store *st, int64_t now_wall_ms, const struct kc_target *t,
                     const struct kc_write *w, json_t **ret, struct err *e) MUST_CHECK;
/* pod_grace_s: how long a deleted pod on a node keeps running where the request says nothing; 0:
 * pods go at once, whatever it says. */
int fake_write_remove(struct fake_store *st, int64_t now_wall_ms, const struct kc_target *t,
                      const struct kc_remove_opts *o, int64_t pod_grace_s,
                      struct err *e) MUST_CHECK;
/* Assigns the pod to the node of a Binding, whose annotations it gets. */
int fake_write_bind(struct fake_store *st, int64_t now_wall_ms, const struct kc_target *t,
                    const struct kc_write *w, struct err *e) MUST_CHECK;
/* Removes the pod of an Eviction, whose preconditions are in the write's body. */
int fake_write_evict(struct fake_store *st, int64_t now_wall_ms, const struct kc_target *t,
                     const struct kc_write *w, int64_t pod_grace_s, struct err *e) MUST_CHECK;
