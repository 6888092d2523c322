/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/auto.h"

#include "nodeagent/container/slot_pool.h"

static const struct {
    const char *name;
    int slot; /* -1: it is none */
} names[] = {
    {"slot.0", 0},
    {"slot.1023", 1023},
    {"slot.1024", -1},
    {"slot.01", -1},
    {"slot.-0", -1},
    {"slot.-1", -1},
    {"slot", -1},
    {"GPU-0", -1},
    {"../slot.1", -1},
    {"slot.1x", -1},
    {"slot.1/..", -1},
    {"slot.", -1},
    {"", -1},
    {"share.0", 1024},
    {"share.7", 1031},
    {"share.1023", 2047},
    {"share.1024", -1},
    {"share.007", -1},
    {"share", -1},
    {"shareslot.1", -1},
    {"share.slot.1", -1},
    {"slot.3share.3", -1},
};

Test(slot_pool, names_are_a_number_behind_the_pools_word)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        cr_expect_eq(slot_of_name(names[i].name), names[i].slot, "%s", names[i].name);
}

Test(slot_pool, a_slot_has_one_identifier_and_one_name)
{
    char word[SLOT_WORD_BYTES];
    for (unsigned slot = 0; slot < SLOT_MAX; slot++) {
        cr_assert_eq(slot_of_id(slot_id(slot, word)), (int)slot);
        cr_assert_eq(slot_of_name(slot_name(slot, word)), (int)slot);
        cr_assert_eq(slot_at(slot_pool_of(slot), slot_number(slot)), slot);
        cr_assert_eq(slot_of_id(slot_name(slot, word)), -1);
    }
    cr_expect_str_eq(slot_id(3, word), "sgpu@3");
    cr_expect_str_eq(slot_name(3, word), "slot.3");
    cr_expect_str_eq(slot_id(SLOT_POOL_SIZE + 3, word), "share@3");
    cr_expect_str_eq(slot_name(SLOT_POOL_SIZE + 3, word), "share.3");
}

Test(slot_pool, what_is_no_slots_identifier_is_none)
{
    static const char *const others[] = {"sgpu@",      "sgpu@01", "sgpu@1024", "share@-1",
                                         "share@1::0", "GPU-1",   "sgpu3",     "share@ 1"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        cr_expect_eq(slot_of_id(others[i]), -1, "%s", others[i]);
}
