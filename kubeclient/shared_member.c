/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/shared_member.h"

#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

/* Models of cards, or what else differs, that one list has mostly at a time. */
enum { MAX_SEEN = 4 };

struct shared_text {
    char *text;
    size_t len;
    json_t *value;
};

static const char *last_of(const char *const *path)
{
    while (path[1])
        path++;
    return *path;
}

/* The first list under the member's name, as API servers write it. NULL: there is none. */
static const char *find_list(const struct shared_member *m, const char *text, size_t len,
                             size_t *ret_len)
{
    auto_free char *key = xasprintf("\"%s\":[", last_of(m->path));
    const char *at = memmem(text, len, key, strlen(key));
    if (!at)
        return NULL;
    at += strlen(key) - 1;
    *ret_len = jx_length(at, len - (size_t)(at - text));
    return *ret_len ? at : NULL;
}

static const struct shared_text *find_seen(const struct shared_member *m, const char *list,
                                           size_t len)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->seen[i].len == len && memcmp(m->seen[i].text, list, len) == 0)
            return &m->seen[i];
    return NULL;
}

static void forget(struct shared_text *t)
{
    free(t->text);
    json_decref(t->value);
}

static void remember(struct shared_member *m, const char *list, size_t len, size_t max_bytes)
{
    auto_json json_t *value = NULL;
    if (jx_parse(list, len, max_bytes, &value, /* e= */ NULL) < 0)
        return;
    if (!m->seen)
        m->seen = xcalloc(MAX_SEEN, sizeof(*m->seen));
    struct shared_text *to = &m->seen[m->next++ % MAX_SEEN];
    forget(to);
    *to = (struct shared_text){xmemdup(list, len), len, TAKE(value)};
    m->n += m->n < MAX_SEEN;
}

/* The mark that stands in the list's place while the rest is parsed, as a text of JSON and as its
 * value: no API server writes it. */
#define MARK      "\"\\u0001shared\\u0001\""
#define MARK_TEXT "\001shared\001"

/* Puts the value where the path leads, if the mark stands there. */
static bool put(const struct shared_member *m, json_t *obj, json_t *value)
{
    const char *const *key = m->path;
    for (; key[1]; key++)
        obj = json_object_get(obj, *key);
    const char *text = json_string_value(json_object_get(obj, *key));
    return text && strcmp(text, MARK_TEXT) == 0 && json_object_set(obj, *key, value) == 0;
}

/* The object with the mark in the place of the list, and then the list that was seen. False: the
 * list was not where the path leads, or the rest cannot be parsed. */
static bool parse_around(const struct shared_member *m, const struct shared_text *seen,
                         const char *text, size_t len, const char *list, json_t **ret)
{
    size_t before = (size_t)(list - text);
    auto_json json_t *obj = NULL;
    auto_sb struct sb rest = SB_INIT(len + sizeof(MARK));
    sb_add_mem(&rest, text, before);
    sb_add(&rest, MARK);
    sb_add_mem(&rest, list + seen->len, len - before - seen->len);
    if (jx_parse(sb_str(&rest), rest.len, rest.len, &obj, /* e= */ NULL) < 0 ||
        !put(m, obj, seen->value))
        return false;
    *ret = TAKE(obj);
    return true;
}

int shared_member_parse(struct shared_member *m, const char *text, size_t len, size_t max_bytes,
                        json_t **ret, struct err *e)
{
    size_t list_len = 0;
    const char *list = m->path && len <= max_bytes ? find_list(m, text, len, &list_len) : NULL;
    const struct shared_text *seen = list ? find_seen(m, list, list_len) : NULL;
    if (seen && parse_around(m, seen, text, len, list, ret))
        return 0;
    TRY(jx_parse(text, len, max_bytes, ret, e));
    if (list && !seen)
        remember(m, list, list_len, max_bytes);
    return 0;
}

void shared_member_done(struct shared_member *m)
{
    for (size_t i = 0; i < m->n; i++)
        forget(&m->seen[i]);
    free(m->seen);
    *m = (struct shared_member){0};
}
