/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/status.h"

#include <string.h>

#include "base/jx.h"
#include "base/sb.h"

/* Long enough for any message of the API server, short enough for a condition. */
#define MAX_MESSAGE_BYTES 2048
#define MAX_EXCERPT_BYTES 120
/* A component that gets a Retry-After does nothing until then. API servers send 1 to 30 s. */
#define MAX_RETRY_AFTER_MS (5 * 60 * 1000)

/* StatusReason and CauseType values that callers or people need to distinguish. err.reason points
 * into this table, so its lifetime does not depend on an answer's text. */
static const char *const known_reasons[] = {
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "DisruptionBudget",
    "Expired",
    "FieldManagerConflict",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "RequestEntityTooLarge",
    "ResourceVersionTooLarge",
    "ServerTimeout",
    "ServiceUnavailable",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
    "UnsupportedMediaType",
};

/* Causes that are more precise than the reason they come with. */
static const char *const telling_causes[] = {"DisruptionBudget", "FieldManagerConflict",
                                             "ResourceVersionTooLarge"};

static const char *intern(const char *word)
{
    for (size_t i = 0; word && i < ARRAY_LEN(known_reasons); i++)
        if (!strcmp(known_reasons[i], word))
            return known_reasons[i];
    return NULL;
}

static bool is_telling(const char *cause)
{
    for (size_t i = 0; cause && i < ARRAY_LEN(telling_causes); i++)
        if (!strcmp(telling_causes[i], cause))
            return true;
    return false;
}

static const char *telling_cause(const json_t *status)
{
    const json_t *causes = JX_AT(status, "details", "causes");
    for (size_t i = 0; i < json_array_size(causes); i++) {
        const char *type = JX_STR_AT(json_array_get(causes, i), "reason");
        if (is_telling(type))
            return intern(type);
    }
    return NULL;
}

/* Servers before 1.24 report it only in the message (client-go reflector.go,
 * isTooLargeResourceVersionError). */
static bool says_too_large_version(const char *reason, const char *message)
{
    return reason && message && !strcmp(reason, "Timeout") &&
           strstr(message, "Too large resource version");
}

static enum err_kind kind_of_status(int code, const char *reason)
{
    switch (code) {
    case 401:
    case 403:
        return ERR_FORBIDDEN;
    case 404:
        return ERR_NOT_FOUND;
    case 408:
    case 504:
        return ERR_TIMEOUT;
    case 409:
        return reason && !strcmp(reason, "AlreadyExists") ? ERR_EXISTS : ERR_CONFLICT;
    case 410:
        return ERR_EXPIRED;
    case 413:
        return ERR_TOO_LARGE;
    case 429:
        return ERR_THROTTLED;
    default:
        if (code >= 500 && code < 600)
            return ERR_UNAVAILABLE;
        return code >= 400 && code < 500 ? ERR_INVALID : ERR_PROTOCOL;
    }
}

/* One line without control characters, at most max bytes, "…" where it was cut. */
static void add_excerpt(struct sb *out, const char *text, size_t len, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < len && n < max; i++, n++) {
        unsigned char c = (unsigned char)text[i];
        sb_add_char(out, c < 0x20 || c == 0x7f ? ' ' : (char)c);
    }
    while (n < len && out->len && (out->data[out->len - 1] & 0x80))
        out->data[--out->len] = '\0'; /* removes a partial UTF-8 sequence */
    if (n < len)
        sb_add(out, "…");
}

static void set_retry_after(struct err *e, int64_t ms)
{
    if (ms > 0)
        e->retry_after_ms = ms < MAX_RETRY_AFTER_MS ? ms : MAX_RETRY_AFTER_MS;
}

static int code_of(const json_t *status, int http_status)
{
    int64_t code = json_integer_value(JX_AT(status, "code"));
    return code >= 100 && code < 600 ? (int)code : http_status;
}

/* retryAfterSeconds in milliseconds, or 0. */
static int64_t details_retry_after_ms(const json_t *status)
{
    int64_t s = json_integer_value(JX_AT(status, "details", "retryAfterSeconds"));
    if (s <= 0)
        return 0;
    return s < MAX_RETRY_AFTER_MS / 1000 ? s * 1000 : MAX_RETRY_AFTER_MS;
}

int kc_status_to_err(const json_t *status, int http_status, struct err *e)
{
    int code = code_of(status, http_status);
    const char *word = JX_STR_AT(status, "reason");
    const char *message = JX_STR_AT(status, "message");
    const char *cause = telling_cause(status);
    if (!cause && says_too_large_version(word, message))
        cause = intern("ResourceVersionTooLarge");

    auto_sb struct sb text = SB_INIT(2 * MAX_MESSAGE_BYTES);
    if (message && *message)
        add_excerpt(&text, message, strlen(message), MAX_MESSAGE_BYTES);
    else
        sb_addf(&text, "the API server answered with status %d", code);

    int rc = err_set(e, kind_of_status(code, word), "%s", sb_str(&text));
    if (!e)
        return rc;
    e->http_status = code;
    e->reason = cause ? cause : intern(word);
    set_retry_after(e, details_retry_after_ms(status));
    return rc;
}

static int not_a_status(int http_status, const char *body, size_t len, struct err *e)
{
    enum err_kind kind = kind_of_status(http_status, /* reason= */ NULL);
    const char *end = len ? memchr(body, '\n', len) : NULL;
    size_t line = end ? (size_t)(end - body) : len;
    auto_sb struct sb text = SB_INIT(2 * MAX_EXCERPT_BYTES);
    if (line) {
        sb_add(&text, ": ");
        add_excerpt(&text, body, line, MAX_EXCERPT_BYTES);
    }
    int rc = err_set(e, kind, "HTTP status %d%s", http_status, sb_str(&text));
    if (e)
        e->http_status = http_status;
    return rc;
}

int kc_status_from_body(int http_status, const char *body, size_t len, int64_t retry_after_ms,
                        struct err *e)
{
    auto_json json_t *status = len ? json_loadb(body, len, 0, NULL) : NULL;
    const char *kind = JX_STR_AT(status, "kind");
    int rc = kind && !strcmp(kind, "Status") ? kc_status_to_err(status, http_status, e)
                                             : not_a_status(http_status, body, len, e);
    if (e)
        set_retry_after(e, retry_after_ms);
    return rc;
}

json_t *kc_status_new(int code, const char *reason, const char *message, const char *cause)
{
    json_t *status = json_pack("{s:s,s:s,s:{},s:s,s:s,s:s,s:i}", "kind", "Status", "apiVersion",
                               "v1", "metadata", "status", "Failure", "message", message, "reason",
                               reason, "code", code);
    if (cause)
        (void)json_object_set_new(status, "details",
                                  json_pack("{s:[{s:s,s:s}]}", "causes", "reason", cause, "message",
                                            message));
    return status;
}
