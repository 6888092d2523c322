/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/gpu/vitals.h"

/* A reading of one vendor's cards that has not ended, on the stack of its thread. */
struct passage {
    uint64_t number;
    bool overtaken; /* a later one has ended well: it hangs on a card, and holds up nobody else */
    struct passage *next;
};

/* One vendor's cards, and what the last successful reading showed of them. */
struct member {
    struct gpu *gpu; /* immutable */
    /* guarded by gpu_all.mu, which is never held during a call of a vendor's back end */
    struct passage *passages; /* the threads that read all its cards just now */
    uint64_t n_begun;
    uint64_t newest;   /* number of the last reading that is remembered here */
    struct err failed; /* why the last reading failed; kind 0: it did not */
    char *told;        /* the failure last logged; NULL: none. Owned */
    struct gpu_driver driver;
    size_t n_last;
    struct known_card {
        char uuid[GPU_UUID_BYTES];
        struct gpu_known known;
    } * last; /* owned */
};

struct gpu_all {
    struct gpu gpu; /* first */
    size_t n;
    pthread_mutex_t mu;
    struct member members[GPU_MAX_VENDORS];
};

/* So many readings of a vendor may hang before the next one leaves the vendor out. The first may
 * hang on one card, which later ones leave out; when a later one hangs too, the library does. */
enum { MOST_HANGING = 2 };

enum { MAX_COMPLAINT_BYTES = 1000 };

/* --- reading --- */

/* mu is held. */
static void remember(struct member *m, const struct gpu_inventory *inv)
{
    assert(inv->n_drivers <= 1 && inv->n_cards <= GPU_MAX_CARDS);
    free(m->last);
    m->driver = inv->drivers[0];
    m->n_last = inv->n_cards;
    m->last = xcalloc(inv->n_cards, sizeof(*m->last));
    for (size_t i = 0; i < m->n_last; i++) {
        memcpy(m->last[i].uuid, inv->cards[i].uuid, sizeof(m->last[i].uuid));
        m->last[i].known = gpu_card_known(&inv->cards[i]);
    }
}

static void mark_unread(struct gpu_card *c, bool busy, const struct err *why)
{
    c->unread = true;
    c->busy = busy;
    if (!busy)
        gpu_card_mark_ill(c, why->reason ? why->reason : "ReadFailed", err_msg(why));
}

/* Adds the remembered cards of a vendor that no longer answers, since they are not gone. busy:
 * another thread still waits for its answer. False: there are none, or more than have room. */
static bool recall(struct gpu_all *a, const struct member *m, size_t room, bool busy,
                   const struct err *why, struct gpu_inventory *ret)
{
    HOLD(&a->mu);
    if (m->n_last == 0 || m->n_last > room)
        return false;
    *ret = (struct gpu_inventory){.n_drivers = 1, .drivers = {m->driver}, .n_cards = m->n_last};
    ret->cards = xcalloc(m->n_last, sizeof(*ret->cards));
    for (size_t i = 0; i < ret->n_cards; i++) {
        ret->cards[i] = gpu_known_card(&m->last[i].known);
        mark_unread(&ret->cards[i], busy, why);
    }
    return true;
}

/* Copies the pairs within a vendor; pairs across vendors stay unknown. */
static void join_topology(struct gpu_topology *to, size_t before, const struct gpu_topology *of)
{
    assert(of->n_cards <= to->n_cards && before <= to->n_cards - of->n_cards);
    for (size_t a = 0; a < of->n_cards; a++)
        for (size_t b = a + 1; b < of->n_cards; b++)
            *gpu_topology_at(to, before + a, before + b) = gpu_pair_between(of, a, b);
}

/* Two cards with one UUID cannot be distinguished, and the API server refuses a status that lists
 * both: the later one loses it. The first `before` cards are other vendors'. */
static void refuse_twins(struct gpu_inventory *inv, size_t before)
{
    assert(before <= inv->n_cards);
    for (size_t i = before; i < inv->n_cards; i++) {
        struct gpu_card *c = &inv->cards[i];
        size_t k = 0;
        while (k < before && strcmp(inv->cards[k].uuid, c->uuid) != 0)
            k++;
        if (k == before || !*c->uuid)
            continue;
        auto_free char *why =
            xasprintf("%s's library gives card %u the UUID of %s's card %u", c->vendor, c->index,
                      inv->cards[k].vendor, inv->cards[k].index);
        const struct gpu_card twin = {.vendor = c->vendor,
                                      .index = c->index,
                                      .minor = UINT_MAX,
                                      .numa_node = -1,
                                      .unread = true};
        gpu_card_done(c);
        *c = twin;
        gpu_card_mark_ill(c, "ReadFailed", why);
    }
}

/* Moves the cards of the parts into *ret. */
static void join(struct gpu_inventory *parts, size_t n, struct gpu_inventory *ret)
{
    size_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += parts[i].n_cards;
    assert(n <= GPU_MAX_VENDORS && all <= GPU_MAX_CARDS);
    ret->cards = xcalloc(all, sizeof(*ret->cards));
    gpu_topology_init(&ret->topology, all);
    for (size_t i = 0; i < n; i++) {
        struct gpu_inventory *p = &parts[i];
        ret->drivers[ret->n_drivers++] = p->drivers[0];
        if (p->boot_id[0])
            memcpy(ret->boot_id, p->boot_id, sizeof(ret->boot_id));
        if (p->n_cards)
            memcpy(&ret->cards[ret->n_cards], p->cards, p->n_cards * sizeof(*p->cards));
        join_topology(&ret->topology, ret->n_cards, &p->topology);
        ret->n_cards += p->n_cards;
        refuse_twins(ret, ret->n_cards - p->n_cards);
        free(TAKE(p->cards));
        p->n_cards = 0;
        gpu_inventory_done(p);
    }
    assert(ret->n_cards == all);
}

static int say_again(const struct err *failed, struct err *e)
{
    int rc = err_set(e, failed->kind, "%s", err_msg(failed));
    if (e)
        e->reason = failed->reason;
    return rc;
}

/* Cards beyond the bound are a failure of the vendor that comes with them, not of earlier
 * vendors. */
static int check_room(struct gpu_inventory *part, size_t room, struct err *e)
{
    size_t n = part->n_cards;
    if (n <= room)
        return 0;
    gpu_inventory_done(part);
    return err_set(e, ERR_TOO_LARGE,
                   "%zu cards, beside %zu of other vendors; at most %d are managed", n,
                   GPU_MAX_CARDS - room, GPU_MAX_CARDS);
}

/* False: this thread must not read the member now. The library hangs in earlier readings, would
 * hang in this one, too, and hold up the other vendors. */
static bool begin_reading(struct gpu_all *a, struct member *m, struct passage *p)
{
    unsigned hanging = 0;
    HOLD(&a->mu);
    for (const struct passage *other = m->passages; other; other = other->next)
        hanging += !other->overtaken;
    if (hanging >= MOST_HANGING)
        return false;
    *p = (struct passage){.number = ++m->n_begun, .next = m->passages};
    m->passages = p;
    return true;
}

/* mu is held. */
static void leave(struct member *m, const struct passage *p)
{
    struct passage **at = &m->passages;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
}

/* Takes over how the reading ended: failed, or the cards in inv. One that was overtaken is older
 * than what is known. */
static void end_reading(struct gpu_all *a, struct member *m, const struct passage *p,
                        struct err *failed, const struct gpu_inventory *inv)
{
    HOLD(&a->mu);
    leave(m, p);
    assert(p->number > 0 && p->number <= m->n_begun && m->newest <= m->n_begun);
    if (p->number < m->newest)
        return;
    m->newest = p->number;
    err_clear(&m->failed);
    if (failed->kind) {
        (void)say_again(failed, &m->failed);
        return;
    }
    remember(m, inv);
    for (struct passage *other = m->passages; other; other = other->next)
        other->overtaken |= other->number < p->number;
}

/* *ret_busy (may be NULL): earlier readings of this vendor have not ended. */
static int read_member(struct gpu_all *a, struct member *m, size_t room, struct gpu_inventory *ret,
                       bool *ret_busy, struct err *e)
{
    auto_err struct err failed = {0};
    struct passage p;
    bool busy = !begin_reading(a, m, &p);
    if (ret_busy)
        *ret_busy = busy;
    if (busy)
        return err_set(e, ERR_UNAVAILABLE,
                       "earlier readings of this vendor's cards have not ended");
    int rc = m->gpu->ops->read(m->gpu, ret, &failed);
    if (rc == 0)
        rc = check_room(ret, room, &failed);
    end_reading(a, m, &p, &failed, ret);
    return rc < 0 ? err_move(e, &failed) : 0;
}

/* The error when nothing can be read: that of the first vendor that is present and fails, else that
 * each vendor is absent. */
static int complain(struct err *why, size_t n, struct err *e)
{
    auto_sb struct sb all = SB_INIT(MAX_COMPLAINT_BYTES);
    for (size_t i = 0; i < n; i++) {
        if (why[i].kind && why[i].kind != ERR_NOT_FOUND)
            return err_move(e, &why[i]);
        sb_addf(&all, "%s%s", i ? "; " : "", err_msg(&why[i]));
    }
    int rc = err_set(e, ERR_NOT_FOUND, "%s", sb_str(&all));
    if (e)
        e->reason = why[0].reason;
    return rc;
}

/* A vendor that fails beside working ones is no error of the reading; the log reports it, once. */
static void log_failure(struct gpu_all *a, struct member *m)
{
    HOLD(&a->mu);
    bool here = m->failed.kind && m->failed.kind != ERR_NOT_FOUND;
    if (here && (!m->told || strcmp(m->told, err_msg(&m->failed)) != 0))
        log_warn("Could not read one vendor's cards", kv_err(&m->failed));
    xstr_set(&m->told, here ? err_msg(&m->failed) : NULL);
}

static int all_read(struct gpu *g, struct gpu_inventory *ret, struct err *e)
{
    struct gpu_all *a = (struct gpu_all *)g;
    struct gpu_inventory parts[GPU_MAX_VENDORS] = {0};
    struct err why[GPU_MAX_VENDORS] = {0};
    size_t n = 0;
    size_t cards = 0;
    bool any = false;
    for (size_t i = 0; i < a->n; i++) {
        struct member *m = &a->members[i];
        size_t room = GPU_MAX_CARDS - cards;
        bool busy = false;
        bool was_read = read_member(a, m, room, &parts[n], &busy, &why[i]) == 0;
        if (!was_read && !recall(a, m, room, busy, &why[i], &parts[n]))
            continue;
        any |= was_read;
        cards += parts[n++].n_cards;
        assert(cards <= GPU_MAX_CARDS); /* no part takes more than its room */
    }
    for (size_t i = 0; any && i < a->n; i++)
        log_failure(a, &a->members[i]);
    *ret = (struct gpu_inventory){0};
    join(parts, n, ret);
    int rc = any ? 0 : complain(why, a->n, e);
    for (size_t i = 0; i < a->n; i++)
        err_clear(&why[i]);
    if (rc < 0)
        gpu_inventory_done(ret);
    return rc;
}

/* --- one card --- */

static bool has(struct gpu_all *a, const struct member *m, const char *uuid)
{
    HOLD(&a->mu);
    for (size_t i = 0; i < m->n_last; i++)
        if (strcmp(m->last[i].uuid, uuid) == 0)
            return true;
    return false;
}

static bool was_read_once(struct gpu_all *a, const struct member *m)
{
    HOLD(&a->mu);
    return m->n_last > 0;
}

/* A journal can name a card before anything was read. */
static void read_once(struct gpu_all *a, struct member *m)
{
    struct gpu_inventory inv = {0};
    if (!was_read_once(a, m) &&
        read_member(a, m, GPU_MAX_CARDS, &inv, /* ret_busy= */ NULL, /* e= */ NULL) == 0)
        gpu_inventory_done(&inv);
}

/* The vendor whose last reading showed the card; NULL: none. Reads nothing. */
static struct member *last_owner_of(struct gpu *g, const char *uuid)
{
    struct gpu_all *a = (struct gpu_all *)g;
    for (size_t i = 0; i < a->n; i++)
        if (has(a, &a->members[i], uuid))
            return &a->members[i];
    return NULL;
}

/* A card that is known costs no other vendor a reading: one without cards would look for its
 * library at each verb. */
static struct member *owner_of(struct gpu *g, const char *uuid)
{
    struct gpu_all *a = (struct gpu_all *)g;
    struct member *owner = last_owner_of(g, uuid);
    for (size_t i = 0; !owner && i < a->n; i++) {
        read_once(a, &a->members[i]);
        owner = has(a, &a->members[i], uuid) ? &a->members[i] : NULL;
    }
    return owner;
}

/* The error for a card that no vendor showed; it may belong to a vendor that is present and was
 * never read. */
static int no_owner(struct gpu *g, const char *uuid, struct err *e)
{
    struct gpu_all *a = (struct gpu_all *)g;
    HOLD(&a->mu);
    for (size_t i = 0; i < a->n; i++) {
        const struct member *m = &a->members[i];
        if (!m->n_last && m->failed.kind && m->failed.kind != ERR_NOT_FOUND)
            return say_again(&m->failed, e);
    }
    return err_set(e, ERR_NOT_FOUND, "no card %s", uuid);
}

/* Passes a verb on to the vendor of the card, as `find` has it. */
#define PASS_TO(find, g, uuid, verb, e, ...)                                                       \
    do {                                                                                           \
        const struct member *owner = find(g, uuid);                                                \
        if (!owner)                                                                                \
            return no_owner(g, uuid, e);                                                           \
        if (!owner->gpu->ops->verb)                                                                \
            return err_set(e, ERR_INVALID, "this vendor's cards know no " #verb);                  \
        return owner->gpu->ops->verb(owner->gpu, uuid, __VA_ARGS__);                               \
    } while (0)
#define PASS_ON(g, uuid, verb, e, ...) PASS_TO(owner_of, g, uuid, verb, e, __VA_ARGS__)

static int all_read_card(struct gpu *g, const char *uuid, struct gpu_card *ret, struct err *e)
{
    PASS_ON(g, uuid, read_card, e, ret, e);
}

static int all_mode_set(struct gpu *g, const char *uuid, enum gpu_mode mode,
                        enum gpu_mode_result *ret, struct err *e)
{
    PASS_ON(g, uuid, mode_set, e, mode, ret, e);
}

static int all_reset(struct gpu *g, const char *uuid, struct err *e)
{
    PASS_ON(g, uuid, reset, e, e);
}

static int all_gi_create(struct gpu *g, const char *uuid, unsigned profile_id, unsigned start,
                         unsigned size, unsigned *ret_gi_id, struct err *e)
{
    PASS_ON(g, uuid, gi_create, e, profile_id, start, size, ret_gi_id, e);
}

static int all_gi_destroy(struct gpu *g, const char *uuid, unsigned gi_id, struct err *e)
{
    PASS_ON(g, uuid, gi_destroy, e, gi_id, e);
}

static int all_ci_create(struct gpu *g, const char *uuid, unsigned gi_id, unsigned slices,
                         int start, unsigned *ret_ci_id, struct err *e)
{
    PASS_ON(g, uuid, ci_create, e, gi_id, slices, start, ret_ci_id, e);
}

static int all_ci_destroy(struct gpu *g, const char *uuid, unsigned gi_id, unsigned ci_id,
                          struct err *e)
{
    PASS_ON(g, uuid, ci_destroy, e, gi_id, ci_id, e);
}

static int all_slice_create(struct gpu *g, const char *uuid, const struct sgpu_want *want,
                            unsigned *ret_id, struct err *e)
{
    PASS_ON(g, uuid, slice_create, e, want, ret_id, e);
}

static int all_slice_destroy(struct gpu *g, const char *uuid, unsigned id, struct err *e)
{
    PASS_ON(g, uuid, slice_destroy, e, id, e);
}

static int all_qos_set(struct gpu *g, const char *uuid, int qos, struct err *e)
{
    PASS_ON(g, uuid, qos_set, e, qos, e);
}

static int all_timeslice_set(struct gpu *g, const char *uuid, unsigned ms, struct err *e)
{
    PASS_ON(g, uuid, timeslice_set, e, ms, e);
}

static int all_exclusive_set(struct gpu *g, const char *uuid, bool on, struct err *e)
{
    PASS_ON(g, uuid, exclusive_set, e, on, e);
}

static int all_limit_set(struct gpu *g, const char *uuid, const char *cgroup, uint64_t hard_bytes,
                         struct err *e)
{
    PASS_ON(g, uuid, limit_set, e, cgroup, hard_bytes, e);
}

static int all_limit_get(struct gpu *g, const char *uuid, const char *cgroup, struct gpu_limit *ret,
                         struct err *e)
{
    PASS_ON(g, uuid, limit_get, e, cgroup, ret, e);
}

/* Waits for no reading, so it causes none. */
static int all_measure(struct gpu *g, const char *uuid, uint64_t wanted, struct telemetry_card *ret,
                       struct err *e)
{
    PASS_TO(last_owner_of, g, uuid, measure, e, wanted, ret, e);
}

static struct gpu *all_free(struct gpu *g)
{
    struct gpu_all *a = (struct gpu_all *)g;
    for (size_t i = 0; i < a->n; i++) {
        (void)gpu_free(a->members[i].gpu);
        free(a->members[i].last);
        err_clear(&a->members[i].failed);
        free(a->members[i].told);
    }
    (void)pthread_mutex_destroy(&a->mu);
    free(a);
    return NULL;
}

static const struct gpu_ops all_ops = {
    .read = all_read,
    .read_card = all_read_card,
    .mode_set = all_mode_set,
    .reset = all_reset,
    .gi_create = all_gi_create,
    .gi_destroy = all_gi_destroy,
    .ci_create = all_ci_create,
    .ci_destroy = all_ci_destroy,
    .slice_create = all_slice_create,
    .slice_destroy = all_slice_destroy,
    .qos_set = all_qos_set,
    .timeslice_set = all_timeslice_set,
    .exclusive_set = all_exclusive_set,
    .limit_set = all_limit_set,
    .limit_get = all_limit_get,
    .measure = all_measure,
    .free = all_free,
};

struct gpu *gpu_all_new(struct gpu *const *gpus, size_t n)
{
    assert(n > 0 && n <= GPU_MAX_VENDORS);
    struct gpu_all *a = xcalloc(1, sizeof(*a));
    a->gpu.ops = &all_ops;
    (void)pthread_mutex_init(&a->mu, NULL);
    a->n = n;
    for (size_t i = 0; i < n; i++)
        a->members[i].gpu = gpus[i];
    return &a->gpu;
}
