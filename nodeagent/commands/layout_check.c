/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/layout_check.h"

#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "partition/sgpu.h"
#include "partition/vendor.h"

/* --- Unknown fields --- */

static const struct jx_field *field_named(const struct jx_field *fields, const char *name)
{
    for (const struct jx_field *f = fields; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

static int check_known(const json_t *obj, const struct jx_field *fields, const char *path,
                       struct err *e);

static int check_value(const json_t *value, const struct jx_field *f, const char *path,
                       struct err *e)
{
    if (f->type == JX_OBJECT)
        return check_known(value, f->sub, path, e);
    if (f->type != JX_LIST)
        return 0;
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item) {
        auto_free char *at = xasprintf("%s[%zu]", path, i);
        TRY(check_known(item, f->sub, at, e));
    }
    return 0;
}

static int check_known(const json_t *obj, const struct jx_field *fields, const char *path,
                       struct err *e)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)obj, name, value) {
        auto_free char *at = xasprintf("%s.%s", path, name);
        const struct jx_field *f = field_named(fields, name);
        if (!f)
            return err_set(e, ERR_INVALID, "%s: there is no such field", at);
        TRY(check_value(value, f, at, e));
    }
    return 0;
}

static int check_top(const json_t *doc, struct err *e)
{
    static const char *const known[] = {"apiVersion", "kind", "metadata", "spec", "status"};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)doc, name, value) {
        bool found = false;
        for (size_t i = 0; i < ARRAY_LEN(known); i++)
            found = found || strcmp(known[i], name) == 0;
        if (!found)
            return err_set(e, ERR_INVALID, ".%s: there is no such field", name);
    }
    return json_is_object(json_object_get(doc, "spec"))
               ? 0
               : err_set(e, ERR_INVALID, ".spec: required");
}

/* --- The rules of crds/ --- */

static int check_counts(const struct jx_pair *counts, size_t n, const char *path, struct err *e)
{
    bool any = n == 0;
    for (size_t i = 0; i < n; i++)
        any = any || counts[i].num > 0;
    return any ? 0
               : err_set(e, ERR_INVALID,
                         "%s: at least one count must be above 0; write {} for MIG mode without "
                         "partitions",
                         path);
}

static int check_vendor(const char *vendor, const char *path, struct err *e)
{
    if (!vendor || vendor_find(vendor))
        return 0;
    auto_sb struct sb known = SB_INIT(256);
    for (const struct vendor *v = vendors; v->name; v++)
        sb_addf(&known, "%s%s", v == vendors ? "" : ", ", v->name);
    return err_set(e, ERR_INVALID, "%s.selector.vendor: \"%s\" is none of %s", path, vendor,
                   sb_str(&known));
}

static int check_sgpu(const struct gpuprofile_entry *entry, const char *path, struct err *e)
{
    struct sgpu_wants wants;
    if (entry->has_sharing)
        return err_set(e, ERR_INVALID, "%s.sharing: with mode sgpu slices share the card", path);
    int rc = sgpu_wants_of(&entry->sgpu, &wants, e);
    if (rc == 0)
        rc = sgpu_wants_check(&wants, e);
    return rc < 0 ? err_wrap(e, "%s.sgpu", path) : 0;
}

static int check_vgpu(const struct gpuprofile_entry *entry, const char *path, struct err *e)
{
    if (!entry->has_sharing)
        return 0;
    return err_set(e, ERR_INVALID, "%s.sharing: with mode vgpu virtual functions share the card",
                   path);
}

static int check_entry(const struct gpuprofile_entry *entry, const char *path, struct err *e)
{
    TRY(check_vendor(entry->selector.vendor, path, e));
    if (entry->mode != API_MODE_MIG && entry->has_mig)
        return err_set(e, ERR_INVALID, "%s.mig: goes with mode mig only", path);
    if (entry->mode != API_MODE_SGPU && entry->has_sgpu)
        return err_set(e, ERR_INVALID, "%s.sgpu: goes with mode sgpu only", path);
    if (entry->mode == API_MODE_SGPU)
        return check_sgpu(entry, path, e);
    if (entry->mode == API_MODE_VGPU)
        return check_vgpu(entry, path, e);
    if (entry->mode != API_MODE_MIG)
        return 0;
    if (!entry->has_mig)
        return err_set(e, ERR_INVALID,
                       "%s.mig: mode mig needs it, with profiles or the name of a config", path);
    if (entry->mig.has_profiles == (entry->mig.config != NULL))
        return err_set(e, ERR_INVALID, "%s.mig: exactly one of profiles and config", path);
    auto_free char *at = xasprintf("%s.mig.profiles", path);
    return check_counts(entry->mig.profiles, entry->mig.n_profiles, at, e);
}

int layout_check_profile(const json_t *doc, const struct gpuprofile_spec *spec, struct err *e)
{
    TRY(check_top(doc, e));
    TRY(check_known(json_object_get(doc, "spec"), gpuprofile_spec_fields, ".spec", e));
    for (size_t i = 0; i < spec->n_devices; i++) {
        auto_free char *path = xasprintf(".spec.devices[%zu]", i);
        TRY(check_entry(&spec->devices[i], path, e));
    }
    return 0;
}

static int check_config_entry(const json_t *doc, const struct migconfig_entry *entry,
                              const char *path, struct err *e)
{
    auto_free char *at = xasprintf("%s.migDevices", path);
    if (!entry->mig_enabled && entry->n_mig_devices)
        return err_set(e, ERR_INVALID, "%s: goes with migEnabled true only", at);
    if (entry->mig_enabled && !json_is_object(json_object_get(doc, "migDevices")))
        return err_set(
            e, ERR_INVALID,
            "%s: required with migEnabled true; write {} for MIG mode without partitions", at);
    return check_counts(entry->mig_devices, entry->n_mig_devices, at, e);
}

int layout_check_config(const json_t *doc, const struct migconfig_spec *spec, struct err *e)
{
    TRY(check_top(doc, e));
    TRY(check_known(json_object_get(doc, "spec"), migconfig_spec_fields, ".spec", e));
    const json_t *entries = JX_AT(doc, "spec", "devices");
    for (size_t i = 0; i < spec->n_devices; i++) {
        auto_free char *path = xasprintf(".spec.devices[%zu]", i);
        TRY(check_config_entry(json_array_get(entries, i), &spec->devices[i], path, e));
    }
    return 0;
}
