/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin's threads: a list that one thread reads while another looks at its objects, to the end
 * or to a part of it; and many agents that are asked at the same time.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"

#include "kubectl/command.h"
#include "kubectl/read_ahead.h"
#include "service/resources.h"

enum { OBJECTS = 2000, AGENTS = 64, ROUNDS = 20 };

static int list(struct kc *c, struct scope *s, const struct kc_target *t,
                const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                struct err *e)
{
    int n = strcmp(t->res->plural, "pods") == 0 ? AGENTS : OBJECTS;
    (void)c;
    (void)s;
    (void)o;
    for (int i = 0; i < n; i++) {
        auto_free char *name = xasprintf("n%02d", i);
        auto_json json_t *obj =
            json_pack("{s:{s:s}, s:{s:s, s:[{s:[s]}]}, s:{s:[{s:s, s:s}]}}", "metadata", "name",
                      name, "spec", "nodeName", name, "containers", "args", "--metrics-addr=:8080",
                      "status", "conditions", "type", "Ready", "status", "True");
        TRY(fn(arg, obj, e));
    }
    if (ret_version)
        *ret_version = xstrdup("1");
    return 0;
}

static const struct kc_ops ops = {.list = list};

struct looking {
    int seen, most;
};

static int look(void *arg, const json_t *obj, struct err *e)
{
    struct looking *l = arg;
    (void)obj;
    return ++l->seen == l->most ? err_set(e, ERR_CANCELED, "enough") : 0;
}

static void read_a_list(struct kc *kc, struct scope *s, int most)
{
    auto_err struct err e = {0};
    auto_free char *version = NULL;
    struct looking l = {.most = most};
    const struct kc_target t = {.res = &resource_devices};
    auto_read_ahead struct read_ahead *a = NULL;
    int rc = read_ahead_begin(kc, s, &t, &(struct kc_list_opts){0}, &a, &e);
    assert(rc == 0);
    rc = read_ahead_each(a, look, &l, &version, &e);
    assert(most ? rc == -ERR_CANCELED && l.seen == most : rc == 0 && l.seen == OBJECTS);
    (void)rc;
}

static int page(void *arg, struct scope *s, const struct pod_page *at, char **ret, struct err *e)
{
    (void)arg;
    (void)s;
    (void)e;
    *ret = xasprintf("DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-%s\"} 50\n", at->pod);
    return 0;
}

static void ask_agents(struct kc *kc, struct scope *s)
{
    char *text = NULL;
    size_t len = 0;
    struct command c = {.kc = kc,
                        .page = page,
                        .scope = s,
                        .screen = {.columns = 80},
                        .clock = clock_real(),
                        .out = open_memstream(&text, &len),
                        .err = stderr};
    int code = command_top(&c, "cleave-node", /* node= */ NULL);
    (void)fclose(c.out);
    assert(code == COMMAND_OK && strstr(text, "\nn00\n") && strstr(text, "\nn63\n"));
    (void)code;
    free(text);
}

int main(void)
{
    struct kc kc = {.ops = &ops};
    auto_scope struct scope *s = scope_new(/* parent= */ NULL, /* timeout_ms= */ -1);
    for (int i = 0; i < ROUNDS; i++) {
        read_a_list(&kc, s, /* most= */ 0);
        read_a_list(&kc, s, 1 + i * 7);
        ask_agents(&kc, s);
    }
    return 0;
}
