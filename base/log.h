/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Structured log: a constant message and typed key/value pairs, one line each, to a file descriptor
 * that main sets once. Wording as in Kubernetes: capital first, no full stop, past tense, name the
 * kind ("Created Device", "Could not patch Node"). Never log secrets. Any thread; lines never mix.
 *
 *    log_info("Applied layout", kv("gpu", uuid), kv_int("created", 3));
 */
enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_LOGFMT, LOG_JSON };

enum log_kv_type { LOG_KV_END, LOG_KV_STR, LOG_KV_INT, LOG_KV_BOOL };
struct log_kv {
    enum log_kv_type type;
    const char *key;
    const char *str; /* borrowed; NULL: the pair is left out */
    int64_t num;
};

/* Called once, before other threads exist. fd is borrowed. */
void log_setup(enum log_level min, enum log_format format, int fd);
bool log_enabled(enum log_level level);
/* "debug" … "error", "logfmt" | "json". ERR_INVALID names the choices. */
int log_level_parse(const char *s, enum log_level *ret, struct err *e) MUST_CHECK;
int log_format_parse(const char *s, enum log_format *ret, struct err *e) MUST_CHECK;

/* pairs ends with a LOG_KV_END element. Use the macros below. */
void log_write(enum log_level level, const char *msg, const struct log_kv *pairs);

#define kv(k, v)      ((struct log_kv){.type = LOG_KV_STR, .key = (k), .str = (v)})
#define kv_int(k, v)  ((struct log_kv){.type = LOG_KV_INT, .key = (k), .num = (int64_t)(v)})
#define kv_bool(k, v) ((struct log_kv){.type = LOG_KV_BOOL, .key = (k), .num = (v)})
/* The error's message under the key "error". */
#define kv_err(e) kv("error", err_msg(e))

#define LOG_AT(level, msg, ...)                                                                    \
    do {                                                                                           \
        if (log_enabled(level))                                                                    \
            log_write(level, msg, (const struct log_kv[]){__VA_ARGS__ __VA_OPT__(, ){0}});         \
    } while (0)
#define log_debug(msg, ...) LOG_AT(LOG_DEBUG, msg __VA_OPT__(, ) __VA_ARGS__)
#define log_info(msg, ...)  LOG_AT(LOG_INFO, msg __VA_OPT__(, ) __VA_ARGS__)
#define log_warn(msg, ...)  LOG_AT(LOG_WARN, msg __VA_OPT__(, ) __VA_ARGS__)
#define log_error(msg, ...) LOG_AT(LOG_ERROR, msg __VA_OPT__(, ) __VA_ARGS__)
