/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "kubeclient/ws_frames.h"

#define HELLO "\x81\x05Hello"

/* Feeds the bytes, all at once or one by one, and expects these messages, as "OPCODE:text", then the
 * end or the error. */
static void expect_messages(const char *bytes, size_t len, bool one_by_one, const char *messages,
                            int last)
{
    int rc = 0;
    auto_err struct err e = {0};
    auto_ws_reader struct ws_reader r;
    auto_sb struct sb got = SB_INIT(4096);
    ws_reader_init(&r);
    for (size_t at = 0; at < len && rc >= 0;) {
        struct ws_message m;
        size_t n = one_by_one ? 1 : len;
        ws_reader_feed(&r, bytes + at, n);
        at += n;
        while ((rc = ws_reader_next(&r, &m, &e)) == 1) {
            sb_addf(&got, "%d:", (int)m.opcode);
            sb_add_mem(&got, m.data, m.len);
            sb_add_char(&got, ' ');
        }
    }
    cr_expect_str_eq(sb_str(&got), messages);
    cr_expect_eq(rc, last, "%s", err_msg(&e));
}

#define EXPECT_MESSAGES(bytes, messages, last)                                                     \
    do {                                                                                           \
        expect_messages(bytes, sizeof(bytes) - 1, false, messages, last);                          \
        expect_messages(bytes, sizeof(bytes) - 1, true, messages, last);                           \
    } while (0)

/* The examples of RFC 6455, section 5.7. */
Test(ws_frames, what_a_server_sends_is_read_in_whatever_pieces_it_comes)
{
    EXPECT_MESSAGES(HELLO, "1:Hello ", 0);
    EXPECT_MESSAGES("\x01\x03Hel\x80\x02lo", "1:Hello ", 0);
    EXPECT_MESSAGES("\x89\x05Hello", "9:Hello ", 0);
    EXPECT_MESSAGES("\x01\x03Hel\x89\x01p\x80\x02lo\x82\x01x", "9:p 1:Hello 2:x ", 0);
    EXPECT_MESSAGES("\x82\x7e\x00\x01x\x82\x7f\0\0\0\0\0\0\0\x01y\x88\x00", "2:x 2:y 8: ", 0);
    EXPECT_MESSAGES("\x01\x00\x00\x01x\x80\x00", "1:x ", 0);
    EXPECT_MESSAGES("\x81\x05Hell", "", 0);
}

Test(ws_frames, what_breaks_the_protocol_ends_the_reading)
{
    EXPECT_MESSAGES("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "", -ERR_PROTOCOL);
    EXPECT_MESSAGES(HELLO "\xc1\x00", "1:Hello ", -ERR_PROTOCOL);
    EXPECT_MESSAGES("\x83\x00", "", -ERR_PROTOCOL);
    EXPECT_MESSAGES("\x80\x01x", "", -ERR_PROTOCOL);
    EXPECT_MESSAGES("\x01\x01x\x81\x01y", "", -ERR_PROTOCOL);
    EXPECT_MESSAGES("\x09\x00", "", -ERR_PROTOCOL);
    EXPECT_MESSAGES("\x89\x7e\x00\x7e", "", -ERR_PROTOCOL);
    EXPECT_MESSAGES("\x82\x7f\0\0\0\0\0\x10\0\x01", "", -ERR_TOO_LARGE);
    EXPECT_MESSAGES("\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", "", -ERR_TOO_LARGE);
}

Test(ws_frames, fragments_are_bounded_together)
{
    int rc = 0;
    auto_ws_reader struct ws_reader r;
    struct ws_message m;
    static const char zeros[65536];
    ws_reader_init(&r);
    ws_reader_feed(&r, "\x02\x00", 2);
    for (size_t sent = 0; rc == 0 && sent <= 2 * WS_MAX_MESSAGE_BYTES; sent += sizeof(zeros)) {
        ws_reader_feed(&r, "\x00\x7f\0\0\0\0\0\x01\0\0", 10);
        ws_reader_feed(&r, zeros, sizeof(zeros));
        rc = ws_reader_next(&r, &m, NULL);
    }
    cr_expect_eq(rc, -ERR_TOO_LARGE);
}

/* Takes the mask off, as a server does, and reads what is left. */
static void expect_written(size_t len, size_t header)
{
    static char data[70000], frame[70020];
    auto_sb struct sb out = SB_INIT(sizeof(frame));
    const uint8_t mask[4] = {1, 2, 3, 4};
    memset(data, 'x', sizeof(data));
    const struct ws_message m = {WS_BINARY, (const uint8_t *)data, len};
    ws_frame_add(&out, &m, mask);
    cr_assert_eq(out.len, header + sizeof(mask) + len);
    cr_expect(out.data[1] & '\x80');
    memcpy(frame, out.data, header);
    frame[1] = (char)(frame[1] & 0x7f);
    for (size_t i = 0; i < len; i++)
        frame[header + i] = (char)(out.data[header + sizeof(mask) + i] ^ mask[i % 4]);
    auto_ws_reader struct ws_reader r;
    struct ws_message got;
    ws_reader_init(&r);
    ws_reader_feed(&r, frame, header + len);
    cr_assert_eq(ws_reader_next(&r, &got, NULL), 1);
    cr_expect_eq(got.len, len);
    cr_expect_arr_eq(got.data, data, len);
}

Test(ws_frames, what_is_written_is_masked_and_reads_back)
{
    expect_written(0, 2);
    expect_written(125, 2);
    expect_written(126, 4);
    expect_written(65535, 4);
    expect_written(65536, 10);
}
