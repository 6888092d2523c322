/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * Parses objects of one kind of which a member is mostly the same, such as what each node's Device
 * says of the model of its cards: where its text is one of the last that were seen, the value of
 * that is shared, and not parsed again. One thread, for the values too.
 */
struct shared_member {
    const char *const *path; /* to a list, NULL-terminated; NULL: nothing is shared */
    struct shared_text *seen;
    size_t n, next;
};

/* As jx_parse. A shared value is one object in several results: nobody may change it. */
int shared_member_parse(struct shared_member *m, const char *text, size_t len, size_t max_bytes,
                        json_t **ret, struct err *e) MUST_CHECK;
void shared_member_done(struct shared_member *m);
