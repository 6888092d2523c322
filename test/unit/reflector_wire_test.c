/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reflector over a real connection: that each row of the fallback table is recognized in the
 * form in which a server sends it. What follows from it is in reflector_test.c.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "kubeclient/http.h"
#include "kubeclient/reflector.h"
#include "test/unit/api_server_support.h"

static const struct kc_resource nodes = {.group = "",
                                         .version = "v1",
                                         .plural = "nodes",
                                         .kind = "Node"};

#define OBJECT(type, name, version)                                                                \
    "{\"type\":\"" type "\",\"object\":{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{"    \
    "\"name\":\"" name "\",\"uid\":\"u\",\"resourceVersion\":\"" version "\"}}}\n"
#define SYNCED(version)                                                                            \
    "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{"    \
    "\"resourceVersion\":\"" version                                                               \
    "\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n"
#define STATUS(code, reason, message, details)                                                     \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"code\":" code             \
    ",\"reason\":\"" reason "\",\"message\":\"" message "\"" details "}"
#define ERROR_EVENT(status) "{\"type\":\"ERROR\",\"object\":" status "}\n"

#define GONE     STATUS("410", "Expired", "too old resource version: 7 (100)", "")
#define INTERNAL STATUS("500", "InternalError", "etcd has gone away", "")
#define TOO_LARGE                                                                                  \
    STATUS("504", "Timeout", "Timeout: Too large resource version: 7, current: 5",                 \
           ",\"details\":{\"causes\":[{\"reason\":\"ResourceVersionTooLarge\",\"message\":"        \
           "\"Too large resource version\"}],\"retryAfterSeconds\":1}")
/* Before Kubernetes 1.19 only the message told. */
#define TOO_LARGE_OLD                                                                              \
    STATUS("504", "Timeout", "Timeout: Too large resource version: 7, current: 5", "")

struct rig {
    struct api_server *srv;
    struct kc *kc;
    struct scope *s;
    struct clock *clk;
    struct reflector *r;
    struct sb told;
    int64_t wait_ms;
};

static void on_begin(void *arg)
{
    struct rig *r = arg;
    sb_add(&r->told, "[ ");
}

static int on_item(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    (void)e;
    (void)change;
    struct rig *r = arg;
    sb_addf(&r->told, "%s ", JX_STR_AT(obj, "metadata", "name"));
    return 0;
}

static void on_commit(void *arg, const char *version)
{
    struct rig *r = arg;
    sb_addf(&r->told, "]%s ", version);
}

static int on_change(void *arg, enum kc_change change, const json_t *obj, const char *version,
                     struct err *e)
{
    (void)version;
    return on_item(arg, change, obj, e);
}

static void rig_init(struct rig *r)
{
    log_setup(LOG_ERROR, LOG_LOGFMT, 2);
    *r = (struct rig){.srv = api_server_new(NULL),
                      .s = scope_new(NULL, 120000),
                      .clk = clock_fake_new(0),
                      .told = SB_INIT(10000)};
    auto_free char *url = xstrdup(api_server_url(r->srv));
    const struct kc_config config = {.server = url};
    const struct kc_http_opts o = {.retry_unit_ms = 1};
    auto_err struct err e = {0};
    cr_assert_eq(kc_http_new(&config, &o, &r->kc, &e), 0, "%s", err_msg(&e));
    r->r = reflector_new(r->kc, &(struct reflector_opts){.target = {.res = &nodes},
                                                         .clk = r->clk,
                                                         .seed = 1,
                                                         .sink = {r, on_begin, on_item, on_commit,
                                                                  on_change}});
}

static void rig_done(struct rig *r)
{
    (void)reflector_free(r->r);
    (void)kc_free(r->kc);
    (void)api_server_free(r->srv);
    (void)scope_free(r->s);
    (void)clock_free(r->clk);
    sb_done(&r->told);
}

static void step(struct rig *r)
{
    auto_err struct err e = {0};
    (void)!reflector_step(r->r, r->s, &r->wait_ms, &e);
}

static const char *target(struct rig *r, size_t i)
{
    const struct api_request *req = api_server_request(r->srv, i);
    cr_assert_not_null(req, "request %zu never came", i);
    return req->target;
}

#define assert_asked(r, i, text)                                                                   \
    cr_assert_not_null(strstr(target(r, i), text), "request %d: %s", (int)(i), target(r, i))
#define assert_not_asked(r, i, text)                                                               \
    cr_assert_null(strstr(target(r, i), text), "request %d: %s", (int)(i), target(r, i))

static void answer_stream(struct rig *r, const char *events)
{
    api_server_add(r->srv, &(struct api_answer){.target_prefix = "/api/v1/nodes",
                                                .body = events,
                                                .cut_bytes = 7});
}

Test(reflector_wire, asks_for_a_watchlist_as_the_api_wants_it)
{
    struct rig r;
    rig_init(&r);
    answer_stream(&r, OBJECT("ADDED", "a", "3") SYNCED("7") OBJECT("MODIFIED", "a", "8"));
    answer_stream(&r, OBJECT("DELETED", "a", "9"));
    step(&r);
    step(&r);
    cr_assert_str_eq(sb_str(&r.told), "[ a ]7 a a ");
    assert_asked(&r, 0, "sendInitialEvents=true");
    assert_asked(&r, 0, "resourceVersionMatch=NotOlderThan");
    assert_asked(&r, 0, "allowWatchBookmarks=true");
    assert_asked(&r, 0, "timeoutSeconds=");
    assert_asked(&r, 1, "resourceVersion=8");
    assert_asked(&r, 1, "allowWatchBookmarks=true");
    assert_not_asked(&r, 1, "sendInitialEvents");
    rig_done(&r);
}

/* How a watch from version 7 ends, and what is asked next. */
struct row {
    const char *name;
    struct api_answer answer;
    bool relists, waits;
};

static const struct row rows[] = {
    {"410 as status", {.status = 410, .body = GONE}, true, true},
    {"410 as event", {.body = ERROR_EVENT(GONE)}, true, true},
    {"500 as status", {.status = 500, .body = INTERNAL}, false, true},
    {"500 as event", {.body = ERROR_EVENT(INTERNAL)}, false, true},
    {"503 of a proxy", {.status = 503, .body = "<html>down</html>"}, true, true},
    {"429", {.status = 429, .headers = "Retry-After: 1\r\n", .times = -1}, false, true},
    {"clean end at once", {.body = ""}, true, true},
    {"clean end after an event", {.body = OBJECT("ADDED", "b", "7")}, false, false},
    {"cut inside an event",
     {.body = OBJECT("ADDED", "b", "7") "{\"type\":\"AD", .cut_bytes = 50, .end = API_CUT},
     false,
     false},
    {"reset before any answer", {.status = -1, .end = API_RESET}, false, true},
    {"no JSON", {.body = "not json\n"}, true, true},
    {"403", {.status = 403, .body = STATUS("403", "Forbidden", "no", "")}, true, true},
};

static void check_row(const struct row *row)
{
    struct rig r;
    rig_init(&r);
    answer_stream(&r, SYNCED("7"));
    step(&r);
    api_server_add(r.srv, &row->answer);
    step(&r);
    cr_assert_eq(r.wait_ms > 0, row->waits, "%s: waits %ld ms", row->name, (long)r.wait_ms);
    assert_asked(&r, 1, "resourceVersion=7");
    size_t next = api_server_count(r.srv);
    step(&r);
    assert_asked(&r, next, "resourceVersion=7");
    cr_assert_eq(strstr(target(&r, next), "sendInitialEvents") != NULL, row->relists, "%s: %s",
                 row->name, target(&r, next));
    rig_done(&r);
}

Test(reflector_wire, recognizes_every_end_of_a_watch)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check_row(&rows[i]);
}

static void check_too_large(const char *status)
{
    struct rig r;
    rig_init(&r);
    answer_stream(&r, SYNCED("7") ERROR_EVENT(GONE));
    step(&r);
    api_server_add(r.srv, &(struct api_answer){.status = 504, .body = status, .times = -1});
    step(&r);
    assert_asked(&r, 1, "resourceVersion=7");
    cr_assert_eq(r.wait_ms, 0, "%s", status);
    size_t next = api_server_count(r.srv);
    step(&r);
    assert_asked(&r, next, "sendInitialEvents=true");
    assert_not_asked(&r, next, "resourceVersion=7");
    rig_done(&r);
}

Test(reflector_wire, recognizes_a_version_that_is_too_large_from_new_and_old_servers)
{
    check_too_large(TOO_LARGE);
    check_too_large(TOO_LARGE_OLD);
}

Test(reflector_wire, lists_in_pages_where_watchlist_and_cache_are_no_help)
{
    struct rig r;
    rig_init(&r);
    api_server_add(
        r.srv,
        &(struct api_answer){
            .target_prefix = "/api/v1/nodes",
            .status = 422,
            .body = STATUS(
                "422", "Invalid",
                "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
                "")});
    api_server_add(r.srv, &(struct api_answer){.status = 410, .body = GONE});
    api_server_add_json(
        r.srv, "GET", "/api/v1/nodes",
        "{\"metadata\":{\"resourceVersion\":\"20\",\"continue\":\"next\"},\"items\":["
        "{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"3\"}}]}");
    api_server_add_json(r.srv, "GET", "/api/v1/nodes",
                        "{\"metadata\":{\"resourceVersion\":\"20\"},\"items\":["
                        "{\"metadata\":{\"name\":\"b\",\"resourceVersion\":\"4\"}}]}");
    for (int i = 0; i < 3; i++)
        step(&r);
    cr_assert_str_eq(sb_str(&r.told), "[ [ [ a b ]20 ");
    assert_asked(&r, 1, "resourceVersion=0");
    assert_asked(&r, 2, "limit=500");
    assert_not_asked(&r, 2, "resourceVersion=");
    assert_asked(&r, 3, "continue=next");
    rig_done(&r);
}

Test(reflector_wire, a_server_that_is_gone_keeps_the_version)
{
    struct rig r;
    rig_init(&r);
    answer_stream(&r, SYNCED("7"));
    step(&r);
    struct api_server *srv = r.srv;
    r.srv = NULL;
    (void)api_server_free(srv);
    for (int i = 0; i < 3; i++) {
        step(&r);
        cr_assert(r.wait_ms >= 800);
    }
    cr_assert_str_eq(sb_str(&r.told), "[ ]7 ");
    rig_done(&r);
}

Test(reflector_wire, a_silent_watch_ends_with_its_scope)
{
    struct rig r;
    rig_init(&r);
    (void)scope_free(r.s);
    r.s = scope_new(NULL, 2000);
    api_server_add(r.srv,
                   &(struct api_answer){.body = SYNCED("7"), .cut_bytes = 100, .end = API_HANG});
    auto_err struct err e = {0};
    cr_assert_eq(reflector_run(r.r, r.s, &e), -ERR_TIMEOUT);
    cr_assert_str_eq(sb_str(&r.told), "[ ]7 ");
    rig_done(&r);
}
