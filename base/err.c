/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

static const char *const kind_names[] = {
    [0] = "None",
    [ERR_INVALID] = "Invalid",
    [ERR_NOT_FOUND] = "NotFound",
    [ERR_EXISTS] = "AlreadyExists",
    [ERR_CONFLICT] = "Conflict",
    [ERR_EXPIRED] = "Expired",
    [ERR_FORBIDDEN] = "Forbidden",
    [ERR_THROTTLED] = "TooManyRequests",
    [ERR_UNAVAILABLE] = "Unavailable",
    [ERR_TIMEOUT] = "Timeout",
    [ERR_CANCELED] = "Canceled",
    [ERR_TOO_LARGE] = "TooLarge",
    [ERR_PROTOCOL] = "ProtocolError",
    [ERR_SYSTEM] = "SystemError",
    [ERR_TERMINAL] = "Terminal",
};

const char *err_kind_name(enum err_kind kind)
{
    return (size_t)kind < ARRAY_LEN(kind_names) ? kind_names[kind] : "Unknown";
}

static void replace_error(struct err *e, enum err_kind kind, char *msg_take)
{
    if (!e) {
        free(msg_take);
        return;
    }
    free(e->msg);
    *e = (struct err){.kind = kind, .msg = msg_take};
}

int err_set(struct err *e, enum err_kind kind, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    replace_error(e, kind, xvasprintf(fmt, ap));
    va_end(ap);
    return -(int)kind;
}

int err_set_errno(struct err *e, int saved_errno, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    auto_free char *what = xvasprintf(fmt, ap);
    va_end(ap);
    char text[128];
    replace_error(e, ERR_SYSTEM,
                  xasprintf("%s: %s", what, strerror_r(saved_errno, text, sizeof(text))));
    if (e)
        e->sys_errno = saved_errno;
    return -(int)ERR_SYSTEM;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e)
        return -(int)ERR_UNAVAILABLE;
    assert(e->kind);
    va_list ap;
    va_start(ap, fmt);
    auto_free char *what = xvasprintf(fmt, ap);
    va_end(ap);
    char *msg = xasprintf("%s: %s", what, err_msg(e));
    free(e->msg);
    e->msg = msg;
    return -(int)e->kind;
}

int err_move(struct err *to, struct err *from)
{
    assert(!to || to != from);
    if (!from)
        return 0;
    int rc = -(int)from->kind;
    if (to) {
        free(to->msg);
        *to = *from;
    } else {
        free(from->msg);
    }
    *from = (struct err){0};
    return rc;
}

bool err_retriable(const struct err *e)
{
    switch (e->kind) {
    case ERR_INVALID:
    case ERR_FORBIDDEN:
    case ERR_TOO_LARGE:
    case ERR_TERMINAL:
    case ERR_CANCELED:
        return false;
    case ERR_NOT_FOUND:
    case ERR_EXISTS:
    case ERR_CONFLICT:
    case ERR_EXPIRED:
    case ERR_THROTTLED:
    case ERR_UNAVAILABLE:
    case ERR_TIMEOUT:
    case ERR_PROTOCOL:
    case ERR_SYSTEM:
        return true;
    }
    return false;
}

const char *err_msg(const struct err *e)
{
    return e->msg ? e->msg : err_kind_name(e->kind);
}

void err_clear(struct err *e)
{
    free(e->msg);
    *e = (struct err){0};
}
