/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/slots/slot_bind.h"

/*
 * What a container with shares gets besides its cards: the driver's files, and where something has to
 * hold it to its shares (memory_level), the limiter's libraries in place of two of them, and its
 * folder (share_folder.h); on a card with MPS what makes it a client, and its part.
 */

/* Owned: share_outfit_done. */
struct share_outfit {
    struct cdi_outfit cdi; /* borrows what follows, and the deps */
    struct entry entry;    /* mounts and variables */
};

/* Whether what the binding's shares need is there. ERR_UNAVAILABLE says what is not. */
int share_outfit_check(const struct slot_deps *d, const struct slot_binding *b,
                       struct err *e) MUST_CHECK;
/* Makes the container's folder, where it is to have one, and fills in *ret for its CDI files. After
 * share_outfit_check. Errors as share_folders_put. */
int share_outfit_make(const struct slot_deps *d, const struct slot_binding *b,
                      struct share_outfit *ret, struct err *e) MUST_CHECK;
void share_outfit_done(struct share_outfit *o);
AUTO_DEFINE(share_outfit, struct share_outfit, share_outfit_done)
#define auto_share_outfit AUTO(share_outfit)

/* Removes the folder of the container whose lowest slot this is. No effect without one. ERR_SYSTEM. */
int share_outfit_drop(const struct slot_deps *d, unsigned slot, struct err *e) MUST_CHECK;
