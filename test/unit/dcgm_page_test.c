/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/telemetry/dcgm_page.h"
#include "nodeagent/telemetry/neutral_fields.h"

/* Two cards: the first is whole, the second is cut into two GPU instances. */

#define MIB 1048576.0
#define FIRST                                                                                      \
    "gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"00000000:04:00.0\",device=\"nvidia0\",modelName=\"NVIDIA H100\""
#define SECOND                                                                                     \
    "gpu=\"1\",UUID=\"GPU-1\",pci_bus_id=\"00000000:05:00.0\",device=\"nvidia1\",modelName=\"NVIDIA H100\""
#define OF_NODE ",hostname=\"n1\",DCGM_FI_DRIVER_VERSION=\"570.86.15\""

enum { ROOM = 8 << 20, MANY = 10000 };

static struct telemetry_node node;
static struct telemetry_card cards[2];
static struct attribution_reading readings[2];
static struct consumer pods[2][TELEMETRY_MAX_PROCESSES];
static struct counter_list counters;
static struct dcgm_page page;
static struct sb out;

static struct telemetry_place *add_place(struct telemetry_node_card *c, int gi_id,
                                         const char *profile)
{
    struct telemetry_place *p = XPUSH(c->places, c->n_places);
    p->gi_id = gi_id;
    (void)snprintf(p->profile, sizeof(p->profile), "%s", profile);
    return p;
}

static struct telemetry_node_card *add_card(void)
{
    unsigned i = (unsigned)node.n;
    struct telemetry_node_card *c = XPUSH(node.cards, node.n);
    c->vendor = "nvidia";
    c->index = c->minor = i;
    (void)snprintf(c->uuid, sizeof(c->uuid), "GPU-%u", i);
    (void)snprintf(c->model, sizeof(c->model), "NVIDIA H100");
    (void)snprintf(c->pci_bus_id, sizeof(c->pci_bus_id), "00000000:%02X:00.0", 4 + i);
    (void)snprintf(c->driver, sizeof(c->driver), "570.86.15");
    (void)add_place(c, -1, "");
    telemetry_values_init(&cards[i].values);
    readings[i] = (struct attribution_reading){&cards[i], pods[i]};
    return c;
}

static struct telemetry_values *add_part(unsigned gi_id)
{
    struct telemetry_part *p = &cards[1].parts[cards[1].n_parts++];
    p->gi_id = gi_id;
    telemetry_values_init(&p->values);
    return &p->values;
}

static void hold(struct telemetry_place *p, const char *ns, const char *pod)
{
    *XPUSH(p->holders, p->n_holders) =
        (struct telemetry_holder){xstrdup(ns), xstrdup(pod), xstrdup("main"),
                                  xasprintf("uid-%s", pod), 0};
}

static void list(const char *text)
{
    auto_err struct err e = {0};
    counter_list_done(&counters);
    cr_assert_eq(counter_list_parse(text, strlen(text), &counters, &e), 0, "%s", err_msg(&e));
}

static void set_up(void)
{
    (void)add_card();
    struct telemetry_node_card *second = add_card();
    (void)add_place(second, 1, "4g.40gb");
    (void)add_place(second, 9, "1g.10gb+me");
    list("DCGM_FI_DEV_GPU_TEMP,gauge,T\nDCGM_FI_DRIVER_VERSION,label,V\n");
    page = (struct dcgm_page){.node = &node,
                              .readings = readings,
                              .counters = &counters,
                              .host = "n1",
                              .labels = DCGM_LABELS_NEW};
    out = SB_INIT(ROOM);
}

static void tear_down(void)
{
    telemetry_node_done(&node);
    counter_list_done(&counters);
    sb_done(&out);
}

TestSuite(dcgm_page, .init = set_up, .fini = tear_down);

static const char *written(void)
{
    sb_reset(&out);
    dcgm_page_write(&page, &out);
    return sb_str(&out);
}

static void expect_page(const char *text)
{
    cr_expect_str_eq(written(), text, "%s", sb_str(&out));
}

static void expect_line(const char *text)
{
    cr_expect(strstr(written(), text), "%s is not in\n%s", text, sb_str(&out));
}

Test(dcgm_page, help_and_type_come_once_and_series_in_the_order_of_cards)
{
    cards[0].values.of[TELEMETRY_TEMPERATURE] = 40;
    cards[1].values.of[TELEMETRY_TEMPERATURE] = 51.5;
    expect_page("# HELP DCGM_FI_DEV_GPU_TEMP T\n"
                "# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
                "DCGM_FI_DEV_GPU_TEMP{" FIRST OF_NODE "} 40\n"
                "DCGM_FI_DEV_GPU_TEMP{" SECOND OF_NODE "} 51.5\n");
}

Test(dcgm_page, what_nobody_reports_is_not_there)
{
    expect_page("");
    cards[0].values.of[TELEMETRY_TEMPERATURE] = -3;
    cards[1].values.of[TELEMETRY_TEMPERATURE] = (double)INFINITY;
    expect_page("");
}

Test(dcgm_page, nonsense_is_left_out_and_what_sampling_adds_is_cut)
{
    list("DCGM_FI_DEV_GPU_UTIL,gauge,U\nDCGM_FI_PROF_SM_ACTIVE,gauge,S\n");
    cards[0].values.of[TELEMETRY_UTILIZATION] = 4711;
    cards[0].values.of[TELEMETRY_SM_ACTIVE] = 1.0001;
    written();
    cr_expect_null(strstr(sb_str(&out), "DCGM_FI_DEV_GPU_UTIL"), "%s", sb_str(&out));
    expect_line("DCGM_FI_PROF_SM_ACTIVE{" FIRST ",hostname=\"n1\"} 1\n");
}

Test(dcgm_page, a_container_has_its_card_on_everything)
{
    hold(&node.cards[0].places[0], "team", "train");
    cards[0].values.of[TELEMETRY_TEMPERATURE] = 40;
    expect_line("DCGM_FI_DEV_GPU_TEMP{" FIRST OF_NODE
                ",container=\"main\",namespace=\"team\",pod=\"train\"} 40\n");
}

Test(dcgm_page, instances_have_the_drivers_profile_and_their_pod)
{
    list("DCGM_FI_DEV_FB_USED,gauge,M\n");
    hold(&node.cards[1].places[2], "team", "small");
    cards[1].values.of[TELEMETRY_MEMORY_USED] = 999 * MIB;
    add_part(1)->of[TELEMETRY_MEMORY_USED] = 100 * MIB;
    add_part(9)->of[TELEMETRY_MEMORY_USED] = 20.5 * MIB;
    expect_page("# HELP DCGM_FI_DEV_FB_USED M\n"
                "# TYPE DCGM_FI_DEV_FB_USED gauge\n"
                "DCGM_FI_DEV_FB_USED{" SECOND
                ",GPU_I_PROFILE=\"4g.40gb\",GPU_I_ID=\"1\",hostname=\"n1\"} 100\n"
                "DCGM_FI_DEV_FB_USED{" SECOND
                ",GPU_I_PROFILE=\"1g.10gb+me\",GPU_I_ID=\"9\",hostname=\"n1\","
                "container=\"main\",namespace=\"team\",pod=\"small\"} 20.5\n");
}

Test(dcgm_page, what_instances_do_not_have_is_the_cards)
{
    cards[1].values.of[TELEMETRY_TEMPERATURE] = 50;
    add_part(1)->of[TELEMETRY_TEMPERATURE] = 48;
    expect_page("# HELP DCGM_FI_DEV_GPU_TEMP T\n"
                "# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
                "DCGM_FI_DEV_GPU_TEMP{" SECOND OF_NODE "} 50\n");
}

Test(dcgm_page, a_shared_card_has_a_series_a_pod_and_one_of_nobody)
{
    struct telemetry_place *p = &node.cards[0].places[0];
    list("DCGM_FI_DEV_GPU_UTIL,gauge,U\n");
    p->is_shared = true;
    hold(p, "team", "a");
    hold(p, "team", "b");
    cards[0].values.of[TELEMETRY_UTILIZATION] = 50;
    cards[0].n_processes = 1;
    cards[0].processes[0] = (struct telemetry_process){.gi_id = -1, .utilization = 30};
    (void)snprintf(pods[0][0].pod_uid, sizeof(pods[0][0].pod_uid), "uid-b");
    const char *text = written();
    cr_expect(strstr(text, "pod=\"a\"} 0\n") && strstr(text, "pod=\"b\"} 30\n"), "%s", text);
    cr_expect(strstr(text, ",hostname=\"n1\"} 20\n"), "%s", text);
    page.without_pods = true;
    expect_page("# HELP DCGM_FI_DEV_GPU_UTIL U\n"
                "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
                "DCGM_FI_DEV_GPU_UTIL{" FIRST ",hostname=\"n1\"} 50\n");
}

Test(dcgm_page, labels_have_the_spelling_that_dashboards_expect)
{
    hold(&node.cards[0].places[0], "team", "train");
    cards[0].values.of[TELEMETRY_TEMPERATURE] = 40;
    page.labels = DCGM_LABELS_OLD;
    expect_line(",Hostname=\"n1\",DCGM_FI_DRIVER_VERSION=\"570.86.15\",container=\"main\","
                "namespace=\"team\",pod=\"train\"} 40\n");
    page.labels = DCGM_LABELS_OLDEST;
    expect_line("{gpu=\"0\",uuid=\"GPU-0\",");
    expect_line(",Hostname=\"n1\",DCGM_FI_DRIVER_VERSION=\"570.86.15\",container_name=\"main\","
                "pod_namespace=\"team\",pod_name=\"train\"} 40\n");
}

Test(dcgm_page, the_last_xid_is_the_cards_and_says_what_it_means)
{
    list("DCGM_FI_DEV_XID_ERRORS,gauge,X\n");
    cards[0].values.of[TELEMETRY_LAST_XID] = 79;
    cards[1].values.of[TELEMETRY_LAST_XID] = 0;
    expect_page("# HELP DCGM_FI_DEV_XID_ERRORS X\n"
                "# TYPE DCGM_FI_DEV_XID_ERRORS gauge\n"
                "DCGM_FI_DEV_XID_ERRORS{" FIRST ",hostname=\"n1\",err_code=\"79\","
                "err_msg=\"the GPU fell off the bus\"} 79\n"
                "DCGM_FI_DEV_XID_ERRORS{" SECOND ",hostname=\"n1\",err_code=\"0\","
                "err_msg=\"No Error\"} 0\n");
    cards[0].values.of[TELEMETRY_LAST_XID] = 9999;
    expect_line("err_code=\"9999\",err_msg=\"Unknown Error\"} 9999\n");
}

Test(dcgm_page, quotes_newlines_and_what_is_not_utf8_do_not_break_the_page)
{
    struct telemetry_node_card *c = &node.cards[0];
    (void)snprintf(c->model, sizeof(c->model), "a\"b\\c\nd \xc3\xa9 \xff");
    cards[0].values.of[TELEMETRY_TEMPERATURE] = 40;
    expect_line("modelName=\"a\\\"b\\\\c\\nd \xc3\xa9 \xef\xbf\xbd\"");
    list("DCGM_FI_DEV_GPU_TEMP,gauge,a\\b \"\"\n");
    expect_line("# HELP DCGM_FI_DEV_GPU_TEMP a\\\\b \"\"\n");
}

Test(dcgm_page, counters_that_have_grown_large_stay_exact)
{
    list("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION,counter,E\n");
    cards[0].values.of[TELEMETRY_ENERGY] = 1234567890123;
    expect_line("} 1234567890123\n");
    expect_line("# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n");
}

Test(dcgm_page, other_vendors_cards_have_neutral_names_and_units)
{
    auto_counter_list struct counter_list neutral;
    neutral_fields_list(&neutral);
    node.cards[0].vendor = "metax";
    cards[0].values.of[TELEMETRY_TEMPERATURE] = 40;
    cards[0].values.of[TELEMETRY_UTILIZATION] = 25;
    expect_page("");
    page.neutral = &neutral;
    hold(&node.cards[0].places[0], "team", "train");
    static const char labels[] = "gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"00000000:04:00.0\","
                                 "modelName=\"NVIDIA H100\",vendor=\"metax\",hostname=\"n1\","
                                 "container=\"main\",namespace=\"team\",pod=\"train\"";
    auto_free char *utilization = xasprintf("cleave_gpu_utilization_ratio{%s} 0.25\n", labels);
    auto_free char *temperature = xasprintf("cleave_gpu_temperature_celsius{%s} 40\n", labels);
    expect_line(utilization);
    expect_line(temperature);
}

Test(dcgm_page, a_card_that_was_never_read_is_not_there)
{
    cards[0].values.of[TELEMETRY_TEMPERATURE] = 40;
    readings[0].card = NULL;
    expect_page("");
}

/* The sum of the values of all lines. */
static double sum_of_lines(const char *text)
{
    double sum = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        if (*line != '#')
            sum += strtod(strstr(line, "} ") + 2, NULL);
    return sum;
}

Test(dcgm_page, ten_thousand_pods_add_up_to_the_card)
{
    struct telemetry_place *p = &node.cards[0].places[0];
    list("DCGM_FI_DEV_FB_USED,gauge,M\n");
    p->is_shared = true;
    for (int i = 0; i < MANY; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "p%05d", i);
        hold(p, "team", name);
    }
    cards[0].values.of[TELEMETRY_MEMORY_USED] = 70001 * MIB;
    cards[0].n_processes = TELEMETRY_MAX_PROCESSES;
    for (int i = 0; i < TELEMETRY_MAX_PROCESSES; i++) {
        cards[0].processes[i] =
            (struct telemetry_process){.gi_id = -1, .memory_bytes = (i + 0.3) * MIB};
        (void)snprintf(pods[0][i].pod_uid, sizeof(pods[0][i].pod_uid), "uid-p%05d", i * 39);
    }
    cr_expect_float_eq(sum_of_lines(written()), 70001, 1e-3);
    cr_expect_not(out.overflow);
}
