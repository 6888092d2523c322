/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Errors by kind. A struct err lives in the frame of the function that handles the error and is
 * passed down as the last argument; NULL is allowed where only the kind matters. A fallible
 * function returns 0 or -kind and fills it; on failure its outs are untouched.
 */

enum err_kind {
    ERR_INVALID = 1, /* the input is wrong; a retry cannot help */
    ERR_NOT_FOUND,
    ERR_EXISTS,
    ERR_CONFLICT,    /* somebody else changed the object first */
    ERR_EXPIRED,     /* HTTP 410, or a version the server no longer has */
    ERR_FORBIDDEN,   /* 401 and 403 */
    ERR_THROTTLED,   /* 429; retry_after_ms has the delay */
    ERR_UNAVAILABLE, /* refused, reset, 5xx, a device that is busy */
    ERR_TIMEOUT,     /* a deadline ran out, ours or the peer's */
    ERR_CANCELED,    /* the scope was canceled */
    ERR_TOO_LARGE,   /* beyond one of our bounds */
    ERR_PROTOCOL,    /* the peer broke the protocol */
    ERR_SYSTEM,      /* errno in sys_errno */
    ERR_TERMINAL,    /* from a reconciler: no retry until something changes */
};

struct err {
    enum err_kind kind; /* 0: no error */
    int sys_errno;
    int http_status;        /* 0: no HTTP answer */
    int64_t retry_after_ms; /* 0: unknown */
    const char *reason;     /* static: the peer's reason (metav1.StatusReason, cause); or NULL */
    char *msg;              /* owned */
};

#define MUST_CHECK             __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* Sets kind and message, replacing the present ones. Returns -kind, so: return err_set(e, …); */
int err_set(struct err *e, enum err_kind kind, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The same for a system error; strerror(saved_errno) is appended. Returns -ERR_SYSTEM. */
int err_set_errno(struct err *e, int saved_errno, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Puts "what we did: " before the message, keeping the kind. Returns -kind. e must hold an error.
 * With NULL the kind is unknown and -ERR_UNAVAILABLE is returned. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Moves *from to *to (either may be NULL), leaving *from empty. Returns -kind. */
int err_move(struct err *to, struct err *from);

/* True when a retry with the same input may succeed. */
bool err_retriable(const struct err *e);

/* The message, or the kind's name when there is none. Borrowed from e. */
const char *err_msg(const struct err *e);

/* CamelCase name of a kind, for conditions and logs ("NotFound"). Static. */
const char *err_kind_name(enum err_kind kind);

/* Frees the message and makes e empty; also the cleanup function of auto_err. */
void err_clear(struct err *e);

#define auto_err __attribute__((cleanup(err_clear)))

/* Returns from the calling function when the call fails. Nothing is released by hand there, because
 * owners are auto_ locals. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_rc_ = (call);                                                                      \
        if (try_rc_ < 0)                                                                           \
            return try_rc_;                                                                        \
    } while (0)
