/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent makes of a simulated machine: its device files and its CDI spec.
 *
 *   entry PROC_ROOT DEV_ROOT DRIVER_ROOT VERSION CDI_FOLDER NAME:MINOR[:GI:CI]|NAME=BUS_ID...
 *
 * With a bus id it is a card of MetaX's, whose nodes DEV_ROOT/sys names. Prints what could not be
 * done, and exits with 1 then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#include "nodeagent/cdi/cdi.h"
#include "nodeagent/container/driver_files.h"
#include "nodeagent/vendor/container_vendors.h"
#include "nodeagent/vendor/metax/container_metax.h"
#include "nodeagent/vendor/nvidia/container_nvidia.h"
#include "nodeagent/vendor/vendors.h"

#define MAX_DEVICES 64

/* The ways into containers alone, without the back ends (vendors.c). */
static const struct vendor_backend metax = {.name = "metax", .container = &container_metax};
static const struct vendor_backend nvidia = {.name = "nvidia", .container = &container_nvidia};
const struct vendor_backend *const vendor_backends[] = {&nvidia, &metax, NULL};

const struct vendor_backend *vendor_backend_find(const char *name)
{
    return strcmp(name, "metax") == 0 ? &metax : strcmp(name, "nvidia") == 0 ? &nvidia : NULL;
}

static int parse_device(const char *text, struct entry_device *ret)
{
    char name[128];
    const char *bus_id = strchr(text, '=');
    if (bus_id) {
        ret->vendor = "metax";
        ret->cdi_name = strndup(text, (size_t)(bus_id - text));
        ret->pci_bus_id = strdup(bus_id + 1);
        return 0;
    }
    int n = sscanf(text, "%127[^:]:%u:%u:%u", name, &ret->minor, &ret->gi_id, &ret->ci_id);
    ret->vendor = "nvidia";
    ret->cdi_name = strdup(name);
    ret->mig = n == 4;
    return n == 2 || n == 4 ? 0 : -1;
}

/* The card of a device, with its partition. */
static struct gpu_card card_of(const struct entry_device *d)
{
    struct gpu_card card = {.vendor = d->vendor, .minor = d->minor, .n_partitions = d->mig};
    if (d->pci_bus_id)
        (void)snprintf(card.pci_bus_id, sizeof(card.pci_bus_id), "%s", d->pci_bus_id);
    if (d->mig)
        card.partitions[0] = (struct gpu_partition){.gi_id = d->gi_id, .ci_id = d->ci_id};
    return card;
}

static int read_and_make(const struct driver_where *w, const struct entry_device *devices, size_t n,
                         struct device_nodes *ret, struct err *e)
{
    auto_free struct gpu_card *cards = calloc(n + 1, sizeof(*cards));
    for (size_t i = 0; i < n; i++)
        cards[i] = card_of(&devices[i]);
    TRY(device_nodes_read(w, cards, n, ret, e));
    TRY(device_nodes_make(w, cards, n, ret, e));
    for (size_t i = 0; i < n; i++)
        TRY(device_nodes_make_card(w, &cards[i], ret, e));
    return 0;
}

static int run(char **argv, const struct entry_device *devices, size_t n, struct err *e)
{
    char sys_root[4096];
    (void)snprintf(sys_root, sizeof(sys_root), "%s/sys", argv[2]);
    const struct driver_where where = {.proc_root = argv[1],
                                       .sys_root = sys_root,
                                       .dev_root = argv[2],
                                       .host_dev_root = argv[2],
                                       .plain_dev_root = argv[2]};
    const struct driver_files_where driver = {.root = argv[3], .version = argv[4]};
    const struct cdi_options options = {.folder = argv[5]};
    const struct entry_device *list[MAX_DEVICES];
    auto_device_nodes struct device_nodes nodes = {0};
    auto_driver_files struct driver_files files = {0};
    auto_cdi struct cdi *cdi = cdi_new(&options);
    for (size_t i = 0; i < n; i++)
        list[i] = &devices[i];
    TRY(read_and_make(&where, devices, n, &nodes, e));
    if (n == 0 || !devices[0].pci_bus_id)
        TRY(driver_files_find(&driver, &files, e));
    TRY(cdi_set_common(cdi, &nodes, &files, e));
    return cdi_write(cdi, &nodes, list, n, e);
}

int main(int argc, char **argv)
{
    struct entry_device devices[MAX_DEVICES] = {0};
    auto_err struct err e = {0};
    size_t n = argc > 6 ? (size_t)argc - 6 : 0;
    int rc = argc > 5 && n <= MAX_DEVICES ? 0 : -1;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = parse_device(argv[6 + i], &devices[i]);
    if (rc == 0)
        rc = run(argv, devices, n, &e);
    if (rc < 0)
        (void)fprintf(stderr, "entry: %s\n", err_msg(&e));
    for (size_t i = 0; i < n; i++)
        entry_device_done(&devices[i]);
    return rc < 0 ? 1 : 0;
}
