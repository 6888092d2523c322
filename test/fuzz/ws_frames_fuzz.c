/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/auto.h"

#include "kubeclient/ws_frames.h"

/* Input: what a server sends. In whatever pieces it comes, the same messages are read. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void read_in_pieces(const uint8_t *data, size_t len, size_t piece, struct sb *ret)
{
    int rc = 0;
    auto_ws_reader struct ws_reader r;
    ws_reader_init(&r);
    for (size_t at = 0; at < len && rc >= 0; at += piece) {
        struct ws_message m;
        ws_reader_feed(&r, data + at, piece < len - at ? piece : len - at);
        while ((rc = ws_reader_next(&r, &m, NULL)) == 1) {
            assert(m.opcode != WS_CONTINUATION && m.len <= WS_MAX_MESSAGE_BYTES);
            sb_addf(ret, "%d %zu:", (int)m.opcode, m.len);
            sb_add_mem(ret, m.data, m.len);
        }
    }
    sb_addf(ret, "%d", rc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_sb struct sb whole = SB_INIT((size_t)64 << 20);
    auto_sb struct sb pieces = SB_INIT((size_t)64 << 20);
    if (len == 0)
        return 0;
    read_in_pieces(data, len, len, &whole);
    read_in_pieces(data, len, 3, &pieces);
    assert(whole.len == pieces.len && memcmp(whole.data, pieces.data, whole.len) == 0);
    return 0;
}
