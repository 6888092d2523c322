/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/jx.h"
#include "base/num.h"

#include "kubeclient/base64.h"
#include "scheduler/webhook.h"
#include "service/http_channel.h"

/*
 * Input: what is posted to the webhook, as an API server or a stranger may. Each question has an answer
 * that fits, and a patch only ever adds one share, or the scheduler's name.
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* One share, or whole GiB of gpushare's as MiB. */
static void check_amount(const char *path, const char *value)
{
    int64_t mib = 0;
    assert(strncmp(path, "/spec/", 6) == 0);
    if (strstr(path, "/nvidia.com~1gpumem")) {
        assert(num_parse(value, 1024, INT32_MAX, &mib, NULL) == 0 && mib % 1024 == 0);
        return;
    }
    assert(strstr(path, "/nvidia.com~1gpu") && strcmp(value, "1") == 0);
}

static void check_operation(const json_t *op)
{
    const char *path = JX_STR_AT(op, "path");
    const char *value = JX_STR_AT(op, "value");
    assert(strcmp(JX_STR_AT(op, "op"), "add") == 0);
    if (strcmp(path, "/spec/schedulerName") == 0)
        assert(strcmp(value, "cleave-scheduler") == 0);
    else
        check_amount(path, value);
}

static void check_patch(const json_t *response)
{
    auto_free char *text = base64_decode_text(JX_STR_AT(response, "patch"));
    auto_json json_t *patch = text ? json_loads(text, 0, NULL) : NULL;
    assert(json_array_size(patch) > 0);
    for (size_t i = 0; i < json_array_size(patch); i++)
        check_operation(json_array_get(patch, i));
}

static void check_review(const json_t *answer, bool patched)
{
    const json_t *response = JX_AT(answer, "response");
    assert(json_is_true(JX_AT(response, "allowed")));
    assert(JX_STR_AT(response, "uid")[0]);
    assert(!patched == !JX_AT(response, "patch"));
    if (patched)
        check_patch(response);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *answer = NULL;
    if (len > HTTP_MAX_UPLOAD_BYTES)
        return 0;
    enum webhook_outcome outcome =
        webhook_answer((const char *)data, len,
                       (struct pod_defaults_words){.gpushare = len % 2,
                                                   .koordinator = len % 3 == 0},
                       &answer);
    auto_free char *text = json_dumps(answer, JSON_COMPACT);
    assert(text && strlen(text) < HTTP_MAX_BODY_BYTES);
    if (outcome == WEBHOOK_UNREADABLE)
        assert(JX_STR_AT(answer, "message")[0]);
    else
        check_review(answer, outcome == WEBHOOK_PATCHED);
    return 0;
}
