/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent makes of a simulated machine: its device files and its CDI spec.
 *
 *   entry PROC_ROOT DEV_ROOT DRIVER_ROOT VERSION CDI_FOLDER NAME:MINOR[:GI:CI]...
 *
 * Prints what could not be done, and exits with 1 then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#include "nodeagent/kubelet/cdi.h"
#include "nodeagent/kubelet/device_make.h"

#define MAX_DEVICES 64

static int parse_device(const char *text, struct entry_device *ret)
{
    char name[128];
    int n = sscanf(text, "%127[^:]:%u:%u:%u", name, &ret->minor, &ret->gi_id, &ret->ci_id);
    ret->cdi_name = strdup(name);
    ret->mig = n == 4;
    return n == 2 || n == 4 ? 0 : -1;
}

static int make_nodes(const struct device_nodes_where *w, struct device_nodes *nodes,
                      const struct entry_device *devices, size_t n, struct err *e)
{
    unsigned minors[MAX_DEVICES];
    for (size_t i = 0; i < n; i++)
        minors[i] = devices[i].minor;
    TRY(device_make_cards(w, nodes, minors, n, e));
    for (size_t i = 0; i < n; i++) {
        const struct entry_device *d = &devices[i];
        if (d->mig)
            TRY(device_make_caps(w, nodes, d->minor, d->gi_id, d->ci_id, e));
    }
    return 0;
}

static int run(char **argv, const struct entry_device *devices, size_t n, struct err *e)
{
    const struct device_nodes_where where = {.proc_root = argv[1], .dev_root = argv[2]};
    const struct driver_files_where driver = {.root = argv[3], .version = argv[4]};
    const struct cdi_options options = {.folder = argv[5]};
    const struct entry_device *list[MAX_DEVICES];
    auto_device_nodes struct device_nodes nodes = {0};
    auto_driver_files struct driver_files files = {0};
    auto_cdi struct cdi *cdi = cdi_new(&options);
    for (size_t i = 0; i < n; i++)
        list[i] = &devices[i];
    TRY(device_nodes_read(&where, argv[2], &nodes, e));
    TRY(make_nodes(&where, &nodes, devices, n, e));
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
