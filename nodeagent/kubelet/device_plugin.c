/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/device_plugin.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/contest.h"
#include "nodeagent/kubelet/grpc_client.h"
#include "nodeagent/kubelet/plugin_folder.h"
#include "nodeagent/kubelet/plugin_messages.h"

#define SOCKET_PREFIX "cleave-"

enum {
    REGISTER_DEADLINE_MS = 10000, /* the kubelet's own timeout for dialing back */
    LISTEN_DEADLINE_MS = 10000,   /* from the registration to the kubelet's ListAndWatch */
    MAX_STREAMS = 4,              /* of a resource: the kubelet has one, and others that end; for
                                     each two of the longest lists may wait */
    LINGER_MS = 10000,            /* a resource that returns within this time is not withdrawn */
    FLUSH_MS = 1000,              /* for a last message to leave before the socket is closed */
};

/* Several exist at once while one kubelet ends and the next starts. */
struct stream {
    struct served *of;
    struct grpc_call *call;
    bool former; /* of the registration before device_plugin_renew */
};

/* The next thing that a resource waits for. */
enum served_wait {
    WAIT_NOTHING,
    WAIT_REGISTER, /* then register (again) */
    WAIT_LISTEN,   /* then register, because the kubelet does not listen */
    WAIT_LINGER,   /* then end its streams */
    WAIT_FLUSH,    /* then free it */
};

struct served {
    struct plugin_calls calls; /* first: the handlers' argument */
    struct device_plugin *plugin;
    char *name;
    char endpoint[48];
    struct grpc_server *server; /* NULL: the socket failed, or the list is too large */
    struct grpc_server *former; /* of the registration before device_plugin_renew; NULL: none */
    struct stream **streams;
    size_t n_streams;
    struct plugin_bytes list;
    enum served_wait wait;
    struct reactor_timer *timer;
    struct backoff backoff;
    bool registering;
    bool again;  /* register once more when the call under way has ended */
    bool offers; /* has a healthy device, and had one at the last verification */
    bool verified;
    struct backoff lost; /* between registrations without effect */
    struct contest contest;
    bool too_large;
    char *trouble; /* why the last attempt failed; NULL: it worked */
    enum plugin_state state;
};

struct device_plugin {
    struct device_plugin_options o;
    char *dir;
    struct served **items;
    size_t n;
    struct grpc_client *kubelet;
    struct plugin_folder *folder;
    struct rng rng;
    uint32_t instance;
    unsigned numbers;
    struct plugin_stats stats;
    bool frozen; /* answers calls, and does nothing else any more */
};

/* --- Streams --- */

static void set_state(struct served *s, enum plugin_state state, const char *trouble)
{
    assert(!trouble == (state == PLUGIN_SERVED));
    s->state = state;
    xstr_set(&s->trouble, trouble);
    s->plugin->o.ops->changed(s->plugin->o.arg);
}

static void await(struct served *s, enum served_wait wait, int64_t ms)
{
    assert(ms >= 0);
    s->wait = wait;
    reactor_timer_set(s->timer, ms);
}

static void retry(struct served *s)
{
    await(s, WAIT_REGISTER, backoff_next_ms(&s->backoff, s->plugin->o.clk, &s->plugin->rng));
}

static bool is_retiring(const struct served *s)
{
    return s->wait == WAIT_LINGER || s->wait == WAIT_FLUSH;
}

static void drop_stream(struct stream *t)
{
    struct served *s = t->of;
    assert(s->n_streams > 0 && s->n_streams <= MAX_STREAMS);
    for (size_t i = 0; i < s->n_streams; i++)
        if (s->streams[i] == t)
            s->streams[i--] = s->streams[--s->n_streams];
    free(t);
}

/* True while the kubelet reads the stream of the newest registration. */
static bool is_heard(const struct served *s)
{
    for (size_t i = 0; i < s->n_streams; i++)
        if (!s->streams[i]->former)
            return true;
    return false;
}

/* The kubelet counts the resource as gone, and does not connect again. */
static void stream_ended(void *arg)
{
    struct stream *t = arg;
    struct served *s = t->of;
    drop_stream(t);
    if (s->plugin->frozen || is_heard(s) || is_retiring(s))
        return;
    int64_t pause_ms = contest_lose(&s->contest, s->plugin->o.clk, &s->plugin->rng);
    set_state(s, PLUGIN_WAITING,
              contest_is_on(&s->contest, s->plugin->o.clk)
                  ? "the kubelet listens to another plugin that has registered this resource"
                  : "the kubelet does not listen any more");
    if (!s->registering)
        await(s, WAIT_REGISTER, pause_ms);
}

static void end_streams(struct served *s, enum grpc_code code, const char *text)
{
    while (s->n_streams) {
        struct stream *t = s->streams[s->n_streams - 1];
        grpc_call_finish(t->call, code, text);
        drop_stream(t);
    }
}

/* Sends the list. A stream that cannot take it is ended, since every message is the whole list. */
static void send_list(struct stream *t)
{
    struct served *s = t->of;
    assert(s->list.data && s->list.len <= PLUGIN_MAX_LIST && !s->too_large);
    auto_err struct err e = {0};
    if (grpc_call_send(t->call, s->list.data, s->list.len, &e) == 0)
        return;
    log_warn("Could not send the offer to the kubelet", kv("resource", s->name), kv_err(&e));
    grpc_call_finish(t->call, GRPC_RESOURCE_EXHAUSTED, err_msg(&e));
    stream_ended(t);
}

static void list_and_watch(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    (void)request;
    (void)len;
    struct served *s = arg;
    if (s->n_streams == MAX_STREAMS) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED,
                         "this resource has 4 ListAndWatch streams; one has to end first");
        return;
    }
    struct stream *t = xmalloc(sizeof(*t));
    *t = (struct stream){.of = s, .call = call};
    *XPUSH(s->streams, s->n_streams) = t;
    grpc_call_on_end(call, stream_ended, t);
    if (s->wait == WAIT_LISTEN) {
        s->wait = WAIT_NOTHING;
        reactor_timer_unset(s->timer);
    }
    backoff_reset(&s->backoff);
    log_info("The kubelet listens", kv("resource", s->name));
    if (!is_retiring(s))
        set_state(s, PLUGIN_SERVED, NULL);
    send_list(t);
}

/* --- Registration --- */

static const struct grpc_method methods[] = {
    {"/v1beta1.DevicePlugin/GetDevicePluginOptions", plugin_calls_options},
    {"/v1beta1.DevicePlugin/ListAndWatch", list_and_watch},
    {"/v1beta1.DevicePlugin/GetPreferredAllocation", plugin_calls_prefer},
    {"/v1beta1.DevicePlugin/Allocate", plugin_calls_allocate},
    {"/v1beta1.DevicePlugin/PreStartContainer", plugin_calls_pre_start},
};

static void forget_servers(struct served *s, const char *why)
{
    end_streams(s, GRPC_UNAVAILABLE, why);
    s->server = grpc_server_free(s->server);
    s->former = grpc_server_free(s->former);
}

static int make_server(struct served *s, struct err *e)
{
    struct device_plugin *p = s->plugin;
    if (s->server && grpc_server_is_reachable(s->server))
        return 0;
    if (s->server)
        forget_servers(s, "the plugin's socket was removed");
    (void)snprintf(s->endpoint, sizeof(s->endpoint), SOCKET_PREFIX "%08x-%u.sock", p->instance,
                   p->numbers++);
    auto_free char *path = plugin_folder_path(p->dir, s->endpoint);
    const struct grpc_server_options o = {
        .path = path,
        .methods = methods,
        .n_methods = ARRAY_LEN(methods),
        .arg = s,
        .limits = {.max_queued = 2 * (PLUGIN_MAX_LIST + 64)},
    };
    return grpc_server_new(p->o.reactor, &o, &s->server, e);
}

static void registered(void *arg, const struct grpc_reply *reply)
{
    struct served *s = arg;
    assert(s->registering);
    s->registering = false;
    if (is_retiring(s) || s->too_large)
        return;
    if (s->again) {
        s->again = false;
        await(s, WAIT_REGISTER, 0);
        return;
    }
    if (reply->code == GRPC_OK) {
        s->plugin->stats.registrations++;
        log_info("Registered with the kubelet", kv("resource", s->name));
        if (!is_heard(s))
            await(s, WAIT_LISTEN, LISTEN_DEADLINE_MS);
        return;
    }
    bool absent = reply->code == GRPC_UNAVAILABLE || reply->code == GRPC_DEADLINE_EXCEEDED;
    if (!s->trouble || strcmp(s->trouble, reply->text) != 0)
        log_warn("Could not register with the kubelet", kv("resource", s->name),
                 kv("code", grpc_code_name(reply->code)), kv("error", reply->text));
    set_state(s, absent ? PLUGIN_WAITING : PLUGIN_REFUSED, reply->text);
    retry(s);
}

static void enroll(struct served *s)
{
    auto_err struct err e = {0};
    s->wait = WAIT_NOTHING;
    if (s->plugin->frozen)
        return;
    s->again |= s->registering; /* the kubelet may be another one by now */
    if (s->registering || s->too_large)
        return;
    if (!plugin_folder_has_kubelet(s->plugin->folder)) {
        set_state(s, PLUGIN_WAITING, "there is no kubelet");
        return; /* the folder is watched */
    }
    if (make_server(s, &e) < 0) {
        set_state(s, PLUGIN_FAILED, err_msg(&e));
        log_warn("Could not make the plugin's socket", kv("resource", s->name), kv_err(&e));
        retry(s);
        return;
    }
    assert(s->server && s->list.data);
    struct plugin_bytes request = plugin_encode_register(s->endpoint, s->name);
    s->registering = true;
    grpc_client_call(s->plugin->kubelet, "/v1beta1.Registration/Register", request.data,
                     request.len, REGISTER_DEADLINE_MS, registered, s);
    free(request.data);
}

/* --- Coming and going --- */

static void served_free(struct served *s)
{
    struct device_plugin *p = s->plugin;
    assert(!s->registering || !p->kubelet); /* its answer would come here */
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i] == s)
            p->items[i] = p->items[--p->n];
    forget_servers(s, "the plugin ends");
    (void)reactor_timer_free(s->timer);
    free(s->streams);
    free(s->list.data);
    free(s->trouble);
    free(s->name);
    free(s);
}

static void on_timer(void *arg)
{
    struct served *s = arg;
    switch (s->wait) {
    case WAIT_NOTHING:
        break;
    case WAIT_LISTEN:
        set_state(s, PLUGIN_WAITING, "the kubelet registered the resource and does not listen");
        enroll(s);
        break;
    case WAIT_REGISTER:
        enroll(s);
        break;
    case WAIT_LINGER:
        end_streams(s, GRPC_OK, NULL);
        await(s, WAIT_FLUSH, FLUSH_MS);
        break;
    case WAIT_FLUSH:
        if (s->registering)
            await(s, WAIT_FLUSH, FLUSH_MS); /* its answer still arrives here */
        else
            served_free(s);
        break;
    }
}

static struct served *served_new(struct device_plugin *p, const char *name)
{
    struct served *s = xmalloc(sizeof(*s));
    char *own_name = xstrdup(name);
    *s = (struct served){
        .calls = {own_name, p->o.ops, p->o.arg, &p->stats},
        .plugin = p,
        .name = own_name,
        .state = PLUGIN_WAITING,
        .backoff = {.base_ms = 4, .cap_ms = 5000, .factor = 2, .jitter_pct = 20},
        .lost = {.base_ms = 200, .cap_ms = 300000, .reset_after_ms = 3600000, .factor = 2},
    };
    contest_init(&s->contest);
    s->timer = reactor_timer_new(p->o.reactor, on_timer, s);
    *XPUSH(p->items, p->n) = s;
    return s;
}

/* A resource whose streams have ended already does not count. */
static struct served *served_named(const struct device_plugin *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i]->wait != WAIT_FLUSH && strcmp(p->items[i]->name, name) == 0)
            return p->items[i];
    return NULL;
}

static void refuse_large(struct served *s, size_t len)
{
    auto_free char *why =
        xasprintf("%s: the list of its devices takes %zu bytes, more than %u; the kubelet reads no "
                  "more than 4 MiB: use fewer replicas",
                  s->name, len, PLUGIN_MAX_LIST);
    s->too_large = true;
    s->wait = WAIT_NOTHING;
    reactor_timer_unset(s->timer);
    end_streams(s, GRPC_RESOURCE_EXHAUSTED, why);
    s->server = grpc_server_free(s->server);
    s->former = grpc_server_free(s->former);
    set_state(s, PLUGIN_TOO_LARGE, why);
}

static void offer(struct served *s, const struct plugin_resource *r)
{
    struct plugin_bytes list = plugin_encode_list(r);
    bool same =
        list.len == s->list.len && s->list.data && memcmp(list.data, s->list.data, list.len) == 0;
    bool again = s->too_large && list.len <= PLUGIN_MAX_LIST;
    if (list.len > PLUGIN_MAX_LIST) {
        if (!s->too_large)
            refuse_large(s, list.len);
        free(list.data);
        return;
    }
    s->too_large = false;
    s->offers = false;
    for (size_t i = 0; i < r->n_devices; i++)
        s->offers |= r->devices[i].healthy;
    free(s->list.data);
    s->list = list;
    if (again)
        await(s, WAIT_REGISTER, 0);
    for (size_t i = same ? 0 : s->n_streams; i > 0; i--)
        send_list(s->streams[i - 1]);
}

static void retire(struct served *s)
{
    const struct plugin_resource none = {.name = s->name};
    if (is_retiring(s))
        return;
    offer(s, &none);
    await(s, WAIT_LINGER, LINGER_MS);
}

static bool is_among(const char *name, const struct plugin_resource *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0)
            return true;
    return false;
}

static void come_back(struct served *s)
{
    await(s, is_heard(s) ? WAIT_NOTHING : WAIT_REGISTER, 0);
    if (is_heard(s))
        set_state(s, PLUGIN_SERVED, NULL);
}

void device_plugin_set(struct device_plugin *p, const struct plugin_resource *list, size_t n)
{
    if (p->frozen)
        return;
    for (size_t i = 0; i < p->n; i++)
        if (!is_among(p->items[i]->name, list, n))
            retire(p->items[i]);
    for (size_t i = 0; i < n; i++) {
        struct served *s = served_named(p, list[i].name);
        if (!s)
            s = served_new(p, list[i].name);
        else if (s->wait == WAIT_LINGER)
            come_back(s);
        else {
            offer(s, &list[i]);
            continue;
        }
        offer(s, &list[i]);
        if (!is_heard(s) && !s->too_large)
            await(s, WAIT_REGISTER, 0);
    }
}

void device_plugin_repeat(struct device_plugin *p)
{
    for (size_t i = 0; !p->frozen && i < p->n; i++)
        if (p->items[i]->n_streams && p->items[i]->wait != WAIT_FLUSH) {
            send_list(p->items[i]->streams[p->items[i]->n_streams - 1]);
            return;
        }
}

/* --- The folder --- */

/* A new kubelet has no registrations and has deleted the plugins' sockets. If only the time
 * changed, that may be a chmod: streams that stay open then show that the kubelet still listens. */
static void kubelet_came(void *arg, bool same_socket)
{
    struct device_plugin *p = arg;
    for (size_t i = 0; i < p->n; i++) {
        struct served *s = p->items[i];
        if (p->frozen || is_retiring(s) || (same_socket && is_heard(s)))
            continue;
        backoff_reset(&s->backoff);
        contest_init(&s->contest);
        await(s, WAIT_REGISTER, 0);
    }
}

/* Another plugin may have taken a resource of ours, or left, and had the kubelet drop it. */
static void others_changed(void *arg)
{
    struct device_plugin *p = arg;
    p->o.ops->changed(p->o.arg);
}

/* --- Hand-over --- */

/* The old streams stay: in kubelets before 1.36 the end of any of them undoes the registration. */
static void renew(struct served *s)
{
    if (is_retiring(s) || !is_heard(s) || s->former || s->n_streams > 2)
        return;
    for (size_t i = 0; i < s->n_streams; i++)
        s->streams[i]->former = true;
    s->former = TAKE(s->server);
    await(s, WAIT_REGISTER, 0);
}

void device_plugin_renew(struct device_plugin *p)
{
    assert(!p->frozen);
    for (size_t i = 0; i < p->n; i++)
        renew(p->items[i]);
}

void device_plugin_freeze(struct device_plugin *p)
{
    p->frozen = true;
    for (size_t i = 0; i < p->n; i++)
        reactor_timer_unset(p->items[i]->timer);
}

const char **device_plugin_heard(const struct device_plugin *p, size_t *ret_n)
{
    const char **names = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i]->n_streams)
            *XPUSH(names, *ret_n) = p->items[i]->name;
    return names;
}

/* --- Checks --- */

void device_plugin_check(struct device_plugin *p)
{
    plugin_folder_look(p->folder);
}

/* --- The whole --- */

int device_plugin_new(const struct device_plugin_options *o, struct device_plugin **ret,
                      struct err *e)
{
    assert(o->reactor && o->clk && o->dir && o->ops->allocate && o->ops->prefer && o->ops->changed);
    auto_device_plugin struct device_plugin *p = xmalloc(sizeof(*p));
    *p = (struct device_plugin){.o = *o, .dir = xstrdup(o->dir)};
    rng_init(&p->rng, o->seed);
    p->instance = (uint32_t)rng_next(&p->rng);
    auto_free char *path = plugin_folder_path(o->dir, /* name= */ NULL);
    p->kubelet = grpc_client_new(o->reactor, path, NULL);
    plugin_folder_sweep(o->dir, SOCKET_PREFIX);
    static const struct plugin_folder_ops folder_ops = {kubelet_came, others_changed};
    TRY(plugin_folder_new(o->reactor, o->dir, &folder_ops, p, &p->folder, e));
    *ret = TAKE(p);
    return 0;
}

bool device_plugin_verify(struct device_plugin *p, const struct plugin_granted *all, size_t n)
{
    bool again = false;
    for (size_t i = 0; !p->frozen && i < p->n; i++) {
        struct served *s = p->items[i];
        bool known = s->verified; /* a registration newer than the question is passed over once */
        s->verified = s->offers && is_heard(s);
        again |= s->verified && !known;
        if (!known || !s->verified || is_retiring(s))
            continue;
        enum plugin_look found = plugin_list_look(&s->list, s->name, all, n);
        again |= contest_look(&s->contest, found == PLUGIN_LOOK_STRANGE);
        if (found != PLUGIN_LOOK_NOTHING)
            continue;
        s->verified = false;
        log_warn("The kubelet listens and offers nothing: registering again",
                 kv("resource", s->name));
        end_streams(s, GRPC_UNAVAILABLE, "the registration was lost");
        set_state(s, PLUGIN_WAITING, "the kubelet listens and offers nothing");
        await(s, WAIT_REGISTER, backoff_next_ms(&s->lost, p->o.clk, &p->rng));
    }
    return again;
}

const char *device_plugin_contested(const struct device_plugin *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (!is_retiring(p->items[i]) && contest_is_on(&p->items[i]->contest, p->o.clk))
            return p->items[i]->name;
    return NULL;
}

enum plugin_state device_plugin_trouble(const struct device_plugin *p, const char **ret_text)
{
    enum plugin_state worst = PLUGIN_SERVED;
    *ret_text = "";
    for (size_t i = 0; i < p->n; i++) {
        const struct served *s = p->items[i];
        if (is_retiring(s) || s->state <= worst)
            continue;
        worst = s->state;
        *ret_text = s->trouble ? s->trouble : "the kubelet does not listen yet";
    }
    return worst;
}

struct plugin_stats device_plugin_stats(const struct device_plugin *p)
{
    return p->stats;
}

struct device_plugin *device_plugin_free(struct device_plugin *p)
{
    if (!p)
        return NULL;
    p->kubelet = grpc_client_free(p->kubelet);
    while (p->n)
        served_free(p->items[0]);
    free(p->items);
    p->folder = plugin_folder_free(p->folder);
    free(p->dir);
    free(p);
    return NULL;
}
