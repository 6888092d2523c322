/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "grpc_support.h"
#include "nodeagent/kubelet/device_plugin.h"
#include "nodeagent/kubelet/proto/deviceplugin.pb-c.h"

/* A kubelet that takes registrations, and listens when the test says so; and the plugin under test,
 * in one reactor on a clock that stands still. */
struct node {
    struct grpc_world *w;
    struct grpc_server *kubelet; /* NULL: it is down */
    struct device_plugin *plugin;
    char *socket;
    unsigned registrations;
    char endpoint[64], resource[64]; /* of the newest */
    enum grpc_code verdict;          /* what it answers */
    unsigned changes;
};

static void on_register(void *arg, struct grpc_call *call, const uint8_t *request, size_t len)
{
    struct node *n = arg;
    V1beta1__RegisterRequest *m = v1beta1__register_request__unpack(NULL, len, request);
    cr_assert(m);
    cr_expect_str_eq(m->version, "v1beta1");
    (void)snprintf(n->endpoint, sizeof(n->endpoint), "%s", m->endpoint);
    (void)snprintf(n->resource, sizeof(n->resource), "%s", m->resource_name);
    v1beta1__register_request__free_unpacked(m, NULL);
    n->registrations++;
    if (n->verdict == GRPC_OK)
        cr_assert_eq(grpc_call_send(call, (const uint8_t *)"", 0, NULL), 0);
    grpc_call_finish(call, n->verdict, "unsupported resource");
}

static const struct grpc_method methods[] = {{"/v1beta1.Registration/Register", on_register}};

static void kubelet_start(struct node *n)
{
    const struct grpc_server_options o = {.path = n->socket,
                                          .methods = methods,
                                          .n_methods = ARRAY_LEN(methods),
                                          .arg = n};
    auto_err struct err e = {0};
    cr_assert_eq(grpc_server_new(n->w->reactor, &o, &n->kubelet, &e), 0, "%s", err_msg(&e));
    grpc_pass(n->w, 10);
}

static int no_allocate(void *arg, const char *resource, const char *const *ids, size_t n,
                       struct entry *ret, struct err *e)
{
    (void)arg;
    (void)resource;
    (void)ids;
    (void)n;
    (void)ret;
    return err_set(e, ERR_UNAVAILABLE, "not in this test");
}

static int no_preference(void *arg, const char *resource, const struct plugin_preference *p,
                         const char **ret_ids, struct err *e)
{
    (void)arg;
    (void)resource;
    (void)p;
    (void)ret_ids;
    return err_set(e, ERR_UNAVAILABLE, "not in this test");
}

static void changed(void *arg)
{
    struct node *n = arg;
    n->changes++;
}

static void plugin_start(struct node *n)
{
    static const struct plugin_ops ops = {no_allocate, no_preference, changed};
    const struct device_plugin_options o = {.reactor = n->w->reactor,
                                            .clk = n->w->clk,
                                            .dir = n->w->folder,
                                            .ops = &ops,
                                            .arg = n,
                                            .seed = 1};
    auto_err struct err e = {0};
    cr_assert_eq(device_plugin_new(&o, &n->plugin, &e), 0, "%s", err_msg(&e));
}

static void node_init(struct node *n)
{
    static const struct grpc_limits limits;
    *n = (struct node){.w = grpc_world_new(&limits)};
    n->socket = xasprintf("%s/kubelet.sock", n->w->folder);
}

static void node_done(struct node *n)
{
    n->plugin = device_plugin_free(n->plugin);
    n->kubelet = grpc_server_free(n->kubelet);
    n->w = grpc_world_free(n->w);
    free(n->socket);
}

static void offer(struct node *n, const char *name, size_t count)
{
    auto_free struct plugin_device *devices = xcalloc(count, sizeof(*devices));
    char(*ids)[64] = xcalloc(count, sizeof(*ids));
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "GPU-00000000-0000-0000-0000-000000000000::%zu", i);
        devices[i] = (struct plugin_device){ids[i], true, 0};
    }
    const struct plugin_resource r = {name, devices, count};
    device_plugin_set(n->plugin, &r, name ? 1 : 0);
    free(ids);
    grpc_pass(n->w, 10);
}

/* The kubelet dials back. Returns its end of the connection. */
static int listen_to(struct node *n)
{
    static const uint8_t empty[5];
    uint8_t buf[1024];
    auto_free char *path = xasprintf("%s/%s", n->w->folder, n->endpoint);
    int fd = grpc_raw_connect(path);
    cr_assert_geq(fd, 0);
    const struct grpc_raw_headers h = {.path = "/v1beta1.DevicePlugin/ListAndWatch"};
    cr_assert(grpc_raw_hello(n->w, fd));
    cr_assert(grpc_raw_send(n->w, fd, buf, grpc_raw_request(buf, /* flags= */ 4, 1, &h)));
    cr_assert(grpc_raw_send(n->w, fd, buf, grpc_raw_frame(buf, 0, 1, 1, empty, sizeof(empty))));
    grpc_settle(n->w);
    return fd;
}

/* Dials and listens at once; what is answered is left to be read. */
static int listen_unread(struct node *n)
{
    static const uint8_t empty[5];
    uint8_t buf[1024];
    auto_free char *path = xasprintf("%s/%s", n->w->folder, n->endpoint);
    int fd = grpc_raw_connect(path);
    const struct grpc_raw_headers h = {.path = "/v1beta1.DevicePlugin/ListAndWatch"};
    cr_assert(grpc_raw_hello(n->w, fd));
    size_t len = grpc_raw_request(buf, /* flags= */ 4, 1, &h);
    len += grpc_raw_frame(buf + len, 0, 1, 1, empty, sizeof(empty));
    cr_assert_eq(write(fd, buf, len), (ssize_t)len);
    grpc_settle(n->w);
    return fd;
}

static enum plugin_state state(const struct node *n)
{
    const char *text;
    return device_plugin_trouble(n->plugin, &text);
}

Test(device_plugin, registers_and_is_served_once_the_kubelet_listens)
{
    struct node n;
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    cr_expect_eq(n.registrations, 1);
    cr_expect_str_eq(n.resource, "nvidia.com/gpu");
    cr_expect_eq(state(&n), PLUGIN_WAITING);
    int fd = listen_to(&n);
    cr_expect_eq(state(&n), PLUGIN_SERVED);
    grpc_pass(n.w, 3600000);
    cr_expect_eq(n.registrations, 1, "a quiet hour");
    (void)close(fd);
    node_done(&n);
}

Test(device_plugin, kubelet_that_comes_later_is_waited_for)
{
    struct node n;
    node_init(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    cr_expect_eq(state(&n), PLUGIN_WAITING);
    kubelet_start(&n);
    cr_expect_eq(n.registrations, 1);
    node_done(&n);
}

Test(device_plugin, kubelet_that_starts_anew_is_registered_with_anew)
{
    struct node n;
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    int fd = listen_to(&n);
    n.kubelet = grpc_server_free(n.kubelet);
    (void)close(fd);
    auto_free char *ours = xasprintf("%s/%s", n.w->folder, n.endpoint);
    cr_assert_eq(unlink(ours), 0); /* as the kubelet does at its start */
    grpc_pass(n.w, 10);
    cr_expect_eq(state(&n), PLUGIN_WAITING);
    kubelet_start(&n);
    cr_expect_eq(n.registrations, 2);
    fd = listen_to(&n);
    cr_expect_eq(state(&n), PLUGIN_SERVED);
    (void)close(fd);
    node_done(&n);
}

Test(device_plugin, stream_that_ends_is_asked_for_again)
{
    struct node n;
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    (void)close(listen_to(&n));
    grpc_pass(n.w, 10);
    cr_expect_eq(n.registrations, 2, "the kubelet does not dial again by itself");
    grpc_pass(n.w, 10000);
    grpc_pass(n.w, 10);
    cr_expect_eq(n.registrations, 3, "nor did it this time");
    node_done(&n);
}

Test(device_plugin, renewal_registers_at_another_socket_and_leaves_the_stream)
{
    struct node n;
    char first[sizeof(n.endpoint)];
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    int former = listen_to(&n);
    memcpy(first, n.endpoint, sizeof(first));
    device_plugin_renew(n.plugin);
    grpc_pass(n.w, 10);
    cr_expect_eq(n.registrations, 2);
    cr_expect_str_neq(n.endpoint, first);
    cr_expect(grpc_raw_is_open(former));
    cr_expect_eq(state(&n), PLUGIN_SERVED, "the kubelet reads the former stream meanwhile");
    int fd = listen_to(&n);
    auto_free char *path = xasprintf("%s/%s", n.w->folder, first);
    cr_expect_eq(access(path, F_OK), 0, "the kubelet may still ask there");
    device_plugin_renew(n.plugin);
    grpc_pass(n.w, 10);
    cr_expect_eq(n.registrations, 2, "once");
    (void)close(former);
    (void)close(fd);
    node_done(&n);
}

Test(device_plugin, loss_of_the_renewed_registration_is_noticed_beside_the_former_stream)
{
    struct node n;
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    int former = listen_to(&n);
    device_plugin_renew(n.plugin);
    grpc_pass(n.w, 10);
    (void)close(listen_to(&n));
    grpc_pass(n.w, 10);
    cr_expect_eq(n.registrations, 3);
    cr_expect(grpc_raw_is_open(former));
    (void)close(former);
    node_done(&n);
}

Test(device_plugin, frozen_plugin_keeps_its_streams_and_registers_no_more)
{
    struct node n;
    size_t heard;
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    int fd = listen_to(&n);
    device_plugin_freeze(n.plugin);
    offer(&n, "nvidia.com/other", 1);
    n.kubelet = grpc_server_free(n.kubelet);
    kubelet_start(&n);
    grpc_pass(n.w, 10000);
    cr_expect_eq(n.registrations, 1);
    cr_expect(grpc_raw_is_open(fd));
    auto_free const char **names = device_plugin_heard(n.plugin, &heard);
    cr_assert_eq(heard, 1);
    cr_expect_str_eq(names[0], "nvidia.com/gpu");
    (void)close(fd);
    node_done(&n);
}

Test(device_plugin, refusal_is_told_and_tried_again_more_and_more_rarely)
{
    struct node n;
    node_init(&n);
    n.verdict = GRPC_INVALID_ARGUMENT;
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    cr_expect_eq(state(&n), PLUGIN_REFUSED);
    for (int i = 0; i < 3600; i++)
        grpc_pass(n.w, 1000);
    cr_expect_lt(n.registrations, 1000);
    cr_expect_gt(n.registrations, 100);
    n.verdict = GRPC_OK;
    grpc_pass(n.w, 10000);
    (void)close(listen_to(&n));
    node_done(&n);
}

Test(device_plugin, list_beyond_the_bound_is_refused_and_comes_back_smaller)
{
    struct node n;
    const char *text;
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    int fd = listen_to(&n);
    offer(&n, "nvidia.com/gpu", 40000);
    cr_expect_eq(device_plugin_trouble(n.plugin, &text), PLUGIN_TOO_LARGE);
    cr_expect(strstr(text, "nvidia.com/gpu") && strstr(text, "fewer replicas"), "%s", text);
    cr_expect_not(grpc_raw_is_open(fd), "what it offered before is not offered on");
    grpc_pass(n.w, 60000);
    cr_expect_eq(state(&n), PLUGIN_TOO_LARGE, "and stays so");
    unsigned before = n.registrations;
    offer(&n, "nvidia.com/gpu", 3);
    cr_expect_eq(n.registrations, before + 1);
    (void)close(fd);
    fd = listen_to(&n);
    cr_expect_eq(state(&n), PLUGIN_SERVED);
    (void)close(fd);
    node_done(&n);
}

/* Each stream may hold some megabytes that nobody reads. */
Test(device_plugin, more_who_listen_than_kubelets_come_and_go_are_refused)
{
    struct node n;
    int fds[5];
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = listen_unread(&n);
        int status = grpc_raw_receive(fds[i]).grpc_status;
        cr_expect_eq(status, i < 4 ? -1 : GRPC_RESOURCE_EXHAUSTED, "%zu: %d", i, status);
    }
    (void)close(fds[0]);
    grpc_pass(n.w, 10);
    int late = listen_unread(&n);
    cr_expect_eq(grpc_raw_receive(late).grpc_status, -1, "there is room again");
    for (size_t i = 1; i < ARRAY_LEN(fds); i++)
        (void)close(fds[i]);
    (void)close(late);
    node_done(&n);
}

Test(device_plugin, resource_that_comes_back_soon_was_never_away)
{
    struct node n;
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    int fd = listen_to(&n);
    offer(&n, NULL, 0);
    cr_expect(grpc_raw_is_open(fd), "it is shown empty first");
    offer(&n, "nvidia.com/gpu", 2);
    cr_expect_eq(state(&n), PLUGIN_SERVED);
    grpc_pass(n.w, 60000);
    cr_expect(grpc_raw_is_open(fd));
    cr_expect_eq(n.registrations, 1);
    offer(&n, NULL, 0);
    grpc_pass(n.w, 10000);
    grpc_pass(n.w, 1000);
    cr_expect_not(grpc_raw_is_open(fd), "and then it goes");
    offer(&n, "nvidia.com/gpu", 2);
    cr_expect_eq(n.registrations, 2);
    (void)close(fd);
    node_done(&n);
}

Test(device_plugin, registration_that_did_not_take_is_made_again)
{
    struct node n;
    static const struct plugin_granted other[] = {{"example.com/fpga", NULL, 0}};
    static const struct plugin_granted ours[] = {{"nvidia.com/gpu", NULL, 0}};
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    int fd = listen_to(&n);
    cr_expect(device_plugin_verify(n.plugin, other, 1), "the kubelet may not have seen it yet");
    cr_expect_not(device_plugin_verify(n.plugin, ours, 1));
    grpc_pass(n.w, 1000);
    cr_expect_eq(n.registrations, 1);
    cr_expect_not(device_plugin_verify(n.plugin, other, 1));
    grpc_pass(n.w, 1000);
    cr_expect_eq(n.registrations, 2);
    (void)close(fd);
    node_done(&n);
}

/* Another plugin registers the resource: the kubelet ends its stream to this one, which registers
 * again. Passes so many ms. */
static void lose(struct node *n, int64_t ms)
{
    (void)close(listen_to(n));
    grpc_settle(n->w);
    grpc_pass(n->w, ms);
}

Test(device_plugin, resource_that_another_plugin_takes_is_said_and_not_fought_over)
{
    struct node n;
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    lose(&n, 10);
    lose(&n, 10);
    cr_expect_eq(n.registrations, 3, "at once, since the kubelet may have lost it");
    cr_expect_null(device_plugin_contested(n.plugin));
    lose(&n, 10);
    cr_expect_eq(n.registrations, 3, "now it waits");
    cr_expect_str_eq(device_plugin_contested(n.plugin), "nvidia.com/gpu");
    grpc_pass(n.w, 50);
    cr_expect_eq(n.registrations, 4);
    for (int i = 0; i < 8; i++)
        lose(&n, 60000);
    unsigned before = n.registrations;
    for (int i = 0; i < 10; i++)
        lose(&n, 60000);
    cr_expect_eq(n.registrations, before + 10, "once a minute");
    int fd = listen_to(&n);
    grpc_pass(n.w, 800000);
    cr_expect_str_eq(device_plugin_contested(n.plugin), "nvidia.com/gpu");
    grpc_pass(n.w, 100000);
    cr_expect_null(device_plugin_contested(n.plugin), "a quarter of an hour of calm");
    (void)close(fd);
    node_done(&n);
}

Test(device_plugin, devices_of_another_plugin_are_said_while_the_kubelet_has_them)
{
    struct node n;
    static char stranger[] = "GPU-theirs";
    static char first[] = "GPU-00000000-0000-0000-0000-000000000000::0";
    static char second[] = "GPU-00000000-0000-0000-0000-000000000000::1";
    static char *const ids[] = {first, second, stranger};
    static const struct plugin_granted ours[] = {{"nvidia.com/gpu", ids, 1},
                                                 {"nvidia.com/gpu", ids + 1, 1},
                                                 {"example.com/fpga", ids + 2, 1}};
    static const struct plugin_granted theirs[] = {{"nvidia.com/gpu", ids + 1, 2}};
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    int fd = listen_to(&n);
    cr_expect(device_plugin_verify(n.plugin, ours, 3));
    cr_expect_not(device_plugin_verify(n.plugin, ours, 3));
    cr_expect(device_plugin_verify(n.plugin, theirs, 1), "that may be a list of before");
    cr_expect_null(device_plugin_contested(n.plugin));
    cr_expect_not(device_plugin_verify(n.plugin, theirs, 1));
    cr_expect_str_eq(device_plugin_contested(n.plugin), "nvidia.com/gpu");
    grpc_pass(n.w, 1000);
    cr_expect_eq(n.registrations, 1, "said, and not fought");
    cr_expect_not(device_plugin_verify(n.plugin, ours, 3));
    cr_expect_null(device_plugin_contested(n.plugin));
    (void)close(fd);
    node_done(&n);
}

static void touch(const struct node *n, const char *name)
{
    auto_free char *path = xasprintf("%s/%s", n->w->folder, name);
    int fd = open(path, O_CREAT | O_CLOEXEC | O_WRONLY, 0600);
    cr_assert_geq(fd, 0);
    (void)close(fd);
}

Test(device_plugin, socket_of_another_plugin_is_noticed_when_it_comes_and_when_it_goes)
{
    struct node n;
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    grpc_settle(n.w);
    n.changes = 0;
    touch(&n, "kubelet_internal_checkpoint");
    touch(&n, ".sock");
    grpc_settle(n.w);
    cr_expect_eq(n.changes, 0, "no plugin's");
    touch(&n, "nvidia-gpu.sock");
    grpc_settle(n.w);
    cr_expect_eq(n.changes, 1);
    auto_free char *path = xasprintf("%s/nvidia-gpu.sock", n.w->folder);
    cr_assert_eq(unlink(path), 0);
    grpc_settle(n.w);
    cr_expect_eq(n.changes, 2);
    node_done(&n);
}

Test(device_plugin, kubelet_that_starts_anew_is_not_taken_for_another_plugin)
{
    struct node n;
    node_init(&n);
    kubelet_start(&n);
    plugin_start(&n);
    offer(&n, "nvidia.com/gpu", 2);
    for (unsigned i = 0; i < 5; i++) {
        int fd = listen_to(&n);
        n.kubelet = grpc_server_free(n.kubelet);
        (void)close(fd);
        grpc_pass(n.w, 10);
        unsigned before = n.registrations;
        kubelet_start(&n);
        cr_expect_eq(n.registrations, before + 1);
        cr_expect_null(device_plugin_contested(n.plugin));
    }
    node_done(&n);
}

Test(device_plugin, sockets_that_nobody_serves_any_more_are_swept)
{
    struct node n;
    node_init(&n);
    auto_free char *left = xasprintf("%s/cleave-00000000-0.sock", n.w->folder);
    auto_free char *foreign = xasprintf("%s/nvidia-gpu.sock", n.w->folder);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    for (int i = 0; i < 2; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", i ? foreign : left);
        cr_assert_eq(bind(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
        (void)close(fd);
    }
    plugin_start(&n);
    cr_expect_neq(access(left, F_OK), 0);
    cr_expect_eq(access(foreign, F_OK), 0, "not ours");
    node_done(&n);
}
