/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/slot_pool.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

const struct slot_pool_words slot_pools[SLOT_N_POOLS] = {
    [SLOT_POOL_SGPU] = {"metax", "sgpu@", "slot."},
    [SLOT_POOL_SHARE] = {"nvidia", "share@", "share."},
    [SLOT_POOL_KOORDINATOR] = {"nvidia", "koord@", "koord."},
};

enum slot_pool slot_pool_of(unsigned slot)
{
    assert(slot < SLOT_MAX);
    return (enum slot_pool)(slot / SLOT_POOL_SIZE);
}

bool slot_is_share(unsigned slot)
{
    static_assert(SLOT_POOL_KOORDINATOR == SLOT_POOL_SHARE + 1 &&
                      SLOT_POOL_KOORDINATOR + 1 == SLOT_N_POOLS,
                  "the pools of shares are the last");
    assert(slot < SLOT_MAX);
    return slot >= SLOT_SHARES_FIRST;
}

unsigned slot_number(unsigned slot)
{
    assert(slot < SLOT_MAX);
    return slot % SLOT_POOL_SIZE;
}

unsigned slot_at(enum slot_pool pool, unsigned number)
{
    assert(pool < SLOT_N_POOLS && number < SLOT_POOL_SIZE);
    return (unsigned)pool * SLOT_POOL_SIZE + number;
}

static char *word(const char *before, unsigned slot, char *buf)
{
    (void)snprintf(buf, SLOT_WORD_BYTES, "%s%u", before, slot_number(slot));
    return buf;
}

char *slot_id(unsigned slot, char *buf)
{
    return word(slot_pools[slot_pool_of(slot)].id, slot, buf);
}

char *slot_name(unsigned slot, char *buf)
{
    return word(slot_pools[slot_pool_of(slot)].name, slot, buf);
}

/* The number behind the word; -1: there is none. */
static int number_behind(const char *text, const char *before)
{
    int64_t number = -1;
    size_t len = strlen(before);
    if (strncmp(text, before, len) != 0)
        return -1;
    const char *digits = text + len;
    if (digits[0] == '-' || (digits[0] == '0' && digits[1]) ||
        num_parse(digits, 0, SLOT_POOL_SIZE - 1, &number, /* e= */ NULL) < 0)
        return -1;
    return (int)number;
}

int slot_of_id(const char *id)
{
    for (unsigned p = 0; p < SLOT_N_POOLS; p++) {
        int number = number_behind(id, slot_pools[p].id);
        if (number >= 0)
            return (int)slot_at((enum slot_pool)p, (unsigned)number);
    }
    return -1;
}

int slot_of_name(const char *name)
{
    for (unsigned p = 0; p < SLOT_N_POOLS; p++) {
        int number = number_behind(name, slot_pools[p].name);
        if (number >= 0)
            return (int)slot_at((enum slot_pool)p, (unsigned)number);
    }
    return -1;
}
