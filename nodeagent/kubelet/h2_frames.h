/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Follows the frames of HTTP/2 in a stream of bytes, to tell whether a frame is incomplete; nghttp2
 * does not report that. A frame has nine bytes, the first three being the length of the rest (RFC
 * 9113, section 4.1). A zeroed value is at the beginning of a frame. Pure.
 */
struct h2_frames {
    size_t skip; /* bytes up to the end of the frame, or of the preface */
    size_t head_len;
    uint32_t length;
    uint64_t count; /* completed frames */
};

#define H2_PREFACE_BYTES 24
#define H2_HEAD_BYTES    9

void h2_frames_add(struct h2_frames *f, const uint8_t *p, size_t len);
bool h2_frames_is_inside(const struct h2_frames *f);
