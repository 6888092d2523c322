/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limiter/ledger.h"

/* --- A model: every key that there can be, of each kind from 1 on; one that is there has its kind --- */

enum { KINDS = 5, KEYS = 2048, CONTEXTS = 6, STEPS = 400000 };

static struct ledger_entry model[KINDS + 1][KEYS];
static unsigned int seed = 1;

static unsigned int any(unsigned int n)
{
    return (unsigned int)rand_r(&seed) % n;
}

/* Addresses as the card gives them: pieces of 512 bytes beside granules, and small handles. */
static uint64_t key_of(unsigned int i)
{
    if (i % 3 == 0)
        return UINT64_C(0x7f0000000000) + (uint64_t)i * 512;
    return i % 3 == 1 ? UINT64_C(0x7f8000000000) + ((uint64_t)i << 21U) : i;
}

static struct ledger_entry entry(unsigned int kind, unsigned int i)
{
    return (struct ledger_entry){.key = key_of(i),
                                 .bytes = any(1000000),
                                 .owner = any(CONTEXTS),
                                 .kind = (uint8_t)kind,
                                 .card = (int8_t)any(16),
                                 .holds = 1};
}

static bool is_same(const struct ledger_entry *a, const struct ledger_entry *b)
{
    return a->key == b->key && a->bytes == b->bytes && a->owner == b->owner && a->kind == b->kind &&
           a->card == b->card && a->holds == b->holds;
}

static void put(unsigned int kind, unsigned int i)
{
    struct ledger_entry *m = &model[kind][i];
    if (m->kind != 0)
        return;
    *m = entry(kind, i);
    ledger_put(m);
}

static void take(unsigned int kind, unsigned int i)
{
    struct ledger_entry got = {0}, *m = &model[kind][i];
    cr_assert_eq(ledger_take(kind, key_of(i), &got), m->kind != 0);
    cr_assert(m->kind == 0 || is_same(&got, m));
    m->kind = 0;
}

static void hold(unsigned int kind, unsigned int i)
{
    struct ledger_entry got = {0}, *m = &model[kind][i];
    int more = (int)any(5) - 2;
    int left = ledger_hold(kind, key_of(i), more, &got);
    if (m->kind == 0) {
        cr_assert_eq(left, -1);
        return;
    }
    cr_assert_eq(left, (int)m->holds + more);
    m->holds = (uint32_t)(left > 0 ? left : 0);
    cr_assert(is_same(&got, m));
    if (left <= 0)
        m->kind = 0;
}

static void expect_of_model(const struct ledger_entry *e)
{
    for (unsigned int i = 0; i < KEYS; i++) {
        struct ledger_entry *m = &model[e->kind][i];
        if (m->kind == 0 || m->key != e->key)
            continue;
        cr_assert(is_same(e, m));
        m->kind = 0;
        return;
    }
    cr_assert_fail("it is not there, or came twice");
}

static void end_context(uint64_t context)
{
    ledger_end(context, expect_of_model);
    for (unsigned int kind = 1; kind <= KINDS; kind++) {
        for (unsigned int i = 0; i < KEYS; i++)
            cr_assert(model[kind][i].kind == 0 || model[kind][i].owner != context);
    }
}

Test(ledger, is_as_its_model_after_any_step)
{
    for (int step = 0; step < STEPS; step++) {
        unsigned int kind = 1 + any(KINDS), i = any(KEYS), what = any(100);
        if (what < 55)
            put(kind, i);
        else if (what < 85)
            take(kind, i);
        else
            hold(kind, i);
        if (step % 4000 == 3999)
            end_context(1 + any(CONTEXTS - 1));
    }
    for (unsigned int kind = 1; kind <= KINDS; kind++) {
        for (unsigned int i = 0; i < KEYS; i++)
            take(kind, i);
    }
}

/* --- Single promises --- */

Test(ledger, tells_equal_keys_of_different_kinds_apart)
{
    struct ledger_entry e = {.key = 4096, .bytes = 1, .kind = LEDGER_POINTER, .holds = 1}, got;
    ledger_put(&e);
    cr_expect_not(ledger_take(LEDGER_ARRAY, 4096, &got));
    cr_expect(ledger_take(LEDGER_POINTER, 4096, &got));
    cr_expect_not(ledger_take(LEDGER_POINTER, 4096, &got));
}

Test(ledger, what_is_held_often_has_to_be_let_go_of_as_often)
{
    enum { HOLDS = 70000 };
    struct ledger_entry e = {.key = 1, .bytes = 5, .kind = LEDGER_PHYSICAL, .holds = 1}, got;
    ledger_put(&e);
    for (int i = 2; i <= HOLDS; i++)
        cr_assert_eq(ledger_hold(LEDGER_PHYSICAL, 1, 1, &got), i);
    for (int i = HOLDS - 1; i >= 0; i--)
        cr_assert_eq(ledger_hold(LEDGER_PHYSICAL, 1, -1, &got), i);
    cr_expect_eq(got.bytes, 5);
    cr_expect_not(ledger_take(LEDGER_PHYSICAL, 1, &got));
}

Test(ledger, the_child_of_a_fork_has_nothing_in_it_and_takes_nothing_from_its_parent)
{
    struct ledger_entry e = {.key = 4096, .bytes = 1, .kind = LEDGER_POINTER, .holds = 1}, got;
    int status = 0;
    ledger_put(&e);
    pid_t pid = fork();
    if (pid == 0) {
        bool found = ledger_take(LEDGER_POINTER, 4096, &got);
        ledger_put(&e);
        _exit(found || !ledger_take(LEDGER_POINTER, 4096, &got));
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect_eq(status, 0);
    cr_expect(ledger_take(LEDGER_POINTER, 4096, &got));
}
