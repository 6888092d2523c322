/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/vendor/metax/mxsml.h"

/* Virtual functions of MetaX's cards. The library shows them but cannot make them. */

/* Reads the functions of the card at this library number: sets its mode, and c->vfs sorted by
 * number. ERR_PROTOCOL: the list is impossible. */
int mxsml_read_vfs(struct mxsml *m, unsigned dev, struct gpu_card *c, struct err *e) MUST_CHECK;

/* The distance of a function from its card's own function by their bus addresses, from 0.
 * ERR_PROTOCOL: one is no address, or the function's is not behind the card's. */
int mxsml_vf_number(const char *card, const char *function, unsigned *ret,
                    struct err *e) MUST_CHECK;
