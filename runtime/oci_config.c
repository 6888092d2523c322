/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci_config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/xalloc.h"

#include "runtime/description.h"

/* --- Members --- */

static const char *type_name(json_type type)
{
    return type == JSON_OBJECT ? "an object" : "a list";
}

/* The member of that type; made where it is absent or null. */
static int member(json_t *in, const char *key, json_type type, json_t **ret, struct err *e)
{
    json_t *value = json_object_get(in, key);
    if (!value || json_is_null(value)) {
        value = type == JSON_OBJECT ? json_object() : json_array();
        if (json_object_set_new(in, key, value) < 0)
            xalloc_failed();
    }
    if (json_typeof(value) != type)
        return err_set(e, ERR_INVALID, "\"%s\" is not %s", key, type_name(type));
    *ret = value;
    return 0;
}

/* The same below another object. */
static int member_of(json_t *config, const char *outer, const char *key, json_type type,
                     json_t **ret, struct err *e)
{
    json_t *in;
    if (!json_is_object(config))
        return err_set(e, ERR_INVALID, "it is not an object");
    TRY(member(config, outer, JSON_OBJECT, &in, e));
    return member(in, key, type, ret, e);
}

static void append(json_t *list, json_t *value_take)
{
    if (!value_take || json_array_append_new(list, value_take) < 0)
        xalloc_failed();
}

static bool says(const json_t *object, const char *key, const char *text)
{
    const char *has = json_string_value(json_object_get(object, key));
    return has && strcmp(has, text) == 0;
}

/* Removes the members of the list that say so. */
static void remove_where(json_t *list, const char *key, const char *text)
{
    for (size_t i = json_array_size(list); i-- > 0;)
        if (says(json_array_get(list, i), key, text))
            (void)json_array_remove(list, i);
}

/* --- Marks --- */

static bool has_grant(const struct grant_mark *grants, size_t n, const struct grant_mark *m)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(grants[i].vendor, m->vendor) == 0 && strcmp(grants[i].name, m->name) == 0)
            return true;
    return false;
}

static int take_mark(const char *destination, struct grant_mark **grants, size_t *n, struct err *e)
{
    struct grant_mark m;
    if (!destination || !grant_mark_parse(destination, &m))
        return err_set(e, ERR_INVALID,
                       "the mark at \"%.200s\" names no device (%s/VENDOR/NAME); make the pod anew",
                       destination ? destination : "", GRANT_FOLDER);
    if (has_grant(*grants, *n, &m))
        return 0;
    if (*n == OCI_MAX_GRANTS)
        return err_set(e, ERR_TOO_LARGE, "more than %d devices for one container", OCI_MAX_GRANTS);
    *XPUSH(*grants, *n) = m;
    return 0;
}

int oci_grants(const json_t *config, struct grant_mark **ret, size_t *ret_n, struct err *e)
{
    auto_free struct grant_mark *grants = NULL;
    size_t n = 0;
    size_t i;
    const json_t *mount;
    json_array_foreach(JX_AT(config, "mounts"), i, mount)
        if (says(mount, "source", GRANT_SOURCE))
            TRY(take_mark(JX_STR_AT(mount, "destination"), &grants, &n, e));
    *ret = TAKE(grants);
    *ret_n = n;
    return 0;
}

void oci_remove_marks(json_t *config)
{
    remove_where(json_object_get(config, "mounts"), "source", GRANT_SOURCE);
}

/* --- The environment --- */

static int set_variable(json_t *env, const char *text, struct err *e)
{
    size_t len = text ? strcspn(text, "=") : 0;
    if (!text || len == 0 || !text[len])
        return err_set(e, ERR_INVALID, "\"%.60s\" is no KEY=value", text ? text : "");
    for (size_t i = json_array_size(env); i-- > 0;) {
        const char *has = json_string_value(json_array_get(env, i));
        if (has && strncmp(has, text, len + 1) == 0)
            (void)json_array_remove(env, i);
    }
    append(env, json_string(text));
    return 0;
}

static int apply_env(json_t *config, const json_t *list, struct err *e)
{
    json_t *env;
    size_t i;
    const json_t *text;
    if (json_array_size(list) == 0)
        return 0;
    TRY(member_of(config, "process", "env", JSON_ARRAY, &env, e));
    json_array_foreach(list, i, text)
        TRY(set_variable(env, json_string_value(text), e));
    return 0;
}

/* --- Shapes of edits --- */

/* An absolute path that a member names. */
static int path_at(const json_t *edit, const char *key, const char **ret, struct err *e)
{
    const char *path = JX_STR_AT(edit, key);
    if (!path || path[0] != '/')
        return err_set(e, ERR_INVALID, "%s \"%.200s\" is no absolute path", key, path ? path : "");
    *ret = path;
    return 0;
}

static int check_known(const json_t *edit, const char *const known[], struct err *e)
{
    const char *unknown = json_is_object(edit) ? jx_unknown_key(edit, known) : "";
    if (!unknown)
        return 0;
    return err_set(
        e, ERR_INVALID,
        "the description has \"%.60s\", which this cleave-runtime does not know: install "
        "the agent's own version of it",
        unknown);
}

/* A list of texts, or none. */
static int check_texts(const json_t *list, const char *key, struct err *e)
{
    size_t i;
    const json_t *text;
    bool good = !list || json_is_array(list);
    json_array_foreach(list, i, text)
        good = good && json_is_string(text);
    return good ? 0 : err_set(e, ERR_INVALID, "%s is no list of texts", key);
}

/* --- Device files --- */

/* CDI gives a file to the process's user where that is not root. */
static void set_owner(const json_t *config, const char *id, json_t *device)
{
    const json_t *value = JX_AT(config, "process", "user", id);
    if (json_integer_value(value) > 0)
        (void)json_object_set_new(device, id, json_integer(json_integer_value(value)));
}

static json_t *new_device(const json_t *config, const char *path, const struct oci_node *node)
{
    const char type[] = {node->type, '\0'};
    json_t *device = json_pack("{s:s, s:s, s:I, s:I}", "path", path, "type", type, "major",
                               (json_int_t)node->major, "minor", (json_int_t)node->minor);
    if (!device)
        xalloc_failed();
    set_owner(config, "uid", device);
    set_owner(config, "gid", device);
    return device;
}

static json_t *new_rule(const struct oci_node *node, const char *access)
{
    const char type[] = {node->type, '\0'};
    return json_pack("{s:b, s:s, s:I, s:I, s:s}", "allow", 1, "type", type, "major",
                     (json_int_t)node->major, "minor", (json_int_t)node->minor, "access", access);
}

static int rules_of(json_t *config, json_t **ret, struct err *e)
{
    json_t *resources;
    TRY(member_of(config, "linux", "resources", JSON_OBJECT, &resources, e));
    return member(resources, "devices", JSON_ARRAY, ret, e);
}

static int apply_node(json_t *config, const json_t *edit, oci_look_fn *look, void *arg,
                      struct err *e)
{
    static const char *const known[] = {"path", "hostPath", "permissions", NULL};
    const char *path;
    const char *host_path;
    struct oci_node node;
    json_t *devices;
    json_t *rules;
    TRY(check_known(edit, known, e));
    TRY(path_at(edit, "path", &path, e));
    host_path = path;
    if (JX_AT(edit, "hostPath"))
        TRY(path_at(edit, "hostPath", &host_path, e));
    TRY(look(arg, host_path, &node, e));
    TRY(member_of(config, "linux", "devices", JSON_ARRAY, &devices, e));
    TRY(rules_of(config, &rules, e));
    remove_where(devices, "path", path);
    append(devices, new_device(config, path, &node));
    const char *access = JX_STR_AT(edit, "permissions");
    append(rules, new_rule(&node, access ? access : "rwm"));
    return 0;
}

/* --- Mounts and hooks --- */

static int apply_mount(json_t *config, const json_t *edit, struct err *e)
{
    static const char *const known[] = {"hostPath", "containerPath", "options", NULL};
    const char *source;
    const char *destination;
    json_t *mounts;
    json_t *options = json_object_get(edit, "options");
    TRY(check_known(edit, known, e));
    TRY(path_at(edit, "hostPath", &source, e));
    TRY(path_at(edit, "containerPath", &destination, e));
    TRY(check_texts(options, "options", e));
    TRY(member(config, "mounts", JSON_ARRAY, &mounts, e));
    remove_where(mounts, "destination", destination);
    append(mounts, json_pack("{s:s, s:s, s:s, s:O*}", "destination", destination, "type", "bind",
                             "source", source, "options", options));
    return 0;
}

static bool is_hook_name(const char *name)
{
    static const char *const names[] = {"prestart",       "createRuntime", "createContainer",
                                        "startContainer", "poststart",     "poststop"};
    for (size_t i = 0; name && i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static int apply_hook(json_t *config, const json_t *edit, struct err *e)
{
    static const char *const known[] = {"hookName", "path", "args", NULL};
    const char *name = JX_STR_AT(edit, "hookName");
    const char *path;
    json_t *list;
    json_t *args = json_object_get(edit, "args");
    TRY(check_known(edit, known, e));
    TRY(path_at(edit, "path", &path, e));
    TRY(check_texts(args, "args", e));
    if (!is_hook_name(name))
        return err_set(e, ERR_INVALID, "there is no hook \"%.40s\"", name ? name : "");
    TRY(member_of(config, "hooks", name, JSON_ARRAY, &list, e));
    append(list, json_pack("{s:s, s:O*}", "path", path, "args", args));
    return 0;
}

/* --- All of them --- */

static int check_edits(const json_t *edits, struct err *e)
{
    static const char *const known[] = {"env", "deviceNodes", "mounts", "hooks", NULL};
    TRY(check_known(edits, known, e));
    for (size_t i = 0; known[i]; i++) {
        const json_t *list = json_object_get(edits, known[i]);
        if (list && !json_is_array(list))
            return err_set(e, ERR_INVALID, "the description's \"%s\" is not a list", known[i]);
    }
    return 0;
}

int oci_apply(json_t *config, const json_t *edits, oci_look_fn *look, void *arg, struct err *e)
{
    size_t i;
    const json_t *edit;
    assert(look);
    TRY(check_edits(edits, e));
    TRY(apply_env(config, json_object_get(edits, "env"), e));
    json_array_foreach(json_object_get(edits, "deviceNodes"), i, edit)
        TRY(apply_node(config, edit, look, arg, e));
    json_array_foreach(json_object_get(edits, "mounts"), i, edit)
        TRY(apply_mount(config, edit, e));
    json_array_foreach(json_object_get(edits, "hooks"), i, edit)
        TRY(apply_hook(config, edit, e));
    return 0;
}

/* --- What an old answer left --- */

static bool gives_node(const json_t *edits, const char *path)
{
    size_t i;
    const json_t *node;
    json_array_foreach(JX_AT(edits, "deviceNodes"), i, node)
        if (says(node, "path", path))
            return true;
    return false;
}

static bool is_same(const json_t *a, const json_t *b, const char *key)
{
    return json_equal(json_object_get(a, key), json_object_get(b, key));
}

static void remove_rules(json_t *rules, const json_t *device)
{
    for (size_t i = json_array_size(rules); i-- > 0;) {
        const json_t *rule = json_array_get(rules, i);
        if (json_is_true(json_object_get(rule, "allow")) && is_same(rule, device, "type") &&
            is_same(rule, device, "major") && is_same(rule, device, "minor"))
            (void)json_array_remove(rules, i);
    }
}

void oci_drop_others(json_t *config, const json_t *description, const json_t *const *edits,
                     size_t n)
{
    json_t *linux_part = json_object_get(config, "linux");
    json_t *devices = json_object_get(linux_part, "devices");
    json_t *rules = json_object_get(json_object_get(linux_part, "resources"), "devices");
    for (size_t i = json_array_size(devices); i-- > 0;) {
        const json_t *device = json_array_get(devices, i);
        const char *path = JX_STR_AT(device, "path");
        bool given = !path || !description_has_node(description, path);
        for (size_t k = 0; k < n && !given; k++)
            given = gives_node(edits[k], path);
        if (given)
            continue;
        remove_rules(rules, device);
        (void)json_array_remove(devices, i);
    }
}
