/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/cdi/cdi.h"
#include "nodeagent/cdi/cdi_common.h"
#include "nodeagent/cdi/cdi_slot.h"
#include "nodeagent/vendor/metax/container_metax.h"
#include "nodeagent/vendor/nvidia/container_nvidia.h"
#include "nodeagent/vendor/nvidia/nvidia_nodes.h"
#include "nodeagent/vendor/vendors.h"

/* Whatever files and devices are called, the parts of the spec are JSON, and a name that is said to
 * be legal comes back as it was. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Says of the JSON whether the device has that name, and gives it. */
static json_t *check_device(const struct device_nodes *nodes, const struct entry_device *d)
{
    auto_free char *text = NULL;
    if (cdi_device_render(nodes, d, /* together= */ NULL, 0, &text, NULL) < 0)
        return NULL;
    json_t *parsed = json_loads(text, 0, NULL);
    assert(parsed && strcmp(json_string_value(json_object_get(parsed, "name")), d->cdi_name) == 0);
    return parsed;
}

static void check_name(char *name)
{
    const struct device_nodes nodes = {0};
    const struct entry_device d = {.vendor = "nvidia", .cdi_name = name, .minor = 1};
    if (!cdi_is_name(name))
        return;
    auto_json json_t *parsed = check_device(&nodes, &d);
    assert(parsed);
}

/* An alias is the driver's text: refused, or whole in the one variable. */
static void check_slice(const char *alias)
{
    char name[] = "slot.1";
    char bus_id[] = "0000:05:00.0";
    struct dri_card card = {.bus_id = "0000:05:00.0", .renders = {128}, .n_renders = 1};
    struct metax_files control = {.mxcd = true};
    const struct device_nodes nodes = {.own = {{&container_metax, &control}},
                                       .dri = {.cards = &card, .n_cards = 1}};
    struct entry_device d = {.vendor = "metax",
                             .cdi_name = name,
                             .pci_bus_id = bus_id,
                             .has_slice = true,
                             .slice = {.id = 1, .memory_mib = 128, .compute_percent = 5}};
    (void)snprintf(d.slice.alias, sizeof(d.slice.alias), "%s", alias);
    auto_json json_t *parsed = check_device(&nodes, &d);
    if (!parsed)
        return;
    const json_t *env = json_object_get(json_object_get(parsed, "containerEdits"), "env");
    const char *said = json_string_value(json_array_get(env, 0));
    const char *begin = "METAX_SGPUS=sgpu=0000:05:00.0#1;compute=5;vram=128;alias=";
    assert(json_array_size(env) == 1 && strncmp(said, begin, strlen(begin)) == 0);
    assert(strcmp(said + strlen(begin), d.slice.alias) == 0);
}

/* What is taken for an address is one in one spelling, and leads out of no folder. */
static void check_bus_id(const char *text)
{
    char once[DRI_BUS_ID_BYTES];
    char twice[DRI_BUS_ID_BYTES];
    if (!dri_bus_id(text, once))
        return;
    assert(dri_bus_id(once, twice) && strcmp(once, twice) == 0 && !strchr(once, '/'));
}

static void check_slot(const char *text)
{
    char again[SLOT_WORD_BYTES];
    int slot = slot_of_name(text);
    assert(slot < SLOT_MAX);
    if (slot >= 0)
        assert(strcmp(slot_name((unsigned)slot, again), text) == 0);
}

static void check_common(char *path)
{
    struct nvidia_nodes nvidia = {.ctl = true, .host_dev_root = path};
    struct metax_files metax = {.mxcd = true};
    const struct device_nodes nodes = {.own = {{&container_nvidia, &nvidia},
                                               {&container_metax, &metax}},
                                       .dri = {.host_dev_root = path}};
    struct driver_file file = {DRIVER_LIBRARY, path, path};
    struct driver_link link = {path, path, path};
    const struct driver_files files = {&file, 1, &link, 1, &path, 1};
    const struct cdi_common_options ways[] = {
        {.hook = NULL, .second_folder = path, .set_library_path = true},
        {.hook = path, .second_folder = "", .newer_hooks = true},
    };
    for (size_t v = 0; vendor_backends[v]; v++) {
        for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
            auto_free char *text =
                cdi_common_render(vendor_backends[v]->container, &ways[i], &nodes, &files);
            auto_json json_t *parsed = json_loads(text, 0, NULL);
            assert(parsed);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_free char *text = xstrndup((const char *)data, len);
    check_name(text);
    check_slice(text);
    check_bus_id(text);
    check_slot(text);
    check_common(text);
    return 0;
}
