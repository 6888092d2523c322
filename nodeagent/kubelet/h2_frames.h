/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Follows the frames of HTTP/2 in a stream of bytes (RFC 9113, section 4.1: nine bytes, of which
 * the first three are the length of what follows), which nghttp2 does not tell: is a frame begun
 * and not finished? A zeroed value stands at the beginning of a frame. Pure.
 */
struct h2_frames {
    size_t skip; /* bytes up to the end of the frame, or of the preface */
    size_t head_len;
    uint32_t length;
    uint64_t count; /* of frames that are finished */
};

#define H2_PREFACE_BYTES 24
#define H2_HEAD_BYTES    9

void h2_frames_add(struct h2_frames *f, const uint8_t *p, size_t len);
bool h2_frames_is_inside(const struct h2_frames *f);
