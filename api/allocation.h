/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * The record of the shares that a pod's containers were given, in an annotation of the pod:
 *
 *   {"v":1,"c":[{"n":"main","s":[{"u":"GPU-…","m":3000,"c":30}]}],"p":0}
 *
 * The scheduler sends it with the Binding, whose annotations the API server copies to the pod in
 * the same write (kubernetes pkg/registry/core/pod/storage/storage.go). "v" changes when a reader
 * of before must not go on; members that are not known are passed over. Plain values that own their
 * strings and arrays.
 */

#define ALLOCATION_ANNOTATION "gpu.cleave.dev/allocation"
#define ALLOCATION_VERSION    1

enum {
    ALLOCATION_MAX_BYTES = 16 << 10,
    ALLOCATION_MAX_CONTAINERS = 64,
    ALLOCATION_MAX_SHARES = 64, /* of a container */
};

struct allocation_share {
    char *uuid;         /* of the card */
    int64_t memory_mib; /* above 0 */
    int64_t compute;    /* percent; 0: no guarantee */
};

struct allocation_container {
    char *name;
    struct allocation_share *shares;
    size_t n_shares;
};

struct allocation {
    int64_t version;
    struct allocation_container *containers;
    size_t n_containers;
    int64_t priority; /* 0 high, 1 low */
};

/* Reads the annotation's text. ERR_INVALID, ERR_PROTOCOL, ERR_TOO_LARGE with what is wrong; a
 * version that is not known is ERR_INVALID. *ret is to be freed in any case. */
int allocation_parse(const char *text, struct allocation *ret, struct err *e) MUST_CHECK;
/* The annotation's text. ERR_TOO_LARGE: it is longer than may be. Caller frees *ret. */
int allocation_format(const struct allocation *a, char **ret, struct err *e) MUST_CHECK;
/* The container of this name; NULL: it was given nothing. Borrowed. */
const struct allocation_container *allocation_of(const struct allocation *a, const char *container);
void allocation_done(struct allocation *a);
AUTO_DEFINE(allocation, struct allocation, allocation_done)
