/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/kubelet_link.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/cdi/entry_build.h"
#include "nodeagent/kubelet/plugin_parting.h"
#include "nodeagent/loop/holders_watch.h"
#include "nodeagent/loop/mps_link.h"
#include "nodeagent/loop/seals.h"
#include "nodeagent/loop/shown.h"

enum { CDI_RETRY_MS = 5000 };

struct kubelet_link {
    struct kubelet_link_options o;
    struct reactor *reactor;
    struct device_plugin *plugin; /* NULL: another plugin serves the kubelet */
    struct holders_watch *holders;
    bool look_again; /* work through the next offer even if it is unchanged */
    bool offered;    /* the table was set */
    struct device_table table;
    struct shown shown; /* of the table */
    struct card_scores scores;
    const struct driver_view *driver; /* NULL: not known yet */
    bool needs_mounts;                /* nobody but the answer brings the driver's files */
    bool marks_count; /* the files of a marked grant are looked up when its container starts */
    struct outdated_grants outdated;
    struct cdi *cdi;   /* NULL: devices are not named by CDI */
    char *cdi_trouble; /* NULL: the files are up to date */
    struct reactor_timer *cdi_timer;
    struct mps_link *mps; /* NULL: nothing can be shared by MPS */
    struct seals seals;
    struct plugin_parting *parting; /* NULL: not begun */
    bool frozen, parted;
    kubelet_link_fn *on_change;
    void *arg;
};

static void notify(struct kubelet_link *k, enum kubelet_news news)
{
    if (k->on_change)
        k->on_change(k->arg, news);
}

static void holders_changed(void *arg, enum holders_news news)
{
    static const enum kubelet_news ours[] = {[HOLDERS_LISTED] = KUBELET_LISTED,
                                             [HOLDERS_CHANGED] = KUBELET_HOLDERS,
                                             [HOLDERS_NEIGHBOURS] = KUBELET_STATE};
    notify(arg, ours[news]);
}

/* --- Granting --- */

static bool is_sealed(const struct kubelet_link *k, const struct table_device *d)
{
    return seals_have(&k->seals, d->id);
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

static struct entry_options ways_of(const struct kubelet_link *k)
{
    struct entry_options o = k->o.entry;
    if (k->needs_mounts && k->driver && k->driver->has_files)
        o.mounted = &k->driver->files;
    o.second_folder = k->o.cdi.second_folder;
    return o;
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
    const struct entry_options ways = ways_of(k);
    TRY(entry_build(&ways, k->driver ? &k->driver->nodes : NULL, devices, n, &answer, e));
    TRY(mps_link_enter(k->mps, r, ids, n, &answer, e));
    *ret = answer;
    answer = (struct entry){0};
    holders_watch_grant(k->holders, ids, n);
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
    return preferred_choose(shown_preferred(&k->shown, (size_t)(r - k->table.resources)), &request,
                            ret_ids, e);
}

static void plugin_changed(void *arg)
{
    struct kubelet_link *k = arg;
    holders_watch_verify(k->holders);
    notify(k, KUBELET_STATE);
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

bool kubelet_link_has_no_daemon(const struct kubelet_link *k, const char *owner)
{
    return mps_link_has_ended(k->mps, owner);
}

void kubelet_link_set_mps_cards(struct kubelet_link *k, const struct mps_cards *cards)
{
    mps_link_set_cards(k->mps, cards);
}

int kubelet_link_enter_mps(const struct kubelet_link *k, const char *card, struct entry *ret,
                           struct err *e)
{
    return mps_link_enter_daemon(k->mps, card, ret, e);
}

/* --- Offering --- */

static bool can_be_given(const void *link, const struct table_device *d)
{
    const struct kubelet_link *k = link;
    return has_cdi(k, &d->entry) && mps_link_has_daemon(k->mps, d);
}

const char **kubelet_link_unready(const struct kubelet_link *k, size_t *ret_n)
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

static void show(struct kubelet_link *k)
{
    const struct shown_rules rules = {can_be_given, k, &k->scores, k->o.pack_shared};
    if (k->plugin)
        shown_set(&k->shown, &k->table, &rules, k->plugin);
}

/* A daemon became ready, stopped being ready, or is gone. */
static void on_mps(void *arg)
{
    struct kubelet_link *k = arg;
    show(k);
    notify(k, KUBELET_STATE);
    if (k->seals.n)
        notify(k, KUBELET_LISTED);
}

/* CDI files are written before the kubelet is shown a device, so that the runtime knows its
 * name. */
static void offer(void *arg)
{
    struct kubelet_link *k = arg;
    write_cdi(k);
    mps_link_update(k->mps);
    show(k);
}

void kubelet_link_offer(struct kubelet_link *k, const struct device_table *table)
{
    assert(table != &k->table);
    if (k->frozen || (!k->look_again && device_table_equal(&k->table, table)))
        return;
    k->look_again = false;
    k->offered = true;
    shown_done(&k->shown);
    device_table_done(&k->table);
    device_table_copy(table, &k->table);
    offer(k);
    if (!k->plugin)
        holders_watch_ask(k->holders); /* the table translates the other plugin's ids */
}

void kubelet_link_set_topology(struct kubelet_link *k, const struct gpu_topology *t,
                               const int *numa_nodes)
{
    card_scores_init(&k->scores, t, numa_nodes);
    k->look_again = true;
}

const struct card_scores *kubelet_link_scores(const struct kubelet_link *k)
{
    return &k->scores;
}

void kubelet_link_set_runtime(struct kubelet_link *k, const struct cri_runtime *r)
{
    if (r->kind == CRI_KIND_UNKNOWN)
        return;
    k->o.entry.cdi_in_doubt = r->cdi != CRI_CDI_ON;
    k->o.entry.by_mark = r->cdi != CRI_CDI_ON && *r->own;
    k->needs_mounts = cri_needs_mounts(r);
    k->marks_count = cri_marks_count(r);
}

void kubelet_link_set_driver(struct kubelet_link *k, const struct driver_view *driver)
{
    assert(driver);
    k->driver = driver;
    k->look_again = true;
    auto_err struct err e = {0};
    if (k->cdi &&
        cdi_set_common(k->cdi, &driver->nodes, driver->has_files ? &driver->files : NULL, &e) < 0)
        log_warn("Containers start without hooks", kv_err(&e));
}

void kubelet_link_ask(struct kubelet_link *k)
{
    holders_watch_ask(k->holders);
}

void kubelet_link_check(struct kubelet_link *k)
{
    k->look_again = true; /* another program may have removed the CDI file */
    if (k->plugin)
        device_plugin_check(k->plugin);
    holders_watch_check(k->holders);
}

const struct holders *kubelet_link_holders(const struct kubelet_link *k)
{
    return holders_watch_get(k->holders);
}

const struct neighbours *kubelet_link_neighbours(const struct kubelet_link *k)
{
    return holders_watch_neighbours(k->holders);
}

const struct checkpoint *kubelet_link_checkpoint(const struct kubelet_link *k)
{
    return holders_watch_checkpoint(k->holders);
}

const struct outdated_grants *kubelet_link_outdated(struct kubelet_link *k)
{
    const struct checkpoint *checkpoint = kubelet_link_checkpoint(k);
    outdated_grants_done(&k->outdated);
    if (!k->plugin) /* the answers are another plugin's */
        return &k->outdated;
    if (!k->offered || !k->driver || !checkpoint)
        return NULL;
    const struct outdated_facts facts = {
        .table = &k->table,
        .nodes = &k->driver->nodes,
        .checkpoint = checkpoint,
        .holders = holders_watch_get(k->holders),
        .marks_count = k->marks_count,
    };
    outdated_grants_find(&facts, &k->outdated);
    return &k->outdated;
}

const char *kubelet_link_contested(const struct kubelet_link *k)
{
    return k->plugin ? device_plugin_contested(k->plugin) : NULL;
}

void kubelet_link_seal(struct kubelet_link *k, const char *owner, const char *const *ids, size_t n)
{
    seals_put(&k->seals, owner, ids, n);
    mps_link_update(k->mps);
}

void kubelet_link_unseal(struct kubelet_link *k, const char *owner)
{
    if (!k->frozen && seals_drop(&k->seals, owner))
        mps_link_update(k->mps);
}

enum plugin_state kubelet_link_state(const struct kubelet_link *k, const char **ret_text)
{
    *ret_text = NULL;
    if (!k->plugin)
        return PLUGIN_SERVED;
    enum plugin_state state = device_plugin_trouble(k->plugin, ret_text);
    const char *mps_trouble = mps_link_trouble(k->mps);
    if (state != PLUGIN_SERVED || (!k->cdi_trouble && !mps_trouble))
        return state;
    *ret_text = k->cdi_trouble ? k->cdi_trouble : mps_trouble;
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

/* --- Hand-over --- */

static char *plugin_dir(const struct kubelet_link *k)
{
    return xasprintf("%s/device-plugins", k->o.kubelet_dir);
}

void kubelet_link_wait_with_mps(struct kubelet_link *k, bool waits)
{
    mps_link_wait(k->mps, waits);
    k->look_again = true;
}

void kubelet_link_renew(struct kubelet_link *k)
{
    if (k->plugin)
        device_plugin_renew(k->plugin);
    holders_watch_ask(k->holders);
}

void kubelet_link_freeze(struct kubelet_link *k)
{
    k->frozen = true;
    reactor_timer_unset(k->cdi_timer);
    mps_link_freeze(k->mps);
    if (k->plugin)
        device_plugin_freeze(k->plugin);
}

static void parted(void *arg)
{
    struct kubelet_link *k = arg;
    k->parted = true;
    notify(k, KUBELET_STATE);
}

void kubelet_link_part(struct kubelet_link *k)
{
    assert(k->frozen && !k->parting);
    size_t n = 0;
    auto_free const char **names = k->plugin ? device_plugin_heard(k->plugin, &n) : NULL;
    auto_free char *dir = plugin_dir(k);
    if (n)
        k->parting = plugin_parting_new(k->reactor, dir, names, n, parted, k);
    k->parted = !n;
}

bool kubelet_link_has_parted(const struct kubelet_link *k)
{
    return k->parted;
}

/* --- Life --- */

static int open_plugin(struct kubelet_link *k, struct err *e)
{
    auto_free char *dir = plugin_dir(k);
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

static void open_holders(struct kubelet_link *k)
{
    const struct holders_watch_deps d = {
        .reactor = k->reactor,
        .clk = k->o.clk,
        .kubelet_dir = k->o.kubelet_dir,
        .plugin = k->plugin,
        .table = &k->table,
        .fn = holders_changed,
        .arg = k,
    };
    k->holders = holders_watch_new(&d);
}

int kubelet_link_new(const struct kubelet_link_options *o, struct kubelet_link **ret, struct err *e)
{
    assert(o->clk && o->kubelet_dir);
    auto_kubelet_link struct kubelet_link *k = xmalloc(sizeof(*k));
    k->o = *o;
    k->o.entry.cdi_in_doubt = true;
    TRY(reactor_new(o->clk, &k->reactor, e));
    if (!o->observe)
        TRY(open_plugin(k, e));
    if (k->plugin && o->entry.ways & (ENTRY_CDI_CRI | ENTRY_CDI_ANNOTATIONS))
        k->cdi = cdi_new(&o->cdi);
    if (k->plugin && o->mps.root)
        k->mps = mps_link_new(&(const struct mps_link_options){.reactor = k->reactor,
                                                               .mps = &k->o.mps,
                                                               .table = &k->table,
                                                               .seals = &k->seals,
                                                               .on_change = on_mps,
                                                               .arg = k});
    k->cdi_timer = reactor_timer_new(k->reactor, offer, k);
    open_holders(k);
    *ret = TAKE(k);
    return 0;
}

struct kubelet_link *kubelet_link_free(struct kubelet_link *k)
{
    if (!k)
        return NULL;
    k->plugin = device_plugin_free(k->plugin);
    k->parting = plugin_parting_free(k->parting);
    k->holders = holders_watch_free(k->holders);
    if (k->cdi_timer)
        (void)reactor_timer_free(k->cdi_timer);
    k->mps = mps_link_free(k->mps);
    k->reactor = reactor_free(k->reactor);
    k->cdi = cdi_free(k->cdi);
    free(k->cdi_trouble);
    seals_done(&k->seals);
    shown_done(&k->shown);
    device_table_done(&k->table);
    outdated_grants_done(&k->outdated);
    free(k);
    return NULL;
}
