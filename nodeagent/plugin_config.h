/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * The configuration of NVIDIA's device plugin, so that what a cluster has goes on to mean the same:
 * its file (k8s-device-plugin api/config/v1, version v1), its environment variables and its flags,
 * with its precedence: flag, variable, file, default. What makes no sense here is ignored and said
 * aloud: each such thing is a notice. What the plugin refuses is an error, with the place.
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
    char *offered_as; /* what it is called then: the same, or with ".shared" behind it */
    int64_t replicas; /* at least 2 */
};

/* Something that was asked for and is not done. */
struct plugin_notice {
    char *where; /* ".flags.gfd.outputFile", "NVIDIA_CTK_PATH", "--cdi-feature-flags" */
    char *why;   /* for a log line and a condition: what is ignored, and what is done instead */
};

struct plugin_config {
    /* What was said by anybody; of the rest the values are the plugin's defaults. */
    struct {
        bool mig_strategy, ways, driver_root, dev_root, container_driver_root, mps_root;
    } said;
    int mig_strategy; /* enum api_mig_strategy */
    bool fail_on_init_error;
    bool pass_device_specs;
    bool by_index; /* deviceIDStrategy: index; else uuid */
    bool packed;   /* sharedDevicesAllocationPolicy; else distributed */
    bool gdrcopy, gds, mofed;
    unsigned ways;               /* deviceListStrategy: enum entry_way, or-ed */
    char *driver_root;           /* on the host */
    char *dev_root;              /* on the host; where nothing was said, the driver's */
    char *container_driver_root; /* where the driver's root is in our own container */
    char *cdi_annotation_prefix;
    char *mps_root;
    char *disable_health_checks; /* DP_DISABLE_HEALTHCHECKS as it is; "" when not set */
    char *enable_health_checks;
    bool no_timestamp;       /* of the labels */
    char *machine_type_file; /* "" : the kernel's */
    bool imex_channel_0;     /* containers get IMEX channel 0 */
    bool imex_required;
    enum plugin_sharing sharing;
    bool fail_requests_greater_than_one; /* of the shared resources */
    struct plugin_shared *shared;        /* in the file's order */
    size_t n_shared;
    struct plugin_notice *notices;
    size_t n_notices;
};

/* A flag or variable that is set: "mig-strategy" (without dashes), "MIG_STRATEGY". */
struct plugin_setting {
    const char *name, *value;
};

/* From where it comes. Everything is borrowed. */
struct plugin_config_source {
    const char *file_text; /* the configuration file, not NUL-terminated; NULL: none */
    size_t file_bytes;
    const char *const *environment;     /* "NAME=value", NULL-terminated; NULL: none */
    const struct plugin_setting *flags; /* those that were given on a command line */
    size_t n_flags;
};

/* Puts them together. ERR_INVALID names the place (".sharing.timeSlicing.resources[0].replicas",
 * "MIG_STRATEGY"); ERR_TOO_LARGE. An empty variable counts as none. *ret is the caller's
 * (plugin_config_done). */
int plugin_config_build(const struct plugin_config_source *src, struct plugin_config *ret,
                        struct err *e) MUST_CHECK;

/* Which of the files of a ConfigMap's folder counts, as the plugin's config-manager picks: the
 * label's (one that is not there is an error), else the default's, else one that is called
 * "default", else the only one, else none (*ret NULL: no file, which is no error). Names ".…" are
 * no files. *ret borrows from names. */
int plugin_config_pick(const char *const *names, size_t n, const char *label,
                       const char *default_name, const char **ret, struct err *e) MUST_CHECK;

/* Reads the file and the rest: the file of `file` (NULL: of the flag config-file, of $CONFIG_FILE),
 * or one of the folder of $CONFIG_FILE_SRCDIR, picked by `label` (the Node's LABEL_PLUGIN_CONFIG;
 * NULL: not known) and $DEFAULT_CONFIG. src->file_text is not looked at. A folder whose label is
 * not known is a notice. ERR_NOT_FOUND: the file is not there; else as plugin_config_build. Blocks
 * on the disk. */
int plugin_config_load(const struct plugin_config_source *src, const char *file, const char *label,
                       struct plugin_config *ret, struct err *e) MUST_CHECK;

/* Adds something that is not done: where it was said, and why. Both are copied. */
void plugin_config_ignore(struct plugin_config *c, const char *where, const char *why);

/* All notices in one text, for a condition: "where: why; where: why". What would be longer than a
 * condition's message may be is counted. Caller frees. */
char *plugin_config_words(const struct plugin_config *c);

void plugin_config_done(struct plugin_config *c);
AUTO_DEFINE(plugin_config, struct plugin_config, plugin_config_done)
#define auto_plugin_config AUTO(plugin_config)
