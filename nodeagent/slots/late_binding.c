/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/late_binding.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/slots/adopted.h"
#include "nodeagent/slots/pod_right.h"
#include "nodeagent/slots/slot_containers.h"
#include "nodeagent/slots/slot_leftovers.h"

/* READY_MS: the time that the kubelet needs for what it makes for a pod, at most. */
enum { AGAIN_MS = 1000, READY_MS = 5000 };

enum state {
    GRANTED, /* to a pod that the list does not show yet */
    NEW,     /* the pod's name is known */
    ASKED,   /* the pod is being read */
    KNOWN,   /* its wishes are known */
    RUNS,    /* the worker binds it */
    BOUND,
};

/* A container, and what is known of its pod. */
struct binding {
    struct slot_container who;
    char *uid;
    bool known;               /* the wishes are; false before KNOWN */
    struct slot_wish *wishes; /* of slices, one per slot */
    struct share_wish share;  /* of shares, for all */
    enum state state;
    int64_t known_mono_us; /* when its wishes were; 0: it was bound, or had to wait, since */
    char *trouble;         /* NULL: none */
    bool news;             /* the trouble was not reported yet */
    bool tried;            /* without room, since the pod was read */
    struct backoff backoff;
    int64_t
        unready_mono_ms; /* since when what the kubelet makes for the pod is missing; 0: it is not */
    int64_t due_mono_ms; /* when the pod is read, or (KNOWN, without room) read again; 0: now */
    bool retry;          /* KNOWN, without room: there may be some now */
};

struct late_binding {
    struct late_binding_deps d;
    struct rng rng;
    struct binding *items; /* by container */
    size_t n;
    struct slot_leftovers leftovers;
    struct pod_right right;
    struct adopted adopted;
    int64_t looked_mono_ms; /* when late_binding_release looked last */
};

static const struct backoff retry = {.base_ms = 200,
                                     .cap_ms = 10000,
                                     .factor = 2,
                                     .jitter_pct = 20};

struct late_binding *late_binding_new(const struct late_binding_deps *d)
{
    assert(d->pods && d->clk && d->node);
    struct late_binding *l = xmalloc(sizeof(*l));
    *l = (struct late_binding){
        .d = *d,
        .leftovers = {.clk = d->clk, .rng = &l->rng, .retry = retry},
        .right = {.pods = d->pods,
                  .clk = d->clk,
                  .rng = &l->rng,
                  .backoff = retry,
                  .due_mono_ms = INT64_MAX},
    };
    rng_init(&l->rng, d->seed);
    return l;
}

static void binding_done(struct binding *b)
{
    slot_container_done(&b->who);
    free(b->uid);
    free(b->wishes);
    share_wish_done(&b->share);
    free(b->trouble);
    *b = (struct binding){0};
}

struct late_binding *late_binding_free(struct late_binding *l)
{
    if (!l)
        return NULL;
    for (size_t i = 0; i < l->n; i++)
        binding_done(&l->items[i]);
    free(l->items);
    slot_leftovers_done(&l->leftovers);
    adopted_done(&l->adopted);
    free(l);
    return NULL;
}

/* --- Holders of slots --- */

static bool binds_shares(const struct binding *b)
{
    return slot_is_share(slot_at(b->who.pool, 0));
}

/* The containers that the list shows with slots, as they are before anything is known of them. */
static struct binding *list_bindings(const struct holders *h, size_t *ret_n)
{
    auto_free struct slot_container *containers = slot_containers_of(h, ret_n);
    struct binding *list = xcalloc(*ret_n, sizeof(*list));
    for (size_t i = 0; i < *ret_n; i++)
        list[i] = (struct binding){.who = containers[i],
                                   .state = containers[i].is_granted_anew ? GRANTED : NEW,
                                   .backoff = retry};
    return list;
}

static struct binding *find_binding(const struct late_binding *l, const struct slot_container *who)
{
    static_assert(offsetof(struct binding, who) == 0, "a binding is found by its container");
    return l->n ? bsearch(who, l->items, l->n, sizeof(*l->items), slot_container_order) : NULL;
}

/* Keeps the state of containers that are still listed. The two lists swap; the rest of the old one
 * is forgotten. */
static void carry_over(struct late_binding *l, struct binding *to)
{
    struct binding *from = find_binding(l, &to->who);
    if (!from || !slot_container_same(&from->who, &to->who) || from->state == GRANTED ||
        to->state == GRANTED)
        return;
    const struct binding listed = *to;
    *to = *from;
    *from = listed;
}

/* A container that is no longer listed may have left slices behind. */
static void note_leftovers(struct late_binding *l)
{
    for (size_t i = 0; i < l->n; i++) {
        for (size_t k = 0; k < l->items[i].who.n_slots; k++)
            slot_leftovers_add(&l->leftovers, l->items[i].who.slots[k]);
        binding_done(&l->items[i]);
    }
    free(TAKE(l->items));
    l->n = 0;
}

/* Held slots are no leftovers. */
static void drop_held_leftovers(struct late_binding *l)
{
    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0; k < l->items[i].who.n_slots; k++)
            slot_leftovers_drop(&l->leftovers, l->items[i].who.slots[k]);
}

static void ask_for_pods(struct late_binding *l);

void late_binding_follow(struct late_binding *l, const struct holders *h)
{
    size_t n;
    struct binding *list = list_bindings(h, &n);
    for (size_t i = 0; i < n; i++)
        carry_over(l, &list[i]);
    note_leftovers(l);
    l->items = list;
    l->n = n;
    drop_held_leftovers(l);
    ask_for_pods(l);
}

void late_binding_found(struct late_binding *l, const unsigned *slots, size_t n)
{
    for (size_t i = 0; i < n; i++)
        slot_leftovers_add(&l->leftovers, slots[i]);
}

/* --- Reading pods --- */

static void put_off(struct late_binding *l, struct binding *b, enum state state, const char *why)
{
    int64_t now = clock_mono_ms(l->d.clk);
    /* What is left on the cards changes with each neighbour: that is told at most once each time the
     * pod was to be read anew. */
    bool is_due = !b->trouble || state == NEW || b->due_mono_ms <= now;
    if (is_due && (!b->trouble || strcmp(b->trouble, why) != 0)) {
        log_warn("Could not bind a slot", kv("namespace", b->who.ns), kv("pod", b->who.pod),
                 kv("container", b->who.name), kv("error", why));
        b->news = true;
    }
    assert(state == NEW || (state == KNOWN && b->known && b->uid)); /* the states that wait */
    xstr_set(&b->trouble, why);
    b->state = state;
    b->known_mono_us = 0;
    b->retry = false;
    /* However often room is looked for, the pod is read again when that was planned. */
    if (state == NEW || b->due_mono_ms <= now)
        b->due_mono_ms = now + backoff_next_ms(&b->backoff, l->d.clk, &l->rng);
}

static int read_slices(struct binding *b, const json_t *pod, struct err *e)
{
    auto_free struct slot_wish *wishes = xcalloc(b->who.n_slots, sizeof(*wishes));
    for (size_t i = 0; i < b->who.n_slots; i++)
        TRY(slot_wish_of(pod, b->who.name, (unsigned)i, &wishes[i], e));
    free(b->wishes);
    b->wishes = TAKE(wishes);
    return 0;
}

static int read_share(struct binding *b, const json_t *pod, struct err *e)
{
    struct share_wish wish;
    TRY(share_wish_of(pod, b->who.name, b->who.pool, b->who.n_slots, &wish, e));
    share_wish_done(&b->share);
    b->share = wish;
    return 0;
}

static int read_wishes(const struct late_binding *l, struct binding *b, const json_t *pod,
                       struct err *e)
{
    const char *node = JX_STR_AT(pod, "spec", "nodeName");
    const char *uid = pod_answer_uid(pod);
    if (!node || strcmp(node, l->d.node) != 0 || !uid)
        return err_set(e, ERR_CONFLICT, "the pod of this name is not on this node");
    TRY(binds_shares(b) ? read_share(b, pod, e) : read_slices(b, pod, e));
    b->known = true;
    xstr_set(&b->uid, uid);
    return 0;
}

static void take_answer(struct late_binding *l, struct binding *b, const struct pod_answer *a)
{
    auto_err struct err e = {0};
    if (!a->pod && a->err.kind == ERR_FORBIDDEN) {
        put_off(l, b, NEW, pod_right_missing);
        return;
    }
    if (!a->pod || read_wishes(l, b, a->pod, &e) < 0) {
        put_off(l, b, NEW, err_msg(a->pod ? &e : &a->err));
        return;
    }
    b->state = KNOWN;
    b->known_mono_us = clock_mono_us(l->d.clk);
    b->due_mono_ms = 0;
    b->tried = false;
}

void late_binding_ask_right(struct late_binding *l, bool needed)
{
    pod_right_ask(&l->right, needed);
}

const char *late_binding_forbidden(const struct late_binding *l)
{
    return l->right.forbidden ? pod_right_missing : NULL;
}

bool late_binding_take(struct late_binding *l)
{
    struct pod_answer a;
    bool before = l->right.forbidden;
    while (pod_reader_take(l->d.pods, &a)) {
        pod_right_note(&l->right, &a);
        adopted_take(&l->adopted, &a, l->d.node, l->d.clk, &l->rng);
        for (size_t i = 0; i < l->n; i++) {
            struct binding *b = &l->items[i];
            if (b->state == ASKED && strcmp(b->who.ns, a.ns) == 0 &&
                strcmp(b->who.pod, a.name) == 0)
                take_answer(l, b, &a);
        }
        pod_answer_done(&a);
    }
    return l->right.forbidden != before;
}

static void ask_for_pods(struct late_binding *l)
{
    int64_t now = clock_mono_ms(l->d.clk);
    for (size_t i = 0; i < l->n; i++) {
        struct binding *b = &l->items[i];
        if (b->state == KNOWN && b->due_mono_ms && b->due_mono_ms <= now)
            b->state = NEW; /* still no room: the pod may ask for something else by now */
        if (b->state != NEW || b->due_mono_ms > now)
            continue;
        if (pod_reader_ask(l->d.pods, b->who.ns, b->who.pod))
            b->state = ASKED;
        else
            b->due_mono_ms = now + AGAIN_MS;
    }
}

bool late_binding_adopt(struct late_binding *l, const struct holders *h, struct shares *ret)
{
    if (h)
        adopted_follow(&l->adopted, h);
    adopted_ask(&l->adopted, l->d.pods, l->d.clk);
    return adopted_shares(&l->adopted, ret);
}

void late_binding_retry_now(struct late_binding *l)
{
    for (size_t i = 0; i < l->n; i++)
        l->items[i].retry |= l->items[i].state == KNOWN;
}

/* --- Binding --- */

/* *ret has the slots, without cards. */
static int choose(const struct binding *b, const struct slot_rooms *rooms, struct slot_binding *ret,
                  struct err *e)
{
    auto_free struct slot_place *places = xcalloc(b->who.n_slots, sizeof(*places));
    if (binds_shares(b))
        return share_place(&rooms->shares, &b->share, ret, e);
    TRY(slot_place(rooms->cards, rooms->n_cards, b->who.slots, b->wishes, b->who.n_slots, places,
                   e));
    for (size_t i = 0; i < b->who.n_slots; i++) {
        const struct slot_place *p = &places[i];
        assert(p->card && p->quota.memory_mib > 0);
        ret->bound[i].quota = p->quota;
        ret->bound[i].qos = p->qos;
        memcpy(ret->bound[i].card, p->card->uuid, sizeof(ret->bound[i].card));
    }
    return 0;
}

static bool has_any_made(const struct binding *b, const struct device_slots *made)
{
    for (size_t i = 0; i < b->who.n_slots; i++)
        if (device_slots_has(made, b->who.slots[i]))
            return true;
    return false;
}

static void clear_cards(struct slot_binding *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->bound[i] = (struct bound_slot){.slot = b->bound[i].slot, .qos = -1};
}

/* Prepares the binding of a container whose wishes are known. False: it has to wait, or was put
 * off. */
static bool prepare(struct late_binding *l, struct binding *b, const struct slot_rooms *rooms,
                    const struct device_slots *made, const struct slot_gate *gate,
                    struct slot_binding *ret)
{
    auto_err struct err e = {0};
    assert(b->known && b->uid && b->who.n_slots > 0); /* it is KNOWN */
    *ret = (struct slot_binding){.ns = xstrdup(b->who.ns),
                                 .pod = xstrdup(b->who.pod),
                                 .uid = xstrdup(b->uid),
                                 .container = xstrdup(b->who.name),
                                 .known_mono_us = has_any_made(b, made) ? 0 : b->known_mono_us};
    for (size_t i = 0; i < b->who.n_slots; i++)
        *XPUSH(ret->bound, ret->n) = (struct bound_slot){.slot = b->who.slots[i], .qos = -1};
    if (choose(b, rooms, ret, &e) == 0)
        return true;
    clear_cards(ret);
    b->known_mono_us = 0; /* from here on it waits for others */
    if (binds_shares(b) ? gate->shares_may_come : gate->slices_may_come)
        return false;
    /* A share that another pod left under the slot takes no room: it is not counted. */
    if (!binds_shares(b) && !b->tried && has_any_made(b, made)) {
        (void)err_move(&ret->unplaced, &e);
        return true;
    }
    /* Room may become free; a pod that can never fit may be changed. */
    put_off(l, b, e.kind == ERR_UNAVAILABLE ? KNOWN : NEW, err_msg(&e));
    return false;
}

/* What the kubelet took does not count as the agent's. */
static void end_wait(const struct late_binding *l, struct binding *b, struct slot_binding *binding)
{
    if (b->unready_mono_ms && binding->known_mono_us)
        binding->known_mono_us = clock_mono_us(l->d.clk);
    b->unready_mono_ms = 0;
}

/* A pod that is gone meanwhile is found so when it is read again. */
static bool is_ready(struct late_binding *l, struct binding *b, const struct slot_gate *gate,
                     struct slot_binding *binding)
{
    auto_err struct err why = {0};
    int64_t now = clock_mono_ms(l->d.clk);
    if (!gate->is_ready || gate->is_ready(gate->arg, binding, &why)) {
        end_wait(l, b, binding);
        return true;
    }
    if (!b->unready_mono_ms)
        b->unready_mono_ms = now;
    if (now - b->unready_mono_ms >= READY_MS)
        put_off(l, b, KNOWN, err_msg(&why));
    else
        b->due_mono_ms = b->unready_mono_ms + READY_MS;
    b->retry = false;
    return false;
}

static bool may_begin(struct late_binding *l, struct binding *b, const struct slot_gate *gate,
                      const struct slot_binding *binding)
{
    auto_err struct err why = {0};
    bool may = gate->may_bind(gate->arg, binding, &why);
    if (!may && why.kind)
        put_off(l, b, KNOWN, err_msg(&why));
    return may;
}

bool late_binding_next(struct late_binding *l, const struct slot_rooms *rooms,
                       const struct device_slots *made, const struct slot_gate *gate,
                       struct slot_binding *ret)
{
    int64_t now = clock_mono_ms(l->d.clk);
    ask_for_pods(l);
    for (size_t i = 0; i < l->n; i++) {
        struct binding *b = &l->items[i];
        auto_slot_binding struct slot_binding binding = {0};
        if (b->state != KNOWN || (b->due_mono_ms > now && !b->retry) ||
            !prepare(l, b, rooms, made, gate, &binding) || !is_ready(l, b, gate, &binding) ||
            !may_begin(l, b, gate, &binding))
            continue;
        assert(binding.n == b->who.n_slots);
        b->state = RUNS;
        b->tried |= binding.unplaced.kind != 0;
        *ret = binding;
        binding = (struct slot_binding){0};
        return true;
    }
    return false;
}

static struct binding *binding_of(const struct late_binding *l, const struct slot_binding *b)
{
    const struct slot_container who = {.ns = b->ns,
                                       .pod = b->pod,
                                       .name = b->container,
                                       .pool = slot_pool_of(b->bound[0].slot)};
    return find_binding(l, &who);
}

void late_binding_bound(struct late_binding *l, const struct slot_binding *b, const struct err *err)
{
    assert(b->n > 0);
    struct binding *now = binding_of(l, b);
    for (size_t i = 0; !now && i < b->n; i++)
        slot_leftovers_add(&l->leftovers, b->bound[i].slot);
    assert(!now || now->state < KNOWN || (now->known && now->uid));
    if (!now || now->state != RUNS || strcmp(now->uid, b->uid) != 0)
        return;
    if (err) {
        put_off(l, now, b->unplaced.kind == ERR_UNAVAILABLE ? KNOWN : NEW, err_msg(err));
        return;
    }
    now->state = BOUND;
    now->known_mono_us = 0;
    free(TAKE(now->trouble));
    backoff_reset(&now->backoff);
}

static bool lost_slot(const struct binding *b, const struct device_slots *made, unsigned *ret)
{
    for (size_t i = 0; b->state == BOUND && i < b->who.n_slots; i++)
        if (!device_slots_has(made, b->who.slots[i])) {
            *ret = b->who.slots[i];
            return true;
        }
    return false;
}

bool late_binding_lost(struct late_binding *l, const struct device_slots *made, unsigned *ret)
{
    for (size_t i = 0; i < l->n; i++) {
        struct binding *b = &l->items[i];
        if (!lost_slot(b, made, ret))
            continue;
        b->state = NEW;
        b->due_mono_ms = 0;
        return true;
    }
    return false;
}

void late_binding_again(struct late_binding *l, const struct device_slots *only)
{
    for (size_t i = 0; i < l->n; i++) {
        struct binding *b = &l->items[i];
        if (b->state != BOUND || (only && !has_any_made(b, only)))
            continue;
        b->state = KNOWN;
        b->due_mono_ms = 0;
        b->tried = false;
    }
}

/* --- Releasing --- */

struct release_facts {
    struct device_slots held; /* by the kubelet, or by a container that was listed */
    const struct slot_gate *gate;
};

static bool is_held(const void *arg, unsigned slot)
{
    const struct release_facts *f = arg;
    return device_slots_has(&f->held, slot);
}

static bool may_release(const void *arg, unsigned slot)
{
    const struct release_facts *f = arg;
    return f->gate->may_release(f->gate->arg, slot);
}

bool late_binding_release(struct late_binding *l, const struct holders *h,
                          const struct device_slots *made, const struct slot_gate *gate,
                          unsigned *ret)
{
    struct release_facts facts = {.gate = gate};
    const struct slot_questions q = {is_held, may_release, &facts};
    device_slots_add_held(&facts.held, h);
    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0; k < l->items[i].who.n_slots; k++)
            device_slots_put(&facts.held, l->items[i].who.slots[k]);
    l->looked_mono_ms = clock_mono_ms(l->d.clk);
    if (h->known)
        return slot_leftovers_next(&l->leftovers, &q, made, ret);
    slot_leftovers_put_off(&l->leftovers);
    return false;
}

void late_binding_released(struct late_binding *l, unsigned slot, const struct err *err)
{
    slot_leftovers_released(&l->leftovers, slot, err);
}

void late_binding_sick(const struct late_binding *l, const struct device_slots *made,
                       struct device_slots *ret)
{
    *ret = (struct device_slots){0};
    slot_leftovers_sick(&l->leftovers, made, ret);
}

/* --- For the loop --- */

int64_t late_binding_due_mono_ms(const struct late_binding *l)
{
    int64_t releases = slot_leftovers_due_mono_ms(&l->leftovers, l->looked_mono_ms);
    int64_t due = l->right.due_mono_ms < releases ? l->right.due_mono_ms : releases;
    int64_t adopting = adopted_due_mono_ms(&l->adopted);
    if (adopting > l->looked_mono_ms && adopting < due)
        due = adopting;
    for (size_t i = 0; i < l->n; i++) {
        const struct binding *b = &l->items[i];
        bool waits = b->state == NEW || b->state == KNOWN;
        if (waits && b->due_mono_ms > l->looked_mono_ms && b->due_mono_ms < due)
            due = b->due_mono_ms;
    }
    return due;
}

bool late_binding_news(struct late_binding *l, struct unbound *ret)
{
    const struct adopted_pod *p = adopted_news(&l->adopted);
    if (p)
        *ret = (struct unbound){/* of_shares= */ true,
                                p->ns,
                                p->name,
                                NULL,
                                NULL,
                                p->trouble};
    for (size_t i = 0; !p && i < l->n; i++) {
        struct binding *b = &l->items[i];
        if (!b->trouble || !b->news)
            continue;
        b->news = false;
        *ret = (struct unbound){binds_shares(b), b->who.ns,   b->who.pod,
                                b->uid,          b->who.name, b->trouble};
        return true;
    }
    return p != NULL;
}
