/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/client.h"

/*
 * A long list, which a thread of its own receives and parses while the caller's thread looks at the
 * objects: the two take about as long. A few objects lie between them; the reader waits where the
 * caller is behind.
 */

struct read_ahead;

/* Begins to read: the caller may read something else meanwhile. Borrows kc, s and what t and o point
 * to, until read_ahead_free. ERR_SYSTEM: there is no thread to be had. */
int read_ahead_begin(struct kc *kc, struct scope *s, const struct kc_target *t,
                     const struct kc_list_opts *o, struct read_ahead **ret,
                     struct err *e) MUST_CHECK;
/* As kc_list_each, once; fn is called in the caller's thread, in the list's order. After an error of
 * fn nothing more is read. */
int read_ahead_each(struct read_ahead *a, kc_item_fn *fn, void *arg, char **ret_version,
                    struct err *e) MUST_CHECK;
/* Ends the reading, if it goes on. NULL allowed; returns NULL. */
struct read_ahead *read_ahead_free(struct read_ahead *a);
AUTO_DEFINE_PTR(read_ahead, struct read_ahead, read_ahead_free)
#define auto_read_ahead AUTO_PTR(read_ahead)
