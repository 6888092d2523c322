/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/fraction.h"

/* Cards beyond FRACTION_MAX_CARDS are counted and not looked at. */

/* What is missing for a pod that does not fit, for a person: of the first container that does not
 * fit by itself the nearest miss, or that each fits and not all of them together. Pure. Caller
 * frees. */
char *fraction_words(const struct fraction_node *n, const struct fraction_pod *p);

/* How many cards refuse a share of this ask, and why, as HAMi writes it: "3/8
 * CardInsufficientMemory, 5/8 CardTypeMismatch"; "" where all take one. Pure. Caller frees. */
char *fraction_misfit_words(const struct fraction_node *n, const struct fraction_ask *a,
                            const struct fraction_wish *w);
