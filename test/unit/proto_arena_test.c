/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/plugin_messages.h"
#include "nodeagent/kubelet/proto/deviceplugin.pb-c.h"
#include "nodeagent/kubelet/proto_arena.h"

#define EMPTY_CONTAINER_BYTES 2

/* A request for so many containers, each of which asks for nothing. Caller frees. */
static uint8_t *many_containers(size_t n)
{
    uint8_t *request = xmalloc(n * EMPTY_CONTAINER_BYTES);
    for (size_t i = 0; i < n; i++)
        memcpy(request + i * EMPTY_CONTAINER_BYTES, "\x0a\x00", EMPTY_CONTAINER_BYTES);
    return request;
}

static V1beta1__AllocateRequest *unpack(struct proto_arena *a, size_t n)
{
    auto_free uint8_t *request = many_containers(n);
    return v1beta1__allocate_request__unpack(&a->allocator, n * EMPTY_CONTAINER_BYTES, request);
}

Test(proto_arena, what_fits_unpacks_and_is_given_back_at_the_end)
{
    struct proto_arena a;
    proto_arena_init(&a, 1 << 20);
    const V1beta1__AllocateRequest *m = unpack(&a, 1000);
    cr_assert_not_null(m);
    cr_expect_eq(m->n_container_requests, 1000);
    cr_expect_lt(a.left, 1 << 20);
    proto_arena_done(&a);
    cr_expect_eq(a.left, 1 << 20);
}

/* The leak checker looks too. */
Test(proto_arena, what_does_not_fit_does_not_unpack_and_leaves_nothing)
{
    for (size_t bytes = 0; bytes < 64000; bytes += 997) {
        struct proto_arena a;
        proto_arena_init(&a, bytes);
        cr_expect_null(unpack(&a, 1000), "with %zu bytes", bytes);
        proto_arena_done(&a);
        cr_expect_eq(a.left, bytes);
    }
}

static int never(void *arg, const char *const *ids, size_t n, struct entry *ret, struct err *e)
{
    (void)ids;
    (void)n;
    (void)ret;
    ++*(int *)arg;
    return err_set(e, ERR_NOT_FOUND, "not in this test");
}

static int never_preferred(void *arg, const struct plugin_preference *p, const char **ret_ids,
                           struct err *e)
{
    (void)p;
    (void)ret_ids;
    ++*(int *)arg;
    return err_set(e, ERR_NOT_FOUND, "not in this test");
}

/* The transport takes messages of this size; a container took 336 bytes, of two in the message. */
Test(proto_arena, request_for_more_containers_than_there_are_is_refused_unanswered)
{
    static const size_t counts[] = {257, 20000, 500000};
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        auto_free uint8_t *request = many_containers(counts[i]);
        size_t len = counts[i] * EMPTY_CONTAINER_BYTES;
        struct plugin_bytes answer = {0};
        auto_err struct err e = {0};
        auto_err struct err also = {0};
        int asked = 0;
        cr_expect_eq(plugin_answer_allocate(request, len, never, &asked, &answer, &e),
                     -(int)ERR_INVALID);
        cr_expect_eq(plugin_answer_prefer(request, len, never_preferred, &asked, &answer, &also),
                     -(int)ERR_INVALID);
        cr_expect_eq(asked, 0, "%zu containers: %s, %s", counts[i], err_msg(&e), err_msg(&also));
    }
}
