/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/plugin_sharing.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "api/subdomain.h"
#include "nodeagent/offer/plugin_config.h"

enum { MAX_NAME = 63 };

struct file_resource {
    char *name, *rename;
    int64_t replicas;
    json_t *devices;
};

struct file_sharing {
    bool rename_by_default, has_fail, fail;
    char *strategy;
    struct file_resource *resources;
    size_t n_resources;
};

static const struct jx_field resource_fields[] = {
    JX_F(file_resource, name, "name", JX_STR, .required = true, .min = 1, .max = 253),
    JX_F(file_resource, rename, "rename", JX_STR, .max = 253),
    JX_F(file_resource, replicas, "replicas", JX_INT, .required = true, .min = 1,
         .max = PLUGIN_CONFIG_MAX_REPLICAS),
    JX_F(file_resource, devices, "devices", JX_ANY),
    {0},
};

static const struct jx_field sharing_fields[] = {
    JX_F(file_sharing, rename_by_default, "renameByDefault", JX_BOOL),
    JX_P(file_sharing, fail, has_fail, "failRequestsGreaterThanOne", JX_BOOL),
    JX_F(file_sharing, strategy, "strategy", JX_STR, .max = 64),
    JX_L(file_sharing, resources, n_resources, "resources", JX_LIST, .required = true, .min = 1,
         .max = PLUGIN_CONFIG_MAX_SHARED, .sub = resource_fields,
         .elem_bytes = sizeof(struct file_resource)),
    {0},
};

static void sharing_done(struct file_sharing *s)
{
    jx_free(sharing_fields, s);
}
AUTO_DEFINE(file_sharing, struct file_sharing, sharing_done)

/* Completes a name: "gpu" is nvidia.com/gpu. The plugin requires a subdomain behind the slash. */
static int full_name(const char *name, const char *where, char **ret, struct err *e)
{
    static const char prefix[] = "nvidia.com/";
    const char *rest =
        strncmp(name, prefix, sizeof(prefix) - 1) == 0 ? name + sizeof(prefix) - 1 : name;
    auto_free char *full = xasprintf("%s%s", prefix, rest);
    if (strlen(full) > MAX_NAME)
        return err_set(e, ERR_INVALID, "%s: %.80s is longer than %d characters", where, full,
                       MAX_NAME);
    if (!subdomain_legal(rest))
        return err_set(e, ERR_INVALID, "%s: \"%.80s\" is no name of a resource", where, name);
    *ret = TAKE(full);
    return 0;
}

/* Notices for settings that the plugin parses and then ignores (DisableResourceNamingInConfig). */
static void note_unserved(struct plugin_config *c, const struct file_resource *r,
                          bool rename_by_default, const char *shared_name, const char *path)
{
    auto_free char *rename = xasprintf("%s.rename", path);
    auto_free char *devices = xasprintf("%s.devices", path);
    if (r->rename && *r->rename && (!rename_by_default || strcmp(r->rename, shared_name) != 0))
        plugin_config_note(c, rename,
                           "is ignored as NVIDIA's plugin ignores it; renameByDefault is followed");
    if (r->devices && !json_is_null(r->devices) &&
        !(json_is_string(r->devices) && strcmp(json_string_value(r->devices), "all") == 0))
        plugin_config_note(c, devices,
                           "is ignored as NVIDIA's plugin ignores it; all devices are shared");
}

static bool is_listed(const struct plugin_config *c, const char *name)
{
    for (size_t i = 0; i < c->n_shared; i++)
        if (strcmp(c->shared[i].name, name) == 0)
            return true;
    return false;
}

static int add_shared(struct plugin_config *c, const struct file_resource *r,
                      bool rename_by_default, const char *path, struct err *e)
{
    auto_free char *where = xasprintf("%s.name", path);
    auto_free char *name = NULL;
    TRY(full_name(r->name, where, &name, e));
    auto_free char *shared_name = xasprintf("%s.shared", name);
    if (rename_by_default && strlen(shared_name) > MAX_NAME)
        return err_set(e, ERR_INVALID, "%s: %s is longer than %d characters", where, shared_name,
                       MAX_NAME);
    if (is_listed(c, name))
        return err_set(e, ERR_INVALID, "%s: %s is listed twice", where, name);
    note_unserved(c, r, rename_by_default, shared_name, path);
    if (r->replicas < 2) {
        plugin_config_note(c, path, "one replica of %s shares nothing", name);
        return 0;
    }
    struct plugin_shared *s = XPUSH(c->shared, c->n_shared);
    s->offered_as = rename_by_default ? TAKE(shared_name) : xstrdup(name);
    s->name = TAKE(name);
    s->replicas = r->replicas;
    assert(s->replicas >= 2 && c->n_shared <= PLUGIN_CONFIG_MAX_SHARED);
    return 0;
}

/* failRequestsGreaterThanOne defaults to false for time-slicing and to true for MPS. */
static int read_sharing(struct plugin_config *c, const json_t *obj, enum plugin_sharing how,
                        const char *path, struct err *e)
{
    AUTO(file_sharing) struct file_sharing s = {.fail = how == PLUGIN_MPS};
    auto_err struct err why = {0};
    if (jx_decode(obj, sharing_fields, &s, &why) < 0)
        return err_set(e, ERR_INVALID, "%s%s", path, err_msg(&why));
    plugin_config_note_unknown(c, obj, sharing_fields, path);
    if (s.strategy && *s.strategy)
        return err_set(e, ERR_INVALID, "%s.strategy: \"%s\" is not known", path, s.strategy);
    for (size_t i = 0; i < s.n_resources; i++) {
        auto_free char *item = xasprintf("%s.resources[%zu]", path, i);
        plugin_config_note_unknown(c, json_array_get(json_object_get(obj, "resources"), i),
                                   resource_fields, item);
        TRY(add_shared(c, &s.resources[i], s.rename_by_default, item, e));
    }
    c->sharing = c->n_shared ? how : PLUGIN_UNSHARED;
    c->fail_requests_greater_than_one = s.fail;
    return 0;
}

int plugin_sharing_read(struct plugin_config *ret, const json_t *sharing, struct err *e)
{
    static const struct jx_field known[] = {{.name = "timeSlicing"}, {.name = "mps"}, {0}};
    if (plugin_config_is_empty(sharing))
        return 0;
    if (!json_is_object(sharing))
        return err_set(e, ERR_INVALID, ".sharing: must be an object");
    plugin_config_note_unknown(ret, sharing, known, ".sharing");
    const json_t *slices = json_object_get(sharing, "timeSlicing");
    const json_t *mps = json_object_get(sharing, "mps");
    if (!plugin_config_is_empty(mps) && !plugin_config_is_empty(slices))
        plugin_config_note(ret, ".sharing.timeSlicing",
                           "is ignored beside mps, as NVIDIA's plugin does");
    if (!plugin_config_is_empty(mps))
        return read_sharing(ret, mps, PLUGIN_MPS, ".sharing.mps", e);
    if (plugin_config_is_empty(slices))
        return 0;
    return read_sharing(ret, slices, PLUGIN_TIME_SLICING, ".sharing.timeSlicing", e);
}
