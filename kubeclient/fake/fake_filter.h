/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "kubeclient/client.h"
#include "kubeclient/fake/fake_store.h"

/*
 * What a list or a watch sees of the store: its selection of objects, and its version; for the
 * fake, whose lock guards the store.
 */
struct fake_filter {
    const struct kc_target *t;
    const char *labels, *fields; /* selectors; NULL: all */
};

/* True when the selection has the object. ERR_INVALID for a malformed selector. */
int fake_filter_matches(const struct fake_filter *filter, const json_t *obj, bool *ret,
                        struct err *e) MUST_CHECK;
/* Appends copies of the matching objects to the array ret_items; *ret_version: the store's. */
int fake_filter_snapshot(struct fake_store *st, const struct fake_filter *filter, json_t *ret_items,
                         uint64_t *ret_version, struct err *e) MUST_CHECK;

/* A resourceVersion of a request; NULL or "": 0. 400 for any other text. */
int fake_filter_version(const char *text, uint64_t *ret, struct err *e) MUST_CHECK;
/* 504 for a version that the store has not reached. */
int fake_filter_check_reached(const struct fake_store *st, uint64_t wanted,
                              struct err *e) MUST_CHECK;
