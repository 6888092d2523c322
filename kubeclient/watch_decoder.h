/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "kubeclient/client.h"

/*
 * Turns the byte stream of a watch into calls of fn: one JSON object {"type", "object"} a line
 * (apimachinery pkg/watch, json framer), however the bytes are cut. Memory is one event, at most
 * max_event_bytes. Lines that lie whole in one chunk are parsed in place. One thread.
 */
struct watch_decoder;

/* fn and arg are borrowed. */
struct watch_decoder *watch_decoder_new(size_t max_event_bytes, kc_change_fn *fn, void *arg);

/* Takes the next bytes. Errors, after which the decoder refuses more: ERR_TOO_LARGE, ERR_PROTOCOL
 * (not JSON, not an event, an unknown type), what an ERROR event's Status says (410: ERR_EXPIRED),
 * what fn returned. */
int watch_decoder_feed(struct watch_decoder *d, const char *data, size_t len,
                       struct err *e) MUST_CHECK;

/* The stream ended. ERR_UNAVAILABLE when that was inside an event. */
int watch_decoder_finish(struct watch_decoder *d, struct err *e) MUST_CHECK;

/* Events delivered so far, bookmarks included. */
size_t watch_decoder_count(const struct watch_decoder *d);

/* NULL allowed; returns NULL. */
struct watch_decoder *watch_decoder_free(struct watch_decoder *d);

AUTO_DEFINE_PTR(watch_decoder, struct watch_decoder, watch_decoder_free)
#define auto_watch_decoder AUTO_PTR(watch_decoder)
