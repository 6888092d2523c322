/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/telemetry/hami_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/telemetry/page_text.h"

#define N HAMI_GENERATIONS

/* A page under one generation of names. */
struct hami_writer {
    const struct dcgm_page *page;
    enum hami_generation names;
    struct attributed *parts; /* room for those of any card; owned */
    struct sb *out;
};

static void begin(const struct hami_writer *w, const char *name)
{
    sb_addf(w->out, "%s{" HAMI_ZONE, name);
}

static void end(const struct hami_writer *w, double value)
{
    sb_add_char(w->out, '}');
    page_text_value(w->out, value);
}

static void add_label(const struct hami_writer *w, const char *const names[N], const char *value)
{
    page_text_label(w->out, names[w->names], value);
}

static void add_number(const struct hami_writer *w, const char *const names[N], size_t value)
{
    auto_free char *text = xasprintf("%zu", value);
    add_label(w, names, text);
}

static const char *const of_node[N] = {"node", "nodeid"};
static const char *const of_index[N] = {"device_index", "deviceidx"};
static const char *const of_uuid[N] = {"device_uuid", "deviceuuid"};
static const char *const of_type[N] = {"device_type", "devicetype"};
static const char *const of_ns[N] = {"namespace", "podnamespace"};
static const char *const of_pod[N] = {"pod", "podname"};
static const char *const of_container[N] = {"container", "ctrname"};
static const char *const of_number[N] = {"vdevice_index", "vdeviceid"};

/* --- Cards --- */

static double used(const struct telemetry_values *v)
{
    double reserved = v->of[TELEMETRY_MEMORY_RESERVED];
    return v->of[TELEMETRY_MEMORY_USED] + (isnan(reserved) ? 0 : reserved);
}

static double utilization(const struct telemetry_values *v)
{
    return v->of[TELEMETRY_UTILIZATION];
}

static double copy_utilization(const struct telemetry_values *v)
{
    return v->of[TELEMETRY_COPY_UTILIZATION];
}

static const struct card_family {
    const char *names[N], *help; /* NULL: there is none of this generation */
    double (*value)(const struct telemetry_values *v);
    bool is_of_node; /* it has the node as a label */
} card_families[] = {
    {{"hami_host_gpu_memory_used_bytes", "HostGPUMemoryUsage"},
     "Memory of a card that is used, or reserved by the driver, in bytes.",
     used,
     true},
    {{"hami_host_gpu_utilization_ratio", "HostCoreUtilization"},
     "Time in which a kernel ran on a card, in percent.",
     utilization,
     true},
    {{"hami_host_gpu_memory_controller_utilization_ratio", NULL},
     "Time in which a card's memory was read or written, in percent.",
     copy_utilization,
     false},
};

static bool shows(const struct dcgm_page *p, size_t i)
{
    return telemetry_node_card_is_nvidia(&p->node->cards[i]) && p->readings[i].card;
}

static void write_card(const struct hami_writer *w, const struct card_family *f, size_t i)
{
    const struct telemetry_node_card *c = &w->page->node->cards[i];
    double value = f->value(&w->page->readings[i].card->values);
    if (!isfinite(value) || value < 0)
        return;
    auto_free char *type = xasprintf("NVIDIA-%s", c->model);
    begin(w, f->names[w->names]);
    if (f->is_of_node)
        add_label(w, of_node, w->page->host);
    add_number(w, of_index, c->index);
    add_label(w, of_uuid, c->uuid);
    add_label(w, of_type, type);
    end(w, value);
}

static void write_cards(const struct hami_writer *w, const struct card_family *f)
{
    if (!f->names[w->names])
        return;
    page_text_head(w->out, f->names[w->names], f->help, /* is_counter= */ false);
    for (size_t i = 0; i < w->page->node->n && !w->out->overflow; i++)
        if (shows(w->page, i))
            write_card(w, f, i);
}

/* --- Shares --- */

static const struct share_family {
    const char *names[N], *help; /* NULL: there is none of this generation */
    int value;                   /* enum telemetry_value that is split; -1: the limit */
} share_families[] = {
    {{"hami_vgpu_memory_used_bytes", "vGPU_device_memory_usage_in_bytes"},
     "Memory of a card that a container uses, in bytes.",
     TELEMETRY_MEMORY_USED},
    {{"hami_vgpu_memory_limit_bytes", "vGPU_device_memory_limit_in_bytes"},
     "Memory of a card that a container was given, in bytes.",
     -1},
    {{"hami_container_device_memory_bytes", NULL},
     "Memory of a card that a container uses, in bytes.",
     TELEMETRY_MEMORY_USED},
    {{"hami_container_device_utilization_ratio", "Device_utilization_desc_of_container"},
     "Use of a card's processors by a container, in percent.",
     TELEMETRY_UTILIZATION},
};

static int by_pod(const void *a, const void *b)
{
    const struct telemetry_holder *x = a;
    const struct telemetry_holder *y = b;
    int order = strcmp(x->ns, y->ns);
    return order ? order : strcmp(x->pod, y->pod);
}

static bool has_share(const struct telemetry_node_card *c, const struct telemetry_holder *h)
{
    const struct telemetry_place *p = &c->places[0];
    const struct telemetry_holder *found =
        p->n_holders ? bsearch(h, p->holders, p->n_holders, sizeof(*h), by_pod) : NULL;
    return p->is_shared && found && found->share_bytes;
}

/* The number of this share among the pod's, by the order of the cards. */
static size_t number_of(const struct dcgm_page *p, size_t card, const struct telemetry_holder *h)
{
    size_t n = 0;
    for (size_t i = 0; i < card; i++)
        n += has_share(&p->node->cards[i], h);
    return n;
}

static void write_share(const struct hami_writer *w, const struct share_family *f, size_t card,
                        const struct telemetry_holder *h, double value)
{
    if (!h->share_bytes)
        return;
    begin(w, f->names[w->names]);
    add_label(w, of_ns, h->ns);
    add_label(w, of_pod, h->pod);
    add_label(w, of_container, h->container);
    add_number(w, of_number, number_of(w->page, card, h));
    add_label(w, of_uuid, w->page->node->cards[card].uuid);
    end(w, value);
}

static void write_limits(const struct hami_writer *w, const struct share_family *f, size_t card)
{
    const struct telemetry_place *p = &w->page->node->cards[card].places[0];
    for (size_t i = 0; i < p->n_holders; i++)
        write_share(w, f, card, &p->holders[i], (double)p->holders[i].share_bytes);
}

/* The last part is nobody's. */
static void write_parts(const struct hami_writer *w, const struct share_family *f, size_t card)
{
    const struct attribution_reading *r = &w->page->readings[card];
    const struct telemetry_place *p = &w->page->node->cards[card].places[0];
    const enum telemetry_value value = (enum telemetry_value)f->value;
    size_t n = attribution_of(p, value, r->card->values.of[value], /* factor= */ 1, r, w->parts);
    for (size_t i = 0; i + 1 < n; i++)
        write_share(w, f, card, w->parts[i].holder, w->parts[i].value);
}

static void write_shares(const struct hami_writer *w, const struct share_family *f)
{
    if (!f->names[w->names] || w->page->without_pods)
        return;
    page_text_head(w->out, f->names[w->names], f->help, /* is_counter= */ false);
    for (size_t i = 0; i < w->page->node->n && !w->out->overflow; i++) {
        if (!shows(w->page, i) || !w->page->node->cards[i].places[0].is_shared)
            continue;
        if (f->value < 0)
            write_limits(w, f, i);
        else
            write_parts(w, f, i);
    }
}

static size_t most_holders(const struct telemetry_node *n)
{
    size_t most = 0;
    for (size_t i = 0; i < n->n; i++)
        if (n->cards[i].places[0].n_holders > most)
            most = n->cards[i].places[0].n_holders;
    return most;
}

void hami_page_write(const struct dcgm_page *p, struct sb *out)
{
    struct hami_writer w = {.page = p, .out = out};
    if (p->hami == HAMI_NONE)
        return;
    w.parts = xcalloc(most_holders(p->node) + 1, sizeof(*w.parts));
    for (w.names = HAMI_NAMES_CURRENT; w.names < N; w.names++) {
        if (!hami_names_have(p->hami, w.names))
            continue;
        for (size_t i = 0; i < ARRAY_LEN(card_families); i++)
            write_cards(&w, &card_families[i]);
        for (size_t i = 0; i < ARRAY_LEN(share_families); i++)
            write_shares(&w, &share_families[i]);
    }
    free(w.parts);
}
