/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated boards: identity, sizes, engines, and MIG profile tables.
 *
 * Immutable tables. Placements count memory slices; a board has a grid of 4, 8 or 12 of them. The G
 * of a profile name counts compute slices.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_MAX_STARTS 8

/* Engines are counted resources: instances fit together only while there are enough. */
struct engines {
    unsigned int copy, decoder, encoder, jpeg, ofa;
};

/* The part of a profile that a family of boards shares. */
struct gi_shape {
    unsigned int enumeration; /* enum gi_profile_enum: the argument of GetGpuInstanceProfileInfo */
    unsigned int id;          /* the driver's id: the argument of CreateGpuInstance */
    unsigned int slices;      /* compute slices, the G of the name */
    const char *attribute;    /* "", "+me", "+gfx", "+me.all", "-me" */
    unsigned int max_count;
    unsigned int since; /* the first driver branch that offers it; 0: all */
    unsigned int size;  /* memory slices */
    unsigned int start_count;
    unsigned int starts[MODEL_MAX_STARTS];
};

/* The profile on one board. */
struct gi_profile {
    const struct gi_shape *shape;
    unsigned int gb; /* the GB of the driver's name */
    unsigned int sms;
    unsigned int memory_mib;
    struct engines engines;
};

/* True when an instance of the profile can draw: NVML's capability GFX. */
bool gi_profile_draws(const struct gi_profile *p);

enum mig_kind {
    MIG_NONE,        /* answers NOT_SUPPORTED */
    MIG_AFTER_RESET, /* Ampere: pending until a reset; kept in the InfoROM */
    MIG_AT_ONCE,     /* Hopper and later: immediate; forgotten at reboot */
};

struct model {
    const char *key;  /* its name in fleets */
    const char *name; /* the driver's name */
    uint32_t pci_device_id, pci_subsystem_id;
    unsigned int arch, cc_major, cc_minor, brand;
    unsigned int memory_mib, reserved_mib, bar1_mib;
    unsigned int sms, cores_per_sm;
    unsigned int power_limit_w, clock_sm_mhz, clock_memory_mhz; /* clocks: the highest */
    unsigned int idle_memory_mhz; /* 0: the memory's clock stays, as HBM's does */
    unsigned int nvlinks, pcie_generation;
    bool nvswitch; /* its NVLinks go to switches, and it belongs to a fabric */
    bool ecc_default, row_remapping;
    const char *vbios, *part_number;
    enum mig_kind mig;
    unsigned int grid;   /* memory slices */
    unsigned int slices; /* compute slices */
    struct engines engines;
    const struct gi_profile *profiles;
    size_t profile_count;
};

/* A compute instance profile, within a GPU instance of some size. */
struct ci_profile {
    unsigned int enumeration; /* also the id */
    unsigned int slices;
    unsigned int starts[MODEL_MAX_STARTS];
    unsigned int start_count;
    bool media; /* the _REV1 profile: one slice with the media engines */
};

/* Every model, in a fixed order; NULL after the last. */
const struct model *model_at(size_t index);

/* The model of that key ("h100-80"), or NULL. */
const struct model *model_find(const char *key);

/* The profile with that enum value, or NULL when the model does not offer it. */
const struct gi_profile *model_profile_by_enum(const struct model *m, unsigned int enumeration);

/* The profile with that driver id, or NULL. */
const struct gi_profile *model_profile_by_id(const struct model *m, unsigned int id);

/* Writes the driver's name of the profile: "MIG 1g.10gb+me". */
void gi_profile_name(const struct gi_profile *p, char *ret_name, size_t size);

/* Writes the name that tools use, without "MIG ": "1g.10gb+me". */
void gi_profile_short_name(const struct gi_profile *p, char *ret_name, size_t size);

/*
 * The compute instance profile `enumeration` as a GPU instance of profile `gi` offers it.
 * False when it is not offered there.
 */
bool ci_profile_get(const struct gi_profile *gi, unsigned int enumeration, struct ci_profile *ret);

/* SMs of a compute instance of profile `ci` inside `gi`. */
unsigned int ci_profile_sms(const struct gi_profile *gi, const struct ci_profile *ci);

/* Writes "1c.3g.20gb", or "3g.20gb" where it spans the whole instance; "+me" for media. */
void ci_profile_short_name(const struct gi_profile *gi, const struct ci_profile *ci, char *ret_name,
                           size_t size);
