/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * Reads the configuration of NVIDIA's device plugin, so that a cluster's existing settings keep
 * their meaning: its file (k8s-device-plugin api/config/v1, version v1), its environment variables
 * and its flags, with its precedence: flag, variable, file, default. A setting without meaning for
 * Cleave is ignored and reported as a notice. A setting that the plugin refuses is an error, with
 * its path.
 *
 * plugin_config_build is pure; plugin_config_load reads the file and calls it.
 */
#define PLUGIN_CONFIG_MAX_BYTES    ((size_t)256 * 1024)
#define PLUGIN_CONFIG_MAX_SHARED   64
#define PLUGIN_CONFIG_MAX_REPLICAS 4096
#define PLUGIN_CONFIG_MAX_NOTICES  128

/* The node label that picks one file of a ConfigMap, for the plugin's config-manager. */
#define LABEL_PLUGIN_CONFIG "nvidia.com/device-plugin.config"

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

/* A flag or variable that is set: "mig-strategy" (without dashes), "MIG_STRATEGY". */
struct plugin_setting {
    const char *name, *value;
};

/* The sources of the configuration. Everything is borrowed. */
struct plugin_config_source {
    const char *file_text; /* the configuration file, not NUL-terminated; NULL: none */
    size_t file_bytes;
    const char *const *environment;     /* "NAME=value", NULL-terminated; NULL: none */
    const struct plugin_setting *flags; /* those given on the command line */
    size_t n_flags;
};

/* Combines the sources. ERR_INVALID names the path (".sharing.timeSlicing.resources[0].replicas",
 * "MIG_STRATEGY"); ERR_TOO_LARGE. An empty variable counts as not set. *ret is the caller's
 * (plugin_config_done). */
int plugin_config_build(const struct plugin_config_source *src, struct plugin_config *ret,
                        struct err *e) MUST_CHECK;

/* The file of a ConfigMap's folder that counts, as the plugin's config-manager picks it:
 *  1. the label's; it is an error when that file is missing;
 *  2. the default's;
 *  3. the one named "default";
 *  4. the only one;
 *  5. none (*ret NULL, no error).
 *
 * Names that begin with "." do not count as files. *ret borrows from names. */
int plugin_config_pick(const char *const *names, size_t n, const char *label,
                       const char *default_name, const char **ret, struct err *e) MUST_CHECK;

/* Reads the file and combines the sources. The file is `file` (NULL: the flag config-file's, then
 * $CONFIG_FILE's), or one in the folder $CONFIG_FILE_SRCDIR, picked by `label` (the Node's
 * LABEL_PLUGIN_CONFIG; NULL: not known) and $DEFAULT_CONFIG. src->file_text is ignored. A folder
 * without a known label is a notice. ERR_NOT_FOUND: the file is missing; else as
 * plugin_config_build. Blocks on the disk. */
int plugin_config_load(const struct plugin_config_source *src, const char *file, const char *label,
                       struct plugin_config *ret, struct err *e) MUST_CHECK;

/* Adds a notice: where the setting is, and why it is not carried out. Both are copied. */
void plugin_config_ignore(struct plugin_config *c, const char *where, const char *why);

/* All notices in one text for a condition: "where: why; where: why". Notices that would exceed the
 * length of a condition's message are only counted. Caller frees. */
char *plugin_config_words(const struct plugin_config *c);

void plugin_config_done(struct plugin_config *c);
AUTO_DEFINE(plugin_config, struct plugin_config, plugin_config_done)
#define auto_plugin_config AUTO(plugin_config)
