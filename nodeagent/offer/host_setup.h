/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "nodeagent/container/cri_runtime.h"
#include "nodeagent/offer/host_facts.h"

/*
 * What is installed on this host, as far as its files and processes tell: each vendor's driver,
 * library and container runtime, and the node's container runtime. For conditions that tell an
 * installer what is missing. Plain values; nothing of it is run or asked.
 */
struct vendor_setup {
    const char *vendor; /* as in partition/vendor.c; static. NULL: no more vendors */
    bool module;        /* the kernel has its module; false where the module's name is not known */
    char version[64];   /* the module's; "": not known */
    char library[96];   /* its management library on the host; "": not found */
    char runtime[96];   /* its container runtime on the host; "": not found */
};

struct host_setup {
    bool known; /* false: it was not read yet */
    struct vendor_setup vendors[HOST_MAX_VENDORS];
    struct cri_runtime runtime;
};

/* Borrowed strings; NULL: /proc, /sys, /. */
struct host_setup_where {
    const char *proc_root, *sys_root;
    const char *host_root; /* the host's "/", as the agent sees it */
};

/* Reads everything. *io: what was read last, or zeroes. For the worker's threads. */
void host_setup_read(const struct host_setup_where *w, struct host_setup *io);

/* NULL: nothing is known of a vendor of this name. Borrowed. */
const struct vendor_setup *host_setup_of(const struct host_setup *s, const char *vendor);
