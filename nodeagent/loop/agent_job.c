/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/agent_job.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/change/journal.h"
#include "nodeagent/loop/exclusive.h"
#include "nodeagent/offer/card_holders.h"

struct agent_job *agent_job_new(enum agent_job_kind kind, const struct agent_job_env *env,
                                void *owner)
{
    struct agent_job *j = xmalloc(sizeof(*j));
    j->env = env;
    j->owner = owner;
    j->kind = kind;
    return j;
}

void agent_job_free(void *job)
{
    struct agent_job *j = job;
    err_clear(&j->err);
    err_clear(&j->unlisted);
    gpu_inventory_done(&j->inventory);
    card_view_done(&j->view);
    for (size_t i = 0; i < j->n_views; i++)
        card_view_done(&j->views[i]);
    free(j->views);
    holders_done(&j->holders);
    for (size_t i = 0; i < j->n_unended; i++)
        free(j->unended[i]);
    free(j->unended);
    (void)driver_view_free(j->new_driver_view);
    (void)driver_view_free(j->driver_view);
    slot_binding_done(&j->binding);
    shares_done(&j->shares);
    share_sights_done(&j->sights);
    free(j->reach);
    free(j->slots_found);
    free(j);
}

static struct consumer *pods_of(const struct gpu_card *card, const char *proc_root)
{
    if (!card->n_users)
        return NULL;
    struct consumer *pods = xcalloc(card->n_users, sizeof(*pods));
    for (unsigned i = 0; i < card->n_users; i++)
        if (card->users[i].is_pod ||
            consumer_of_pid(proc_root, card->users[i].pid, &pods[i], NULL) < 0)
            pods[i] = (struct consumer){0};
    return pods;
}

static void observe(void *arg, struct gpu_card *card)
{
    const struct agent_job *j = arg;
    card_holders_mark(&j->holders, &j->slots_made, &j->shares, card);
}

/* Moves the cards out of the inventory into views, each with the pods of its processes. */
static void take_views(struct agent_job *j)
{
    assert(!j->views);
    j->n_views = j->inventory.n_cards;
    j->views = xcalloc(j->n_views, sizeof(*j->views));
    for (size_t i = 0; i < j->n_views; i++) {
        j->views[i].card = j->inventory.cards[i];
        j->views[i].pods = pods_of(&j->views[i].card, j->env->proc_root);
    }
    free(TAKE(j->inventory.cards));
    j->inventory.n_cards = 0;
}

/* Repairs device files: they go missing, drivers are replaced, and a partition made by another tool
 * has none. */
static void look_at_driver(struct agent_job *j)
{
    const struct driver_where *w = j->env->driver;
    if (!w)
        return;
    if (!driver_view_is_current(w, j->driver_view, &j->inventory)) {
        j->new_driver_view = driver_view_read(w, &j->inventory);
        driver_view_make(w, j->new_driver_view, j->inventory.cards, j->inventory.n_cards);
        return;
    }
    for (size_t i = 0; i < j->inventory.n_cards; i++)
        driver_view_make_card(w, j->driver_view, &j->inventory.cards[i]);
}

/* Finds the slots that an earlier agent bound, or began to bind. */
static int find_slots(struct agent_job *j, struct err *unlisted)
{
    auto_err struct err e = {0};
    if (slot_records_list(j->env->state_dir, &j->slots_found, &j->n_slots_found, unlisted) < 0)
        return err_wrap(unlisted, "list the records of slots");
    auto_cdi_slot_names struct cdi_slot_names names = {0};
    if (j->env->slots && cdi_slots_list(j->env->slots, &names, &e) < 0)
        log_error("Could not list the CDI files of slots", kv_err(&e));
    for (size_t i = 0; i < names.n; i++) {
        int slot = slot_of_name(names.items[i]);
        assert(slot >= 0);
        *XPUSH(j->slots_found, j->n_slots_found) = (unsigned)slot;
    }
    shares_done(&j->shares);
    if (share_records_read(j->env->state_dir, j->slots_found, j->n_slots_found, &j->shares,
                           unlisted) < 0)
        return err_wrap(unlisted, "read the records of shares");
    return 0;
}

static int list_leftovers(struct agent_job *j, struct err *e)
{
    if (journal_list(j->env->state_dir, &j->unended, &j->n_unended, e) < 0)
        return err_wrap(e, "list interrupted changes");
    return find_slots(j, e);
}

/* Without a card there need be no driver: such a node is read, and has none. */
static bool needs_no_driver(const struct agent_job *j)
{
    return j->rc == -(int)ERR_NOT_FOUND && host_has_no_cards(&j->host);
}

static void take_no_cards(struct agent_job *j)
{
    err_clear(&j->err);
    j->rc = 0;
    j->inventory = (struct gpu_inventory){0};
    gpu_inventory_read_boot(&j->inventory, j->env->proc_root ? j->env->proc_root : "/proc");
}

static struct slot_deps slot_deps(struct gpu *g, const struct agent_job *j)
{
    const struct driver_view *v = j->driver_view;
    return (struct slot_deps){.gpu = g,
                              .state_dir = j->env->state_dir,
                              .cdi = j->env->slots,
                              .nodes = v ? &v->nodes : NULL,
                              .files = v && v->has_files ? &v->files : NULL,
                              .share_folders = j->env->share_folders,
                              .limiter = j->env->limiter,
                              .cgroup_root = j->env->cgroup_root,
                              .shares = &j->shares};
}

/* Any card that is whole tells what the driver can: they have one. What was not read is in another
 * job's hands, or ill. */
static void look_at_limits(struct gpu *g, struct agent_job *j)
{
    const struct gpu_driver *d = gpu_inventory_driver(&j->inventory, "nvidia");
    const struct slot_deps deps = slot_deps(g, j);
    for (size_t i = 0; j->env->cgroup_root && d && i < j->n_views; i++) {
        const struct gpu_card *card = &j->views[i].card;
        if (card->unread || card->mode != GPU_NATIVE || strcmp(card->vendor, d->vendor) != 0)
            continue;
        cgroup_limits_probe(g, j->env->cgroup_root, card->uuid, d->version, &j->limits);
        if (j->limits.can)
            cgroup_limits_lost(&deps, card->uuid, &j->limits_lost);
    }
}

/* The journals are listed before the cards are read, so a change that begins meanwhile is none that
 * was interrupted: the loop finds its card in another job's hands. */
static void run_read(struct gpu *g, struct agent_job *j)
{
    const struct host_setup_where where = {j->env->proc_root, j->env->sys_root, j->env->host_root};
    host_facts_read(j->env->sys_root, &j->host);
    host_setup_read(&where, &j->setup);
    if (j->lists)
        (void)!list_leftovers(j, &j->unlisted);
    j->rc = g->ops->read(g, &j->inventory, &j->err);
    if (needs_no_driver(j))
        take_no_cards(j);
    if (j->rc < 0)
        return;
    look_at_driver(j);
    take_views(j);
    look_at_limits(g, j);
    const struct share_look_where who = {j->env->proc_root, j->env->share_folders};
    share_look(&who, &j->shares, j->views, j->n_views, &j->sights);
}

/* Reads the card again. */
static void read_view(struct gpu *g, struct agent_job *j, struct err *e)
{
    assert(*j->uuid && !*j->view.card.uuid);
    int rc = g->ops->read_card(g, j->uuid, &j->view.card, e);
    j->rc = j->rc < 0 ? j->rc : rc;
    if (rc < 0)
        return;
    j->view.pods = pods_of(&j->view.card, j->env->proc_root);
    if (j->env->driver && j->driver_view)
        driver_view_make_card(j->env->driver, j->driver_view, &j->view.card);
}

static struct txn_deps txn_deps(struct gpu *g, struct agent_job *j)
{
    return (struct txn_deps){.gpu = g,
                             .state_dir = j->env->state_dir,
                             .boot_id = j->boot_id,
                             .observe = observe,
                             .arg = j,
                             .offered = &j->offered};
}

/* A card's own job may come before the round of recovery, where the kubelet's list was late. */
static void tell_recovered(const struct agent_job *j)
{
    if (j->result.recovered)
        log_info("Recovered an interrupted change", kv("gpu", j->uuid),
                 kv("message", j->result.recovered));
}

static void run_card(struct gpu *g, struct agent_job *j)
{
    const struct txn_deps deps = txn_deps(g, j);
    txn_apply(&deps, j->uuid, &j->wish, j->policy, &j->result);
    tell_recovered(j);
    read_view(g, j, &j->err);
}

/* A card that was not touched needs no new reading; it may even be gone from the machine. */
static void run_recover(struct gpu *g, struct agent_job *j)
{
    const struct txn_deps deps = txn_deps(g, j);
    txn_recover(&deps, j->uuid, &j->result);
    tell_recovered(j);
    if (j->result.changed)
        read_view(g, j, &j->err);
}

/* The loop put the card as it was read last into the view. */
static void run_mode(struct gpu *g, struct agent_job *j)
{
    exclusive_settle(g, j->env->state_dir, &j->view.card, j->exclusive);
    j->exclusive = j->view.card.exclusive;
}

bool agent_job_is_of_shares(const struct agent_job *j)
{
    assert(j->kind == AGENT_JOB_BIND || j->kind == AGENT_JOB_RELEASE);
    return slot_is_share(j->kind == AGENT_JOB_BIND ? j->binding.bound[0].slot : j->slot);
}

static void run_limits(struct gpu *g, const struct agent_job *j)
{
    const struct slot_deps deps = slot_deps(g, j);
    cgroup_limits_sweep(&deps, j->uuid);
}

static void run_shares(const struct slot_deps *deps, struct agent_job *j)
{
    if (j->kind == AGENT_JOB_BIND)
        j->rc = share_bind(deps, &j->binding, &j->err);
    else
        j->rc = share_release(deps, j->slot, &j->err);
}

/* j->err is the slots' result; the view is set only when the card could be read. */
static void run_slots(struct gpu *g, struct agent_job *j)
{
    const struct slot_deps deps = slot_deps(g, j);
    if (agent_job_is_of_shares(j)) {
        run_shares(&deps, j);
        return;
    }
    if (j->kind == AGENT_JOB_BIND)
        j->rc = slot_bind(&deps, &j->binding, &j->err);
    else
        j->rc = slot_release(&deps, j->slot, j->uuid, &j->err);
    if (*j->uuid)
        read_view(g, j, /* e= */ NULL);
}

void agent_job_run(struct gpu *g, void *job)
{
    struct agent_job *j = job;
    assert(j->env && j->env->clk && j->env->state_dir);
    j->began_mono_ms = clock_mono_ms(j->env->clk);
    if (j->kind == AGENT_JOB_READ)
        run_read(g, j);
    else if (j->kind == AGENT_JOB_CARD)
        run_card(g, j);
    else if (j->kind == AGENT_JOB_RECOVER)
        run_recover(g, j);
    else if (j->kind == AGENT_JOB_COMPUTE_MODE)
        run_mode(g, j);
    else if (j->kind == AGENT_JOB_LIMITS)
        run_limits(g, j);
    else
        run_slots(g, j);
    j->took_ms = clock_mono_ms(j->env->clk) - j->began_mono_ms;
}
