/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/xalloc.h"

#include "kubeclient/base64.h"
#include "scheduler/pod_defaults.h"
#include "scheduler/webhook.h"

#define REVIEW(request)                                                                            \
    "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":" request "}"
#define REQUEST(operation, kind, object)                                                           \
    "{\"uid\":\"705ab4f5\",\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"" kind           \
    "\"},\"operation\":\"" operation "\",\"object\":" object "}"
#define SHARE                                                                                       \
    "{\"spec\":{\"schedulerName\":\"default-scheduler\",\"containers\":[{\"resources\":{\"limits\"" \
    ":{\"nvidia.com/gpucores\":\"30\"}}}]}}"

static enum webhook_outcome ask(const char *body, json_t **ret_answer)
{
    return webhook_answer(body, strlen(body), (struct pod_defaults_words){0}, ret_answer);
}

/* What is expected of an answer that leaves the object as it is. */
static void expect_unchanged(const char *body)
{
    auto_json json_t *answer = NULL;
    cr_expect_eq(ask(body, &answer), WEBHOOK_UNCHANGED, "%s", body);
    auto_free char *text = jx_dump(answer);
    cr_expect_str_eq(text, "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\","
                           "\"response\":{\"allowed\":true,\"uid\":\"705ab4f5\"}}");
}

static void expect_unreadable(const char *body, const char *why)
{
    auto_json json_t *answer = NULL;
    cr_expect_eq(ask(body, &answer), WEBHOOK_UNREADABLE, "%s", body);
    cr_expect_str_eq(JX_STR_AT(answer, "kind"), "Status");
    cr_expect_eq(json_integer_value(JX_AT(answer, "code")), 400);
    cr_expect(strstr(JX_STR_AT(answer, "message"), why), "%s: %s", body,
              JX_STR_AT(answer, "message"));
}

Test(webhook, a_pod_of_shares_is_allowed_with_a_patch)
{
    auto_json json_t *answer = NULL;
    cr_assert_eq(ask(REVIEW(REQUEST("CREATE", "Pod", SHARE)), &answer), WEBHOOK_PATCHED);
    const json_t *response = JX_AT(answer, "response");
    cr_expect_str_eq(JX_STR_AT(answer, "apiVersion"), "admission.k8s.io/v1");
    cr_expect_str_eq(JX_STR_AT(answer, "kind"), "AdmissionReview");
    cr_expect_str_eq(JX_STR_AT(response, "uid"), "705ab4f5");
    cr_expect(json_is_true(JX_AT(response, "allowed")));
    cr_expect_str_eq(JX_STR_AT(response, "patchType"), "JSONPatch");
    auto_free char *patch = base64_decode_text(JX_STR_AT(response, "patch"));
    cr_expect_str_eq(
        patch,
        "[{\"op\":\"add\",\"path\":\"/spec/schedulerName\",\"value\":\"cleave-scheduler\"},"
        "{\"op\":\"add\",\"path\":\"/spec/containers/0/resources/limits/nvidia.com~1gpu\",\"value\":\"1\"}]");
}

Test(webhook, everything_else_is_allowed_as_it_is)
{
    expect_unchanged(REVIEW(REQUEST("CREATE", "Pod", "{\"spec\":{\"containers\":[]}}")));
    expect_unchanged(REVIEW(REQUEST("UPDATE", "Pod", SHARE)));
    expect_unchanged(REVIEW(REQUEST("DELETE", "Pod", "null")));
    expect_unchanged(REVIEW(REQUEST("CREATE", "PodTemplate", SHARE)));
    expect_unchanged(REVIEW(
        "{\"uid\":\"705ab4f5\",\"operation\":\"CREATE\",\"subResource\":\"binding\",\"kind\":"
        "{\"version\":\"v1\",\"kind\":\"Pod\"},\"object\":{}}"));
    expect_unchanged(
        REVIEW("{\"uid\":\"705ab4f5\",\"operation\":\"CREATE\",\"kind\":{\"group\":\"example.com\","
               "\"version\":\"v1\",\"kind\":\"Pod\"},\"object\":{}}"));
    expect_unchanged(REVIEW("{\"uid\":\"705ab4f5\"}"));
}

Test(webhook, what_is_no_review_is_told_why)
{
    expect_unreadable("", "");
    expect_unreadable("{", "");
    expect_unreadable("[]", "no AdmissionReview of admission.k8s.io/v1");
    expect_unreadable(
        "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1beta1\",\"request\":{}}",
        "the only version that is understood");
    expect_unreadable("{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\"}",
                      "has no request");
    expect_unreadable(REVIEW("[]"), "has no request");
    expect_unreadable(REVIEW("{}"), "has no request.uid");
    expect_unreadable(REVIEW("{\"uid\":7}"), "has no request.uid");
    expect_unreadable(REVIEW("{\"uid\":\"\"}"), "has no request.uid");
    expect_unreadable(REVIEW(REQUEST("CREATE", "Pod", "null")), "the pod has no spec");
    expect_unreadable(REVIEW(REQUEST("CREATE", "Pod", "{\"spec\":{\"containers\":{}}}")),
                      "spec.containers of the pod");
}

static void expect_room(const char *limits, const char *requests, struct pod_defaults_words words)
{
    auto_json json_t *answer = NULL;
    auto_sb struct sb body = SB_INIT(1UL << 20);
    sb_add(
        &body,
        "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{\"uid\":\"u\","
        "\"operation\":\"CREATE\",\"kind\":{\"version\":\"v1\",\"kind\":\"Pod\"},\"object\":{\"spec\":{");
    for (int l = 0; l < 2; l++) {
        sb_addf(&body, "%s\"%s\":[", l ? "," : "", l ? "initContainers" : "containers");
        for (int i = 0; i < POD_DEFAULTS_MAX_CONTAINERS; i++)
            sb_addf(&body, "%s{\"resources\":{\"limits\":{%s},\"requests\":{%s}}}", i ? "," : "",
                    limits, requests);
        sb_add(&body, "]");
    }
    sb_add(&body, "}}}}");
    cr_assert(!body.overflow);
    cr_assert_eq(webhook_answer(body.data, body.len, words, &answer), WEBHOOK_PATCHED);
    auto_free char *text = json_dumps(answer, JSON_COMPACT);
    cr_expect_lt(strlen(text), 4UL << 20);
}

Test(webhook, an_answer_has_room_for_the_largest_patch)
{
    static const char clamped[] =
        "\"nvidia.com/gpumem-percentage\":101,\"nvidia.com/gpucores\":101";
    expect_room(clamped, clamped, (struct pod_defaults_words){0});
    expect_room("\"aliyun.com/gpu-mem\":16383", "", (struct pod_defaults_words){.gpushare = true});
    expect_room("\"koordinator.sh/gpu\":100000", "",
                (struct pod_defaults_words){.koordinator = true});
}
