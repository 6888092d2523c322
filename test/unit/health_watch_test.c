/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/health/health_watch.h"

/*
 * The agent's side with a child that says what the test wrote down, and ends: `cat FILE` in place
 * of the program that waits for events.
 */

struct bed {
    struct gpu_watch *watch;
    struct metrics *metrics;
    struct health_watch *w;
    struct card_view cards[2];
};

static char dir[64];

static void put(const char *name, const void *data, size_t len, mode_t mode)
{
    auto_free char *path = xasprintf("%s/%s", dir, name);
    cr_assert_eq(file_write_atomic(path, data, len, mode, NULL), 0);
    cr_assert_eq(chmod(path, mode), 0);
}

static void make_folder(void)
{
    static const char script[] = "#!/bin/sh\nexec cat \"$3\"\n";
    (void)snprintf(dir, sizeof(dir), "/tmp/health-watch-test-XXXXXX");
    cr_assert(mkdtemp(dir));
    put("program", script, strlen(script), 0700);
}

static void remove_folder(void)
{
    auto_free char *command = xasprintf("rm -rf '%s'", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(health_watch, .init = make_folder, .fini = remove_folder);

static void start(struct bed *b)
{
    auto_free char *program = xasprintf("%s/program", dir);
    auto_free char *reports = xasprintf("%s/reports", dir);
    const struct gpu_watch_options o = {.program = program, .library = reports};
    *b = (struct bed){.watch = gpu_watch_new(&o), .metrics = metrics_new()};
    const struct health_watch_deps d = {.watch = b->watch,
                                        .metrics = b->metrics,
                                        .clk = clock_real(),
                                        .node = "n1"};
    b->w = health_watch_new(&d);
    for (unsigned i = 0; i < 2; i++) {
        struct gpu_card *c = &b->cards[i].card;
        c->index = i;
        c->healthy = true;
        c->mode = GPU_MIG;
        c->vitals.action_known = true;
        (void)snprintf(c->uuid, sizeof(c->uuid), "GPU-%u", i);
        for (unsigned k = 0; k < 2; k++) {
            c->state.items[c->state.n++] = (struct mig_instance){.gi_id = k + 1, .n_cis = 1};
            c->partitions[c->n_partitions++] =
                (struct gpu_partition){.gi_id = k + 1, .instance = k, .healthy = true};
        }
    }
}

static void stop(struct bed *b)
{
    b->w = health_watch_free(b->w);
    b->watch = gpu_watch_free(b->watch);
    b->metrics = metrics_free(b->metrics);
}

/* A reading, after which a child says these things and ends; all of them are taken. */
static struct health_news say(struct bed *b, const struct gpu_event *events, size_t n)
{
    struct health_news all = {0};
    put("reports", events, n * sizeof(*events), 0600);
    health_watch_take_reading(b->w, b->cards, 2, /* all= */ true, 1);
    health_watch_mark(b->w, b->cards, 2);
    while (gpu_watch_runs(b->watch)) {
        struct pollfd p = {.fd = health_watch_fd(b->w), .events = POLLIN};
        (void)poll(&p, 1, -1);
        struct health_news news = health_watch_take(b->w, b->cards, 2);
        all.changed |= news.changed;
        all.look |= news.look;
    }
    return all;
}

static void expect_metric(struct bed *b, const char *line)
{
    auto_sb struct sb text = SB_INIT(100000);
    metrics_write(b->metrics, &text);
    cr_expect(strstr(text.data, line), "%s in\n%s", line, text.data);
}

static bool all_well(const struct bed *b)
{
    bool well = true;
    for (unsigned i = 0; i < 2; i++)
        for (unsigned k = 0; k < 2; k++)
            well &= b->cards[i].card.healthy && b->cards[i].card.partitions[k].healthy;
    return well;
}

Test(health_watch, xid_of_an_instance_marks_that_one)
{
    struct bed b;
    const struct gpu_event ev = {.kind = GPU_EVENT_XID,
                                 .code = 95,
                                 .gi_id = 2,
                                 .ci_id = 0,
                                 .uuid = "GPU-1"};
    start(&b);
    struct health_news news = say(&b, &ev, 1);
    cr_expect(news.changed && news.look);
    cr_expect(b.cards[0].card.partitions[1].healthy && b.cards[1].card.partitions[0].healthy);
    cr_expect(b.cards[1].card.healthy && !b.cards[1].card.partitions[1].healthy);
    expect_metric(&b, "cleave_agent_unhealthy_partitions 1\n");
    expect_metric(&b, "cleave_agent_xids_total{xid=\"95\"} 1\n");
    stop(&b);
}

Test(health_watch, report_of_an_unknown_or_nameless_card_harms_nobody)
{
    struct bed b;
    const struct gpu_event events[] = {
        {.kind = GPU_EVENT_XID, .code = 79, .gi_id = -1, .ci_id = -1, .uuid = "GPU-other"},
        {.kind = GPU_EVENT_XID, .code = 79, .gi_id = -1, .ci_id = -1},
    };
    start(&b);
    struct health_news news = say(&b, events, ARRAY_LEN(events));
    cr_expect(news.look, "a reading tells what it is about");
    cr_expect(all_well(&b));
    stop(&b);
}

Test(health_watch, what_a_program_caused_is_counted_and_no_more)
{
    struct bed b;
    const struct gpu_event ev = {.kind = GPU_EVENT_XID,
                                 .code = 31,
                                 .gi_id = -1,
                                 .ci_id = -1,
                                 .uuid = "GPU-0"};
    start(&b);
    struct health_news news = say(&b, &ev, 1);
    cr_expect_not(news.changed || news.look);
    cr_expect(all_well(&b));
    expect_metric(&b, "cleave_agent_xids_total{xid=\"31\"} 1\n");
    stop(&b);
}

Test(health_watch, card_that_cannot_be_watched_is_named)
{
    struct bed b;
    const struct gpu_event events[] = {
        {.kind = GPU_EVENT_WATCHED, .gi_id = -1, .ci_id = -1, .uuid = "GPU-0"},
        {.kind = GPU_EVENT_UNWATCHED, .code = 3, .gi_id = -1, .ci_id = -1, .uuid = "GPU-1"},
    };
    start(&b);
    struct health_news news = say(&b, events, ARRAY_LEN(events));
    cr_expect(news.changed && !news.look);
    cr_expect(!b.cards[0].unwatched && b.cards[1].unwatched);
    expect_metric(&b, "cleave_agent_unwatched_cards 2\n"); /* the child has ended */
    stop(&b);
}

Test(health_watch, card_that_is_watched_at_the_second_attempt_is_named_no_more)
{
    struct bed b;
    const struct gpu_event events[] = {
        {.kind = GPU_EVENT_UNWATCHED, .code = 999, .gi_id = -1, .ci_id = -1, .uuid = "GPU-0"},
        {.kind = GPU_EVENT_UNWATCHED, .code = 999, .gi_id = -1, .ci_id = -1, .uuid = "GPU-1"},
        {.kind = GPU_EVENT_WATCHED, .gi_id = -1, .ci_id = -1, .uuid = "GPU-0"},
    };
    start(&b);
    struct health_news news = say(&b, events, ARRAY_LEN(events));
    cr_expect(news.changed && !news.look);
    cr_expect(!b.cards[0].unwatched && b.cards[1].unwatched);
    stop(&b);
}

/* A library gone mad may name cards without end. */
Test(health_watch, watches_of_cards_that_are_not_there_count_for_nothing)
{
    struct bed b;
    static const char script[] = "#!/bin/sh\ncat \"$3\"\nexec sleep 600\n";
    struct gpu_event events[GPU_MAX_CARDS + 2] = {0};
    for (unsigned i = 0; i < GPU_MAX_CARDS; i++) {
        events[i] = (struct gpu_event){.kind = GPU_EVENT_WATCHED, .gi_id = -1, .ci_id = -1};
        (void)snprintf(events[i].uuid, sizeof(events[i].uuid), "GPU-mad-%u", i);
    }
    events[GPU_MAX_CARDS] = (struct gpu_event){.kind = GPU_EVENT_WATCHED, .uuid = "GPU-0"};
    events[GPU_MAX_CARDS + 1] = (struct gpu_event){.kind = GPU_EVENT_OTHER, .uuid = "GPU-0"};
    put("program", script, strlen(script), 0700);
    put("reports", events, sizeof(events), 0600);
    start(&b);
    health_watch_take_reading(b.w, b.cards, 2, /* all= */ true, 1);
    while (!health_watch_take(b.w, b.cards, 2).look) {
        struct pollfd p = {.fd = health_watch_fd(b.w), .events = POLLIN};
        (void)poll(&p, 1, -1);
    }
    expect_metric(&b, "cleave_agent_unwatched_cards 1");
    stop(&b);
}

Test(health_watch, half_a_record_ends_the_child_and_nothing_else)
{
    struct bed b;
    const char garbage[] = "no record";
    start(&b);
    put("reports", garbage, sizeof(garbage), 0600);
    health_watch_take_reading(b.w, b.cards, 2, /* all= */ true, 1);
    while (gpu_watch_runs(b.watch)) {
        struct pollfd p = {.fd = health_watch_fd(b.w), .events = POLLIN};
        (void)poll(&p, 1, -1);
        (void)health_watch_take(b.w, b.cards, 2);
    }
    cr_expect(all_well(&b));
    stop(&b);
}

Test(health_watch, other_reports_ask_for_a_reading)
{
    struct bed b;
    const struct gpu_event ev = {.kind = GPU_EVENT_OTHER, .code = 2, .gi_id = -1, .ci_id = -1};
    start(&b);
    struct health_news news = say(&b, &ev, 1);
    cr_expect(news.look && !news.changed);
    stop(&b);
}

/* With no watch at all readings go on to tell. */
Test(health_watch, works_without_a_watch)
{
    struct bed b;
    start(&b);
    const struct health_watch_deps d = {.clk = clock_real(), .node = "n1"};
    auto_health_watch struct health_watch *w = health_watch_new(&d);
    cr_expect_eq(health_watch_fd(w), -1);
    health_watch_take_reading(w, b.cards, 2, /* all= */ true, 1);
    gpu_card_mark_ill(&b.cards[0].card, "ResetRequired", "the driver asks");
    health_watch_mark(w, b.cards, 2);
    cr_expect_not(b.cards[0].card.partitions[0].healthy);
    stop(&b);
}
