/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/auto.h"

#include "partition/resolve_types.h"

/*
 * Resolves what the cards of one node should be, from all sources: the node's label, GPUProfiles,
 * MIGConfigs and built-in names, judged against the hardware. Pure and deterministic: the
 * controller runs it for every node, the agent's stand-alone commands for their own host.
 *
 * The source that governs a card:
 * - The label nvidia.com/mig.config beats every profile on the cards that its config selects.
 * - Of two profiles the one with the higher priority wins; the other is Overridden on that card.
 * - Profiles of equal priority on one card are a Conflict for both, and the card keeps its present
 *   want.
 * - A card that no source selects is not in the result. It is left alone, also after its profile is
 *   deleted.
 *
 * The entry of a source that applies:
 * - Within a profile the first entry that selects the card (`count` takes the lowest indices
 *   first).
 * - Within a MIGConfig the last entry that selects it.
 * - `remainder: native` takes the cards that no entry of the winning profile took.
 *
 * Refused sources:
 * - A source is applied to a node whole or not at all. One card that cannot become what is wanted
 *   leaves all cards of that source on that node as they are.
 * - The reasons: UnknownProfile, Infeasible, TooComplex, MIGUnsupported, SGPUUnsupported,
 *   VGPUUnsupported, MPSUnsupported, FractionalUnsupported, EnforcementUnavailable,
 *   TooManyShares, SharedNameTaken, VirtualFunctionsStand, VirtualFunctionsMissing,
 *   DeviceNotFound, UnknownConfig, Invalid.
 * - Unhealthy cards are resolved like others; the agent decides what can be done with them.
 */

/* The reasons about virtual functions, and their messages, for the resolver and the agent's
 * planner. Only the node's administrator makes and removes functions, so mode vgpu describes a card
 * and changes nothing. */
#define RESOLVE_VFS_STAND   "VirtualFunctionsStand"
#define RESOLVE_VFS_MISSING "VirtualFunctionsMissing"
#define RESOLVE_VFS_STAND_WHY                                                                      \
    "this card has virtual functions, and only the node's administrator can remove them: "         \
    "mx-smi vm --disable-vf; or choose mode vgpu"
#define RESOLVE_VFS_MISSING_WHY                                                                    \
    "this card has no virtual functions, and only the node's administrator can make them: "        \
    "mx-smi vm --enable-vf 1|2|4|8"

/* Total: bad input gives problems, never an error. */
void resolve_node(const struct resolve_input *in, struct resolve_result *ret);
void resolve_result_done(struct resolve_result *r);
AUTO_DEFINE(resolve_result, struct resolve_result, resolve_result_done)
#define auto_resolve_result AUTO(resolve_result)

/* The problem for which the source was refused; NULL: it was not. Borrowed. */
const struct resolve_problem *resolve_outcome_refusal(const struct resolve_outcome *o);

/* True when the card already is as wanted: mode and multiset of partitions; placements do not
 * matter. */
bool resolve_card_matches(const struct resolve_card *card, const struct device_want *want);
