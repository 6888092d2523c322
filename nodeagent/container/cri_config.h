/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/*
 * What containerd's configuration says of the ways into a container: whether it does CDI, and which
 * of its runtimes are NVIDIA's and ours. Docker's says the latter alone. Pure; a plain value.
 * Sources: containerd docs/cri/config.md and docs/man/containerd-config.toml.5.md (versions 1, 2 and
 * 3 of the file).
 */
enum { CRI_MAX_IMPORTS = 8, CRI_MAX_HANDLERS = 8, CRI_NAME_BYTES = 64, CRI_PATH_BYTES = 256 };

enum cri_switch { CRI_UNSET, CRI_OFF, CRI_ON };

struct cri_config {
    int version;                          /* of the file; 0: none was read, or none is in it */
    enum cri_switch cdi;                  /* enable_cdi */
    char default_handler[CRI_NAME_BYTES]; /* default_runtime_name; "": not set, "runc" */
    struct cri_handlers {
        char names[CRI_MAX_HANDLERS][CRI_NAME_BYTES];
        unsigned n;
    } nvidia, own; /* those that run NVIDIA's runtime, and cleave-runtime */
    char imports[CRI_MAX_IMPORTS][CRI_PATH_BYTES]; /* as written; of the file that was taken last */
    unsigned n_imports;
};

/* Merges one file; its values replace those of earlier files. ERR_INVALID and ERR_TOO_LARGE as
 * toml_scan, ERR_TOO_LARGE also for a value that has no room here; *c is unchanged then. */
int cri_config_take(struct cri_config *c, const char *text, size_t len, struct err *e) MUST_CHECK;

/* The same for Docker's /etc/docker/daemon.json. ERR_PROTOCOL, ERR_TOO_LARGE: not JSON. */
int cri_config_take_docker(struct cri_config *c, const char *text, size_t len,
                           struct err *e) MUST_CHECK;

/* The one of these handlers, which are of c: the default one, if it is among them; else the first.
 * NULL: none. */
const char *cri_config_handler(const struct cri_config *c, const struct cri_handlers *among,
                               bool *ret_default);
