/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "kubeclient/http.h"
#include "test/unit/api_server_support.h"

static const struct kc_resource pods = {"", "v1", "pods", "Pod", true};
static const struct kc_resource devices = {"gpu.cleave.dev", "v1alpha1", "devices", "Device",
                                           false};
static const struct kc_target pod = {.res = &pods, .ns = "ns", .name = "p"};
static const struct kc_target all_devices = {.res = &devices};

/* A server with a client of it. */
struct rig {
    struct api_server *srv;
    struct kc *kc;
    struct scope *s;
};

static struct rig rig_new(const struct kc_http_opts *opts)
{
    struct rig r = {.srv = api_server_new(/* o= */ NULL), .s = scope_new(NULL, 120000)};
    struct kc_http_opts o = opts ? *opts : (struct kc_http_opts){0};
    if (!o.retry_unit_ms)
        o.retry_unit_ms = 1;
    char *url = xstrdup(api_server_url(r.srv));
    struct kc_config config = {.server = url};
    auto_err struct err e = {0};
    cr_assert_eq(kc_http_new(&config, &o, &r.kc, &e), 0, "%s", e.msg);
    free(url);
    return r;
}

static void rig_done(struct rig *r)
{
    (void)kc_free(r->kc);
    (void)api_server_free(r->srv);
    (void)scope_free(r->s);
}
#define auto_rig __attribute__((cleanup(rig_done)))

#define EXPECT_TARGET(r, i, text) cr_expect_str_eq(api_server_request((r).srv, i)->target, text)

static void expect_header(struct rig *r, size_t i, const char *name, const char *value)
{
    auto_free char *got = api_request_header(api_server_request(r->srv, i), name);
    cr_assert_not_null(got, "no header %s", name);
    cr_expect_str_eq(got, value);
}

Test(http, get_asks_for_json_and_says_who_it_is)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    auto_json json_t *obj = NULL;
    api_server_add_json(r.srv, "GET", "/api/v1/namespaces/ns/pods/p", "{\"kind\":\"Pod\"}");
    cr_assert_eq(kc_get(r.kc, r.s, &pod, &obj, &e), 0, "%s", e.msg);
    cr_expect_str_eq(JX_STR_AT(obj, "kind"), "Pod");
    EXPECT_TARGET(r, 0, "/api/v1/namespaces/ns/pods/p");
    expect_header(&r, 0, "Accept", "application/json");
    auto_free char *agent = api_request_header(api_server_request(r.srv, 0), "User-Agent");
    cr_expect_eq(strncmp(agent, "cleave-controller/", 18), 0);
    cr_expect_null(api_request_header(api_server_request(r.srv, 0), "Accept-Encoding"));
}

Test(http, writes_have_the_method_type_and_options_of_their_kind)
{
    static const struct {
        int (*fn)(struct kc *, struct scope *, const struct kc_target *, const struct kc_write *,
                  json_t **, struct err *);
        struct kc_write w;
        const char *method, *type, *query;
    } rows[] = {
        {kc_update, {0}, "PUT", "application/json", ""},
        {kc_patch, {.how = KC_MERGE}, "PATCH", "application/merge-patch+json", ""},
        {kc_patch, {.how = KC_JSON_PATCH}, "PATCH", "application/json-patch+json", ""},
        {kc_patch,
         {.how = KC_APPLY, .manager = "a b", .force = true},
         "PATCH",
         "application/apply-patch+yaml",
         "?fieldManager=a%20b&force=true"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_rig struct rig r = rig_new(NULL);
        auto_err struct err e = {0};
        auto_json json_t *obj = NULL;
        auto_json json_t *body = json_pack("{s:i}", "x", 1);
        struct kc_write w = rows[i].w;
        w.body = body;
        api_server_add_json(r.srv, NULL, NULL, "{\"kind\":\"Pod\"}");
        cr_assert_eq(rows[i].fn(r.kc, r.s, &pod, &w, &obj, &e), 0, "%s", e.msg);
        const struct api_request *got = api_server_request(r.srv, 0);
        cr_expect_str_eq(got->method, rows[i].method);
        cr_expect_str_eq(got->body, "{\"x\":1}");
        cr_expect_str_eq(strchrnul(got->target, '?'), rows[i].query);
        expect_header(&r, 0, "Content-Type", rows[i].type);
    }
}

Test(http, create_goes_to_the_collection_and_eviction_to_the_pod)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    auto_json json_t *body = json_object();
    struct kc_write w = {.body = body};
    api_server_add(r.srv,
                   &(struct api_answer){.method = "POST", .status = 201, .body = "{}", .times = 2});
    cr_assert_eq(kc_create(r.kc, r.s, &pod, &w, /* ret_obj= */ NULL, &e), 0, "%s", e.msg);
    cr_assert_eq(kc_evict(r.kc, r.s, &pod, "u-1", &e), 0, "%s", e.msg);
    EXPECT_TARGET(r, 0, "/api/v1/namespaces/ns/pods");
    EXPECT_TARGET(r, 1, "/api/v1/namespaces/ns/pods/p/eviction");
    cr_expect_str_eq(api_server_request(r.srv, 1)->body,
                     "{\"apiVersion\":\"policy/v1\",\"deleteOptions\":{\"preconditions\":{\"uid\":"
                     "\"u-1\"}},\"kind\":\"Eviction\",\"metadata\":{\"name\":\"p\",\"namespace\":"
                     "\"ns\"}}");
}

Test(http, removal_carries_its_preconditions)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    api_server_add_json(r.srv, "DELETE", "/api/v1/namespaces/ns/pods/p", "{}");
    struct kc_remove_opts o = {.if_uid = "u",
                               .if_resource_version = "7",
                               .has_grace = true,
                               .grace_s = 0};
    cr_assert_eq(kc_remove_with(r.kc, r.s, &pod, &o, &e), 0, "%s", e.msg);
    cr_expect_str_eq(api_server_request(r.srv, 0)->body,
                     "{\"apiVersion\":\"v1\",\"gracePeriodSeconds\":0,\"kind\":\"DeleteOptions\","
                     "\"preconditions\":{\"resourceVersion\":\"7\",\"uid\":\"u\"},"
                     "\"propagationPolicy\":\"Background\"}");
}

Test(http, pages_of_a_list_are_followed_to_the_end)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    auto_json json_t *list = NULL;
    api_server_add(r.srv,
                   &(struct api_answer){.body = "{\"items\":[{\"n\":1},{\"n\":2}],\"metadata\":{"
                                                "\"continue\":\"c&1\",\"resourceVersion\":\"40\"}}",
                                        .cut_bytes = 3});
    api_server_add_json(r.srv, NULL, NULL,
                        "{\"metadata\":{\"resourceVersion\":\"40\"},\"items\":[{\"n\":3}]}");
    struct kc_list_opts o = {.labels = "a=b",
                             .fields = "metadata.name=x",
                             .page_size = 2,
                             .resource_version = "40",
                             .version_match = "Exact"};
    cr_assert_eq(kc_list(r.kc, r.s, &all_devices, &o, &list, &e), 0, "%s", e.msg);
    cr_expect_eq(json_array_size(json_object_get(list, "items")), 3);
    cr_expect_str_eq(JX_STR_AT(list, "metadata", "resourceVersion"), "40");
    EXPECT_TARGET(r, 0,
                  "/apis/gpu.cleave.dev/v1alpha1/devices?labelSelector=a%3Db&fieldSelector="
                  "metadata.name%3Dx&limit=2&resourceVersion=40&resourceVersionMatch=Exact");
    EXPECT_TARGET(r, 1,
                  "/apis/gpu.cleave.dev/v1alpha1/devices?labelSelector=a%3Db&fieldSelector="
                  "metadata.name%3Dx&limit=2&continue=c%261");
}

Test(http, of_a_list_the_metadata_alone_is_asked_for)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    auto_json json_t *list = NULL;
    api_server_add_json(r.srv, NULL, NULL,
                        "{\"kind\":\"PartialObjectMetadataList\",\"metadata\":{\"resourceVersion\":"
                        "\"40\"},\"items\":[{\"metadata\":{\"name\":\"x\"}}]}");
    struct kc_list_opts o = {.metadata_only = true};
    cr_assert_eq(kc_list(r.kc, r.s, &all_devices, &o, &list, &e), 0, "%s", e.msg);
    cr_expect_eq(json_array_size(json_object_get(list, "items")), 1);
    expect_header(&r, 0, "Accept",
                  "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, "
                  "application/json");
}

Test(http, list_beyond_the_bound_is_too_large)
{
    auto_rig struct rig r = rig_new(&(struct kc_http_opts){.max_list_bytes = 50});
    auto_err struct err e = {0};
    auto_json json_t *list = NULL;
    api_server_add_json(r.srv, NULL, NULL,
                        "{\"metadata\":{\"resourceVersion\":\"40\"},\"items\":[{\"n\":3}]}");
    cr_expect_eq(kc_list(r.kc, r.s, &all_devices, NULL, &list, &e), -ERR_TOO_LARGE);
}

static int count_items(void *arg, const json_t *obj, struct err *e)
{
    (void)obj;
    (void)e;
    ++*(int *)arg;
    return 0;
}

/* Every page says that there is one more. tokens: each says another. */
static void expect_list_to_end(const struct kc_http_opts *o, const char *items, bool tokens,
                               int kind, const char *words, size_t requests)
{
    auto_rig struct rig r = rig_new(o);
    auto_err struct err e = {0};
    int seen = 0;
    for (int i = 0; i < 20; i++) {
        auto_free char *page = xasprintf("{\"metadata\":{\"resourceVersion\":\"4\",\"continue\":"
                                         "\"c%d\"},\"items\":[%s]}",
                                         tokens ? i : 0, items);
        api_server_add_json(r.srv, NULL, NULL, page);
    }
    cr_expect_eq(kc_list_each(r.kc, r.s, &all_devices, NULL, count_items, &seen, NULL, &e), -kind);
    cr_expect(strstr(err_msg(&e), words), "%s", err_msg(&e));
    cr_expect_eq(api_server_count(r.srv), requests);
}

/* Whoever sends pages without end gets no more than the bound of one client's memory and time. */
Test(http, list_without_an_end_is_left)
{
    expect_list_to_end(&(struct kc_http_opts){.max_list_pages = 3}, "", true, ERR_TOO_LARGE,
                       "the list has more than 3 pages", 3);
    expect_list_to_end(&(struct kc_http_opts){.max_list_items = 5}, "{\"n\":1},{\"n\":2}", true,
                       ERR_TOO_LARGE, "the list has more than 5 objects", 3);
    expect_list_to_end(&(struct kc_http_opts){.max_list_bytes = 200}, "{\"n\":1}", true,
                       ERR_TOO_LARGE, "the list is larger than 200 bytes", 3);
    expect_list_to_end(NULL, "", false, ERR_PROTOCOL, "the list goes on where it has just been", 2);
}

/* A list whose pages have no end, of which each has page_ms. Returns the time that it took. */
static int64_t list_until_late(int64_t page_ms, struct err *e)
{
    static const char path[] = "/apis/gpu.cleave.dev/v1alpha1/devices?continue=b";
    static const char a[] = "{\"metadata\":{\"continue\":\"a\"},\"items\":[]}";
    static const char b[] = "{\"metadata\":{\"continue\":\"b\"},\"items\":[]}";
    auto_rig struct rig r =
        rig_new(&(struct kc_http_opts){.request_timeout_ms = page_ms, .max_list_pages = SIZE_MAX});
    int seen = 0;
    api_server_add(r.srv, &(struct api_answer){.target_prefix = path, .body = a, .times = -1});
    api_server_add(r.srv, &(struct api_answer){.body = b, .times = -1});
    int64_t began = clock_mono_ms(clock_real());
    cr_assert_eq(kc_list_each(r.kc, r.s, &all_devices, NULL, count_items, &seen, NULL, e),
                 -ERR_TIMEOUT, "%s", err_msg(e));
    return clock_mono_ms(clock_real()) - began;
}

/* Each page is in time, and the whole is not. The error says the time that the scope had, and it
 * does not come before that. On a busy machine a page can be late instead: then all get twice the
 * time. */
Test(http, list_has_ten_times_the_time_of_a_request)
{
    for (int64_t page_ms = 20; page_ms < 5000; page_ms *= 2) {
        auto_err struct err e = {0};
        int64_t took = list_until_late(page_ms, &e);
        auto_free char *says =
            xasprintf("the list takes longer than %lld ms", (long long)page_ms * 10);
        if (!strstr(err_msg(&e), "the list takes longer than"))
            continue;
        cr_expect(strstr(err_msg(&e), says), "%s", err_msg(&e));
        cr_expect_geq(took, page_ms * 10);
        return;
    }
    cr_assert_fail("one page was late each time");
}

Test(http, answer_beyond_the_bound_is_too_large)
{
    auto_rig struct rig r = rig_new(&(struct kc_http_opts){.max_body_bytes = 1000});
    auto_err struct err e = {0};
    auto_json json_t *obj = NULL;
    char body[2000];
    (void)snprintf(body, sizeof(body), "{\"x\":\"%01500d\"}", 1);
    api_server_add_json(r.srv, NULL, NULL, body);
    cr_expect_eq(kc_get(r.kc, r.s, &pod, &obj, &e), -ERR_TOO_LARGE);
    cr_expect_null(obj);
}

static void expect_headers_too_large(const char *headers)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    auto_json json_t *obj = NULL;
    api_server_add(r.srv, &(struct api_answer){.headers = headers, .body = "{}", .times = -1});
    cr_expect_eq(kc_get(r.kc, r.s, &pod, &obj, &e), -ERR_TOO_LARGE, "%s", err_msg(&e));
    cr_expect(strstr(err_msg(&e), "headers are larger than"), "%s", err_msg(&e));
    cr_expect_eq(api_server_count(r.srv), 1, "it is not asked again");
}

/* libcurl keeps them all, for whoever may ask. */
Test(http, headers_beyond_the_bound_are_too_large)
{
    auto_sb struct sb lines = SB_INIT(1 << 20);
    for (int i = 0; i < 2000; i++)
        sb_add(&lines, "X: y\r\n");
    expect_headers_too_large(sb_str(&lines));
}

/* Few lines, each well below what libcurl takes of one (100 KiB). */
Test(http, headers_of_more_bytes_than_the_bound_are_too_large)
{
    auto_sb struct sb lines = SB_INIT(1 << 20);
    for (int i = 0; i < 5; i++)
        sb_addf(&lines, "X: %030000d\r\n", i);
    expect_headers_too_large(sb_str(&lines));
}

Test(http, words_of_a_server_have_no_control_characters)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    auto_json json_t *obj = NULL;
    api_server_add(r.srv, &(struct api_answer){.headers = "Content-Type: text/\x1b[2Jhtml\r\n",
                                               .body = "<html>"});
    cr_expect_eq(kc_get(r.kc, r.s, &pod, &obj, &e), -ERR_PROTOCOL);
    cr_expect(strstr(err_msg(&e), "the answer is text/?[2Jhtml, not JSON"), "%s", err_msg(&e));
}

Test(http, page_of_a_proxy_is_a_protocol_error_that_says_so)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    auto_json json_t *obj = NULL;
    api_server_add(r.srv, &(struct api_answer){.headers = "Content-Type: text/html\r\n",
                                               .body = "<html>Please log in</html>"});
    cr_expect_eq(kc_get(r.kc, r.s, &pod, &obj, &e), -ERR_PROTOCOL);
    cr_expect_str_eq(e.msg, "GET /api/v1/namespaces/ns/pods/p: the answer is text/html, not JSON: "
                            "is this an API server?");
}

Test(http, truncated_and_wrong_json_is_a_protocol_error)
{
    static const char *const bodies[] = {"{\"kind\":\"Po", "[]", "", "null", "{} {}"};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        auto_rig struct rig r = rig_new(NULL);
        auto_err struct err e = {0};
        auto_json json_t *obj = NULL;
        api_server_add_json(r.srv, NULL, NULL, bodies[i]);
        cr_expect_eq(kc_get(r.kc, r.s, &pod, &obj, &e), -ERR_PROTOCOL, "%s", bodies[i]);
        cr_expect_null(obj);
    }
}

Test(http, redirect_is_not_followed)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    api_server_add(r.srv,
                   &(struct api_answer){.status = 302, .headers = "Location: /elsewhere\r\n"});
    cr_expect_eq(kc_get(r.kc, r.s, &pod, NULL, &e), -ERR_PROTOCOL);
    cr_expect_eq(api_server_count(r.srv), 1);
}

Test(http, errors_carry_status_reason_and_message)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    api_server_add(r.srv, &(struct api_answer){
                              .status = 404,
                              .body = "{\"kind\":\"Status\",\"code\":404,\"reason\":\"NotFound\","
                                      "\"message\":\"pods \\\"p\\\" not found\"}"});
    cr_expect_eq(kc_get(r.kc, r.s, &pod, NULL, &e), -ERR_NOT_FOUND);
    cr_expect_eq(e.http_status, 404);
    cr_expect_str_eq(e.reason, "NotFound");
    cr_expect_str_eq(e.msg, "GET /api/v1/namespaces/ns/pods/p: pods \"p\" not found");
}

Test(http, throttled_call_with_retry_after_is_repeated_also_when_it_writes)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    auto_json json_t *body = json_object();
    api_server_add(r.srv, &(struct api_answer){.status = 429,
                                               .headers = "Retry-After: 1\r\n",
                                               .times = 3});
    api_server_add(r.srv, &(struct api_answer){.status = 201, .body = "{}"});
    cr_expect_eq(kc_create(r.kc, r.s, &pod, &(struct kc_write){.body = body}, NULL, &e), 0);
    cr_expect_eq(api_server_count(r.srv), 4);
}

Test(http, server_error_with_retry_after_is_given_up_after_ten_repetitions)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    api_server_add(r.srv, &(struct api_answer){.status = 503,
                                               .headers = "Retry-After: 2\r\n",
                                               .times = -1});
    cr_expect_eq(kc_get(r.kc, r.s, &pod, NULL, &e), -ERR_UNAVAILABLE);
    cr_expect_eq(e.retry_after_ms, 2); /* in the test's unit */
    cr_expect_eq(api_server_count(r.srv), 11);
}

Test(http, without_retry_after_nothing_is_repeated)
{
    static const int codes[] = {429, 500, 503, 504};
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        auto_rig struct rig r = rig_new(NULL);
        auto_err struct err e = {0};
        api_server_add(r.srv, &(struct api_answer){.status = codes[i], .times = -1});
        cr_expect_lt(kc_get(r.kc, r.s, &pod, NULL, &e), 0);
        cr_expect_eq(e.http_status, codes[i]);
        cr_expect_eq(api_server_count(r.srv), 1);
    }
}

Test(http, conflict_with_retry_after_is_not_repeated)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    auto_json json_t *body = json_object();
    api_server_add(r.srv, &(struct api_answer){.status = 409,
                                               .headers = "Retry-After: 1\r\n",
                                               .times = -1});
    cr_expect_eq(kc_update(r.kc, r.s, &pod, &(struct kc_write){.body = body}, NULL, &e),
                 -ERR_CONFLICT);
    cr_expect_eq(api_server_count(r.srv), 1);
}

Test(http, version_too_large_and_disruption_budget_are_for_the_caller)
{
    static const struct {
        int status;
        const char *body, *reason;
    } rows[] = {
        {504,
         "{\"kind\":\"Status\",\"code\":504,\"reason\":\"Timeout\",\"details\":{\"causes\":["
         "{\"reason\":\"ResourceVersionTooLarge\"}]}}",
         "ResourceVersionTooLarge"},
        {429,
         "{\"kind\":\"Status\",\"code\":429,\"reason\":\"TooManyRequests\",\"details\":{\"causes\":["
         "{\"reason\":\"DisruptionBudget\"}]}}",
         "DisruptionBudget"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_rig struct rig r = rig_new(NULL);
        auto_err struct err e = {0};
        api_server_add(r.srv, &(struct api_answer){.status = rows[i].status,
                                                   .headers = "Retry-After: 1\r\n",
                                                   .body = rows[i].body,
                                                   .times = -1});
        cr_expect_lt(kc_evict(r.kc, r.s, &pod, NULL, &e), 0);
        cr_expect_str_eq(e.reason, rows[i].reason);
        cr_expect_eq(api_server_count(r.srv), 1);
    }
}

Test(http, retry_after_counts_for_five_minutes_at_most)
{
    static const struct {
        const char *header;
        int64_t units;
    } rows[] = {
        {"Retry-After: 7\r\n", 7},
        {"Retry-After: 300\r\n", 300},
        {"Retry-After: 301\r\n", 300},
        {"Retry-After: 3600\r\n", 300},
        {"Retry-After: 9000000000\r\n", 300},
        {"Retry-After: 99999999999999999999\r\n", 0}, /* no number */
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_rig struct rig r = rig_new(NULL);
        auto_err struct err e = {0};
        api_server_add(r.srv, &(struct api_answer){.status = 409, .headers = rows[i].header});
        cr_expect_eq(kc_get(r.kc, r.s, &pod, NULL, &e), -ERR_CONFLICT);
        cr_expect_eq(e.retry_after_ms, rows[i].units, "%s: %ld", rows[i].header,
                     (long)e.retry_after_ms);
    }
}

Test(http, deadline_before_the_next_try_gives_the_answer_in_hand)
{
    auto_rig struct rig r =
        rig_new(&(struct kc_http_opts){.request_timeout_ms = 5000, .retry_unit_ms = 1000});
    auto_err struct err e = {0};
    api_server_add(r.srv, &(struct api_answer){.status = 429,
                                               .headers = "Retry-After: 3600\r\n",
                                               .times = -1});
    struct scope *soon = scope_new(r.s, 2000);
    cr_expect_eq(kc_get(r.kc, soon, &pod, NULL, &e), -ERR_THROTTLED);
    cr_expect_eq(api_server_count(r.srv), 1);
    (void)scope_free(soon);
}

Test(http, reset_is_repeated_for_reads)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    api_server_add(r.srv, &(struct api_answer){.status = -1, .end = API_RESET, .times = 2});
    api_server_add_json(r.srv, "GET", NULL, "{}");
    cr_expect_eq(kc_get(r.kc, r.s, &pod, NULL, &e), 0, "%s", e.msg);
    cr_expect_eq(api_server_count(r.srv), 3);
}

static void expect_sent_once(bool warm, enum api_end end)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    auto_json json_t *body = json_object();
    if (warm) {
        api_server_add_json(r.srv, "GET", NULL, "{}");
        cr_assert_eq(kc_get(r.kc, r.s, &pod, NULL, &e), 0);
    }
    api_server_add(r.srv,
                   &(struct api_answer){.method = "POST", .status = -1, .end = end, .times = -1});
    cr_expect_eq(kc_create(r.kc, r.s, &pod, &(struct kc_write){.body = body}, NULL, &e),
                 -ERR_UNAVAILABLE);
    cr_expect_eq(api_server_count(r.srv), (warm ? 1 : 0) + 1, "%s", e.msg);
}

/* libcurl by itself would send it again when the connection was used before. */
Test(http, write_whose_connection_broke_is_sent_once)
{
    expect_sent_once(/* warm= */ false, API_RESET);
    expect_sent_once(/* warm= */ true, API_RESET);
    expect_sent_once(/* warm= */ false, API_CUT);
    expect_sent_once(/* warm= */ true, API_CUT);
}

Test(http, connection_is_used_again)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    api_server_add(r.srv, &(struct api_answer){.body = "{}", .times = -1});
    for (int i = 0; i < 5; i++)
        cr_assert_eq(kc_get(r.kc, r.s, &pod, NULL, &e), 0);
    cr_expect_eq(api_server_connections(r.srv), 1);
}

Test(http, refused_connection_is_unavailable_and_not_repeated)
{
    struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    r.srv = api_server_free(r.srv);
    cr_expect_eq(kc_get(r.kc, r.s, &pod, NULL, &e), -ERR_UNAVAILABLE);
    cr_expect_not_null(e.msg);
    rig_done(&r);
}

Test(http, silent_server_meets_the_timeout)
{
    auto_rig struct rig r = rig_new(&(struct kc_http_opts){.request_timeout_ms = 50});
    auto_err struct err e = {0};
    api_server_add(r.srv, &(struct api_answer){.status = -1, .end = API_HANG});
    cr_expect_eq(kc_get(r.kc, r.s, &pod, NULL, &e), -ERR_TIMEOUT);
}

/* ---- watch ---- */

struct events {
    struct sb text;
    struct scope *cancel_after; /* canceled by the first event */
};

static int note(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    (void)e;
    struct events *ev = arg;
    sb_addf(&ev->text, "%d%s ", (int)change, JX_STR_AT(obj, "metadata", "resourceVersion"));
    if (ev->cancel_after)
        scope_cancel(ev->cancel_after);
    return 0;
}

#define EVENT(type, rv)                                                                            \
    "{\"type\":\"" type "\",\"object\":{\"metadata\":{\"resourceVersion\":\"" rv "\"}}}\n"

static const struct kc_watch_opts from_5 = {.resource_version = "5", .timeout_s = 300};

Test(http, watch_delivers_until_the_server_ends_it)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    struct events ev = {.text = SB_INIT(1000)};
    api_server_add(r.srv, &(struct api_answer){.body = EVENT("ADDED", "6") EVENT("DELETED", "7")
                                                   EVENT("BOOKMARK", "8"),
                                               .cut_bytes = 7});
    cr_expect_eq(kc_watch(r.kc, r.s, &all_devices, &from_5, note, &ev, &e), 0, "%s", e.msg);
    cr_expect_str_eq(sb_str(&ev.text), "06 27 38 ");
    EXPECT_TARGET(r, 0,
                  "/apis/gpu.cleave.dev/v1alpha1/devices?watch=true&allowWatchBookmarks=true&"
                  "resourceVersion=5&timeoutSeconds=300");
    sb_done(&ev.text);
}

Test(http, watch_list_asks_for_initial_events)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    struct events ev = {.text = SB_INIT(1000)};
    api_server_add_json(r.srv, NULL, NULL, "");
    struct kc_watch_opts o = {.send_initial_events = true, .fields = "metadata.name=n"};
    cr_expect_eq(kc_watch(r.kc, r.s, &all_devices, &o, note, &ev, &e), 0, "%s", e.msg);
    EXPECT_TARGET(r, 0,
                  "/apis/gpu.cleave.dev/v1alpha1/devices?watch=true&allowWatchBookmarks=true&"
                  "fieldSelector=metadata.name%3Dn&sendInitialEvents=true&"
                  "resourceVersionMatch=NotOlderThan");
    sb_done(&ev.text);
}

static void expect_broken_watch(enum api_end end)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    struct events ev = {.text = SB_INIT(1000)};
    static const char *const chunks[] = {EVENT("ADDED", "6"), "{\"type\":\"ADD", NULL};
    api_server_add(r.srv, &(struct api_answer){.chunks = chunks, .end = end});
    cr_expect_eq(kc_watch(r.kc, r.s, &all_devices, &from_5, note, &ev, &e), -ERR_UNAVAILABLE);
    cr_expect_str_eq(sb_str(&ev.text), "06 ");
    cr_expect_eq(api_server_count(r.srv), 1);
    sb_done(&ev.text);
}

Test(http, watch_that_breaks_keeps_what_was_delivered)
{
    expect_broken_watch(API_CUT);
    expect_broken_watch(API_CLOSE);
}

Test(http, watch_of_an_old_version_is_expired)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    struct events ev = {.text = SB_INIT(1000)};
    api_server_add(r.srv, &(struct api_answer){.status = 410,
                                               .body = "{\"kind\":\"Status\",\"code\":410}"});
    api_server_add_json(r.srv, NULL, NULL,
                        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n");
    for (int i = 0; i < 2; i++)
        cr_expect_eq(kc_watch(r.kc, r.s, &all_devices, &from_5, note, &ev, &e), -ERR_EXPIRED);
    sb_done(&ev.text);
}

/* The one who follows the kind has a backoff of its own, and must know that it hears nothing. */
Test(http, watch_is_not_repeated)
{
    static const struct api_answer answers[] = {
        {.status = 429, .headers = "Retry-After: 2\r\n", .times = -1},
        {.status = 503, .headers = "Retry-After: 2\r\n", .times = -1},
        {.status = -1, .end = API_RESET, .times = -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        auto_rig struct rig r = rig_new(NULL);
        auto_err struct err e = {0};
        struct events ev = {.text = SB_INIT(1000)};
        api_server_add(r.srv, &answers[i]);
        cr_expect_lt(kc_watch(r.kc, r.s, &all_devices, &from_5, note, &ev, &e), 0);
        cr_expect_eq(e.http_status, answers[i].status > 0 ? answers[i].status : 0);
        cr_expect_eq(e.retry_after_ms, answers[i].headers ? 2 : 0);
        cr_expect_eq(api_server_count(r.srv), 1, "%zu requests", api_server_count(r.srv));
        sb_done(&ev.text);
    }
}

Test(http, canceled_watch_returns_at_once)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    static const char *const chunks[] = {EVENT("ADDED", "6"), NULL};
    struct scope *s = scope_new(r.s, -1);
    struct events ev = {.text = SB_INIT(1000), .cancel_after = s};
    api_server_add(r.srv, &(struct api_answer){.chunks = chunks, .end = API_HANG});
    cr_expect_eq(kc_watch(r.kc, s, &all_devices, &from_5, note, &ev, &e), -ERR_CANCELED);
    cr_expect_str_eq(sb_str(&ev.text), "06 ");
    (void)scope_free(s);
    sb_done(&ev.text);
}

struct canceller {
    struct rig *r;
    struct scope *s;
};

static void *cancel_when_asked(void *arg)
{
    struct canceller *c = arg;
    (void)api_server_wait(c->r->srv, 1);
    scope_cancel(c->s);
    return NULL;
}

Test(http, another_thread_cancels_a_call_that_waits)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    struct canceller c = {.r = &r, .s = scope_new(r.s, -1)};
    api_server_add(r.srv, &(struct api_answer){.status = -1, .end = API_HANG});
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, cancel_when_asked, &c), 0);
    int64_t begin = clock_mono_ms(clock_real());
    cr_expect_eq(kc_get(r.kc, c.s, &pod, NULL, &e), -ERR_CANCELED);
    cr_expect_lt(clock_mono_ms(clock_real()) - begin, 5000);
    (void)pthread_join(thread, NULL);
    (void)scope_free(c.s);
}

/* A callback may call the same client: it gets a connection of its own. */
static int nested_get(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    (void)change;
    (void)obj;
    struct rig *r = arg;
    return kc_get(r->kc, r->s, &pod, NULL, e);
}

Test(http, callback_may_use_the_client)
{
    auto_rig struct rig r = rig_new(NULL);
    auto_err struct err e = {0};
    api_server_add_json(r.srv, NULL, "/apis", EVENT("ADDED", "6"));
    api_server_add_json(r.srv, NULL, "/api/v1", "{}");
    cr_expect_eq(kc_watch(r.kc, r.s, &all_devices, &from_5, nested_get, &r, &e), 0, "%s", e.msg);
    cr_expect_eq(api_server_connections(r.srv), 2);
}

/* The agent's status is written once in days. */
Test(http, connection_that_nobody_uses_is_closed_by_another_call)
{
    struct clock *clk = clock_fake_new(0);
    auto_err struct err e = {0};
    {
        auto_rig struct rig r = rig_new(&(struct kc_http_opts){.clock = clk});
        api_server_add_json(r.srv, NULL, "/apis", EVENT("ADDED", "6"));
        api_server_add_json(r.srv, NULL, "/apis", EVENT("ADDED", "7"));
        api_server_add_json(r.srv, NULL, "/apis", EVENT("ADDED", "8"));
        api_server_add(r.srv, &(struct api_answer){.body = "{}", .times = -1});
        cr_assert_eq(kc_watch(r.kc, r.s, &all_devices, &from_5, nested_get, &r, &e), 0);
        clock_fake_advance(clk, 29999);
        cr_assert_eq(kc_watch(r.kc, r.s, &all_devices, &from_5, nested_get, &r, &e), 0);
        cr_expect_eq(api_server_connections(r.srv), 2, "both were used again");
        clock_fake_advance(clk, 30000);
        cr_assert_eq(kc_get(r.kc, r.s, &pod, NULL, &e), 0);
        cr_assert_eq(kc_watch(r.kc, r.s, &all_devices, &from_5, nested_get, &r, &e), 0);
        cr_expect_eq(api_server_connections(r.srv), 3, "one was closed meanwhile");
    }
    (void)clock_free(clk);
}
