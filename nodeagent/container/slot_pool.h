/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/*
 * The numbers of slots and the words made of them. A slot is a device that the kubelet grants
 * before it is decided what it stands for (docs/glossary.md). A node has a pool of slots for each
 * kind of thing that they come to stand for; a slot's number tells its pool. Pure.
 */
enum slot_pool {
    SLOT_POOL_SGPU,        /* slices with quotas, made by MetaX's driver */
    SLOT_POOL_SHARE,       /* shares of NVIDIA's cards, asked for in HAMi's words */
    SLOT_POOL_KOORDINATOR, /* the same, asked for in Koordinator's */
    SLOT_N_POOLS,
};

/* Of one pool, and of all. */
#define SLOT_POOL_SIZE 1024
#define SLOT_MAX       (SLOT_N_POOLS * SLOT_POOL_SIZE)

struct slot_pool_words {
    const char *vendor;
    const char *id;   /* before the number in the kubelet's identifier: "sgpu@" */
    const char *name; /* before it in names of CDI devices and of files: "slot." */
};
extern const struct slot_pool_words slot_pools[SLOT_N_POOLS];

enum slot_pool slot_pool_of(unsigned slot);
/* True for the slots of both pools of shares. */
bool slot_is_share(unsigned slot);
/* The first slot of the pools of shares, and the one behind their last. */
#define SLOT_SHARES_FIRST (SLOT_POOL_SHARE * SLOT_POOL_SIZE)
#define SLOT_SHARES_END   SLOT_MAX
/* The slot's number in its pool, from 0. */
unsigned slot_number(unsigned slot);
/* The slot with this number in the pool. */
unsigned slot_at(enum slot_pool pool, unsigned number);

enum { SLOT_WORD_BYTES = 16 };
/* "sgpu@3". buf holds SLOT_WORD_BYTES. Returns buf. */
char *slot_id(unsigned slot, char *buf);
/* "slot.3". As above. */
char *slot_name(unsigned slot, char *buf);
/* The slot of an identifier; -1: it is not a slot's. Each slot has one spelling: neither "-0" nor
 * "00". */
int slot_of_id(const char *id);
/* The same of a name. */
int slot_of_name(const char *name);
