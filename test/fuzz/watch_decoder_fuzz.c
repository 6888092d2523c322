/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>

#include "base/jx.h"

#include "kubeclient/watch_decoder.h"

/* However a stream is cut, the same events come out and the same error ends it. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define MAX_EVENT_BYTES 4096

struct outcome {
    uint64_t digest;
    int rc;
};

static int digest(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    (void)e;
    uint64_t *sum = arg;
    auto_free char *text = jx_dump(obj);
    *sum = (*sum ^ (uint64_t)change) * 1099511628211U;
    for (const char *c = text; *c; c++)
        *sum = (*sum ^ (unsigned char)*c) * 1099511628211U;
    return 0;
}

static struct outcome decode(const char *data, size_t len, size_t piece)
{
    struct outcome out = {0};
    auto_err struct err e = {0};
    auto_watch_decoder struct watch_decoder *d =
        watch_decoder_new(MAX_EVENT_BYTES, digest, &out.digest);
    for (size_t at = 0; at < len && out.rc == 0; at += piece)
        out.rc = watch_decoder_feed(d, data + at, len - at < piece ? len - at : piece, &e);
    if (out.rc == 0)
        out.rc = watch_decoder_finish(d, &e);
    assert((out.rc < 0) == (e.msg != NULL));
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *text = (const char *)data;
    struct outcome whole = decode(text, len, len ? len : 1);
    static const size_t pieces[] = {1, 2, 3, 7, 64};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        struct outcome cut = decode(text, len, pieces[i]);
        /* Only a line beyond the bound may end earlier: it is noticed before its end arrives. */
        assert(cut.rc == whole.rc || cut.rc == -ERR_TOO_LARGE || whole.rc == -ERR_TOO_LARGE);
        assert(cut.rc != whole.rc || cut.digest == whole.digest);
    }
    return 0;
}
