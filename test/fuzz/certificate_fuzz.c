/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/jx.h"

#include "scheduler/certificate_objects.h"

/*
 * Input: {"secret": …, "configuration": …}, as whoever may write them can leave them, with the hour in
 * "now". Whatever is there, the next write can be made, and a promotion has what it promotes.
 */
#define MAX_BYTES (1UL << 20)
#define HOST      "cleave-webhook.cleave-system.svc"
#define HOUR      (INT64_C(3600) * 1000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void act(json_t *secret, json_t *configuration, const struct certificate_todo *todo)
{
    const struct tls_pair none = {.cert_pem = (char[]){""}, .key_pem = (char[]){""}};
    assert(todo->bundle);
    if (todo->step == CERTIFICATE_REST)
        assert(todo->recheck_ms > 0);
    if (todo->step == CERTIFICATE_MAKE)
        certificate_put_next(secret, &none);
    if (todo->step == CERTIFICATE_ANNOUNCE)
        certificate_announce(configuration, todo->bundle);
    if (todo->step == CERTIFICATE_PROMOTE)
        certificate_promote(secret, todo->old);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_certificate_seen struct certificate_seen seen = {0};
    auto_certificate_todo struct certificate_todo todo = {0};
    auto_json json_t *input = NULL;
    if (jx_parse((const char *)data, len, MAX_BYTES, &input, NULL) < 0)
        return 0;
    json_t *secret = json_object_get(input, "secret");
    json_t *configuration = json_object_get(input, "configuration");
    int64_t now = json_integer_value(json_object_get(input, "now")) % 1000000 * HOUR;
    if ((secret && !json_is_object(secret)) || (configuration && !json_is_object(configuration)))
        return 0;
    certificate_view(secret, configuration, HOST, &seen);
    certificate_plan(&seen, now, 90 * 24 * HOUR, &todo);
    if (todo.step == CERTIFICATE_PROMOTE)
        assert(seen.next.pem);
    act(secret, configuration, &todo);
    return 0;
}
