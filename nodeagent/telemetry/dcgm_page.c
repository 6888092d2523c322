/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/telemetry/dcgm_page.h"

#include <math.h>
#include <stdlib.h>

#include "base/xalloc.h"

#include "nodeagent/health/health.h"
#include "nodeagent/telemetry/page_text.h"

enum { MAX_LABELS_BYTES = 8192 };

struct spelling {
    const char *uuid, *host, *container, *ns, *pod;
};

static const struct spelling spellings[] = {
    [DCGM_LABELS_NEW] = {"UUID", "hostname", "container", "namespace", "pod"},
    [DCGM_LABELS_OLD] = {"UUID", "Hostname", "container", "namespace", "pod"},
    [DCGM_LABELS_OLDEST] = {"uuid", "Hostname", "container_name", "pod_namespace", "pod_name"},
};

/* --- Labels --- */

static void add_number(struct sb *out, const char *name, const char *before, unsigned n)
{
    sb_addf(out, ",%s=\"%s%u\"", name, before, n);
}

/* The labels of a place, those of a pod apart. Caller frees. */
static char *place_labels(const struct dcgm_page *p, const struct telemetry_node_card *c,
                          const struct telemetry_place *place)
{
    const struct spelling *s = &spellings[p->labels];
    auto_sb struct sb b = SB_INIT(MAX_LABELS_BYTES);
    sb_addf(&b, "gpu=\"%u\"", c->index);
    page_text_label(&b, s->uuid, c->uuid);
    page_text_label(&b, "pci_bus_id", c->pci_bus_id);
    if (telemetry_node_card_is_nvidia(c) && c->minor != UINT32_MAX)
        add_number(&b, "device", "nvidia", c->minor);
    page_text_label(&b, "modelName", c->model);
    if (!telemetry_node_card_is_nvidia(c))
        page_text_label(&b, "vendor", c->vendor);
    if (place->gi_id >= 0) {
        page_text_label(&b, "GPU_I_PROFILE", place->profile);
        add_number(&b, "GPU_I_ID", "", (unsigned)place->gi_id);
    }
    page_text_label(&b, s->host, p->host);
    if (telemetry_node_card_is_nvidia(c) && p->counters->has_driver_version)
        page_text_label(&b, DCGM_DRIVER_VERSION, c->driver);
    return sb_take(&b);
}

static void add_holder(const struct spelling *s, const struct telemetry_holder *h, struct sb *out)
{
    page_text_label(out, s->container, h->container);
    page_text_label(out, s->ns, h->ns);
    page_text_label(out, s->pod, h->pod);
}

/* --- Lines --- */

/* A page that is being written. */
struct writer {
    const struct dcgm_page *page;
    char **labels; /* of each place of each card; owned */
    size_t n_labels;
    struct attributed *parts; /* room for those of any place; owned */
    bool is_headed;           /* the counter that is being written has its HELP and TYPE */
    struct sb *out;
};

/* The labels that say what an Xid means: dcgm-exporter has them since 3.3.6-3.4.2. */
static void add_xid(double xid, struct sb *out)
{
    auto_free char *code = xasprintf("%.0f", xid);
    uint64_t number = xid < UINT32_MAX ? (uint64_t)xid : UINT32_MAX; /* a driver may say any */
    const char *words = number ? xid_words(number) : "No Error";
    page_text_label(out, "err_code", code);
    page_text_label(out, "err_msg", *words ? words : "Unknown Error");
}

static void add_line(struct writer *w, const struct counter *c, const char *labels,
                     const struct attributed *a)
{
    if (!w->is_headed)
        page_text_head(w->out, c->field->name, c->help, c->is_counter);
    w->is_headed = true;
    sb_add(w->out, c->field->name);
    sb_add_char(w->out, '{');
    sb_add(w->out, labels);
    if (c->field->value == TELEMETRY_LAST_XID)
        add_xid(a->value, w->out);
    if (a->holder)
        add_holder(&spellings[w->page->labels], a->holder, w->out);
    sb_add_char(w->out, '}');
    page_text_value(w->out, a->value);
}

static const struct telemetry_values *values_of(const struct telemetry_card *c, int gi_id)
{
    if (gi_id < 0)
        return &c->values;
    for (unsigned i = 0; i < c->n_parts; i++)
        if ((int)c->parts[i].gi_id == gi_id)
            return &c->parts[i].values;
    return NULL;
}

/* NAN: the place does not have the value. */
static double value_at(const struct dcgm_field *f, const struct telemetry_card *c,
                       const struct telemetry_place *p)
{
    const struct telemetry_values *v = values_of(c, p->gi_id);
    bool has = v && (p->gi_id < 0 || f->is_of_parts);
    return has ? dcgm_field_value(f, v) : (double)NAN;
}

/* True when a GPU instance has the value: then the card's own would be counted twice. */
static bool is_of_instances(const struct dcgm_field *f, const struct telemetry_card *c,
                            const struct telemetry_node_card *card)
{
    for (size_t i = 1; i < card->n_places; i++)
        if (!isnan(value_at(f, c, &card->places[i])))
            return true;
    return false;
}

static void add_place(struct writer *w, const struct counter *c, const char *labels,
                      const struct telemetry_place *place, const struct attribution_reading *r)
{
    double whole = value_at(c->field, r->card, place);
    if (isnan(whole))
        return;
    if (w->page->without_pods && place->is_shared) {
        add_line(w, c, labels, &(const struct attributed){.value = whole});
        return;
    }
    size_t n = attribution_of(place, c->field->value, whole, c->field->factor, r, w->parts);
    for (size_t i = 0; i < n; i++)
        add_line(w, c, labels, &w->parts[i]);
}

static void add_counter(struct writer *w, const struct counter *c, bool of_nvidia)
{
    size_t label = 0;
    w->is_headed = false;
    for (size_t i = 0; i < w->page->node->n; i++) {
        const struct telemetry_node_card *card = &w->page->node->cards[i];
        const struct attribution_reading *r = &w->page->readings[i];
        bool shows = r->card && telemetry_node_card_is_nvidia(card) == of_nvidia;
        bool split = shows && is_of_instances(c->field, r->card, card);
        for (size_t k = 0; k < card->n_places; k++, label++)
            if (shows && !(split && k == 0))
                add_place(w, c, w->labels[label], &card->places[k], r);
    }
}

static void prepare(struct writer *w)
{
    size_t most = 0;
    for (size_t i = 0; i < w->page->node->n; i++) {
        const struct telemetry_node_card *card = &w->page->node->cards[i];
        for (size_t k = 0; k < card->n_places; k++) {
            *XPUSH(w->labels, w->n_labels) = place_labels(w->page, card, &card->places[k]);
            most = card->places[k].n_holders > most ? card->places[k].n_holders : most;
        }
    }
    w->parts = xcalloc(most + 1, sizeof(*w->parts));
}

void dcgm_page_write(const struct dcgm_page *p, struct sb *out)
{
    struct writer w = {.page = p, .out = out};
    prepare(&w);
    for (size_t i = 0; i < p->counters->n; i++)
        add_counter(&w, &p->counters->items[i], /* of_nvidia= */ true);
    for (size_t i = 0; p->neutral && i < p->neutral->n; i++)
        add_counter(&w, &p->neutral->items[i], /* of_nvidia= */ false);
    for (size_t i = 0; i < w.n_labels; i++)
        free(w.labels[i]);
    free(w.labels);
    free(w.parts);
}
