/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/sb.h"

/*
 * The names of nodes in a question of kube-scheduler: a list of up to thousands of short texts, which
 * are read in place. A JSON library takes longer to make a value of each than the whole answer takes.
 */

/* Looks for the member NodeNames, in any case, of the JSON object in body, which has len bytes and a NUL
 * behind them, and reads its items in place: *ret_names (owned by the caller) borrows from body. rest
 * gets the body without them, for a JSON library to read. False: there is no such list, or it has an
 * item that is not a string of letters, digits and ".-_"; body is as it was. */
bool node_names_take(char *body, size_t len, struct sb *rest, const char ***ret_names,
                     size_t *ret_n);
