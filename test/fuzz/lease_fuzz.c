/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>

#include "base/jx.h"
#include "base/log.h"

#include "kubeclient/client.h"
#include "kubeclient/elector.h"
#include "service/conditions.h"

/*
 * Documents that others can write by hand: whatever stands in the Lease, an attempt ends, and
 * nobody leads without having written; whatever stands where conditions should be, what is read of
 * it survives being written.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct served {
    struct kc base;
    const json_t *doc;
    bool written;
};

static struct served *served_of(struct kc *c)
{
    return (struct served *)(void *)c;
}

static int get(struct kc *c, struct scope *s, const struct kc_target *t, json_t **ret,
               struct err *e)
{
    (void)s;
    (void)t;
    (void)e;
    *ret = json_deep_copy(served_of(c)->doc);
    return 0;
}

static int update(struct kc *c, struct scope *s, const struct kc_target *t,
                  const struct kc_write *w, json_t **ret, struct err *e)
{
    (void)s;
    (void)t;
    (void)e;
    served_of(c)->written = true;
    *ret = json_deep_copy(w->body);
    return 0;
}

static void try_lease(const json_t *doc)
{
    static const struct kc_ops ops = {.get = get, .update = update};
    struct served srv = {.base.ops = &ops, .doc = doc};
    auto_clock struct clock *clk = clock_fake_new(0);
    auto_scope struct scope *s = scope_new(NULL, -1);
    auto_elector struct elector *el =
        elector_new(&srv.base, &(struct elector_opts){.ns = "n",
                                                      .name = "l",
                                                      .identity = "me",
                                                      .clk = clk,
                                                      .seed = 1});
    for (int i = 0; i < 3; i++) {
        auto_err struct err e = {0};
        int64_t wait_ms;
        (void)!elector_step(el, s, &wait_ms, &e);
        assert(!elector_is_leader(el) || srv.written);
        clock_fake_advance(clk, 2000);
    }
}

static void try_conditions(const json_t *doc)
{
    auto_conditions struct conditions read = {0};
    auto_conditions struct conditions again = {0};
    conditions_from_json(doc, &read);
    auto_json json_t *written = conditions_to_json(&read);
    conditions_from_json(written, &again);
    assert(conditions_equal(&read, &again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    auto_json json_t *doc = NULL;
    if (jx_parse((const char *)data, len, 1 << 20, &doc, NULL) < 0)
        return 0;
    try_conditions(doc);
    if (json_is_object(doc))
        try_lease(doc);
    return 0;
}
