/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl_support.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/clock.h"
#include "base/jx.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/kinds.h"
#include "folder_support.h"
#include "kubeclient/fake/fake.h"
#include "mig_tables_support.h"
#include "partition/model.h"
#include "service/conditions.h"
#include "service/resources.h"

#define MODEL "NVIDIA H100 80GB HBM3"
enum { MEMORY_MIB = 81559, MAX_PARTS = 1024 };

struct kc *desk_kc;
static struct scope *scope;
static size_t columns, rows;
static const char *forbidden, *forbidden_get, *lacking;
static unsigned n_watches;
static bool is_terminal;
static bool (*at_watch)(unsigned n);

static int refuse(void *arg, const struct kc_call *call, struct err *e)
{
    (void)arg;
    const char *plural = call->target->res->plural;
    if (call->verb == KC_WATCH && !call->after && !at_watch(++n_watches))
        scope_cancel(scope);
    if (call->verb == KC_GET && forbidden_get && strcmp(forbidden_get, plural) == 0)
        return err_set(e, ERR_FORBIDDEN, "%s is forbidden: User \"eve\" cannot get", plural);
    if (call->verb != KC_LIST || call->after)
        return 0;
    if (forbidden && (strcmp(forbidden, "*") == 0 || strcmp(forbidden, plural) == 0))
        return err_set(e, ERR_FORBIDDEN, "%s is forbidden: User \"eve\" cannot list", plural);
    if (lacking && strcmp(lacking, plural) == 0)
        return err_set(e, ERR_NOT_FOUND, "the server could not find the requested resource");
    return 0;
}

void desk_set_up(void)
{
    folder_enter();
    desk_kc = kc_fake_new(clock_real());
    scope = scope_new(NULL, -1);
    forbidden = forbidden_get = lacking = NULL;
    n_watches = 0;
    is_terminal = false;
    columns = rows = 0;
    kc_fake_hook(desk_kc, refuse, NULL);
}

void desk_tear_down(void)
{
    (void)scope_free(scope);
    (void)kc_free(desk_kc);
    folder_leave();
}

void desk_forbid_get(const char *plural)
{
    forbidden_get = plural;
}

void desk_forbid(const char *plural)
{
    forbidden = plural;
}

void desk_terminal(void)
{
    is_terminal = true;
}

void desk_columns(size_t n)
{
    columns = n;
}

void desk_rows(size_t n)
{
    rows = n;
}

void desk_lack(const char *plural)
{
    lacking = plural;
}

/* --- Objects --- */

static void create(const struct kc_resource *res, const json_t *obj)
{
    auto_err struct err e = {0};
    const struct kc_target t = {.res = res, .ns = JX_STR_AT(obj, "metadata", "namespace")};
    const struct kc_write w = {.body = obj};
    cr_assert_eq(kc_create(desk_kc, scope, &t, &w, NULL, &e), 0, "%s", err_msg(&e));
}

void desk_create(const struct kc_resource *res, const char *yaml)
{
    auto_err struct err e = {0};
    auto_json json_t *obj = NULL;
    cr_assert_eq(yaml_load(yaml, strlen(yaml), &obj, &e), 0, "%s", err_msg(&e));
    create(res, obj);
}

void desk_pod(const char *name, const char *node, const char *spec)
{
    auto_err struct err e = {0};
    auto_json json_t *pod = NULL;
    auto_free char *yaml =
        xasprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: ns}, spec: %s}",
                  name, spec);
    const struct kc_target t = {.res = &resource_pods, .ns = "ns"};
    cr_assert_eq(yaml_load(yaml, strlen(yaml), &pod, &e), 0, "%s", err_msg(&e));
    if (node)
        (void)json_object_set_new(json_object_get(pod, "spec"), "nodeName", json_string(node));
    cr_assert_eq(kc_create(desk_kc, scope, &t, &(struct kc_write){.body = pod}, NULL, &e), 0, "%s",
                 err_msg(&e));
}

static void patch(const struct kc_resource *res, const char *name, const char *subresource,
                  const json_t *body)
{
    auto_err struct err e = {0};
    const struct kc_target t = {.res = res, .name = name, .subresource = subresource};
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    cr_assert_eq(kc_patch(desk_kc, scope, &t, &w, NULL, &e), 0, "%s", err_msg(&e));
}

void desk_patch(const struct kc_resource *res, const char *name, const char *subresource,
                const char *yaml)
{
    auto_err struct err e = {0};
    auto_json json_t *body = NULL;
    cr_assert_eq(yaml_load(yaml, strlen(yaml), &body, &e), 0, "%s", err_msg(&e));
    patch(res, name, subresource, body);
}

static void set_pod_status(const char *ns, const char *name, const char *status)
{
    auto_err struct err e = {0};
    auto_json json_t *body = NULL;
    auto_free char *yaml = xasprintf("{status: %s}", status);
    const struct kc_target t = {.res = &resource_pods,
                                .ns = ns,
                                .name = name,
                                .subresource = "status"};
    cr_assert_eq(yaml_load(yaml, strlen(yaml), &body, &e), 0, "%s", err_msg(&e));
    const struct kc_write w = {.body = body, .how = KC_MERGE};
    cr_assert_eq(kc_patch(desk_kc, scope, &t, &w, NULL, &e), 0, "%s", err_msg(&e));
}

void desk_pod_status(const char *name, const char *status)
{
    set_pod_status("ns", name, status);
}

void desk_event(const char *name, const char *yaml)
{
    static const struct kc_resource events = {"events.k8s.io", "v1", "events", "Event", true};
    auto_err struct err e = {0};
    auto_json json_t *event = NULL;
    const struct kc_target t = {.res = &events, .ns = "default"};
    cr_assert_eq(yaml_load(yaml, strlen(yaml), &event, &e), 0, "%s", err_msg(&e));
    auto_json json_t *head =
        json_pack("{s:s, s:s, s:{s:s, s:s}}", "apiVersion", "events.k8s.io/v1", "kind", "Event",
                  "metadata", "name", name, "namespace", "default");
    (void)json_object_update(event, head);
    cr_assert_eq(kc_create(desk_kc, scope, &t, &(struct kc_write){.body = event}, NULL, &e), 0,
                 "%s", err_msg(&e));
}

void desk_lease(void)
{
    char now[RFC3339_BYTES];
    auto_err struct err e = {0};
    auto_json json_t *lease =
        json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:s, s:i, s:s}}", "apiVersion",
                  "coordination.k8s.io/v1", "kind", "Lease", "metadata", "name",
                  "cleave-controller", "namespace", "ns", "spec", "holderIdentity", "one",
                  "leaseDurationSeconds", 15, "renewTime",
                  rfc3339_format_micro(clock_wall_ms(clock_real()), now));
    const struct kc_target t = {.res = &resource_leases, .ns = "ns"};
    cr_assert_eq(kc_create(desk_kc, scope, &t, &(struct kc_write){.body = lease}, NULL, &e), 0,
                 "%s", err_msg(&e));
}

static void publish(const char *node, const struct device_status *st)
{
    auto_json json_t *body = json_object();
    (void)json_object_set_new(body, "status", device_status_encode(st));
    patch(&resource_devices, node, "status", body);
}

static void add_card(const char *node, size_t i, struct device_status *st)
{
    *XPUSH(st->devices, st->n_devices) = (struct device_card){
        .uuid = xasprintf("GPU-%s-%zu", node, i),
        .index = (int64_t)i,
        .vendor = xstrdup("nvidia"),
        .model = xstrdup(MODEL),
        .memory_mib = MEMORY_MIB,
        .healthy = true,
        .mig_capable = true,
    };
}

void desk_node(const char *name, size_t n_cards)
{
    auto_json json_t *node = json_pack("{s:s, s:s, s:{s:s, s:{s:s}}}", "apiVersion", "v1", "kind",
                                       "Node", "metadata", "name", name, "labels", "pool", "a");
    auto_json json_t *device =
        json_pack("{s:s, s:s, s:{s:s}, s:{}}", "apiVersion", API_GROUP_VERSION, "kind", "Device",
                  "metadata", "name", name, "spec");
    auto_device_status struct device_status st = {.observed_generation = 1};
    create(&resource_nodes, node);
    create(&resource_devices, device);
    desk_patch(&resource_nodes, name, "status",
               "{status: {conditions: [{type: Ready, status: 'True'}]}}");
    model_from_table(MODEL, mig_model("H100-80"), XPUSH(st.models, st.n_models));
    for (size_t i = 0; i < n_cards; i++)
        add_card(name, i, &st);
    (void)condition_set(&st.conditions, "Ready", CONDITION_TRUE, "Applied", "as wanted", 1, 0);
    publish(name, &st);
}

/* --- Cards --- */

static void status_of(const char *node, struct device_status *ret)
{
    auto_json json_t *obj = NULL;
    const struct kc_target t = {.res = &resource_devices, .name = node};
    cr_assert_eq(kc_get(desk_kc, scope, &t, &obj, NULL), 0);
    cr_assert_eq(device_status_decode(obj, ret, NULL), 0);
}

/* "ns/pod" */
static void add_pod(const char *pod, struct device_consumer **list, size_t *n)
{
    const char *slash = strchr(pod, '/');
    struct device_consumer *c = XPUSH(*list, *n);
    c->namespace = xstrndup(pod, (size_t)(slash - pod));
    c->name = xstrdup(slash + 1);
}

static struct device_partition *add_part(struct device_card *card, const char *kind,
                                         const char *pod)
{
    struct device_partition *p = XPUSH(card->partitions, card->n_partitions);
    p->uuid = xasprintf("MIG-%s-%zu", card->uuid, card->n_partitions);
    p->profile = xstrdup(kind);
    p->in_use = pod;
    if (pod)
        add_pod(pod, &p->in_use_by, &p->n_in_use_by);
    return p;
}

static void add_partition(struct device_card *card, const char *word)
{
    const struct mig_table *t = mig_model("H100-80");
    const char *at = strchr(word, '@');
    const char *pod = strchr(word, '=');
    auto_free char *name = xstrndup(word, (size_t)(at - word));
    struct device_partition *p = add_part(card, name, pod ? pod + 1 : NULL);
    p->placement =
        xasprintf("%ld:%u", strtol(at + 1, NULL, 10), t->profiles[mig_profile_index(t, name)].size);
    p->has_gi_id = p->has_ci_id = true;
    p->gi_id = (int64_t)card->n_partitions;
}

static void add_share(struct device_card *card, const char *word)
{
    char *colon;
    const char *pod = strchr(word, '=');
    struct device_partition *p = add_part(card, DEVICE_SHARE, pod + 1);
    p->has_slice = true;
    p->slice.alias = xasprintf("slot-%zu", card->n_partitions);
    p->slice.memory_mib = strtol(word, &colon, 10);
    p->slice.compute_percent = strtol(colon + 1, NULL, 10);
}

/* "alias:mib:percent", with "=ns/pod" where it is used */
static void add_slice(struct device_card *card, const char *word)
{
    char *colon;
    const char *pod = strchr(word, '=');
    const char *size = strchr(word, ':') + 1;
    auto_free char *alias = xstrndup(word, (size_t)(size - 1 - word));
    struct device_partition *p = add_part(card, alias, pod ? pod + 1 : NULL);
    p->has_slice = true;
    p->slice.id = (int64_t)card->n_partitions;
    p->slice.alias = TAKE(alias);
    p->slice.memory_mib = strtol(size, &colon, 10);
    p->slice.compute_percent = strtol(colon + 1, NULL, 10);
}

static void each_word(const char *words, struct device_card *card,
                      void (*fn)(struct device_card *card, const char *word))
{
    auto_free char *copy = xstrdup(words);
    char *rest = copy;
    char *word;
    while ((word = strtok_r(rest, " ", &rest)))
        fn(card, word);
}

void desk_cut(const char *node, size_t card, const char *parts)
{
    auto_device_status struct device_status st = {0};
    status_of(node, &st);
    st.devices[card].mode = API_MODE_MIG;
    each_word(parts, &st.devices[card], add_partition);
    publish(node, &st);
}

void desk_metax(const char *node, size_t n_cards)
{
    auto_device_status struct device_status st = {0};
    status_of(node, &st);
    for (size_t i = 0; i < n_cards; i++)
        *XPUSH(st.devices, st.n_devices) = (struct device_card){
            .uuid = xasprintf("GPU-%s-m%zu", node, i),
            .index = (int64_t)i,
            .vendor = xstrdup("metax"),
            .model = xstrdup("MXC500"),
            .memory_mib = 65536,
            .healthy = true,
            .has_sgpu = true,
            .sgpu = {.memory_mib = 65536, .qos_policy = API_FIXED_SHARE, .timeslice_ms = 10},
        };
    publish(node, &st);
}

void desk_slice(const char *node, size_t card, const char *slices)
{
    auto_device_status struct device_status st = {0};
    status_of(node, &st);
    st.devices[card].mode = API_MODE_SGPU;
    each_word(slices, &st.devices[card], add_slice);
    publish(node, &st);
}

void desk_share(const char *node, size_t card, const char *shares)
{
    auto_device_status struct device_status st = {0};
    status_of(node, &st);
    st.devices[card].has_fractional = true;
    st.devices[card].fractional = (struct device_fractional_state){.memory_mib = MEMORY_MIB,
                                                                   .compute_percent = 100,
                                                                   .max_shares = 10};
    each_word(shares, &st.devices[card], add_share);
    publish(node, &st);
}

void desk_hold(const char *node, size_t card, const char *ns, const char *pod)
{
    auto_device_status struct device_status st = {0};
    auto_free char *name = xasprintf("%s/%s", ns, pod);
    status_of(node, &st);
    st.devices[card].in_use = true;
    add_pod(name, &st.devices[card].in_use_by, &st.devices[card].n_in_use_by);
    publish(node, &st);
}

void desk_ill(const char *node, size_t card, const char *reason)
{
    auto_device_status struct device_status st = {0};
    status_of(node, &st);
    st.devices[card].healthy = false;
    if (reason)
        (void)condition_set(&st.devices[card].conditions, "Healthy", CONDITION_FALSE, reason,
                            "it is ill", 1, 0);
    publish(node, &st);
}

void desk_replicas(const char *node, size_t card, int64_t replicas)
{
    auto_device_status struct device_status st = {0};
    status_of(node, &st);
    struct device_card *c = &st.devices[card];
    if (c->mode == API_MODE_NATIVE)
        c->replicas = replicas;
    for (size_t i = 0; i < c->n_partitions; i++)
        c->partitions[i].replicas = replicas;
    publish(node, &st);
}

void desk_applied(const char *node)
{
    auto_json json_t *obj = NULL;
    const struct kc_target t = {.res = &resource_devices, .name = node};
    auto_device_status struct device_status st = {0};
    status_of(node, &st);
    cr_assert_eq(kc_get(desk_kc, scope, &t, &obj, NULL), 0);
    st.observed_generation = json_integer_value(JX_AT(obj, "metadata", "generation"));
    for (size_t i = 0; i < st.n_devices; i++)
        (void)condition_set(&st.devices[i].conditions, "Applied", CONDITION_TRUE, "Applied",
                            "as wanted", st.observed_generation, 0);
    publish(node, &st);
}

/* --- Commands --- */

static struct desk_answer ask(enum command_output output,
                              int (*run)(const struct command *c, const char *arg), const char *arg)
{
    struct desk_answer a = {0};
    size_t n_out = 0;
    size_t n_err = 0;
    struct command c = {.kc = desk_kc,
                        .scope = scope,
                        .server = "https://desk",
                        .screen = {.columns = columns ? columns : 80,
                                   .rows = rows,
                                   .wraps = columns,
                                   .in_place = is_terminal},
                        .output = output,
                        .clock = clock_real(),
                        .out = open_memstream(&a.out, &n_out),
                        .err = open_memstream(&a.err, &n_err)};
    a.code = run(&c, arg);
    (void)fclose(c.out);
    (void)fclose(c.err);
    return a;
}

struct desk_answer desk_cards(enum command_output output, const char *node)
{
    return ask(output, command_cards, node);
}

struct desk_answer desk_cards_watch(enum command_output output, const char *node,
                                    bool (*at)(unsigned n))
{
    at_watch = at;
    return ask(output, command_cards_watch, node);
}

struct desk_answer desk_plan(enum command_output output, const char *yaml)
{
    FILE *f = fopen("plan.yaml", "w");
    cr_assert(f && fputs(yaml, f) >= 0 && fclose(f) == 0);
    return ask(output, command_plan, "plan.yaml");
}

static int why_pod(const struct command *c, const char *pod)
{
    return command_why(c, "ns", pod);
}

struct desk_answer desk_why(enum command_output output, const char *pod)
{
    return ask(output, why_pod, pod);
}

void desk_expect_why(const char *text)
{
    auto_desk_answer struct desk_answer a = desk_why(OUTPUT_TEXT, "p");
    cr_expect_eq(a.code, 0, "%s", a.err);
    cr_expect_str_eq(a.out, text, "got:\n%s", a.out);
    cr_expect_str_eq(a.err, "");
}

struct desk_answer desk_history(enum command_output output, const char *node)
{
    return ask(output, command_history, node);
}

static int doctor(const struct command *c, const char *arg)
{
    (void)arg;
    return command_doctor(c);
}

struct desk_answer desk_doctor(enum command_output output)
{
    return ask(output, doctor, NULL);
}

static void create_agent(const char *pod, const char *node, const char *arguments,
                         const char *ready)
{
    auto_free char *yaml = xasprintf(
        "{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: cleave-node,"
        " labels: {app.kubernetes.io/part-of: cleave, app.kubernetes.io/component: agent}},"
        " spec: {nodeName: %s, containers: [{name: agent, args: %s}]}}",
        pod, node, arguments);
    auto_free char *status = xasprintf("{conditions: [{type: Ready, status: '%s'}]}", ready);
    desk_create(&resource_pods, yaml);
    set_pod_status("cleave-node", pod, status);
}

void desk_agent(const char *pod, const char *node, const char *arguments)
{
    create_agent(pod, node, arguments, "True");
}

void desk_sick_agent(const char *pod, const char *node)
{
    create_agent(pod, node, "[run]", "False");
}

static command_page_fn *agents_page;
static const char *agents_ns;

static int top(const struct command *c, const char *node)
{
    struct command with_page = *c;
    with_page.page = agents_page;
    return command_top(&with_page, agents_ns, node);
}

struct desk_answer desk_top(enum command_output output, const char *ns, const char *node,
                            command_page_fn *page)
{
    agents_page = page;
    agents_ns = ns;
    return ask(output, top, node);
}

static int top_watch(const struct command *c, const char *node)
{
    struct command with_page = *c;
    with_page.page = agents_page;
    return command_top_watch(&with_page, "cleave-node", node);
}

struct desk_answer desk_top_watch(enum command_output output, command_page_fn *page)
{
    agents_page = page;
    return ask(output, top_watch, /* arg= */ NULL);
}

void desk_end(void)
{
    scope_cancel(scope);
}

void desk_answer_done(struct desk_answer *a)
{
    free(a->out);
    free(a->err);
}
