/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "cluster_support.h"
#include "reconcilers/capacity.h"
#include "service/resources.h"

/* What the cluster's cards offer, who has it, and what is left. */
static struct cluster c;
static struct metrics *m;
static struct capacity *capacity;

static void setup(void)
{
    cluster_start(&c, /* plan= */ NULL);
    m = metrics_new();
    capacity = capacity_new(m, &reconcilers_context(c.reconcilers)->caches, c.clk);
}

static void teardown(void)
{
    (void)capacity_free(capacity);
    (void)metrics_free(m);
    cluster_stop(&c);
}

TestSuite(capacity, .init = setup, .fini = teardown);

/* The page after the time for which numbers are kept. Caller frees. */
static char *page(void)
{
    auto_sb struct sb text = SB_INIT(1000000);
    clock_fake_advance(c.clk, CAPACITY_EVERY_MS);
    metrics_write(m, &text);
    return xstrdup(sb_str(&text));
}

static void expect_line(const char *line)
{
    auto_free char *text = page();
    auto_free char *whole = xasprintf("\n%s\n", line);
    cr_expect_not_null(strstr(text, whole), "%s is not in:\n%s", line, text);
}

#define MODEL  "NVIDIA H100 80GB HBM3"
#define MIB(n) ((int64_t)(n) << 20)

static void expect_model(const char *name, int64_t value)
{
    auto_free char *line = xasprintf("%s{model=\"" MODEL "\"} %lld", name, (long long)value);
    expect_line(line);
}

/* Replaces the cards and resources that the agent of n1 reports. */
static void report(const char *cards, const char *resources)
{
    auto_free char *patch =
        xasprintf("{\"status\": {\"devices\": [%s], \"resources\": [%s]}}", cards, resources);
    cluster_patch(&c, &resource_devices, "n1", "status", patch);
    cluster_settle(&c);
}

#define CARD(uuid, model, more)                                                                    \
    "{\"uuid\": \"" uuid "\", \"index\": 0, \"vendor\": \"nvidia\", \"model\": \"" model           \
    "\", \"memoryMiB\": 81559, \"healthy\": true, \"migCapable\": true" more "}"
#define BY(ns, pod)                                                                                \
    "\"inUse\": true, \"inUseBy\": [{\"namespace\": \"" ns "\", \"name\": \"" pod                  \
    "\", \"container\": \"c\"}]"
#define PART(uuid, profile, at, more)                                                              \
    "{\"uuid\": \"" uuid "\", \"profile\": \"" profile "\", \"giID\": 1, \"ciID\": 0, "            \
    "\"placement\": \"" at "\"" more "}"
#define RESOURCE(name, count)                                                                      \
    "{\"name\": \"" name "\", \"count\": " #count ", \"publisher\": \"kubelet\"}"

Test(capacity, an_empty_cluster_has_no_rows)
{
    auto_free char *text = page();
    cr_expect_null(strstr(text, "\ncleave_controller_capacity{"), "%s", text);
}

Test(capacity, free_cards_are_capacity_that_nobody_has)
{
    cluster_add_node(&c, "n1", 2);
    cluster_settle(&c);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
    expect_line("cleave_controller_capacity{resource=\"nvidia.com/gpu\",model=\"" MODEL "\"} 2");
    expect_line("cleave_controller_free{resource=\"nvidia.com/gpu\",model=\"" MODEL "\"} 2");
    expect_model("cleave_controller_cards", 2);
    expect_model("cleave_controller_memory_bytes", MIB(2 * 81559));
    expect_model("cleave_controller_memory_free_bytes", MIB(2 * 81559));
    expect_model("cleave_controller_largest_free_bytes", MIB(81559));
}

/* A card that a pod has, and one in three parts, of which two pods have one each. */
#define WHOLE  CARD("GPU-1", MODEL, ", \"mode\": \"native\", " BY("a", "web"))
#define PART_A PART("MIG-1", "1g.10gb", "0:1", ", " BY("a", "x"))
#define PART_B PART("MIG-2", "1g.10gb", "1:1", ", " BY("b", "y"))
#define PART_C PART("MIG-3", "1g.10gb", "2:1", "")
#define PARTED                                                                                     \
    CARD("GPU-2", MODEL, ", \"mode\": \"mig\", \"partitions\": [" PART_A "," PART_B "," PART_C "]")

Test(capacity, grants_are_counted_by_resource_model_and_namespace)
{
    cluster_add_node(&c, "n1", 1);
    cluster_settle(&c);
    report(WHOLE "," PARTED,
           RESOURCE("nvidia.com/gpu", 1) "," RESOURCE("nvidia.com/mig-1g.10gb", 3));
    expect_line("cleave_controller_granted{resource=\"nvidia.com/gpu\",model=\"" MODEL
                "\",namespace=\"a\"} 1");
    expect_line("cleave_controller_granted{resource=\"nvidia.com/mig-1g.10gb\",model=\"" MODEL
                "\",namespace=\"b\"} 1");
    expect_line("cleave_controller_free{resource=\"nvidia.com/gpu\",model=\"" MODEL "\"} 0");
    expect_line("cleave_controller_free{resource=\"nvidia.com/mig-1g.10gb\",model=\"" MODEL
                "\"} 1");
    expect_model("cleave_controller_largest_free_bytes", MIB(40448));
}

Test(capacity, more_grants_than_a_node_offers_leave_none_free)
{
    cluster_add_node(&c, "n1", 1);
    cluster_settle(&c);
    report(WHOLE, "");
    auto_free char *text = page();
    cr_expect_null(strstr(text, "\ncleave_controller_free{"), "%s", text);
    expect_line("cleave_controller_granted{resource=\"nvidia.com/gpu\",model=\"" MODEL
                "\",namespace=\"a\"} 1");
}

Test(capacity, a_node_with_cards_of_several_models_offers_several)
{
    cluster_add_node(&c, "n1", 1);
    cluster_settle(&c);
    report(CARD("GPU-1", MODEL, ", \"mode\": \"native\"") "," CARD("GPU-2", "NVIDIA A30",
                                                                   ", \"mode\": \"native\""),
           RESOURCE("nvidia.com/gpu", 2));
    expect_line("cleave_controller_capacity{resource=\"nvidia.com/gpu\",model=\"several\"} 2");
    expect_line("cleave_controller_memory_bytes{model=\"NVIDIA A30\"} 85520809984");
}

Test(capacity, a_status_that_cannot_be_read_counts_nothing)
{
    cluster_add_node(&c, "n1", 1);
    cluster_settle(&c);
    cluster_patch(&c, &resource_devices, "n1", "status", "{\"status\": {\"devices\": 7}}");
    cluster_settle(&c);
    auto_free char *text = page();
    cr_expect_null(strstr(text, "\ncleave_controller_memory_bytes{"), "%s", text);
}

Test(capacity, quotes_and_newlines_in_a_model_are_escaped)
{
    cluster_add_node(&c, "n1", 1);
    cluster_settle(&c);
    report(CARD("GPU-1", "a\\\"b\\n\xc3\xa9", ", \"mode\": \"native\""), "");
    expect_line("cleave_controller_memory_bytes{model=\"a\\\"b\\n\xc3\xa9\"} 85520809984");
}

Test(capacity, numbers_are_kept_for_some_seconds_however_many_scrape)
{
    auto_free char *before = page();
    cluster_add_node(&c, "n1", 1);
    cluster_settle(&c);
    auto_sb struct sb text = SB_INIT(1000000);
    auto_sb struct sb later = SB_INIT(1000000);
    auto_free char *counted = page();
    cluster_remove(&c, &resource_devices, "n1");
    (void)reconcilers_step(c.reconcilers, c.scope);
    metrics_write(m, &text);
    cr_expect_str_eq(sb_str(&text), counted);
    clock_fake_advance(c.clk, CAPACITY_EVERY_MS);
    metrics_write(m, &later);
    cr_expect_str_eq(sb_str(&later), before);
}

static void report_namespaces(unsigned n)
{
    auto_sb struct sb cards = SB_INIT(10000000);
    for (unsigned i = 0; i < n; i++) {
        if (i % 50 == 0)
            sb_addf(&cards,
                    "%s{\"uuid\": \"GPU-%u\", \"index\": %u, \"vendor\": \"nvidia\", \"model\": "
                    "\"M\", \"mode\": \"native\", \"healthy\": true, \"inUse\": true, "
                    "\"inUseBy\": [",
                    i ? "]}," : "", i, i / 50);
        sb_addf(&cards, "%s{\"namespace\": \"ns-%u\", \"name\": \"p\", \"container\": \"c\"}",
                i % 50 ? "," : "", i);
    }
    sb_add(&cards, "]}");
    report(sb_str(&cards), "");
}

Test(capacity, namespaces_beyond_the_bound_are_one_row)
{
    cluster_add_node(&c, "n1", 1);
    cluster_settle(&c);
    report_namespaces(METRICS_MAX_SERIES + 100);
    expect_line("cleave_controller_granted{resource=\"other\",model=\"other\",namespace=\"other\"} "
                "101");
}
