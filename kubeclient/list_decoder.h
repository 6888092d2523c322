/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "kubeclient/client.h"

/*
 * Reads a List document {"metadata": {…}, "items": [{…}, …]} item by item from chunks of any size,
 * so that a list of thousands needs the memory of one item. The members may come in any order
 * (typed lists put metadata first, lists of custom resources are sorted by name and put it last).
 * One thread.
 *
 * A scanner splits the text at the depth of the items; each piece is then parsed strictly.
 */
struct list_decoder;

/* fn and arg are borrowed. max_item_bytes bounds each item, and the rest of the document as a
 * whole. */
struct list_decoder *list_decoder_new(size_t max_item_bytes, kc_item_fn *fn, void *arg);

/* Lets items share one member, from now on, where it is the same, and leaves another out
 * (kubeclient/sparing_parser.h). The paths are borrowed; NULL: there is none. */
void list_decoder_spare(struct list_decoder *d, const char *const *shared,
                        const char *const *without);

/* ERR_TOO_LARGE, ERR_PROTOCOL, what fn returned; no more may be fed afterwards. */
int list_decoder_feed(struct list_decoder *d, const char *data, size_t len,
                      struct err *e) MUST_CHECK;

/* The text ended: *ret_version and *ret_continue (NULL: no further page) are owned by the caller.
 * ERR_PROTOCOL when it is not a complete List. */
int list_decoder_finish(struct list_decoder *d, char **ret_version, char **ret_continue,
                        struct err *e) MUST_CHECK;

/* Items delivered so far. */
size_t list_decoder_count(const struct list_decoder *d);

/* NULL allowed; returns NULL. */
struct list_decoder *list_decoder_free(struct list_decoder *d);

AUTO_DEFINE_PTR(list_decoder, struct list_decoder, list_decoder_free)
#define auto_list_decoder AUTO_PTR(list_decoder)
