/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/kubelet_link.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/container/entry_build.h"
#include "nodeagent/kubelet/checkpoint.h"
#include "nodeagent/kubelet/pod_resources.h"
#include "nodeagent/offer/preferred.h"

enum {
    SETTLE_MS = 20, /* the kubelet shows a grant 1.4 to 13 ms after Allocate */
    SETTLE_CAP_MS = 1000,
    WATCH_MS = 10000, /* while pods hold devices: nothing reports their end */
    CDI_RETRY_MS = 5000,
    VERIFY_MS = 1000, /* by then the kubelet has taken in a list */
    RETRY_MS = 1000,  /* while the kubelet does not answer */
    /* A kubelet serves its list before the API server has given it its pods again (kubernetes
     * pkg/kubelet/kubelet.go). */
    YOUNG_MS = 30000,
};

struct seal {
    char *owner;
    char **ids;
    size_t n_ids;
};

struct kubelet_link {
    struct kubelet_link_options o;
    struct reactor *reactor;
    struct device_plugin *plugin; /* NULL: another plugin serves the kubelet */
    struct pod_resources *pods;
    struct reactor_timer *timer; /* for the next question */
    int64_t due_mono_ms;         /* when it is due; 0: not set */
    bool look_again;             /* work through the next offer even if it is unchanged */
    int64_t settle_ms;
    struct device_table table;
    struct preferred **preferred; /* one per resource of the table */
    struct card_scores scores;
    const struct driver_view *driver; /* NULL: not known yet */
    struct cdi *cdi;                  /* NULL: devices are not named by CDI */
    char *cdi_trouble;                /* NULL: the files are up to date */
    struct reactor_timer *cdi_timer, *verify_timer;
    struct mps *mps;   /* NULL: nothing can be shared by MPS */
    bool setting_mps;  /* ignore callbacks: this module sets the units itself */
    char *mps_trouble; /* NULL: all wanted daemons run, or are starting */
    struct holders holders;
    struct seal *seals; /* one for each owner at most */
    size_t n_seals;
    char *unread; /* why the holders are not known; NULL: they are */
    char *checkpoint_path;
    struct checkpoint checkpoint;
    char *checkpoint_trouble; /* NULL: it is readable */
    int64_t since_mono_ms;    /* when this link started */
    size_t n_unlisted;        /* devices of the checkpoint that the newest list lacks */
    int64_t unlisted_ms;
    kubelet_link_fn *on_change;
    void *arg;
};

static void notify(struct kubelet_link *k, enum kubelet_news news)
{
    if (k->on_change)
        k->on_change(k->arg, news);
}

/* --- Holders --- */

/* Asks in ms, unless a question is due earlier: grants in quick succession must not postpone it. */
static void ask_in(struct kubelet_link *k, int64_t ms)
{
    int64_t due = clock_mono_ms(k->o.clk) + ms;
    if (k->due_mono_ms && k->due_mono_ms <= due)
        return;
    k->due_mono_ms = due;
    reactor_timer_set(k->timer, ms);
}

static void ask_no_more(struct kubelet_link *k)
{
    k->due_mono_ms = 0;
    reactor_timer_unset(k->timer);
}

/* Plans the next question: soon after a grant, then less often; now and then while pods hold
 * devices. */
static void plan_question(struct kubelet_link *k)
{
    if (!k->holders.known) {
        ask_in(k, RETRY_MS);
    } else if (holders_await(&k->holders)) {
        ask_in(k, k->settle_ms);
        k->settle_ms = k->settle_ms * 2 > SETTLE_CAP_MS ? SETTLE_CAP_MS : k->settle_ms * 2;
    } else if (k->n_unlisted) {
        ask_in(k, k->unlisted_ms);
        k->unlisted_ms = k->unlisted_ms * 2 > WATCH_MS ? WATCH_MS : k->unlisted_ms * 2;
    } else if (k->holders.n_listed) {
        ask_in(k, WATCH_MS);
    } else {
        ask_no_more(k);
    }
}

static bool is_ours(const struct kubelet_link *k, const char *id)
{
    for (size_t i = 0; i < k->table.n_resources; i++)
        if (table_resource_device(&k->table.resources[i], id))
            return true;
    return strncmp(id, "GPU-", 4) == 0 || device_slot_of(id) >= 0; /* or was */
}

static const struct holder *find_holder(const struct holder *list, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].id, id) == 0)
            return &list[i];
    return NULL;
}

/* NOLINTBEGIN(readability-non-const-parameter): XPUSH counts up */

/* Names the pod if the list before did. */
static void add_unlisted(const struct kubelet_link *k, const struct checkpoint_device *d,
                         const char *id, const char *resource, struct holder **list, size_t *n)
{
    const struct holder *old = find_holder(k->holders.listed, k->holders.n_listed, id);
    *XPUSH(*list, *n) = (struct holder){
        .id = xstrdup(id),
        .ns = xstrdup(old ? old->ns : NULL),
        .pod = xstrdup(old ? old->pod : NULL),
        .uid = xstrdup(old && old->pod ? NULL : d->uid),
        .container = xstrdup(d->container),
        .resource = xstrdup(resource),
    };
}

/* NOLINTEND(readability-non-const-parameter) */

static void read_checkpoint(struct kubelet_link *k)
{
    auto_err struct err e = {0};
    int rc = checkpoint_refresh(&k->checkpoint, k->checkpoint_path, &e);
    if (rc < 0 && (!k->checkpoint_trouble || strcmp(k->checkpoint_trouble, err_msg(&e)) != 0))
        log_warn("Could not read what the kubelet has on record", kv_err(&e));
    xstr_set(&k->checkpoint_trouble, rc < 0 ? err_msg(&e) : NULL);
}

/* True while the kubelet or this agent is so new that the kubelet may not know its pods yet. */
static bool is_young(const struct kubelet_link *k, int64_t now_mono_ms)
{
    int64_t renewed = pod_resources_renewed_mono_ms(k->pods);
    return now_mono_ms < (renewed > k->since_mono_ms ? renewed : k->since_mono_ms) + YOUNG_MS;
}

/* Adds devices that the checkpoint has and the list lacks: their pods hold them, too. When the
 * kubelet answers a list and knows all pods, it removes ended ones from its record, and writes the
 * record when a plugin sends a list. An agent that does not serve the kubelet cannot cause that, so
 * it trusts the file for a while only. */
static void add_checkpoint(struct kubelet_link *k, int64_t asked_mono_ms, struct holder **list,
                           size_t *n)
{
    size_t n_unlisted = 0;
    if (!k->plugin && !is_young(k, asked_mono_ms)) {
        k->n_unlisted = 0;
        return;
    }
    read_checkpoint(k);
    for (size_t i = 0; i < k->checkpoint.n; i++) {
        const struct checkpoint_device *d = &k->checkpoint.devices[i];
        auto_free char *translated = device_table_translate(&k->table, d->id);
        const char *id = translated ? translated : d->id;
        if ((!translated && !is_ours(k, id)) || find_holder(*list, *n, id))
            continue;
        add_unlisted(k, d, id, translated ? "" : d->resource, list, n);
        n_unlisted++;
    }
    if (n_unlisted != k->n_unlisted)
        k->unlisted_ms = SETTLE_MS;
    k->n_unlisted = n_unlisted;
    if (n_unlisted && k->plugin)
        device_plugin_repeat(k->plugin);
}

static void take_list(struct kubelet_link *k, const struct pod_device *list, size_t n,
                      int64_t asked_mono_ms)
{
    struct holder *held = NULL;
    size_t n_held = 0;
    for (size_t i = 0; i < n; i++) {
        char *translated = device_table_translate(&k->table, list[i].id);
        if (!translated && !is_ours(k, list[i].id))
            continue;
        *XPUSH(held, n_held) = (struct holder){
            .id = translated ? translated : xstrdup(list[i].id),
            .ns = xstrdup(list[i].ns),
            .pod = xstrdup(list[i].pod),
            .container = xstrdup(list[i].container),
            .resource = xstrdup(translated ? "" : list[i].resource),
        };
    }
    free(TAKE(k->unread));
    add_checkpoint(k, asked_mono_ms, &held, &n_held);
    int64_t renewed_mono_ms = pod_resources_renewed_mono_ms(k->pods);
    if (renewed_mono_ms != INT64_MIN && asked_mono_ms < renewed_mono_ms + YOUNG_MS)
        holders_keep(&k->holders, &held, &n_held);
    if (holders_list(&k->holders, held, n_held, asked_mono_ms))
        notify(k, KUBELET_HOLDERS);
}

static void listed(void *arg, const struct pod_device *list, size_t n, int64_t asked_mono_ms,
                   const struct err *err)
{
    struct kubelet_link *k = arg;
    if (!err) {
        take_list(k, list, n, asked_mono_ms);
    } else {
        if (!k->unread || strcmp(k->unread, err_msg(err)) != 0)
            log_warn("Could not read which pods hold devices", kv_err(err));
        xstr_set(&k->unread, err_msg(err));
        bool news = k->holders.known;
        holders_unknown(&k->holders);
        if (news)
            notify(k, KUBELET_HOLDERS);
    }
    plan_question(k);
    if (!err)
        notify(k, KUBELET_LISTED);
}

static void on_timer(void *arg)
{
    struct kubelet_link *k = arg;
    k->due_mono_ms = 0;
    pod_resources_ask(k->pods);
}

/* --- Granting --- */

static bool is_sealed(const struct kubelet_link *k, const struct table_device *d)
{
    for (size_t i = 0; i < k->n_seals; i++)
        for (size_t p = 0; p < k->seals[i].n_ids; p++)
            if (strcmp(k->seals[i].ids[p], d->id) == 0)
                return true;
    return false;
}

static int pick(const struct kubelet_link *k, const struct table_resource *r, const char *id,
                const struct entry_device **ret, struct err *e)
{
    const struct table_device *d = table_resource_device(r, id);
    if (!d)
        return err_set(e, ERR_NOT_FOUND, "%s: this node has no device %s", r->name, id);
    if (is_sealed(k, d))
        return err_set(e, ERR_UNAVAILABLE, "%s: the layout of %s is being changed", r->name, id);
    *ret = &d->entry;
    return 0;
}

/* Removes the slots' CDI files, so that the next container cannot get the earlier pod's slice. */
static int forget_slots(const struct kubelet_link *k, const struct entry_device *const *devices,
                        size_t n, struct err *e)
{
    for (size_t i = 0; k->o.slots && i < n; i++)
        if (devices[i]->is_slot)
            TRY(cdi_slots_remove(k->o.slots, devices[i]->cdi_name, e));
    return 0;
}

/* The name of the device's MPS daemon. */
static const char *unit_of(const struct table_device *d)
{
    return d->entry.cdi_name;
}

/* A container can be a client of one daemon only. */
static int enter_mps(const struct kubelet_link *k, const struct table_resource *r,
                     const char *const *ids, size_t n, struct entry *ret, struct err *e)
{
    const char *unit = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct table_device *d = table_resource_device(r, ids[i]);
        if (!d->mps)
            continue;
        if (unit && strcmp(unit, unit_of(d)) != 0)
            return err_set(e, ERR_INVALID,
                           "%s: a container can have replicas of one device shared by MPS, not of "
                           "several",
                           r->name);
        unit = unit_of(d);
    }
    if (unit && !k->mps)
        return err_set(e, ERR_UNAVAILABLE, "%s: this agent runs no MPS daemons", r->name);
    return unit ? mps_entry(k->mps, unit, ret, e) : 0;
}

static int allocate(void *arg, const char *resource, const char *const *ids, size_t n,
                    struct entry *ret, struct err *e)
{
    struct kubelet_link *k = arg;
    const struct table_resource *r = device_table_resource(&k->table, resource);
    if (!r)
        return err_set(e, ERR_NOT_FOUND, "%s is no longer offered", resource);
    if (r->one_replica && n > 1)
        return err_set(
            e, ERR_INVALID,
            "%s: a container may ask for one of it, not %zu: more replicas give no more of "
            "the card (failRequestsGreaterThanOne)",
            resource, n);
    auto_free const struct entry_device **devices = xcalloc(n, sizeof(*devices));
    for (size_t i = 0; i < n; i++)
        TRY(pick(k, r, ids[i], &devices[i], e));
    TRY(forget_slots(k, devices, n, e));
    auto_entry struct entry answer = {0};
    TRY(entry_build(&k->o.entry, k->driver ? &k->driver->nodes : NULL, devices, n, &answer, e));
    TRY(enter_mps(k, r, ids, n, &answer, e));
    *ret = answer;
    answer = (struct entry){0};
    holders_grant(&k->holders, ids, n, clock_mono_ms(k->o.clk));
    k->settle_ms = SETTLE_MS;
    plan_question(k);
    notify(k, KUBELET_HOLDERS);
    return 0;
}

static int prefer(void *arg, const char *resource, const struct plugin_preference *p,
                  const char **ret_ids, struct err *e)
{
    struct kubelet_link *k = arg;
    const struct table_resource *r = device_table_resource(&k->table, resource);
    if (!r)
        return err_set(e, ERR_NOT_FOUND, "%s is no longer offered", resource);
    const struct preferred_request request = {
        .available = p->available,
        .n_available = p->n_available,
        .required = p->must_include,
        .n_required = p->n_must_include,
        .size = p->size,
    };
    return preferred_choose(k->preferred[r - k->table.resources], &request, ret_ids, e);
}

/* Verifies some time after each registration. */
static void verify(void *arg)
{
    struct kubelet_link *k = arg;
    pod_resources_ask_names(k->pods);
}

static void named(void *arg, const char *const *names, size_t n)
{
    struct kubelet_link *k = arg;
    if (device_plugin_verify(k->plugin, names, n))
        reactor_timer_set(k->verify_timer, VERIFY_MS);
}

static void plugin_changed(void *arg)
{
    struct kubelet_link *k = arg;
    reactor_timer_set(k->verify_timer, VERIFY_MS);
    notify(arg, KUBELET_STATE);
}

static const struct plugin_ops plugin_ops = {allocate, prefer, plugin_changed};

/* --- The CDI files --- */

static const struct entry_device **entries_of(const struct device_table *t, size_t *ret_n)
{
    const struct entry_device **list = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < t->n_resources; i++)
        for (size_t d = 0; d < t->resources[i].n_devices; d++)
            *XPUSH(list, *ret_n) = &t->resources[i].devices[d].entry;
    return list;
}

static void note_cdi(struct kubelet_link *k, const char *trouble)
{
    if (trouble && (!k->cdi_trouble || strcmp(k->cdi_trouble, trouble) != 0))
        log_warn("Could not write the CDI file", kv("error", trouble));
    bool news = !trouble != !k->cdi_trouble;
    xstr_set(&k->cdi_trouble, trouble);
    if (trouble)
        reactor_timer_set(k->cdi_timer, CDI_RETRY_MS);
    if (news)
        notify(k, KUBELET_STATE);
}

/* Writes the CDI files. A device that is missing in its file, because it cannot be described or the
 * file could not be written, is not offered. */
static void write_cdi(struct kubelet_link *k)
{
    size_t n;
    auto_err struct err e = {0};
    if (!k->cdi || !k->driver)
        return;
    auto_free const struct entry_device **list = entries_of(&k->table, &n);
    int rc = cdi_write(k->cdi, &k->driver->nodes, list, n, &e);
    note_cdi(k, rc < 0 ? err_msg(&e) : NULL);
}

/* A slot's own CDI file is written when its pod is known, and a slot needs CDI. */
static bool has_cdi(const struct kubelet_link *k, const struct entry_device *d)
{
    if (!k->cdi || (d->is_slot && !k->o.slots))
        return !d->is_slot;
    return d->is_slot || cdi_has(k->cdi, d);
}

/* --- MPS --- */

static const struct table_device *device_at(const struct kubelet_link *k, const char *id)
{
    const struct table_device *d = NULL;
    for (size_t i = 0; i < k->table.n_resources && !d; i++)
        d = table_resource_device(&k->table.resources[i], id);
    return d;
}

/* The units shared by MPS that are not about to go. */
struct units {
    struct mps_unit *items;
    struct mps_device **devices; /* allocated one by one, so that their addresses stay */
    size_t n, n_devices;
};

static void add_unit(struct units *u, const struct table_device *d)
{
    struct mps_device *device = xmalloc(sizeof(*device));
    *device = (struct mps_device){d->entry.uuid, d->memory_mib};
    *XPUSH(u->devices, u->n_devices) = device;
    *XPUSH(u->items, u->n) = (struct mps_unit){.name = unit_of(d),
                                               .devices = device,
                                               .n_devices = 1,
                                               .replicas = (unsigned)d->replicas};
}

static void units_done(struct units *u)
{
    for (size_t i = 0; i < u->n_devices; i++)
        free(u->devices[i]);
    free(u->devices);
    free(u->items);
}
AUTO_DEFINE(units, struct units, units_done)

static void list_units(const struct kubelet_link *k, struct units *ret)
{
    for (size_t i = 0; i < k->table.n_resources; i++) {
        const struct table_resource *r = &k->table.resources[i];
        for (size_t p = 0; p < r->n_devices; p++)
            if (r->devices[p].mps && !is_sealed(k, &r->devices[p]))
                add_unit(ret, &r->devices[p]);
    }
}

/* Keeps the first daemon that does not run, for the condition. */
static void note_mps(struct kubelet_link *k, const struct units *u, const char *refused)
{
    auto_free char *text = refused ? xstrdup(refused) : NULL;
    for (size_t i = 0; i < u->n && !text; i++) {
        const char *problem = mps_problem(k->mps, u->items[i].name);
        if (*problem && !mps_is_ready(k->mps, u->items[i].name))
            text = xasprintf("%s cannot be shared by MPS: %s", u->items[i].name, problem);
    }
    if (text && (!k->mps_trouble || strcmp(k->mps_trouble, text) != 0))
        log_warn("Could not share by MPS", kv("error", text));
    xstr_set(&k->mps_trouble, text);
}

static void set_units(struct kubelet_link *k)
{
    AUTO(units) struct units u = {0};
    auto_err struct err e = {0};
    if (!k->mps)
        return;
    list_units(k, &u);
    k->setting_mps = true;
    int rc = mps_set(k->mps, u.items, u.n, &e);
    k->setting_mps = false;
    note_mps(k, &u, rc < 0 ? err_msg(&e) : NULL);
}

static struct seal *find_seal(const struct kubelet_link *k, const char *owner)
{
    for (size_t i = 0; i < k->n_seals; i++)
        if (strcmp(k->seals[i].owner, owner) == 0)
            return &k->seals[i];
    return NULL;
}

bool kubelet_link_is_released(const struct kubelet_link *k, const char *owner)
{
    const struct seal *s = find_seal(k, owner);
    for (size_t i = 0; k->mps && s && i < s->n_ids; i++) {
        const struct table_device *d = device_at(k, s->ids[i]);
        if (d && !mps_is_gone(k->mps, unit_of(d)))
            return false;
    }
    return true;
}

static bool has_daemon(const struct kubelet_link *k, const struct table_device *d)
{
    return !d->mps || (k->mps && mps_is_ready(k->mps, unit_of(d)));
}

/* --- Offering --- */

static bool can_be_given(const struct kubelet_link *k, const struct table_device *d)
{
    return has_cdi(k, &d->entry) && has_daemon(k, d);
}

const char **kubelet_link_withheld(const struct kubelet_link *k, size_t *ret_n)
{
    const char **names = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < k->table.n_resources; i++) {
        const struct table_resource *r = &k->table.resources[i];
        for (size_t p = 0; p < r->n_devices; p++)
            if (!can_be_given(k, &r->devices[p]))
                *XPUSH(names, *ret_n) = r->devices[p].entry.cdi_name;
    }
    return names;
}

/* A resource's devices with all their replicas. */
struct expanded {
    struct plugin_device *devices;
    struct preferred_device *slots;
    char **ids;
    size_t n;
    bool shared, mps, whole;
};

static struct expanded expand(const struct kubelet_link *k, const struct table_resource *r)
{
    struct expanded x = {.whole = true};
    size_t n_ids = 0;
    size_t n_slots = 0;
    for (size_t i = 0; i < r->n_devices; i++) {
        const struct table_device *d = &r->devices[i];
        bool healthy = d->healthy && can_be_given(k, d);
        for (int64_t replica = 0; replica < d->replicas; replica++) {
            char *id = d->replicas == 1 ? xstrdup(d->id)
                                        : xasprintf("%s::%lld", d->id, (long long)replica);
            *XPUSH(x.ids, n_ids) = id;
            *XPUSH(x.slots, n_slots) = (struct preferred_device){id, d->card_index, (uint16_t)i};
            *XPUSH(x.devices, x.n) = (struct plugin_device){id, healthy, d->numa};
        }
        x.shared |= d->replicas > 1;
        x.mps |= d->mps;
        x.whole &= !d->entry.mig && !d->entry.has_slice && !d->entry.is_slot && !d->entry.is_vf;
    }
    return x;
}

static void expanded_done(struct expanded *x)
{
    for (size_t i = 0; i < x->n; i++)
        free(x->ids[i]);
    free(x->ids);
    free(x->slots);
    free(x->devices);
}

/* Partitions are packed, so that cards stay free for others. MPS replicas are packed, because a
 * container can have those of one device only. */
static struct preferred *preferred_of(const struct kubelet_link *k, const struct expanded *x)
{
    enum preferred_policy shared = k->o.pack_shared ? PREFERRED_PACKED : PREFERRED_DISTRIBUTED;
    const struct preferred_offer offer = {
        .policy = x->mps      ? PREFERRED_PACKED
                  : x->shared ? shared
                  : x->whole  ? PREFERRED_CARDS
                              : PREFERRED_PACKED,
        .devices = x->slots,
        .n = x->n,
        .scores = &k->scores,
    };
    return preferred_new(&offer);
}

static void forget_preferred(struct kubelet_link *k)
{
    for (size_t i = 0; k->preferred && i < k->table.n_resources; i++)
        (void)preferred_free(k->preferred[i]);
    free(TAKE(k->preferred));
}

static void show(struct kubelet_link *k)
{
    size_t n = k->table.n_resources;
    if (!k->plugin)
        return;
    forget_preferred(k);
    k->preferred = xcalloc(n, sizeof(struct preferred *));
    auto_free struct expanded *expanded = xcalloc(n, sizeof(*expanded));
    auto_free struct plugin_resource *list = xcalloc(n, sizeof(*list));
    for (size_t i = 0; i < n; i++) {
        expanded[i] = expand(k, &k->table.resources[i]);
        k->preferred[i] = preferred_of(k, &expanded[i]);
        list[i] = (struct plugin_resource){k->table.resources[i].name, expanded[i].devices,
                                           expanded[i].n};
    }
    device_plugin_set(k->plugin, list, n);
    for (size_t i = 0; i < n; i++)
        expanded_done(&expanded[i]);
}

/* A daemon became ready, stopped being ready, or is gone. */
static void on_mps(void *arg)
{
    struct kubelet_link *k = arg;
    AUTO(units) struct units u = {0};
    if (k->setting_mps)
        return;
    list_units(k, &u);
    note_mps(k, &u, /* refused= */ NULL);
    show(k);
    notify(k, KUBELET_STATE);
    if (k->n_seals)
        notify(k, KUBELET_LISTED);
}

/* CDI files are written before the kubelet is shown a device, so that the runtime knows its
 * name. */
static void offer(struct kubelet_link *k)
{
    write_cdi(k);
    set_units(k);
    show(k);
}

static void again(void *arg)
{
    offer(arg);
}

void kubelet_link_offer(struct kubelet_link *k, const struct device_table *table)
{
    if (!k->look_again && device_table_equal(&k->table, table))
        return;
    k->look_again = false;
    forget_preferred(k);
    device_table_done(&k->table);
    device_table_copy(table, &k->table);
    offer(k);
    if (!k->plugin)
        pod_resources_ask(k->pods); /* the table translates the other plugin's ids */
}

void kubelet_link_set_topology(struct kubelet_link *k, const struct gpu_topology *t,
                               const int *numa_nodes)
{
    card_scores_init(&k->scores, t, numa_nodes);
    k->look_again = true;
}

void kubelet_link_set_driver(struct kubelet_link *k, const struct driver_view *driver)
{
    k->driver = driver;
    k->look_again = true;
    auto_err struct err e = {0};
    if (k->cdi &&
        cdi_set_common(k->cdi, &driver->nodes, driver->has_files ? &driver->files : NULL, &e) < 0)
        log_warn("Containers start without hooks", kv_err(&e));
}

void kubelet_link_ask(struct kubelet_link *k)
{
    pod_resources_ask(k->pods);
}

void kubelet_link_check(struct kubelet_link *k)
{
    k->look_again = true; /* another program may have removed the CDI file */
    if (k->plugin)
        device_plugin_check(k->plugin);
    pod_resources_ask(k->pods);
}

const struct holders *kubelet_link_holders(const struct kubelet_link *k)
{
    return &k->holders;
}

static void seal_done(struct seal *s)
{
    for (size_t i = 0; i < s->n_ids; i++)
        free(s->ids[i]);
    free(s->ids);
    free(s->owner);
}

/* Does not start the daemons again. False: the owner had no seal. */
static bool drop_seal(struct kubelet_link *k, const char *owner)
{
    struct seal *s = find_seal(k, owner);
    if (!s)
        return false;
    seal_done(s);
    *s = k->seals[--k->n_seals];
    return true;
}

void kubelet_link_seal(struct kubelet_link *k, const char *owner, const char *const *ids, size_t n)
{
    struct seal s = {.owner = xstrdup(owner)};
    for (size_t i = 0; i < n; i++)
        *XPUSH(s.ids, s.n_ids) = xstrdup(ids[i]);
    (void)drop_seal(k, owner);
    *XPUSH(k->seals, k->n_seals) = s;
    set_units(k);
}

void kubelet_link_unseal(struct kubelet_link *k, const char *owner)
{
    if (drop_seal(k, owner))
        set_units(k);
}

enum plugin_state kubelet_link_state(const struct kubelet_link *k, const char **ret_text)
{
    *ret_text = NULL;
    if (!k->plugin)
        return PLUGIN_SERVED;
    enum plugin_state state = device_plugin_trouble(k->plugin, ret_text);
    if (state != PLUGIN_SERVED || (!k->cdi_trouble && !k->mps_trouble))
        return state;
    *ret_text = k->cdi_trouble ? k->cdi_trouble : k->mps_trouble;
    return k->cdi_trouble ? PLUGIN_NO_CDI : PLUGIN_NO_MPS;
}

struct plugin_stats kubelet_link_stats(const struct kubelet_link *k)
{
    return k->plugin ? device_plugin_stats(k->plugin) : (struct plugin_stats){0};
}

void kubelet_link_on_change(struct kubelet_link *k, kubelet_link_fn *fn, void *arg)
{
    k->on_change = fn;
    k->arg = arg;
}

int kubelet_link_fd(const struct kubelet_link *k)
{
    return reactor_fd(k->reactor);
}

void kubelet_link_dispatch(struct kubelet_link *k)
{
    reactor_dispatch(k->reactor);
}

/* --- Life --- */

static int open_plugin(struct kubelet_link *k, struct err *e)
{
    auto_free char *dir = xasprintf("%s/device-plugins", k->o.kubelet_dir);
    const struct device_plugin_options o = {
        .reactor = k->reactor,
        .clk = k->o.clk,
        .dir = dir,
        .ops = &plugin_ops,
        .arg = k,
        .seed = k->o.seed,
    };
    return device_plugin_new(&o, &k->plugin, e);
}

static void open_pods(struct kubelet_link *k)
{
    auto_free char *path = xasprintf("%s/pod-resources/kubelet.sock", k->o.kubelet_dir);
    const struct pod_resources_options o = {
        .reactor = k->reactor,
        .clk = k->o.clk,
        .path = path,
        .fn = listed,
        .names_fn = named,
        .arg = k,
    };
    k->pods = pod_resources_new(&o);
    k->timer = reactor_timer_new(k->reactor, on_timer, k);
    ask_in(k, 0);
}

int kubelet_link_new(const struct kubelet_link_options *o, struct kubelet_link **ret, struct err *e)
{
    auto_kubelet_link struct kubelet_link *k = xmalloc(sizeof(*k));
    *k = (struct kubelet_link){.o = *o,
                               .settle_ms = SETTLE_MS,
                               .unlisted_ms = SETTLE_MS,
                               .since_mono_ms = clock_mono_ms(o->clk)};
    TRY(reactor_new(o->clk, &k->reactor, e));
    k->verify_timer = reactor_timer_new(k->reactor, verify, k);
    if (!o->observe)
        TRY(open_plugin(k, e));
    if (k->plugin && o->entry.ways & (ENTRY_CDI_CRI | ENTRY_CDI_ANNOTATIONS))
        k->cdi = cdi_new(&o->cdi);
    if (k->plugin && o->mps.root)
        k->mps = mps_new(k->reactor, &o->mps, on_mps, k);
    k->cdi_timer = reactor_timer_new(k->reactor, again, k);
    k->checkpoint_path = xasprintf("%s/device-plugins/kubelet_internal_checkpoint", o->kubelet_dir);
    open_pods(k);
    *ret = TAKE(k);
    return 0;
}

struct kubelet_link *kubelet_link_free(struct kubelet_link *k)
{
    if (!k)
        return NULL;
    k->plugin = device_plugin_free(k->plugin);
    k->pods = pod_resources_free(k->pods);
    if (k->timer)
        (void)reactor_timer_free(k->timer);
    if (k->cdi_timer)
        (void)reactor_timer_free(k->cdi_timer);
    if (k->verify_timer)
        (void)reactor_timer_free(k->verify_timer);
    k->mps = mps_free(k->mps);
    k->reactor = reactor_free(k->reactor);
    k->cdi = cdi_free(k->cdi);
    free(k->cdi_trouble);
    free(k->mps_trouble);
    for (size_t i = 0; i < k->n_seals; i++)
        seal_done(&k->seals[i]);
    free(k->seals);
    forget_preferred(k);
    device_table_done(&k->table);
    holders_done(&k->holders);
    free(k->unread);
    checkpoint_done(&k->checkpoint);
    free(k->checkpoint_path);
    free(k->checkpoint_trouble);
    free(k);
    return NULL;
}
