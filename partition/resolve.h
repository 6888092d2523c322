/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

#include "api/device.h"
#include "api/gpuprofile.h"
#include "api/migconfig.h"
#include "partition/mig.h"
#include "partition/sgpu.h"

/*
 * Resolves what the cards of one node should be, from all sources: the node's label, GPUProfiles,
 * MIGConfigs and built-in names, judged against the hardware. Pure and deterministic: the
 * controller runs it for every node, the agent's stand-alone commands for their own host.
 *
 * Which source governs a card:
 * - The label nvidia.com/mig.config beats every profile on the cards that its config selects.
 * - Of two profiles the one with the higher priority wins; the other is Overridden on that card.
 * - Profiles of equal priority on one card are a Conflict for both, and the card keeps its present
 *   want.
 * - A card that no source selects is not in the result. It is left alone, also after its profile is
 *   deleted.
 *
 * Which entry of a source applies:
 * - Within a profile the first entry that selects the card (`count` takes the lowest indices
 *   first).
 * - Within a MIGConfig the last entry that selects it.
 * - `remainder: native` takes the cards that no entry of the winning profile took.
 *
 * When a source is refused:
 * - A source is applied to a node whole or not at all. One card that cannot become what is wanted
 *   leaves all cards of that source on that node as they are.
 * - The reasons: UnknownProfile, Infeasible, TooComplex, MIGUnsupported, SGPUUnsupported,
 *   VGPUUnsupported, MPSUnsupported, VirtualFunctionsStand, VirtualFunctionsMissing,
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

struct resolve_profile {
    const char *name;
    int64_t generation;
    const struct gpuprofile_spec *spec;
};

struct resolve_config {
    const char *name;
    int64_t generation;
    const struct migconfig_spec *spec;
};

/* A card in the resolver's shape. Everything is borrowed. */
struct resolve_card {
    const char *uuid, *vendor, *model, *pci_bus_id;
    uint32_t pci_device_id, pci_subsystem_id;
    unsigned index;
    bool mig_capable, healthy;
    int mode;                      /* enum api_mode, current */
    const struct mig_table *table; /* NULL: no MIG */
    const struct sgpu_state *sgpu; /* NULL: no sGPU */
    /* The existing ones, by the profile's name in the table, or by the alias of wanted slices. */
    const struct profile_count *partitions;
    size_t n_partitions;
    bool withheld; /* it has partitions, and none is offered just now: see resource_strategy */
};

struct resolve_input {
    const struct resolve_card *cards; /* by index, ascending */
    size_t n_cards;
    const struct device_spec *current;      /* the present wants; NULL: none */
    const struct resolve_profile *profiles; /* the profiles whose nodeSelector matches; any order */
    size_t n_profiles;
    const struct resolve_config
        *configs; /* all MIGConfigs, oldest first (the older one wins an alias) */
    size_t n_configs;
    const char *label; /* value of nvidia.com/mig.config; NULL or "": none */
};

/* A profile's name was rounded to the nearest one of the card: not a fault, but worth an Event. */
#define RESOLVE_ROUNDED "ProfileRounded"

/* One fault, for conditions and Events. reason is one of those listed above, or Conflict,
 * Overridden, ProfileRounded. */
struct resolve_problem {
    char *reason;
    char
        /* Names card, profile and cause and, where there is one, the nearest feasible layout. */
        *message;
    char *uuid; /* the card; NULL: the whole node */
};

enum resolve_verdict {
    RESOLVE_NOT_CONCERNED, /* it selects no card of this node */
    RESOLVE_GOVERNS,       /* its cards are in the result */
    RESOLVE_REFUSED,       /* the problems say why; its cards keep their present wants */
    RESOLVE_OVERRIDDEN,    /* other sources govern all cards that it selects */
};

/* The result for one source. */
struct resolve_outcome {
    struct device_source source;
    enum resolve_verdict verdict;
    size_t n_cards; /* cards that it governs */
    struct resolve_problem *problems;
    size_t n_problems;
};

struct resolve_result {
    struct device_spec spec;
    struct resolve_outcome
        *outcomes; /* the label first, if any, then the profiles in input order */
    size_t n_outcomes;
};

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
