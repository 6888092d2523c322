/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/watch_decoder.h"

#include <assert.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "kubeclient/status.h"

/*
 * `partial` holds the beginning of an event whose end has not arrived. Events usually arrive whole;
 * then it is empty and no bytes are copied.
 */
struct watch_decoder {
    kc_change_fn *fn;
    void *arg;
    size_t max_event_bytes, count;
    struct sb partial;
    bool failed;
};

struct watch_decoder *watch_decoder_new(size_t max_event_bytes, kc_change_fn *fn, void *arg)
{
    struct watch_decoder *d = xmalloc(sizeof(*d));
    d->fn = fn;
    d->arg = arg;
    d->max_event_bytes = max_event_bytes;
    d->partial = SB_INIT(max_event_bytes);
    return d;
}

static bool change_of(const char *type, enum kc_change *ret)
{
    static const char *const names[] = {[KC_ADDED] = "ADDED",
                                        [KC_MODIFIED] = "MODIFIED",
                                        [KC_DELETED] = "DELETED",
                                        [KC_BOOKMARK] = "BOOKMARK"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!strcmp(names[i], type)) {
            *ret = (enum kc_change)i;
            return true;
        }
    }
    return false;
}

static int deliver(struct watch_decoder *d, const json_t *event, struct err *e)
{
    const char *type = JX_STR_AT(event, "type");
    const json_t *object = JX_AT(event, "object");
    if (!type || !json_is_object(object))
        return err_set(e, ERR_PROTOCOL, "watch event without type or object");
    if (!strcmp(type, "ERROR"))
        return kc_status_to_err(object, /* http_status= */ 500, e);
    enum kc_change change;
    if (!change_of(type, &change))
        return err_set(e, ERR_PROTOCOL, "watch event of unknown type \"%.20s\"", type);
    d->count++;
    return d->fn(d->arg, change, object, e);
}

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

static int take_line(struct watch_decoder *d, const char *line, size_t len, struct err *e)
{
    if (is_blank(line, len))
        return 0;
    auto_json json_t *event = NULL;
    if (jx_parse(line, len, d->max_event_bytes, &event, e) < 0)
        return err_wrap(e, "watch event");
    return deliver(d, event, e);
}

static int too_large(const struct watch_decoder *d, struct err *e)
{
    return err_set(e, ERR_TOO_LARGE, "watch event larger than %zu bytes", d->max_event_bytes);
}

/* The end of a line whose beginning may lie in `partial`. */
static int end_line(struct watch_decoder *d, const char *tail, size_t len, struct err *e)
{
    if (!d->partial.len)
        return take_line(d, tail, len, e);
    sb_add_mem(&d->partial, tail, len);
    if (d->partial.overflow)
        return too_large(d, e);
    TRY(take_line(d, sb_str(&d->partial), d->partial.len, e));
    sb_reset(&d->partial);
    return 0;
}

static int feed(struct watch_decoder *d, const char *data, size_t len, struct err *e)
{
    const char *newline;
    while (len && (newline = memchr(data, '\n', len))) {
        size_t line = (size_t)(newline - data);
        TRY(end_line(d, data, line, e));
        data += line + 1;
        len -= line + 1;
    }
    sb_add_mem(&d->partial, data, len);
    return d->partial.overflow ? too_large(d, e) : 0;
}

int watch_decoder_feed(struct watch_decoder *d, const char *data, size_t len, struct err *e)
{
    assert(!d->failed);
    int rc = feed(d, data, len, e);
    d->failed = rc < 0;
    return rc;
}

/* The last event needs no newline: the end of the stream after a complete object ends it too. */
int watch_decoder_finish(struct watch_decoder *d, struct err *e)
{
    assert(!d->failed);
    if (is_blank(sb_str(&d->partial), d->partial.len))
        return 0;
    auto_json json_t *event = NULL;
    if (jx_parse(sb_str(&d->partial), d->partial.len, d->max_event_bytes, &event, NULL) < 0)
        return err_set(e, ERR_UNAVAILABLE, "the watch ended inside an event");
    sb_reset(&d->partial);
    return deliver(d, event, e);
}

size_t watch_decoder_count(const struct watch_decoder *d)
{
    return d->count;
}

struct watch_decoder *watch_decoder_free(struct watch_decoder *d)
{
    if (!d)
        return NULL;
    sb_done(&d->partial);
    free(d);
    return NULL;
}
