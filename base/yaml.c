/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml.h"

#include <assert.h>
#include <string.h>
#include <yaml.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/sb.h"
#include "base/strmap.h"
#include "base/xalloc.h"
#include "base/yaml_scalar.h"

/* Most that aliases may add to a stream: 64 Ki nodes, or the bytes of text that as many take. */
#define NODE_BYTES    64
#define MAX_EXPANSION (64UL * 1024 * NODE_BYTES)

struct loader {
    yaml_parser_t parser;
    struct strmap *anchors; /* name → owned json_t of a finished node */
    size_t expansion_left;  /* bytes that aliases may still add */
};

static void loader_done(struct loader *l);

static void event_done(yaml_event_t *ev)
{
    yaml_event_delete(ev);
}

AUTO_DEFINE(loader, struct loader, loader_done)
AUTO_DEFINE(event, yaml_event_t, event_done)

static struct strmap *anchors_free(struct strmap *anchors)
{
    const char *name;
    void *value;
    for (size_t pos = 0; strmap_next(anchors, &pos, &name, &value);)
        json_decref(value);
    return strmap_free(anchors);
}

static void loader_done(struct loader *l)
{
    yaml_parser_delete(&l->parser);
    l->anchors = anchors_free(l->anchors);
}

/* The map is allocated anew, not emptied: one that grew large would slow down every later
 * document. */
static void forget_anchors(struct loader *l)
{
    if (strmap_count(l->anchors) == 0)
        return;
    (void)anchors_free(l->anchors);
    l->anchors = strmap_new();
}

static int fail_at_mark(const yaml_mark_t *at, enum err_kind kind, const char *what, struct err *e)
{
    return err_set(e, kind, "YAML line %zu, column %zu: %s", at->line + 1, at->column + 1, what);
}

static int next_event(struct loader *l, yaml_event_t *ev, struct err *e)
{
    if (yaml_parser_parse(&l->parser, ev))
        return 0;
    if (l->parser.error == YAML_MEMORY_ERROR)
        xalloc_failed();
    const char *what = l->parser.problem ? l->parser.problem : "not YAML";
    if (l->parser.error == YAML_READER_ERROR)
        return err_set(e, ERR_INVALID, "YAML byte %zu: %s", l->parser.problem_offset, what);
    return fail_at_mark(&l->parser.problem_mark, ERR_INVALID, what, e);
}

static int load_node(struct loader *l, const yaml_event_t *ev, size_t depth, json_t **ret,
                     struct err *e);

static int load_scalar(const yaml_event_t *ev, json_t **ret, struct err *e)
{
    const char *why = NULL;
    const struct yaml_scalar scalar = {
        .text = (const char *)ev->data.scalar.value,
        .len = ev->data.scalar.length,
        .plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE,
        .tag = (const char *)ev->data.scalar.tag,
    };
    json_t *value = yaml_scalar_resolve(&scalar, &why);
    if (!value)
        return fail_at_mark(&ev->start_mark, ERR_INVALID, why, e);
    *ret = value;
    return 0;
}

/* Lists and mappings of foreign types (!!set, !mine) would lose their meaning, so they are
 * refused. */
static int check_tag(const yaml_event_t *ev, const char *tag, const char *wanted, struct err *e)
{
    if (!tag || strcmp(tag, "!") == 0 || strcmp(tag, wanted) == 0)
        return 0;
    return fail_at_mark(&ev->start_mark, ERR_INVALID, "a tag that JSON has no type for", e);
}

static int load_sequence(struct loader *l, size_t depth, json_t **ret, struct err *e)
{
    auto_json json_t *list = json_array();
    for (;;) {
        AUTO(event) yaml_event_t ev = {0};
        json_t *item = NULL;
        TRY(next_event(l, &ev, e));
        if (ev.type == YAML_SEQUENCE_END_EVENT)
            break;
        TRY(load_node(l, &ev, depth + 1, &item, e));
        (void)json_array_append_new(list, item);
    }
    *ret = TAKE(list);
    return 0;
}

/* Keys are strings whatever they look like: `1:` and `true:` are "1" and "true". */
static int check_key(const yaml_event_t *key, const json_t *map, struct err *e)
{
    if (key->type != YAML_SCALAR_EVENT)
        return fail_at_mark(&key->start_mark, ERR_INVALID, "a key must be a plain text", e);
    const char *text = (const char *)key->data.scalar.value;
    if (strlen(text) != key->data.scalar.length)
        return fail_at_mark(&key->start_mark, ERR_INVALID, "a key holds a zero byte", e);
    if (key->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(text, "<<") == 0)
        return fail_at_mark(&key->start_mark, ERR_INVALID, "merge keys (<<) are not supported", e);
    if (json_object_get(map, text))
        return fail_at_mark(&key->start_mark, ERR_INVALID, "duplicate key", e);
    return 0;
}

static int load_entry(struct loader *l, const yaml_event_t *key, size_t depth, json_t *map,
                      struct err *e)
{
    AUTO(event) yaml_event_t ev = {0};
    json_t *value = NULL;
    TRY(check_key(key, map, e));
    TRY(next_event(l, &ev, e));
    TRY(load_node(l, &ev, depth + 1, &value, e));
    if (json_object_set_new(map, (const char *)key->data.scalar.value, value) < 0)
        return fail_at_mark(&key->start_mark, ERR_INVALID, "a key is not UTF-8", e);
    return 0;
}

static int load_mapping(struct loader *l, size_t depth, json_t **ret, struct err *e)
{
    auto_json json_t *map = json_object();
    for (;;) {
        AUTO(event) yaml_event_t key = {0};
        TRY(next_event(l, &key, e));
        if (key.type == YAML_MAPPING_END_EVENT)
            break;
        TRY(load_entry(l, &key, depth, map, e));
    }
    *ret = TAKE(map);
    return 0;
}

/* About the bytes that a copy of the value takes. */
static size_t weight_of(json_t *value)
{
    size_t sum = NODE_BYTES + json_string_length(value);
    size_t i;
    const char *key;
    json_t *part;
    json_array_foreach(value, i, part)
        sum += weight_of(part);
    json_object_foreach(value, key, part)
        sum += strlen(key) + weight_of(part);
    return sum;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Levels of lists and mappings in the value. */
static size_t height_of(json_t *value)
{
    size_t most = 0;
    size_t i;
    const char *key;
    json_t *part;
    json_array_foreach(value, i, part)
        most = max_size(most, height_of(part));
    json_object_foreach(value, key, part)
        most = max_size(most, height_of(part));
    return json_is_array(value) || json_is_object(value) ? most + 1 : most;
}

static int load_alias(struct loader *l, const yaml_event_t *ev, size_t depth, json_t **ret,
                      struct err *e)
{
    json_t *value = strmap_get(l->anchors, (const char *)ev->data.alias.anchor);
    if (!value)
        return fail_at_mark(&ev->start_mark, ERR_INVALID, "unknown anchor", e);
    size_t weight = weight_of(value);
    if (weight > l->expansion_left)
        return fail_at_mark(&ev->start_mark, ERR_TOO_LARGE, "aliases expand to too much", e);
    if (depth + height_of(value) > JX_MAX_DEPTH)
        return fail_at_mark(&ev->start_mark, ERR_TOO_LARGE, "nested too deep", e);
    l->expansion_left -= weight;
    *ret = json_deep_copy(value);
    return 0;
}

static const char *anchor_of(const yaml_event_t *ev)
{
    if (ev->type == YAML_SCALAR_EVENT)
        return (const char *)ev->data.scalar.anchor;
    if (ev->type == YAML_SEQUENCE_START_EVENT)
        return (const char *)ev->data.sequence_start.anchor;
    if (ev->type == YAML_MAPPING_START_EVENT)
        return (const char *)ev->data.mapping_start.anchor;
    return NULL;
}

/* An anchor is defined only after the end of its node, so that a node cannot contain itself. */
static void remember(struct loader *l, const char *anchor, json_t *value)
{
    if (anchor)
        json_decref(strmap_put(l->anchors, anchor, json_incref(value)));
}

static int load_value(struct loader *l, const yaml_event_t *ev, size_t depth, json_t **ret,
                      struct err *e)
{
    if (ev->type == YAML_SCALAR_EVENT)
        return load_scalar(ev, ret, e);
    if (ev->type == YAML_ALIAS_EVENT)
        return load_alias(l, ev, depth, ret, e);
    if (depth >= JX_MAX_DEPTH)
        return fail_at_mark(&ev->start_mark, ERR_TOO_LARGE, "nested too deep", e);
    if (ev->type == YAML_SEQUENCE_START_EVENT) {
        TRY(check_tag(ev, (const char *)ev->data.sequence_start.tag, YAML_SEQ_TAG, e));
        return load_sequence(l, depth, ret, e);
    }
    assert(ev->type == YAML_MAPPING_START_EVENT);
    TRY(check_tag(ev, (const char *)ev->data.mapping_start.tag, YAML_MAP_TAG, e));
    return load_mapping(l, depth, ret, e);
}

/* depth: number of lists and mappings around the node. */
static int load_node(struct loader *l, const yaml_event_t *ev, size_t depth, json_t **ret,
                     struct err *e)
{
    TRY(load_value(l, ev, depth, ret, e));
    remember(l, anchor_of(ev), *ret);
    return 0;
}

/* Loads one document, whose start has been read, onto the list unless it is empty. */
static int load_document(struct loader *l, json_t *list, struct err *e)
{
    AUTO(event) yaml_event_t root = {0};
    AUTO(event) yaml_event_t end = {0};
    auto_json json_t *value = NULL;
    TRY(next_event(l, &root, e));
    TRY(load_node(l, &root, 0, &value, e));
    TRY(next_event(l, &end, e));
    assert(end.type == YAML_DOCUMENT_END_EVENT);
    forget_anchors(l);
    if (!json_is_null(value))
        (void)json_array_append(list, value);
    return 0;
}

static int load_stream(struct loader *l, json_t *list, struct err *e)
{
    for (;;) {
        AUTO(event) yaml_event_t ev = {0};
        TRY(next_event(l, &ev, e));
        if (ev.type == YAML_STREAM_END_EVENT)
            return 0;
        if (ev.type == YAML_DOCUMENT_START_EVENT)
            TRY(load_document(l, list, e));
    }
}

/* The words that are booleans to kubectl's reader, and text here (sigs.k8s.io/yaml,
 * goyaml.v2/resolve.go). */
static bool is_old_boolean(const yaml_event_t *ev)
{
    static const char *const words[] = {"y", "Y", "yes", "Yes", "YES", "on",  "On",  "ON",
                                        "n", "N", "no",  "No",  "NO",  "off", "Off", "OFF"};
    if (ev->type != YAML_SCALAR_EVENT || ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE ||
        ev->data.scalar.tag)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp((const char *)ev->data.scalar.value, words[i]) == 0)
            return true;
    return false;
}

/* The step in depth that an event makes. */
static int step_of(const yaml_event_t *ev)
{
    bool begins = ev->type == YAML_MAPPING_START_EVENT || ev->type == YAML_SEQUENCE_START_EVENT;
    bool ends = ev->type == YAML_MAPPING_END_EVENT || ev->type == YAML_SEQUENCE_END_EVENT;
    return begins - ends;
}

/* Ends where the nesting is deeper than any that is read: libyaml looks at all levels again for each
 * token, so that three million brackets would take it hours. */
static int check_words(struct loader *l, struct err *e)
{
    for (int depth = 0; depth <= JX_MAX_DEPTH;) {
        AUTO(event) yaml_event_t ev = {0};
        if (next_event(l, &ev, NULL) < 0 || ev.type == YAML_STREAM_END_EVENT)
            return 0;
        depth += step_of(&ev);
        if (!is_old_boolean(&ev))
            continue;
        auto_free char *why = xasprintf("kubectl reads %s as a boolean: write it in quotes",
                                        (const char *)ev.data.scalar.value);
        return fail_at_mark(&ev.start_mark, ERR_INVALID, why, e);
    }
    return 0;
}

static int begin(struct loader *l, const char *text, size_t len, struct err *e)
{
    l->expansion_left = MAX_EXPANSION;
    l->anchors = strmap_new();
    if (!yaml_parser_initialize(&l->parser))
        xalloc_failed();
    if (len > YAML_MAX_BYTES)
        return err_set(e, ERR_TOO_LARGE, "YAML of %zu bytes, at most %zu are read", len,
                       YAML_MAX_BYTES);
    yaml_parser_set_input_string(&l->parser, (const unsigned char *)text, len);
    return 0;
}

int yaml_check_words(const char *text, size_t len, struct err *e)
{
    AUTO(loader) struct loader l = {0};
    TRY(begin(&l, text, len, e));
    return check_words(&l, e);
}

int yaml_load_all(const char *text, size_t len, json_t **ret, struct err *e)
{
    AUTO(loader) struct loader l = {0};
    TRY(begin(&l, text, len, e));
    auto_json json_t *list = json_array();
    TRY(load_stream(&l, list, e));
    *ret = TAKE(list);
    return 0;
}

int yaml_load(const char *text, size_t len, json_t **ret, struct err *e)
{
    auto_json json_t *all = NULL;
    TRY(yaml_load_all(text, len, &all, e));
    if (json_array_size(all) != 1)
        return err_set(e, ERR_INVALID, "one YAML document expected, found %zu",
                       json_array_size(all));
    *ret = json_incref(json_array_get(all, 0));
    return 0;
}

/* Writing. The emitter fails only when memory runs out, or when we misuse it. */

static void emit_event(yaml_emitter_t *emitter, int made, yaml_event_t *ev)
{
    if (!made || (!yaml_emitter_emit(emitter, ev) && emitter->error == YAML_MEMORY_ERROR))
        xalloc_failed();
    assert(!emitter->error);
}

static void emit_text(yaml_emitter_t *emitter, const char *text, yaml_scalar_style_t style)
{
    yaml_event_t ev;
    int made = yaml_scalar_event_initialize(&ev, NULL, NULL, (const unsigned char *)text,
                                            (int)strlen(text), 1, 1, style);
    emit_event(emitter, made, &ev);
}

static void emit_string(yaml_emitter_t *emitter, const char *text)
{
    emit_text(emitter, text,
              yaml_scalar_is_plain_string(text) ? YAML_PLAIN_SCALAR_STYLE
                                                : YAML_DOUBLE_QUOTED_SCALAR_STYLE);
}

static void emit_value(yaml_emitter_t *emitter, json_t *value);

static void emit_list(yaml_emitter_t *emitter, const json_t *list)
{
    yaml_event_t ev;
    emit_event(emitter,
               yaml_sequence_start_event_initialize(&ev, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE),
               &ev);
    for (size_t i = 0; i < json_array_size(list); i++)
        emit_value(emitter, json_array_get(list, i));
    emit_event(emitter, yaml_sequence_end_event_initialize(&ev), &ev);
}

static void emit_map(yaml_emitter_t *emitter, json_t *map)
{
    yaml_event_t ev;
    emit_event(emitter,
               yaml_mapping_start_event_initialize(&ev, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE),
               &ev);
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value) {
        emit_string(emitter, key);
        emit_value(emitter, value);
    }
    emit_event(emitter, yaml_mapping_end_event_initialize(&ev), &ev);
}

/* Numbers, booleans and null are written as in JSON, which YAML reads alike. */
static void emit_value(yaml_emitter_t *emitter, json_t *value)
{
    if (json_is_object(value)) {
        emit_map(emitter, value);
    } else if (json_is_array(value)) {
        emit_list(emitter, value);
    } else if (json_is_string(value)) {
        emit_string(emitter, json_string_value(value));
    } else {
        auto_free char *text = jx_dump(value);
        emit_text(emitter, text, YAML_PLAIN_SCALAR_STYLE);
    }
}

static int append(void *arg, unsigned char *bytes, size_t len)
{
    sb_add_mem(arg, bytes, len);
    return 1;
}

char *yaml_dump(const json_t *value)
{
    auto_sb struct sb text = SB_INIT(SIZE_MAX / 2);
    yaml_emitter_t emitter;
    yaml_event_t ev;
    if (!yaml_emitter_initialize(&emitter))
        xalloc_failed();
    yaml_emitter_set_output(&emitter, append, &text);
    yaml_emitter_set_unicode(&emitter, 1);
    yaml_emitter_set_width(&emitter, -1);
    emit_event(&emitter, yaml_stream_start_event_initialize(&ev, YAML_UTF8_ENCODING), &ev);
    emit_event(&emitter, yaml_document_start_event_initialize(&ev, NULL, NULL, NULL, 1), &ev);
    auto_json json_t *copy = json_deep_copy(value); /* iteration needs a mutable value */
    emit_value(&emitter, copy);
    emit_event(&emitter, yaml_document_end_event_initialize(&ev, 1), &ev);
    emit_event(&emitter, yaml_stream_end_event_initialize(&ev), &ev);
    yaml_emitter_delete(&emitter);
    return sb_take(&text);
}
