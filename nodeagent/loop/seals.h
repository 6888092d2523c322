/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Seals: the devices whose grants are refused, for each owner (a card's UUID, or a name that is
 * none). Several cards are withdrawn at the same time, so owners do not touch each other's. A plain
 * value; zeroed is empty.
 */
struct seal {
    char *owner;
    char **ids;
    size_t n_ids;
};

struct seals {
    struct seal *items; /* owned; one for each owner at most */
    size_t n;
};

/* Seals these devices for the owner, in place of those before. Copies the strings. */
void seals_put(struct seals *s, const char *owner, const char *const *ids, size_t n);
/* False: the owner had no seal. */
bool seals_drop(struct seals *s, const char *owner);
/* The owner's seal; NULL: it has none. Borrowed until the next put or drop. */
const struct seal *seals_find(const struct seals *s, const char *owner);
/* True when some owner has sealed this device. */
bool seals_have(const struct seals *s, const char *id);
void seals_done(struct seals *s);
