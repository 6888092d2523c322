/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/health/health.h"

/* A card with MIG and two instances of one partition each, as a driver that names its recovery
 * action reads it. */
struct bed {
    struct gpu_card card;
    struct health *h;
    int64_t now;
};

enum { SETTLE = 60000, HOLD = 600000, FIRST = 1, SECOND = 2, WHOLE = -1 };

static void put_instance(struct gpu_card *c, unsigned gi_id, const char *uuid)
{
    c->state.items[c->state.n++] = (struct mig_instance){.gi_id = gi_id, .n_cis = 1};
    struct gpu_partition *p = &c->partitions[c->n_partitions++];
    *p = (struct gpu_partition){.gi_id = gi_id, .healthy = true};
    (void)snprintf(p->uuid, sizeof(p->uuid), "%s", uuid);
}

static void start(struct bed *b, const struct health_options *o)
{
    *b = (struct bed){.h = health_new(o), .now = 1000};
    b->card = (struct gpu_card){.uuid = "GPU-0", .healthy = true, .mode = GPU_MIG};
    b->card.vitals.action_known = true;
    put_instance(&b->card, FIRST, "MIG-a");
    put_instance(&b->card, SECOND, "MIG-b");
    health_reading(b->h, &b->card, b->now);
}

static void stop(struct bed *b)
{
    b->h = health_free(b->h);
}

static enum xid_effect xid(struct bed *b, uint64_t code, int gi_id)
{
    const struct gpu_event ev = {.kind = GPU_EVENT_XID, .code = code, .gi_id = gi_id, .ci_id = -1};
    return health_xid(b->h, &b->card, &ev, b->now);
}

/* A reading that begins so long after the last step. */
static void read_after(struct bed *b, int64_t ms)
{
    b->now += ms;
    health_reading(b->h, &b->card, b->now);
}

/* "card", or which of the two instances are well: "ab", "b", "". */
static const char *well(const struct bed *b)
{
    static char text[8];
    struct gpu_card shown = b->card;
    health_apply(b->h, &shown);
    if (!shown.healthy)
        return "card is ill";
    memset(text, 0, sizeof(text));
    for (unsigned i = 0; i < shown.n_partitions; i++)
        if (shown.partitions[i].healthy)
            text[strlen(text)] = shown.partitions[i].gi_id == FIRST ? 'a' : 'b';
    return text;
}

#define EXPECT_WELL(b, what, ...) cr_expect_str_eq(well(b), what, __VA_ARGS__)

/* --- the table --- */

Test(health, what_is_a_programs_own_fault_harms_nobody)
{
    static const uint64_t own[] = {13, 31, 43, 45, 68, 109, 32, 69, 94, 137, 63};
    struct bed b;
    start(&b, NULL);
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        cr_expect_leq(xid(&b, own[i], FIRST), XID_LOOK, "%d", (int)own[i]);
        cr_expect_leq(xid(&b, own[i], WHOLE), XID_LOOK, "%d", (int)own[i]);
    }
    EXPECT_WELL(&b, "ab", "nothing happened to the hardware");
    stop(&b);
}

Test(health, effects_are_those_of_the_catalogue)
{
    static const struct {
        uint64_t xid;
        enum xid_effect effect;
    } rows[] = {{8, XID_IGNORED}, {13, XID_IGNORED}, {43, XID_IGNORED}, {46, XID_RESET},
                {48, XID_RESET},  {62, XID_RESET},   {63, XID_LOOK},    {64, XID_RESET},
                {74, XID_RESET},  {79, XID_REBOOT},  {92, XID_IGNORED}, {94, XID_LOOK},
                {95, XID_RESET},  {109, XID_LOOK},   {119, XID_RESET},  {120, XID_RESET},
                {140, XID_RESET}, {143, XID_RESET},  {149, XID_LOOK},   {154, XID_LOOK},
                {158, XID_RESET}, {0, XID_SUSPECT},  {61, XID_SUSPECT}, {999, XID_SUSPECT}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_eq(xid_effect(rows[i].xid), rows[i].effect, "Xid %d", (int)rows[i].xid);
}

Test(health, every_xid_of_the_table_has_words)
{
    for (uint64_t x = 0; x < 200; x++)
        cr_expect_eq(xid_effect(x) == XID_SUSPECT, *xid_words(x) == '\0', "Xid %d", (int)x);
}

/* --- where --- */

Test(health, sick_instance_leaves_its_neighbour_alone)
{
    struct bed b;
    const char *reason = NULL;
    const char *message = NULL;
    start(&b, NULL);
    cr_expect_eq(xid(&b, 95, FIRST), XID_RESET);
    EXPECT_WELL(&b, "b", "only what the event names");
    cr_assert(health_instance(b.h, "GPU-0", FIRST, &reason, &message));
    cr_expect_str_eq(reason, "XidError");
    cr_expect(strstr(message, "Xid 95 (an uncontained memory error)"), "%s", message);
    cr_expect_not(health_instance(b.h, "GPU-0", SECOND, &reason, &message));
    stop(&b);
}

Test(health, fault_of_a_shared_part_is_of_the_card_whatever_instance_saw_it)
{
    struct bed b;
    start(&b, NULL);
    cr_expect_eq(xid(&b, 119, FIRST), XID_RESET);
    EXPECT_WELL(&b, "card is ill", "the system processor is everybody's");
    stop(&b);
}

Test(health, event_without_an_instance_is_of_the_card)
{
    struct bed b;
    struct gpu_card shown;
    start(&b, NULL);
    cr_expect_eq(xid(&b, 48, WHOLE), XID_RESET);
    shown = b.card;
    health_apply(b.h, &shown);
    cr_expect_not(shown.healthy || shown.partitions[0].healthy || shown.partitions[1].healthy);
    cr_expect_str_eq(shown.unhealthy_reason, "XidError");
    cr_expect(strstr(shown.unhealthy_message, "reset"), "%s", shown.unhealthy_message);
    const char *reason = NULL;
    const char *message = NULL;
    cr_expect(health_card(b.h, "GPU-0", &reason, &message));
    cr_expect_not(health_instance(b.h, "GPU-0", FIRST, &reason, &message));
    stop(&b);
}

Test(health, event_of_an_unknown_card_asks_for_a_reading_and_harms_nobody)
{
    struct bed b;
    const struct gpu_event ev = {.kind = GPU_EVENT_XID, .code = 48, .gi_id = -1, .ci_id = -1};
    start(&b, NULL);
    cr_expect_eq(health_xid(b.h, NULL, &ev, b.now), XID_LOOK);
    EXPECT_WELL(&b, "ab", "it was another card");
    stop(&b);
}

Test(health, what_a_reading_says_is_not_taken_back)
{
    struct bed b;
    start(&b, NULL);
    gpu_card_mark_ill(&b.card, "ResetRequired", "the driver asks");
    EXPECT_WELL(&b, "card is ill", "the reading's own");
    (void)xid(&b, 48, WHOLE);
    struct gpu_card shown = b.card;
    health_apply(b.h, &shown);
    cr_expect_str_eq(shown.unhealthy_reason, "ResetRequired", "the driver knows best");
    stop(&b);
}

/* --- when it is over --- */

Test(health, instance_that_was_made_again_is_well)
{
    struct bed b;
    start(&b, NULL);
    (void)xid(&b, 95, FIRST);
    b.card.vitals.action_known = false;
    read_after(&b, 1);
    EXPECT_WELL(&b, "b", "it is the same one still");
    b.card.partitions[0].uuid[4] = 'c';
    read_after(&b, 1);
    EXPECT_WELL(&b, "ab", "another instance has its number now");
    stop(&b);
}

Test(health, instance_that_is_gone_leaves_no_illness_to_the_next_of_its_number)
{
    struct bed b;
    start(&b, NULL);
    (void)xid(&b, 95, SECOND);
    b.card.state.n = b.card.n_partitions = 1;
    read_after(&b, 1);
    put_instance(&b.card, SECOND, "MIG-b");
    read_after(&b, 1);
    EXPECT_WELL(&b, "ab", "even if it were called the same");
    stop(&b);
}

Test(health, driver_that_asks_for_nothing_ends_it_once_it_had_time_to)
{
    struct bed b;
    start(&b, NULL);
    (void)xid(&b, 48, WHOLE);
    read_after(&b, SETTLE - 1);
    EXPECT_WELL(&b, "card is ill", "it may yet ask");
    (void)xid(&b, 48, WHOLE);
    read_after(&b, SETTLE - 1);
    EXPECT_WELL(&b, "card is ill", "the last one counts");
    read_after(&b, 1);
    EXPECT_WELL(&b, "ab", "it does not ask");
    stop(&b);
}

Test(health, driver_that_asks_for_a_reset_keeps_it_ill)
{
    struct bed b;
    start(&b, NULL);
    (void)xid(&b, 48, FIRST);
    b.card.vitals.action = 1;
    read_after(&b, 10 * HOLD);
    EXPECT_WELL(&b, "b", "remembered beside what the reading says of the card");
    b.card.vitals.action = 0;
    read_after(&b, 1);
    EXPECT_WELL(&b, "ab", "it was reset");
    stop(&b);
}

Test(health, reading_that_began_before_the_event_ends_nothing)
{
    struct bed b;
    start(&b, NULL);
    b.card.vitals.action = 1;
    read_after(&b, 10);
    (void)xid(&b, 48, WHOLE);
    b.card.vitals.action = 0;
    health_reading(b.h, &b.card, b.now - 1);
    EXPECT_WELL(&b, "card is ill", "it shows the time before");
    stop(&b);
}

Test(health, counter_that_begins_anew_shows_the_reset)
{
    struct bed b;
    start(&b, NULL);
    b.card.vitals = (struct gpu_vitals){.ecc_known = true, .ecc_uncorrected = 2};
    read_after(&b, 1);
    (void)xid(&b, 48, WHOLE);
    read_after(&b, 10 * HOLD);
    EXPECT_WELL(&b, "card is ill", "an old driver; nothing says that it is over");
    b.card.vitals.ecc_uncorrected = 0;
    read_after(&b, 1);
    EXPECT_WELL(&b, "ab", "only a reset does that");
    stop(&b);
}

Test(health, lost_card_that_can_be_read_again_is_well)
{
    struct bed b;
    start(&b, NULL);
    cr_expect_eq(xid(&b, 79, WHOLE), XID_REBOOT);
    struct gpu_card lost = b.card;
    lost.unread = true;
    gpu_card_mark_ill(&lost, "GPULost", "it fell off the bus");
    health_reading(b.h, &lost, b.now + 1);
    EXPECT_WELL(&b, "card is ill", "it is away");
    read_after(&b, 2);
    EXPECT_WELL(&b, "ab", "it is back, after a reset of its bus");
    stop(&b);
}

Test(health, card_that_was_never_seen_to_be_lost_needs_only_to_be_read)
{
    struct bed b;
    start(&b, NULL);
    b.card.vitals.action_known = false;
    (void)xid(&b, 79, WHOLE);
    read_after(&b, SETTLE - 1);
    EXPECT_WELL(&b, "card is ill", "it may yet go");
    read_after(&b, 1);
    EXPECT_WELL(&b, "ab", "it is there");
    stop(&b);
}

Test(health, unknown_xid_is_held_only_so_long_where_the_driver_says_nothing)
{
    struct bed b;
    start(&b, NULL);
    b.card.vitals.action_known = false;
    cr_expect_eq(xid(&b, 600, FIRST), XID_SUSPECT);
    read_after(&b, HOLD - 1);
    EXPECT_WELL(&b, "b", "nobody knows");
    read_after(&b, 1);
    EXPECT_WELL(&b, "ab", "nor ever will");
    stop(&b);
}

Test(health, worse_news_replace_better_ones_and_not_the_other_way)
{
    struct bed b;
    const char *reason = NULL;
    const char *message = NULL;
    start(&b, NULL);
    (void)xid(&b, 600, FIRST);
    (void)xid(&b, 95, FIRST);
    (void)xid(&b, 601, FIRST);
    cr_assert(health_instance(b.h, "GPU-0", FIRST, &reason, &message));
    cr_expect(strstr(message, "Xid 95"), "%s", message);
    stop(&b);
}

Test(health, cards_that_are_gone_are_forgotten)
{
    struct bed b;
    const char *const others[] = {"GPU-1"};
    start(&b, NULL);
    (void)xid(&b, 48, WHOLE);
    health_keep(b.h, others, 1);
    EXPECT_WELL(&b, "ab", "nothing is known of it");
    stop(&b);
}

/* --- overrides --- */

Test(health, disabled_xids_harm_nobody_and_enabled_ones_win)
{
    struct health_options o = {0};
    struct bed b;
    cr_assert_eq(health_options_parse("48, 95", "95,13", &o, NULL), 0);
    start(&b, &o);
    cr_expect_eq(xid(&b, 48, WHOLE), XID_IGNORED);
    cr_expect_eq(xid(&b, 95, FIRST), XID_RESET);
    cr_expect_eq(xid(&b, 13, SECOND), XID_SUSPECT);
    cr_expect_eq(xid(&b, 62, WHOLE), XID_RESET, "what nobody speaks of");
    stop(&b);
}

/* docs/health.md says why NVIDIA's catalogue decides, and how to have its device plugin's answer.
 */
Test(health, xids_that_the_catalogue_blames_on_programs_count_where_they_are_asked_for)
{
    struct health_options o = {0};
    struct bed b;
    start(&b, NULL);
    cr_expect_eq(xid(&b, 8, WHOLE), XID_IGNORED);
    cr_expect_eq(xid(&b, 92, WHOLE), XID_IGNORED);
    EXPECT_WELL(&b, "ab", "no hardware failed");
    stop(&b);
    cr_assert_eq(health_options_parse(NULL, "8,92", &o, NULL), 0);
    start(&b, &o);
    cr_expect_eq(xid(&b, 8, FIRST), XID_SUSPECT);
    EXPECT_WELL(&b, "b", "only what the event names");
    cr_expect_eq(xid(&b, 92, WHOLE), XID_SUSPECT);
    stop(&b);
}

Test(health, all_xids_can_be_disabled_but_for_enabled_ones)
{
    static const char *const words[] = {"all", "xids", "XIDS", "13,all"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        struct health_options o = {0};
        struct bed b;
        cr_assert_eq(health_options_parse(words[i], "79", &o, NULL), 0);
        start(&b, &o);
        cr_expect_eq(xid(&b, 48, WHOLE), XID_IGNORED, "%s", words[i]);
        cr_expect_eq(xid(&b, 79, WHOLE), XID_REBOOT, "%s", words[i]);
        stop(&b);
    }
}

Test(health, word_that_is_no_xid_is_named_and_the_others_taken)
{
    struct health_options o = {0};
    auto_err struct err e = {0};
    struct bed b;
    cr_expect_eq(health_options_parse("48,many,-3", NULL, &o, &e), -ERR_INVALID);
    cr_expect(strstr(err_msg(&e), "many"), "%s", err_msg(&e));
    start(&b, &o);
    cr_expect_eq(xid(&b, 48, WHOLE), XID_IGNORED);
    stop(&b);
}

Test(health, the_newest_xid_is_kept_a_harmless_one_too)
{
    struct bed b;
    start(&b, NULL);
    cr_expect_eq(health_last_xid(b.h, "GPU-0"), 0);
    (void)xid(&b, 48, WHOLE);
    (void)xid(&b, 31, SECOND);
    read_after(&b, SETTLE);
    cr_expect_eq(health_last_xid(b.h, "GPU-0"), 31);
    cr_expect_eq(health_last_xid(b.h, "GPU-1"), 0, "another card");
    stop(&b);
}
