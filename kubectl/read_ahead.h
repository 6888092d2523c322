/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/client.h"

/*
 * A long list, which a thread of its own receives and parses while the caller's thread looks at the
 * objects: the two take about as long. A few objects lie between them; the reader waits where the
 * caller is behind.
 */

/* As kc_list_each; fn is called in the caller's thread, in the list's order. After an error of fn
 * nothing more is read. */
int read_ahead_each(struct kc *kc, struct scope *s, const struct kc_target *t,
                    const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                    struct err *e) MUST_CHECK;
