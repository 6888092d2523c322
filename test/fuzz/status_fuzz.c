/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "kubeclient/status.h"

/*
 * Input: the HTTP status (two bytes) and the body of an answer that is no success. It becomes an
 * error with a message for a log: one line, of bounded length.
 */
#define MAX_MESSAGE 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_err struct err e = {0};
    if (len < 2)
        return 0;
    int http_status = 300 + (data[0] << 8 | data[1]) % 700;
    int rc = kc_status_from_body(http_status, (const char *)data + 2, len - 2,
                                 /* retry_after_ms= */ 0, &e);
    assert(rc < 0 && rc == -(int)e.kind);
    assert(e.retry_after_ms >= 0 && e.retry_after_ms <= 300000);
    assert(e.msg && strlen(e.msg) <= MAX_MESSAGE);
    for (const char *c = e.msg; *c; c++)
        assert(!iscntrl((unsigned char)*c));
    return 0;
}
