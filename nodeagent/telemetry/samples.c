/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/telemetry/samples.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/telemetry/hami_page.h"
#include "nodeagent/telemetry/page_text.h"

enum { TOLD_AFTER = 2 }; /* so many failures are logged: one alone may be a reset */

/* --- The node --- */

static struct sample *sample_of(const struct samples *s, const char *uuid)
{
    for (size_t i = 0; i < s->node.n; i++)
        if (strcmp(s->node.cards[i].uuid, uuid) == 0)
            return &s->items[i];
    return NULL;
}

void samples_done(struct samples *s)
{
    for (size_t i = 0; s->items && i < s->node.n; i++)
        free(s->items[i].pods);
    free(s->items);
    telemetry_node_done(&s->node);
    *s = (struct samples){0};
}

void samples_take_node(struct samples *s, struct telemetry_node *node_take)
{
    struct samples next = {.node = *node_take,
                           .items = xcalloc(node_take->n + 1, sizeof(*next.items))};
    for (size_t i = 0; i < next.node.n; i++) {
        struct sample *old = sample_of(s, next.node.cards[i].uuid);
        if (!old)
            continue;
        next.items[i] = *old;
        old->pods = NULL;
    }
    samples_done(s);
    *s = next;
    *node_take = (struct telemetry_node){0};
}

/* --- A reading --- */

static bool is_shared(const struct telemetry_node_card *c)
{
    for (size_t i = 0; i < c->n_places; i++)
        if (c->places[i].is_shared)
            return true;
    return false;
}

/* Finds the pod of each process. A process that ended meanwhile, or is in no pod, has no uid. */
static void find_pods(const struct telemetry_node_card *c, const char *proc_root, struct sample *to)
{
    free(to->pods);
    to->pods = xcalloc((size_t)to->card.n_processes + 1, sizeof(*to->pods));
    for (unsigned i = 0; is_shared(c) && i < to->card.n_processes; i++)
        if (consumer_of_pid(proc_root, to->card.processes[i].pid, &to->pods[i], /* e= */ NULL) < 0)
            to->pods[i] = (struct consumer){0};
}

static void note_result(struct sample *to, const char *uuid, const struct err *e)
{
    if (!e->kind && to->failures >= TOLD_AFTER)
        log_info("Reads the telemetry of a card again", kv("gpu", uuid));
    to->failures = e->kind ? to->failures + 1 : 0;
    if (to->failures == TOLD_AFTER)
        log_warn("Could not read the telemetry of a card", kv("gpu", uuid), kv_err(e));
}

void samples_note(struct samples *s, size_t at, const struct telemetry_card *card,
                  const char *proc_root, const struct err *e)
{
    assert(at < s->node.n);
    struct sample *to = &s->items[at];
    note_result(to, s->node.cards[at].uuid, e);
    if (e->kind)
        return;
    assert(card->n_parts <= TELEMETRY_MAX_PARTS && card->n_processes <= TELEMETRY_MAX_PROCESSES);
    to->card = *card;
    to->is_read = true;
    find_pods(&s->node.cards[at], proc_root, to);
}

/* --- The page --- */

/* Appends how many processes of each card are left out: the page has their use without a pod. */
static void write_left_out(const struct samples *s, struct sb *out)
{
    static const char name[] = "cleave_agent_telemetry_processes_left_out";
    bool is_headed = false;
    for (size_t i = 0; i < s->node.n; i++) {
        if (!s->items[i].is_read)
            continue;
        if (!is_headed)
            page_text_head(
                out, name,
                "Processes of this card that the page does not tell apart, as they are too many.",
                /* is_counter= */ false);
        is_headed = true;
        page_text_card(out, name, s->node.cards[i].index, s->node.cards[i].uuid);
        page_text_value(out, s->items[i].card.n_left_out);
    }
}

void samples_write(struct samples *s, struct dcgm_page how, struct sb *out)
{
    auto_free struct attribution_reading *readings = xcalloc(s->node.n + 1, sizeof(*readings));
    for (size_t i = 0; i < s->node.n; i++) {
        s->items[i].card.values.of[TELEMETRY_LAST_XID] = s->node.cards[i].last_xid;
        if (s->items[i].is_read)
            readings[i] = (struct attribution_reading){&s->items[i].card, s->items[i].pods};
    }
    how.node = &s->node;
    how.readings = readings;
    dcgm_page_write(&how, out);
    hami_page_write(&how, out);
    write_left_out(s, out);
}

struct freshness *samples_freshness(const struct samples *s)
{
    struct freshness *all = xcalloc(s->node.n + 1, sizeof(*all));
    for (size_t i = 0; i < s->node.n; i++) {
        const struct sample *from = &s->items[i];
        all[i] = (struct freshness){.index = s->node.cards[i].index,
                                    .is_read = from->is_read,
                                    .failed = from->failures > 0,
                                    .read_mono_ms = from->card.read_mono_ms};
        memcpy(all[i].uuid, s->node.cards[i].uuid, sizeof(all[i].uuid));
    }
    return all;
}
