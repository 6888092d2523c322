/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/fake/fake_rules.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/jx.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"

#include "kubeclient/fake/fake_patch.h"
#include "kubeclient/status.h"

#define MAX_NAME_BYTES  253
#define MAX_LABEL_BYTES 63

static bool is_listed(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp(*list, word))
            return true;
    return false;
}

bool fake_is_custom(const struct kc_resource *r)
{
    size_t len = strlen(r->group);
    return strchr(r->group, '.') && !(len > 7 && !strcmp(r->group + len - 7, ".k8s.io"));
}

bool fake_has_status(const struct kc_resource *r)
{
    static const char *const without[] = {"leases",  "events",          "configmaps",
                                          "secrets", "serviceaccounts", NULL};
    return fake_is_custom(r) || !is_listed(r->plural, without);
}

bool fake_status_takes_metadata(const struct kc_resource *r)
{
    return !*r->group && !strcmp(r->plural, "nodes");
}

bool fake_has_generation(const struct kc_resource *r)
{
    return fake_is_custom(r) || !strcmp(r->group, "apps") || !strcmp(r->group, "batch") ||
           !strcmp(r->group, "policy");
}

bool fake_needs_version(const struct kc_resource *r)
{
    return fake_is_custom(r) || !strcmp(r->plural, "leases");
}

char *fake_resource_name(const struct kc_resource *r)
{
    return *r->group ? xasprintf("%s.%s", r->plural, r->group) : xstrdup(r->plural);
}

int fake_fail(struct err *e, int code, const char *reason, const char *cause, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    auto_free char *message = xvasprintf(fmt, ap);
    va_end(ap);
    auto_json json_t *status = kc_status_new(code, reason, message, cause);
    return kc_status_to_err(status, code, e);
}

int fake_not_found(const struct kc_target *t, struct err *e)
{
    auto_free char *resource = fake_resource_name(t->res);
    return fake_fail(e, 404, "NotFound", NULL, "%s \"%s\" not found", resource, t->name);
}

bool fake_is_status(const struct kc_target *t)
{
    return t->subresource && !strcmp(t->subresource, "status");
}

/* ---- demands ---- */

static bool consists_of(const char *s, const char *allowed)
{
    return strspn(s, allowed) == strlen(s);
}

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool is_subdomain(const char *s)
{
    size_t len = strlen(s);
    return len > 0 && len <= MAX_NAME_BYTES && consists_of(s, LOWER "-.") && !strchr("-.", s[0]) &&
           !strchr("-.", s[len - 1]);
}

/* True for a label's value, or the part of a key after its slash. */
static bool is_label_text(const char *s)
{
    size_t len = strlen(s);
    return len <= MAX_LABEL_BYTES && consists_of(s, LOWER UPPER "-_.") &&
           (!len || (!strchr("-_.", s[0]) && !strchr("-_.", s[len - 1])));
}

static bool is_label_key(const char *key)
{
    const char *slash = strchr(key, '/');
    if (!slash)
        return *key && is_label_text(key);
    auto_free char *prefix = xstrndup(key, (size_t)(slash - key));
    return is_subdomain(prefix) && slash[1] && is_label_text(slash + 1);
}

static int check_labels(const json_t *labels, struct err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach(fake_readable(labels), key, value) {
        const char *text = json_string_value(value);
        if (!is_label_key(key) || !text || !is_label_text(text))
            return fake_fail(e, 422, "Invalid", NULL, "metadata.labels: Invalid value: \"%s\"",
                             text && is_label_key(key) ? text : key);
    }
    return 0;
}

static int check_type(const struct kc_resource *r, const json_t *obj, struct err *e)
{
    const char *kind = JX_STR_AT(obj, "kind");
    const char *version = JX_STR_AT(obj, "apiVersion");
    auto_free char *wanted =
        *r->group ? xasprintf("%s/%s", r->group, r->version) : xstrdup(r->version);
    if (!kind || !version)
        return fake_fail(e, 400, "BadRequest", NULL, "Object 'Kind' or 'apiVersion' is missing");
    if (strcmp(kind, r->kind) != 0 || strcmp(version, wanted) != 0)
        return fake_fail(e, 400, "BadRequest", NULL, "%s/%s in the object does not match %s/%s",
                         version, kind, wanted, r->kind);
    return 0;
}

int fake_check_object(const struct kc_target *t, const json_t *obj, struct err *e)
{
    TRY(check_type(t->res, obj, e));
    const char *name = JX_STR_AT(obj, "metadata", "name");
    const char *ns = JX_STR_AT(obj, "metadata", "namespace");
    const char *prefix = JX_STR_AT(obj, "metadata", "generateName");
    if (name && t->name && strcmp(name, t->name) != 0)
        return fake_fail(e, 400, "BadRequest", NULL,
                         "the name of the object (%s) does not match the name on the URL (%s)",
                         name, t->name);
    if (ns && strcmp(ns, t->ns ? t->ns : "") != 0)
        return fake_fail(e, 400, "BadRequest", NULL,
                         "the namespace of the provided object does not match the request's");
    if (name ? !is_subdomain(name) : !prefix)
        return fake_fail(e, 422, "Invalid", NULL, "%s \"%s\" is invalid: metadata.name",
                         t->res->kind, name ? name : "");
    return check_labels(JX_AT(obj, "metadata", "labels"), e);
}

int fake_check_preconditions(const struct kc_target *t, const json_t *live, const char *uid,
                             const char *version, struct err *e)
{
    auto_free char *resource = fake_resource_name(t->res);
    if (uid && strcmp(uid, JX_STR_AT(live, "metadata", "uid")) != 0)
        return fake_fail(e, 409, "Conflict", NULL,
                         "Operation cannot be fulfilled on %s \"%s\": the UID in the precondition "
                         "(%s) does not match the UID in record (%s)",
                         resource, t->name, uid, JX_STR_AT(live, "metadata", "uid"));
    if (version && strcmp(version, JX_STR_AT(live, "metadata", "resourceVersion")) != 0)
        return fake_fail(
            e, 409, "Conflict", NULL,
            "Operation cannot be fulfilled on %s \"%s\": the object has been modified; "
            "please apply your changes to the latest version and try again",
            resource, t->name);
    return 0;
}

bool fake_is_deleting(const json_t *obj)
{
    return JX_AT(obj, "metadata", "deletionTimestamp");
}

bool fake_has_finalizers(const json_t *obj)
{
    return json_array_size(JX_AT(obj, "metadata", "finalizers")) > 0;
}

/* ---- changes ---- */

static json_t *metadata_of(json_t *obj)
{
    json_t *meta = json_object_get(obj, "metadata");
    if (json_is_object(meta))
        return meta;
    meta = json_object();
    (void)json_object_set_new(obj, "metadata", meta);
    return meta;
}

static void set_time(json_t *meta, const char *name, int64_t wall_ms)
{
    char text[RFC3339_BYTES];
    (void)json_object_set_new(meta, name, json_string(rfc3339_format(wall_ms, text)));
}

static const char *const kept_by_server[] = {"uid",
                                             "resourceVersion",
                                             "generation",
                                             "creationTimestamp",
                                             "selfLink",
                                             "managedFields",
                                             "deletionTimestamp",
                                             "deletionGracePeriodSeconds",
                                             "namespace",
                                             NULL};

/* Restores the server's fields in metadata from `live`, or removes those that it does not have. */
static void restore_kept(json_t *obj, const json_t *live)
{
    json_t *meta = metadata_of(obj);
    for (const char *const *name = kept_by_server; *name; name++) {
        json_t *value = json_object_get(json_object_get(live, "metadata"), *name);
        if (value)
            (void)json_object_set(meta, *name, value);
        else
            (void)json_object_del(meta, *name);
    }
}

static void set_or_remove(json_t *obj, const char *name, json_t *value)
{
    if (value)
        (void)json_object_set_new(obj, name, json_deep_copy(value));
    else
        (void)json_object_del(obj, name);
}

static void set_first_status(const struct kc_resource *r, json_t *obj)
{
    bool core = !*r->group;
    /* A kubelet registers its node with a status; every other kind starts without. */
    if (!fake_has_status(r) || (core && !strcmp(r->plural, "nodes")))
        return;
    (void)json_object_del(obj, "status");
    if (core && !strcmp(r->plural, "pods"))
        (void)json_object_set_new(obj, "status", json_pack("{s:s}", "phase", "Pending"));
}

json_t *fake_make_new(const struct kc_target *t, const json_t *body, uint64_t serial,
                      int64_t now_wall_ms)
{
    json_t *obj = json_deep_copy(body);
    restore_kept(obj, /* live= */ NULL);
    set_first_status(t->res, obj);
    json_t *meta = metadata_of(obj);
    auto_free char *uid = xasprintf("00000000-0000-4000-8000-%012" PRIx64, serial);
    (void)json_object_set_new(meta, "uid", json_string(uid));
    set_time(meta, "creationTimestamp", now_wall_ms);
    if (t->res->namespaced)
        (void)json_object_set_new(meta, "namespace", json_string(t->ns));
    if (fake_has_generation(t->res))
        (void)json_object_set_new(meta, "generation", json_integer(1));
    if (!json_object_get(meta, "name")) {
        auto_free char *name =
            xasprintf("%s%05" PRIx64, json_string_value(json_object_get(meta, "generateName")),
                      serial);
        (void)json_object_set_new(meta, "name", json_string(name));
    }
    return obj;
}

static bool differs_outside(const json_t *a, const json_t *b, const char *name1, const char *name2)
{
    auto_json json_t *x = json_copy(fake_readable(a));
    auto_json json_t *y = json_copy(fake_readable(b));
    const char *const names[] = {name1, name2};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)json_object_del(x, names[i]);
        (void)json_object_del(y, names[i]);
    }
    return !json_equal(x, y);
}

static void raise_generation(json_t *obj)
{
    json_t *meta = metadata_of(obj);
    json_int_t now = json_integer_value(json_object_get(meta, "generation"));
    (void)json_object_set_new(meta, "generation", json_integer(now + 1));
}

static int check_update(const struct kc_target *t, const json_t *live, const json_t *wanted,
                        bool replaces, struct err *e)
{
    TRY(fake_check_object(t, wanted, e));
    const char *uid = JX_STR_AT(wanted, "metadata", "uid");
    const char *version = JX_STR_AT(wanted, "metadata", "resourceVersion");
    if (!version && fake_needs_version(t->res))
        return fake_fail(e, 422, "Invalid", NULL,
                         "metadata.resourceVersion: Invalid value: 0x0: must be specified for an "
                         "update");
    TRY(fake_check_preconditions(t, live, replaces ? uid : NULL, version, e));
    if (uid && strcmp(uid, JX_STR_AT(live, "metadata", "uid")) != 0)
        return fake_fail(e, 422, "Invalid", NULL,
                         "metadata.uid: Invalid value: \"%s\": field is immutable", uid);
    return 0;
}

/* Finalizers may only be removed once deletion has begun. */
static int check_finalizers(const json_t *live, const json_t *updated, struct err *e)
{
    const json_t *before = JX_AT(live, "metadata", "finalizers");
    const json_t *after = JX_AT(updated, "metadata", "finalizers");
    if (fake_is_deleting(live) && json_array_size(after) > json_array_size(before))
        return fake_fail(e, 422, "Invalid", NULL,
                         "metadata.finalizers: Forbidden: no new finalizers can be added if the "
                         "object is being deleted");
    return 0;
}

int fake_make_updated(const struct kc_target *t, const json_t *live, const json_t *wanted,
                      bool replaces, json_t **ret, struct err *e)
{
    TRY(check_update(t, live, wanted, replaces, e));
    bool to_status = t->subresource && !strcmp(t->subresource, "status");
    bool with_metadata = to_status && fake_status_takes_metadata(t->res);
    auto_json json_t *obj = json_deep_copy(to_status && !with_metadata ? live : wanted);
    if (with_metadata)
        set_or_remove(obj, "spec", json_object_get(live, "spec"));
    else if (to_status)
        set_or_remove(obj, "status", json_object_get(wanted, "status"));
    else if (fake_has_status(t->res))
        set_or_remove(obj, "status", json_object_get(live, "status"));
    restore_kept(obj, live);
    TRY(check_finalizers(live, obj, e));
    if (fake_has_generation(t->res) && differs_outside(live, obj, "metadata", "status"))
        raise_generation(obj);
    *ret = TAKE(obj);
    return 0;
}

json_t *fake_make_deleting(const struct kc_resource *r, const json_t *live, int64_t now_wall_ms,
                           int64_t grace_s)
{
    json_t *obj = json_deep_copy(live);
    json_t *meta = metadata_of(obj);
    set_time(meta, "deletionTimestamp", now_wall_ms + grace_s * 1000);
    (void)json_object_set_new(meta, "deletionGracePeriodSeconds", json_integer(grace_s));
    if (fake_has_generation(r))
        raise_generation(obj);
    return obj;
}
