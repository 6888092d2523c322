/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "api/device.h"
#include "kubectl/screen.h"

/* The changes of one node, as far as its Device and Events still show them. Pure. */

struct history_entry {
    int64_t at_ms; /* wall clock */
    /* In a history these texts are its own. */
    const char *about; /* "Node", "Device", or a card: "NVIDIA GPU 0" */
    const char *what;  /* a condition with its status, "Event", … */
    const char *reason, *words;
    int64_t times; /* of an Event that repeats; else 1 */
    bool is_bad;
};

/* Older entries are dropped, and counted. */
enum { HISTORY_MAX = 200 };

struct history {
    struct history_entry *items;
    size_t n, dropped;
};

/* Adds the conditions of the Device and of its cards with the times of their last change, its
 * drains, and its breaches. */
void history_add_device(struct history *h, const struct device_status *st);
/* Adds an Event (events.k8s.io/v1), if one of Cleave's programs wrote it about the Node or the
 * Device of this name. */
void history_add_event(struct history *h, const char *node, const json_t *event);
/* Sorts them, the newest first. */
void history_end(struct history *h);
void history_done(struct history *h);
AUTO_DEFINE(history, struct history, history_done)
#define auto_history AUTO(history)

/* Appends the entries for a person, those that cards have alike as one. */
void history_text(const struct history *h, const struct screen *s, struct sb *ret);
/* The same for programs (docs/kubectl.md): an array. New reference. */
json_t *history_json(const struct history *h);
