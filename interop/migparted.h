/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

#include "api/migconfig.h"

/*
 * mig-parted's configuration file, version v1 (NVIDIA/mig-parted api/spec/v1). It is read as
 * strictly as mig-parted does: an unknown field is an error. Each entry becomes one named
 * MIGConfig.
 */
struct migparted_entry {
    char *name;        /* as written in the file */
    char *object_name; /* a legal object name made from `name`; equal to it where that is legal */
    struct migconfig_spec spec; /* aliases contains `name` when object_name differs */
};

struct migparted_file {
    struct migparted_entry *entries; /* in the file's order */
    size_t n;
};

/* doc is the parsed YAML: the file itself, or a ConfigMap, of which data's "config.yaml" is read.
 * ERR_INVALID names the entry and the field. */
int migparted_read(const json_t *doc, struct migparted_file *ret, struct err *e) MUST_CHECK;
/* The reverse, for `export`: a v1 file with one entry. New reference. */
json_t *migparted_write(const char *name, const struct migconfig_spec *spec);
/* The MIGConfig object (apiVersion, kind, metadata, spec). New reference. */
json_t *migparted_object(const struct migparted_entry *entry);
void migparted_file_done(struct migparted_file *f);
AUTO_DEFINE(migparted_file, struct migparted_file, migparted_file_done)
#define auto_migparted_file AUTO(migparted_file)
