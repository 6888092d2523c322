/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/auto.h"
#include "base/err.h"

#include "reconcilers/node_view.h"

/* The objects that `plan` is asked about. */
struct plan_file {
    /* By name, as kubectl apply would send them: of each what a plan reads. */
    json_t *profiles, *configs, *nodes;
};

/* Reads GPUProfiles, MIGConfigs and Nodes, also in a v1 List, and judges them as the API server's
 * schema would. title: of the file, for messages. ERR_INVALID names document and field. *ret is
 * overwritten. */
int plan_file_parse(const char *title, const char *text, size_t len, struct plan_file *ret,
                    struct err *e) MUST_CHECK;
/* The same from a file, or from all files of a folder whose names end in .yaml, .yml or .json, by
 * name, as kubectl reads one; "-": from stdin. */
int plan_file_read(const char *path, struct plan_file *ret, struct err *e) MUST_CHECK;
/* True when what this source asks for comes from the file: a profile of it, the label of a Node of
 * it, or a profile or label that names a config of it. */
bool plan_file_brings(const struct plan_file *f, const struct node_view *v,
                      const struct device_source *source);
void plan_file_done(struct plan_file *f);
AUTO_DEFINE(plan_file, struct plan_file, plan_file_done)
#define auto_plan_file AUTO(plan_file)
