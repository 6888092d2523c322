/* SPDX-License-Identifier: Apache-2.0 */
#include "kc_mini_support.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

struct mini {
    struct kc base;
    pthread_mutex_t mu;
    /* guarded by mu */
    json_t *objects; /* array */
    int version, calls, writes;
    int fail, lose;
    enum err_kind kind;
    int http_status;
    bool refuse_watches;
};

static struct mini *mini_of(struct kc *c)
{
    return (struct mini *)(void *)c;
}

static size_t find(const struct mini *m, const char *name)
{
    size_t i = 0;
    while (i < json_array_size(m->objects) &&
           strcmp(JX_STR_AT(json_array_get(m->objects, i), "metadata", "name"), name) != 0)
        i++;
    return i;
}

static int enter(struct mini *m, struct scope *s, struct err *e)
{
    if (s)
        TRY(scope_check(s, e));
    m->calls++;
    if (m->fail <= 0)
        return 0;
    m->fail--;
    int rc = err_set(e, m->kind, "ordered failure");
    if (e)
        e->http_status = m->http_status;
    return rc;
}

static void stamp(struct mini *m, json_t *obj)
{
    char version[16];
    (void)snprintf(version, sizeof(version), "%d", ++m->version);
    (void)json_object_set_new(json_object_get(obj, "metadata"), "resourceVersion",
                              json_string(version));
}

static int leave(struct mini *m, const json_t *obj, json_t **ret, struct err *e)
{
    m->writes++;
    if (m->lose > 0) {
        m->lose--;
        return err_set(e, ERR_TIMEOUT, "the answer was lost");
    }
    if (ret)
        *ret = json_deep_copy(obj);
    return 0;
}

static int mini_get(struct kc *c, struct scope *s, const struct kc_target *t, json_t **ret,
                    struct err *e)
{
    struct mini *m = mini_of(c);
    HOLD(&m->mu);
    TRY(enter(m, s, e));
    json_t *obj = json_array_get(m->objects, find(m, t->name));
    if (!obj)
        return err_set(e, ERR_NOT_FOUND, "%s: not found", t->name);
    *ret = json_deep_copy(obj);
    return 0;
}

static int mini_create(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_write *w, json_t **ret, struct err *e)
{
    (void)t;
    struct mini *m = mini_of(c);
    HOLD(&m->mu);
    TRY(enter(m, s, e));
    const char *name = JX_STR_AT(w->body, "metadata", "name");
    if (json_array_get(m->objects, find(m, name)))
        return err_set(e, ERR_EXISTS, "%s: exists", name);
    json_t *obj = json_deep_copy(w->body);
    stamp(m, obj);
    (void)json_array_append_new(m->objects, obj);
    return leave(m, obj, ret, e);
}

static int mini_update(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_write *w, json_t **ret, struct err *e)
{
    struct mini *m = mini_of(c);
    HOLD(&m->mu);
    TRY(enter(m, s, e));
    size_t i = find(m, t->name);
    const json_t *old = json_array_get(m->objects, i);
    if (!old)
        return err_set(e, ERR_NOT_FOUND, "%s: not found", t->name);
    const char *version = JX_STR_AT(w->body, "metadata", "resourceVersion");
    if (!version || strcmp(version, JX_STR_AT(old, "metadata", "resourceVersion")) != 0)
        return err_set(e, ERR_CONFLICT, "%s: conflict", t->name);
    json_t *obj = json_deep_copy(w->body);
    stamp(m, obj);
    (void)json_array_set_new(m->objects, i, obj);
    return leave(m, obj, ret, e);
}

static int mini_patch(struct kc *c, struct scope *s, const struct kc_target *t,
                      const struct kc_write *w, json_t **ret, struct err *e)
{
    struct mini *m = mini_of(c);
    HOLD(&m->mu);
    TRY(enter(m, s, e));
    json_t *obj = json_array_get(m->objects, find(m, t->name));
    if (!obj)
        return err_set(e, ERR_NOT_FOUND, "%s: not found", t->name);
    auto_json json_t *body = json_deep_copy(w->body);
    (void)json_object_update(obj, body);
    stamp(m, obj);
    return leave(m, obj, ret, e);
}

static int mini_remove(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_remove_opts *o, struct err *e)
{
    (void)o;
    struct mini *m = mini_of(c);
    HOLD(&m->mu);
    TRY(enter(m, s, e));
    size_t i = find(m, t->name);
    if (json_array_remove(m->objects, i) < 0)
        return err_set(e, ERR_NOT_FOUND, "%s: not found", t->name);
    m->writes++;
    return 0;
}

static int mini_list(struct kc *c, struct scope *s, const struct kc_target *t,
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
    return err_set(e, ERR_FORBIDDEN, "lists are refused");
}

static json_t *snapshot(struct mini *m)
{
    HOLD(&m->mu);
    return json_deep_copy(m->objects);
}

static int mini_watch(struct kc *c, struct scope *s, const struct kc_target *t,
                      const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    (void)t;
    (void)o;
    struct mini *m = mini_of(c);
    if (m->refuse_watches)
        return err_set(e, ERR_FORBIDDEN, "watches are refused");
    auto_json json_t *all = snapshot(m);
    size_t i;
    json_t *obj;
    json_array_foreach(all, i, obj)
        TRY(fn(arg, KC_ADDED, obj, e));
    auto_json json_t *end = json_pack("{s:{s:s,s:{s:s}}}", "metadata", "resourceVersion", "1000",
                                      "annotations", "k8s.io/initial-events-end", "true");
    TRY(fn(arg, KC_BOOKMARK, end, e));
    (void)scope_wait_ms(s, -1);
    return scope_check(s, e);
}

static struct kc *mini_free(struct kc *c)
{
    struct mini *m = mini_of(c);
    json_decref(m->objects);
    (void)pthread_mutex_destroy(&m->mu);
    free(m);
    return NULL;
}

struct kc *kc_mini_new(void)
{
    static const struct kc_ops ops = {mini_get,   mini_list,   mini_create, mini_update,
                                      mini_patch, mini_remove, mini_watch,  mini_free};
    struct mini *m = xmalloc(sizeof(*m));
    m->base.ops = &ops;
    m->objects = json_array();
    (void)pthread_mutex_init(&m->mu, NULL);
    return &m->base;
}

void kc_mini_fail(struct kc *c, int n, enum err_kind kind, int http_status)
{
    struct mini *m = mini_of(c);
    HOLD(&m->mu);
    m->fail = n;
    m->kind = kind;
    m->http_status = http_status;
}

void kc_mini_lose_answers(struct kc *c, int n)
{
    struct mini *m = mini_of(c);
    HOLD(&m->mu);
    m->lose = n;
}

void kc_mini_refuse_watches(struct kc *c)
{
    mini_of(c)->refuse_watches = true;
}

json_t *kc_mini_object(struct kc *c, const char *name)
{
    struct mini *m = mini_of(c);
    HOLD(&m->mu);
    return json_deep_copy(json_array_get(m->objects, find(m, name)));
}

json_t *kc_mini_nth(struct kc *c, size_t i)
{
    struct mini *m = mini_of(c);
    HOLD(&m->mu);
    return json_deep_copy(json_array_get(m->objects, i));
}

void kc_mini_drop(struct kc *c, const char *name)
{
    struct mini *m = mini_of(c);
    HOLD(&m->mu);
    (void)json_array_remove(m->objects, find(m, name));
}

void kc_mini_put(struct kc *c, const json_t *obj)
{
    struct mini *m = mini_of(c);
    kc_mini_drop(c, JX_STR_AT(obj, "metadata", "name"));
    HOLD(&m->mu);
    json_t *copy = json_deep_copy(obj);
    stamp(m, copy);
    (void)json_array_append_new(m->objects, copy);
}

int kc_mini_calls(struct kc *c)
{
    HOLD(&mini_of(c)->mu);
    return mini_of(c)->calls;
}

int kc_mini_writes(struct kc *c)
{
    HOLD(&mini_of(c)->mu);
    return mini_of(c)->writes;
}
