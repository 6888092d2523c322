/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_shared.h"

#define WORDS (SHARED_MAX_HOLDERS / 64)

static bool is_empty(const struct shared_piece *p)
{
    uint64_t any = 0;
    for (size_t i = 0; i < WORDS; i++)
        any |= p->holders[i];
    return any == 0;
}

static uint64_t bit_of(uint32_t holder)
{
    return UINT64_C(1) << (holder % 64);
}

static struct shared_piece *find_empty(struct shared_pieces *s)
{
    for (uint32_t i = 0; i < s->reach; i++) {
        if (is_empty(&s->pieces[i]))
            return &s->pieces[i];
    }
    return s->reach < SHARED_MAX ? &s->pieces[s->reach] : NULL;
}

/* The holder comes last: with it the piece is there. */
bool shared_add(struct shared_pieces *s, uint32_t holder, uint32_t gpu, uint64_t bytes,
                struct shared_name *ret)
{
    struct shared_piece *p = find_empty(s);
    if (p == NULL)
        return false;
    uint32_t slot = (uint32_t)(p - s->pieces);
    *p = (struct shared_piece){.serial = ++s->serials, .bytes = bytes, .gpu = gpu, .owner = holder};
    if (s->reach <= slot)
        s->reach = slot + 1;
    shared_hold(p, holder);
    *ret = (struct shared_name){.serial = p->serial, .slot = slot};
    return true;
}

struct shared_piece *shared_find(struct shared_pieces *s, struct shared_name name)
{
    if (name.serial == 0 || name.slot >= SHARED_MAX)
        return NULL;
    struct shared_piece *p = &s->pieces[name.slot];
    return p->serial == name.serial && !is_empty(p) ? p : NULL;
}

void shared_hold(struct shared_piece *p, uint32_t holder)
{
    p->holders[holder / 64] |= bit_of(holder);
}

static void shrink(struct shared_pieces *s)
{
    while (s->reach > 0 && is_empty(&s->pieces[s->reach - 1]))
        s->reach--;
}

bool shared_let_go(struct shared_pieces *s, struct shared_piece *p, uint32_t holder)
{
    p->holders[holder / 64] &= ~bit_of(holder);
    shrink(s);
    return is_empty(p);
}

bool shared_is_held_by(const struct shared_piece *p, uint32_t holder)
{
    return (p->holders[holder / 64] & bit_of(holder)) != 0;
}

void shared_forget(struct shared_pieces *s, uint32_t holder)
{
    for (uint32_t i = 0; i < s->reach; i++)
        s->pieces[i].holders[holder / 64] &= ~bit_of(holder);
    shrink(s);
}

uint64_t shared_bytes(const struct shared_pieces *s, uint32_t gpu)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->reach; i++) {
        const struct shared_piece *p = &s->pieces[i];
        sum += p->gpu == gpu && !is_empty(p) ? p->bytes : 0;
    }
    return sum;
}

/* The owner, or the first of those that there are. */
static uint32_t keeper_of(const struct shared_piece *p)
{
    if (shared_is_held_by(p, p->owner))
        return p->owner;
    for (uint32_t i = 0; i < WORDS; i++) {
        if (p->holders[i] != 0)
            return i * 64 + (uint32_t)__builtin_ctzll(p->holders[i]);
    }
    return SHARED_MAX_HOLDERS;
}

void shared_add_own_bytes(const struct shared_pieces *s, uint32_t holder, uint64_t *bytes)
{
    for (uint32_t i = 0; i < s->reach; i++) {
        const struct shared_piece *p = &s->pieces[i];
        if (p->gpu < HW_MAX_GPUS && keeper_of(p) == holder)
            bytes[p->gpu] += p->bytes;
    }
}
