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
 * What one node's cards should be, from everything that speaks about them: the node's label,
 * GPUProfiles, MIGConfigs and built-in names, judged against what the hardware can do. Pure and
 * deterministic: the controller runs it for every node, the agent's stand-alone verbs for their own
 * host.
 *
 * Rules
 *  - The label nvidia.com/mig.config beats every profile on the cards its config selects; of
 * profiles the higher priority wins and the other is Overridden there; profiles of equal priority
 * on one card are a Conflict for both, and that card keeps what is in force.
 *  - Within a profile the first entry that selects a card takes it (`count` takes the lowest
 * indices first); within a MIGConfig the last one does. `remainder: native` takes what no entry of
 * the winning profile took.
 *  - A source is applied to a node whole or not at all: one card that cannot be as wanted
 * (UnknownProfile, Infeasible, TooComplex, MIGUnsupported, SGPUUnsupported, VGPUUnsupported,
 * MPSUnsupported, VirtualFunctionsStand, VirtualFunctionsMissing, DeviceNotFound, UnknownConfig,
 * Invalid) leaves all cards of that source on that node as they are.
 *  - A card that nobody selects is not in the result: it is left alone, also after its profile is
 * deleted.
 *  - Unhealthy cards are resolved like others (the agent knows what can be done to them).
 */

/* Virtual functions are an administrator's: mode vgpu is what a card is, not what it is made. The
 * reasons and words for it, of the resolver and of the agent's planner. */
#define RESOLVE_VFS_STAND   "VirtualFunctionsStand"
#define RESOLVE_VFS_MISSING "VirtualFunctionsMissing"
#define RESOLVE_VFS_STAND_WHY                                                                      \
    "virtual functions stand on this card, and only whoever administers the node removes them: "   \
    "mx-smi vm --disable-vf, or ask for mode vgpu"
#define RESOLVE_VFS_MISSING_WHY                                                                    \
    "this card has no virtual functions, and only whoever administers the node makes them: "       \
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

/* A card as the rules see it. Everything is borrowed. */
struct resolve_card {
    const char *uuid, *vendor, *model, *pci_bus_id;
    uint32_t pci_device_id, pci_subsystem_id;
    unsigned index;
    bool mig_capable, healthy;
    int mode;                               /* enum api_mode, current */
    const struct mig_table *table;          /* NULL: no MIG */
    const struct sgpu_state *sgpu;          /* NULL: no sGPU */
    const struct profile_count *partitions; /* that stand, by profile name as the table has it, or
                                               by the alias under which slices are wanted */
    size_t n_partitions;
    bool withheld; /* partitions stand, and none is offered just now: resource_strategy */
};

struct resolve_input {
    const struct resolve_card *cards; /* by index, ascending */
    size_t n_cards;
    const struct device_spec *current;      /* in force; NULL: nothing */
    const struct resolve_profile *profiles; /* those whose nodeSelector matches; any order */
    size_t n_profiles;
    const struct resolve_config
        *configs; /* all MIGConfigs, oldest first (aliases: the older wins) */
    size_t n_configs;
    const char *label; /* value of nvidia.com/mig.config; NULL or "": none */
};

/* A profile's name was taken for the nearest that the card has: no fault, and to be told. */
#define RESOLVE_ROUNDED "ProfileRounded"

/* What is wrong, for conditions and events. reason is one of the words above, or Conflict,
 * Overridden, ProfileRounded. */
struct resolve_problem {
    char *reason;
    char
        *message; /* names card, profile, cause and, where there is one, the nearest legal layout */
    char *uuid;   /* the card; NULL: the node */
};

enum resolve_verdict {
    RESOLVE_NOT_CONCERNED, /* selects no card of this node */
    RESOLVE_GOVERNS,       /* its cards are in the result */
    RESOLVE_REFUSED,       /* problems say why; its cards keep what is in force */
    RESOLVE_OVERRIDDEN,    /* others took all the cards that it selects */
};

/* How one source fared. */
struct resolve_outcome {
    struct device_source source;
    enum resolve_verdict verdict;
    size_t n_cards; /* in the result because of it */
    struct resolve_problem *problems;
    size_t n_problems;
};

struct resolve_result {
    struct device_spec spec;
    struct resolve_outcome
        *outcomes; /* the label first (when there is one), then the profiles in input order */
    size_t n_outcomes;
};

/* Total: bad input gives problems, never an error. */
void resolve_node(const struct resolve_input *in, struct resolve_result *ret);
void resolve_result_done(struct resolve_result *r);
AUTO_DEFINE(resolve_result, struct resolve_result, resolve_result_done)
#define auto_resolve_result AUTO(resolve_result)

/* Why a source was refused; NULL: the outcome has no such problem. Borrowed. */
const struct resolve_problem *resolve_outcome_refusal(const struct resolve_outcome *o);

/* Does the card already show what is wanted (mode and multiset of partitions; placements do not
 * matter)? */
bool resolve_card_matches(const struct resolve_card *card, const struct device_want *want);
