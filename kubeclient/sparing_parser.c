/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/sparing_parser.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/jx.h"
#include "base/rng.h"
#include "base/xalloc.h"

/* Models of cards, or what else differs, that one list has mostly at a time. */
enum { MAX_SEEN = 4, MAX_KEY_BYTES = 64 };

struct shared_text {
    char *text; /* NULL: none was seen yet */
    size_t len;
    json_t *value;
};

/* A member in the text of an object. */
struct place {
    const char *const *path;
    const char *text;
    size_t len;
    json_t *value; /* in its place; NULL: it is left out. Borrowed */
};

/* Finds the object or list that follows the keys of the path, one after the other, as API servers
 * write them. It may be another one than the path leads to: settle looks. False: there is none. */
static bool find_place(const char *const *path, const char *text, size_t len, struct place *ret)
{
    const char *at = text, *end = text + len;
    *ret = (struct place){.path = path};
    for (; path && *path; path++) {
        char key[MAX_KEY_BYTES];
        int n = snprintf(key, sizeof(key), "\"%s\":", *path);
        assert(n > 0 && (size_t)n < sizeof(key));
        at = memmem(at, (size_t)(end - at), key, (size_t)n);
        if (!at)
            return false;
        at += n;
    }
    ret->text = at;
    ret->len = jx_length(at, (size_t)(end - at));
    return ret->path && ret->len;
}

static struct shared_text *find_seen(const struct sparing_parser *p, const struct place *at)
{
    for (size_t i = 0; p->seen && i < MAX_SEEN; i++)
        if (p->seen[i].text && p->seen[i].len == at->len &&
            memcmp(p->seen[i].text, at->text, at->len) == 0)
            return &p->seen[i];
    return NULL;
}

static void forget(struct shared_text *t)
{
    free(t->text);
    json_decref(t->value);
}

static void remember(struct sparing_parser *p, const struct place *at, size_t max_bytes)
{
    auto_json json_t *value = NULL;
    if (jx_parse(at->text, at->len, max_bytes, &value, /* e= */ NULL) < 0)
        return;
    if (!p->seen)
        p->seen = xcalloc(MAX_SEEN, sizeof(*p->seen));
    struct shared_text *to = &p->seen[p->next++ % MAX_SEEN];
    forget(to);
    *to = (struct shared_text){xmemdup(at->text, at->len), at->len, TAKE(value)};
}

/* The mark, which stands in a member's place while the rest is parsed. */
static const char *mark_of(struct sparing_parser *p)
{
    struct rng rng;
    if (*p->mark)
        return p->mark;
    rng_init_random(&rng);
    (void)snprintf(p->mark, sizeof(p->mark), "\"%016" PRIx64 "\"", rng_next(&rng));
    return p->mark;
}

static bool is_mark(const struct sparing_parser *p, const json_t *value)
{
    size_t n = strlen(p->mark) - 2;
    return json_string_length(value) == n && memcmp(json_string_value(value), p->mark + 1, n) == 0;
}

/* Puts the value where the path leads, if the mark stands there. */
static bool settle(const struct sparing_parser *p, const struct place *at, json_t *obj)
{
    const char *const *key = at->path;
    for (; key[1]; key++)
        obj = json_object_get(obj, *key);
    if (!is_mark(p, json_object_get(obj, *key)))
        return false;
    return (at->value ? json_object_set(obj, *key, at->value) : json_object_del(obj, *key)) == 0;
}

/* The object with marks in these places, which are in the order of the text and apart, and then
 * their values. False: one was not where its path leads, or the rest cannot be parsed. */
static bool parse_around(struct sparing_parser *p, const struct place *places, size_t n,
                         const char *text, size_t len, json_t **ret)
{
    const char *from = text;
    auto_json json_t *obj = NULL;
    p->rest.cap = SIZE_MAX / 2;
    sb_reset(&p->rest);
    for (size_t i = 0; i < n; i++) {
        sb_add_mem(&p->rest, from, (size_t)(places[i].text - from));
        sb_add(&p->rest, mark_of(p));
        from = places[i].text + places[i].len;
    }
    sb_add_mem(&p->rest, from, len - (size_t)(from - text));
    if (jx_parse(sb_str(&p->rest), p->rest.len, p->rest.len, &obj, /* e= */ NULL) < 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!settle(p, &places[i], obj))
            return false;
    *ret = TAKE(obj);
    return true;
}

/* Adds a place in the order of the text. One inside the other is not spared by itself. */
static void add_place(struct place *places, size_t *n, const struct place *place)
{
    struct place *last = *n ? &places[*n - 1] : NULL;
    if (last && place->text < last->text + last->len && last->text < place->text + place->len)
        return;
    places[(*n)++] = *place;
    if (last && place->text < last->text) {
        places[1] = *last;
        places[0] = *place;
    }
}

/* Leaves out what the path leads to. */
static void leave_out(const char *const *path, json_t *obj)
{
    for (; path && path[1]; path++)
        obj = json_object_get(obj, *path);
    if (path)
        (void)json_object_del(obj, *path);
}

int sparing_parse(struct sparing_parser *p, const char *text, size_t len, size_t max_bytes,
                  json_t **ret, struct err *e)
{
    size_t n = 0;
    struct place places[2], shared = {0}, without;
    bool fits = len <= max_bytes;
    bool shares = fits && find_place(p->shared, text, len, &shared);
    const struct shared_text *seen = shares ? find_seen(p, &shared) : NULL;
    if (fits && find_place(p->without, text, len, &without))
        add_place(places, &n, &without);
    if (seen) {
        shared.value = seen->value;
        add_place(places, &n, &shared);
    }
    if (n == 0 || !parse_around(p, places, n, text, len, ret))
        TRY(jx_parse(text, len, max_bytes, ret, e));
    leave_out(p->without, *ret);
    if (shares && !seen)
        remember(p, &shared, max_bytes);
    return 0;
}

void sparing_parser_done(struct sparing_parser *p)
{
    for (size_t i = 0; p->seen && i < MAX_SEEN; i++)
        forget(&p->seen[i]);
    free(p->seen);
    sb_done(&p->rest);
    *p = (struct sparing_parser){0};
}
