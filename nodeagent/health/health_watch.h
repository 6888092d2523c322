/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"

#include "kubeclient/recorder.h"
#include "nodeagent/change/card_view.h"
#include "nodeagent/gpu/gpu_watch.h"
#include "nodeagent/health/health.h"
#include "service/metrics.h"

/*
 * Keeps watch over the health of the node's cards. It takes the driver's reports and the readings,
 * keeps the illnesses (health.h), marks the cards, and reports each change by an Event on the Node,
 * a log line and metrics. The loop's thread only; never blocks.
 *
 * An Xid's way: the child (`watch-events`, vendor/nvidia/nvml_events.c) writes it into a pipe;
 * cards_take_reports has gpu_watch_take read it here; health_xid judges it (health.h);
 * health_watch_mark puts the illness on the card or its partition. The next reporting_publish
 * builds the offer, in which the device is marked (offer/device_table.h), shows that to the kubelet
 * (kubelet_link_offer), and writes it into Device.status (report/card_status.h).
 */
struct health_watch;

struct health_watch_deps {
    struct gpu_watch *watch;   /* NULL: health comes from readings alone */
    struct recorder *recorder; /* NULL: no events */
    struct metrics *metrics;   /* NULL: none */
    const struct clock *clk;
    const char *node;
    struct health_options options;
};

/* Copies the options and borrows the other deps, which outlive it. */
struct health_watch *health_watch_new(const struct health_watch_deps *d);
struct health_watch *health_watch_free(struct health_watch *w); /* NULL allowed; returns NULL */
AUTO_DEFINE_PTR(health_watch, struct health_watch, health_watch_free)
#define auto_health_watch AUTO_PTR(health_watch)

/* The consequences of the driver's reports for the loop. */
struct health_news {
    bool changed; /* cards were marked: publish */
    bool look;    /* the hardware should be read soon */
};

/* Readable while health_watch_take has something to do; -1: no reports are watched. */
int health_watch_fd(const struct health_watch *w);
/* Takes all reports that are waiting, and marks the cards that they concern as health_watch_mark
 * does. */
struct health_news health_watch_take(struct health_watch *w, struct card_view *cards, size_t n);

/* Takes a reading that began at that time, as it came from the hardware. all: the node has no other
 * cards. Marks nothing yet. */
void health_watch_take_reading(struct health_watch *w, const struct card_view *cards, size_t n,
                               bool all, int64_t began_mono_ms);
/* Marks the node's cards, as they are known now, and reports what changed. */
void health_watch_mark(struct health_watch *w, struct card_view *cards, size_t n);

/* The illnesses, for the status. Borrowed. */
const struct health *health_watch_memory(const struct health_watch *w);
