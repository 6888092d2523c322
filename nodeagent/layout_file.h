/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/gpuprofile.h"
#include "api/migconfig.h"
#include "partition/resolve.h"

/*
 * What a file asks of a host: GPUProfiles and MIGConfigs (YAML or JSON, several documents, or a
 * List as kubectl prints it), or a mig-parted v1 file or the ConfigMap that holds one. A profile's
 * nodeSelector is not looked at: whoever names the file on a host means this host. Read as strictly
 * as an API server would (nodeagent/layout_check.h).
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

/* path "-" is standard input. ERR_INVALID names document and field. */
int layout_file_read(const char *path, struct layout_file *ret, struct err *e) MUST_CHECK;
void layout_file_done(struct layout_file *f);
AUTO_DEFINE(layout_file, struct layout_file, layout_file_done)
#define auto_layout_file AUTO(layout_file)

/*
 * Resolves file and selected name (of a MIGConfig, a mig-parted entry or a built-in; NULL: the
 * file's profiles, or its only config) against cards. file may be empty when a built-in is
 * selected. Problems are in *ret; ERR_INVALID when nothing, or more than one config, could be
 * meant.
 */
int layout_file_resolve(const struct layout_file *f, const char *selected,
                        const struct resolve_card *cards, size_t n_cards,
                        struct resolve_result *ret, struct err *e) MUST_CHECK;
