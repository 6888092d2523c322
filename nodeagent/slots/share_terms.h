/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

#include "limiter/region.h"
#include "nodeagent/gpu/gpu.h"

/*
 * The two files that the agent makes for the limiter in a container (limiter/region.h): what they
 * say at first, and the words of terms that change while the container runs.
 */

/* What a container may have of one card. */
struct share_limit {
    char card[GPU_UUID_BYTES];
    uint64_t memory_bytes; /* UINT64_MAX: no limit */
    unsigned percent;      /* of the card's compute; 0: no guarantee */
    bool is_capped;        /* never more than that, also alone */
    enum share_level memory_level, compute_level;
    bool is_low; /* those of high priority have the card first */
};

/* The terms of a container with these shares, in the order of its slots. Pure. ERR_INVALID: more
 * cards than the limiter counts, or a UUID that is not of NVIDIA's form. */
int share_terms_of(const struct share_limit *limits, size_t n, struct terms *ret,
                   struct err *e) MUST_CHECK;

/* Makes both files in an empty folder; the container may write usage, and nobody else does. Neither
 * waits for a disk. ERR_SYSTEM. */
int share_terms_write(int folder, const struct terms *t, struct err *e) MUST_CHECK;

/* Maps the terms of a folder for writing. ERR_NOT_FOUND: there are none. ERR_PROTOCOL: they are not
 * of this layout. ERR_SYSTEM. The caller unmaps *ret. */
int share_terms_map(int folder, struct terms **ret, struct err *e) MUST_CHECK;
/* NULL allowed; returns NULL. */
struct terms *share_terms_unmap(struct terms *t);
AUTO_DEFINE_PTR(terms, struct terms, share_terms_unmap)
#define auto_terms AUTO_PTR(terms)

/* Makes mapped terms say the amounts that `to` says. False, and nothing is changed, where they are of
 * other cards or levels: those do not change while a container runs. */
bool share_terms_update(struct terms *t, const struct terms *to);

/* The index of a card in terms; -1: they are not of this card. */
int share_terms_card(const struct terms *t, const char *card);
/* What a process's context takes of the card besides, as measured; of mapped terms. */
uint64_t share_terms_context(const struct terms *t, unsigned card);
void share_terms_set_context(struct terms *t, unsigned card, uint64_t bytes);

/* Cuts usage to its size: a container may have written beyond that, into the host's memory. A
 * missing file is no error. ERR_SYSTEM. */
int share_usage_trim(int folder, struct err *e) MUST_CHECK;
