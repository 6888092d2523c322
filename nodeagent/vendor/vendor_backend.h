/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/container/container_vendor.h"
#include "nodeagent/gpu/gpu.h"

/*
 * All that the agent knows of one vendor. A vendor is a folder beside this file, which defines
 * vendor_<name>, a line of vendors.def, a row of partition/vendor.c with its names in the cluster,
 * and its word in crds/devices.yaml, crds/gpuprofiles.yaml and
 * config/admission/controller-node-status.yaml. Labels of its own, if it has some, are a row of
 * report/gpu_labels.c, and their domain is in api/feature_label.h. GPU_MAX_VENDORS and
 * HOST_MAX_VENDORS bound the table. docs/adding-a-vendor.md has it worked through.
 * Immutable, static.
 */

/* A command-line option of the vendor's own, always with a value. */
struct vendor_option {
    const char *name;  /* "nvml-library"; NULL ends the table */
    const char *env;   /* variable read when the flag is absent; NULL: none */
    const char *value; /* placeholder in the help: "PATH" */
    const char *help;  /* one line */
};

/* Options of one vendor; the first one is the path of its library, if it has one. */
#define VENDOR_MAX_OPTIONS 4

/* What a back end is opened with. Borrowed for the call. */
struct vendor_host {
    const char *values[VENDOR_MAX_OPTIONS]; /* of its options, in their order; NULL: not set */
    const char *proc_root, *sys_root;       /* NULL: /proc, /sys */
    struct gpu_watch *watch; /* suspended while a card is reset; outlives the gpu. NULL: none */
};

/* The words of a table of links between cards, as the vendor's own tool prints them. */
struct vendor_links {
    const char *abbreviation; /* "NV" */
    const char *legend;       /* "NV#   joined by # NVLinks\n" */
    bool counted;             /* the number of links follows the abbreviation */
};

struct vendor_backend {
    const char *name;                    /* as in partition/vendor.c; the folder's */
    const struct vendor_option *options; /* NULL: none */
    /* Opens its cards. Neither library nor driver needs to be there yet: each verb reports that
     * (ERR_NOT_FOUND), and the next one looks again. */
    int (*open)(const struct vendor_host *h, struct gpu **ret, struct err *e);
    const struct container_vendor *container; /* its way into a container; never NULL */
    const struct vendor_links *links;         /* NULL: it has none of its own */
    /* The paths on the host at which an installation of its software is known to be. A message
     * names what is found there and not used. Each list ends with NULL; NULL: there is none. */
    const char *const *libraries; /* the management library */
    const char *const *runtimes;  /* its container runtime */
    size_t cards_at_once;         /* so many of its cards are changed side by side; 0: one */
    /* Its folder defines vendor_watch_events: one vendor of the table at most, as the function is
     * linked by that name. False: readings alone tell of health. */
    bool reports_events;
};

/* Waits for the driver's events and writes each to out_fd as a struct gpu_event, until the driver
 * ends the wait (0) or the reader is gone; once in beat_ms in which none comes it writes a byte to
 * beat_fd, which does not block (-1: nobody reads). First it reports for each card of this machine
 * whether it is watched. library: the value of the vendor's first option. Blocks; for the only
 * thread of a process. ERR_NOT_FOUND: no library or driver. No member of the table, since the
 * process that runs it (cleave-watch) has nothing else of any vendor in it. */
int vendor_watch_events(const char *library, int beat_ms, int beat_fd, int out_fd,
                        struct err *e) MUST_CHECK;
