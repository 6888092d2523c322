/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The forecast of one card. Plain values that own their strings (node_plan_done). */

enum card_fate {
    FATE_STAYS,   /* the hardware is as wanted */
    FATE_CHANGES, /* nothing that must go is in use */
    FATE_DRAINS,  /* it changes once what is in use is free */
    FATE_CANNOT,  /* reason and message say why; nothing is done */
};

/* A user of a part: a pod, or a process, whose end a change waits for. Unknown texts are NULL. */
struct plan_user {
    char *ns, *name, *uid, *process;
    int64_t pid;
};

/* Parts by name and first memory slice ("3g.40gb@4"), by alias, or "the whole card". */
struct plan_parts {
    char **items;
    size_t n;
};

struct card_plan_view {
    char *uuid, *vendor, *model, *source;
    int64_t index;
    bool of_file; /* the file brings its want */
    bool ill;     /* whatever is wanted of it */
    enum card_fate fate;
    char *reason, *message; /* CANNOT, and DRAINS */
    int mode, wanted_mode;  /* enum api_mode */
    struct plan_parts stays, goes, comes;
    char *sharing, *wanted_sharing; /* in words; NULL: the sharing does not change */
    bool evicts;                    /* the users are evicted; else the change waits for them */
    int64_t timeout_s;              /* how long it waits for those that are evicted */
    struct plan_user *users;
    size_t n_users;
};

/* A user is evicted where its pod is known, be it by its uid alone. */
static inline bool plan_user_is_evicted(const struct card_plan_view *c, const struct plan_user *u)
{
    return c->evicts && (u->name || u->uid);
}
