/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"

/* Opens MetaX's back end, which reads and changes cards through MXSML. */

struct mxsml_options {
    const char *library;   /* path for dlopen; NULL: libmxsml.so by the loader's rules, then MetaX's
                              folder */
    const char *proc_root; /* NULL: /proc. Source of boot_id */
    const char *sys_root;  /* NULL: /sys. Source of PCI ids and NUMA nodes */
};
/* Opens MetaX's cards. Neither the library nor the driver needs to be there yet: each call reports
 * that (ERR_NOT_FOUND), and the next one looks again. Options are copied. Returns 0. */
int gpu_mxsml_open(const struct mxsml_options *o, struct gpu **ret, struct err *e) MUST_CHECK;
