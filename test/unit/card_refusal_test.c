/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "nodeagent/loop/card_refusal.h"

static const struct device_want want = {.mode = API_MODE_NATIVE};

static struct card_view well(void)
{
    return (struct card_view){.card = {.vendor = "nvidia", .uuid = "GPU-a", .healthy = true}};
}

static void expect(const struct card_view *v, const char *illness, const char *reason,
                   const char *text)
{
    struct card_wish wish;
    struct card_refusal r;
    const struct sharing_means means = {.publisher = API_PUBLISHER_CONTROLLER};
    card_refusal_of(v, &want, illness, &means, &wish, &r);
    cr_expect_str_eq(r.reason ? r.reason : "", reason);
    if (r.reason)
        cr_expect_str_eq(r.text, text);
}

Test(card_refusal, a_card_that_is_read_and_well_is_not_refused)
{
    const struct card_view v = well();
    expect(&v, NULL, "", "");
}

Test(card_refusal, a_card_that_is_not_there_is_refused)
{
    expect(NULL, NULL, "DeviceNotFound", "there is no such card on this node");
}

Test(card_refusal, a_card_that_was_never_read_is_refused_with_its_illness)
{
    struct card_view v = well();
    v.card.unread = true;
    (void)snprintf(v.card.unhealthy_message, sizeof(v.card.unhealthy_message), "no answer");
    expect(&v, NULL, "ReadFailed", "no answer");
}

/* It has no illness to name, and a condition needs a text. */
Test(card_refusal, a_card_that_was_never_read_since_another_call_works_on_it_is_waited_for)
{
    struct card_view v = well();
    v.card.unread = v.card.busy = true;
    expect(&v, NULL, "Progressing", "the card was not read yet: another call works on it");
}

Test(card_refusal, a_card_that_the_last_reading_could_not_read_is_refused_though_it_is_known)
{
    struct card_view v = well();
    v.unreadable = true;
    (void)snprintf(v.card.unhealthy_message, sizeof(v.card.unhealthy_message), "no answer");
    expect(&v, NULL, "ReadFailed", "no answer");
}

Test(card_refusal, an_illness_that_only_the_driver_reported_is_the_reason)
{
    const struct card_view v = well();
    expect(&v, "Xid 79", "Unhealthy", "Xid 79");
}
