/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/options.h"

#include "nodeagent/vendor/vendors.h"
#include "partition/resolve.h"

/* This host's cards, for the stand-alone verbs. One thread, no API server. */

struct host_flags {
    const char *vendor[GPU_MAX_VENDORS][VENDOR_MAX_OPTIONS]; /* by vendor_backends and options */
    const char *proc_root, *sys_root, *state_dir;
};
#define HOST_FLAGS_DEFAULT ((struct host_flags){.state_dir = "/var/lib/cleave"})
/* Entries of a flag table for f (a struct host_flags lvalue), which host_options completes. */
#define HOST_OPTIONS(f)                                                                            \
    {"proc-root", 0, NULL, "PATH", "the host's /proc", &(f).proc_root, NULL},                      \
        {"sys-root",                                                                               \
         0,                                                                                        \
         NULL,                                                                                     \
         "PATH",                                                                                   \
         "the host's /sys, for PCI devices and the machine's name",                                \
         &(f).sys_root,                                                                            \
         NULL},                                                                                    \
    {                                                                                              \
        "state-dir", 0, "CLEAVE_STATE_DIR", "PATH", "where journals of changes are kept",          \
            &(f).state_dir, NULL                                                                   \
    }
/* The table with the options of all vendors before HOST_OPTIONS(*f). Caller frees. */
struct option_def *host_options(struct host_flags *f, const struct option_def *own);

struct host {
    struct gpu *gpu;
    struct gpu_inventory inventory;
    struct resolve_card *cards; /* borrow from the inventory */
    struct profile_count **counts;
};

/* Opens the cards of all vendors on this machine. Neither a library nor a driver needs to be there
 * yet. watch: as struct vendor_host has it, may be NULL. */
int host_gpus(const struct host_flags *f, struct gpu_watch *watch, struct gpu **ret,
              struct err *e) MUST_CHECK;
/* The library's path for the vendor whose driver reports events; NULL: not set. Borrowed from f. */
const char *host_events_library(const struct host_flags *f);
/* Opens the libraries and reads all cards. ERR_NOT_FOUND: no library or driver of any vendor. */
int host_open(const struct host_flags *f, struct host *ret, struct err *e) MUST_CHECK;
/* Reads all cards again. */
int host_read(struct host *h, struct err *e) MUST_CHECK;
void host_done(struct host *h);
AUTO_DEFINE(host, struct host, host_done)
#define auto_host AUTO(host)
