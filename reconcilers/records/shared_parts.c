/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/records/shared_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "reconcilers/records/intern.h"

static int by_pair_key(const void *a, const void *b)
{
    return strcmp(((const struct jx_pair *)a)->key, ((const struct jx_pair *)b)->key);
}

/* Replaces a text that this record owns by the shared one. */
void shared_text_make(char **text)
{
    const char *shared = intern_text(*text);
    free(*text);
    *text = (char *)(uintptr_t)shared;
}

void shared_text_drop(char **text)
{
    intern_drop(*text);
    *text = NULL;
}

/* A map of strings, all of them shared; values of other types count as "". */
struct jx_pair *shared_pairs_read(const json_t *obj, const char *map_name, size_t *ret_n)
{
    json_t *map = json_object_get(json_object_get(obj, "metadata"), map_name);
    size_t n = json_object_size(map);
    struct jx_pair *pairs = xcalloc(n, sizeof(*pairs));
    struct jx_pair *p = pairs;
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value) {
        const char *text = json_string_value(value);
        p->key = (char *)(uintptr_t)intern_text(key);
        p->str = (char *)(uintptr_t)intern_text(text ? text : "");
        p++;
    }
    if (n)
        qsort(pairs, n, sizeof(*pairs), by_pair_key);
    assert((size_t)(p - pairs) == n);
    *ret_n = n;
    return pairs;
}

void shared_pairs_free(struct jx_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        intern_drop(pairs[i].key);
        intern_drop(pairs[i].str);
    }
    free(pairs);
}

void shared_counts_make(struct profile_count **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        shared_text_make(&(*list)[i].profile);
    struct profile_count *own = *list;
    assert(!n || own);
    if (n)
        *list = (struct profile_count *)(uintptr_t)intern_bytes(own, n * sizeof(*own));
    free(n ? own : NULL);
}

void shared_counts_drop(struct profile_count **list, size_t *n)
{
    for (size_t i = 0; i < *n; i++)
        intern_drop((*list)[i].profile);
    if (*n)
        intern_drop(*list);
    else
        free(*list);
    *list = NULL;
    *n = 0;
}

const char *records_label(const struct jx_pair *labels, size_t n, const char *key)
{
    const struct jx_pair wanted = {.key = (char *)(uintptr_t)key};
    const struct jx_pair *found =
        n ? bsearch(&wanted, labels, n, sizeof(*labels), by_pair_key) : NULL;
    return found ? found->str : NULL;
}
