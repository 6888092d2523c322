/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "kubeclient/client.h"
#include "kubeclient/object.h"

static const struct kc_resource pods = {.group = "",
                                        .version = "v1",
                                        .plural = "pods",
                                        .kind = "Pod",
                                        .namespaced = true};

static int transform(const json_t *obj, void **ret, struct err *e)
{
    const char *node = JX_STR_AT(obj, "spec", "nodeName");
    if (!node)
        return err_set(e, ERR_INVALID, ".spec.nodeName: missing");
    *ret = xstrdup(node);
    return 0;
}

static const struct object_type pod_type = {&pods, transform, free};

Test(object, keeps_identity_and_the_typed_record)
{
    auto_json json_t *doc =
        json_pack("{s:{s:s,s:s,s:s,s:s,s:i,s:s},s:{s:s}}", "metadata", "namespace", "n", "name",
                  "p", "uid", "u-1", "resourceVersion", "17", "generation", 4, "deletionTimestamp",
                  "2026-01-01T00:00:00Z", "spec", "nodeName", "worker");
    auto_object struct object *o = NULL;
    auto_err struct err e = {0};
    cr_assert_eq(object_new(&pod_type, doc, &o, &e), 0, "%s", err_msg(&e));
    cr_assert_str_eq(object_key(o).ns, "n");
    cr_assert_str_eq(object_name(o), "p");
    cr_assert_str_eq(object_uid(o), "u-1");
    cr_assert_str_eq(object_version(o), "17");
    cr_assert_eq(object_generation(o), 4);
    cr_assert(object_is_deleting(o));
    cr_assert_str_eq(object_payload(o), "worker");
    cr_assert_eq(object_resource(o), &pods);
}

Test(object, refuses_what_has_no_name_or_does_not_transform)
{
    auto_err struct err e = {0};
    struct object *o = NULL;
    auto_json json_t *nameless = json_pack("{s:{}}", "metadata");
    cr_assert_eq(object_new(&pod_type, nameless, &o, &e), -ERR_PROTOCOL);
    auto_json json_t *bad = json_pack("{s:{s:s}}", "metadata", "name", "p");
    cr_assert_eq(object_new(&pod_type, bad, &o, &e), -ERR_INVALID);
    auto_json json_t *odd = json_pack("{s:n}", "metadata");
    cr_assert_eq(object_new(&pod_type, odd, &o, &e), -ERR_PROTOCOL);
    cr_assert_null(o);
}

Test(object, key_text_has_the_namespace_only_where_there_is_one)
{
    auto_free char *with = object_key_text(&(struct object_key){.ns = "n", .name = "p"});
    auto_free char *without = object_key_text(&(struct object_key){.ns = "", .name = "p"});
    cr_assert_str_eq(with, "n/p");
    cr_assert_str_eq(without, "p");
    cr_assert(object_key_equal(&(struct object_key){.name = "p"},
                               &(struct object_key){.ns = "", .name = "p"}));
    cr_assert_not(object_key_equal(&(struct object_key){.ns = "a", .name = "p"},
                                   &(struct object_key){.ns = "b", .name = "p"}));
}

struct order {
    const char *a, *b;
    int sign;
};

Test(object, resource_versions_order_by_length_and_then_bytes)
{
    static const struct order rows[] = {
        {"9", "10", -1},    {"10", "9", 1},  {"101", "101", 0},
        {"199", "200", -1}, {"", "1", -1},   {"1", "", 1},
        {"", "", 0},        {"0", "1", -1},  {"abc", "5", -1},
        {"5", "0x5", 1},    {"05", "5", -1}, {"99999999999999999999", "100000000000000000000", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int order = resource_version_compare(rows[i].a, rows[i].b);
        cr_assert_eq((order > 0) - (order < 0), rows[i].sign, "%s against %s", rows[i].a,
                     rows[i].b);
    }
}
