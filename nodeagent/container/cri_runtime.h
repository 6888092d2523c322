/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "nodeagent/container/cri_config.h"

/*
 * The node's container runtime, as far as the host's files and processes tell: which one it is, of
 * which version, and whether it does what CDI names in a container's configuration ask for. The
 * runtime itself is not asked, because whoever may talk to it is root of the host (docs/adr/0035).
 * Plain values.
 */
enum cri_kind { CRI_KIND_UNKNOWN, CRI_KIND_CONTAINERD, CRI_KIND_CRIO, CRI_KIND_DOCKER };

enum cri_cdi {
    CRI_CDI_UNKNOWN,
    CRI_CDI_ON,
    CRI_CDI_OFF,  /* switched off, or not switched on where that is needed */
    CRI_CDI_NONE, /* this runtime, or this version of it, has no CDI */
};

struct cri_runtime {
    unsigned pid;        /* of its process; 0: none was found */
    int64_t began_ticks; /* when that began, in the kernel's ticks since the boot; 0: not known */
    int64_t started_s;   /* the same in seconds of the wall clock; 0: not known */
    enum cri_kind kind;
    int major, minor; /* of its version; 0, -1: not known */
    enum cri_cdi cdi;
    char file[CRI_PATH_BYTES]; /* the configuration that was read, as the host names it; "": none */
    bool has_file;             /* containerd's was there */
    /* Why it could not be read, or is not understood; "": nothing. */
    char trouble[CRI_PATH_BYTES + 128];
    /* The file was changed, or cannot be read any more, since the process read it. */
    bool is_edited;
    char handler[CRI_NAME_BYTES]; /* the one that runs NVIDIA's container runtime; "": none */
    bool handler_is_default;
    char own[CRI_NAME_BYTES]; /* the handler that runs cleave-runtime (docs/adr/0038); "": none */
    bool own_is_default;
};

/* True when it is known that CDI names do nothing. Pure. */
bool cri_cdi_is_off(const struct cri_runtime *r);
/* True unless it is known that a container gets nothing of what a description says when it starts,
 * neither by CDI nor by cleave-runtime. Pure. */
bool cri_resolves_names(const struct cri_runtime *r);
/* True when it is known that nobody brings a driver's files into containers, neither CDI nor
 * cleave-runtime nor NVIDIA's runtime, so that the answer to Allocate has to. Pure. */
bool cri_needs_mounts(const struct cri_runtime *r);
/* True when it is known that cleave-runtime starts each container that names no other handler, and so
 * looks up the files of those with a mark. Pure. */
bool cri_marks_count(const struct cri_runtime *r);
/* The answer that follows from what is known of containerd. Pure. */
enum cri_cdi cri_containerd_cdi(int major, int minor, const struct cri_config *c);

/* Looks for the runtime among the processes of proc_root (the host's /proc), and reads its
 * configuration below host_root (the host's "/"), where only root may have written it. before (NULL:
 * nothing): what was found last; while that process is there no other is looked for, and containerd,
 * which reads its configuration once, is what it was when that was still as the process had read it. */
void cri_runtime_read(const char *proc_root, const char *host_root,
                      const struct cri_runtime *before, struct cri_runtime *ret);
