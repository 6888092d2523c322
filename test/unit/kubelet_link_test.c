/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "mps_support.h"
#include "nodeagent/loop/kubelet_link.h"

/*
 * A node without a kubelet, with two cards shared by MPS.
 */
static char cards[][8] = {"GPU-0", "GPU-1"};

static struct clock *clk;
static struct kubelet_link *served;

static void offer_cards(void)
{
    struct table_device devices[ARRAY_LEN(cards)] = {0};
    char name[] = "nvidia.com/gpu";
    struct table_resource gpus = {.name = name, .devices = devices, .n_devices = ARRAY_LEN(cards)};
    for (size_t i = 0; i < ARRAY_LEN(cards); i++) {
        struct table_device *d = &devices[i];
        *d = (struct table_device){.card_index = (uint8_t)i,
                                   .healthy = true,
                                   .replicas = 2,
                                   .mps = true,
                                   .memory_mib = 81920,
                                   .numa = -1,
                                   .entry = {.vendor = "nvidia",
                                             .cdi_name = cards[i],
                                             .uuid = cards[i],
                                             .card_uuid = cards[i]}};
        (void)snprintf(d->id, sizeof(d->id), "%s", cards[i]);
    }
    kubelet_link_offer(served, &(struct device_table){.resources = &gpus, .n_resources = 1});
}

static void enter(void)
{
    folder_enter();
    cr_assert_eq(file_make_dirs("kubelet/device-plugins", 0755, NULL), 0);
    cr_assert_eq(file_write_atomic("program", mps_script, strlen(mps_script), 0755, NULL), 0);
    clk = clock_fake_new(0);
    auto_free char *kubelet_dir = xasprintf("%s/kubelet", folder_path());
    auto_free char *program = xasprintf("%s/program", folder_path());
    const struct kubelet_link_options o = {
        .clk = clk,
        .kubelet_dir = kubelet_dir,
        .mps = {.root = folder_path(), .program = program},
    };
    auto_err struct err e = {0};
    cr_assert_eq(kubelet_link_new(&o, &served, &e), 0, "%s", err_msg(&e));
}

static void leave(void)
{
    served = kubelet_link_free(served);
    clk = clock_free(clk);
    folder_leave();
}

TestSuite(kubelet_link, .init = enter, .fini = leave, .timeout = 60);

static void dispatch(void)
{
    struct pollfd fd = {.fd = kubelet_link_fd(served), .events = POLLIN};
    (void)poll(&fd, 1, 20);
    kubelet_link_dispatch(served);
}

static size_t unready(void)
{
    size_t n;
    auto_free const char **names = kubelet_link_unready(served, &n);
    (void)names; /* only their number matters here */
    return n;
}

/* Lets the clock go on, as pauses of the daemons demand, until so many cards cannot be given; what
 * never comes is ended by the test's limit. */
static void wait_unready(size_t n)
{
    while (unready() != n) {
        clock_fake_advance(clk, 100);
        dispatch();
    }
}

static size_t starts(const char *card)
{
    char *text = NULL;
    size_t len = 0;
    auto_free char *path = xasprintf("%s/log/starts", card);
    cr_assert_eq(file_read(path, 4096, &text, &len, NULL), 0);
    free(text);
    return len;
}

static void seal(const char *card)
{
    kubelet_link_seal(served, card, &card, 1);
}

static bool is_released(const char *card)
{
    return kubelet_link_has_no_daemon(served, card);
}

static void wait_released(const char *card)
{
    while (!is_released(card))
        dispatch();
}

Test(kubelet_link, the_withdrawal_of_one_card_leaves_that_of_another_alone)
{
    offer_cards();
    wait_unready(0);
    seal(cards[0]);
    seal(cards[1]);
    wait_released(cards[1]);
    wait_released(cards[0]);
    seal(cards[0]); /* an attempt that is repeated */
    cr_expect(is_released(cards[0]), "its daemon stayed away while the other's ended");
    cr_expect(is_released(cards[1]));
    kubelet_link_unseal(served, cards[1]);
    wait_unready(1);
    cr_expect(is_released(cards[0]), "the end of another card's change starts no daemon");
    cr_expect_eq(starts(cards[0]), 1, "%zu starts", starts(cards[0]));
    cr_expect_eq(starts(cards[1]), 2, "%zu starts", starts(cards[1]));
    kubelet_link_unseal(served, cards[0]);
    wait_unready(0);
}

Test(kubelet_link, which_grants_are_outdated_is_not_known_before_the_kubelets_record_was_read)
{
    static const struct driver_view driver;
    cr_expect_null(kubelet_link_outdated(served));
    offer_cards();
    kubelet_link_set_driver(served, &driver);
    cr_expect_null(kubelet_link_outdated(served));
}
