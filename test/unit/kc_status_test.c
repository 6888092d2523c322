/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "kubeclient/status.h"

static int from(int http, const char *body, struct err *e)
{
    return kc_status_from_body(http, body, strlen(body), /* retry_after_ms= */ 0, e);
}

Test(kc_status, every_code_has_the_kind_that_the_header_promises)
{
    static const struct {
        int code;
        const char *reason;
        enum err_kind kind;
    } rows[] = {
        {400, "BadRequest", ERR_INVALID},
        {401, "Unauthorized", ERR_FORBIDDEN},
        {403, "Forbidden", ERR_FORBIDDEN},
        {404, "NotFound", ERR_NOT_FOUND},
        {405, "MethodNotAllowed", ERR_INVALID},
        {406, "NotAcceptable", ERR_INVALID},
        {408, "Timeout", ERR_TIMEOUT},
        {409, "AlreadyExists", ERR_EXISTS},
        {409, "Conflict", ERR_CONFLICT},
        {410, "Expired", ERR_EXPIRED},
        {410, "Gone", ERR_EXPIRED},
        {413, "RequestEntityTooLarge", ERR_TOO_LARGE},
        {415, "UnsupportedMediaType", ERR_INVALID},
        {422, "Invalid", ERR_INVALID},
        {429, "TooManyRequests", ERR_THROTTLED},
        {500, "InternalError", ERR_UNAVAILABLE},
        {503, "ServiceUnavailable", ERR_UNAVAILABLE},
        {504, "Timeout", ERR_TIMEOUT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_err struct err e = {0};
        json_t *status = kc_status_new(rows[i].code, rows[i].reason, "said so", /* cause= */ NULL);
        cr_expect_eq(kc_status_to_err(status, 0, &e), -(int)rows[i].kind, "code %d", rows[i].code);
        cr_expect_eq(e.kind, rows[i].kind, "code %d", rows[i].code);
        cr_expect_eq(e.http_status, rows[i].code);
        cr_expect_str_eq(e.msg, "said so");
        cr_expect_str_eq(e.reason, rows[i].reason);
        json_decref(status);
    }
}

Test(kc_status, cause_that_says_more_is_the_reason)
{
    auto_err struct err e = {0};
    json_t *status = kc_status_new(429, "TooManyRequests", "held", "DisruptionBudget");
    cr_assert_eq(kc_status_to_err(status, 0, &e), -ERR_THROTTLED);
    cr_expect_str_eq(e.reason, "DisruptionBudget");
    json_decref(status);
}

Test(kc_status, too_large_version_is_known_by_words_of_old_servers_too)
{
    auto_err struct err e = {0};
    json_t *status = kc_status_new(504, "Timeout", "Too large resource version: 99, current: 5",
                                   /* cause= */ NULL);
    (void)kc_status_to_err(status, 0, &e);
    cr_expect_eq(e.kind, ERR_TIMEOUT);
    cr_expect_str_eq(e.reason, "ResourceVersionTooLarge");
    json_decref(status);
}

Test(kc_status, retry_after_seconds_of_the_details_are_taken)
{
    auto_err struct err e = {0};
    (void)from(503,
               "{\"kind\":\"Status\",\"message\":\"later\",\"code\":503,"
               "\"details\":{\"retryAfterSeconds\":7}}",
               &e);
    cr_expect_eq(e.retry_after_ms, 7000);
}

/* Nobody is blind for 68 years because one answer said so. */
Test(kc_status, retry_after_is_five_minutes_at_most)
{
    static const char *const seconds[] = {"301", "2147483646", "9223372036854775807"};
    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
        auto_err struct err e = {0};
        char body[128];
        (void)snprintf(body, sizeof(body),
                       "{\"kind\":\"Status\",\"code\":503,\"details\":{\"retryAfterSeconds\":%s}}",
                       seconds[i]);
        (void)from(503, body, &e);
        cr_expect_eq(e.retry_after_ms, 300000, "%s", seconds[i]);
    }
    auto_err struct err e = {0};
    (void)kc_status_from_body(429, "", 0, /* retry_after_ms= */ 3600000, &e);
    cr_expect_eq(e.retry_after_ms, 300000);
    (void)from(503, "{\"kind\":\"Status\",\"details\":{\"retryAfterSeconds\":-7}}", &e);
    cr_expect_eq(e.retry_after_ms, 0);
}

/* 4294967700 is 404 to whoever keeps 32 bits of it. */
Test(kc_status, code_that_is_none_leaves_the_answers_own)
{
    static const char *const codes[] = {"4294967700", "0", "-404", "\"404\"", "600"};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        auto_err struct err e = {0};
        char body[64];
        (void)snprintf(body, sizeof(body), "{\"kind\":\"Status\",\"code\":%s}", codes[i]);
        cr_expect_eq(from(503, body, &e), -ERR_UNAVAILABLE, "%s", codes[i]);
        cr_expect_eq(e.http_status, 503, "%s", codes[i]);
    }
}

Test(kc_status, header_wins_over_the_details)
{
    auto_err struct err e = {0};
    const char *body = "{\"kind\":\"Status\",\"code\":429,\"details\":{\"retryAfterSeconds\":7}}";
    (void)kc_status_from_body(429, body, strlen(body), /* retry_after_ms= */ 2000, &e);
    cr_expect_eq(e.retry_after_ms, 2000);
}

Test(kc_status, page_of_a_proxy_is_quoted_and_cut)
{
    auto_err struct err e = {0};
    char page[600] = "<html>\t<body>Bad gateway ";
    memset(page + 25, 'x', sizeof(page) - 26);
    cr_expect_eq(from(502, page, &e), -ERR_UNAVAILABLE);
    cr_expect_eq(e.http_status, 502);
    cr_expect_null(strchr(e.msg, '\t'));
    cr_expect_not_null(strstr(e.msg, "HTTP status 502: <html> <body>Bad gateway"));
    cr_expect_lt(strlen(e.msg), 200);
}

Test(kc_status, empty_body_still_says_the_code)
{
    auto_err struct err e = {0};
    cr_expect_eq(from(404, "", &e), -ERR_NOT_FOUND);
    cr_expect_str_eq(e.msg, "HTTP status 404");
}

Test(kc_status, unknown_reason_is_not_kept)
{
    auto_err struct err e = {0};
    (void)from(409, "{\"kind\":\"Status\",\"code\":409,\"reason\":\"Peculiar\"}", &e);
    cr_expect_eq(e.kind, ERR_CONFLICT);
    cr_expect_null(e.reason);
}

Test(kc_status, wrong_types_do_no_harm)
{
    auto_err struct err e = {0};
    (void)from(500, "{\"kind\":\"Status\",\"code\":\"x\",\"message\":[],\"details\":[1]}", &e);
    cr_expect_eq(e.kind, ERR_UNAVAILABLE);
    cr_expect_eq(e.http_status, 500);
}

Test(kc_status, error_may_be_null)
{
    cr_expect_eq(from(404, "{\"kind\":\"Status\",\"code\":404}", NULL), -ERR_NOT_FOUND);
}
