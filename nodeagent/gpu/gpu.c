/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/gpu.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"

static size_t pair_count(size_t n_cards)
{
    return n_cards < 2 ? 0 : n_cards * (n_cards - 1) / 2;
}

/* A triangle: row b has the pairs of b with every index below b. */
static size_t pair_place(size_t a, size_t b)
{
    return a < b ? b * (b - 1) / 2 + a : a * (a - 1) / 2 + b;
}

void gpu_topology_init(struct gpu_topology *t, size_t n_cards)
{
    assert(n_cards <= GPU_MAX_CARDS);
    *t = (struct gpu_topology){.n_cards = n_cards};
    if (n_cards > 1)
        t->pairs = xcalloc(pair_count(n_cards), sizeof(*t->pairs));
}

struct gpu_pair *gpu_topology_at(struct gpu_topology *t, size_t a, size_t b)
{
    assert(a != b && a < t->n_cards && b < t->n_cards);
    return &t->pairs[pair_place(a, b)];
}

struct gpu_pair gpu_pair_between(const struct gpu_topology *t, size_t a, size_t b)
{
    if (!t->pairs || a == b || a >= t->n_cards || b >= t->n_cards)
        return (struct gpu_pair){.level = GPU_LEVEL_UNKNOWN};
    return t->pairs[pair_place(a, b)];
}

struct gpu_topology gpu_topology_copy(const struct gpu_topology *t)
{
    struct gpu_topology copy = {.n_cards = t->n_cards};
    if (t->pairs)
        copy.pairs = xmemdup(t->pairs, pair_count(t->n_cards) * sizeof(*t->pairs));
    return copy;
}

void gpu_topology_done(struct gpu_topology *t)
{
    free(TAKE(t->pairs));
    t->n_cards = 0;
}

/* True for a pod that holds a cut card as a whole (migStrategy none): it holds every part. A
 * process outside of all instances only monitors the card. */
static bool holds_all(const struct gpu_user *p)
{
    return p->is_pod && p->part < 0;
}

/* A process that names no compute instance holds all of its GPU instance. */
static void mark(struct gpu_card *c, const struct gpu_user *p)
{
    for (unsigned i = 0; i < c->state.n; i++) {
        struct mig_instance *in = &c->state.items[i];
        if ((int)in->gi_id != p->part && !holds_all(p))
            continue;
        in->in_use = true;
        for (unsigned k = 0; k < in->n_cis; k++)
            if (p->ci < 0 || (int)in->cis[k].id == p->ci)
                in->cis[k].in_use = true;
    }
}

static void mark_slices(struct gpu_card *c)
{
    for (unsigned i = 0; i < c->sgpu.n; i++) {
        struct sgpu_slice *s = &c->sgpu.items[i];
        s->in_use = false;
        for (unsigned k = 0; k < c->n_users && !s->in_use; k++)
            s->in_use = c->users[k].part == (int)s->id || holds_all(&c->users[k]);
    }
}

static void mark_vfs(struct gpu_card *c)
{
    for (unsigned i = 0; i < c->n_vfs; i++) {
        struct gpu_vf *vf = &c->vfs[i];
        vf->in_use = false;
        for (unsigned k = 0; k < c->n_users && !vf->in_use; k++)
            vf->in_use = c->users[k].part == (int)vf->number || holds_all(&c->users[k]);
    }
}

static_assert(MIG_MAX_CIS <= 8, "struct gpu_marks has a bit for each");
static_assert(ARRAY_LEN(((struct gpu_card *)0)->marks) >= MIG_MAX_INSTANCES, "a mark for each");

struct gpu_known gpu_card_known(const struct gpu_card *c)
{
    struct gpu_known k;
    memcpy(k.bytes, c, sizeof(k.bytes));
    return k;
}

struct gpu_card gpu_known_card(const struct gpu_known *k)
{
    struct gpu_card c = {0};
    memcpy(&c, k->bytes, sizeof(k->bytes));
    return c;
}

void gpu_card_keep_marks(struct gpu_card *c)
{
    assert(c->state.n <= MIG_MAX_INSTANCES);
    for (unsigned i = 0; i < c->state.n; i++) {
        const struct mig_instance *in = &c->state.items[i];
        c->marks[i] = (struct gpu_marks){.in_use = in->in_use};
        assert(in->n_cis <= MIG_MAX_CIS);
        for (unsigned k = 0; k < in->n_cis; k++)
            c->marks[i].cis |= (uint8_t)(in->cis[k].in_use << k);
    }
}

static void mark_users(struct gpu_card *c)
{
    mark_slices(c);
    mark_vfs(c);
    for (unsigned i = 0; i < c->state.n; i++) {
        struct mig_instance *in = &c->state.items[i];
        in->in_use = c->marks[i].in_use;
        for (unsigned k = 0; k < in->n_cis; k++)
            in->cis[k].in_use = c->marks[i].cis >> k & 1;
    }
    for (unsigned i = 0; i < c->n_users; i++)
        mark(c, &c->users[i]);
}

void gpu_card_set_holders(struct gpu_card *c, const struct gpu_user *holders, unsigned n)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < c->n_users; i++)
        kept += !c->users[i].is_pod;
    assert(kept == 0 || !c->users[kept - 1].is_pod); /* processes come first */
    if (kept + n == 0) {
        free(TAKE(c->users));
        c->n_users = 0;
        mark_users(c);
        return;
    }
    c->users = xreallocarray(c->users, kept + n, sizeof(*c->users));
    for (unsigned i = 0; i < n; i++) {
        c->users[kept + i] = holders[i];
        c->users[kept + i].is_pod = true;
    }
    c->n_users = kept + n;
    mark_users(c);
}

void gpu_card_done(struct gpu_card *c)
{
    free(TAKE(c->users));
    c->n_users = 0;
}

const struct gpu_driver *gpu_inventory_driver(const struct gpu_inventory *inv, const char *vendor)
{
    assert(inv->n_drivers <= GPU_MAX_VENDORS);
    for (size_t i = 0; i < inv->n_drivers; i++)
        if (strcmp(inv->drivers[i].vendor, vendor) == 0)
            return &inv->drivers[i];
    return NULL;
}

void gpu_inventory_read_boot(struct gpu_inventory *inv, const char *proc_root)
{
    auto_free char *path = xasprintf("%s/sys/kernel/random/boot_id", proc_root);
    auto_free char *text = NULL;
    if (file_read(path, sizeof(inv->boot_id), &text, NULL, NULL) < 0)
        return;
    text[strcspn(text, "\n")] = '\0';
    (void)snprintf(inv->boot_id, sizeof(inv->boot_id), "%s", text);
}

void gpu_inventory_done(struct gpu_inventory *inv)
{
    for (size_t i = 0; i < inv->n_cards; i++)
        gpu_card_done(&inv->cards[i]);
    free(TAKE(inv->cards));
    inv->n_cards = 0;
    gpu_topology_done(&inv->topology);
}

static _Thread_local struct gpu_activity unwatched;
static _Thread_local struct gpu_activity *watched; /* NULL: unwatched is the thread's */

void gpu_activity_of_thread(struct gpu_activity *a)
{
    watched = a;
}

struct gpu_activity *gpu_activity_mine(void)
{
    return watched ? watched : &unwatched;
}

void gpu_call_begin(const char *call)
{
    struct gpu_activity *a = gpu_activity_mine();
    assert(call && !atomic_load(&a->call)); /* calls do not nest */
    atomic_store(&a->since_mono_ms, clock_mono_ms(clock_real()));
    atomic_store(&a->call, call);
}

void gpu_call_end(void)
{
    assert(atomic_load(&gpu_activity_mine()->call));
    atomic_store(&gpu_activity_mine()->call, NULL);
    atomic_store(&gpu_activity_mine()->since_mono_ms, clock_mono_ms(clock_real()));
}

struct gpu *gpu_free(struct gpu *g)
{
    return g ? g->ops->free(g) : NULL;
}
