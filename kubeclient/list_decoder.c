/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/list_decoder.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "kubeclient/sparing_parser.h"

/* The scanner's position inside the items array. */
enum position { OUTSIDE, AT_START, AFTER_ITEM, AFTER_COMMA };

/* The meaning of one byte for the splitting. */
enum step { PLAIN, ITEMS_BEGIN, ITEM_BEGIN, ITEM_END, ITEMS_END, BAD };

#define ITEMS_DEPTH 2 /* between the items: inside the document and the array */

/*
 * `rest` is the document without the items, parsed at the end; `item` the beginning of an item that
 * is not complete yet. `key` is the last string at depth 1, which before a '[' is the member's
 * name.
 */
struct list_decoder {
    kc_item_fn *fn;
    void *arg;
    size_t max_item_bytes, count;
    struct sb rest, item;
    enum position position;
    int depth;
    bool in_string, escaped, failed;
    char key[6];
    size_t key_len;
    struct sparing_parser parser;
};

struct list_decoder *list_decoder_new(size_t max_item_bytes, kc_item_fn *fn, void *arg)
{
    struct list_decoder *d = xmalloc(sizeof(*d));
    d->fn = fn;
    d->arg = arg;
    d->max_item_bytes = max_item_bytes;
    d->rest = SB_INIT(max_item_bytes);
    d->item = SB_INIT(max_item_bytes);
    return d;
}

void list_decoder_spare(struct list_decoder *d, const char *const *shared,
                        const char *const *without)
{
    d->parser.shared = shared;
    d->parser.without = without;
}

static void scan_string(struct list_decoder *d, char c)
{
    if (d->escaped)
        d->escaped = false;
    else if (c == '\\')
        d->escaped = true;
    else if (c == '"')
        d->in_string = false;
    if (d->in_string && d->depth == 1 && d->key_len < sizeof(d->key))
        d->key[d->key_len++] = c;
}

static bool key_is_items(const struct list_decoder *d)
{
    return d->key_len == 5 && !memcmp(d->key, "items", 5);
}

static enum step scan_open(struct list_decoder *d, char c)
{
    int outer = d->depth++;
    if (d->position == OUTSIDE) {
        if (outer != 1 || c != '[' || !key_is_items(d))
            return PLAIN;
        d->position = AT_START;
        return ITEMS_BEGIN;
    }
    if (outer > ITEMS_DEPTH)
        return PLAIN;
    return c == '{' && d->position != AFTER_ITEM ? ITEM_BEGIN : BAD;
}

static enum step scan_close(struct list_decoder *d, char c)
{
    d->depth--;
    if (d->depth < 0)
        return BAD;
    if (d->position == OUTSIDE || d->depth > ITEMS_DEPTH)
        return PLAIN;
    if (d->depth == ITEMS_DEPTH) {
        d->position = AFTER_ITEM;
        return ITEM_END;
    }
    bool complete = c == ']' && d->position != AFTER_COMMA;
    d->position = OUTSIDE;
    return complete ? ITEMS_END : BAD;
}

/* A byte outside strings and brackets. */
static enum step scan_other(struct list_decoder *d, char c)
{
    if (d->position == OUTSIDE || d->depth > ITEMS_DEPTH)
        return PLAIN;
    if (c == ',' && d->position == AFTER_ITEM) {
        d->position = AFTER_COMMA;
        return PLAIN;
    }
    return c == ' ' || c == '\n' || c == '\r' || c == '\t' ? PLAIN : BAD;
}

static enum step scan(struct list_decoder *d, char c)
{
    if (d->in_string) {
        scan_string(d, c);
        return PLAIN;
    }
    switch (c) {
    case '"':
        d->in_string = true;
        if (d->depth == 1)
            d->key_len = 0;
        return d->position != OUTSIDE && d->depth == ITEMS_DEPTH ? BAD : PLAIN;
    case '{':
    case '[':
        return scan_open(d, c);
    case '}':
    case ']':
        return scan_close(d, c);
    default:
        return scan_other(d, c);
    }
}

static int parse_item(struct list_decoder *d, const char *text, size_t len, struct err *e)
{
    auto_json json_t *obj = NULL;
    if (sparing_parse(&d->parser, text, len, d->max_item_bytes, &obj, e) < 0)
        return err_wrap(e, "list item %zu", d->count);
    d->count++;
    return d->fn(d->arg, obj, e);
}

/* Items that are whole in one chunk are parsed in place. */
static int end_item(struct list_decoder *d, const char *tail, size_t len, struct err *e)
{
    if (!d->item.len)
        return parse_item(d, tail, len, e);
    sb_add_mem(&d->item, tail, len);
    TRY(sb_check(&d->item, e));
    TRY(parse_item(d, sb_str(&d->item), d->item.len, e));
    sb_reset(&d->item);
    return 0;
}

/* Keeps the bytes of a piece that continues in the next chunk, or that is no item. */
static int keep(struct list_decoder *d, const char *data, size_t len, struct err *e)
{
    if (d->position != OUTSIDE && d->depth <= ITEMS_DEPTH)
        return 0;
    struct sb *sink = d->position == OUTSIDE ? &d->rest : &d->item;
    sb_add_mem(sink, data, len);
    return sb_check(sink, e);
}

/* Passes over what says nothing inside an item, which is nearly all of a list: returns the next
 * byte that scan has to see. */
static size_t pass(const struct list_decoder *d, const char *data, size_t len, size_t i)
{
    static const bool in_string[UCHAR_MAX + 1] = {['"'] = true, ['\\'] = true};
    static const bool between[UCHAR_MAX + 1] =
        {['"'] = true, ['{'] = true, ['}'] = true, ['['] = true, [']'] = true};
    const bool *counts = d->in_string ? in_string : between;
    if (d->depth <= ITEMS_DEPTH || d->escaped)
        return i;
    while (i < len && !counts[(unsigned char)data[i]])
        i++;
    return i;
}

static int feed(struct list_decoder *d, const char *data, size_t len, struct err *e)
{
    size_t from = 0; /* first byte of the current piece */
    for (size_t i = pass(d, data, len, 0); i < len; i = pass(d, data, len, i + 1)) {
        switch (scan(d, data[i])) {
        case PLAIN:
            break;
        case ITEMS_BEGIN:
            sb_add_mem(&d->rest, data + from, i + 1 - from);
            from = i + 1;
            break;
        case ITEM_BEGIN:
        case ITEMS_END:
            from = i;
            break;
        case ITEM_END:
            TRY(end_item(d, data + from, i + 1 - from, e));
            from = i + 1;
            break;
        case BAD:
            return err_set(e, ERR_PROTOCOL, "not a list: unexpected '%c' near item %zu",
                           data[i] >= ' ' && data[i] <= '~' ? data[i] : '?', d->count);
        }
    }
    return keep(d, data + from, len - from, e);
}

int list_decoder_feed(struct list_decoder *d, const char *data, size_t len, struct err *e)
{
    assert(!d->failed);
    int rc = feed(d, data, len, e);
    d->failed = rc < 0;
    return rc;
}

int list_decoder_finish(struct list_decoder *d, char **ret_version, char **ret_continue,
                        struct err *e)
{
    assert(!d->failed);
    auto_json json_t *rest = NULL;
    TRY(sb_check(&d->rest, e));
    if (jx_parse(sb_str(&d->rest), d->rest.len, d->max_item_bytes, &rest, e) < 0)
        return err_wrap(e, "list");
    if (!json_is_object(JX_AT(rest, "metadata")))
        return err_set(e, ERR_PROTOCOL, "not a list: no metadata");
    /* A name written with escapes is the same name to the parser, but not to the scanner. */
    const json_t *items = JX_AT(rest, "items");
    if (items && (!json_is_array(items) || json_array_size(items) > 0))
        return err_set(e, ERR_PROTOCOL, "not a list: items that cannot be read");
    const char *version = JX_STR_AT(rest, "metadata", "resourceVersion");
    const char *more = JX_STR_AT(rest, "metadata", "continue");
    *ret_version = xstrdup(version ? version : "");
    *ret_continue = more && *more ? xstrdup(more) : NULL;
    return 0;
}

size_t list_decoder_count(const struct list_decoder *d)
{
    return d->count;
}

struct list_decoder *list_decoder_free(struct list_decoder *d)
{
    if (!d)
        return NULL;
    sb_done(&d->rest);
    sb_done(&d->item);
    sparing_parser_done(&d->parser);
    free(d);
    return NULL;
}
