/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/gpuprofile.h"
#include "api/migconfig.h"
#include "kubeclient/object.h"

/*
 * The records of a GPUProfile and of the MIGConfigs that it names, made when the objects arrive.
 * Immutable. A spec that cannot be read is replaced by a text that says why.
 */

struct profile_record {
    struct gpuprofile_spec spec;
    char *spec_error;                /* why the spec cannot be read; NULL: it can */
    struct gpuprofile_status status; /* empty when it cannot be read */
};

struct config_record {
    struct migconfig_spec spec;
    char *spec_error;
    struct migconfig_status status;
    int64_t created_ms; /* wall clock */
};

/* For informers: the payload is the record of the same name. */
extern const struct object_type records_profile_type;
extern const struct object_type records_config_type;

/* True when `name` is the MIGConfig's name or one of its aliases. */
bool records_config_named(const struct object *config, const char *name);
/* True when an entry of the profile names the configuration (by name or alias). */
bool records_profile_names(const struct profile_record *profile, const struct object *config);
