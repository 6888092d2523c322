/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/mxsml.h"

/* Virtual functions of MetaX's cards. The library shows them and makes none. */

/* Reads those of the card that the library has at this number: its mode, and c->vfs by number.
 * ERR_PROTOCOL: a list that makes no sense. */
int mxsml_read_vfs(struct mxsml *m, unsigned dev, struct gpu_card *c, struct err *e) MUST_CHECK;

/* How far behind the card's function the other lies by their bus addresses, from 0. ERR_PROTOCOL:
 * one is no address, or it does not lie behind. */
int mxsml_vf_number(const char *card, const char *function, unsigned *ret,
                    struct err *e) MUST_CHECK;
