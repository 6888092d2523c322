/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
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
 *
 * The API server does not count the annotations that a Binding brings, but refuses each later
 * update of a pod that has more than 256 KiB of them, its status included. Whoever binds asks
 * allocation_check_room first.
 */

#define ALLOCATION_ANNOTATION "gpu.cleave.dev/allocation"
#define ALLOCATION_VERSION    1

enum {
    ALLOCATION_MAX_BYTES = 16 << 10,
    ALLOCATION_MAX_CONTAINERS = 64,
    ALLOCATION_MAX_SHARES = 64, /* of a container, each on a card of its own */
    ALLOCATION_MAX_UUID_BYTES = 96,
};

struct allocation_share {
    char *uuid;         /* of the card: letters, digits and ._/-[] */
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
/* The annotation's text, which allocation_parse takes. ERR_TOO_LARGE: it is longer than may be;
 * ERR_INVALID as allocation_check. Caller frees *ret. */
int allocation_format(const struct allocation *a, char **ret, struct err *e) MUST_CHECK;
/* Whether all that is in it may be in a record, whatever its length. ERR_INVALID names what may
 * not. */
int allocation_check(const struct allocation *a, struct err *e) MUST_CHECK;
/* Whether a record of so many containers and shares in all is short enough for certain, where the
 * cards' uuids have up to uuid_bytes bytes: to refuse a pod before it is placed. ERR_TOO_LARGE. */
int allocation_check_size(size_t n_containers, size_t n_shares, size_t uuid_bytes,
                          struct err *e) MUST_CHECK;
/* Whether a pod with these annotations (an object, or NULL) has room for a record of the greatest
 * length and for beside_bytes more, keys and values, that are written with it. ERR_TOO_LARGE. */
int allocation_check_room(const json_t *annotations, size_t beside_bytes, struct err *e) MUST_CHECK;
/* The container of this name; NULL: it was given nothing. Borrowed. */
const struct allocation_container *allocation_of(const struct allocation *a, const char *container);
void allocation_done(struct allocation *a);
AUTO_DEFINE(allocation, struct allocation, allocation_done)
