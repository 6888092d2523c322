/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/grpc_frame.h"

#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

#define MAX_TIMEOUT_DIGITS 8
#define MAX_TIMEOUT        99999999
static_assert(MAX_TIMEOUT <= INT64_MAX / 3600000, "that many hours, in milliseconds");

/* ---- messages ---- */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns how many bytes belonged to the prefix. */
static size_t take_prefix(struct grpc_reader *r, const uint8_t *p, size_t len)
{
    assert(r->prefix_len <= GRPC_PREFIX_BYTES);
    size_t n = smaller(len, GRPC_PREFIX_BYTES - r->prefix_len);
    memcpy(r->prefix + r->prefix_len, p, n);
    r->prefix_len += n;
    if (n > 0 && r->prefix_len == GRPC_PREFIX_BYTES)
        r->expected = (size_t)r->prefix[1] << 24 | (size_t)r->prefix[2] << 16 |
                      (size_t)r->prefix[3] << 8 | (size_t)r->prefix[4];
    return n;
}

struct grpc_status grpc_reader_add(struct grpc_reader *r, const uint8_t *p, size_t len)
{
    size_t n = take_prefix(r, p, len);
    if (r->prefix_len < GRPC_PREFIX_BYTES)
        return (struct grpc_status){.code = GRPC_OK};
    if (r->prefix[0] != 0)
        return (struct grpc_status){GRPC_UNIMPLEMENTED, "compressed messages are not understood"};
    if (r->expected > r->max)
        return (struct grpc_status){GRPC_RESOURCE_EXHAUSTED, "the message is too large"};
    assert(n <= len && byte_queue_len(&r->message) <= r->expected);
    if (len - n > r->expected - byte_queue_len(&r->message))
        return (struct grpc_status){GRPC_UNIMPLEMENTED, "more than one message"};
    byte_queue_add(&r->message, p + n, len - n);
    return (struct grpc_status){.code = GRPC_OK};
}

bool grpc_reader_is_whole(const struct grpc_reader *r)
{
    return r->prefix_len == GRPC_PREFIX_BYTES && byte_queue_len(&r->message) == r->expected;
}

void grpc_reader_done(struct grpc_reader *r)
{
    byte_queue_done(&r->message);
}

void grpc_frame_add(struct byte_queue *q, const uint8_t *message, size_t len)
{
    assert(len <= UINT32_MAX);
    const uint8_t prefix[GRPC_PREFIX_BYTES] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16),
                                               (uint8_t)(len >> 8), (uint8_t)len};
    byte_queue_add(q, prefix, sizeof(prefix));
    byte_queue_add(q, message, len);
}

/* ---- timeouts ---- */

static bool to_ms(int64_t value, char unit, int64_t *ret_ms)
{
    static const struct {
        char unit;
        int64_t multiply, divide; /* factor and divisor to milliseconds */
    } units[] = {
        {'H', 3600000, 1}, {'M', 60000, 1}, {'S', 1000, 1},
        {'m', 1, 1},       {'u', 1, 1000},  {'n', 1, 1000000},
    };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (units[i].unit == unit) {
            *ret_ms = (value * units[i].multiply + units[i].divide - 1) / units[i].divide;
            return true;
        }
    return false;
}

bool grpc_timeout_parse(const char *s, size_t len, int64_t *ret_ms)
{
    if (len < 2 || len > MAX_TIMEOUT_DIGITS + 1)
        return false;
    int64_t value = 0;
    for (size_t i = 0; i < len - 1; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        value = value * 10 + (s[i] - '0');
    }
    return to_ms(value, s[len - 1], ret_ms);
}

char *grpc_timeout_format(int64_t ms)
{
    if (ms < 0)
        ms = 0;
    if (ms <= MAX_TIMEOUT)
        return xasprintf("%lldm", (long long)ms);
    int64_t seconds = ms / 1000 + (ms % 1000 > 0);
    return xasprintf("%lldS", (long long)(seconds < MAX_TIMEOUT ? seconds : MAX_TIMEOUT));
}

/* ---- texts ---- */

void grpc_text_encode(struct sb *b, const char *text)
{
    size_t len = strnlen(text, GRPC_MAX_TEXT_BYTES);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c <= 0x7e && c != '%')
            sb_add_char(b, (char)c);
        else
            sb_addf(b, "%%%02X", c);
    }
}

static int hex(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte at *i; moves *i behind it. */
static uint8_t next_byte(const uint8_t *s, size_t len, size_t *i)
{
    uint8_t c = s[(*i)++];
    if (c != '%' || len - *i < 2 || hex(s[*i]) < 0 || hex(s[*i + 1]) < 0)
        return c;
    c = (uint8_t)(hex(s[*i]) << 4 | hex(s[*i + 1]));
    *i += 2;
    return c;
}

char *grpc_text_decode(const uint8_t *s, size_t len)
{
    auto_sb struct sb bytes = SB_INIT(GRPC_MAX_TEXT_BYTES);
    for (size_t i = 0; i < len && bytes.len < GRPC_MAX_TEXT_BYTES;) {
        uint8_t c = next_byte(s, len, &i);
        sb_add_char(&bytes, c < 0x20 || c == 0x7f ? ' ' : (char)c);
    }
    struct sb text = SB_INIT(4UL * GRPC_MAX_TEXT_BYTES);
    sb_add_utf8(&text, sb_str(&bytes), GRPC_MAX_TEXT_BYTES);
    return sb_take(&text);
}

/* ---- HTTP ---- */

bool grpc_is_content_type(const uint8_t *s, size_t len)
{
    static const char type[] = "application/grpc";
    size_t n = strlen(type);
    return len >= n && !memcmp(s, type, n) && (len == n || s[n] == '+' || s[n] == ';');
}

int grpc_code_of_http(int status)
{
    enum { UNAUTHENTICATED = 16 };
    switch (status) {
    case 400:
        return GRPC_INTERNAL;
    case 401:
        return UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 404:
        return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_UNKNOWN;
    }
}
