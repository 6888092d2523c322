/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "gpu_fake_support.h"
#include "nodeagent/loop/exclusive.h"

static char folder[] = "/tmp/cleave-exclusive-XXXXXX";
static struct fake_hw hw;
static struct gpu *gpu;

static void enter(void)
{
    cr_assert_not_null(mkdtemp(folder));
    fake_add(&hw, FAKE_H100);
    gpu = gpu_fake_open(&hw);
}

static void leave(void)
{
    gpu = gpu_free(gpu);
    auto_free char *command = xasprintf("rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(exclusive, .init = enter, .fini = leave);

/* As another process would see it: the card read anew. Returns the mode after it. */
static bool settle(bool wanted)
{
    struct gpu_card card = hw.cards[0].card;
    exclusive_settle(gpu, folder, &card, wanted);
    return hw.cards[0].card.exclusive;
}

Test(exclusive, what_was_set_is_taken_back)
{
    cr_expect(settle(true));
    cr_expect_not(settle(false));
}

Test(exclusive, what_others_set_is_left_alone)
{
    hw.cards[0].card.exclusive = true;
    cr_expect(settle(true));
    cr_expect(settle(false));
}

Test(exclusive, what_others_have_taken_back_is_no_longer_ours)
{
    cr_expect(settle(true));
    hw.cards[0].card.exclusive = false;
    cr_expect_not(settle(false));
    hw.cards[0].card.exclusive = true;
    cr_expect(settle(false));
}

Test(exclusive, nothing_is_called_while_all_is_as_wanted)
{
    unsigned calls = hw.calls;
    (void)settle(false);
    cr_expect_eq(hw.calls, calls);
    cr_expect(settle(true));
    calls = hw.calls;
    (void)settle(true);
    cr_expect_eq(hw.calls, calls);
}

Test(exclusive, a_driver_that_refuses_is_asked_again)
{
    hw.fail_at = hw.calls + 1;
    cr_expect_not(settle(true));
    fake_heal(&hw);
    cr_expect(settle(true));
    cr_expect_not(settle(false));
}

Test(exclusive, a_card_that_could_not_be_read_is_left_alone)
{
    struct gpu_card card = hw.cards[0].card;
    card.unread = true;
    exclusive_settle(gpu, folder, &card, /* wanted= */ true);
    cr_expect_not(hw.cards[0].card.exclusive);
}
