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
#include "nodeagent/container/device_make.h"
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

static int make_nodes(const struct device_nodes_where *w, struct device_nodes *nodes,
                      const struct entry_device *devices, size_t n, struct err *e)
{
    unsigned minors[MAX_DEVICES];
    size_t n_minors = 0;
    for (size_t i = 0; i < n; i++)
        if (!devices[i].pci_bus_id)
            minors[n_minors++] = devices[i].minor;
    TRY(device_make_cards(w, nodes, minors, n_minors, e));
    for (size_t i = 0; i < n; i++) {
        const struct entry_device *d = &devices[i];
        if (d->mig)
            TRY(device_make_caps(w, nodes, d->minor, d->gi_id, d->ci_id, e));
    }
    return 0;
}

static void look(const char *root, const struct entry_device *devices, size_t n,
                 struct container_nodes *ret)
{
    char sys_root[4096];
    const struct dri_where where = {.sys_root = sys_root, .dev_root = root};
    const char *bus_ids[MAX_DEVICES];
    size_t n_ids = 0;
    (void)snprintf(sys_root, sizeof(sys_root), "%s/sys", root);
    for (size_t i = 0; i < n; i++)
        if (devices[i].pci_bus_id)
            bus_ids[n_ids++] = devices[i].pci_bus_id;
    container_nodes_look(&where, root, bus_ids, n_ids, ret);
}

static int run(char **argv, const struct entry_device *devices, size_t n, struct err *e)
{
    const struct device_nodes_where where = {.proc_root = argv[1], .dev_root = argv[2]};
    const struct driver_files_where driver = {.root = argv[3], .version = argv[4]};
    const struct cdi_options options = {.folder = argv[5]};
    const struct entry_device *list[MAX_DEVICES];
    auto_container_nodes struct container_nodes nodes = {0};
    auto_driver_files struct driver_files files = {0};
    auto_cdi struct cdi *cdi = cdi_new(&options);
    for (size_t i = 0; i < n; i++)
        list[i] = &devices[i];
    TRY(device_nodes_read(&where, argv[2], &nodes.nvidia, e));
    TRY(make_nodes(&where, &nodes.nvidia, devices, n, e));
    look(argv[2], devices, n, &nodes);
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
