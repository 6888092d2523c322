/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/client.h"

/*
 * Spoils chosen calls of another client, for torture runs: repeat a scenario with .at = 1, 2, …
 * until kc_fault_fired is false, so every call was spoiled once; each run must end as the
 * undisturbed one. Only calls that the fault can happen to are counted: conflicts happen to writes,
 * 410 to list and watch.
 */
enum kc_fault {
    KC_FAULT_NONE,
    KC_FAULT_CONFLICT,             /* 409, nothing done (update, patch, remove) */
    KC_FAULT_TIMEOUT_AFTER_COMMIT, /* done, but the answer is lost (writes) */
    KC_FAULT_THROTTLED,            /* 429 with Retry-After 1 s, nothing done */
    KC_FAULT_RESET,        /* connection reset; nothing done. A watch: after its first event */
    KC_FAULT_UNAVAILABLE,  /* 503, nothing done */
    KC_FAULT_EXPIRED,      /* 410 (list, watch) */
    KC_FAULT_REFUSED,      /* 400 as of an admission webhook, nothing done (writes) */
    KC_FAULT_CRASH_BEFORE, /* this call and every later one: ERR_CANCELED, nothing done (writes) */
    KC_FAULT_CRASH_AFTER, /* this one is done; its answer and all later calls: ERR_CANCELED (writes)
                           */
};

struct kc_fault_plan {
    enum kc_fault fault;
    int at;    /* the at-th call it can happen to, from 1 */
    int times; /* how many in a row; 0: one. The crashes never end */
};

/* inner is borrowed and outlives it. Any thread. Caller frees with kc_free. */
struct kc *kc_fault_new(struct kc *inner, const struct kc_fault_plan *plan);

/* True when the fault has happened. */
bool kc_fault_fired(struct kc *c);
/* Number of calls so far that it could have happened to. */
int kc_fault_calls(struct kc *c);
/* Name for messages ("conflict"). Static. */
const char *kc_fault_name(enum kc_fault fault);
