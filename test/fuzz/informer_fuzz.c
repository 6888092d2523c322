/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "kubeclient/informer.h"
#include "kubeclient/watch_decoder.h"

/*
 * Whatever a watch stream brings, the store stays in step with what handlers were told, and its
 * index with the store. The input is served three times: as an initial state that may stay
 * incomplete, as the changes after it, and as a relist.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const struct kc_resource nodes = {.group = "",
                                         .version = "v1",
                                         .plural = "nodes",
                                         .kind = "Node"};

struct served {
    struct kc base;
    const char *data;
    size_t len;
};

static int serve(struct kc *c, struct scope *s, const struct kc_target *t,
                 const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    (void)s;
    (void)t;
    (void)o;
    const struct served *srv = (const struct served *)(void *)c;
    auto_watch_decoder struct watch_decoder *d = watch_decoder_new(1 << 20, fn, arg);
    TRY(watch_decoder_feed(d, srv->data, srv->len, e));
    return watch_decoder_finish(d, e);
}

static int no_list(struct kc *c, struct scope *s, const struct kc_target *t,
                   const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                   struct err *e)
{
    (void)c;
    (void)s;
    (void)t;
    (void)o;
    (void)fn;
    (void)arg;
    (void)ret_version;
    return err_set(e, ERR_UNAVAILABLE, "no lists here");
}

static int transform(const json_t *obj, void **ret, struct err *e)
{
    const char *pool = JX_STR_AT(obj, "metadata", "labels", "pool");
    if (!pool)
        return err_set(e, ERR_INVALID, "no pool");
    *ret = xstrdup(pool);
    return 0;
}

static void index_pool(const struct object *o, struct store_index_out *out)
{
    store_index_emit(out, object_payload(o));
}

#define MAX_OBJECTS 3 /* so many that a short input has more */

static void count(void *arg, const struct object *before, const struct object *after, bool stale)
{
    (void)stale;
    int64_t *alive = arg;
    assert(before || after);
    *alive += !before;
    *alive -= !after;
}

static void check(struct informer *inf, int64_t alive)
{
    struct store *st = informer_store(inf);
    auto_object_list struct object_list all = {0};
    store_list(st, &all);
    assert((int64_t)all.count == alive && all.count <= MAX_OBJECTS);
    for (size_t i = 0; i < all.count; i++) {
        auto_object_list struct object_list found = {0};
        store_by_index(st, "pool", object_payload(all.items[i]), &found);
        bool listed = false;
        for (size_t k = 0; k < found.count; k++)
            listed |= found.items[k] == all.items[i];
        assert(listed);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct kc_ops ops = {.watch = serve, .list = no_list};
    static const struct object_type type = {&nodes, transform, free};
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    struct served srv = {.base.ops = &ops, .data = (const char *)data, .len = len};
    int64_t alive = 0;
    auto_clock struct clock *clk = clock_fake_new(0);
    auto_informer struct informer *inf =
        informer_new(&srv.base, &(struct informer_opts){.type = &type,
                                                        .clk = clk,
                                                        .max_objects = MAX_OBJECTS});
    store_add_index(informer_store(inf), "pool", index_pool);
    informer_add_handler(inf, count, &alive);
    for (int i = 0; i < 3; i++) {
        auto_err struct err e = {0};
        (void)!informer_step(inf, NULL, NULL, &e);
        check(inf, alive);
    }
    return 0;
}
