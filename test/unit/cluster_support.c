/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster_support.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/kinds.h"
#include "api/koordinator.h"
#include "mig_tables_support.h"
#include "partition/model.h"
#include "partition/resource_names.h"
#include "partition/share_numbers.h"
#include "service/conditions.h"
#include "service/resources.h"

#define MODEL "NVIDIA H100 80GB HBM3"

/* Idle steps are short at first, for retries and for what waits for a cache, and long then. */
enum {
    SHORT_STEPS = 6,
    SHORT_MS = 30,
    IDLE_STEPS = 13,
    LONG_MS = 300,
    MAX_STEPS = 20000,
    TEXT_BYTES = 4096,
};

typedef int patch_fn(struct kc *c, struct scope *s, const struct kc_target *t,
                     const struct kc_write *w, json_t **ret_obj, struct err *e);

static const struct kc_resource events = {"events.k8s.io", "v1", "events", "Event", true};

static const struct kc_resource *const known[] = {&resource_devices,    &resource_gpuprofiles,
                                                  &resource_migconfigs, &resource_nodes,
                                                  &resource_pods,       &resource_crds};

/* Never reached: counts writes and spoils none. */
static const struct kc_fault_plan no_fault = {.fault = KC_FAULT_TIMEOUT_AFTER_COMMIT,
                                              .at = INT32_MAX};

static patch_fn *inner_patch;

static bool tests(const json_t *body, size_t at, const char *path)
{
    const json_t *op = json_array_get(body, at);
    const char *verb = JX_STR_AT(op, "op");
    const char *where = JX_STR_AT(op, "path");
    return verb && where && strcmp(verb, "test") == 0 && strcmp(where, path) == 0;
}

/* A write that arrives late, from a leader that is none any more, must find that the object has
 * changed: every patch names the very version that it was thought out for, or the very value that
 * it removes. */
static int patch_of_a_version(struct kc *c, struct scope *s, const struct kc_target *t,
                              const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    if (w->how == KC_JSON_PATCH) {
        const char *removed = JX_STR_AT(json_array_get(w->body, 2), "path");
        cr_assert_eq(json_array_size(w->body), 3);
        cr_assert(tests(w->body, 0, "/metadata/uid"), "%s without a uid", t->res->kind);
        cr_assert(removed && tests(w->body, 1, removed), "%s without a value", t->res->kind);
        return inner_patch(c, s, t, w, ret_obj, e);
    }
    cr_assert(JX_STR_AT(w->body, "metadata", "uid"), "%s without a uid", t->res->kind);
    cr_assert(JX_STR_AT(w->body, "metadata", "resourceVersion"), "%s without a version",
              t->res->kind);
    return inner_patch(c, s, t, w, ret_obj, e);
}

static struct kc *counted_and_judged(struct kc *api, const struct kc_fault_plan *plan)
{
    static struct kc_ops ops;
    struct kc *c = kc_fault_new(api, plan ? plan : &no_fault);
    ops = *c->ops;
    inner_patch = ops.patch;
    ops.patch = patch_of_a_version;
    c->ops = &ops;
    return c;
}

/* Another for each process: two that name their Events alike lose some. */
static uint64_t process_seed(const struct cluster *c)
{
    return (uint64_t)clock_mono_ms(c->clk);
}

static void start_reconcilers(struct cluster *c, const struct kc_fault_plan *plan)
{
    struct kc *read = c->reader ? c->reader : c->api;
    /* What is read may lack a uid or a version: then so does what is written. */
    c->own =
        c->reader ? kc_fault_new(read, plan ? plan : &no_fault) : counted_and_judged(read, plan);
    c->recorder = recorder_new(c->api, &(struct recorder_opts){.controller = "test/controller",
                                                               .instance = "test",
                                                               .clk = c->clk,
                                                               .seed = process_seed(c)});
    c->reconcilers =
        reconcilers_new(&(struct reconcilers_opts){.reader = read,
                                                   .writer = c->own,
                                                   .clk = c->clk,
                                                   .recorder = c->recorder,
                                                   .koordinator = !c->without_koordinator,
                                                   .hami = !c->without_hami,
                                                   .gpushare = c->with_gpushare,
                                                   .workers = 1,
                                                   .many_nodes = c->many_nodes});
}

static void stop_reconcilers(struct cluster *c)
{
    c->reconcilers = reconcilers_free(c->reconcilers);
    c->recorder = recorder_free(c->recorder);
    c->own = kc_free(c->own);
}

void cluster_start(struct cluster *c, const struct kc_fault_plan *plan)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, -1);
    *c = (struct cluster){.clk = clock_fake_new(INT64_C(1800000000000)),
                          .scope = scope_new(NULL, -1)};
    c->api = kc_fake_new(c->clk);
    kc_fake_watch_drains(c->api, true);
    c->mortal = plan && plan->fault >= KC_FAULT_CRASH_BEFORE;
    start_reconcilers(c, plan);
}

void cluster_stop(struct cluster *c)
{
    stop_reconcilers(c);
    (void)kc_free(c->api);
    (void)scope_free(c->scope);
    (void)clock_free(c->clk);
}

void cluster_restart(struct cluster *c)
{
    stop_reconcilers(c);
    start_reconcilers(c, /* plan= */ NULL);
}

void cluster_settle(struct cluster *c)
{
    int idle = 0;
    int steps = 0;
    for (; idle < IDLE_STEPS && steps < MAX_STEPS; steps++) {
        idle = reconcilers_step(c->reconcilers, c->scope) ? 0 : idle + 1;
        recorder_step(c->recorder, c->scope, /* ret_wait_ms= */ NULL);
        clock_fake_advance(c->clk, idle < SHORT_STEPS ? SHORT_MS : LONG_MS);
        if (c->mortal && !c->died && kc_fault_fired(c->own)) {
            c->died = true;
            cluster_restart(c);
        }
    }
    cr_assert_lt(steps, MAX_STEPS, "the controller never came to rest");
}

int cluster_writes(struct cluster *c)
{
    return kc_fault_calls(c->own);
}

/* --- Objects --- */

static const struct kc_resource *resource_of(const char *kind)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(known[i]->kind, kind) == 0)
            return known[i];
    cr_assert_fail("no resource for kind %s", kind);
    abort();
}

static struct kc_target target_of(const struct kc_resource *res, const char *name)
{
    return (struct kc_target){.res = res, .ns = res->namespaced ? "default" : NULL, .name = name};
}

static void apply_one(struct cluster *c, const json_t *obj)
{
    auto_err struct err e = {0};
    const struct kc_resource *res = resource_of(JX_STR_AT(obj, "kind"));
    const struct kc_target t = target_of(res, JX_STR_AT(obj, "metadata", "name"));
    const struct kc_write w = {.body = obj, .how = KC_APPLY, .manager = "kubectl", .force = true};
    int rc = kc_patch(c->api, c->scope, &t, &w, /* ret_obj= */ NULL, &e);
    cr_assert_eq(rc, 0, "%s", err_msg(&e));
}

void cluster_apply(struct cluster *c, const char *yaml)
{
    auto_err struct err e = {0};
    auto_json json_t *docs = NULL;
    cr_assert_eq(yaml_load_all(yaml, strlen(yaml), &docs, &e), 0, "%s", err_msg(&e));
    for (size_t i = 0; i < json_array_size(docs); i++)
        apply_one(c, json_array_get(docs, i));
}

void cluster_remove(struct cluster *c, const struct kc_resource *res, const char *name)
{
    const struct kc_target t = target_of(res, name);
    cr_assert_eq(kc_remove(c->api, c->scope, &t, /* if_uid= */ NULL, /* e= */ NULL), 0);
}

json_t *cluster_get(struct cluster *c, const struct kc_resource *res, const char *name)
{
    json_t *obj = NULL;
    const struct kc_target t = target_of(res, name);
    cr_assert_eq(kc_get(c->api, c->scope, &t, &obj, /* e= */ NULL), 0, "no %s %s", res->kind, name);
    return obj;
}

static void patch_as(struct cluster *c, const char *manager, const struct kc_resource *res,
                     const char *name, const char *subresource, const json_t *body)
{
    auto_err struct err e = {0};
    struct kc_target t = target_of(res, name);
    t.subresource = subresource;
    const struct kc_write w = {.body = body, .how = KC_MERGE, .manager = manager};
    cr_assert_eq(kc_patch(c->api, c->scope, &t, &w, /* ret_obj= */ NULL, &e), 0, "%s", err_msg(&e));
}

static void patch(struct cluster *c, const struct kc_resource *res, const char *name,
                  const char *subresource, const json_t *body)
{
    patch_as(c, "test", res, name, subresource, body);
}

void cluster_patch(struct cluster *c, const struct kc_resource *res, const char *name,
                   const char *subresource, const char *merge_patch)
{
    auto_json json_t *body = NULL;
    cr_assert_eq(yaml_load(merge_patch, strlen(merge_patch), &body, /* e= */ NULL), 0);
    patch(c, res, name, subresource, body);
}

void cluster_install_koordinator(struct cluster *c)
{
    cluster_apply(c, "apiVersion: apiextensions.k8s.io/v1\n"
                     "kind: CustomResourceDefinition\n"
                     "metadata: {name: devices.scheduling.koordinator.sh}\n"
                     "spec: {group: scheduling.koordinator.sh}\n");
    cluster_patch(c, &resource_crds, KOORDINATOR_CRD, "status",
                  "{status: {conditions: [{type: Established, status: 'True'}]}}");
}

void cluster_label_as(struct cluster *c, const char *manager, const char *node, const char *key,
                      const char *value)
{
    auto_json json_t *body = json_pack("{s:{s:{s:o}}}", "metadata", "labels", key,
                                       value ? json_string(value) : json_null());
    patch_as(c, manager, &resource_nodes, node, /* subresource= */ NULL, body);
}

void cluster_label(struct cluster *c, const char *node, const char *key, const char *value)
{
    cluster_label_as(c, "test", node, key, value);
}

char *cluster_label_of(struct cluster *c, const char *node, const char *key)
{
    auto_json json_t *obj = cluster_get(c, &resource_nodes, node);
    const char *value = JX_STR_AT(obj, "metadata", "labels", key);
    return xstrdup(value ? value : "");
}

/* --- Agents --- */

static void add_label(struct device_status *st, const char *key, char *value_take)
{
    struct jx_pair *p = XPUSH(st->labels, st->n_labels);
    p->key = xstrdup(key);
    p->str = value_take;
}

static void first_report(const char *node, size_t n_cards, struct device_status *st)
{
    model_from_table(MODEL, mig_model("H100-80"), XPUSH(st->models, st->n_models));
    for (size_t i = 0; i < n_cards; i++) {
        struct device_card *card = XPUSH(st->devices, st->n_devices);
        *card = (struct device_card){
            .uuid = xasprintf("GPU-%s-%zu", node, i),
            .index = (int64_t)i,
            .vendor = xstrdup("nvidia"),
            .model = xstrdup(MODEL),
            .pci_bus_id = xasprintf("0000:%02zx:00.0", i + 16),
            .pci_device_id = xstrdup("0x233010DE"),
            .memory_mib = 81559,
            .healthy = true,
            .mig_capable = true,
        };
    }
    struct device_driver *d = XPUSH(st->drivers, st->n_drivers);
    d->vendor = xstrdup("nvidia");
    d->version = xstrdup("570.86.15");
    add_label(st, "nvidia.com/gpu.count", xasprintf("%zu", n_cards));
    add_label(st, "nvidia.com/gpu.memory", xstrdup("81559"));
    add_label(st, "nvidia.com/gpu.product", xstrdup("NVIDIA-H100-80GB-HBM3"));
    add_label(st, "nvidia.com/mig.capable", xstrdup("true"));
    add_label(st, "nvidia.com/mig.strategy", xstrdup("mixed"));
}

static void publish(struct cluster *c, const char *node, const struct device_status *st)
{
    auto_json json_t *body = json_object();
    (void)json_object_set_new(body, "status", device_status_encode(st));
    patch(c, &resource_devices, node, "status", body);
}

static void create(struct cluster *c, const struct kc_resource *res, json_t *body_take)
{
    auto_json json_t *body = body_take;
    const struct kc_target t = {.res = res, .ns = res->namespaced ? "default" : NULL};
    const struct kc_write w = {.body = body, .manager = "test"};
    auto_err struct err e = {0};
    cr_assert_eq(kc_create(c->api, c->scope, &t, &w, /* ret_obj= */ NULL, &e), 0, "%s",
                 err_msg(&e));
}

void cluster_add_node(struct cluster *c, const char *name, size_t n_cards)
{
    create(c, &resource_nodes,
           json_pack("{s:s, s:s, s:{s:s, s:{s:s}}}", "apiVersion", "v1", "kind", "Node", "metadata",
                     "name", name, "labels", "pool", "a"));
    create(c, &resource_devices,
           json_pack("{s:s, s:s, s:{s:s}, s:{}}", "apiVersion", API_GROUP_VERSION, "kind", "Device",
                     "metadata", "name", name, "spec"));
    auto_device_status struct device_status st = {.observed_generation = 1};
    first_report(name, n_cards, &st);
    publish(c, name, &st);
}

static void cut(struct device_card *card, const struct device_want *want)
{
    struct device_status scrap = {.devices = xcalloc(1, sizeof(struct device_card)),
                                  .n_devices = 1};
    scrap.devices[0].partitions = card->partitions;
    scrap.devices[0].n_partitions = card->n_partitions;
    card->partitions = NULL;
    card->n_partitions = 0;
    device_status_done(&scrap);
    card->mode = want->mode;
    for (size_t i = 0; i < want->mig.n_profiles; i++)
        for (int64_t k = 0; k < want->mig.profiles[i].count; k++) {
            struct device_partition *p = XPUSH(card->partitions, card->n_partitions);
            p->uuid = xasprintf("MIG-%s-%zu", card->uuid, card->n_partitions);
            p->profile = xstrdup(want->mig.profiles[i].profile);
        }
}

static void view_of(const struct device_card *card, struct resolve_card *ret,
                    struct profile_count **ret_counts)
{
    size_t n = 0;
    struct profile_count *counts = xcalloc(card->n_partitions, sizeof(*counts));
    for (size_t i = 0; i < card->n_partitions; i++)
        counts[n++] = (struct profile_count){card->partitions[i].profile, 1};
    *ret_counts = counts;
    *ret = (struct resolve_card){.uuid = card->uuid,
                                 .vendor = card->vendor,
                                 .mode = card->mode,
                                 .healthy = true,
                                 .partitions = counts,
                                 .n_partitions = n};
}

/* A card that shows what is wanted is applied, whatever else fails. */
static void work(struct cluster *c, struct device_card *card, const struct device_want *want,
                 const char *failure, int64_t generation)
{
    if (!want) {
        (void)condition_remove(&card->conditions, "Applied");
        return;
    }
    if (!failure)
        cut(card, want);
    struct resolve_card view;
    struct profile_count *counts;
    view_of(card, &view, &counts);
    bool good = resolve_card_matches(&view, want);
    free(counts);
    (void)condition_set(&card->conditions, "Applied", good ? CONDITION_TRUE : CONDITION_FALSE,
                        good ? "Applied" : failure, good ? "as wanted" : "it did not work",
                        generation, clock_wall_ms(c->clk));
}

static void add_shares(struct device_status *st, const struct device_spec *spec)
{
    struct share_sums sums = {0};
    for (size_t i = 0; i < st->n_devices; i++) {
        const struct device_want *want = device_spec_want(spec, st->devices[i].uuid);
        if (want && want->has_sharing && want->sharing.has_fractional)
            share_sums_add(&sums, st->devices[i].memory_mib, &want->sharing.fractional);
    }
    share_sums_offer(&sums, &st->resources, &st->n_resources);
}

static void offer(struct device_status *st, const struct device_spec *spec)
{
    auto_free struct resolve_card *views = xcalloc(st->n_devices, sizeof(*views));
    auto_free struct profile_count **counts =
        xcalloc(st->n_devices, sizeof(struct profile_count *));
    for (size_t i = 0; i < st->n_devices; i++)
        view_of(&st->devices[i], &views[i], &counts[i]);
    for (size_t i = 0; i < st->n_resources; i++)
        free(st->resources[i].name);
    free(st->resources);
    resolve_resources(views, st->n_devices, spec, API_PUBLISHER_CONTROLLER, &st->resources,
                      &st->n_resources);
    add_shares(st, spec);
    for (size_t i = 0; i < st->n_devices; i++)
        free(counts[i]);
}

static void agent(struct cluster *c, const char *node, const char *failure)
{
    auto_json json_t *device = cluster_get(c, &resource_devices, node);
    auto_device_spec struct device_spec spec = {0};
    auto_device_status struct device_status st = {0};
    cr_assert_eq(device_spec_decode(device, &spec, NULL), 0);
    cr_assert_eq(device_status_decode(device, &st, NULL), 0);
    st.observed_generation = json_integer_value(JX_AT(device, "metadata", "generation"));
    for (size_t i = 0; i < st.n_devices; i++)
        work(c, &st.devices[i], device_spec_want(&spec, st.devices[i].uuid), failure,
             st.observed_generation);
    offer(&st, &spec);
    publish(c, node, &st);
}

void cluster_agent(struct cluster *c, const char *node)
{
    agent(c, node, /* failure= */ NULL);
}

void cluster_agent_fails(struct cluster *c, const char *node, const char *reason)
{
    agent(c, node, reason);
}

/* --- What is seen --- */

char *cluster_mirror(struct cluster *c, const char *node)
{
    auto_json json_t *obj = NULL;
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    const struct kc_target t = target_of(&resource_koordinator_devices, node);
    if (kc_get(c->api, c->scope, &t, &obj, /* e= */ NULL) < 0)
        return xstrdup("");
    size_t i;
    const json_t *d;
    json_array_foreach(JX_AT(obj, "spec", "devices"), i, d) {
        const char *id = JX_STR_AT(d, "id");
        sb_addf(&text, "%s%s:%s", i ? " " : "", id && strrchr(id, '-') ? strrchr(id, '-') + 1 : "?",
                json_is_true(JX_AT(d, "health")) ? "well" : "ill");
    }
    return xstrdup(sb_str(&text));
}

static void describe(const struct device_want *w, struct sb *out)
{
    const char *index = strrchr(w->uuid, '-');
    sb_addf(out, "%s%s:%s", out->len ? " " : "", index ? index + 1 : w->uuid,
            api_mode_names[w->mode]);
    if (w->mode != API_MODE_MIG)
        return;
    sb_add(out, "[");
    for (size_t i = 0; i < w->mig.n_profiles; i++)
        sb_addf(out, "%s%s*%lld", i ? " " : "", w->mig.profiles[i].profile,
                (long long)w->mig.profiles[i].count);
    sb_add(out, "]");
}

char *cluster_spec(struct cluster *c, const char *node)
{
    auto_json json_t *device = cluster_get(c, &resource_devices, node);
    auto_device_spec struct device_spec spec = {0};
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    cr_assert_eq(device_spec_decode(device, &spec, NULL), 0);
    for (size_t i = 0; i < spec.n_devices; i++)
        describe(&spec.devices[i], &text);
    return sb_take(&text);
}

int cluster_nodes_in_change(struct cluster *c)
{
    auto_json json_t *list = NULL;
    const struct kc_target t = {.res = &resource_devices};
    int n = 0;
    cr_assert_eq(kc_list(c->api, c->scope, &t, /* o= */ NULL, &list, NULL), 0);
    const json_t *items = JX_AT(list, "items");
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *d = json_array_get(items, i);
        n += json_integer_value(JX_AT(d, "metadata", "generation")) !=
             json_integer_value(JX_AT(d, "status", "observedGeneration"));
    }
    return n;
}

char *cluster_condition(struct cluster *c, const struct kc_resource *res, const char *name,
                        const char *type)
{
    static const char *const words[] = {"False", "True", "Unknown"};
    auto_json json_t *obj = cluster_get(c, res, name);
    auto_conditions struct conditions list = {0};
    conditions_from_json(JX_AT(obj, "status", "conditions"), &list);
    const struct condition *found = condition_get(&list, type);
    return found ? xasprintf("%s %s", words[found->status], found->reason) : xstrdup("");
}

static long long count_at(const json_t *obj, const char *name)
{
    return (long long)json_integer_value(JX_AT(obj, "status", "nodes", name));
}

char *cluster_profile(struct cluster *c, const char *name)
{
    auto_json json_t *obj = cluster_get(c, &resource_gpuprofiles, name);
    auto_free char *ready = cluster_condition(c, &resource_gpuprofiles, name, "Ready");
    return xasprintf("%lld/%lld/%lld/%lld %s", count_at(obj, "matched"), count_at(obj, "upToDate"),
                     count_at(obj, "progressing"), count_at(obj, "failed"), ready);
}

int cluster_count_events(struct cluster *c, const char *about, const char *reason, const char *part)
{
    auto_json json_t *list = NULL;
    const struct kc_target t = {.res = &events};
    int n = 0;
    cr_assert_eq(kc_list(c->api, c->scope, &t, /* o= */ NULL, &list, NULL), 0);
    const json_t *items = JX_AT(list, "items");
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *event = json_array_get(items, i);
        n += strcmp(JX_STR_AT(event, "reason"), reason) == 0 &&
             strcmp(JX_STR_AT(event, "regarding", "name"), about) == 0 &&
             strstr(JX_STR_AT(event, "note"), part);
    }
    return n;
}

bool cluster_has_event(struct cluster *c, const char *about, const char *reason)
{
    return cluster_count_events(c, about, reason, "") > 0;
}
