/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/strmap.h"
#include "base/xalloc.h"

#include "nodeagent/telemetry/dcgm_page.h"
#include "nodeagent/telemetry/hami_page.h"
#include "nodeagent/telemetry/neutral_fields.h"
#include "test/fuzz/bytes.h"

/*
 * Input: what cards measured, by any library, and who has them, by any names. Prometheus can read
 * each line of the page, no series is there twice, and each value is a number that is not negative.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { MAX_CARDS = 3, MAX_HOLDERS = 4, MAX_PARTS = 3, MAX_PROCESSES = 6, PAGE_BYTES = 1 << 22 };

/* Any bytes but NUL, as many as fit. */
static void take_text(struct bytes *b, char *to, size_t room)
{
    size_t n = take(b) % room;
    for (size_t i = 0; i < n; i++) {
        to[i] = (char)(b->left ? take(b) : 'a');
        if (!to[i])
            to[i] = '"';
    }
    to[n] = '\0';
}

static double take_value(struct bytes *b)
{
    static const double odd[] = {-1, -1e300, 1e300, 1e18, 0.3, 9e15, 100.5};
    unsigned how = take(b);
    if (how < 128)
        return how;
    if (how < 150)
        return how & 1 ? (double)NAN : (double)INFINITY;
    return how < 200 ? odd[how % 7] : how * 1e7;
}

/* --- What there is --- */

struct world {
    struct telemetry_node node;
    struct telemetry_card *cards;
    struct attribution_reading readings[MAX_CARDS];
    struct consumer pods[MAX_CARDS][MAX_PROCESSES];
};

static void take_values(struct bytes *b, struct telemetry_values *v)
{
    for (unsigned i = 0; i < TELEMETRY_VALUES; i++)
        v->of[i] = take_value(b);
}

/* Holders of a place differ in their names, since telemetry_node_build joins those that do not: here
 * the number makes the difference. */
static void take_holders(struct bytes *b, struct telemetry_place *p)
{
    char name[40];
    unsigned n = take(b) % (MAX_HOLDERS + 1);
    p->is_shared = take(b) & 1;
    for (unsigned i = 0; i < n; i++) {
        take_text(b, name, sizeof(name));
        bool known = take(b) % 4;
        *XPUSH(p->holders, p->n_holders) =
            (struct telemetry_holder){.ns = xstrdup(name),
                                      .pod = xasprintf("%u%s", i, name),
                                      .container = xstrdup(p->is_shared ? "" : name),
                                      .uid = known ? xasprintf("uid%u", i) : NULL,
                                      .share_bytes = take(b)};
    }
}

static void take_reading(struct bytes *b, struct telemetry_card *card, struct consumer *pods)
{
    take_values(b, &card->values);
    card->n_parts = take(b) % (MAX_PARTS + 1);
    for (unsigned i = 0; i < card->n_parts; i++) {
        card->parts[i].gi_id = take(b) % 4;
        take_values(b, &card->parts[i].values);
    }
    card->n_processes = take(b) % (MAX_PROCESSES + 1);
    for (unsigned i = 0; i < card->n_processes; i++) {
        struct telemetry_process *p = &card->processes[i];
        *p = (struct telemetry_process){.pid = i + 1, .gi_id = (int)(take(b) % 4) - 1};
        p->memory_bytes = take_value(b);
        p->utilization = take_value(b);
        (void)snprintf(pods[i].pod_uid, sizeof(pods[i].pod_uid), "uid%u", take(b) % MAX_HOLDERS);
    }
}

static void take_card(struct bytes *b, struct world *w, unsigned i)
{
    struct telemetry_node_card *c = XPUSH(w->node.cards, w->node.n);
    c->vendor = take(b) % 4 ? "nvidia" : "metax";
    c->index = i;
    c->minor = take(b) % 2 ? i : UINT32_MAX;
    take_text(b, c->uuid, sizeof(c->uuid));
    take_text(b, c->model, sizeof(c->model));
    take_text(b, c->pci_bus_id, sizeof(c->pci_bus_id));
    take_text(b, c->driver, sizeof(c->driver));
    c->last_xid = take(b) % 200;
    unsigned places = 1 + take(b) % 3;
    for (unsigned k = 0; k < places; k++) {
        struct telemetry_place *p = XPUSH(c->places, c->n_places);
        p->gi_id = (int)k - 1;
        take_text(b, p->profile, sizeof(p->profile));
        take_holders(b, p);
    }
    take_reading(b, &w->cards[i], w->pods[i]);
    if (take(b) % 8)
        w->readings[i] = (struct attribution_reading){&w->cards[i], w->pods[i]};
}

/* --- What Prometheus reads --- */

static const char *skip_name(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:");
    assert(n > 0);
    return s + n;
}

static const char *skip_label(const char *s)
{
    s = skip_name(s);
    assert(s[0] == '=' && s[1] == '"');
    for (s += 2; *s != '"'; s++) {
        assert(*s && *s != '\n');
        if (*s == '\\') {
            s++;
            assert(*s == '\\' || *s == '"' || *s == 'n');
        }
    }
    return s + 1;
}

static void check_series(const char *line, struct strmap *seen)
{
    char *end;
    const char *s = skip_name(line);
    for (bool more = *s == '{'; more; more = *s == ',')
        s = skip_label(s + 1);
    assert(*s++ == '}' && *s == ' ');
    auto_free char *series = xstrndup(line, (size_t)(s - line));
    assert(!strmap_put(seen, series, series));
    double value = strtod(s + 1, &end);
    assert(*end == '\0' && isfinite(value) && value >= 0);
}

static void check_page(const char *text)
{
    struct strmap *seen = strmap_new();
    while (*text) {
        size_t n = strcspn(text, "\n");
        assert(text[n] == '\n');
        auto_free char *line = xstrndup(text, n);
        if (strncmp(line, "# HELP ", 7) != 0 && strncmp(line, "# TYPE ", 7) != 0)
            check_series(line, seen);
        text += n + 1;
    }
    (void)strmap_free(seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes b = {data, len};
    struct world w = {.cards = xcalloc(MAX_CARDS, sizeof(*w.cards))};
    auto_counter_list struct counter_list counters = {0};
    auto_counter_list struct counter_list neutral = {0};
    auto_sb struct sb page = SB_INIT(PAGE_BYTES);
    char host[64];
    counter_list_default(&counters);
    neutral_fields_list(&neutral);
    struct dcgm_page how = {.node = &w.node, .readings = w.readings, .counters = &counters};
    how.neutral = &neutral;
    how.labels = (enum dcgm_labels)(take(&b) % 3);
    how.hami = (enum hami_names)(take(&b) % 4);
    how.without_pods = take(&b) % 8 == 7;
    take_text(&b, host, sizeof(host));
    how.host = host;
    unsigned n = take(&b) % (MAX_CARDS + 1);
    for (unsigned i = 0; i < n; i++)
        take_card(&b, &w, i);
    dcgm_page_write(&how, &page);
    hami_page_write(&how, &page);
    assert(!page.overflow);
    check_page(sb_str(&page));
    telemetry_node_done(&w.node);
    free(w.cards);
    return 0;
}
