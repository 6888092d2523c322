/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

/* The use of a node's cards now, from its agent's page of telemetry (docs/gpu-metrics.md). Pure. */

/* The bounds of a page, more than any node has: its cards, and a card's GPU instances and pods. */
enum { TOP_MAX_CARDS = 256, TOP_MAX_PARTS = 64, TOP_MAX_USERS = 1024 };

/* A number that is not on the page. */
#define TOP_NOT_TOLD ((double)NAN)

/* Numbers of a card, a part or a pod. */
struct top_values {
    double use;                      /* 0 to 1 */
    double memory;                   /* used, bytes */
    double total;                    /* bytes; TOP_NOT_TOLD of a pod */
    double celsius, watts;           /* of a card alone */
    double engine, unused, reserved; /* use and total are made of them where the page lacks these */
};

/* A pod on a card or a part. */
struct top_user {
    char *ns, *pod, *container; /* container "": several, or not known */
    struct top_values v;
};

/* A GPU instance. */
struct top_part {
    char *profile, *id;
    struct top_values v;
    struct top_user *users;
    size_t n;
};

struct top_card {
    char *uuid, *index, *model;
    struct top_values v;
    bool is_stale;
    double age_s;
    struct top_part *parts;
    size_t n_parts;
    struct top_user *users; /* of the card itself */
    size_t n;
};

struct top_node {
    struct top_card *cards; /* in the order of their indexes */
    size_t n;
};

/* Reads the page, which is taken apart in place. ERR_PROTOCOL; ERR_TOO_LARGE: beyond the bounds
 * above. *ret is overwritten; after an error it holds what was read. */
int top_read(char *page, struct top_node *ret, struct err *e) MUST_CHECK;
void top_node_done(struct top_node *n);

AUTO_DEFINE(top_node, struct top_node, top_node_done)
#define auto_top_node AUTO(top_node)
