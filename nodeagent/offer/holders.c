/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/holders.h"

#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "base/xalloc.h"

#include "nodeagent/offer/device_id.h"

/* id: without a replica's suffix. */
static bool is_replica_of(const char *id_with_replica, const char *id)
{
    size_t len = strlen(id);
    return strncmp(id_with_replica, id, len) == 0 && device_id_base(id_with_replica) == len;
}

void holder_done(struct holder *h)
{
    free(h->id);
    free(h->ns);
    free(h->pod);
    free(h->uid);
    free(h->container);
    free(h->resource);
    *h = (struct holder){0};
}

static void free_list(struct holder *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        holder_done(&list[i]);
    free(list);
}

void holders_grant(struct holders *h, const char *const *ids, size_t n, int64_t now_mono_ms)
{
    for (size_t i = 0; i < n; i++) {
        struct grant *g = NULL;
        for (size_t k = 0; k < h->n_grants && !g; k++)
            if (strcmp(h->grants[k].id, ids[i]) == 0)
                g = &h->grants[k];
        if (!g) {
            g = XPUSH(h->grants, h->n_grants);
            g->id = xstrdup(ids[i]);
        }
        g->mono_ms = now_mono_ms;
    }
}

static bool is_in(const struct holder *list, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].id, id) == 0)
            return true;
    return false;
}

/* The first listed holder whose id is not before this one. Those that begin with it follow each other
 * from there. */
static size_t first_at(const struct holders *h, const char *id)
{
    size_t low = 0;
    size_t high = h->n_listed;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(h->listed[middle].id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_listed(const struct holders *h, const char *id)
{
    size_t at = first_at(h, id);
    return at < h->n_listed && strcmp(h->listed[at].id, id) == 0;
}

/* A list that was asked for before the grant does not count, even if it shows the id: that may be
 * the earlier pod. True: a grant has ended. */
static bool settle_grants(struct holders *h, int64_t asked_mono_ms)
{
    size_t n = 0;
    for (size_t i = 0; i < h->n_grants; i++) {
        struct grant *g = &h->grants[i];
        bool shown = asked_mono_ms > g->mono_ms && is_listed(h, g->id);
        if (shown || asked_mono_ms >= g->mono_ms + HOLDERS_GRANT_MS)
            free(g->id);
        else
            h->grants[n++] = *g;
    }
    assert(n <= h->n_grants);
    bool ended = n < h->n_grants;
    h->n_grants = n;
    return ended;
}

static bool same_list(const struct holders *h, const struct holder *list, size_t n)
{
    if (n != h->n_listed)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!text_same(list[i].id, h->listed[i].id) || !text_same(list[i].ns, h->listed[i].ns) ||
            !text_same(list[i].pod, h->listed[i].pod) ||
            !text_same(list[i].uid, h->listed[i].uid) ||
            !text_same(list[i].container, h->listed[i].container) ||
            !text_same(list[i].resource, h->listed[i].resource))
            return false;
    return true;
}

static int by_id(const void *a, const void *b)
{
    const struct holder *x = a;
    const struct holder *y = b;
    int order = strcmp(x->id, y->id);
    if (order == 0)
        order = text_order(x->ns, y->ns);
    if (order == 0)
        order = text_order(x->pod, y->pod);
    return order ? order : text_order(x->uid, y->uid);
}

static struct holder copy_holder(const struct holder *h)
{
    return (struct holder){
        .id = xstrdup(h->id),
        .ns = xstrdup(h->ns),
        .pod = xstrdup(h->pod),
        .uid = xstrdup(h->uid),
        .container = xstrdup(h->container),
        .resource = xstrdup(h->resource),
    };
}

/* NOLINTBEGIN(readability-non-const-parameter): XPUSH counts up */
void holders_keep(const struct holders *h, struct holder **list, size_t *n)
{
    size_t given = *n;
    for (size_t i = 0; i < h->n_listed; i++) {
        const struct holder *old = &h->listed[i];
        if (!is_in(*list, given, old->id))
            *XPUSH(*list, *n) = copy_holder(old);
    }
}
/* NOLINTEND(readability-non-const-parameter) */

bool holders_list(struct holders *h, struct holder *listed, size_t n, int64_t asked_mono_ms)
{
    if (n)
        qsort(listed, n, sizeof(*listed), by_id);
    bool changed = !h->known || !same_list(h, listed, n);
    free_list(h->listed, h->n_listed);
    h->listed = listed;
    h->n_listed = n;
    h->known = true;
    h->asked_mono_ms = asked_mono_ms;
    bool ended = settle_grants(h, asked_mono_ms);
    return changed || ended;
}

void holders_unknown(struct holders *h)
{
    h->known = false;
}

bool holders_has(const struct holders *h, const char *id)
{
    if (holders_get(h, id, 0))
        return true;
    for (size_t i = 0; i < h->n_grants; i++)
        if (is_replica_of(h->grants[i].id, id))
            return true;
    return false;
}

static bool is_on(const char *id, const char *uuid)
{
    size_t len = strlen(uuid);
    return strncmp(id, uuid, len) == 0 && (!id[len] || id[len] == '/' || id[len] == ':');
}

bool holders_has_card(const struct holders *h, const char *uuid)
{
    for (size_t i = 0; i < h->n_listed; i++)
        if (is_on(h->listed[i].id, uuid))
            return true;
    for (size_t i = 0; i < h->n_grants; i++)
        if (is_on(h->grants[i].id, uuid))
            return true;
    return false;
}

const struct holder *holders_get(const struct holders *h, const char *id, size_t i)
{
    size_t len = strlen(id);
    for (size_t k = first_at(h, id); k < h->n_listed; k++) {
        if (strncmp(h->listed[k].id, id, len) != 0)
            return NULL;
        if (is_replica_of(h->listed[k].id, id) && i-- == 0)
            return &h->listed[k];
    }
    return NULL;
}

/* "GPU-…/1g.10gb@4" is part of "GPU-…". */
static bool is_part_of(const char *part, const char *whole)
{
    size_t len = strlen(whole);
    return strncmp(part, whole, len) == 0 && part[len] == '/';
}

static bool overlaps(const char *held, const char *id)
{
    auto_free char *base = xstrndup(held, device_id_base(held));
    return is_part_of(base, id) || is_part_of(id, base);
}

static bool is_shared(const char *id)
{
    return id[device_id_base(id)] != '\0';
}

bool holders_has_conflict(const struct holders *h, const char *resource, const char *id,
                          bool shared)
{
    for (size_t i = 0; i < h->n_listed; i++) {
        const struct holder *k = &h->listed[i];
        bool named = k->resource && strcmp(k->resource, resource) != 0;
        if (overlaps(k->id, id) ||
            (is_replica_of(k->id, id) && (named || is_shared(k->id) != shared)))
            return true;
    }
    for (size_t i = 0; i < h->n_grants; i++) {
        const char *held = h->grants[i].id;
        if (overlaps(held, id) || (is_replica_of(held, id) && is_shared(held) != shared))
            return true;
    }
    return false;
}

struct holders holders_copy(const struct holders *h)
{
    struct holders copy = {.known = h->known, .asked_mono_ms = h->asked_mono_ms};
    for (size_t i = 0; i < h->n_listed; i++)
        *XPUSH(copy.listed, copy.n_listed) = copy_holder(&h->listed[i]);
    for (size_t i = 0; i < h->n_grants; i++)
        *XPUSH(copy.grants, copy.n_grants) =
            (struct grant){xstrdup(h->grants[i].id), h->grants[i].mono_ms};
    return copy;
}

bool holders_await(const struct holders *h)
{
    return h->n_grants > 0;
}

bool holders_none(const struct holders *h)
{
    return h->known && h->n_listed == 0 && !holders_await(h);
}

void holders_done(struct holders *h)
{
    free_list(h->listed, h->n_listed);
    for (size_t i = 0; i < h->n_grants; i++)
        free(h->grants[i].id);
    free(h->grants);
    *h = (struct holders){0};
}
