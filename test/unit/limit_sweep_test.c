/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "nodeagent/loop/limit_sweep.h"

static struct card_view views[3];
static struct busy_card busy = {.uuid = "GPU-1"};
static struct cards cards = {.items = views, .n = 3};
static struct jobs jobs = {.cards = &cards};
static struct limit_sweep sweep;

static void set_up(void)
{
    for (unsigned i = 0; i < 3; i++) {
        views[i] = (struct card_view){.card = {.vendor = "nvidia"}};
        (void)snprintf(views[i].card.uuid, sizeof(views[i].card.uuid), "GPU-%u", i);
    }
}

static void tear_down(void)
{
    limit_sweep_done(&sweep);
}

TestSuite(limit_sweep, .init = set_up, .fini = tear_down);

static void expect_next(const char *uuid)
{
    const struct card_view *v = limit_sweep_next(&sweep, &cards, &jobs);
    cr_expect(uuid ? v && strcmp(v->card.uuid, uuid) == 0 : !v, "%s", v ? v->card.uuid : "none");
}

Test(limit_sweep, each_card_is_looked_at_once)
{
    expect_next("GPU-0");
    expect_next("GPU-1");
    expect_next("GPU-2");
    expect_next(NULL);
}

Test(limit_sweep, what_cannot_be_looked_at_now_is_later)
{
    views[0].card.unread = true;
    views[2].card.mode = GPU_MIG;
    jobs.busy = &busy;
    jobs.n_busy = 1;
    expect_next(NULL);
    jobs.n_busy = 0;
    expect_next("GPU-1");
    views[0].card.unread = false;
    views[2].card.mode = GPU_NATIVE;
    expect_next("GPU-0");
    expect_next("GPU-2");
}

Test(limit_sweep, cards_without_shares_have_no_limits)
{
    for (unsigned i = 0; i < 3; i++)
        views[i].card.vendor = "metax";
    expect_next(NULL);
}
