/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

struct plugin_config;

/*
 * The options of NVIDIA's device plugin: one table for the members of its file, its variables and
 * its flags, and the values that they set. The source that is read last wins. One thread.
 */
enum plugin_option {
    PLUGIN_MIG_STRATEGY,
    PLUGIN_FAIL_ON_INIT_ERROR,
    PLUGIN_MPS_ROOT,
    PLUGIN_DRIVER_ROOT,
    PLUGIN_DEV_ROOT,
    PLUGIN_GDRCOPY,
    PLUGIN_GDS,
    PLUGIN_MOFED,
    PLUGIN_DISCOVERY,
    PLUGIN_NODE_FEATURE_API,
    PLUGIN_RESTART_UNHEALTHY,
    PLUGIN_PASS_DEVICE_SPECS,
    PLUGIN_LIST_STRATEGY,
    PLUGIN_ID_STRATEGY,
    PLUGIN_CDI_PREFIX,
    PLUGIN_CTK_PATH,
    PLUGIN_CDI_HOOK_PATH,
    PLUGIN_CDI_FEATURES,
    PLUGIN_CONTAINER_ROOT,
    PLUGIN_ALLOCATION_POLICY,
    PLUGIN_GFD_ONESHOT,
    PLUGIN_GFD_NO_TIMESTAMP,
    PLUGIN_GFD_SLEEP,
    PLUGIN_GFD_OUTPUT,
    PLUGIN_GFD_MACHINE,
    PLUGIN_IMEX_CHANNELS,
    PLUGIN_IMEX_REQUIRED,
    PLUGIN_DISABLE_CHECKS,
    PLUGIN_ENABLE_CHECKS,
    PLUGIN_OPTIONS,
};

/* The object of the file that holds an option. */
enum plugin_section {
    PLUGIN_IN_NONE,
    PLUGIN_IN_FLAGS,
    PLUGIN_IN_PLUGIN,
    PLUGIN_IN_GFD,
    PLUGIN_IN_IMEX,
};

/* A value as text ("true", "a,b"), and where it was set. */
struct plugin_value {
    char *text, *where; /* owned; NULL: not set */
};

struct plugin_options {
    struct plugin_value values[PLUGIN_OPTIONS];
};

/* A flag or variable that is set: "mig-strategy" (without dashes), "MIG_STRATEGY". */
struct plugin_setting {
    const char *name, *value;
};

/* Sets the options that an object of the file holds (NULL: none). path is the object's own, for
 * errors. An unknown member is a notice in `notices`. ERR_INVALID, ERR_TOO_LARGE. */
int plugin_options_read(struct plugin_options *o, const json_t *obj, enum plugin_section section,
                        const char *path, struct plugin_config *notices, struct err *e) MUST_CHECK;
/* Sets the options whose variables are set. environment: as plugin_options_variable. ERR_INVALID,
 * ERR_TOO_LARGE. */
int plugin_options_set_variables(struct plugin_options *o, const char *const *environment,
                                 struct err *e) MUST_CHECK;
/* Sets options by flags. ERR_INVALID (also for a flag that the plugin does not have),
 * ERR_TOO_LARGE. */
int plugin_options_set_flags(struct plugin_options *o, const struct plugin_setting *flags, size_t n,
                             struct err *e) MUST_CHECK;

/* True when a source set the option. */
bool plugin_options_has(const struct plugin_options *o, enum plugin_option id);
/* The option's value, or the plugin's default. Borrowed. */
const char *plugin_options_text(const struct plugin_options *o, enum plugin_option id);
/* True when a boolean option is on. */
bool plugin_options_is_on(const struct plugin_options *o, enum plugin_option id);
/* The place that set an option, for an error: a path in the file, the variable, or the flag.
 * Borrowed. */
const char *plugin_options_where(const struct plugin_options *o, enum plugin_option id);

/* Adds a notice for each option that was set to something else than its default and is not carried
 * out. */
void plugin_options_note_ignored(const struct plugin_options *o, struct plugin_config *notices);

void plugin_options_done(struct plugin_options *o);
AUTO_DEFINE(plugin_options, struct plugin_options, plugin_options_done)
#define auto_plugin_options AUTO(plugin_options)

/* The value of a variable, or NULL when it is missing or empty. environment: "NAME=value",
 * NULL-terminated; NULL: none. Borrowed. */
const char *plugin_options_variable(const char *const *environment, const char *name);
