/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/plugin_config.h"
#include "nodeagent/offer/plugin_options.h"

/*
 * Makes the configuration of its sources, so that a cluster's existing settings of NVIDIA's device
 * plugin keep their meaning: its file (k8s-device-plugin api/config/v1, version v1), its
 * environment variables and its flags, with its precedence: flag, variable, file, default. A
 * setting without meaning for Cleave is ignored and reported as a notice. A setting that the plugin
 * refuses is an error, with its path. Pure.
 */
#define PLUGIN_CONFIG_MAX_BYTES ((size_t)256 * 1024)

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
