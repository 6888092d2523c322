/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/webhook.h"

#include <stdbool.h>
#include <string.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "kubeclient/base64.h"
#include "service/http_channel.h"

#define REVIEW_VERSION "admission.k8s.io/v1"
#define REVIEW_KIND    "AdmissionReview"

enum { OK = 200, BAD_REQUEST = 400 };

static const char *const outcome_names[WEBHOOK_OUTCOMES] = {
    [WEBHOOK_PATCHED] = "patched",
    [WEBHOOK_UNCHANGED] = "unchanged",
    [WEBHOOK_UNREADABLE] = "unreadable",
};

struct webhook {
    struct pod_defaults_words words;
    struct metric_series *reviews[WEBHOOK_OUTCOMES]; /* NULL: not counted */
};

/* --- The question --- */

static bool says(const json_t *obj, const char *key, const char *value)
{
    const char *is = JX_STR_AT(obj, key);
    return is && strcmp(is, value) == 0;
}

/* An empty string may be left out. */
static bool says_nothing(const json_t *obj, const char *key)
{
    const char *is = JX_STR_AT(obj, key);
    return !is || !*is;
}

static bool is_new_pod(const json_t *request)
{
    const json_t *kind = JX_AT(request, "kind");
    return says(request, "operation", "CREATE") && says_nothing(request, "subResource") &&
           says_nothing(kind, "group") && says(kind, "version", "v1") && says(kind, "kind", "Pod");
}

/* *ret_review is to be freed in any case; *ret_request is borrowed from it. */
static int read_review(const char *body, size_t len, json_t **ret_review,
                       const json_t **ret_request, struct err *e)
{
    TRY(jx_parse(body, len, HTTP_MAX_UPLOAD_BYTES, ret_review, e));
    if (!says(*ret_review, "apiVersion", REVIEW_VERSION) || !says(*ret_review, "kind", REVIEW_KIND))
        return err_set(e, ERR_PROTOCOL,
                       "the request is no " REVIEW_KIND " of " REVIEW_VERSION
                       ", the only version that is understood");
    *ret_request = JX_AT(*ret_review, "request");
    if (!json_is_object(*ret_request))
        return err_set(e, ERR_PROTOCOL, "the " REVIEW_KIND " has no request");
    if (says_nothing(*ret_request, "uid"))
        return err_set(e, ERR_PROTOCOL, "the " REVIEW_KIND " has no request.uid");
    return 0;
}

/* --- The answer --- */

static json_t *response_of(const json_t *request, const json_t *patch)
{
    json_t *response = json_pack("{s:O,s:b}", "uid", json_object_get(request, "uid"), "allowed", 1);
    if (!patch)
        return response;
    auto_free char *text = json_dumps(patch, JSON_COMPACT);
    auto_free char *encoded = base64_encode(text, strlen(text));
    (void)json_object_set_new(response, "patchType", json_string("JSONPatch"));
    (void)json_object_set_new(response, "patch", json_string(encoded));
    return response;
}

static int answer_review(const char *body, size_t len, struct pod_defaults_words words,
                         bool *ret_patched, json_t **ret_answer, struct err *e)
{
    auto_json json_t *review = NULL;
    auto_json json_t *patch = NULL;
    const json_t *request = NULL;
    TRY(read_review(body, len, &review, &request, e));
    if (is_new_pod(request))
        TRY(pod_defaults_patch(JX_AT(request, "object"), words, &patch, e));
    *ret_patched = patch;
    *ret_answer = json_pack("{s:s,s:s,s:o}", "apiVersion", REVIEW_VERSION, "kind", REVIEW_KIND,
                            "response", response_of(request, patch));
    return 0;
}

/* As the API server's own errors are, so that its message to the user has ours in it. A message may
 * have a name of the pod's in it, cut within a character. */
static json_t *status_of(const struct err *e)
{
    auto_sb struct sb why = SB_INIT(HTTP_MAX_PIECE_BYTES);
    sb_add_utf8(&why, err_msg(e), strlen(err_msg(e)));
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:i}", "apiVersion", "v1", "kind", "Status", "status",
                     "Failure", "reason", "BadRequest", "message", sb_str(&why), "code",
                     BAD_REQUEST);
}

enum webhook_outcome webhook_answer(const char *body, size_t len, struct pod_defaults_words words,
                                    json_t **ret_answer)
{
    auto_err struct err e = {0};
    bool patched = false;
    if (answer_review(body, len, words, &patched, ret_answer, &e) == 0)
        return patched ? WEBHOOK_PATCHED : WEBHOOK_UNCHANGED;
    *ret_answer = status_of(&e);
    return WEBHOOK_UNREADABLE;
}

/* --- The route --- */

static void on_review(void *arg, struct http_reply *reply_take, const char *body, size_t len)
{
    const struct webhook *w = arg;
    auto_json json_t *answer = NULL;
    auto_sb struct sb out = SB_INIT(HTTP_MAX_BODY_BYTES);
    enum webhook_outcome outcome = webhook_answer(body, len, w->words, &answer);
    auto_free char *text = json_dumps(answer, JSON_COMPACT);
    sb_add(&out, text);
    if (w->reviews[outcome])
        metric_add(w->reviews[outcome], 1);
    if (outcome == WEBHOOK_UNREADABLE) /* anybody can send one: the counter tells how many */
        log_debug("Could not read an AdmissionReview", kv("error", JX_STR_AT(answer, "message")));
    http_reply_give(reply_take, outcome == WEBHOOK_UNREADABLE ? BAD_REQUEST : OK, &out);
}

struct http_route webhook_route(struct webhook *w)
{
    return (struct http_route){.path = WEBHOOK_PATH, .post = on_review, .arg = w};
}

struct webhook *webhook_new(struct metrics *metrics, struct pod_defaults_words words)
{
    struct webhook *w = xmalloc(sizeof(*w));
    *w = (struct webhook){.words = words};
    if (!metrics)
        return w;
    struct metric *reviews = metrics_counter(
        metrics, "cleave_scheduler_webhook_reviews_total",
        "New pods that the API server showed to the webhook, by what became of them.",
        METRIC_LABELS("result"));
    for (size_t i = 0; i < WEBHOOK_OUTCOMES; i++)
        w->reviews[i] = METRIC_WITH(reviews, outcome_names[i]);
    return w;
}

struct webhook *webhook_free(struct webhook *w)
{
    free(w);
    return NULL;
}
