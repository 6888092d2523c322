/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread asks a gate about many tokens, as that of a port does, while another reviews them and
 * time passes: everyone who waits is told, and a token is allowed if its name says so.
 */
#include "service/access_gate.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

enum { TOKENS = 40, ROUNDS = 4000 };

static int review(struct kc *c, struct scope *s, const struct kc_target *t,
                  const struct kc_write *w, json_t **ret, struct err *e)
{
    const json_t *spec = json_object_get(w->body, "spec");
    (void)c;
    (void)s;
    (void)e;
    if (strcmp(t->res->plural, "tokenreviews") == 0)
        *ret = json_pack("{s:{s:b, s:{s:O}}}", "status", "authenticated", 1, "user", "username",
                         json_object_get(spec, "token"));
    else
        *ret = json_pack("{s:{s:b}}", "status", "allowed",
                         *json_string_value(json_object_get(spec, "user")) == 'g');
    return 0;
}

static const struct kc_ops ops = {.create = review};

struct runner {
    struct access_gate *gate;
    struct scope *scope;
};

static void *run(void *arg)
{
    const struct runner *r = arg;
    int rc = access_gate_run(r->gate, r->scope, NULL);
    assert(rc == -(int)ERR_CANCELED);
    return NULL;
}

static enum access ask(struct access_gate *g, const char *token)
{
    struct access_key key;
    enum access a = access_gate_ask(g, token, strlen(token), (uint32_t)token[1], &key);
    while (a == ACCESS_PENDING) {
        struct pollfd decided = {.fd = access_gate_fd(g), .events = POLLIN};
        (void)poll(&decided, 1, 10000);
        assert(decided.revents);
        access_gate_heard(g);
        a = access_gate_result(g, &key);
    }
    return a;
}

int main(void)
{
    struct kc kc = {.ops = &ops};
    struct clock *clk = clock_fake_new(0);
    const struct access_gate_options o = {.kc = &kc, .clk = clk, .path = "/metrics"};
    struct runner r = {.scope = scope_new(NULL, -1)};
    pthread_t thread;
    int allowed = 0;
    int refused = 0;
    int rc = access_gate_new(&o, &r.gate, NULL);
    assert(rc == 0);
    rc = pthread_create(&thread, NULL, run, &r);
    assert(rc == 0);
    for (int i = 0; i < ROUNDS; i++) {
        char token[16];
        (void)snprintf(token, sizeof(token), "%c%d", i % 2 ? 'g' : 'b', i % TOKENS);
        enum access a = ask(r.gate, token);
        assert(a == (i % 2 ? ACCESS_ALLOWED : ACCESS_FORBIDDEN));
        allowed += a == ACCESS_ALLOWED;
        refused += a == ACCESS_FORBIDDEN;
        clock_fake_advance(clk, 1000);
    }
    scope_cancel(r.scope);
    (void)pthread_join(thread, NULL);
    (void)access_gate_free(r.gate);
    (void)scope_free(r.scope);
    (void)clock_free(clk);
    (void)printf("%d allowed, %d refused\n", allowed, refused);
    return 0;
}
