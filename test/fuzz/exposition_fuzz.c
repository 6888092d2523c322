/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/xalloc.h"

#include "kubectl/top_text.h"

/* Input: a page of metrics, as an agent that somebody else wrote may send it. A page that can be read
 * is shown as text, in which no control character is left, and as a document. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* C0, DEL, and C1 in UTF-8. */
static void check_text(const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        assert((*c >= ' ' && *c != 0x7f) || *c == '\n');
        assert(c[0] != 0xc2 || c[1] >= 0xa0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_free char *page = xstrndup((const char *)data, len);
    auto_top_node struct top_node node = {0};
    if (top_read(page, &node, NULL) < 0)
        return 0;
    const struct top_view v = {"n1", &node, NULL};
    const struct screen screen = {.columns = 80};
    auto_sb struct sb text = SB_INIT((size_t)64 << 20);
    top_text(&v, &screen, &text);
    check_text(sb_str(&text));
    auto_json json_t *document = top_json(&v);
    assert(document);
    return 0;
}
