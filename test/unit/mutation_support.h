/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/client.h"

/*
 * One field of one object read otherwise than it is: taken away, null, of another type, empty,
 * huge, with a bit flipped, or with what another object has in its place.
 */

enum { MUTATION_DONORS = 2 };
#define MUTATION_NONE SIZE_MAX

/* A copy of a document with its n-th mutation, and what that is, for messages; both owned by the
 * caller. NULL: there are fewer. A list counts by its first two entries. Donors may be NULL. */
json_t *mutation_of(const json_t *doc, const json_t *const donors[MUTATION_DONORS], size_t n,
                    char **ret_what);

/* A client in front of another one (borrowed) through which one object is read with a mutation.
 * Writes pass. One thread. Caller frees with kc_free. */
struct kc *mutator_new(struct kc *inner);
/* From now on the object of this name (borrowed) is read with that mutation, or as it is. */
void mutator_order(struct kc *c, const struct kc_resource *res, const char *name, size_t n);
/* How often it has been read since that order. */
size_t mutator_reads(struct kc *c);
/* Does this mutation (its words) change who the object is? Then it takes another one's place among
 * what is read, and leaves it only with a new list. */
bool mutation_is_of_identity(const char *what);
/* What other objects have, for swaps. Borrowed while orders last. */
void mutator_donors(struct kc *c, const json_t *const donors[MUTATION_DONORS]);
