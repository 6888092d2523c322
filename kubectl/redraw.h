/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubectl/command.h"

/* A picture that is drawn anew when the objects that it shows have changed. */

/* Makes the picture as it is now. *ret_version is that of the list of which it was made, for a
 * watch from there on. The caller frees both. COMMAND_FAILED: the error was printed. */
typedef int redraw_fn(void *arg, char **ret_text, char **ret_version);

/* Draws until the scope ends, which is COMMAND_OK, or something fails. On a terminal each picture
 * takes the place of the one before, and has no more lines than fit; elsewhere they follow one
 * another. A new picture is made when an object of this kind and these fields (a selector; NULL:
 * all) has changed, and each minute, since it shows objects of other kinds as well. A picture like
 * the last one is not drawn. Making pictures takes at most a tenth of the time, and there is at
 * most one in c->redraw_ms. */
int redraw_run(const struct command *c, const struct kc_target *t, const char *fields,
               redraw_fn *fn, void *arg);

/* Draws as redraw_run does, whatever changes: a picture begins so many ms after the one before has
 * begun, or c->redraw_ms after that has ended, whichever is later. */
int redraw_each(const struct command *c, int64_t ms, redraw_fn *fn, void *arg);
