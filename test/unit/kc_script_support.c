/* SPDX-License-Identifier: Apache-2.0 */
#include "kc_script_support.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

struct script {
    struct kc base;
    const struct script_call *calls;
    struct clock *clk;
    size_t used;
    int timeout_s;
    char *fields, *labels;
};

static struct script *script_of(struct kc *c)
{
    return (struct script *)(void *)c;
}

static json_t *object_of(char *name, char *version)
{
    char uid[2] = "u";
    bool is_broken = *name == '?' || strncmp(name, "bad", 3) == 0;
    name += *name == '?';
    if (*version && !(*version >= '0' && *version <= '9'))
        uid[0] = *version++;
    json_t *o = json_pack("{s:{s:s,s:s,s:s}}", "metadata", "name", name, "uid", uid,
                          "resourceVersion", version);
    if (is_broken)
        (void)json_object_set_new(o, "spec", json_integer(1));
    return o;
}

static json_t *bookmark_of(const char *version, bool end)
{
    json_t *o = json_pack("{s:{s:s}}", "metadata", "resourceVersion", version);
    if (end)
        (void)json_object_set_new(json_object_get(o, "metadata"), "annotations",
                                  json_pack("{s:s}", "k8s.io/initial-events-end", "true"));
    return o;
}

static int bring_one(char *word, kc_change_fn *fn, void *arg, struct err *e)
{
    char *at = strchr(word, '@');
    cr_assert(at);
    *at = '\0';
    bool is_bookmark = *word == '.' || *word == '!';
    auto_json json_t *o =
        is_bookmark ? bookmark_of(at + 1, *word == '!') : object_of(word + 1, at + 1);
    static const enum kc_change changes[] = {
        ['+'] = KC_ADDED,    ['~'] = KC_MODIFIED, ['-'] = KC_DELETED,
        ['.'] = KC_BOOKMARK, ['!'] = KC_BOOKMARK,
    };
    return fn(arg, changes[(unsigned char)*word], o, e);
}

static int bring(const char *events, kc_change_fn *fn, void *arg, struct err *e)
{
    auto_free char *text = xstrdup(events ? events : "");
    char *rest = text;
    for (char *word; (word = strsep(&rest, " "));)
        if (*word)
            TRY(bring_one(word, fn, arg, e));
    return 0;
}

static const struct script_call *next(struct script *sc, enum script_verb verb, const char *from)
{
    const struct script_call *call = &sc->calls[sc->used];
    cr_assert_eq((int)call->verb, (int)verb, "call %zu: verb %d, expected %d", sc->used, (int)verb,
                 (int)call->verb);
    cr_assert_str_eq(from ? from : "(none)", call->from ? call->from : "(none)", "call %zu",
                     sc->used);
    sc->used++;
    return call;
}

static int end(struct script *sc, const struct script_call *call, struct err *e)
{
    clock_fake_advance(sc->clk, call->lasts_ms);
    if (!call->end.kind)
        return 0;
    int rc = err_set(e, call->end.kind, "%s", call->end.msg ? call->end.msg : "scripted");
    e->http_status = call->end.http_status;
    e->sys_errno = call->end.sys_errno;
    e->reason = call->end.reason;
    e->retry_after_ms = call->end.retry_after_ms;
    return rc;
}

struct item_adapter {
    kc_item_fn *fn;
    void *arg;
};

static int adapt(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    (void)change;
    const struct item_adapter *a = arg;
    return a->fn(a->arg, obj, e);
}

static int script_list(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                       struct err *e)
{
    (void)s;
    (void)t;
    struct script *sc = script_of(c);
    const struct script_call *call = next(sc, SCRIPT_LIST, o->resource_version);
    cr_assert_eq(o->page_size, call->page_size, "call %zu", sc->used - 1);
    TRY(bring(call->brings, adapt, &(struct item_adapter){.fn = fn, .arg = arg}, e));
    TRY(end(sc, call, e));
    *ret_version = xstrdup(call->version);
    return 0;
}

static int script_watch(struct kc *c, struct scope *s, const struct kc_target *t,
                        const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    (void)s;
    (void)t;
    struct script *sc = script_of(c);
    const struct script_call *call =
        next(sc, o->send_initial_events ? SCRIPT_STREAM : SCRIPT_WATCH, o->resource_version);
    sc->timeout_s = o->timeout_s;
    xstr_set(&sc->fields, o->fields);
    xstr_set(&sc->labels, o->labels);
    TRY(bring(call->brings, fn, arg, e));
    return end(sc, call, e);
}

static struct kc *script_free(struct kc *c)
{
    struct script *sc = script_of(c);
    free(sc->fields);
    free(sc->labels);
    free(sc);
    return NULL;
}

struct kc *kc_script_new(const struct script_call *calls, struct clock *clk)
{
    static const struct kc_ops ops = {.list = script_list,
                                      .watch = script_watch,
                                      .free = script_free};
    struct script *sc = xmalloc(sizeof(*sc));
    sc->base.ops = &ops;
    sc->calls = calls;
    sc->clk = clk;
    return &sc->base;
}

static const struct script *const_script_of(const struct kc *c)
{
    return (const struct script *)(const void *)c;
}

size_t kc_script_used(const struct kc *c)
{
    return const_script_of(c)->used;
}

const char *kc_script_fields(const struct kc *c)
{
    const char *s = const_script_of(c)->fields;
    return s ? s : "";
}

const char *kc_script_labels(const struct kc *c)
{
    const char *s = const_script_of(c)->labels;
    return s ? s : "";
}

int kc_script_timeout_s(const struct kc *c)
{
    return const_script_of(c)->timeout_s;
}
