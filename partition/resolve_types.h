/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/device.h"
#include "api/gpuprofile.h"
#include "api/migconfig.h"
#include "partition/mig.h"
#include "partition/sgpu.h"

/* Input and result of the resolver (partition/resolve.h). Plain values; members of the input are
 * borrowed, resolve_result_done frees a result. */

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
    bool none_offered; /* it has partitions, and none is offered just now: see resource_strategy */
};

struct resolve_input {
    const struct resolve_card *cards; /* by vendor's name, then index */
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
