/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/telemetry/attribution.h"

#define NOT_A_NUMBER ((double)NAN)

enum { MAX_PODS = 10000 };

static struct telemetry_holder holders[MAX_PODS];
static char uids[MAX_PODS][24];
static char ns[] = "team", container[] = "main";
static struct telemetry_place place;
static struct telemetry_card card;
static struct consumer pods[TELEMETRY_MAX_PROCESSES];
static struct attributed parts[MAX_PODS + 1];
static size_t n_parts;

/* A shared card that so many pods have: pod 0, pod 1, … */
static void share_among(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(uids[i], sizeof(uids[i]), "%zu", i);
        holders[i] = (struct telemetry_holder){ns, uids[i], container, uids[i], 0};
    }
    place = (struct telemetry_place){.gi_id = -1,
                                     .is_shared = true,
                                     .holders = holders,
                                     .n_holders = n};
    card.n_processes = 0;
}

/* pod: -1: it is in none. */
static void add_process(int pod, double memory, double utilization)
{
    unsigned i = card.n_processes++;
    card.processes[i] = (struct telemetry_process){.pid = 100 + i,
                                                   .gi_id = -1,
                                                   .memory_bytes = memory,
                                                   .utilization = utilization};
    pods[i] = (struct consumer){0};
    if (pod >= 0)
        (void)snprintf(pods[i].pod_uid, sizeof(pods[i].pod_uid), "%d", pod);
}

static void split(enum telemetry_value v, double whole)
{
    const struct attribution_reading r = {&card, pods};
    n_parts = attribution_of(&place, v, whole, 1, &r, parts);
}

static double sum(void)
{
    double all = 0;
    for (size_t i = 0; i < n_parts; i++)
        all += parts[i].value;
    return all;
}

static void expect_part(size_t i, const struct telemetry_holder *h, double value)
{
    cr_assert_lt(i, n_parts);
    cr_expect_eq(parts[i].holder, h, "part %zu", i);
    cr_expect_float_eq(parts[i].value, value, 1e-9, "part %zu: %f", i, parts[i].value);
}

Test(attribution, what_one_container_has_is_its_own)
{
    share_among(1);
    place.is_shared = false;
    split(TELEMETRY_TEMPERATURE, 40);
    cr_assert_eq(n_parts, 1);
    expect_part(0, &holders[0], 40);
    split(TELEMETRY_MEMORY_USED, 7);
    expect_part(0, &holders[0], 7);
}

Test(attribution, what_nobody_has_is_nobodys)
{
    share_among(0);
    place.is_shared = false;
    split(TELEMETRY_UTILIZATION, 3);
    cr_assert_eq(n_parts, 1);
    expect_part(0, NULL, 3);
}

Test(attribution, a_shared_card_is_told_apart_by_processes_and_adds_up)
{
    share_among(2);
    add_process(1, 600, 30);
    add_process(0, 100, 20);
    add_process(1, 200, 10);
    add_process(-1, 50, 5);
    split(TELEMETRY_MEMORY_USED, 1000);
    cr_assert_eq(n_parts, 3);
    expect_part(0, &holders[0], 100);
    expect_part(1, &holders[1], 800);
    expect_part(2, NULL, 100);
    split(TELEMETRY_UTILIZATION, 70);
    expect_part(0, &holders[0], 20);
    expect_part(1, &holders[1], 40);
    expect_part(2, NULL, 10);
}

Test(attribution, other_values_of_a_shared_card_are_nobodys)
{
    share_among(2);
    add_process(0, 100, 20);
    split(TELEMETRY_POWER, 300);
    cr_assert_eq(n_parts, 1);
    expect_part(0, NULL, 300);
}

Test(attribution, processes_that_have_more_than_the_card_are_reduced)
{
    share_among(2);
    add_process(0, 900, 60);
    add_process(1, 300, 60);
    split(TELEMETRY_UTILIZATION, 100);
    expect_part(0, &holders[0], 50);
    expect_part(1, &holders[1], 50);
    expect_part(2, NULL, 0);
    split(TELEMETRY_MEMORY_USED, 0);
    cr_expect_float_eq(sum(), 0, 1e-9);
}

Test(attribution, a_pod_without_a_process_uses_nothing)
{
    share_among(2);
    split(TELEMETRY_MEMORY_USED, 500);
    cr_assert_eq(n_parts, 3);
    expect_part(0, &holders[0], 0);
    expect_part(1, &holders[1], 0);
    expect_part(2, NULL, 500);
}

Test(attribution, where_no_process_reports_it_nothing_is_said_of_pods)
{
    share_among(2);
    add_process(0, NOT_A_NUMBER, NOT_A_NUMBER);
    add_process(1, -1, (double)INFINITY);
    split(TELEMETRY_UTILIZATION, 80);
    cr_assert_eq(n_parts, 1);
    expect_part(0, NULL, 80);
    split(TELEMETRY_MEMORY_USED, 800);
    cr_assert_eq(n_parts, 1);
}

Test(attribution, a_pod_that_vanished_is_nobody)
{
    share_among(1);
    add_process(0, 100, 10);
    add_process(7, 300, 30);
    split(TELEMETRY_MEMORY_USED, 400);
    cr_assert_eq(n_parts, 2);
    expect_part(0, &holders[0], 100);
    expect_part(1, NULL, 300);
}

Test(attribution, a_pod_whose_uid_is_not_known_has_no_series_on_a_shared_card)
{
    share_among(2);
    holders[0].uid = NULL;
    add_process(1, 100, 10);
    split(TELEMETRY_MEMORY_USED, 400);
    cr_assert_eq(n_parts, 2);
    expect_part(0, &holders[1], 100);
    expect_part(1, NULL, 300);
}

Test(attribution, only_processes_of_the_instance_count)
{
    share_among(1);
    place.gi_id = 3;
    add_process(0, 100, 10);
    add_process(0, 200, 10);
    card.processes[1].gi_id = 3;
    split(TELEMETRY_MEMORY_USED, 250);
    expect_part(0, &holders[0], 200);
    expect_part(1, NULL, 50);
}

Test(attribution, nonsense_has_no_parts)
{
    share_among(2);
    split(TELEMETRY_UTILIZATION, NOT_A_NUMBER);
    cr_expect_eq(n_parts, 0);
    split(TELEMETRY_UTILIZATION, -1);
    cr_expect_eq(n_parts, 0);
    split(TELEMETRY_UTILIZATION, (double)INFINITY);
    cr_expect_eq(n_parts, 0);
}

Test(attribution, ten_thousand_pods_add_up)
{
    share_among(MAX_PODS);
    for (int i = 0; i < TELEMETRY_MAX_PROCESSES; i++)
        add_process(i * 39, 1e6 + i, 0.1);
    split(TELEMETRY_MEMORY_USED, 8e10);
    cr_expect_eq(n_parts, MAX_PODS + 1);
    cr_expect_float_eq(sum(), 8e10, 1);
    split(TELEMETRY_UTILIZATION, 12.5);
    cr_expect_float_eq(sum(), 12.5, 1e-9);
}
