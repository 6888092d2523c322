/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/container/entry.h"
#include "nodeagent/offer/plugin_config.h"
#include "nodeagent/report/node_readiness.h"
#include "service/conditions.h"

/*
 * Each case: a node's facts, and what a condition says of them: "status reason", and words that the
 * message must have.
 */

struct facts {
    struct host_facts host;
    struct host_setup setup;
    struct gpu_inventory inventory;
    struct card_view cards[2];
    struct plugin_config config;
    struct node_state state;
};

/* A node with one NVIDIA card, on which everything is as it should be. */
static void init(struct facts *f)
{
    *f = (struct facts){
        .host =
            {.pci_known = true,
             .cards = {{.vendor = "metax"},
                       {.vendor = "nvidia", .n = 1, .first = "0000:3b:00.0", .driver = "nvidia"}}},
        .setup = {.known = true,
                  .vendors = {{.vendor = "metax"},
                              {.vendor = "nvidia",
                               .module = true,
                               .version = "580.95.05",
                               .library = "/usr/lib64/libnvidia-ml.so.1"}},
                  .runtime = {.kind = CRI_KIND_CONTAINERD,
                              .major = 2,
                              .minor = 1,
                              .cdi = CRI_CDI_ON,
                              .file = "/etc/containerd/config.toml"}},
        .inventory = {.n_drivers = 1, .drivers = {{.vendor = "nvidia", .version = "580.95.05"}}},
    };
    f->cards[0].card =
        (struct gpu_card){.vendor = "nvidia", .persistence_known = true, .persistence = true};
    f->state = (struct node_state){.inventory = &f->inventory,
                                   .cards = f->cards,
                                   .n_cards = 1,
                                   .host = &f->host,
                                   .setup = &f->setup,
                                   .config = &f->config,
                                   .means.publisher = API_PUBLISHER_KUBELET};
}

/* The library does not answer. */
static void silence(struct facts *f, const char *reason)
{
    f->state.inventory = NULL;
    f->state.n_cards = 0;
    f->state.read_reason = reason;
    f->state.read_error = "nvmlInit_v2: it did not work";
}

/* lacks: what the message must not have; NULL: nothing. */
static void expect_without(const struct facts *f, const char *type, const char *said,
                           const char *words, const char *lacks)
{
    struct device_status st = {0};
    node_readiness_build(&f->state, 1000, &st);
    const struct condition *c = condition_get(&st.conditions, type);
    static const char *const statuses[] = {"False", "True", "Unknown"};
    auto_free char *text =
        c ? xasprintf("%s %s", statuses[c->status], c->reason) : xstrdup("(none)");
    cr_expect_str_eq(text, said, "%s: %s", type, c ? c->message : "");
    cr_expect(!c || strstr(c->message, words), "%s: %s", type, c ? c->message : "");
    cr_expect(!c || !lacks || !strstr(c->message, lacks), "%s: %s", type, c ? c->message : "");
    conditions_done(&st.conditions);
}

static void expect(const struct facts *f, const char *type, const char *said, const char *words)
{
    expect_without(f, type, said, words, /* lacks= */ NULL);
}

/* A node with one MetaX card instead, whose driver is loaded; that kernel tells no version. */
static void take_metax(struct facts *f)
{
    init(f);
    f->host.cards[1] = (struct host_pci_cards){.vendor = "nvidia"};
    f->host.cards[0] = (struct host_pci_cards){.vendor = "metax",
                                               .n = 1,
                                               .first = "0000:3b:00.0",
                                               .driver = "metax"};
    f->setup.vendors[1] = (struct vendor_setup){.vendor = "nvidia"};
    f->inventory.drivers[0] = (struct gpu_driver){.vendor = "metax", .version = "2.33.1"};
    f->cards[0].card = (struct gpu_card){.vendor = "metax"};
}

Test(node_readiness, a_node_as_it_should_be)
{
    struct facts f;
    init(&f);
    expect(&f, "DriverReady", "True Loaded", "580.95.05");
    expect(&f, "ContainerRuntimeReady", "True CDI", "containerd 2.1");
    expect(&f, "PersistenceMode", "True Enabled", "");
    expect(&f, "RebootRequired", "False NotRequired", "");
}

Test(node_readiness, a_node_without_cards_is_asked_nothing)
{
    struct facts f;
    init(&f);
    f.host.cards[1].n = 0;
    f.state.n_cards = 0;
    expect(&f, "DriverReady", "(none)", "");
    expect(&f, "ContainerRuntimeReady", "(none)", "");
    expect(&f, "RebootRequired", "(none)", "");
}

Test(node_readiness, what_is_missing_of_the_driver_has_a_remedy_each)
{
    struct facts f;
    init(&f);
    silence(&f, "DriverNotLoaded");
    expect(&f, "DriverReady", "False LibraryNotFound", "component host-driver");
    (void)snprintf(f.setup.vendors[1].runtime, sizeof(f.setup.vendors[1].runtime), "%s",
                   "/usr/bin/nvidia-container-runtime");
    expect(&f, "DriverReady", "False LibraryNotFound", "component nvidia-runtime");
    f.setup.vendors[1].library[0] = '\0';
    expect(&f, "DriverReady", "False LibraryNotFound", "/usr/bin/nvidia-container-runtime");
    f.setup.vendors[1].module = false;
    f.host.cards[1].driver[0] = '\0';
    expect(&f, "DriverReady", "False DriverNotLoaded", "install NVIDIA's driver");
    (void)snprintf(f.setup.vendors[1].library, sizeof(f.setup.vendors[1].library), "%s",
                   "/usr/lib64/libnvidia-ml.so.1");
    expect(&f, "DriverReady", "False DriverNotLoaded", "modprobe");
    (void)snprintf(f.host.cards[1].driver, sizeof(f.host.cards[1].driver), "%s", "nouveau");
    expect(&f, "DriverReady", "False OtherDriver", "blacklist nouveau");
    expect(&f, "RebootRequired", "Unknown NotRead", "");
}

Test(node_readiness, a_vendor_whose_module_has_no_name_is_known_by_its_cards)
{
    struct facts f;
    take_metax(&f);
    expect_without(&f, "DriverReady", "True Loaded", "2.33.1 is loaded", "same version");
    silence(&f, "DriverNotLoaded");
    expect(&f, "DriverReady", "False LibraryNotFound", "cannot load MetaX's library");
    f.host.cards[0].driver[0] = '\0';
    expect(&f, "DriverReady", "False DriverNotLoaded", "install MetaX's driver");
}

Test(node_readiness, versions_that_differ_are_a_mismatch)
{
    struct facts f;
    init(&f);
    (void)snprintf(f.setup.vendors[1].version, sizeof(f.setup.vendors[1].version), "%s",
                   "570.86.15");
    expect(&f, "DriverReady", "False DriverVersionMismatch",
           "580.95.05 and the kernel's driver of "
           "570.86.15");
    silence(&f, "DriverVersionMismatch");
    expect(&f, "DriverReady", "False DriverVersionMismatch", "reboot the node");
}

Test(node_readiness, another_failure_leaves_the_driver_unknown)
{
    struct facts f;
    init(&f);
    silence(&f, "ReadFailed");
    expect(&f, "DriverReady", "Unknown ReadFailed", "nvmlInit_v2");
}

Test(node_readiness, a_runtime_without_cdi_has_a_fallback_or_a_remedy)
{
    struct facts f;
    init(&f);
    f.setup.runtime.cdi = CRI_CDI_OFF;
    f.setup.runtime.major = 1;
    f.setup.runtime.minor = 7;
    expect(&f, "ContainerRuntimeReady", "True DriverMounts",
           "set enable_cdi = true in "
           "/etc/containerd/config.toml");
    (void)snprintf(f.setup.runtime.handler, sizeof(f.setup.runtime.handler), "%s", "nvidia");
    expect(&f, "ContainerRuntimeReady", "False CDIDisabled", "RuntimeClass");
    f.setup.runtime.handler_is_default = true;
    expect(&f, "ContainerRuntimeReady", "True NVIDIARuntime", "containerd 1.7");
    f.setup.runtime = (struct cri_runtime){.kind = CRI_KIND_DOCKER, .cdi = CRI_CDI_NONE};
    expect(&f, "ContainerRuntimeReady", "True DriverMounts", "Docker");
    (void)snprintf(f.setup.runtime.trouble, sizeof(f.setup.runtime.trouble), "%s", "line 3: odd");
    expect(&f, "ContainerRuntimeReady", "False CDIUnsupported", "line 3: odd");
    (void)snprintf(f.setup.runtime.own, sizeof(f.setup.runtime.own), "%s", "cleave");
    expect(&f, "ContainerRuntimeReady", "False CDIUnsupported", "make cleave-runtime");
    f.setup.runtime.own_is_default = true;
    expect(&f, "ContainerRuntimeReady", "True CleaveRuntime", "default handler \"cleave\"");
    f.setup.runtime.own_is_default = false;
    f.cards[0].card.vendor = "metax";
    expect_without(&f, "ContainerRuntimeReady", "True DeviceFiles", "slices", "NVIDIA");
}

Test(node_readiness, an_edited_configuration_is_said_to_wait_for_a_restart)
{
    struct facts f;
    init(&f);
    f.setup.runtime.is_edited = true;
    expect(&f, "ContainerRuntimeReady", "True CDI",
           "/etc/containerd/config.toml was changed since containerd started");
    (void)snprintf(f.setup.runtime.trouble, sizeof(f.setup.runtime.trouble), "%s", "restart it");
    f.setup.runtime.cdi = CRI_CDI_UNKNOWN;
    expect_without(&f, "ContainerRuntimeReady", "Unknown ConfigUnreadable", "restart it",
                   "was changed since");
}

Test(node_readiness, a_runtime_that_is_not_known_is_said_to_be)
{
    struct facts f;
    init(&f);
    f.setup.runtime = (struct cri_runtime){.minor = -1};
    expect(&f, "ContainerRuntimeReady", "Unknown RuntimeNotFound", "hostPID");
    f.setup.runtime.kind = CRI_KIND_CONTAINERD;
    expect(&f, "ContainerRuntimeReady", "Unknown VersionUnknown", "enable_cdi");
    (void)snprintf(f.setup.runtime.trouble, sizeof(f.setup.runtime.trouble), "%s", "line 3: odd");
    expect(&f, "ContainerRuntimeReady", "Unknown ConfigUnreadable", "line 3: odd");
}

Test(node_readiness, only_who_serves_the_kubelet_is_asked_for_a_runtime)
{
    struct facts f;
    init(&f);
    f.state.means.publisher = API_PUBLISHER_CONTROLLER;
    expect(&f, "ContainerRuntimeReady", "(none)", "");
}

Test(node_readiness, a_configuration_without_cdi_needs_nvidias_runtime)
{
    struct facts f;
    init(&f);
    f.config.said.ways = true;
    f.config.ways = ENTRY_ENVVAR;
    expect(&f, "ContainerRuntimeReady", "Unknown RuntimeNotFound", "deviceListStrategy");
    (void)snprintf(f.setup.vendors[1].runtime, sizeof(f.setup.vendors[1].runtime), "%s",
                   "/usr/bin/nvidia-container-runtime");
    expect(&f, "ContainerRuntimeReady", "True NVIDIARuntime", "");
}

Test(node_readiness, persistence_mode_names_a_card)
{
    struct facts f;
    init(&f);
    f.cards[1].card = (struct gpu_card){.vendor = "nvidia", .index = 1, .persistence_known = true};
    f.state.n_cards = 2;
    expect(&f, "PersistenceMode", "False Disabled", "1 of 2 cards (NVIDIA GPU 1)");
    f.cards[0].card.persistence_known = f.cards[1].card.persistence_known = false;
    expect(&f, "PersistenceMode", "(none)", "");
}

Test(node_readiness, a_card_that_waits_for_a_reset_asks_for_it)
{
    struct facts f;
    struct device_status st = {0};
    init(&f);
    struct device_card *card = XPUSH(st.devices, st.n_devices);
    *card = (struct device_card){.vendor = xstrdup("nvidia")};
    (void)condition_set(&card->conditions, "Applied", CONDITION_FALSE, "ResetRequired",
                        "the mode is pending", 1, 1000);
    node_readiness_build(&f.state, 1000, &st);
    const struct condition *c = condition_get(&st.conditions, "RebootRequired");
    cr_expect_eq(c->status, CONDITION_TRUE);
    cr_expect_str_eq(c->reason, "ResetRequired");
    cr_expect_str_eq(c->message, "NVIDIA GPU 0: the mode is pending");
    device_status_done(&st);
}

Test(node_readiness, before_the_first_reading_nothing_is_said_anew)
{
    struct facts f;
    struct device_status st = {0};
    init(&f);
    node_readiness_build(&f.state, 1000, &st);
    f.setup.known = false;
    silence(&f, "DriverNotLoaded");
    node_readiness_build(&f.state, 2000, &st);
    cr_expect_str_eq(condition_get(&st.conditions, "DriverReady")->reason, "Loaded");
    conditions_done(&st.conditions);
}

Test(node_readiness, a_failed_reading_has_a_reason_that_a_remedy_goes_by)
{
    static const struct {
        struct err why;
        const char *reason;
    } cases[] = {
        {{.kind = ERR_NOT_FOUND}, "DriverNotLoaded"},
        {{.kind = ERR_SYSTEM, .reason = "DriverVersionMismatch"}, "DriverVersionMismatch"},
        {{.kind = ERR_FORBIDDEN, .reason = "NoPermission"}, "NoPermission"},
        {{.kind = ERR_SYSTEM, .reason = "GPULost"}, "ReadFailed"},
        {{.kind = ERR_TIMEOUT}, "ReadFailed"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        cr_expect_str_eq(node_readiness_read_reason(&cases[i].why), cases[i].reason);
}
