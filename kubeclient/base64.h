/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* RFC 4648 with padding, as the API's fields of type []byte have it. */

/* Caller frees. */
char *base64_encode(const void *bytes, size_t len);

/* The text that a field holds; blanks and ends of lines in it do not count. NULL: it is no base64, or
 * of nothing, or of bytes with a NUL. Caller frees. */
char *base64_decode_text(const char *field);
