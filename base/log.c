/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/rfc3339.h"
#include "base/sb.h"

/* A value longer than this is cut, a pair that no longer fits the line is dropped. */
#define VALUE_MAX_BYTES 4096
#define LINE_MAX_BYTES  (64 * 1024)
/* A reader that does not read holds the program up for at most so long before lines are lost. */
#define STALL_MS 1000

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const format_names[] = {"logfmt", "json"};

/* The sink; written by log_setup only, before there are threads. */
static struct {
    enum log_level min;
    enum log_format format;
    int fd;
    pthread_mutex_t mu; /* one line at a time */
} sink = {.min = LOG_INFO, .format = LOG_LOGFMT, .fd = 2, .mu = PTHREAD_MUTEX_INITIALIZER};

void log_setup(enum log_level min, enum log_format format, int fd)
{
    sink.min = min;
    sink.format = format;
    sink.fd = fd;
}

bool log_enabled(enum log_level level)
{
    return level >= sink.min;
}

int log_level_parse(const char *s, enum log_level *ret, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
        if (strcmp(s, level_names[i]) != 0)
            continue;
        *ret = (enum log_level)i;
        return 0;
    }
    return err_set(e, ERR_INVALID, "log level \"%s\" is none of debug, info, warn, error", s);
}

int log_format_parse(const char *s, enum log_format *ret, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(format_names); i++) {
        if (strcmp(s, format_names[i]) != 0)
            continue;
        *ret = (enum log_format)i;
        return 0;
    }
    return err_set(e, ERR_INVALID, "log format \"%s\" is none of logfmt, json", s);
}

/* One character inside double quotes, as JSON escapes it. */
static void add_escaped(struct sb *b, char c)
{
    if (c == '"' || c == '\\')
        sb_addf(b, "\\%c", c);
    else if (c == '\n')
        sb_add(b, "\\n");
    else if (c == '\t')
        sb_add(b, "\\t");
    else if ((unsigned char)c < 0x20 || c == 0x7f)
        sb_addf(b, "\\u%04x", (unsigned)c);
    else
        sb_add_char(b, c);
}

static void add_quoted(struct sb *b, const char *s)
{
    auto_sb struct sb clean = SB_INIT(3 * VALUE_MAX_BYTES);
    sb_add_utf8(&clean, s, VALUE_MAX_BYTES);
    sb_add_char(b, '"');
    for (const char *c = sb_str(&clean); *c; c++)
        add_escaped(b, *c);
    if (strnlen(s, VALUE_MAX_BYTES + 1) > VALUE_MAX_BYTES)
        sb_add(b, "…");
    sb_add_char(b, '"');
}

/* True when the value needs no quotes in logfmt. */
static bool is_bare(const char *s)
{
    size_t len = 0;
    for (; s[len]; len++)
        if (s[len] <= ' ' || s[len] > '~' || strchr("\"=\\", s[len]) || len > VALUE_MAX_BYTES)
            return false;
    return len > 0;
}

static void add_key(struct sb *line, const char *key)
{
    bool json = sink.format == LOG_JSON;
    if (line->len > (json ? strlen("{") : 0))
        sb_add_char(line, json ? ',' : ' ');
    sb_addf(line, json ? "\"%s\":" : "%s=", key);
}

static void add_str(struct sb *line, const char *key, const char *value)
{
    add_key(line, key);
    if (sink.format == LOG_LOGFMT && is_bare(value))
        sb_add(line, value);
    else
        add_quoted(line, value);
}

static void add_pair(struct sb *line, const struct log_kv *pair)
{
    switch (pair->type) {
    case LOG_KV_STR:
        if (pair->str)
            add_str(line, pair->key, pair->str);
        break;
    case LOG_KV_INT:
        add_key(line, pair->key);
        sb_addf(line, "%" PRId64, pair->num);
        break;
    case LOG_KV_BOOL:
        add_key(line, pair->key);
        sb_add(line, pair->num ? "true" : "false");
        break;
    case LOG_KV_END:
        break;
    }
}

/* Adds the pair as a whole or not at all. */
static void add_pair_if_fits(struct sb *line, const struct log_kv *pair)
{
    size_t before = line->len;
    add_pair(line, pair);
    if (!line->overflow)
        return;
    line->overflow = false;
    line->len = before;
    line->data[before] = '\0';
}

static void add_head(struct sb *line, enum log_level level, const char *msg)
{
    char time[RFC3339_BYTES];
    if (sink.format == LOG_JSON)
        sb_add_char(line, '{');
    add_str(line, "time", rfc3339_format_micro(clock_wall_ms(clock_real()), time));
    add_str(line, "level", level_names[level]);
    add_str(line, "msg", msg);
}

/* Writes the whole line; it is lost when the sink is gone or stuck. */
static void write_line(const char *text, size_t len)
{
    HOLD(&sink.mu);
    while (len > 0) {
        ssize_t n = write(sink.fd, text, len);
        if (n > 0) {
            text += n;
            len -= (size_t)n;
            continue;
        }
        struct pollfd p = {.fd = sink.fd, .events = POLLOUT};
        if (n < 0 && errno == EAGAIN && poll(&p, 1, STALL_MS) > 0)
            continue;
        if (n == 0 || errno != EINTR)
            return;
    }
}

void log_write(enum log_level level, const char *msg, const struct log_kv *pairs)
{
    int saved_errno = errno;
    auto_sb struct sb line = SB_INIT(LINE_MAX_BYTES);
    add_head(&line, level, msg);
    for (const struct log_kv *pair = pairs; pair->type != LOG_KV_END; pair++)
        add_pair_if_fits(&line, pair);
    line.cap += 2; /* the end always fits */
    sb_add(&line, sink.format == LOG_JSON ? "}\n" : "\n");
    write_line(line.data, line.len);
    errno = saved_errno;
}
