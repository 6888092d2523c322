/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/scope.h"

#include "nodeagent/arbiter/arbiter.h"
#include "nodeagent/slots/share_sockets.h"
#include "nodeagent/slots/share_terms.h"

/*
 * The folders of containers whose shares are limited: <root>/<name of the container's lowest slot>
 * (slot_name), with what limiter/region.h lists. A folder is there from the binding of its container
 * to the release of that slot, and the container has it mounted, so its files are never replaced
 * meanwhile, but for the socket. It outlives the agent. At any time the name leads to a whole folder
 * or to none.
 *
 * For any thread; one runs them.
 */
struct share_folders;

/* Makes the root, for root alone: other users of the host are not to write into a container's usage.
 * ERR_SYSTEM. */
int share_folders_new(const char *root, struct share_folders **ret, struct err *e) MUST_CHECK;
struct share_folders *share_folders_free(struct share_folders *f);
AUTO_DEFINE_PTR(share_folders, struct share_folders, share_folders_free)
#define auto_share_folders AUTO_PTR(share_folders)

/* The folder's path. Caller frees. */
char *share_folders_path(const struct share_folders *f, unsigned slot);
/* The folder in which they lie. Borrowed. */
const char *share_folders_root(const struct share_folders *f);
/* Opens the folder of a slot, for what lies in it. ERR_SYSTEM: there is none, or it cannot be
 * opened. The caller closes *ret. */
int share_folders_open(const struct share_folders *f, unsigned slot, int *ret,
                       struct err *e) MUST_CHECK;

/* Makes the folder of a container with these shares, or changes the amounts of one that is there.
 * One that is there belongs to the container: another's is removed first (share_folders_remove).
 * A folder of another layout, or of other cards, is made anew; the processes that have it mapped keep
 * what it said. ERR_INVALID: as share_terms_of; ERR_SYSTEM. */
int share_folders_put(struct share_folders *f, unsigned slot, const struct share_limit *limits,
                      size_t n, struct err *e) MUST_CHECK;
/* Removes the slot's folder and closes its socket. A missing one is no error. ERR_SYSTEM. */
int share_folders_remove(struct share_folders *f, unsigned slot, struct err *e) MUST_CHECK;

/* Says in the slot's terms what a context takes of a card (its UUID), as it was measured. Containers
 * that come onto the card afterwards begin with it. ERR_SYSTEM: there is no folder, or it
 * cannot be read. */
int share_folders_set_context(struct share_folders *f, unsigned slot, const char *card,
                              uint64_t bytes, struct err *e) MUST_CHECK;

/* The turns of the slot's container on the card with this number in its terms (arbiter_sums). */
bool share_folders_turns(const struct share_folders *f, unsigned slot, unsigned card,
                         struct arbiter_sums *ret);

/* Opens the sockets of all folders that an earlier agent left, and removes what that one did not get
 * done. For an agent that is alone on its node. Failures are logged. */
void share_folders_resume(struct share_folders *f);

/* Hears what containers say, and gives them their turns on the cards (arbiter.h), until the scope
 * ends. Blocks; one thread. */
int share_folders_run(struct share_folders *f, struct scope *s, share_heard_fn *heard, void *arg,
                      struct err *e) MUST_CHECK;
/* Cuts usage to its size where a container made it longer, until the scope ends. A container that
 * goes on writing keeps this one thread from nothing else. Blocks; one thread. */
int share_folders_trim(struct share_folders *f, struct scope *s, struct err *e) MUST_CHECK;
