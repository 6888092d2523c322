/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/options.h"

#include "nodeagent/gpu/gpu.h"
#include "partition/resolve.h"

/* This host's cards, for the stand-alone verbs. One thread, no API server. */

struct host_flags {
    const char *library, *mxsml, *smi, *proc_root, *sys_root, *state_dir;
};
#define HOST_FLAGS_DEFAULT ((struct host_flags){.state_dir = "/var/lib/cleave"})
/* Entries of a flag table for f (a struct host_flags lvalue). */
#define HOST_OPTIONS(f)                                                                            \
    {"nvml-library", 0,   "CLEAVE_NVML_LIBRARY", "PATH", "NVML; absent: libnvidia-ml.so.1",        \
     &(f).library,   NULL},                                                                        \
        {"nvidia-smi", 0,   "CLEAVE_NVIDIA_SMI", "PATH", "for resets; absent: from PATH",          \
         &(f).smi,     NULL},                                                                      \
        {"mxsml-library",                                                                          \
         0,                                                                                        \
         "CLEAVE_MXSML_LIBRARY",                                                                   \
         "PATH",                                                                                   \
         "MetaX's library; absent: libmxsml.so",                                                   \
         &(f).mxsml,                                                                               \
         NULL},                                                                                    \
        {"proc-root", 0, NULL, "PATH", "the host's /proc", &(f).proc_root, NULL},                  \
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

struct host {
    struct gpu *gpu;
    struct gpu_inventory inventory;
    struct resolve_card *cards; /* borrow from the inventory */
    struct profile_count **counts;
};

/* Opens the cards of all vendors on this machine. Neither a library nor a driver needs to be there
 * yet. watch: NVIDIA's events (struct nvml_options), may be NULL. */
int host_gpus(const struct host_flags *f, struct gpu_watch *watch, struct gpu **ret,
              struct err *e) MUST_CHECK;
/* Opens the libraries and reads all cards. ERR_NOT_FOUND: no library or driver of any vendor. */
int host_open(const struct host_flags *f, struct host *ret, struct err *e) MUST_CHECK;
/* Reads all cards again. */
int host_read(struct host *h, struct err *e) MUST_CHECK;
void host_done(struct host *h);
AUTO_DEFINE(host, struct host, host_done)
#define auto_host AUTO(host)
