/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/records/profile_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/jx.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"

#include "service/resources.h"

static int transform_profile(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    auto_err struct err why = {0};
    struct profile_record *r = xmalloc(sizeof(*r));
    if (gpuprofile_spec_decode(obj, &r->spec, &why) < 0)
        r->spec_error = xstrdup(err_msg(&why));
    if (gpuprofile_status_decode(obj, &r->status, NULL) < 0)
        r->status = (struct gpuprofile_status){0};
    *ret = r;
    return 0;
}

static void free_profile(void *payload)
{
    struct profile_record *r = payload;
    gpuprofile_spec_done(&r->spec);
    gpuprofile_status_done(&r->status);
    free(r->spec_error);
    free(r);
}

static int transform_config(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    auto_err struct err why = {0};
    struct config_record *r = xmalloc(sizeof(*r));
    if (migconfig_spec_decode(obj, &r->spec, &why) < 0)
        r->spec_error = xstrdup(err_msg(&why));
    if (migconfig_status_decode(obj, &r->status, NULL) < 0)
        r->status = (struct migconfig_status){0};
    const char *created = JX_STR_AT(obj, "metadata", "creationTimestamp");
    if (created && rfc3339_parse(created, &r->created_ms, NULL) < 0)
        r->created_ms = 0;
    *ret = r;
    return 0;
}

static void free_config(void *payload)
{
    struct config_record *r = payload;
    migconfig_spec_done(&r->spec);
    migconfig_status_done(&r->status);
    free(r->spec_error);
    free(r);
}

const struct object_type records_profile_type = {&resource_gpuprofiles, transform_profile,
                                                 free_profile};
const struct object_type records_config_type = {&resource_migconfigs, transform_config,
                                                free_config};

bool records_config_named(const struct object *config, const char *name)
{
    const struct config_record *r = object_payload(config);
    if (strcmp(object_name(config), name) == 0)
        return true;
    for (size_t i = 0; i < r->spec.n_aliases; i++)
        if (strcmp(r->spec.aliases[i], name) == 0)
            return true;
    return false;
}

bool records_profile_names(const struct profile_record *profile, const struct object *config)
{
    for (size_t i = 0; i < profile->spec.n_devices; i++) {
        const struct gpuprofile_entry *entry = &profile->spec.devices[i];
        if (entry->has_mig && entry->mig.config && records_config_named(config, entry->mig.config))
            return true;
    }
    return false;
}
