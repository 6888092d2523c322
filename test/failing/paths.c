/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths through the code that no single program of ours takes alone, for failing.py:
 *   paths grpc DIR     a server and a client, small and large messages, a second connection
 *   paths plugin DIR   the device plugin registers with a kubelet and answers it
 *   paths cdi DIR      the CDI file is written, and written anew
 *   paths share DIR    an agent takes over, and binds a container with two limited shares, twice
 *   paths unshare DIR  another one takes over, and releases them
 *   paths audit DIR    an agent looks who uses the shares of such a container, and says what contexts take
 *   paths driven DIR   share, with limits that the driver keeps
 *   paths undriven DIR unshare, of these
 *   paths kube URL     informer, status writer, recorder and elector on an API server
 * Each goes on after an error as the agent does, and ends with 0 once it has come to its aim.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "api/kinds.h"
#include "kubeclient/elector.h"
#include "kubeclient/http.h"
#include "kubeclient/recorder.h"
#include "nodeagent/audit/share_look.h"
#include "nodeagent/cdi/cdi.h"
#include "nodeagent/kubelet/device_plugin.h"
#include "nodeagent/kubelet/grpc_client.h"
#include "nodeagent/kubelet/grpc_server.h"
#include "nodeagent/kubelet/proto/deviceplugin.pb-c.h"
#include "nodeagent/loop/own_device.h"
#include "nodeagent/loop/status_writer.h"
#include "nodeagent/slots/share_bind.h"
#include "nodeagent/slots/share_folder.h"
#include "nodeagent/slots/slot_record.h"
#include "nodeagent/vendor/nvidia/container_nvidia.h"
#include "nodeagent/vendor/nvidia/nvidia_nodes.h"
#include "service/resources.h"

#define PATIENCE_MS 60000
#define CALL_MS     2000
#define TRIES       5
#define LARGE       ((size_t)300 << 10)

static const struct grpc_limits limits = {.max_message = 4 << 20, .max_queued = 8 << 20};

/* ---- calls ---- */

struct question {
    const char *method;
    const uint8_t *message;
    size_t len;
    bool echo; /* the answer must be the question */
};

struct answer {
    const struct question *q;
    bool over, good, wrong;
};

static void on_reply(void *arg, const struct grpc_reply *reply)
{
    struct answer *a = arg;
    a->over = true;
    a->good = reply->code == GRPC_OK;
    a->wrong = a->good && a->q->echo &&
               (reply->len != a->q->len || memcmp(reply->message, a->q->message, a->q->len) != 0);
}

static int ask(struct reactor *r, struct grpc_client *c, const struct question *q, struct err *e)
{
    struct answer a = {.q = q};
    for (int i = 0; i < TRIES && !a.good; i++) {
        a.over = false;
        grpc_client_call(c, q->method, q->message, q->len, CALL_MS, on_reply, &a);
        while (!a.over)
            reactor_run(r, -1);
    }
    if (a.wrong || !a.good)
        return err_set(e, ERR_PROTOCOL, "%s: %s", q->method, a.wrong ? "wrong" : "no answer");
    return 0;
}

/* ---- grpc ---- */

static void on_echo(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    (void)arg;
    auto_err struct err e = {0};
    int rc = grpc_call_send(call, request, len, &e);
    grpc_call_finish(call, rc < 0 ? grpc_code_of(e.kind) : GRPC_OK, rc < 0 ? err_msg(&e) : NULL);
}

static int ask_both_sizes(struct reactor *r, const char *path, struct err *e)
{
    auto_free uint8_t *bytes = xmalloc(LARGE);
    auto_grpc_client struct grpc_client *c = grpc_client_new(r, path, &limits);
    memset(bytes, 'x', LARGE);
    const struct question small = {"/test.Test/Echo", bytes, 10, .echo = true};
    const struct question large = {"/test.Test/Echo", bytes, LARGE, .echo = true};
    TRY(ask(r, c, &small, e));
    TRY(ask(r, c, &large, e));
    return ask(r, c, &small, e);
}

static int grpc(const char *dir, struct err *e)
{
    static const struct grpc_method methods[] = {{"/test.Test/Echo", on_echo}};
    auto_free char *path = xasprintf("%s/s.sock", dir);
    auto_reactor struct reactor *r = NULL;
    auto_grpc_server struct grpc_server *s = NULL;
    const struct grpc_server_options o = {.path = path,
                                          .methods = methods,
                                          .n_methods = ARRAY_LEN(methods),
                                          .limits = limits};
    TRY(reactor_new(clock_real(), &r, e));
    TRY(grpc_server_new(r, &o, &s, e));
    TRY(ask_both_sizes(r, path, e));
    return ask_both_sizes(r, path, e);
}

/* ---- plugin ---- */

static char endpoint[64];

static void on_register(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    (void)arg;
    V1beta1__RegisterRequest *m = v1beta1__register_request__unpack(NULL, len, request);
    int rc = m ? grpc_call_send(call, request, 0, NULL) : -1;
    grpc_call_finish(call, rc < 0 ? GRPC_INTERNAL : GRPC_OK, NULL);
    if (m && rc == 0)
        (void)snprintf(endpoint, sizeof(endpoint), "%s", m->endpoint);
    v1beta1__register_request__free_unpacked(m, NULL);
}

static int allocate(void *arg, const char *resource, const char *const *ids, size_t n,
                    struct entry *ret, struct err *e)
{
    (void)arg;
    (void)e;
    entry_add_env(ret, resource, n ? ids[0] : "");
    entry_add_mount(ret, "/there", "/here", /* read_only= */ true);
    return 0;
}

static int prefer(void *arg, const char *resource, const struct plugin_preference *p,
                  const char **ret_ids, struct err *e)
{
    (void)arg;
    (void)resource;
    (void)e;
    for (size_t i = 0; i < p->size && i < p->n_available; i++)
        ret_ids[i] = p->available[i];
    return 0;
}

static void on_changed(void *arg)
{
    (void)arg;
}

static int ask_allocate(struct reactor *r, struct grpc_client *c, struct err *e)
{
    char id[] = "GPU-0";
    char *ids[] = {id};
    V1beta1__ContainerAllocateRequest one = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
    V1beta1__ContainerAllocateRequest *all[] = {&one};
    V1beta1__AllocateRequest m = V1BETA1__ALLOCATE_REQUEST__INIT;
    uint8_t buf[64];
    one.n_devices_ids = 1;
    one.devices_ids = ids;
    m.n_container_requests = 1;
    m.container_requests = all;
    const struct question q = {.method = "/v1beta1.DevicePlugin/Allocate",
                               .message = buf,
                               .len = v1beta1__allocate_request__pack(&m, buf)};
    return ask(r, c, &q, e);
}

static int use_plugin(struct reactor *r, struct device_plugin *p, const char *dir, struct err *e)
{
    static const struct plugin_device devices[] = {{"GPU-0", true, 0}, {"GPU-1", true, 1}};
    const struct plugin_resource offer = {"nvidia.com/gpu", devices, ARRAY_LEN(devices)};
    const int64_t end = clock_mono_ms(clock_real()) + PATIENCE_MS;
    device_plugin_set(p, &offer, 1);
    while (!endpoint[0] && clock_mono_ms(clock_real()) < end) {
        reactor_run(r, 100);
        device_plugin_check(p); /* as the agent does, once in a while */
    }
    if (!endpoint[0])
        return err_set(e, ERR_TIMEOUT, "the plugin has not registered");
    auto_free char *path = xasprintf("%s/%s", dir, endpoint);
    auto_grpc_client struct grpc_client *c = grpc_client_new(r, path, &limits);
    const struct question options = {.method = "/v1beta1.DevicePlugin/GetDevicePluginOptions",
                                     .message = (const uint8_t *)""};
    TRY(ask(r, c, &options, e));
    return ask_allocate(r, c, e);
}

static int plugin(const char *dir, struct err *e)
{
    static const struct grpc_method methods[] = {{"/v1beta1.Registration/Register", on_register}};
    static const struct plugin_ops ops = {allocate, prefer, on_changed};
    auto_free char *path = xasprintf("%s/kubelet.sock", dir);
    auto_reactor struct reactor *r = NULL;
    auto_grpc_server struct grpc_server *kubelet = NULL;
    auto_device_plugin struct device_plugin *p = NULL;
    TRY(reactor_new(clock_real(), &r, e));
    const struct device_plugin_options o = {.reactor = r,
                                            .clk = clock_real(),
                                            .dir = dir,
                                            .ops = &ops,
                                            .seed = 1};
    TRY(device_plugin_new(&o, &p, e));
    const struct grpc_server_options k = {.path = path,
                                          .methods = methods,
                                          .n_methods = ARRAY_LEN(methods),
                                          .limits = limits};
    TRY(grpc_server_new(r, &k, &kubelet, e));
    return use_plugin(r, p, dir, e);
}

/* ---- cdi ---- */

static int write_until_good(struct cdi *c, const struct device_nodes *nodes,
                            const struct entry_device *const *devices, size_t n, struct err *e)
{
    int rc = -1;
    for (int i = 0; i < TRIES && rc < 0; i++) {
        err_clear(e);
        rc = cdi_write(c, nodes, devices, n, e);
    }
    return rc;
}

static int cdi(const char *dir, struct err *e)
{
    char first[] = "GPU-0";
    char second[] = "GPU-1";
    char root[] = "";
    struct nvidia_nodes own = {.ctl = true, .uvm = true, .host_dev_root = root};
    const struct device_nodes nodes = {.own = {{&container_nvidia, &own}}};
    const struct entry_device a = {.vendor = "nvidia", .cdi_name = first};
    const struct entry_device b = {.vendor = "nvidia", .cdi_name = second, .minor = 1};
    const struct entry_device *const both[] = {&a, &b};
    auto_free char *folder = xasprintf("%s/cdi", dir);
    auto_cdi struct cdi *c = cdi_new(&(struct cdi_options){.folder = folder, .second_folder = ""});
    TRY(cdi_set_common(c, &nodes, NULL, e));
    TRY(write_until_good(c, &nodes, both, 1, e));
    return write_until_good(c, &nodes, both, 2, e);
}

/* ---- share, unshare ---- */

/* A driver that keeps limits in files, DIR/limits/<card>. */
struct driver_stub {
    struct gpu gpu;
    char *limits;
};

static int set_limit(struct gpu *g, const char *uuid, const char *cgroup, uint64_t hard_bytes,
                     struct err *e)
{
    const struct driver_stub *d = (const struct driver_stub *)(void *)g;
    auto_free char *path = xasprintf("%s/%s", d->limits, uuid);
    auto_free char *text = xasprintf("%" PRIu64, hard_bytes);
    (void)cgroup;
    if (hard_bytes == GPU_NO_LIMIT)
        return file_remove(path, e);
    TRY(file_make_dirs(d->limits, 0700, e));
    return file_write_atomic(path, text, strlen(text), 0600, e);
}

static int get_limit(struct gpu *g, const char *uuid, const char *cgroup, struct gpu_limit *ret,
                     struct err *e)
{
    const struct driver_stub *d = (const struct driver_stub *)(void *)g;
    auto_free char *path = xasprintf("%s/%s", d->limits, uuid);
    auto_free char *text = NULL;
    int64_t bytes = 0;
    (void)cgroup;
    TRY(file_read(path, 64, &text, NULL, e));
    TRY(num_parse(text, 1, INT64_MAX, &bytes, e));
    *ret = (struct gpu_limit){.hard_bytes = (uint64_t)bytes};
    return 0;
}

static const struct gpu_ops limit_ops = {.limit_set = set_limit, .limit_get = get_limit};

/* What an agent binds shares with. */
struct sharing_agent {
    struct driver_stub driver;
    char *cgroups;
    char *state;
    struct cdi_slots *cdi;
    struct share_folders *folders;
};

static void sharing_agent_done(struct sharing_agent *a)
{
    free(a->state);
    free(a->cgroups);
    free(a->driver.limits);
    (void)cdi_slots_free(a->cdi);
    (void)share_folders_free(a->folders);
}
AUTO_DEFINE(sharing_agent, struct sharing_agent, sharing_agent_done)

static int take_over(const char *dir, struct sharing_agent *ret, struct err *e)
{
    auto_free char *folder = xasprintf("%s/cdi", dir);
    auto_free char *root = xasprintf("%s/shares", dir);
    ret->state = xasprintf("%s/state", dir);
    ret->cgroups = xasprintf("%s/cgroup", dir);
    ret->driver = (struct driver_stub){{&limit_ops}, xasprintf("%s/limits", dir)};
    auto_free char *pod = xasprintf("%s/kubepods/podu", ret->cgroups);
    TRY(file_make_dirs(pod, 0755, e));
    ret->cdi = cdi_slots_new(&(struct cdi_options){.folder = folder});
    slot_records_sweep(ret->state);
    TRY(share_folders_new(root, &ret->folders, e));
    share_folders_resume(ret->folders);
    return 0;
}

static int use_share(struct sharing_agent *a,
                     int (*use)(const struct slot_deps *d, unsigned memory_mib, struct err *e),
                     unsigned number, struct err *e)
{
    static char root[] = "";
    static char cuda[] = "/usr/lib64/libcuda.so.570.1", ml[] = "/usr/lib64/libnvidia-ml.so.570.1";
    struct driver_file libraries[] = {{DRIVER_LIBRARY, cuda, cuda}, {DRIVER_LIBRARY, ml, ml}};
    const struct driver_files files = {.files = libraries, .n_files = ARRAY_LEN(libraries)};
    struct nvidia_nodes own = {.ctl = true, .uvm = true, .host_dev_root = root};
    const struct device_nodes nodes = {.own = {{&container_nvidia, &own}}};
    const struct slot_deps d = {.gpu = &a->driver.gpu,
                                .cgroup_root = a->cgroups,
                                .state_dir = a->state,
                                .cdi = a->cdi,
                                .nodes = &nodes,
                                .files = &files,
                                .share_folders = a->folders,
                                .limiter = "/lib/limiter/0123456789abcdef"};
    int rc = -1;
    for (int i = 0; i < TRIES && rc < 0; i++) {
        err_clear(e);
        rc = use(&d, number, e);
    }
    return rc;
}

#define SHARES_FROM 3
#define CARD_A      "GPU-00112233-4455-6677-8899-aabbccddeeff"
#define CARD_B      "GPU-10112233-4455-6677-8899-aabbccddeeff"

static int bind_both(const struct slot_deps *d, unsigned memory_mib, int level, struct err *e)
{
    static char ns[] = "n", pod[] = "p", uid[] = "u", container[] = "c", bus_id[] = "0000:05:00.0";
    static char first[] = "share.3", second[] = "share.4";
    static char card_a[] = CARD_A, card_b[] = CARD_B;
    struct bound_slot bound[2] = {0};
    struct entry_device entries[2] = {{.cdi_name = first, .uuid = card_a, .card_uuid = card_a},
                                      {.cdi_name = second, .uuid = card_b, .card_uuid = card_b}};
    for (unsigned i = 0; i < 2; i++) {
        bound[i] = (struct bound_slot){.slot = slot_at(SLOT_POOL_SHARE, SHARES_FROM + i),
                                       .quota = {memory_mib, 30},
                                       .memory_level = level,
                                       .qos = -1};
        (void)snprintf(bound[i].card, sizeof(bound[i].card), "%s", entries[i].uuid);
        entries[i].vendor = "nvidia";
        entries[i].pci_bus_id = bus_id;
        entries[i].minor = i;
        entries[i].has_slice = true;
        entries[i].slice.memory_mib = memory_mib;
    }
    const struct slot_binding b = {ns, pod, uid, container, bound, 2, .entries = entries};
    return share_bind(d, &b, e);
}

static int bind_two(const struct slot_deps *d, unsigned memory_mib, struct err *e)
{
    return bind_both(d, memory_mib, API_LEVEL_LIBRARY, e);
}

static int bind_driven(const struct slot_deps *d, unsigned memory_mib, struct err *e)
{
    return bind_both(d, memory_mib, API_LEVEL_DRIVER, e);
}

static int bind_shares(const char *dir, struct err *e)
{
    AUTO(sharing_agent) struct sharing_agent a = {0};
    TRY(take_over(dir, &a, e));
    TRY(use_share(&a, bind_two, 3000, e));
    return use_share(&a, bind_two, 5000, e);
}

static int drive_shares(const char *dir, struct err *e)
{
    AUTO(sharing_agent) struct sharing_agent a = {0};
    TRY(take_over(dir, &a, e));
    TRY(use_share(&a, bind_driven, 3000, e));
    return use_share(&a, bind_driven, 5000, e);
}

static int release_one(const struct slot_deps *d, unsigned number, struct err *e)
{
    return share_release(d, slot_at(SLOT_POOL_SHARE, number), e);
}

static int release_shares(const char *dir, struct err *e)
{
    AUTO(sharing_agent) struct sharing_agent a = {0};
    TRY(take_over(dir, &a, e));
    TRY(use_share(&a, release_one, SHARES_FROM, e));
    return use_share(&a, release_one, SHARES_FROM + 1, e);
}

/* ---- audit ---- */

enum { AUDITED_PID = 4242, READING_MS = 30000 };
#define MIB ((uint64_t)1 << 20)

/* The container's process, on a card of which it has a share. */
static void put_on_card(unsigned at, const char *card, struct shares *shares,
                        struct card_view *view)
{
    static char uid[] = "u", container[] = "c";
    struct share s = {.slot = slot_at(SLOT_POOL_SHARE, SHARES_FROM + at),
                      .memory_mib = 5000,
                      .memory_level = API_LEVEL_LIBRARY,
                      .uid = uid,
                      .container = container};
    (void)snprintf(s.card, sizeof(s.card), "%s", card);
    shares_put(shares, &s);
    (void)snprintf(view->card.uuid, sizeof(view->card.uuid), "%s", card);
    view->card.n_users = 1;
    view->card.users = xcalloc(1, sizeof(*view->card.users));
    *view->card.users = (struct gpu_user){.pid = AUDITED_PID, .memory_bytes = 1000 * MIB};
    view->pods = xcalloc(1, sizeof(*view->pods));
    (void)snprintf(view->pods->pod_uid, sizeof(view->pods->pod_uid), "%s", uid);
}

static int say_context(const struct share_folders *f, const struct share_sight *s, uint64_t bytes,
                       struct err *e)
{
    auto_fd int folder = -1;
    auto_terms struct terms *terms = NULL;
    TRY(share_folders_open(f, s->folder, &folder, e));
    TRY(share_terms_map(folder, &terms, e));
    share_terms_set_context(terms, (unsigned)share_terms_card(terms, s->card), bytes);
    return 0;
}

/* One reading. 0 once both shares were seen as they are, and what their contexts take. */
static int look_once(const struct share_look_where *where, const struct shares *shares,
                     const struct card_view *views, struct share_audit *audits, int64_t now_ms,
                     struct err *e)
{
    auto_share_sights struct share_sights sights = {0};
    size_t n = 0;
    share_look(where, shares, views, 2, &sights);
    for (size_t i = 0; i < sights.n; i++) {
        const struct share_sight *s = &sights.items[i];
        const struct audit_share a = {.limit_bytes = s->limit_bytes,
                                      .context_bytes = s->context_bytes,
                                      .ends = true,
                                      .processes = s->processes,
                                      .n = s->n};
        auto_audit_news struct audit_news news = {0};
        share_audit_judge(&audits[i], &a, now_ms, &news);
        if (news.is_over_now || news.is_unlimited_now || news.n_ends)
            return err_set(e, ERR_TERMINAL, "a wrong verdict");
        TRY(say_context(where->folders, s, audits[i].context_bytes, e));
        n += s->n == 1 && s->processes[0].is_limited && audits[i].context_bytes;
    }
    return n == 2 ? 0 : err_set(e, ERR_UNAVAILABLE, "a process was not seen");
}

static int audit(const char *dir, struct err *e)
{
    AUTO(sharing_agent) struct sharing_agent agent = {0};
    auto_shares struct shares shares = {0};
    struct card_view views[2] = {0};
    struct share_audit audits[2] = {0};
    auto_free char *proc_root = xasprintf("%s/proc", dir);
    TRY(take_over(dir, &agent, e));
    const struct share_look_where where = {proc_root, agent.folders};
    put_on_card(0, CARD_A, &shares, &views[0]);
    put_on_card(1, CARD_B, &shares, &views[1]);
    int rc = -1;
    for (int i = 1; i <= TRIES && rc < 0 && rc != -(int)ERR_TERMINAL; i++) {
        err_clear(e);
        rc = look_once(&where, &shares, views, audits, (int64_t)i * READING_MS, e);
    }
    for (size_t i = 0; i < ARRAY_LEN(views); i++) {
        card_view_done(&views[i]);
        share_audit_done(&audits[i]);
    }
    return rc;
}

/* ---- kube ---- */

struct cluster {
    struct kc *kc;
    struct scope *scope;
    struct informer *inf;
    struct status_writer *pub;
    struct recorder *rec;
    struct elector *el;
};

static void *run_informer(void *arg)
{
    struct cluster *c = arg;
    (void)!informer_run(c->inf, c->scope, NULL);
    return NULL;
}

static void *run_status_writer(void *arg)
{
    struct cluster *c = arg;
    (void)!status_writer_run(c->pub, c->scope, NULL);
    return NULL;
}

static void *run_recorder(void *arg)
{
    struct cluster *c = arg;
    (void)!recorder_run(c->rec, c->scope, NULL);
    return NULL;
}

static void *run_elector(void *arg)
{
    struct cluster *c = arg;
    auto_err struct err e = {0};
    (void)!elector_run(c->el, c->scope, &e);
    return NULL;
}

static void on_device(void *arg, const struct object *before, const struct object *after,
                      bool stale)
{
    (void)before;
    (void)after;
    (void)stale;
    status_writer_kick(arg);
}

static void cluster_make(struct cluster *c)
{
    c->inf = informer_new(c->kc, &(struct informer_opts){.type = &own_device_type,
                                                         .name = "n1",
                                                         .clk = clock_real()});
    c->pub = status_writer_new(&(struct status_writer_deps){.kc = c->kc,
                                                            .devices = c->inf,
                                                            .node = "n1",
                                                            .clk = clock_real()});
    informer_add_handler(c->inf, on_device, c->pub);
    c->rec = recorder_new(c->kc, &(struct recorder_opts){.controller = "gpu.cleave.dev/test",
                                                         .instance = "i",
                                                         .clk = clock_real()});
    c->el = elector_new(c->kc, &(struct elector_opts){.ns = "default",
                                                      .name = "lease",
                                                      .identity = "me",
                                                      .retry_ms = 50,
                                                      .clk = clock_real()});
    (void)status_writer_put(c->pub, json_pack("{s:s}", "agentVersion", "v1"));
    const struct event_about about = {.resource = &resource_devices, .name = "n1", .uid = "u"};
    recorder_event_about(c->rec, &about, /* warning= */ false, "Tried", "once");
}

static void cluster_done(struct cluster *c)
{
    (void)status_writer_free(c->pub);
    (void)informer_free(c->inf);
    (void)recorder_free(c->rec);
    (void)elector_free(c->el);
    (void)kc_free(c->kc);
}

static int wait_for_all(struct cluster *c, struct err *e)
{
    auto_scope struct scope *patience = scope_new(NULL, PATIENCE_MS);
    bool published = false;
    bool leads = false;
    bool written = false;
    while (!published || !leads || !written) {
        if (!scope_wait_ms(patience, 2))
            return err_set(e, ERR_TIMEOUT, "published %d, leads %d, event written %d", published,
                           leads, written);
        published = status_writer_acked(c->pub) == 1;
        leads = leads || elector_is_leader(c->el);
        written = recorder_stats(c->rec).written == 1;
    }
    return 0;
}

/* A process that cannot start a thread does not go on without it. */
static int run_all(struct cluster *c, struct err *e)
{
    static void *(*const parts[])(void *) = {run_informer, run_status_writer, run_recorder,
                                             run_elector};
    pthread_t threads[ARRAY_LEN(parts)];
    size_t n = 0;
    int rc = 0;
    while (n < ARRAY_LEN(parts) && rc == 0)
        if (pthread_create(&threads[n], NULL, parts[n], c) == 0)
            n++;
        else
            rc = err_set(e, ERR_SYSTEM, "no thread");
    if (rc == 0)
        rc = wait_for_all(c, e);
    scope_cancel(c->scope);
    while (n)
        (void)pthread_join(threads[--n], NULL);
    return rc;
}

static int kube(const char *url, struct err *e)
{
    struct cluster c = {0};
    auto_kc_config struct kc_config config = {.server = xstrdup(url)};
    auto_scope struct scope *scope = scope_new(NULL, -1);
    if (kc_http_new(&config, NULL, &c.kc, e) < 0)
        return err_wrap(e, "no client");
    c.scope = scope;
    cluster_make(&c);
    int rc = run_all(&c, e);
    cluster_done(&c);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const char *where, struct err *e);
    } verbs[] = {{"grpc", grpc},
                 {"plugin", plugin},
                 {"cdi", cdi},
                 {"share", bind_shares},
                 {"unshare", release_shares},
                 {"driven", drive_shares},
                 {"undriven", release_shares},
                 {"audit", audit},
                 {"kube", kube}};
    auto_err struct err e = {0};
    json_set_alloc_funcs(xmalloc, free);
    log_setup(LOG_WARN, LOG_LOGFMT, 2);
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; argc == 3 && i < ARRAY_LEN(verbs); i++) {
        if (strcmp(argv[1], verbs[i].name) != 0)
            continue;
        int rc = verbs[i].run(argv[2], &e);
        if (rc < 0)
            (void)fprintf(stderr, "%s\n", err_msg(&e));
        return rc < 0;
    }
    (void)fprintf(
        stderr,
        "usage: paths grpc|plugin|cdi|share|unshare|driven|undriven|audit DIR | paths kube URL\n");
    return 2;
}
