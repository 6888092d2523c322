/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>

#include "base/jx.h"

#include "kubeclient/list_decoder.h"

/* However a list is cut, the same items come out; and what it accepts as a list with items, a JSON
 * parser accepts too, with as many of them. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define MAX_ITEM_BYTES 65536

static int ignore(void *arg, const json_t *obj, struct err *e)
{
    (void)arg;
    (void)e;
    assert(json_is_object(obj));
    return 0;
}

/* Number of items, or the (negative) error. */
static int64_t decode(const char *data, size_t len, size_t piece)
{
    auto_err struct err e = {0};
    auto_free char *version = NULL;
    auto_free char *more = NULL;
    auto_list_decoder struct list_decoder *d = list_decoder_new(MAX_ITEM_BYTES, ignore, NULL);
    for (size_t at = 0; at < len; at += piece)
        TRY(list_decoder_feed(d, data + at, len - at < piece ? len - at : piece, &e));
    TRY(list_decoder_finish(d, &version, &more, &e));
    return (int64_t)list_decoder_count(d);
}

static void compare_with_parser(const char *text, size_t len, int64_t count)
{
    auto_json json_t *whole = NULL;
    int rc = jx_parse(text, len, len, &whole, NULL);
    assert(rc == 0 ||
           rc == -ERR_TOO_LARGE); /* deeper than the parser follows: items are measured anew */
    if (rc == 0)
        assert((int64_t)json_array_size(JX_AT(whole, "items")) == count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *text = (const char *)data;
    int64_t whole = decode(text, len, len ? len : 1);
    static const size_t pieces[] = {1, 2, 5, 64};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++)
        assert(decode(text, len, pieces[i]) == whole);
    if (whole >= 0)
        compare_with_parser(text, len, whole);
    return 0;
}
