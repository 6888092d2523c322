/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/agent_job.h"

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
    for (size_t i = 0; i < j->n_exclusive; i++)
        free(j->exclusive[i]);
    free(j->exclusive);
    (void)driver_view_free(j->new_driver_view);
    slot_binding_done(&j->binding);
    free(j->offers);
    free(j->slots_found);
    unended_done(&j->unended);
    free(j);
}

static struct consumer *pods_of(const struct gpu_card *card, const char *proc_root)
{
    if (!card->n_processes)
        return NULL;
    struct consumer *pods = xcalloc(card->n_processes, sizeof(*pods));
    for (unsigned i = 0; i < card->n_processes; i++)
        if (consumer_of_pid(proc_root, card->processes[i].pid, &pods[i], NULL) < 0)
            pods[i] = (struct consumer){0};
    return pods;
}

static void observe(void *arg, struct gpu_card *card)
{
    const struct agent_job *j = arg;
    card_holders_mark(&j->holders, &j->slots_made, card);
}

/* The offer of a card; NULL: nothing of it is on offer. */
static const struct card_offer *offer_of(const struct agent_job *j, const char *uuid)
{
    for (size_t i = 0; i < j->n_offers; i++)
        if (strcmp(j->offers[i].uuid, uuid) == 0)
            return &j->offers[i].offer;
    return NULL;
}

static void recover_card(struct gpu *g, struct agent_job *j, const char *boot_id, const char *uuid)
{
    const struct txn_deps deps = {.gpu = g,
                                  .state_dir = j->env->state_dir,
                                  .boot_id = boot_id,
                                  .observe = observe,
                                  .arg = j,
                                  .offered = offer_of(j, uuid)};
    struct txn_result r;
    txn_recover(&deps, uuid, &r);
    if (r.outcome == TXN_FAILED)
        unended_note(&j->unended, uuid, &r); /* the loop, which knows what is advertised, completes
                                                it */
    else if (r.outcome != TXN_HELD)
        log_info("Recovered an interrupted change", kv("gpu", uuid),
                 kv("outcome", txn_outcome_name(r.outcome)), kv("message", r.message));
}

static int recover_cards(struct gpu *g, struct agent_job *j, const char *boot_id, struct err *e)
{
    char **uuids = NULL;
    size_t n = 0;
    if (journal_list(j->env->state_dir, &uuids, &n, e) < 0)
        return err_wrap(e, "list interrupted changes");
    for (size_t i = 0; i < n; i++) {
        recover_card(g, j, boot_id, uuids[i]);
        free(uuids[i]);
    }
    free(uuids);
    return 0;
}

/* Moves the cards out of the inventory into views, each with the pods of its processes. */
static void take_views(struct agent_job *j)
{
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
        driver_view_make_partitions(w, j->driver_view, &j->inventory.cards[i]);
}

static bool is_exclusive(const struct agent_job *j, const char *uuid)
{
    for (size_t i = 0; i < j->n_exclusive; i++)
        if (strcmp(j->exclusive[i], uuid) == 0)
            return true;
    return false;
}

static void settle_modes(struct gpu *g, struct agent_job *j)
{
    for (size_t i = 0; i < j->inventory.n_cards; i++) {
        struct gpu_card *card = &j->inventory.cards[i];
        exclusive_settle(g, j->env->state_dir, card, is_exclusive(j, card->uuid));
    }
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
        unsigned slot;
        if (cdi_slot_parse(names.items[i], &slot))
            *XPUSH(j->slots_found, j->n_slots_found) = slot;
    }
    return 0;
}

static int recover(struct gpu *g, struct agent_job *j, struct err *e)
{
    TRY(recover_cards(g, j, j->inventory.boot_id, e));
    return find_slots(j, e);
}

static void run_read(struct gpu *g, struct agent_job *j)
{
    host_facts_read(j->env->sys_root, &j->host);
    j->rc = g->ops->read(g, &j->inventory, &j->err);
    if (j->rc == 0 && j->recover) {
        (void)!recover(g, j, &j->unlisted);
        gpu_inventory_done(&j->inventory);
        j->rc = g->ops->read(g, &j->inventory, &j->err);
    }
    if (j->rc < 0)
        return;
    look_at_driver(j);
    if (j->modes_known)
        settle_modes(g, j);
    take_views(j);
}

/* Reads the card again. */
static void read_view(struct gpu *g, struct agent_job *j, struct err *e)
{
    int rc = g->ops->read_card(g, j->uuid, &j->view.card, e);
    j->rc = j->rc < 0 ? j->rc : rc;
    if (rc < 0)
        return;
    j->view.pods = pods_of(&j->view.card, j->env->proc_root);
    if (j->env->driver && j->driver_view)
        driver_view_make_partitions(j->env->driver, j->driver_view, &j->view.card);
}

static void run_card(struct gpu *g, struct agent_job *j)
{
    const struct txn_deps deps = {.gpu = g,
                                  .state_dir = j->env->state_dir,
                                  .boot_id = j->boot_id,
                                  .observe = observe,
                                  .arg = j,
                                  .offered = &j->offered};
    txn_apply(&deps, j->uuid, &j->wish, j->policy, &j->result);
    read_view(g, j, &j->err);
}

/* j->err is the slots' result; the view is set only when the card could be read. */
static void run_slots(struct gpu *g, struct agent_job *j)
{
    const struct slot_deps deps = {.gpu = g,
                                   .state_dir = j->env->state_dir,
                                   .cdi = j->env->slots,
                                   .nodes = j->driver_view ? &j->driver_view->nodes : NULL};
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
    j->began_mono_ms = clock_mono_ms(j->env->clk);
    if (j->kind == AGENT_JOB_READ)
        run_read(g, j);
    else if (j->kind == AGENT_JOB_CARD)
        run_card(g, j);
    else
        run_slots(g, j);
    j->took_ms = clock_mono_ms(j->env->clk) - j->began_mono_ms;
}
