/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "h2_peer_support.h"
#include "memory_support.h"
#include "nodeagent/kubelet/grpc_client.h"
#include "nodeagent/kubelet/grpc_socket.h"
#include "nodeagent/loop/kubelet_link.h"

/*
 * A kubelet that means harm, over real sockets: the agent's whole link to it serves a table of
 * devices, registers, and asks who holds what; the input is a script of what is done at both ends.
 * Of its bytes the first says what to do (low half) and on which connection (high half):
 *
 *   0..3  clients of the device plugin    4..6  who is dialled at kubelet.sock
 *   7..9  who is dialled at pod-resources/kubelet.sock
 *
 * Whatever is done, the link comes to rest after a bounded number of turns, keeps to its memory and
 * serves an honest client once the others are gone.
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define N_CLIENTS  4
#define N_ACCEPTED 3
#define N_PEERS    (N_CLIENTS + 2 * N_ACCEPTED)
#define N_CROWD    48
#define MAX_OPS    200
#define MAX_TURNS  20000        /* of the link, after one thing that was done to it */
#define MAX_MEMORY (64UL << 20) /* beyond what it takes at rest; the agent's limit is 128 MiB */
#define ASK_MS     5000
#define SETTLE_MS  1000

static const char *const methods[] = {
    "/v1beta1.DevicePlugin/GetDevicePluginOptions", "/v1beta1.DevicePlugin/ListAndWatch",
    "/v1beta1.DevicePlugin/GetPreferredAllocation", "/v1beta1.DevicePlugin/Allocate",
    "/v1beta1.DevicePlugin/PreStartContainer",      "/v1beta1.DevicePlugin/None",
};

struct socket_at {
    char *path;
    int fd; /* listening; -1: not there */
};

struct world {
    struct clock *clk;
    struct kubelet_link *link;
    char folder[32];
    char *plugins, *pods; /* folders */
    struct socket_at kubelet, lister;
    struct h2_peer peers[N_PEERS];
    int crowd[N_CROWD];
    size_t n_crowd;
};

/* ---- the agent's side ---- */

static void fill_device(struct table_device *d, unsigned card, unsigned replicas)
{
    *d = (struct table_device){.card_index = (uint8_t)card,
                               .healthy = true,
                               .replicas = replicas,
                               .memory_mib = 81920,
                               .numa = (int)card};
    (void)snprintf(d->id, sizeof(d->id), "GPU-%u", card);
    d->entry = (struct entry_device){.vendor = "nvidia",
                                     .cdi_name = xstrdup(d->id),
                                     .uuid = xstrdup(d->id),
                                     .card_uuid = xstrdup(d->id),
                                     .pci_bus_id = xasprintf("0000:0%u:00.0", card),
                                     .index = card,
                                     .minor = card};
}

static void add_resource(struct device_table *t, const char *name, unsigned n, unsigned replicas)
{
    struct table_resource *r = XPUSH(t->resources, t->n_resources);
    *r = (struct table_resource){.name = xstrdup(name), .devices = xcalloc(n, sizeof(*r->devices))};
    for (unsigned i = 0; i < n; i++)
        fill_device(&r->devices[r->n_devices++], i, replicas);
}

/* Some cards, alone or shared by so many; nothing of the second name, or some. */
static void offer(struct world *w, unsigned what)
{
    auto_device_table struct device_table t = {0};
    add_resource(&t, "nvidia.com/gpu", 1 + what % 4, 1 + (what & 0x30U) * 16);
    if (what & 0x80U)
        add_resource(&t, "nvidia.com/gpu.shared", 2, 2);
    kubelet_link_offer(w->link, &t);
}

/* The link has come to rest once nothing of it is ready. */
static void settle(void *arg)
{
    const struct world *w = arg;
    struct pollfd p = {.fd = kubelet_link_fd(w->link), .events = POLLIN};
    unsigned turns = 0;
    do {
        kubelet_link_dispatch(w->link);
        assert(++turns < MAX_TURNS && "it never comes to rest");
    } while (poll(&p, 1, 0) > 0);
}

/* ---- the kubelet's side ---- */

static void stop_listening(struct socket_at *s)
{
    auto_close_fd(&s->fd);
    s->fd = -1;
    (void)unlink(s->path);
}

static void listen_at(struct socket_at *s)
{
    struct grpc_socket_id id;
    stop_listening(s);
    int rc = grpc_socket_listen(s->path, &s->fd, &id, NULL);
    assert(rc == 0);
    (void)rc;
}

static void accept_from(struct world *w, const struct socket_at *s, struct h2_peer *peers)
{
    for (size_t i = 0; i < N_ACCEPTED && s->fd >= 0; i++) {
        int fd = peers[i].fd < 0 ? accept(s->fd, NULL, NULL) : -1;
        if (fd >= 0)
            h2_peer_open(&peers[i], fd, settle, w);
    }
}

static void settle_and_accept(struct world *w)
{
    settle(w);
    accept_from(w, &w->kubelet, &w->peers[N_CLIENTS]);
    accept_from(w, &w->lister, &w->peers[N_CLIENTS + N_ACCEPTED]);
    for (size_t i = 0; i < N_PEERS; i++)
        h2_peer_drain(&w->peers[i]);
    settle(w);
}

/* The plugin's socket of this number, of those that it has now. NULL: there is none. Caller frees.
 */
static char *plugin_socket(const struct world *w, unsigned number)
{
    struct dirent **found = NULL;
    char *path = NULL;
    int n = scandir(w->plugins, &found, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        bool is_plugins = strncmp(found[i]->d_name, "cleave-", 7) == 0;
        if (is_plugins && (!path || number > 0)) {
            number -= path != NULL;
            free(path);
            path = xasprintf("%s/%s", w->plugins, found[i]->d_name);
        }
        free(found[i]);
    }
    free(found);
    return path;
}

static int dial(const struct world *w, unsigned number)
{
    auto_free char *path = plugin_socket(w, number);
    int fd = -1;
    if (path && grpc_socket_connect(path, &fd, NULL) < 0)
        fd = -1;
    return fd;
}

static void dial_if_needed(struct world *w, unsigned i, bool hello)
{
    struct h2_peer *p = &w->peers[i];
    if (i >= N_CLIENTS || p->fd >= 0)
        return;
    int fd = dial(w, i / 2);
    if (fd < 0)
        return;
    h2_peer_open(p, fd, settle, w);
    if (hello)
        h2_peer_hello(p, /* is_client= */ true);
}

/* ---- the script ---- */

static void pass(struct world *w, int64_t ms)
{
    clock_fake_advance(w->clk, ms);
    settle_and_accept(w);
}

/* Sockets go and come back, as when a kubelet restarts. */
static void do_sockets(struct world *w, struct script *s)
{
    uint8_t which = script_byte(s);
    struct socket_at *of = which & 1 ? &w->kubelet : &w->lister;
    if (which & 2)
        stop_listening(of);
    else
        listen_at(of);
}

static void do_crowd(struct world *w, struct script *s)
{
    unsigned n = script_byte(s);
    for (unsigned i = 0; i < n % N_CROWD && w->n_crowd < N_CROWD; i++) {
        int fd = dial(w, n & 1);
        if (fd >= 0)
            w->crowd[w->n_crowd++] = fd;
        settle(w);
    }
}

static void do_to_link(struct world *w, unsigned op, struct script *s)
{
    switch (op) {
    case 8:
        pass(w, (int64_t)1 << (script_byte(s) % 20));
        break;
    case 9:
        offer(w, script_byte(s));
        break;
    case 10:
        do_sockets(w, s);
        break;
    case 11:
        do_crowd(w, s);
        break;
    case 12:
        kubelet_link_ask(w->link);
        break;
    default:
        kubelet_link_check(w->link);
        break;
    }
}

static void do_one(struct world *w, struct script *s)
{
    uint8_t what = script_byte(s);
    unsigned i = (what >> 4) % N_PEERS;
    unsigned op = what & 0xfU;
    struct h2_peer *p = &w->peers[i];
    if (op == 14) {
        h2_peer_close(p);
    } else if (op == 15) {
        dial_if_needed(w, i, /* hello= */ false);
        if (p->fd >= 0)
            h2_peer_hello(p, i < N_CLIENTS);
    } else if (op < H2_PEER_OPS) {
        dial_if_needed(w, i, /* hello= */ true);
        const char *path = i < N_CLIENTS ? methods[script_byte(s) % ARRAY_LEN(methods)] : NULL;
        if (p->fd >= 0)
            h2_peer_do(p, op, path, s);
    } else {
        do_to_link(w, op, s);
    }
    settle_and_accept(w);
}

/* ---- the whole ---- */

static void world_init(struct world *w)
{
    *w = (struct world){.clk = clock_fake_new(0), .folder = "/tmp/kubelet-fuzz-XXXXXX"};
    for (size_t i = 0; i < N_PEERS; i++)
        w->peers[i].fd = -1;
    bool made = mkdtemp(w->folder);
    assert(made);
    w->plugins = xasprintf("%s/device-plugins", w->folder);
    w->pods = xasprintf("%s/pod-resources", w->folder);
    made = mkdir(w->plugins, 0700) == 0 && mkdir(w->pods, 0700) == 0;
    assert(made);
    (void)made;
    w->kubelet = (struct socket_at){xasprintf("%s/kubelet.sock", w->plugins), -1};
    w->lister = (struct socket_at){xasprintf("%s/kubelet.sock", w->pods), -1};
    listen_at(&w->kubelet);
    listen_at(&w->lister);
    const struct kubelet_link_options o = {
        .clk = w->clk,
        .kubelet_dir = w->folder,
        .entry = {.ways = ENTRY_ENVVAR},
        .seed = 1,
    };
    int rc = kubelet_link_new(&o, &w->link, NULL);
    assert(rc == 0);
    (void)rc;
    offer(w, 1);
    pass(w, 1);
}

static void remove_all(const char *folder)
{
    DIR *d = opendir(folder);
    const struct dirent *entry;
    while (d && (entry = readdir(d))) {
        auto_free char *path = xasprintf("%s/%s", folder, entry->d_name);
        (void)unlink(path);
    }
    if (d)
        (void)closedir(d);
    (void)rmdir(folder);
}

static void world_done(struct world *w)
{
    w->link = kubelet_link_free(w->link);
    w->clk = clock_free(w->clk);
    stop_listening(&w->kubelet);
    stop_listening(&w->lister);
    remove_all(w->plugins);
    remove_all(w->pods);
    (void)rmdir(w->folder);
    free(w->kubelet.path);
    free(w->lister.path);
    free(w->plugins);
    free(w->pods);
}

static void all_hang_up(struct world *w)
{
    for (size_t i = 0; i < N_PEERS; i++)
        h2_peer_close(&w->peers[i]);
    while (w->n_crowd > 0)
        (void)close(w->crowd[--w->n_crowd]);
    settle(w);
}

static void on_reply(void *arg, const struct grpc_reply *reply)
{
    *(int *)arg = reply->code;
}

/* A kubelet that is honest dials the plugin. */
static int ask_honestly(struct world *w)
{
    auto_free char *path = plugin_socket(w, 0);
    if (!path)
        return GRPC_NOT_FOUND;
    int code = -1;
    struct reactor *r = NULL;
    int rc = reactor_new(w->clk, &r, NULL);
    assert(rc == 0);
    (void)rc;
    struct grpc_client *c = grpc_client_new(r, path, NULL);
    grpc_client_call(c, methods[0], (const uint8_t *)"", 0, ASK_MS, on_reply, &code);
    for (int i = 0; i < MAX_TURNS && code < 0; i++) {
        reactor_dispatch(r);
        settle(w);
    }
    (void)grpc_client_free(c);
    (void)reactor_free(r);
    return code;
}

static void check_memory(size_t at_rest)
{
    assert(memory_peak() < at_rest + MAX_MEMORY && "it takes too much memory");
    (void)at_rest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct world w;
    struct script s = {data, data + len};
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    size_t descriptors = memory_descriptors();
    world_init(&w);
    size_t at_rest = memory_used();
    memory_mark();
    for (int i = 0; i < MAX_OPS && s.at < s.end; i++)
        do_one(&w, &s);
    all_hang_up(&w);
    listen_at(&w.kubelet); /* a new kubelet: the plugin has a socket again, if it had none */
    pass(&w, SETTLE_MS);
    check_memory(at_rest);
    int code = ask_honestly(&w);
    assert(code == GRPC_OK && "an honest kubelet is not served");
    (void)code;
    all_hang_up(&w);
    world_done(&w);
    assert(memory_descriptors() == descriptors && "a descriptor is left");
    (void)descriptors;
    return 0;
}
