/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"

#include "controller/metrics.h"
#include "kubeclient/recorder.h"
#include "nodeagent/card_view.h"
#include "nodeagent/gpu/gpu_watch.h"
#include "nodeagent/health.h"

/*
 * The agent's hold on the health of its cards: takes what the driver reports and what readings say,
 * keeps the policy's memory (health.h), marks the cards, and tells people of each change by an
 * event on the Node, a log line and metrics. The loop's thread alone; never blocks.
 */
struct health_watch;

struct health_watch_deps {
    struct gpu_watch *watch;   /* NULL: only readings tell */
    struct recorder *recorder; /* NULL: no events */
    struct metrics *metrics;   /* NULL: none */
    const struct clock *clk;
    const char *node;
    struct health_options options;
};

/* Borrows deps but for the options; they outlive it. */
struct health_watch *health_watch_new(const struct health_watch_deps *d);
struct health_watch *health_watch_free(struct health_watch *w); /* NULL allowed; returns NULL */
AUTO_DEFINE_PTR(health_watch, struct health_watch, health_watch_free)
#define auto_health_watch AUTO_PTR(health_watch)

/* What the driver's reports call for. */
struct health_news {
    bool changed; /* cards were marked: publish */
    bool look;    /* read the hardware soon */
};

/* Readable while health_watch_take has something; -1: nothing is watched. */
int health_watch_fd(const struct health_watch *w);
/* Takes all reports that are there and marks the cards that they concern. */
struct health_news health_watch_take(struct health_watch *w, struct card_view *cards, size_t n);

/* Takes what a reading that began at that time says of the cards, as it came from the hardware;
 * all: there are no others. Marks nothing yet. */
void health_watch_read(struct health_watch *w, const struct card_view *cards, size_t n, bool all,
                       int64_t began_mono_ms);
/* Marks the cards of the node, as they are known now, and tells people what changed. */
void health_watch_mark(struct health_watch *w, struct card_view *cards, size_t n);

/* For the status: why instances are ill. Borrowed. */
const struct health *health_watch_memory(const struct health_watch *w);
