/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/offer/plugin_config_build.h"

/*
 * The file of the configuration: which one of those that the plugin's config-manager knows counts,
 * and the configuration with it.
 */

/* The node label that picks one file of a ConfigMap, for the plugin's config-manager. */
#define LABEL_PLUGIN_CONFIG "nvidia.com/device-plugin.config"

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
