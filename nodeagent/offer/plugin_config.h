/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/jx.h"

/*
 * The configuration of NVIDIA's device plugin as Cleave follows it, and the notices about what it
 * does not carry out. A plain value; one thread.
 *
 * plugin_config_build.h makes it of the plugin's sources, plugin_config_file.h of a file's too.
 */
#define PLUGIN_CONFIG_MAX_SHARED   64
#define PLUGIN_CONFIG_MAX_REPLICAS 4096
#define PLUGIN_CONFIG_MAX_NOTICES  128

enum plugin_sharing { PLUGIN_UNSHARED, PLUGIN_TIME_SLICING, PLUGIN_MPS };

/* A resource whose devices several containers share. */
struct plugin_shared {
    char *name;       /* "nvidia.com/gpu", "nvidia.com/mig-1g.10gb" */
    char *offered_as; /* the name it is offered under: the same, or with ".shared" appended */
    int64_t replicas; /* at least 2 */
};

/* A setting that is not carried out. */
struct plugin_notice {
    char *where; /* ".flags.gfd.outputFile", "NVIDIA_CTK_PATH", "--cdi-feature-flags" */
    char *why;   /* for a log line and a condition: what is ignored, and what is done instead */
};

struct plugin_config {
    /* The values that were set; the others are the plugin's defaults. */
    struct {
        bool mig_strategy, ways, driver_root, dev_root, container_driver_root, mps_root;
    } said;
    int mig_strategy; /* enum api_mig_strategy */
    bool fail_on_init_error;
    bool pass_device_specs;
    bool by_index; /* deviceIDStrategy: index; else uuid */
    bool packed;   /* sharedDevicesAllocationPolicy; else distributed */
    bool gdrcopy, gds, mofed;
    unsigned ways;               /* deviceListStrategy: or-ed enum entry_way */
    char *driver_root;           /* on the host */
    char *dev_root;              /* on the host; not set: driver_root's */
    char *container_driver_root; /* where the driver's root is in the agent's own container */
    char *cdi_annotation_prefix;
    char *mps_root;
    char *disable_health_checks; /* DP_DISABLE_HEALTHCHECKS unchanged; "" when not set */
    char *enable_health_checks;
    bool no_timestamp;       /* the labels get no timestamp */
    char *machine_type_file; /* "": the kernel's */
    bool imex_channel_0;     /* containers get IMEX channel 0 */
    bool imex_required;
    enum plugin_sharing sharing;
    bool fail_requests_greater_than_one; /* for the shared resources */
    struct plugin_shared *shared;        /* in the file's order */
    size_t n_shared;
    struct plugin_notice *notices;
    size_t n_notices;
};

/* Adds a notice: where the setting is, and why it is not carried out. Both are copied. */
void plugin_config_ignore(struct plugin_config *c, const char *where, const char *why);
/* The same with a format for the reason. Notices beyond PLUGIN_CONFIG_MAX_NOTICES are dropped. */
void plugin_config_note(struct plugin_config *c, const char *where, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* Adds a notice for each member of obj that no field is named after. path: obj's own, "" for the
 * document's root. */
void plugin_config_note_unknown(struct plugin_config *c, const json_t *obj,
                                const struct jx_field *fields, const char *path);
/* True for a missing, null or empty block of the file: the plugin treats them alike. */
bool plugin_config_is_empty(const json_t *block);

/* True when containers are to get their devices by CDI, alone or among other ways. c NULL: the
 * defaults. */
bool plugin_config_wants_cdi(const struct plugin_config *c);

/* All notices in one text for a condition: "where: why; where: why". Notices that would exceed the
 * length of a condition's message are only counted. Caller frees. */
char *plugin_config_words(const struct plugin_config *c);

void plugin_config_done(struct plugin_config *c);
AUTO_DEFINE(plugin_config, struct plugin_config, plugin_config_done)
#define auto_plugin_config AUTO(plugin_config)
