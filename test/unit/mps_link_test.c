/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "mps_support.h"
#include "nodeagent/loop/mps_link.h"

/*
 * Two cards under one resource, of which tests say whether they are shared by MPS.
 */
static char names[][8] = {"GPU-0", "GPU-1"};
static char resource_name[] = "nvidia.com/gpu";
static const char *const first[] = {names[0]};
static const char *const both[] = {names[0], names[1]};

static struct table_device devices[ARRAY_LEN(names)];
static struct table_resource gpus = {.name = resource_name, .devices = devices};
static const struct device_table table = {.resources = &gpus, .n_resources = 1};
static struct seals seals;
static struct clock *clk;
static struct reactor *reactor;
static struct mps_link *link_of_cards;
static int changes;

static void count_change(void *arg)
{
    (void)arg;
    changes++;
}

/* The table has so many of the cards. */
static void offer(size_t n)
{
    gpus.n_devices = n;
}

static void fill_devices(void)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        devices[i] = (struct table_device){.healthy = true,
                                           .replicas = 2,
                                           .mps = true,
                                           .memory_mib = 81920,
                                           .entry = {.vendor = "nvidia",
                                                     .cdi_name = names[i],
                                                     .uuid = names[i],
                                                     .card_uuid = names[i]}};
        (void)snprintf(devices[i].id, sizeof(devices[i].id), "%s", names[i]);
    }
    offer(ARRAY_LEN(names));
}

static void enter(void)
{
    folder_enter();
    cr_assert_eq(file_write_atomic("program", mps_script, strlen(mps_script), 0755, NULL), 0);
    clk = clock_fake_new(0);
    cr_assert_eq(reactor_new(clk, &reactor, NULL), 0);
    auto_free char *program = xasprintf("%s/program", folder_path());
    const struct mps_options mps = {.root = folder_path(), .program = program};
    fill_devices();
    link_of_cards = mps_link_new(&(const struct mps_link_options){.reactor = reactor,
                                                                  .mps = &mps,
                                                                  .table = &table,
                                                                  .seals = &seals,
                                                                  .on_change = count_change});
}

static void leave(void)
{
    link_of_cards = mps_link_free(link_of_cards);
    reactor = reactor_free(reactor);
    clk = clock_free(clk);
    seals_done(&seals);
    folder_leave();
}

TestSuite(mps_link, .init = enter, .fini = leave, .timeout = 20);

/* Lets the clock go on, as pauses of the daemons demand. What never comes is ended by the test's
 * limit. */
static void step(void)
{
    clock_fake_advance(clk, 100);
    reactor_run(reactor, 20);
}

static void wait_daemon(size_t card)
{
    while (!mps_link_has_daemon(link_of_cards, &devices[card]))
        step();
}

static void wait_ended(const char *owner)
{
    while (!mps_link_has_ended(link_of_cards, owner))
        step();
}

static bool was_started(const char *name)
{
    auto_free char *path = xasprintf("%s/log/starts", name);
    return access(path, F_OK) == 0;
}

static int enter_with(const char *const *ids, size_t n, struct entry *ret)
{
    return mps_link_enter(link_of_cards, &gpus, ids, n, ret, NULL);
}

Test(mps_link, a_device_that_is_not_shared_by_mps_needs_no_daemon)
{
    auto_entry struct entry en = {0};
    devices[0].mps = devices[1].mps = false;
    mps_link_update(link_of_cards);
    cr_expect(mps_link_has_daemon(link_of_cards, &devices[0]));
    cr_expect_eq(enter_with(both, 2, &en), 0);
    cr_expect_eq(en.n_envs + en.n_mounts, 0);
    cr_expect_not(was_started(names[0]));
}

Test(mps_link, a_client_gets_in_once_the_daemon_is_ready_and_that_is_told)
{
    auto_entry struct entry en = {0};
    mps_link_update(link_of_cards);
    cr_expect_eq(enter_with(first, 1, &en), -ERR_UNAVAILABLE);
    cr_expect_eq(changes, 0, "the module sets its units itself");
    wait_daemon(0);
    wait_daemon(1);
    cr_expect_eq(changes, 2);
    cr_expect_eq(enter_with(first, 1, &en), 0);
    cr_assert_eq(en.n_envs, 1);
    cr_expect_str_eq(en.envs[0].key, "CUDA_MPS_PIPE_DIRECTORY");
    cr_expect_null(mps_link_trouble(link_of_cards));
}

/* mps_link_update is called by the user of the link, to whom a change is told: told from within the
 * call, he would call again. */
Test(mps_link, a_daemon_that_ends_because_it_was_set_so_is_not_told_before_it_has_ended)
{
    mps_link_update(link_of_cards);
    wait_daemon(0);
    wait_daemon(1);
    changes = 0;
    seals_put(&seals, "change", first, 1);
    mps_link_update(link_of_cards);
    cr_expect_not(mps_link_has_daemon(link_of_cards, &devices[0]));
    cr_expect_eq(changes, 0, "it was ready, and is ended from within");
    wait_ended("change");
    cr_expect_eq(changes, 1);
}

Test(mps_link, a_daemon_that_is_taken_back_before_it_was_started_is_not_told)
{
    mps_link_update(link_of_cards);
    offer(0);
    mps_link_update(link_of_cards);
    cr_expect_eq(changes, 0);
    step();
    cr_expect_not(was_started(names[0]));
}

Test(mps_link, a_container_is_the_client_of_one_daemon_and_not_of_two)
{
    static const char *const replicas[] = {"GPU-0::0", "GPU-0::1"};
    auto_entry struct entry en = {0};
    auto_err struct err e = {0};
    mps_link_update(link_of_cards);
    wait_daemon(0);
    wait_daemon(1);
    cr_expect_eq(mps_link_enter(link_of_cards, &gpus, both, 2, &en, &e), -ERR_INVALID);
    cr_expect_not_null(strstr(err_msg(&e), resource_name), "%s", err_msg(&e));
    cr_expect_eq(en.n_envs, 0);
    cr_expect_eq(enter_with(replicas, 2, &en), 0);
    cr_expect_eq(en.n_envs, 1);
}

Test(mps_link, no_daemon_is_started_while_the_agent_before_has_its_own)
{
    mps_link_wait(link_of_cards, /* waits= */ true);
    mps_link_update(link_of_cards);
    step();
    cr_expect_not(was_started(names[0]));
    mps_link_wait(link_of_cards, /* waits= */ false);
    wait_daemon(0);
    cr_expect(was_started(names[0]));
}

Test(mps_link, the_daemon_of_a_sealed_device_ends_and_the_other_one_stays)
{
    mps_link_update(link_of_cards);
    wait_daemon(0);
    wait_daemon(1);
    cr_expect(mps_link_has_ended(link_of_cards, "change"), "that has sealed nothing");
    seals_put(&seals, "change", first, 1);
    mps_link_update(link_of_cards);
    cr_expect_not(mps_link_has_ended(link_of_cards, "change"));
    wait_ended("change");
    cr_expect_not(mps_link_has_daemon(link_of_cards, &devices[0]));
    cr_expect(mps_link_has_daemon(link_of_cards, &devices[1]));
    seals_drop(&seals, "change");
    mps_link_update(link_of_cards);
    wait_daemon(0);
}

Test(mps_link, a_frozen_link_leaves_its_daemons_as_they_are)
{
    static const struct mps_cards none;
    mps_link_update(link_of_cards);
    mps_link_freeze(link_of_cards);
    wait_daemon(0);
    wait_daemon(1);
    offer(0);
    mps_link_update(link_of_cards);
    mps_link_set_cards(link_of_cards, &none);
    step();
    cr_expect(mps_link_has_daemon(link_of_cards, &devices[0]));
    cr_expect_eq(changes, 0, "nobody acts on it any more");
}

Test(mps_link, a_card_whose_shares_are_clients_has_a_daemon_by_its_name)
{
    static const struct mps_cards cards = {{{"GPU-2", 40960}}, 1};
    auto_entry struct entry en = {0};
    offer(0);
    mps_link_set_cards(link_of_cards, &cards);
    while (mps_link_enter_daemon(link_of_cards, "GPU-2", &en, NULL) != 0)
        step();
    cr_expect_eq(en.n_envs, 1);
    seals_put(&seals, "GPU-2", NULL, 0);
    mps_link_update(link_of_cards);
    cr_expect_not(mps_link_has_ended(link_of_cards, "GPU-2"));
    wait_ended("GPU-2");
    cr_expect_eq(mps_link_enter_daemon(link_of_cards, "GPU-2", &en, NULL), -ERR_UNAVAILABLE);
}

Test(mps_link, a_daemon_that_cannot_run_is_trouble_until_it_does)
{
    cr_assert_eq(unlink("program"), 0);
    offer(1);
    while (!mps_link_trouble(link_of_cards)) { /* each report of the node looks anew */
        mps_link_update(link_of_cards);
        step();
    }
    const char *trouble = mps_link_trouble(link_of_cards);
    cr_expect(strstr(trouble, "GPU-0 cannot be shared by MPS: "), "%s", trouble);
    cr_assert_eq(file_write_atomic("program", mps_script, strlen(mps_script), 0755, NULL), 0);
    wait_daemon(0);
    cr_expect_null(mps_link_trouble(link_of_cards));
}

Test(mps_link, replicas_that_mps_does_not_serve_are_trouble_and_the_other_card_is_shared)
{
    devices[0].replicas = MPS_MAX_REPLICAS + 1;
    mps_link_update(link_of_cards);
    cr_expect_not_null(mps_link_trouble(link_of_cards));
    wait_daemon(1);
    cr_expect_not(mps_link_has_daemon(link_of_cards, &devices[0]));
}

Test(mps_link, where_nothing_can_be_shared_by_mps_a_client_is_refused)
{
    auto_entry struct entry en = {0};
    mps_link_update(NULL);
    mps_link_wait(NULL, /* waits= */ false);
    mps_link_freeze(NULL);
    cr_expect_not(mps_link_has_daemon(NULL, &devices[0]));
    cr_expect(mps_link_has_ended(NULL, names[0]));
    cr_expect_eq(mps_link_enter(NULL, &gpus, first, 1, &en, NULL), -ERR_UNAVAILABLE);
    cr_expect_eq(mps_link_enter_daemon(NULL, names[0], &en, NULL), -ERR_UNAVAILABLE);
    cr_expect_null(mps_link_trouble(NULL));
    cr_expect_null(mps_link_free(NULL));
}
