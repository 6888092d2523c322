/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/gpuprofile.h"
#include "api/migconfig.h"
#include "partition/resolve.h"

/*
 * The layout that a file asks for on this host. The file holds GPUProfiles and MIGConfigs (YAML or
 * JSON, several documents, or a List as kubectl prints it), or is a mig-parted v1 file or the
 * ConfigMap that holds one. A profile's nodeSelector is ignored, since a file named on a host is
 * meant for that host. The checks are as strict as an API server's
 * (nodeagent/commands/layout_check.h).
 */
struct layout_file {
    struct {
        char *name;
        struct gpuprofile_spec spec;
    } * profiles;
    size_t n_profiles;
    struct {
        char *name;
        struct migconfig_spec spec;
    } * configs;
    size_t n_configs;
};

/* path "-" is standard input. ERR_INVALID names the document and the field. */
int layout_file_read(const char *path, struct layout_file *ret, struct err *e) MUST_CHECK;
void layout_file_done(struct layout_file *f);
AUTO_DEFINE(layout_file, struct layout_file, layout_file_done)
#define auto_layout_file AUTO(layout_file)

/*
 * Resolves a file and a selected name against cards. selected: a MIGConfig, a mig-parted entry or a
 * built-in; NULL: the file's profiles, or its only config. file may be empty when a built-in is
 * selected. Problems are in *ret. ERR_INVALID: nothing could be meant, or more than one config.
 * ERR_NOT_FOUND: nothing has the selected name.
 */
int layout_file_resolve(const struct layout_file *f, const char *selected,
                        const struct resolve_card *cards, size_t n_cards,
                        struct resolve_result *ret, struct err *e) MUST_CHECK;
