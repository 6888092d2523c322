/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * The kinds that a command could not read, and other objects that it passes over, in words for a
 * person: it goes on without them, and says so (command_notes; notRead[] of a document).
 */
struct unread {
    char **notes;
    size_t n;
};

/* Notes that `what` may not be read, or is not there, and returns 0. rc and why are the outcome of
 * reading it; an rc of 0 is no note. without: what the command does not know then; NULL: the
 * command cannot go on. Then the error is moved to e, as is any other, and that the server does not
 * know who asks. */
int unread_note(struct unread *u, int rc, const char *what, const char *without, struct err *why,
                struct err *e) MUST_CHECK;
/* Adds a note of the caller's own words, which become u's. */
void unread_add(struct unread *u, char *note_take);
/* The notes as an array of texts. New reference. */
json_t *unread_json(const struct unread *u);
void unread_done(struct unread *u);
AUTO_DEFINE(unread, struct unread, unread_done)
#define auto_unread AUTO(unread)
