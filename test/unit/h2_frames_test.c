/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "nodeagent/kubelet/h2_frames.h"

/* A PING of 8 bytes, settings of none, DATA of 3. */
static const uint8_t bytes[] = "\0\0\x08\x06\0\0\0\0\0pingping"
                               "\0\0\0\x04\0\0\0\0\0"
                               "\0\0\3\0\0\0\0\0\1abc";
#define LEN (sizeof(bytes) - 1)

Test(h2_frames, knows_at_each_byte_whether_a_frame_is_open)
{
    struct h2_frames f = {0};
    for (size_t i = 0; i < LEN; i++) {
        cr_expect_eq(h2_frames_is_inside(&f), i != 0 && i != 17 && i != 26, "byte %zu", i);
        h2_frames_add(&f, bytes + i, 1);
    }
    cr_expect_not(h2_frames_is_inside(&f));
    cr_expect_eq(f.count, 3);
}

Test(h2_frames, does_not_care_how_bytes_are_cut)
{
    for (size_t cut = 0; cut <= LEN; cut++) {
        struct h2_frames f = {0};
        h2_frames_add(&f, bytes, cut);
        h2_frames_add(&f, bytes + cut, LEN - cut);
        cr_expect_not(h2_frames_is_inside(&f));
        cr_expect_eq(f.count, 3);
    }
}

Test(h2_frames, a_preface_is_skipped)
{
    struct h2_frames f = {.skip = H2_PREFACE_BYTES};
    cr_expect(h2_frames_is_inside(&f));
    h2_frames_add(&f, (const uint8_t *)"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", H2_PREFACE_BYTES);
    cr_expect_not(h2_frames_is_inside(&f));
    h2_frames_add(&f, bytes, LEN);
    cr_expect_eq(f.count, 3);
}
