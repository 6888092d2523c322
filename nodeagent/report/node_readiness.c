/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/node_readiness.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/offer/plugin_config.h"
#include "partition/vendor.h"
#include "service/conditions.h"

const char *const node_readiness_types[] = {"DriverReady", "ContainerRuntimeReady",
                                            "PersistenceMode", "RebootRequired", NULL};

const char *node_readiness_read_reason(const struct err *why)
{
    static const char *const known[] = {"DriverVersionMismatch", "NoPermission"};
    if (why->kind == ERR_NOT_FOUND)
        return "DriverNotLoaded";
    for (size_t i = 0; why->reason && i < ARRAY_LEN(known); i++)
        if (strcmp(why->reason, known[i]) == 0)
            return known[i];
    return "ReadFailed";
}

/* A condition's content. */
struct saying {
    enum condition_status status;
    const char *reason; /* static; NULL: there is no such condition */
    char *message;      /* owned */
};

static struct saying say(enum condition_status status, const char *reason, char *message_take)
{
    assert(reason && message_take);
    return (struct saying){status, reason, message_take};
}

/* Takes the message over. */
static void put(const struct node_state *s, const char *type, struct saying what, int64_t now_ms,
                struct device_status *ret)
{
    if (what.reason)
        (void)condition_set(&ret->conditions, type, what.status, what.reason, what.message,
                            s->generation, now_ms);
    else
        (void)condition_remove(&ret->conditions, type);
    free(what.message);
}

/* --- The driver --- */

/* One vendor's facts. */
struct driver_facts {
    const char *title;
    const struct host_pci_cards *pci;   /* NULL: it is not on a PCI bus */
    const struct vendor_setup *setup;   /* NULL: nothing is known */
    const struct gpu_driver *driver;    /* its library answers; NULL: it does not */
    const char *module;                 /* NULL: not known */
    const char *read_reason, *read_why; /* why the last reading failed; NULL: it did not */
};

static struct driver_facts driver_facts(const struct node_state *s, const struct vendor *v)
{
    struct driver_facts f = {.title = v->title, .module = v->module};
    for (size_t i = 0; s->host && i < HOST_MAX_VENDORS && s->host->cards[i].vendor; i++)
        if (strcmp(s->host->cards[i].vendor, v->name) == 0)
            f.pci = &s->host->cards[i];
    f.setup = s->setup ? host_setup_of(s->setup, v->name) : NULL;
    f.driver = s->inventory && !s->read_error ? gpu_inventory_driver(s->inventory, v->name) : NULL;
    f.read_reason = s->read_error ? s->read_reason : NULL;
    f.read_why = s->read_error;
    return f;
}

static unsigned cards_on_bus(const struct driver_facts *f)
{
    return f->pci ? f->pci->n : 0;
}

/* "2 NVIDIA cards (the first: 0000:3b:00.0)" */
static char *cards_words(const struct driver_facts *f)
{
    unsigned n = cards_on_bus(f);
    assert(n > 0);
    return n == 1 ? xasprintf("1 %s card (%s)", f->title, f->pci->first)
                  : xasprintf("%u %s cards (the first: %s)", n, f->title, f->pci->first);
}

/* The way by which the agent's pod would get the library. */
static char *component_words(const struct vendor_setup *setup)
{
    const char *library = setup ? setup->library : "";
    const char *runtime = setup ? setup->runtime : "";
    if (*runtime && *library)
        return xasprintf("it is on the host (%s), and so is a container runtime that brings it "
                         "(%s): install the component nvidia-runtime, or host-driver "
                         "(config/agent/components; with Helm driver.from=runtimeClass, or host)",
                         library, runtime);
    if (*runtime)
        return xasprintf("a container runtime that brings it is on the host (%s): install the "
                         "component nvidia-runtime (config/agent/components; with Helm "
                         "driver.from=runtimeClass)",
                         runtime);
    if (*library)
        return xasprintf("it is on the host (%s): install the component host-driver "
                         "(config/agent/components; with Helm driver.from=host)",
                         library);
    return xstrdup("it was not found on the host either: install the whole driver, or name the "
                   "library's path (cleave-agent run --help)");
}

static struct saying say_versions(const struct driver_facts *f)
{
    const char *kernel = f->setup ? f->setup->version : "";
    if (*kernel && strcmp(kernel, f->driver->version) != 0)
        return say(CONDITION_FALSE, "DriverVersionMismatch",
                   xasprintf("%s's library is of version %s and the kernel's driver of %s: reboot "
                             "the node, or unload the driver and load it again",
                             f->title, f->driver->version, kernel));
    return say(CONDITION_TRUE, "Loaded",
               xasprintf("%s's driver %s is loaded%s", f->title, f->driver->version,
                         *kernel ? ", and its library is of the same version" : ""));
}

static struct saying say_mismatch(const struct driver_facts *f)
{
    const char *kernel = f->setup ? f->setup->version : "";
    return say(CONDITION_FALSE, "DriverVersionMismatch",
               xasprintf("%s's library does not fit the kernel's driver%s%s: the driver was "
                         "upgraded and the old one is still loaded, or the library in this pod is "
                         "not the host's; reboot the node, or unload the driver and load it again",
                         f->title, *kernel ? " " : "", kernel));
}

static struct saying say_library(const struct driver_facts *f)
{
    auto_free char *component = component_words(f->setup);
    const char *version = f->setup ? f->setup->version : "";
    return say(CONDITION_FALSE, "LibraryNotFound",
               xasprintf("the kernel's driver%s%s is loaded, and this agent cannot load %s's "
                         "library: %s",
                         *version ? " " : "", version, f->title, component));
}

static struct saying say_not_loaded(const struct driver_facts *f)
{
    auto_free char *cards = cards_words(f);
    const char *library = f->setup ? f->setup->library : "";
    if (*library)
        return say(CONDITION_FALSE, "DriverNotLoaded",
                   xasprintf("%s and no driver for it in the kernel; the driver's files are there "
                             "(%s): load it (modprobe, dmesg), or reboot the node",
                             cards, library));
    return say(CONDITION_FALSE, "DriverNotLoaded",
               xasprintf("%s and no driver for it in the kernel: install %s's driver; the agent "
                         "finds it by itself",
                         cards, f->title));
}

static struct saying say_other_driver(const struct driver_facts *f)
{
    auto_free char *cards = cards_words(f);
    return say(CONDITION_FALSE, "OtherDriver",
               xasprintf("%s in the hands of the kernel's driver %s: keep that from loading "
                         "(modprobe.d: blacklist %s), install %s's own, and reboot the node",
                         cards, f->pci->driver, f->pci->driver, f->title));
}

static bool has_other_driver(const struct driver_facts *f)
{
    return f->module && f->pci && *f->pci->driver && strcmp(f->pci->driver, f->module) != 0;
}

/* A module whose name is not known is seen by the card that it drives. */
static bool is_loaded(const struct driver_facts *f)
{
    return (f->setup && f->setup->module) || (!f->module && f->pci && *f->pci->driver);
}

/* The condition of a vendor whose cards are there and whose library does not answer. */
static struct saying say_silent(const struct driver_facts *f)
{
    bool absent = !f->read_reason || strcmp(f->read_reason, "DriverNotLoaded") == 0;
    if (f->read_reason && strcmp(f->read_reason, "DriverVersionMismatch") == 0)
        return say_mismatch(f);
    if (has_other_driver(f))
        return say_other_driver(f);
    if (!absent)
        return say(CONDITION_UNKNOWN, f->read_reason, xstrdup(f->read_why));
    return is_loaded(f) ? say_library(f) : say_not_loaded(f);
}

/* The first vendor whose driver is not as it should be; if there is none, the last one with
 * cards. */
static struct saying say_driver(const struct node_state *s)
{
    struct saying last = {0};
    for (const struct vendor *v = vendors; v->name; v++) {
        const struct driver_facts f = driver_facts(s, v);
        if (!f.driver && !cards_on_bus(&f))
            continue;
        free(last.message);
        last = f.driver ? say_versions(&f) : say_silent(&f);
        if (last.status != CONDITION_TRUE)
            return last;
    }
    return last;
}

/* --- The container runtime --- */

static const char *runtime_title(const struct cri_runtime *r)
{
    static const char *const titles[] = {
        [CRI_KIND_UNKNOWN] = "the container runtime",
        [CRI_KIND_CONTAINERD] = "containerd",
        [CRI_KIND_CRIO] = "CRI-O",
        [CRI_KIND_DOCKER] = "Docker (cri-dockerd)",
    };
    return titles[r->kind];
}

/* "containerd 1.7" */
static char *runtime_words(const struct cri_runtime *r)
{
    if (r->major > 0 && r->minor >= 0)
        return xasprintf("%s %d.%d", runtime_title(r), r->major, r->minor);
    return r->major > 0 ? xasprintf("%s %d", runtime_title(r), r->major)
                        : xstrdup(runtime_title(r));
}

static char *remedy_words(const struct cri_runtime *r, bool has_nvidia)
{
    if (r->cdi == CRI_CDI_NONE)
        return xasprintf("use containerd 2, or 1.7 with enable_cdi = true, or CRI-O; or make "
                         "cleave-runtime%s the default one (docs/containers.md)",
                         has_nvidia ? " or NVIDIA's container runtime" : "");
    return xasprintf("set enable_cdi = true in %s ([plugins.\"io.containerd.grpc.v1.cri\"], or "
                     "[plugins.\"io.containerd.cri.v1.runtime\"] in version 3 of the file) and "
                     "restart containerd",
                     *r->file ? r->file : "its configuration");
}

static bool has_cards_of(const struct node_state *s, const char *vendor)
{
    for (size_t i = 0; i < s->n_cards; i++)
        if (strcmp(s->cards[i].card.vendor, vendor) == 0)
            return true;
    return false;
}

static struct saying say_no_cdi(const struct node_state *s)
{
    const struct cri_runtime *r = &s->setup->runtime;
    auto_free char *runtime = runtime_words(r);
    bool has_nvidia = has_cards_of(s, "nvidia");
    auto_free char *remedy = remedy_words(r, has_nvidia);
    const char *what = r->cdi == CRI_CDI_NONE ? "has no CDI" : "has CDI switched off";
    if (r->own_is_default)
        return say(CONDITION_TRUE, "CleaveRuntime",
                   xasprintf("%s %s: cleave-runtime, its default handler \"%s\", gives containers "
                             "what CDI would",
                             runtime, what, r->own));
    if (!has_nvidia)
        return say(CONDITION_TRUE, "DeviceFiles",
                   xasprintf("%s %s: containers get device files, and no slices that are made for "
                             "their pods; for those %s",
                             runtime, what, remedy));
    if (r->handler_is_default)
        return say(CONDITION_TRUE, "NVIDIARuntime",
                   xasprintf("%s %s: NVIDIA's container runtime, its default handler \"%s\", gives "
                             "containers their devices and the driver's libraries",
                             runtime, what, r->handler));
    if (cri_needs_mounts(r))
        return say(
            CONDITION_TRUE, "DriverMounts",
            xasprintf("%s %s: containers get their device files and the driver's libraries "
                      "from the kubelet, as they were when the pod came; make pods anew that "
                      "are older than an upgrade of the driver; better: %s",
                      runtime, what, remedy));
    return say(CONDITION_FALSE, r->cdi == CRI_CDI_NONE ? "CDIUnsupported" : "CDIDisabled",
               xasprintf("%s %s%s%s: containers get their device files and none of the driver's "
                         "libraries%s%s%s; %s",
                         runtime, what, *r->trouble ? ", and what else is set is not known: " : "",
                         r->trouble,
                         *r->handler ? ", except pods with the RuntimeClass of NVIDIA's runtime (\""
                                     : "",
                         r->handler, *r->handler ? "\")" : "", remedy));
}

static struct saying say_doubt(const struct cri_runtime *r)
{
    const char *meanwhile = "containers are given devices by CDI, and by device files and the "
                            "vendor's variable besides";
    if (*r->trouble)
        return say(CONDITION_UNKNOWN, "ConfigUnreadable",
                   xasprintf("whether containerd does CDI is not known (%s); %s", r->trouble,
                             meanwhile));
    if (r->kind == CRI_KIND_UNKNOWN)
        return say(CONDITION_UNKNOWN, "RuntimeNotFound",
                   xasprintf("neither containerd nor CRI-O nor cri-dockerd is among the processes "
                             "that the agent sees (hostPID); %s",
                             meanwhile));
    return say(CONDITION_UNKNOWN, "VersionUnknown",
               xasprintf("whether containerd does CDI is not known: its version is not, and %s "
                         "does not set enable_cdi; set it to true, which containerd 1.7 needs; %s",
                         *r->file ? r->file : "its configuration", meanwhile));
}

static struct saying say_how_devices_come(const struct node_state *s)
{
    const struct cri_runtime *r = &s->setup->runtime;
    if (!plugin_config_wants_cdi(s->config))
        return *r->handler || (host_setup_of(s->setup, "nvidia") &&
                               *host_setup_of(s->setup, "nvidia")->runtime)
                   ? say(CONDITION_TRUE, "NVIDIARuntime",
                         xstrdup("NVIDIA's container runtime gives containers their devices, as "
                                 "deviceListStrategy wants it"))
                   : say(CONDITION_UNKNOWN, "RuntimeNotFound",
                         xstrdup("deviceListStrategy leaves CDI out, and NVIDIA's container "
                                 "runtime was not found on the host"));
    if (cri_cdi_is_off(r))
        return say_no_cdi(s);
    if (r->cdi == CRI_CDI_UNKNOWN)
        return say_doubt(r);
    auto_free char *runtime = runtime_words(r);
    return say(CONDITION_TRUE, "CDI", xasprintf("%s gives containers devices by CDI", runtime));
}

static struct saying say_runtime(const struct node_state *s)
{
    const struct cri_runtime *r = &s->setup->runtime;
    if (s->means.publisher != API_PUBLISHER_KUBELET)
        return (struct saying){0};
    struct saying now = say_how_devices_come(s);
    if (!r->is_edited || *r->trouble)
        return now;
    auto_free char *text = now.message;
    now.message = xasprintf("%s; %s was changed since containerd started, which counts once it is "
                            "restarted",
                            text, r->file);
    return now;
}

/* --- The cards --- */

static struct saying say_persistence(const struct node_state *s)
{
    const struct gpu_card *off = NULL;
    unsigned n_off = 0;
    unsigned n_known = 0;
    for (size_t i = s->n_cards; i-- > 0;) {
        const struct gpu_card *c = &s->cards[i].card;
        if (c->unread || !c->persistence_known)
            continue;
        n_known++;
        if (c->persistence)
            continue;
        off = c;
        n_off++;
    }
    if (n_known == 0)
        return (struct saying){0};
    if (!off)
        return say(CONDITION_TRUE, "Enabled", xstrdup("persistence mode is on on all cards"));
    return say(CONDITION_FALSE, "Disabled",
               xasprintf("persistence mode is off on %u of %u cards (%s GPU %u): the driver is "
                         "unloaded whenever nothing uses them, and the next program waits for it; "
                         "run nvidia-persistenced on the host, or nvidia-smi -pm 1",
                         n_off, n_known, vendor_title(off->vendor), off->index));
}

/* The first card's condition with this reason that is not as it should be. */
static const struct condition *condition_with(const struct device_status *built, const char *reason,
                                              const struct device_card **ret_card)
{
    for (size_t i = 0; i < built->n_devices; i++)
        for (size_t k = 0; k < built->devices[i].conditions.count; k++) {
            const struct condition *c = &built->devices[i].conditions.items[k];
            if (c->status == CONDITION_TRUE || strcmp(c->reason, reason) != 0)
                continue;
            *ret_card = &built->devices[i];
            return c;
        }
    return NULL;
}

static struct saying say_reboot(const struct node_state *s, const struct device_status *built)
{
    static const char *const reasons[] = {"RebootRequired", "ResetRequired"};
    const struct device_card *card;
    if (!s->inventory || s->read_error)
        return say(CONDITION_UNKNOWN, "NotRead", xstrdup("the cards cannot be read"));
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        const struct condition *c = condition_with(built, reasons[i], &card);
        if (c)
            return say(CONDITION_TRUE, reasons[i],
                       xasprintf("%s GPU %lld: %s", vendor_title(card->vendor),
                                 (long long)card->index, c->message));
    }
    return say(CONDITION_FALSE, "NotRequired",
               xstrdup("neither the node nor a card waits for a reboot or a reset"));
}

/* --- All of them --- */

static bool may_have_cards(const struct node_state *s)
{
    return s->n_cards > 0 || (s->host && !host_has_no_cards(s->host));
}

void node_readiness_build(const struct node_state *s, int64_t now_ms, struct device_status *ret)
{
    struct saying none = {0};
    if (!s->setup || !s->setup->known) /* what was said before stays until it can be said anew */
        return;
    bool asked = may_have_cards(s);
    put(s, "DriverReady", asked ? say_driver(s) : none, now_ms, ret);
    put(s, "ContainerRuntimeReady", asked ? say_runtime(s) : none, now_ms, ret);
    put(s, "PersistenceMode", asked ? say_persistence(s) : none, now_ms, ret);
    put(s, "RebootRequired", asked ? say_reboot(s, ret) : none, now_ms, ret);
}
