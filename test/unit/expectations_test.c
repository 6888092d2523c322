/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "kubeclient/expectations.h"

static const struct object_key a = {.name = "a"};
static const struct object_key b = {.name = "b"};

static struct store *devices, *nodes;
static struct expectations *x;

static void setup(void)
{
    devices = store_new();
    nodes = store_new();
    x = expectations_new();
    store_advance(devices, "10");
    store_advance(nodes, "10");
}

static void teardown(void)
{
    (void)expectations_free(x);
    (void)store_free(devices);
    (void)store_free(nodes);
}

TestSuite(expectations, .init = setup, .fini = teardown);

Test(expectations, a_key_that_wrote_nothing_may_go_on)
{
    cr_assert(expectations_met(x, &a));
}

Test(expectations, a_key_waits_until_its_cache_has_seen_what_it_wrote)
{
    expectations_wrote(x, &a, devices, "12");
    cr_assert_not(expectations_met(x, &a));
    cr_assert(expectations_met(x, &b));
    store_advance(devices, "11");
    cr_assert_not(expectations_met(x, &a));
    store_advance(devices, "12");
    cr_assert(expectations_met(x, &a));
}

Test(expectations, every_cache_must_have_caught_up_with_the_latest_write)
{
    expectations_wrote(x, &a, devices, "15");
    expectations_wrote(x, &a, devices, "12");
    expectations_wrote(x, &a, nodes, "13");
    store_advance(nodes, "13");
    store_advance(devices, "12");
    cr_assert_not(expectations_met(x, &a));
    store_advance(devices, "15");
    cr_assert(expectations_met(x, &a));
}

Test(expectations, what_was_seen_already_is_no_reason_to_wait)
{
    expectations_wrote(x, &a, devices, "9");
    cr_assert(expectations_met(x, &a));
}

Test(expectations, a_server_restored_from_a_backup_does_not_block_for_ever)
{
    expectations_wrote(x, &a, devices, "12");
    store_advance(devices, "5");
    cr_assert(expectations_met(x, &a));
    expectations_wrote(x, &a, devices, "7");
    cr_assert_not(expectations_met(x, &a));
}

Test(expectations, forgetting_a_key_ends_its_wait)
{
    expectations_wrote(x, &a, devices, "12");
    expectations_forget(x, &a);
    cr_assert(expectations_met(x, &a));
}
