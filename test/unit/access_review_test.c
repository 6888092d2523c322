/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "service/access_review.h"

static json_t *doc(const char *text)
{
    json_error_t why;
    json_t *d = json_loads(text, 0, &why);
    cr_assert_not_null(d, "%s: %s", text, why.text);
    return d;
}

static void expect_json(json_t *got_take, const char *want)
{
    auto_json json_t *got = got_take;
    auto_json json_t *wanted = doc(want);
    auto_free char *shown = json_dumps(got, JSON_COMPACT);
    cr_expect(json_equal(got, wanted), "%s", shown);
}

#define USER                                                                                       \
    "{\"user\": \"system:serviceaccount:m:p\", \"uid\": \"u1\", \"groups\": [\"a\", \"b\"], "      \
    "\"extra\": {\"authentication.kubernetes.io/pod-name\": [\"p-0\"]}}"

Test(access_review, the_token_is_all_that_a_token_review_says)
{
    expect_json(access_review_token_body("abc"),
                "{\"apiVersion\": \"authentication.k8s.io/v1\", \"kind\": \"TokenReview\", "
                "\"spec\": {\"token\": \"abc\"}}");
}

Test(access_review, the_user_is_carried_over_whole)
{
    auto_json json_t *answer = doc(
        "{\"status\": {\"authenticated\": true, \"audiences\": [\"x\"], \"user\": {\"username\": "
        "\"system:serviceaccount:m:p\", \"uid\": \"u1\", \"groups\": [\"a\", \"b\"], \"extra\": "
        "{\"authentication.kubernetes.io/pod-name\": [\"p-0\"]}}}}");
    auto_json json_t *user = NULL;
    cr_assert_eq(access_review_read_token(answer, &user, NULL), 0);
    expect_json(json_incref(user), USER);
    expect_json(
        access_review_subject_body(user, "/metrics"),
        "{\"apiVersion\": \"authorization.k8s.io/v1\", \"kind\": \"SubjectAccessReview\", "
        "\"spec\": {\"user\": \"system:serviceaccount:m:p\", \"uid\": \"u1\", \"groups\": "
        "[\"a\", \"b\"], \"extra\": {\"authentication.kubernetes.io/pod-name\": [\"p-0\"]}, "
        "\"nonResourceAttributes\": {\"path\": \"/metrics\", \"verb\": \"get\"}}}");
}

Test(access_review, a_token_that_is_not_authenticated_is_nobodys)
{
    static const char *const all[] = {
        "{\"status\": {}}",
        "{\"status\": {\"authenticated\": false}}",
        "{\"status\": {\"user\": {\"username\": \"root\"}}}",
        "{\"status\": {\"authenticated\": false, \"user\": {\"username\": \"root\"}}}",
        "{\"status\": {\"error\": \"invalid bearer token\"}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        auto_json json_t *answer = doc(all[i]);
        json_t *user = answer;
        cr_expect_eq(access_review_read_token(answer, &user, NULL), 0, "%s", all[i]);
        cr_expect_null(user, "%s", all[i]);
    }
}

Test(access_review, a_garbled_token_review_is_an_error_and_nobodys_leave)
{
    static const char *const all[] = {
        "{}",
        "[]",
        "{\"status\": null}",
        "{\"status\": []}",
        "{\"status\": \"authenticated\"}",
        "{\"status\": {\"authenticated\": \"true\"}}",
        "{\"status\": {\"authenticated\": 1}}",
        "{\"status\": {\"authenticated\": true}}",
        "{\"status\": {\"authenticated\": true, \"user\": {}}}",
        "{\"status\": {\"authenticated\": true, \"user\": []}}",
        "{\"status\": {\"authenticated\": true, \"user\": {\"username\": \"\"}}}",
        "{\"status\": {\"authenticated\": true, \"user\": {\"username\": 7}}}",
        "{\"status\": {\"authenticated\": true, \"user\": {\"username\": \"a\", \"uid\": 7}}}",
        "{\"status\": {\"authenticated\": true, \"user\": {\"username\": \"a\", \"groups\": \"b\"}}}",
        "{\"status\": {\"authenticated\": true, \"user\": {\"username\": \"a\", \"groups\": [7]}}}",
        "{\"status\": {\"authenticated\": true, \"user\": {\"username\": \"a\", \"extra\": []}}}",
        "{\"status\": {\"authenticated\": true, \"user\": {\"username\": \"a\", \"extra\": {\"k\": 7}}}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        auto_err struct err e = {0};
        auto_json json_t *answer = doc(all[i]);
        json_t *user = answer;
        cr_expect_eq(access_review_read_token(answer, &user, &e), -(int)ERR_PROTOCOL, "%s", all[i]);
        cr_expect_eq(user, answer, "touched for %s", all[i]);
    }
}

Test(access_review, a_right_is_what_the_answer_says_and_nothing_else)
{
    static const struct {
        const char *answer;
        int rc;
        bool allowed;
    } all[] = {
        {"{\"status\": {\"allowed\": true}}", 0, true},
        {"{\"status\": {\"allowed\": true, \"denied\": false}}", 0, true},
        {"{\"status\": {\"allowed\": false}}", 0, false},
        {"{\"status\": {\"allowed\": true, \"denied\": true}}", 0, false},
        {"{\"status\": {\"allowed\": false, \"evaluationError\": \"no such role\"}}", 0, false},
        {"{\"status\": {}}", -(int)ERR_PROTOCOL, false},
        {"{\"status\": {\"allowed\": \"true\"}}", -(int)ERR_PROTOCOL, false},
        {"{\"status\": {\"allowed\": 1}}", -(int)ERR_PROTOCOL, false},
        {"{\"status\": {\"allowed\": true, \"denied\": \"no\"}}", -(int)ERR_PROTOCOL, false},
        {"{\"allowed\": true}", -(int)ERR_PROTOCOL, false},
        {"[]", -(int)ERR_PROTOCOL, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        auto_err struct err e = {0};
        auto_json json_t *answer = doc(all[i].answer);
        bool allowed = false;
        cr_expect_eq(access_review_read_subject(answer, &allowed, &e), all[i].rc, "%s",
                     all[i].answer);
        cr_expect_eq(allowed, all[i].allowed, "%s", all[i].answer);
    }
}
