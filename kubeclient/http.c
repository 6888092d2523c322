/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/http.h"

#include <assert.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "kubeclient/list_decoder.h"
#include "kubeclient/status.h"
#include "kubeclient/transport.h"
#include "kubeclient/url.h"
#include "kubeclient/watch_decoder.h"

#define DEFAULT_BODY_BYTES (4UL << 20)
#define DEFAULT_LIST_BYTES (1UL << 30)
#define DEFAULT_LIST_PAGES 10000
#define DEFAULT_TIMEOUT_MS 60000
/* Bound of a whole list, in request timeouts: by then the API server has dropped the version of its
 * continuations (etcd is compacted every 5 min). */
#define LIST_TIMEOUTS     10
#define WATCH_GRACE_MS    30000
#define MAX_TRIES         10
#define RESET_RETRY_UNITS 1 /* client-go assumes a Retry-After of 1 s */

struct kc_http {
    struct kc base;
    struct kc_config config;
    struct kc_http_opts opts; /* defaults filled in; user_agent owned */
    char *user_agent;
    struct transport *transport;
};

static struct kc_http *http_of(struct kc *c)
{
    return (struct kc_http *)c;
}

/* The parts of a call that are the same in all its tries. */
struct request {
    const char *method, *path, *body, *content_type;
    const char *accept; /* NULL: JSON */
    transport_body_fn *on_body;
    void *arg;
    bool is_watch;
};

/* ---- one request with its repetitions ---- */

/* Answers with Retry-After that only another request can resolve: a version that the server has not
 * reached, a disruption budget that refuses. The caller handles these; client-go repeats them, too,
 * for 40 s. */
static bool is_for_the_caller(const struct err *e)
{
    return kc_err_is_version_too_large(e) || (e->reason && !strcmp(e->reason, "DisruptionBudget"));
}

/* Units to wait before the next try, or -1: no further try (client-go rest/with_retry.go). A watch
 * may last so long that the waiting would hide for minutes that nothing is received. */
static int64_t retry_after(const struct request *r, const struct exchange *x, const struct err *e)
{
    if (r->is_watch)
        return -1;
    if (x->status == 429 || x->status >= 500)
        return is_for_the_caller(e) ? -1 : x->retry_after_s;
    bool read = !strcmp(r->method, "GET");
    return read && x->connection_lost && !x->received ? RESET_RETRY_UNITS : -1;
}

static int judge(const struct exchange *x, int64_t unit_ms, struct err *e)
{
    if (x->status >= 200 && x->status < 300)
        return 0;
    int64_t after_ms = x->retry_after_s > 0 ? x->retry_after_s * unit_ms : 0;
    return kc_status_from_body(x->status, sb_str(&x->error_body), x->error_body.len, after_ms, e);
}

static void prepare(struct exchange *x, const struct request *r)
{
    exchange_init(x);
    x->method = r->method;
    x->path = r->path;
    x->body = r->body;
    x->content_type = r->content_type;
    x->accept = r->accept;
    x->on_body = r->on_body;
    x->arg = r->arg;
}

/* One try. After an error, *ret_wait >= 0 requests another one after so many units. */
static int try_once(struct kc_http *h, struct scope *s, const struct request *r, bool *fresh_token,
                    int64_t *ret_wait, struct err *e)
{
    auto_exchange struct exchange x;
    prepare(&x, r);
    int rc = transport_do(h->transport, s, &x, e);
    if (rc == 0)
        rc = judge(&x, h->opts.retry_unit_ms, e);
    if (rc == 0)
        return 0;
    *ret_wait = retry_after(r, &x, e);
    if (x.status == 401 && !*fresh_token && transport_drop_token(h->transport, x.token)) {
        *fresh_token = true;
        *ret_wait = 0;
    }
    return rc;
}

static int send_request(struct kc_http *h, struct scope *s, const struct request *r, struct err *e)
{
    bool fresh_token = false;
    for (int tries = 1;; tries++) {
        auto_err struct err failure = {0};
        int64_t wait = -1;
        int rc = try_once(h, s, r, &fresh_token, &wait, &failure);
        if (rc == 0)
            return 0;
        int64_t wait_ms = wait * h->opts.retry_unit_ms;
        /* When the deadline comes before the next try, the answer in hand is a better error than a
         * timeout. */
        if (wait < 0 || tries > MAX_TRIES || wait_ms >= scope_left_ms(s) ||
            !scope_wait_ms(s, wait_ms))
            return scope_is_canceled(s) ? scope_check(s, e) : err_move(e, &failure);
    }
}

/* A message may quote the server's text, so control characters are removed: they could move a
 * terminal's cursor. */
static void clean(struct err *e)
{
    for (char *c = e ? e->msg : NULL; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

static int wrap(int rc, const struct request *r, struct err *e)
{
    if (rc == 0)
        return 0;
    clean(e);
    return err_wrap(e, "%s %.*s", r->method, (int)strcspn(r->path, "?"), r->path);
}

/* ---- requests whose answer is one document ---- */

struct document {
    struct sb text;
    bool wanted;
};

static int keep_text(void *arg, const char *data, size_t len, struct err *e)
{
    struct document *d = arg;
    if (!d->wanted)
        return 0;
    sb_add_mem(&d->text, data, len);
    return d->text.overflow
               ? err_set(e, ERR_TOO_LARGE, "the answer is larger than %zu bytes", d->text.cap)
               : 0;
}

static int parse_document(const struct document *d, json_t **ret, struct err *e)
{
    auto_json json_t *obj = NULL;
    if (jx_parse(sb_str(&d->text), d->text.len, d->text.cap, &obj, e) < 0)
        return err_wrap(e, "the answer");
    if (!json_is_object(obj))
        return err_set(e, ERR_PROTOCOL, "the answer is not an object");
    *ret = TAKE(obj);
    return 0;
}

static int exchange_document(struct kc_http *h, struct scope *parent, struct request *r,
                             json_t **ret_obj, struct err *e)
{
    auto_scope struct scope *s = scope_new(parent, h->opts.request_timeout_ms);
    struct document d = {.text = SB_INIT(h->opts.max_body_bytes), .wanted = ret_obj};
    r->on_body = keep_text;
    r->arg = &d;
    int rc = send_request(h, s, r, e);
    if (rc == 0 && ret_obj)
        rc = parse_document(&d, ret_obj, e);
    sb_done(&d.text);
    return wrap(rc, r, e);
}

static int http_get(struct kc *c, struct scope *s, const struct kc_target *t, json_t **ret_obj,
                    struct err *e)
{
    auto_sb struct sb path = SB_INIT(URL_MAX_BYTES);
    url_add_target(&path, t);
    TRY(sb_check(&path, e));
    struct request r = {.method = "GET", .path = sb_str(&path)};
    return exchange_document(http_of(c), s, &r, ret_obj, e);
}

/* ---- writes ---- */

static int write_document(struct kc *c, struct scope *s, const char *method,
                          const struct kc_target *t, const struct kc_write *w,
                          const char *content_type, json_t **ret_obj, struct err *e)
{
    auto_sb struct sb path = SB_INIT(URL_MAX_BYTES);
    url_add_target(&path, t);
    url_add_query(&path, "fieldManager", w->manager);
    url_add_query(&path, "force", w->force ? "true" : NULL);
    url_add_query(&path, "dryRun", w->dry_run ? "All" : NULL);
    TRY(sb_check(&path, e));
    auto_free char *body = jx_dump(w->body);
    struct request r = {.method = method,
                        .path = sb_str(&path),
                        .body = body,
                        .content_type = content_type};
    return exchange_document(http_of(c), s, &r, ret_obj, e);
}

static int http_create(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    struct kc_target collection = *t;
    if (!t->subresource)
        collection.name = NULL;
    return write_document(c, s, "POST", &collection, w, "application/json", ret_obj, e);
}

static int http_update(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    return write_document(c, s, "PUT", t, w, "application/json", ret_obj, e);
}

static int http_patch(struct kc *c, struct scope *s, const struct kc_target *t,
                      const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    static const char *const types[] = {
        [KC_MERGE] = "application/merge-patch+json",
        [KC_JSON_PATCH] = "application/json-patch+json",
        [KC_APPLY] = "application/apply-patch+yaml", /* JSON is YAML */
    };
    return write_document(c, s, "PATCH", t, w, types[w->how], ret_obj, e);
}

static void set_string(json_t *obj, const char *key, const char *value)
{
    if (value)
        (void)json_object_set_new(obj, key, json_string(value));
}

static json_t *delete_options(const struct kc_remove_opts *o)
{
    json_t *body = json_pack("{s:s,s:s}", "apiVersion", "v1", "kind", "DeleteOptions");
    json_t *preconditions = json_object();
    set_string(preconditions, "uid", o->if_uid);
    set_string(preconditions, "resourceVersion", o->if_resource_version);
    (void)json_object_set_new(body, "preconditions", preconditions);
    set_string(body, "propagationPolicy", o->propagation ? o->propagation : "Background");
    if (o->has_grace)
        (void)json_object_set_new(body, "gracePeriodSeconds", json_integer(o->grace_s));
    return body;
}

static int http_remove(struct kc *c, struct scope *s, const struct kc_target *t,
                       const struct kc_remove_opts *o, struct err *e)
{
    auto_json json_t *body = delete_options(o);
    return write_document(c, s, "DELETE", t, &(struct kc_write){.body = body}, "application/json",
                          /* ret_obj= */ NULL, e);
}

/* ---- list ---- */

/* The type of a list without spec and status, which API servers make of any list (kubernetes
 * staging/src/k8s.io/apimachinery/pkg/apis/meta/v1, PartialObjectMetadataList); another server may
 * answer with whole objects. */
#define METADATA_ONLY                                                                              \
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json"

/* The state of a list call from page to page. */
struct listing {
    const struct kc_target *t;
    const struct kc_list_opts *o;
    kc_item_fn *fn;
    void *arg;
    char *version, *more;
    struct list_decoder *decoder; /* of the present page */
    size_t bytes, items, pages;   /* so far */
    const struct kc_http_opts *bounds;
};

static void listing_done(struct listing *l)
{
    free(l->version);
    free(l->more);
}

static int decode_page(void *arg, const char *data, size_t len, struct err *e)
{
    struct listing *l = arg;
    l->bytes += len;
    if (l->bytes > l->bounds->max_list_bytes)
        return err_set(e, ERR_TOO_LARGE, "the list is larger than %zu bytes",
                       l->bounds->max_list_bytes);
    return list_decoder_feed(l->decoder, data, len, e);
}

static int count_item(void *arg, const json_t *obj, struct err *e)
{
    struct listing *l = arg;
    if (++l->items > l->bounds->max_list_items)
        return err_set(e, ERR_TOO_LARGE, "the list has more than %zu objects",
                       l->bounds->max_list_items);
    return l->fn(l->arg, obj, e);
}

static int list_path(const struct kc_target *t, const struct kc_list_opts *o, const char *more,
                     struct sb *path, struct err *e)
{
    url_add_target(path, t);
    url_add_query(path, "labelSelector", o->labels);
    url_add_query(path, "fieldSelector", o->fields);
    if (o->page_size > 0)
        url_add_query_int(path, "limit", o->page_size);
    url_add_query(path, "continue", more);
    /* A continuation contains its version. */
    url_add_query(path, "resourceVersion", more ? NULL : o->resource_version);
    url_add_query(path, "resourceVersionMatch", more ? NULL : o->version_match);
    return sb_check(path, e);
}

/* A list without end must not be followed for ever. */
static int check_more(const struct listing *l, const char *more, struct err *e)
{
    if (more && l->more && strcmp(more, l->more) == 0)
        return err_set(e, ERR_PROTOCOL, "the list goes on where it has just been");
    if (more && l->pages >= l->bounds->max_list_pages)
        return err_set(e, ERR_TOO_LARGE, "the list has more than %zu pages",
                       l->bounds->max_list_pages);
    return 0;
}

static int next_page(struct kc_http *h, struct scope *parent, struct listing *l, struct err *e)
{
    auto_scope struct scope *s = scope_new(parent, h->opts.request_timeout_ms);
    auto_list_decoder struct list_decoder *decoder =
        list_decoder_new(h->opts.max_body_bytes, count_item, l);
    list_decoder_spare(decoder, l->o->shared, l->o->without);
    l->decoder = decoder;
    l->pages++;
    auto_sb struct sb path = SB_INIT(URL_MAX_BYTES);
    TRY(list_path(l->t, l->o, l->more, &path, e));
    struct request r = {.method = "GET",
                        .path = sb_str(&path),
                        .accept = l->o->metadata_only ? METADATA_ONLY : NULL,
                        .on_body = decode_page,
                        .arg = l};
    auto_free char *version = NULL;
    auto_free char *more = NULL;
    int rc = send_request(h, s, &r, e);
    if (rc == 0)
        rc = list_decoder_finish(decoder, &version, &more, e);
    if (rc == 0)
        rc = check_more(l, more, e);
    TRY(wrap(rc, &r, e));
    xstr_set(&l->version, version);
    xstr_set(&l->more, more);
    return 0;
}

static int http_list(struct kc *c, struct scope *parent, const struct kc_target *t,
                     const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                     struct err *e)
{
    struct kc_http *h = http_of(c);
    const int64_t whole_ms = h->opts.request_timeout_ms * LIST_TIMEOUTS;
    auto_scope struct scope *s = scope_new(parent, whole_ms);
    __attribute__((cleanup(listing_done))) struct listing l = {.t = t,
                                                               .o = o,
                                                               .fn = fn,
                                                               .arg = arg,
                                                               .bounds = &h->opts};
    int rc;
    do
        rc = next_page(h, s, &l, e);
    while (rc == 0 && l.more);
    if (rc == -ERR_TIMEOUT && scope_left_ms(s) == 0 && (!parent || scope_left_ms(parent) > 0))
        return err_wrap(e, "the list takes longer than %lld ms", (long long)whole_ms);
    if (rc == 0 && ret_version)
        *ret_version = TAKE(l.version);
    return rc;
}

/* ---- watch ---- */

static int decode_events(void *arg, const char *data, size_t len, struct err *e)
{
    return watch_decoder_feed(arg, data, len, e);
}

static int watch_path(const struct kc_target *t, const struct kc_watch_opts *o, struct sb *path,
                      struct err *e)
{
    url_add_target(path, t);
    url_add_query(path, "watch", "true");
    url_add_query(path, "allowWatchBookmarks", "true");
    url_add_query(path, "labelSelector", o->labels);
    url_add_query(path, "fieldSelector", o->fields);
    url_add_query(path, "resourceVersion", o->resource_version);
    if (o->send_initial_events) {
        url_add_query(path, "sendInitialEvents", "true");
        url_add_query(path, "resourceVersionMatch", "NotOlderThan");
    }
    if (o->timeout_s > 0)
        url_add_query_int(path, "timeoutSeconds", o->timeout_s);
    return sb_check(path, e);
}

/* A server that holds the stream longer than requested is stuck. */
static struct scope *watch_scope(struct scope *parent, const struct kc_watch_opts *o)
{
    return scope_new(parent, o->timeout_s > 0 ? o->timeout_s * 1000LL + WATCH_GRACE_MS : -1);
}

static int http_watch(struct kc *c, struct scope *parent, const struct kc_target *t,
                      const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    struct kc_http *h = http_of(c);
    auto_scope struct scope *s = watch_scope(parent, o);
    auto_watch_decoder struct watch_decoder *decoder =
        watch_decoder_new(h->opts.max_body_bytes, fn, arg);
    auto_sb struct sb path = SB_INIT(URL_MAX_BYTES);
    TRY(watch_path(t, o, &path, e));
    struct request r = {.method = "GET",
                        .path = sb_str(&path),
                        .on_body = decode_events,
                        .arg = decoder,
                        .is_watch = true};
    int rc = send_request(h, s, &r, e);
    if (rc == 0)
        rc = watch_decoder_finish(decoder, e);
    return wrap(rc, &r, e);
}

/* ---- construction ---- */

static struct kc *http_free(struct kc *c)
{
    struct kc_http *h = http_of(c);
    (void)transport_free(h->transport);
    kc_config_done(&h->config);
    free(h->user_agent);
    free(h);
    return NULL;
}

static const struct kc_ops http_ops = {
    .get = http_get,
    .list = http_list,
    .create = http_create,
    .update = http_update,
    .patch = http_patch,
    .remove = http_remove,
    .watch = http_watch,
    .free = http_free,
};

static void set_opts(struct kc_http *h, const struct kc_http_opts *o)
{
    static const struct kc_http_opts none;
    h->opts = o ? *o : none;
    if (!h->opts.max_body_bytes)
        h->opts.max_body_bytes = DEFAULT_BODY_BYTES;
    if (!h->opts.max_list_bytes)
        h->opts.max_list_bytes = DEFAULT_LIST_BYTES;
    if (!h->opts.max_list_items)
        h->opts.max_list_items = KC_MAX_OBJECTS;
    if (!h->opts.max_list_pages)
        h->opts.max_list_pages = DEFAULT_LIST_PAGES;
    if (!h->opts.request_timeout_ms)
        h->opts.request_timeout_ms = DEFAULT_TIMEOUT_MS;
    if (!h->opts.retry_unit_ms)
        h->opts.retry_unit_ms = 1000;
    if (!h->opts.clock)
        h->opts.clock = clock_real();
    const char *agent = h->opts.user_agent;
    h->user_agent = xstrdup(agent ? agent : "cleave-controller/" CLEAVE_VERSION);
    h->opts.user_agent = h->user_agent;
}

int kc_http_new(const struct kc_config *config, const struct kc_http_opts *o, struct kc **ret,
                struct err *e)
{
    assert(config->server);
    struct kc_http *h = xmalloc(sizeof(*h));
    h->base.ops = &http_ops;
    kc_config_copy(&h->config, config);
    set_opts(h, o);
    int rc = transport_new(&h->config, h->user_agent, h->opts.clock, &h->transport, e);
    if (rc < 0)
        (void)http_free(&h->base);
    else
        *ret = &h->base;
    return rc;
}

const struct way *kc_http_way(const struct kc *c)
{
    return transport_way(((const struct kc_http *)c)->transport);
}
