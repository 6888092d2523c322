/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"

#include "nodeagent/kubelet/grpc_frame.h"

#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1

static void reader_done(struct grpc_reader *r)
{
    grpc_reader_done(r);
}
#define auto_reader __attribute__((cleanup(reader_done)))

Test(grpc_frame, a_message_arrives_whole_however_it_is_cut)
{
    static const char bytes[] = "\0\0\0\0\5hello";
    size_t len = sizeof(bytes) - 1;
    for (size_t cut = 0; cut <= len; cut++) {
        auto_reader struct grpc_reader r = {.max = 5};
        cr_expect_eq(grpc_reader_add(&r, (const uint8_t *)bytes, cut).code, GRPC_OK);
        cr_expect_eq(grpc_reader_is_whole(&r), cut == len);
        cr_expect_eq(grpc_reader_add(&r, (const uint8_t *)bytes + cut, len - cut).code, GRPC_OK);
        cr_expect(grpc_reader_is_whole(&r));
        cr_expect_eq(byte_queue_len(&r.message), 5);
        cr_expect_eq(memcmp(byte_queue_peek(&r.message), "hello", 5), 0);
    }
}

Test(grpc_frame, nothing_is_no_message_and_an_empty_one_is)
{
    auto_reader struct grpc_reader r = {.max = 5};
    cr_expect_not(grpc_reader_is_whole(&r));
    cr_expect_eq(grpc_reader_add(&r, BYTES("\0\0\0\0\0")).code, GRPC_OK);
    cr_expect(grpc_reader_is_whole(&r));
}

Test(grpc_frame, a_length_beyond_the_limit_is_refused_before_its_bytes_come)
{
    auto_reader struct grpc_reader r = {.max = 5};
    cr_expect_eq(grpc_reader_add(&r, BYTES("\0\0\0\0\6")).code, GRPC_RESOURCE_EXHAUSTED);
    auto_reader struct grpc_reader longest = {.max = 5};
    cr_expect_eq(grpc_reader_add(&longest, BYTES("\0\xff\xff\xff\xff")).code,
                 GRPC_RESOURCE_EXHAUSTED);
}

Test(grpc_frame, compressed_and_second_messages_are_refused)
{
    auto_reader struct grpc_reader compressed = {.max = 5};
    cr_expect_eq(grpc_reader_add(&compressed, BYTES("\1\0\0\0\1x")).code, GRPC_UNIMPLEMENTED);
    auto_reader struct grpc_reader second = {.max = 5};
    cr_expect_eq(grpc_reader_add(&second, BYTES("\0\0\0\0\1x\0")).code, GRPC_UNIMPLEMENTED);
}

Test(grpc_frame, what_is_written_is_read)
{
    struct byte_queue q = {0};
    grpc_frame_add(&q, BYTES("message"));
    auto_reader struct grpc_reader r = {.max = 7};
    cr_expect_eq(grpc_reader_add(&r, byte_queue_peek(&q), byte_queue_len(&q)).code, GRPC_OK);
    cr_expect(grpc_reader_is_whole(&r));
    byte_queue_done(&q);
}

Test(grpc_frame, timeouts_are_read_in_all_units)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: not a timeout */
    } cases[] = {
        {"1H", 3600000},    {"2M", 120000},
        {"3S", 3000},       {"4m", 4},
        {"1u", 1},          {"1001u", 2},
        {"1n", 1},          {"99999999n", 100},
        {"0m", 0},          {"99999999m", 99999999},
        {"", -1},           {"m", -1},
        {"1", -1},          {"1x", -1},
        {"-1m", -1},        {"1 m", -1},
        {"999999999m", -1}, {"99999999H", 359999996400000},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t ms = -1;
        bool good = grpc_timeout_parse(cases[i].text, strlen(cases[i].text), &ms);
        cr_expect_eq(good, cases[i].ms >= 0, "%s", cases[i].text);
        cr_expect_eq(ms, cases[i].ms, "%s", cases[i].text);
    }
}

Test(grpc_frame, timeouts_are_written_in_eight_digits)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {{0, "0m"},
                 {-5, "0m"},
                 {1500, "1500m"},
                 {99999999, "99999999m"},
                 {100000000, "100000S"},
                 {100000001, "100001S"},
                 {INT64_MAX, "99999999S"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *text = grpc_timeout_format(cases[i].ms);
        cr_expect_str_eq(text, cases[i].text);
    }
}

Test(grpc_frame, texts_go_there_and_back)
{
    static const struct {
        const char *text, *encoded;
    } cases[] = {
        {"plain text", "plain text"},
        {"50%", "50%25"},
        {"größer", "gr%C3%B6%C3%9Fer"},
        {"~ and }", "~ and }"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_sb struct sb b = SB_INIT(1000);
        grpc_text_encode(&b, cases[i].text);
        cr_expect_str_eq(sb_str(&b), cases[i].encoded);
        auto_free char *back = grpc_text_decode((const uint8_t *)b.data, b.len);
        cr_expect_str_eq(back, cases[i].text);
    }
}

Test(grpc_frame, texts_of_strangers_can_be_shown)
{
    static const struct {
        const char *encoded, *text;
    } cases[] = {
        {"broken %", "broken %"}, {"broken %4", "broken %4"},   {"broken %zz", "broken %zz"},
        {"%41%6a%6A", "Ajj"},     {"a%0Ab%1B[31m", "a b [31m"}, {"a%00b", "a b"},
        {"%C3", "\xEF\xBF\xBD"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *text =
            grpc_text_decode((const uint8_t *)cases[i].encoded, strlen(cases[i].encoded));
        cr_expect_str_eq(text, cases[i].text);
    }
}

Test(grpc_frame, long_texts_are_cut)
{
    char text[3 * GRPC_MAX_TEXT_BYTES] = {0};
    memset(text, '\n', sizeof(text) - 1);
    auto_sb struct sb b = SB_INIT(sizeof(text));
    grpc_text_encode(&b, text);
    cr_expect_eq(b.len, 3 * GRPC_MAX_TEXT_BYTES);
    auto_free char *back = grpc_text_decode((const uint8_t *)text, sizeof(text) - 1);
    cr_expect_eq(strlen(back), GRPC_MAX_TEXT_BYTES);
}

Test(grpc_frame, content_types_are_grpcs)
{
    cr_expect(grpc_is_content_type(BYTES("application/grpc")));
    cr_expect(grpc_is_content_type(BYTES("application/grpc+proto")));
    cr_expect(grpc_is_content_type(BYTES("application/grpc;charset=utf-8")));
    cr_expect_not(grpc_is_content_type(BYTES("application/grpc-web")));
    cr_expect_not(grpc_is_content_type(BYTES("application/grp")));
    cr_expect_not(grpc_is_content_type(BYTES("")));
}
