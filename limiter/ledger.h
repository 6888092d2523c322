/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process has taken of its shares, by the address or the handle under which it is freed.
 * Any thread may call anything.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Addresses and handles of different kinds may be equal. */
enum ledger_kind {
    LEDGER_POINTER = 1,
    LEDGER_ARRAY,
    LEDGER_EXTERNAL,
    LEDGER_PHYSICAL,
    LEDGER_MAPPING,
    LEDGER_CONTEXT,
    LEDGER_LIMIT,
    LEDGER_GRAPH,
    LEDGER_GRANULE,
    LEDGER_POOLED,
};

struct ledger_entry {
    uint64_t key;
    uint64_t bytes;
    uint64_t owner; /* the context with whose end it is freed, the handle that is mapped; 0: none */
    uint32_t holds; /* how often it has to be let go of */
    int16_t device; /* of a context, and of a graph */
    uint8_t kind;   /* 0: the place in the table is free */
    int8_t card;    /* the index of its share; -1: it is not counted */
};

/* Notes what has been taken already. */
void ledger_put(const struct ledger_entry *e);

/* Notes it, or adds its holds to those of the entry that is there. True: it is new. What an owner that
 * has ended left there is taken out, and in ret_old; else its kind is 0. has_ended may not come back
 * here. */
bool ledger_join(const struct ledger_entry *e, bool (*has_ended)(uint64_t owner),
                 struct ledger_entry *ret_old);

/* Takes it out of the ledger. False: it is not there. */
bool ledger_take(enum ledger_kind kind, uint64_t key, struct ledger_entry *ret);

/* Adds to, or takes from, its holds. Returns how many are left; -1: it is not there. With 0 it is
 * taken out. */
int ledger_hold(enum ledger_kind kind, uint64_t key, int more, struct ledger_entry *ret);

/* Takes out all entries of a context; fn is told of each, and may not come back here. */
void ledger_end(uint64_t owner, void (*fn)(const struct ledger_entry *e));
