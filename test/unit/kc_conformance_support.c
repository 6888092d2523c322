/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/kc_conformance_support.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/num.h"
#include "base/sb.h"
#include "base/xalloc.h"

const struct kc_resource kc_conformance_things = {"conformance.cleave.dev", "v1", "things", "Thing",
                                                  false};
static const struct kc_resource pods = {"", "v1", "pods", "Pod", true};
static const struct kc_resource nodes = {"", "v1", "nodes", "Node", false};
static const struct kc_resource leases = {"coordination.k8s.io", "v1", "leases", "Lease", true};
static const struct kc_resource crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                        "CustomResourceDefinition", false};

#define API "conformance.cleave.dev/v1"

static const char definition[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\","
    "\"metadata\":{\"name\":\"things.conformance.cleave.dev\"},\"spec\":{"
    "\"group\":\"conformance.cleave.dev\",\"scope\":\"Cluster\",\"names\":{\"kind\":\"Thing\","
    "\"plural\":\"things\",\"singular\":\"thing\",\"listKind\":\"ThingList\"},\"versions\":[{"
    "\"name\":\"v1\",\"served\":true,\"storage\":true,\"subresources\":{\"status\":{}},"
    "\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{"
    "\"spec\":{\"type\":\"object\",\"properties\":{\"color\":{\"type\":\"string\"},"
    "\"count\":{\"type\":\"integer\"},\"parts\":{\"type\":\"array\","
    "\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"id\"],"
    "\"items\":{\"type\":\"object\",\"required\":[\"id\"],\"properties\":{"
    "\"id\":{\"type\":\"string\"},\"size\":{\"type\":\"integer\"}}}}}},"
    "\"status\":{\"type\":\"object\",\"properties\":{\"phase\":{\"type\":\"string\"},"
    "\"note\":{\"type\":\"string\"}}}}}}}]}}";

/* ---- shorthands: JSON with ' for ", calls that must succeed ---- */

static json_t *parse(const char *text)
{
    auto_free char *json = xstrdup(text);
    for (char *c = json; (c = strchr(c, '\'')); c++)
        *c = '"';
    auto_err struct err e = {0};
    json_t *value = NULL;
    cr_assert_eq(jx_parse(json, strlen(json), strlen(json), &value, &e), 0, "%s: %s", text, e.msg);
    return value;
}

static struct kc_target thing(const char *name)
{
    return (struct kc_target){.res = &kc_conformance_things, .name = name};
}

static const char *version_of(const json_t *obj)
{
    return JX_STR_AT(obj, "metadata", "resourceVersion");
}

static json_int_t generation_of(const json_t *obj)
{
    return json_integer_value(JX_AT(obj, "metadata", "generation"));
}

/* Gone before the case begins, whatever an earlier run left. */
static void clear(struct kc_conformance *t, const struct kc_target *what)
{
    auto_err struct err e = {0};
    auto_json json_t *unhold = parse("{'metadata':{'finalizers':null}}");
    struct kc_write w = {.body = unhold, .how = KC_MERGE};
    int rc = kc_patch(t->kc, t->s, what, &w, NULL, &e);
    cr_assert(rc == 0 || e.kind == ERR_NOT_FOUND, "%s", e.msg);
    struct kc_remove_opts now = {.has_grace = true, .grace_s = 0};
    rc = kc_remove_with(t->kc, t->s, what, &now, &e);
    cr_assert(rc == 0 || e.kind == ERR_NOT_FOUND, "%s", e.msg);
}

static json_t *make(struct kc_conformance *t, const struct kc_target *what, const char *body)
{
    auto_err struct err e = {0};
    auto_json json_t *doc = parse(body);
    json_t *obj = NULL;
    clear(t, what);
    cr_assert_eq(kc_create(t->kc, t->s, what, &(struct kc_write){.body = doc, .manager = "maker"},
                           &obj, &e),
                 0, "%s", e.msg);
    return obj;
}

static json_t *make_thing(struct kc_conformance *t, const char *name, const char *spec)
{
    struct kc_target what = thing(name);
    auto_free char *body =
        xasprintf("{'apiVersion':'" API "','kind':'Thing','metadata':{'name':'%s'},'spec':%s}",
                  name, spec);
    return make(t, &what, body);
}

static json_t *get(struct kc_conformance *t, const struct kc_target *what)
{
    auto_err struct err e = {0};
    json_t *obj = NULL;
    cr_assert_eq(kc_get(t->kc, t->s, what, &obj, &e), 0, "%s", e.msg);
    return obj;
}

typedef int write_fn(struct kc *, struct scope *, const struct kc_target *, const struct kc_write *,
                     json_t **, struct err *);

/* The outcome of a write that must succeed. */
static json_t *did(struct kc_conformance *t, write_fn *fn, const struct kc_target *what,
                   const struct kc_write *w)
{
    auto_err struct err e = {0};
    json_t *obj = NULL;
    cr_assert_eq(fn(t->kc, t->s, what, w, &obj, &e), 0, "%s", e.msg);
    return obj;
}

static void refused(struct kc_conformance *t, write_fn *fn, const struct kc_target *what,
                    const struct kc_write *w, enum err_kind kind)
{
    auto_err struct err e = {0};
    json_t *obj = NULL;
    int rc = fn(t->kc, t->s, what, w, &obj, &e);
    cr_assert_eq(rc, -(int)kind, "%d: %s", rc, e.msg ? e.msg : "it succeeded");
    cr_assert_null(obj);
}

static json_t *patch(struct kc_conformance *t, const struct kc_target *what, enum kc_patch_type how,
                     const char *text)
{
    auto_json json_t *body = parse(text);
    return did(t, kc_patch, what, &(struct kc_write){.body = body, .how = how});
}

static char *applied_text(const char *name, const char *rest)
{
    return xasprintf("{'apiVersion':'" API "','kind':'Thing','metadata':{'name':'%s'}%s%s}", name,
                     *rest ? "," : "", rest);
}

static json_t *apply(struct kc_conformance *t, const char *name, const char *manager, bool force,
                     const char *rest)
{
    struct kc_target what = thing(name);
    auto_free char *text = applied_text(name, rest);
    auto_json json_t *body = parse(text);
    return did(t, kc_patch, &what,
               &(struct kc_write){.body = body,
                                  .how = KC_APPLY,
                                  .manager = manager,
                                  .force = force});
}

#define EXPECT_JSON(obj, text, ...)                                                                \
    do {                                                                                           \
        auto_json json_t *want_ = parse(text);                                                     \
        auto_free char *got_ =                                                                     \
            JX_AT(obj, __VA_ARGS__) ? jx_dump(JX_AT(obj, __VA_ARGS__)) : xstrdup("nothing");       \
        cr_expect(json_equal(JX_AT(obj, __VA_ARGS__), want_), "got %s, want %s", got_, text);      \
    } while (0)

/* ---- preparation ---- */

void kc_conformance_prepare(struct kc_conformance *t)
{
    auto_err struct err e = {0};
    auto_json json_t *body = parse(definition);
    struct kc_target crd = {.res = &crds};
    int rc = kc_create(t->kc, t->s, &crd, &(struct kc_write){.body = body}, NULL, &e);
    cr_assert(rc == 0 || e.kind == ERR_EXISTS, "%s", e.msg);
    struct kc_target any = {.res = &kc_conformance_things};
    auto_json json_t *list = NULL;
    while ((rc = kc_list(t->kc, t->s, &any, NULL, &list, &e)) < 0)
        cr_assert(e.kind == ERR_NOT_FOUND && scope_wait_ms(t->s, 20), "%s", e.msg);
}

/* ---- creation ---- */

void kc_conformance_created_object_has_uid_version_and_generation(struct kc_conformance *t)
{
    auto_json json_t *obj = make_thing(t, "created", "{'color':'red'}");
    cr_expect_str_not_empty(JX_STR_AT(obj, "metadata", "uid"));
    cr_expect_str_not_empty(version_of(obj));
    cr_expect_not_null(JX_STR_AT(obj, "metadata", "creationTimestamp"));
    cr_expect_eq(generation_of(obj), 1);
    struct kc_target what = thing("created");
    auto_json json_t *again = get(t, &what);
    cr_expect(json_equal(obj, again));
    clear(t, &what);
}

void kc_conformance_second_creation_says_exists(struct kc_conformance *t)
{
    json_decref(make_thing(t, "twice", "{}"));
    auto_json json_t *body = parse("{'apiVersion':'" API "','kind':'Thing',"
                                   "'metadata':{'name':'twice'}}");
    struct kc_target what = thing("twice");
    refused(t, kc_create, &what, &(struct kc_write){.body = body}, ERR_EXISTS);
    clear(t, &what);
}

static void expect_invalid(struct kc_conformance *t, const char *body_text)
{
    auto_json json_t *body = parse(body_text);
    struct kc_target what = thing(NULL);
    refused(t, kc_create, &what, &(struct kc_write){.body = body}, ERR_INVALID);
}

void kc_conformance_name_that_is_none_is_invalid(struct kc_conformance *t)
{
    expect_invalid(t, "{'apiVersion':'" API "','kind':'Thing','metadata':{'name':'Not_A_Name'}}");
    expect_invalid(t, "{'apiVersion':'" API "','kind':'Thing','metadata':{'name':'-x'}}");
    expect_invalid(t, "{'apiVersion':'" API "','kind':'Thing','metadata':{}}");
}

void kc_conformance_label_that_is_none_is_invalid(struct kc_conformance *t)
{
    expect_invalid(t, "{'apiVersion':'" API "','kind':'Thing','metadata':{'name':'x','labels':"
                      "{'a':'no spaces'}}}");
    expect_invalid(t, "{'apiVersion':'" API "','kind':'Thing','metadata':{'name':'x','labels':"
                      "{'a/b/c':'x'}}}");
}

void kc_conformance_body_of_another_kind_is_invalid(struct kc_conformance *t)
{
    expect_invalid(t, "{'apiVersion':'" API "','kind':'Other','metadata':{'name':'x'}}");
    expect_invalid(t, "{'apiVersion':'v1','kind':'Thing','metadata':{'name':'x'}}");
}

void kc_conformance_name_is_generated_from_a_prefix(struct kc_conformance *t)
{
    auto_json json_t *body =
        parse("{'apiVersion':'" API "','kind':'Thing','metadata':{'generateName':'gen-'}}");
    struct kc_target what = thing(NULL);
    auto_json json_t *obj = did(t, kc_create, &what, &(struct kc_write){.body = body});
    what.name = JX_STR_AT(obj, "metadata", "name");
    cr_assert_not_null(what.name);
    cr_expect(!strncmp(what.name, "gen-", 4) && strlen(what.name) == 9, "%s", what.name);
    clear(t, &what);
}

/* ---- reading and updating ---- */

void kc_conformance_what_is_not_there_is_not_found(struct kc_conformance *t)
{
    auto_err struct err e = {0};
    struct kc_target what = thing("nowhere");
    auto_json json_t *body = parse("{'spec':{'color':'red'}}");
    cr_expect_eq(kc_get(t->kc, t->s, &what, NULL, &e), -ERR_NOT_FOUND);
    cr_expect_eq(e.http_status, 404);
    cr_expect_str_eq(e.reason, "NotFound");
    refused(t, kc_patch, &what, &(struct kc_write){.body = body, .how = KC_MERGE}, ERR_NOT_FOUND);
    cr_expect_eq(kc_remove(t->kc, t->s, &what, /* if_uid= */ NULL, &e), -ERR_NOT_FOUND);
}

void kc_conformance_update_with_a_stale_version_conflicts(struct kc_conformance *t)
{
    struct kc_target what = thing("stale");
    auto_json json_t *first = make_thing(t, "stale", "{'count':1}");
    auto_json json_t *second = patch(t, &what, KC_MERGE, "{'spec':{'count':2}}");
    refused(t, kc_update, &what, &(struct kc_write){.body = first}, ERR_CONFLICT);
    (void)json_object_set_new(json_object_get(second, "spec"), "count", json_integer(3));
    auto_json json_t *third = did(t, kc_update, &what, &(struct kc_write){.body = second});
    EXPECT_JSON(third, "{'count':3}", "spec");
    clear(t, &what);
}

void kc_conformance_update_of_a_custom_resource_needs_a_version(struct kc_conformance *t)
{
    struct kc_target what = thing("versionless");
    auto_json json_t *obj = make_thing(t, "versionless", "{'count':1}");
    (void)json_object_del(json_object_get(obj, "metadata"), "resourceVersion");
    refused(t, kc_update, &what, &(struct kc_write){.body = obj}, ERR_INVALID);
    clear(t, &what);
}

void kc_conformance_update_with_another_uid_conflicts(struct kc_conformance *t)
{
    struct kc_target what = thing("other-uid");
    auto_json json_t *obj = make_thing(t, "other-uid", "{'count':1}");
    (void)json_object_set_new(json_object_get(obj, "metadata"), "uid", json_string("another"));
    refused(t, kc_update, &what, &(struct kc_write){.body = obj}, ERR_CONFLICT);
    clear(t, &what);
}

void kc_conformance_update_that_changes_nothing_keeps_the_version(struct kc_conformance *t)
{
    struct kc_target what = thing("same");
    auto_json json_t *obj = make_thing(t, "same", "{'count':1}");
    auto_json json_t *updated =
        did(t, kc_update, &what, &(struct kc_write){.body = obj, .manager = "maker"});
    auto_json json_t *patched = patch(t, &what, KC_MERGE, "{'spec':{'count':1}}");
    cr_expect_str_eq(version_of(updated), version_of(obj));
    cr_expect_str_eq(version_of(patched), version_of(obj));
    clear(t, &what);
}

void kc_conformance_generation_counts_changes_of_spec_alone(struct kc_conformance *t)
{
    struct kc_target what = thing("generation");
    struct kc_target status = what;
    status.subresource = "status";
    json_decref(make_thing(t, "generation", "{'count':1}"));
    auto_json json_t *meta = patch(t, &what, KC_MERGE, "{'metadata':{'labels':{'a':'b'}}}");
    auto_json json_t *state = patch(t, &status, KC_MERGE, "{'status':{'phase':'x'}}");
    auto_json json_t *spec = patch(t, &what, KC_MERGE, "{'spec':{'count':2}}");
    cr_expect_eq(generation_of(meta), 1);
    cr_expect_eq(generation_of(state), 1);
    cr_expect_eq(generation_of(spec), 2);
    clear(t, &what);
}

void kc_conformance_status_and_the_rest_are_written_apart(struct kc_conformance *t)
{
    struct kc_target what = thing("apart");
    struct kc_target status = what;
    status.subresource = "status";
    auto_json json_t *made = make_thing(t, "apart", "{'count':1},'status':{'phase':'lost'}");
    cr_expect_null(JX_AT(made, "status", "phase"));
    auto_json json_t *state =
        patch(t, &status, KC_MERGE,
              "{'metadata':{'labels':{'a':'b'}},'spec':{'count':9},'status':{'phase':'kept'}}");
    EXPECT_JSON(state, "{'count':1}", "spec");
    EXPECT_JSON(state, "'kept'", "status", "phase");
    cr_expect_null(JX_AT(state, "metadata", "labels"));
    auto_json json_t *rest =
        patch(t, &what, KC_MERGE, "{'spec':{'count':2},'status':{'phase':'lost'}}");
    EXPECT_JSON(rest, "{'count':2}", "spec");
    EXPECT_JSON(rest, "'kept'", "status", "phase");
    clear(t, &what);
}

/* ---- patches ---- */

void kc_conformance_merge_patch_sets_and_removes(struct kc_conformance *t)
{
    struct kc_target what = thing("merged");
    json_decref(make_thing(t, "merged", "{'count':1,'color':'red'}"));
    auto_json json_t *obj = patch(t, &what, KC_MERGE, "{'spec':{'count':null,'color':'blue'}}");
    EXPECT_JSON(obj, "{'color':'blue'}", "spec");
    clear(t, &what);
}

static void refuse_merge(struct kc_conformance *t, const char *name, const char *member,
                         enum err_kind kind)
{
    struct kc_target what = thing(name);
    json_decref(make_thing(t, name, "{'count':1}"));
    auto_json json_t *body =
        json_pack("{s:{s:s},s:{s:i}}", "metadata", member, "1", "spec", "count", 2);
    refused(t, kc_patch, &what, &(struct kc_write){.body = body, .how = KC_MERGE}, kind);
    auto_json json_t *still = get(t, &what);
    EXPECT_JSON(still, "{'count':1}", "spec");
    clear(t, &what);
}

void kc_conformance_merge_patch_with_a_stale_version_conflicts(struct kc_conformance *t)
{
    refuse_merge(t, "stale-merge", "resourceVersion", ERR_CONFLICT);
}

void kc_conformance_merge_patch_with_another_uid_is_refused(struct kc_conformance *t)
{
    refuse_merge(t, "uid-merge", "uid", ERR_INVALID);
}

void kc_conformance_json_patch_tests_and_replaces(struct kc_conformance *t)
{
    struct kc_target what = thing("json");
    json_decref(make_thing(t, "json", "{'count':1,'parts':[{'id':'a'}]}"));
    auto_json json_t *obj = patch(t, &what, KC_JSON_PATCH,
                                  "[{'op':'test','path':'/spec/count','value':1},"
                                  "{'op':'replace','path':'/spec/count','value':2},"
                                  "{'op':'add','path':'/spec/parts/-','value':{'id':'b'}},"
                                  "{'op':'add','path':'/metadata/labels','value':{}},"
                                  "{'op':'add','path':'/metadata/labels/a~1b','value':'c'}]");
    EXPECT_JSON(obj, "{'count':2,'parts':[{'id':'a'},{'id':'b'}]}", "spec");
    EXPECT_JSON(obj, "{'a/b':'c'}", "metadata", "labels");
    auto_json json_t *body = parse("[{'op':'test','path':'/spec/count','value':1}]");
    refused(t, kc_patch, &what, &(struct kc_write){.body = body, .how = KC_JSON_PATCH},
            ERR_INVALID);
    clear(t, &what);
}

/* ---- server-side apply ---- */

void kc_conformance_apply_creates_and_repeats_without_a_write(struct kc_conformance *t)
{
    struct kc_target what = thing("applied");
    clear(t, &what);
    auto_json json_t *first = apply(t, "applied", "a", false, "'spec':{'count':1}");
    auto_json json_t *second = apply(t, "applied", "a", false, "'spec':{'count':1}");
    cr_expect_eq(generation_of(first), 1);
    cr_expect_str_eq(version_of(first), version_of(second));
    clear(t, &what);
}

void kc_conformance_field_that_is_no_longer_applied_disappears(struct kc_conformance *t)
{
    struct kc_target what = thing("dropped");
    clear(t, &what);
    json_decref(apply(t, "dropped", "a", false, "'spec':{'count':1,'color':'red'}"));
    auto_json json_t *second = apply(t, "dropped", "a", false, "'spec':{'count':1}");
    EXPECT_JSON(second, "{'count':1}", "spec");
    cr_expect_eq(generation_of(second), 2);
    clear(t, &what);
}

void kc_conformance_field_of_another_manager_stays(struct kc_conformance *t)
{
    struct kc_target what = thing("others");
    json_decref(make_thing(t, "others", "{'color':'red'}"));
    auto_json json_t *both = apply(t, "others", "a", false, "'spec':{'count':1}");
    EXPECT_JSON(both, "{'color':'red','count':1}", "spec");
    auto_json json_t *one = apply(t, "others", "a", false, "");
    EXPECT_JSON(one, "{'color':'red'}", "spec");
    clear(t, &what);
}

void kc_conformance_rival_manager_is_a_conflict_unless_forced(struct kc_conformance *t)
{
    struct kc_target what = thing("rivals");
    clear(t, &what);
    json_decref(apply(t, "rivals", "a", false, "'spec':{'count':1}"));
    auto_free char *text = applied_text("rivals", "'spec':{'count':2}");
    auto_json json_t *body = parse(text);
    auto_err struct err e = {0};
    struct kc_write w = {.body = body, .how = KC_APPLY, .manager = "b"};
    cr_assert_eq(kc_patch(t->kc, t->s, &what, &w, NULL, &e), -ERR_CONFLICT);
    cr_expect_str_eq(e.reason, "FieldManagerConflict");
    cr_expect_not_null(strstr(e.msg, ".spec.count"));
    cr_expect_not_null(strstr(e.msg, "\"a\""));
    auto_json json_t *theirs = apply(t, "rivals", "b", true, "'spec':{'count':2}");
    EXPECT_JSON(theirs, "{'count':2}", "spec");
    /* The loser lost the field: not to apply it takes nothing away. */
    auto_json json_t *still = apply(t, "rivals", "a", false, "");
    EXPECT_JSON(still, "{'count':2}", "spec");
    clear(t, &what);
}

void kc_conformance_shared_field_stays_until_both_drop_it(struct kc_conformance *t)
{
    struct kc_target what = thing("shared");
    clear(t, &what);
    json_decref(apply(t, "shared", "a", false, "'spec':{'count':1,'color':'red'}"));
    json_decref(apply(t, "shared", "b", false, "'spec':{'count':1}"));
    auto_json json_t *a2 = apply(t, "shared", "a", false, "'spec':{'color':'red'}");
    EXPECT_JSON(a2, "{'color':'red','count':1}", "spec");
    auto_json json_t *b2 = apply(t, "shared", "b", false, "");
    EXPECT_JSON(b2, "{'color':'red'}", "spec");
    clear(t, &what);
}

void kc_conformance_list_map_is_merged_by_its_key(struct kc_conformance *t)
{
    struct kc_target what = thing("parts");
    clear(t, &what);
    json_decref(apply(t, "parts", "a", false,
                      "'spec':{'parts':[{'id':'x','size':1},{'id':'y','size':2}]}"));
    auto_json json_t *b1 = apply(t, "parts", "b", false, "'spec':{'parts':[{'id':'z','size':3}]}");
    EXPECT_JSON(b1, "[{'id':'x','size':1},{'id':'y','size':2},{'id':'z','size':3}]", "spec",
                "parts");
    auto_json json_t *a2 = apply(t, "parts", "a", false, "'spec':{'parts':[{'id':'y'}]}");
    EXPECT_JSON(a2, "[{'id':'y'},{'id':'z','size':3}]", "spec", "parts");
    clear(t, &what);
}

void kc_conformance_status_is_applied_on_its_own(struct kc_conformance *t)
{
    struct kc_target what = thing("state");
    struct kc_target status = what;
    status.subresource = "status";
    json_decref(make_thing(t, "state", "{'count':1}"));
    auto_free char *text =
        applied_text("state", "'spec':{'count':9},'status':{'phase':'p','note':'n'}");
    auto_json json_t *body = parse(text);
    struct kc_write w = {.body = body, .how = KC_APPLY, .manager = "agent"};
    auto_json json_t *first = did(t, kc_patch, &status, &w);
    EXPECT_JSON(first, "{'count':1}", "spec");
    EXPECT_JSON(first, "{'phase':'p','note':'n'}", "status");
    (void)json_object_del(json_object_get(body, "status"), "note");
    auto_json json_t *second = did(t, kc_patch, &status, &w);
    EXPECT_JSON(second, "{'phase':'p'}", "status");
    clear(t, &what);
}

/* Of a Node alone: kubernetes pkg/registry/core/node/strategy.go, nodeStatusStrategy, resets the
 * spec and nothing else; the kubelet sets labels and annotations this way. */
void kc_conformance_status_of_a_node_is_applied_with_its_labels(struct kc_conformance *t)
{
    struct kc_target what = {.res = &nodes, .name = "kc-node"};
    struct kc_target status = what;
    status.subresource = "status";
    json_decref(
        make(t, &what,
             "{'apiVersion':'v1','kind':'Node','metadata':{'name':'kc-node','labels':{"
             "'foreign':'1'}},'status':{'capacity':{'cpu':'1'},'allocatable':{'cpu':'1'}}}"));
    auto_json json_t *body =
        parse("{'apiVersion':'v1','kind':'Node','metadata':{'name':'kc-node','labels':{'ours':'1'}"
              "},'spec':{'unschedulable':true},'status':{'capacity':{'a.b/c':'7'},'allocatable':{"
              "'a.b/c':'7'}}}");
    struct kc_write w = {.body = body, .how = KC_APPLY, .manager = "a"};
    auto_json json_t *first = did(t, kc_patch, &status, &w);
    EXPECT_JSON(first, "{'foreign':'1','ours':'1'}", "metadata", "labels");
    EXPECT_JSON(first, "{'a.b/c':'7','cpu':'1'}", "status", "capacity");
    cr_expect_null(JX_AT(first, "spec", "unschedulable"));
    auto_json json_t *empty =
        parse("{'apiVersion':'v1','kind':'Node','metadata':{'name':'kc-node','labels':{}},"
              "'status':{'capacity':{},'allocatable':{}}}");
    struct kc_write gone = {.body = empty, .how = KC_APPLY, .manager = "a"};
    auto_json json_t *second = did(t, kc_patch, &status, &gone);
    EXPECT_JSON(second, "{'foreign':'1'}", "metadata", "labels");
    EXPECT_JSON(second, "{'cpu':'1'}", "status", "capacity");
    clear(t, &what);
}

void kc_conformance_empty_map_can_be_filled_and_emptied(struct kc_conformance *t)
{
    static const char *const sizes[] = {"{}", "{'a.b/c':'7'}", "{}", "{'a.b/d':'1'}"};
    struct kc_target what = {.res = &nodes, .name = "kc-empty"};
    struct kc_target status = what;
    status.subresource = "status";
    json_decref(make(t, &what, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'kc-empty'}}"));
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        auto_free char *text = xasprintf("{'apiVersion':'v1','kind':'Node','metadata':{'name':"
                                         "'kc-empty'},'status':{'capacity':%s}}",
                                         sizes[i]);
        auto_json json_t *body = parse(text);
        struct kc_write w = {.body = body, .how = KC_APPLY, .manager = "a"};
        auto_json json_t *now = did(t, kc_patch, &status, &w);
        auto_json json_t *expected = parse(sizes[i]);
        const json_t *capacity = JX_AT(now, "status", "capacity");
        cr_expect(capacity ? json_equal(capacity, expected) : !json_object_size(expected), "%s",
                  sizes[i]);
    }
    clear(t, &what);
}

void kc_conformance_apply_with_another_uid_is_refused(struct kc_conformance *t)
{
    struct kc_target what = thing("apply-uid");
    json_decref(make_thing(t, "apply-uid", "{'count':1}"));
    auto_json json_t *body = parse("{'apiVersion':'" API "','kind':'Thing','metadata':{"
                                   "'name':'apply-uid','uid':'another'},'spec':{'color':'x'}}");
    struct kc_write w = {.body = body, .how = KC_APPLY, .manager = "a"};
    refused(t, kc_patch, &what, &w, ERR_INVALID);
    clear(t, &what);
    refused(t, kc_patch, &what, &w, ERR_CONFLICT);
}

/* ---- removal ---- */

void kc_conformance_removal_with_wrong_preconditions_conflicts(struct kc_conformance *t)
{
    auto_err struct err e = {0};
    struct kc_target what = thing("removed");
    auto_json json_t *obj = make_thing(t, "removed", "{}");
    cr_expect_eq(kc_remove(t->kc, t->s, &what, "another", &e), -ERR_CONFLICT);
    struct kc_remove_opts stale = {.if_resource_version = "1"};
    cr_expect_eq(kc_remove_with(t->kc, t->s, &what, &stale, &e), -ERR_CONFLICT);
    cr_expect_eq(kc_remove(t->kc, t->s, &what, JX_STR_AT(obj, "metadata", "uid"), &e), 0);
    cr_expect_eq(kc_get(t->kc, t->s, &what, NULL, &e), -ERR_NOT_FOUND);
}

void kc_conformance_finalizer_holds_an_object(struct kc_conformance *t)
{
    auto_err struct err e = {0};
    struct kc_target what = thing("held");
    auto_json json_t *made = make_thing(t, "held", "{}");
    json_decref(patch(t, &what, KC_MERGE, "{'metadata':{'finalizers':['cleave.dev/test']}}"));
    cr_assert_eq(kc_remove(t->kc, t->s, &what, JX_STR_AT(made, "metadata", "uid"), &e), 0);
    auto_json json_t *going = get(t, &what);
    cr_expect_not_null(JX_STR_AT(going, "metadata", "deletionTimestamp"));
    cr_expect_eq(generation_of(going), 2);
    auto_json json_t *more = parse("{'metadata':{'finalizers':['cleave.dev/test','a.b/c']}}");
    refused(t, kc_patch, &what, &(struct kc_write){.body = more, .how = KC_MERGE}, ERR_INVALID);
    cr_assert_eq(kc_remove(t->kc, t->s, &what, NULL, &e), 0);
    auto_json json_t *same = get(t, &what);
    cr_expect_str_eq(version_of(same), version_of(going));
    json_decref(patch(t, &what, KC_MERGE, "{'metadata':{'finalizers':null}}"));
    cr_expect_eq(kc_get(t->kc, t->s, &what, NULL, &e), -ERR_NOT_FOUND);
}

/* ---- lists ---- */

static int add_name(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    sb_addf(arg, "%s ", JX_STR_AT(obj, "metadata", "name"));
    return 0;
}

static void expect_names(struct kc_conformance *t, const struct kc_list_opts *o, const char *names)
{
    auto_err struct err e = {0};
    auto_sb struct sb got = SB_INIT(4096);
    auto_free char *version = NULL;
    struct kc_target what = thing(NULL);
    cr_assert_eq(kc_list_each(t->kc, t->s, &what, o, add_name, &got, &version, &e), 0, "%s", e.msg);
    cr_expect_str_eq(sb_str(&got), names);
    cr_expect_str_not_empty(version);
}

static void make_labelled(struct kc_conformance *t, const char *name, const char *labels)
{
    struct kc_target what = thing(name);
    auto_free char *body = xasprintf("{'apiVersion':'" API "','kind':'Thing','metadata':{'name':"
                                     "'%s','labels':%s}}",
                                     name, labels);
    json_decref(make(t, &what, body));
}

void kc_conformance_labels_and_names_select(struct kc_conformance *t)
{
    static const char *const names[] = {"sel-1", "sel-2", "sel-3"};
    make_labelled(t, "sel-1", "{'sel':'x','pool':'a'}");
    make_labelled(t, "sel-2", "{'sel':'x','pool':'b'}");
    make_labelled(t, "sel-3", "{'sel':'x'}");
    static const struct {
        const char *labels, *fields, *names;
    } rows[] = {
        {"sel=x", NULL, "sel-1 sel-2 sel-3 "},
        {"sel==x,pool=a", NULL, "sel-1 "},
        {"sel=x,pool!=a", NULL, "sel-2 sel-3 "},
        {"sel=x,pool", NULL, "sel-1 sel-2 "},
        {"sel=x,!pool", NULL, "sel-3 "},
        {"sel=x,pool in (a, b)", NULL, "sel-1 sel-2 "},
        {"sel=x,pool notin (a)", NULL, "sel-2 sel-3 "},
        {"sel=none", NULL, ""},
        {"sel=x", "metadata.name=sel-2", "sel-2 "},
        {"sel=x", "metadata.name!=sel-2", "sel-1 sel-3 "},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        expect_names(t, &(struct kc_list_opts){.labels = rows[i].labels, .fields = rows[i].fields},
                     rows[i].names);
    auto_err struct err e = {0};
    struct kc_target any = thing(NULL);
    auto_json json_t *list = NULL;
    struct kc_list_opts bad = {.fields = "spec.color=red"};
    cr_expect_eq(kc_list(t->kc, t->s, &any, &bad, &list, &e), -ERR_INVALID);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct kc_target what = thing(names[i]);
        clear(t, &what);
    }
}

void kc_conformance_pages_add_up_to_the_list(struct kc_conformance *t)
{
    static const char *const names[] = {"page-1", "page-2", "page-3", "page-4", "page-5"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        make_labelled(t, names[i], "{'set':'pages'}");
    for (int size = 0; size <= 6; size++)
        expect_names(t, &(struct kc_list_opts){.labels = "set=pages", .page_size = size},
                     "page-1 page-2 page-3 page-4 page-5 ");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct kc_target what = thing(names[i]);
        clear(t, &what);
    }
}

enum { LONG_NAMES = 200, LONG_BYTES = 2 << 10, LONG_LISTS = 40 };

/* Looks at it for about as long as a planner does. */
static int read_slowly(void *arg, const json_t *obj, struct err *e)
{
    unsigned *n = arg;
    (void)e;
    for (int i = 0; i < 20; i++)
        free(json_dumps(obj, 0));
    *n += 1;
    return 0;
}

/* Pages of many lengths, among them those of which libcurl keeps the end in its buffers when it has read a hundred
 * times: whoever waits for more then waits in vain (kubeclient/transport.c). */
void kc_conformance_long_answers_end_however_slowly_they_are_read(struct kc_conformance *t)
{
    auto_err struct err e = {0};
    auto_free char *text = xmalloc(LONG_BYTES + 1);
    const struct kc_target all = thing(NULL);
    unsigned seen = 0;
    memset(text, 'x', LONG_BYTES);
    for (int i = 0; i < LONG_NAMES; i++) {
        auto_free char *name = xasprintf("long-%d", i);
        auto_free char *body =
            xasprintf("{'apiVersion':'" API "','kind':'Thing','metadata':{'name':'%s','labels':"
                      "{'set':'long'},'annotations':{'text':'%s'}}}",
                      name, text);
        const struct kc_target what = thing(name);
        json_decref(make(t, &what, body));
    }
    for (int i = 0; i < LONG_LISTS; i++) {
        auto_scope struct scope *s = scope_new(t->s, 20000);
        const struct kc_list_opts o = {.labels = "set=long", .page_size = LONG_NAMES - i};
        cr_assert_eq(kc_list_each(t->kc, s, &all, &o, read_slowly, &seen, NULL, &e), 0, "%s",
                     e.msg);
    }
    cr_expect_eq(seen, LONG_NAMES * LONG_LISTS);
    for (int i = 0; i < LONG_NAMES; i++) {
        auto_free char *name = xasprintf("long-%d", i);
        const struct kc_target what = thing(name);
        clear(t, &what);
    }
}

void kc_conformance_version_of_the_future_is_too_large(struct kc_conformance *t)
{
    auto_err struct err e = {0};
    auto_json json_t *list = NULL;
    struct kc_target any = thing(NULL);
    struct kc_list_opts o = {.resource_version = "999999999", .version_match = "NotOlderThan"};
    cr_expect_eq(kc_list(t->kc, t->s, &any, &o, &list, &e), -ERR_TIMEOUT);
    cr_expect(kc_err_is_version_too_large(&e), "%s", e.msg);
}

/* ---- watches ---- */

/* What a watch saw; it ends itself after `wanted` events. */
struct seen {
    struct sb text;
    int count, wanted;
};

static int note(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    static const char *const names[] = {"+", "~", "-", "!"};
    struct seen *seen = arg;
    const char *name = JX_STR_AT(obj, "metadata", "name");
    const char *ends = JX_STR_AT(obj, "metadata", "annotations", "k8s.io/initial-events-end");
    cr_expect_str_not_empty(version_of(obj));
    if (change == KC_BOOKMARK && !ends)
        return 0; /* comes when it likes */
    sb_addf(&seen->text, "%s%s ", names[change], ends ? "end" : name);
    return ++seen->count == seen->wanted ? err_set(e, ERR_TERMINAL, "enough") : 0;
}

static void expect_watch(struct kc_conformance *t, const struct kc_watch_opts *o, int wanted,
                         const char *text)
{
    auto_err struct err e = {0};
    struct seen seen = {.text = SB_INIT(4096), .wanted = wanted};
    struct kc_target any = thing(NULL);
    int rc = kc_watch(t->kc, t->s, &any, o, note, &seen, &e);
    cr_assert_eq(rc, -ERR_TERMINAL, "%d %s, seen: %s", rc, e.msg, sb_str(&seen.text));
    cr_expect_str_eq(sb_str(&seen.text), text);
    sb_done(&seen.text);
}

void kc_conformance_watch_tells_changes_after_a_version(struct kc_conformance *t)
{
    struct kc_target what = thing("watched");
    auto_json json_t *made = make_thing(t, "watched", "{'count':1}");
    json_decref(patch(t, &what, KC_MERGE, "{'spec':{'count':2}}"));
    clear(t, &what);
    struct kc_watch_opts o = {.resource_version = version_of(made),
                              .fields = "metadata.name=watched"};
    expect_watch(t, &o, 2, "~watched -watched ");
}

void kc_conformance_watch_sees_objects_enter_and_leave_its_selector(struct kc_conformance *t)
{
    struct kc_target what = thing("moving");
    auto_json json_t *made = make_thing(t, "moving", "{'count':1}");
    json_decref(patch(t, &what, KC_MERGE, "{'metadata':{'labels':{'moving':'in'}}}"));
    json_decref(patch(t, &what, KC_MERGE, "{'spec':{'count':2}}"));
    json_decref(patch(t, &what, KC_MERGE, "{'metadata':{'labels':{'moving':'out'}}}"));
    json_decref(patch(t, &what, KC_MERGE, "{'spec':{'count':3}}"));
    json_decref(patch(t, &what, KC_MERGE, "{'metadata':{'labels':{'moving':'in'}}}"));
    struct kc_watch_opts o = {.resource_version = version_of(made), .labels = "moving=in"};
    expect_watch(t, &o, 4, "+moving ~moving -moving +moving ");
    clear(t, &what);
}

void kc_conformance_watch_list_ends_the_initial_state_with_a_bookmark(struct kc_conformance *t)
{
    struct kc_target what = thing("initial-2");
    make_labelled(t, "initial-1", "{'set':'initial'}");
    make_labelled(t, "initial-2", "{'set':'initial'}");
    struct kc_watch_opts o = {.labels = "set=initial", .send_initial_events = true};
    expect_watch(t, &o, 3, "+initial-1 +initial-2 !end ");
    clear(t, &what);
    what.name = "initial-1";
    clear(t, &what);
}

void kc_conformance_watch_ends_cleanly_at_its_timeout(struct kc_conformance *t)
{
    auto_err struct err e = {0};
    struct kc_target any = thing(NULL);
    struct seen seen = {.text = SB_INIT(4096)};
    auto_json json_t *list = NULL;
    cr_assert_eq(kc_list(t->kc, t->s, &any, NULL, &list, &e), 0, "%s", e.msg);
    struct kc_watch_opts o = {.timeout_s = 1,
                              .fields = "metadata.name=nobody",
                              .resource_version = version_of(list)};
    cr_expect_eq(kc_watch(t->kc, t->s, &any, &o, note, &seen, &e), 0, "%s", e.msg);
    cr_expect_str_eq(sb_str(&seen.text), "");
    sb_done(&seen.text);
}

/* ---- pods and leases ---- */

void kc_conformance_eviction_wants_the_right_uid(struct kc_conformance *t)
{
    auto_err struct err e = {0};
    struct kc_target what = {.res = &pods, .ns = "default", .name = "kc-evicted"};
    auto_json json_t *obj =
        make(t, &what,
             "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'kc-evicted'},'spec':{"
             "'containers':[{'name':'c','image':'none'}]}}");
    cr_expect_eq(kc_evict(t->kc, t->s, &what, "another", &e), -ERR_CONFLICT, "%s", e.msg);
    cr_expect_eq(kc_evict(t->kc, t->s, &what, JX_STR_AT(obj, "metadata", "uid"), &e), 0, "%s",
                 e.msg);
    cr_expect_eq(kc_get(t->kc, t->s, &what, NULL, &e), -ERR_NOT_FOUND);
    cr_expect_eq(kc_evict(t->kc, t->s, &what, NULL, &e), -ERR_NOT_FOUND);
}

void kc_conformance_binding_assigns_a_pod_once_and_brings_annotations(struct kc_conformance *t)
{
    auto_err struct err e = {0};
    struct kc_target what = {.res = &pods, .ns = "default", .name = "kc-bound"};
    struct kc_target binding = {.res = &pods,
                                .ns = "default",
                                .name = "kc-bound",
                                .subresource = "binding"};
    auto_json json_t *obj = make(
        t, &what,
        "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'kc-bound','annotations':{'a':'1'}},'spec':{"
        "'containers':[{'name':'c','image':'none'}]}}");
    auto_json json_t *body = json_pack("{s:s,s:s,s:{s:s,s:s,s:{s:s}},s:{s:s,s:s}}", "apiVersion",
                                       "v1", "kind", "Binding", "metadata", "name", "kc-bound",
                                       "uid", "00000000-0000-0000-0000-000000000000", "annotations",
                                       "b", "2", "target", "kind", "Node", "name", "kc-node");
    const struct kc_write w = {.body = body};
    cr_expect_eq(kc_create(t->kc, t->s, &binding, &w, NULL, &e), -ERR_CONFLICT, "%s", e.msg);
    (void)json_object_set_new(json_object_get(body, "metadata"), "uid",
                              json_string(JX_STR_AT(obj, "metadata", "uid")));
    cr_expect_eq(kc_create(t->kc, t->s, &binding, &w, NULL, &e), 0, "%s", e.msg);
    cr_expect_eq(kc_create(t->kc, t->s, &binding, &w, NULL, &e), -ERR_CONFLICT, "%s", e.msg);
    auto_json json_t *bound = NULL;
    cr_assert_eq(kc_get(t->kc, t->s, &what, &bound, &e), 0, "%s", e.msg);
    cr_expect_str_eq(JX_STR_AT(bound, "spec", "nodeName"), "kc-node");
    cr_expect_str_eq(JX_STR_AT(bound, "metadata", "annotations", "a"), "1");
    cr_expect_str_eq(JX_STR_AT(bound, "metadata", "annotations", "b"), "2");
    const struct kc_remove_opts now = {.has_grace = true};
    cr_expect_eq(kc_remove_with(t->kc, t->s, &what, &now, &e), 0, "%s", e.msg);
    cr_expect_eq(kc_create(t->kc, t->s, &binding, &w, NULL, &e), -ERR_NOT_FOUND, "%s", e.msg);
}

void kc_conformance_lease_is_created_and_renewed_by_version(struct kc_conformance *t)
{
    struct kc_target what = {.res = &leases, .ns = "default", .name = "kc-lease"};
    auto_json json_t *obj =
        make(t, &what,
             "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease','metadata':{'name':'kc-lease'},"
             "'spec':{'holderIdentity':'a','leaseDurationSeconds':15}}");
    auto_json json_t *renewed = json_deep_copy(obj);
    (void)json_object_set_new(json_object_get(renewed, "spec"), "holderIdentity", json_string("b"));
    auto_json json_t *second = did(t, kc_update, &what, &(struct kc_write){.body = renewed});
    cr_expect_str_neq(version_of(second), version_of(obj));
    refused(t, kc_update, &what, &(struct kc_write){.body = obj}, ERR_CONFLICT);
    clear(t, &what);
}
