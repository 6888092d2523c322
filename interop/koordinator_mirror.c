/* SPDX-License-Identifier: Apache-2.0 */
#include "interop/koordinator_mirror.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"
#include "base/xalloc.h"

#include "api/label_value.h"
#include "partition/vendor.h"

enum { MINORS = KOORDINATOR_MAX_CARDS, MIB = 1 << 20, WHOLE = 100, BUS_ID_BYTES = 32 };

/* How Koordinator's own writers describe a vendor's cards; each does it differently. */
static const struct vendor_koordinator *dialect_of(const char *vendor)
{
    static const struct vendor_koordinator none = {0};
    const struct vendor *v = vendor_find(vendor);
    return v ? &v->koordinator : &none;
}

static const char *link_of(const struct vendor_koordinator *d)
{
    return d->link ? d->link : "Link";
}

const char *koordinator_mirror_model(const char *vendor, const char *model)
{
    const char *prefix = dialect_of(vendor)->model_prefix;
    size_t n = prefix ? strlen(prefix) : 0;
    return n && strncmp(model, prefix, n) == 0 ? model + n : model;
}

/* --- Which cards --- */

static bool is_offered(const struct koordinator_card *c)
{
    const struct vendor *v = vendor_find(c->vendor);
    int mode = v && v->slice ? API_MODE_SGPU : API_MODE_NATIVE;
    return c->uuid && *c->uuid && v && c->mode == mode && !c->cut;
}

static size_t count_cards(const struct koordinator_node *node, const char *vendor)
{
    size_t n = 0;
    for (size_t i = 0; i < node->n_cards; i++)
        n += is_offered(&node->cards[i]) && strcmp(node->cards[i].vendor, vendor) == 0;
    return n;
}

/* NULL: the node has no cards. */
static const char *vendor_of(const struct koordinator_node *node)
{
    const char *best = NULL;
    size_t most = 0;
    if (node->preferred_vendor && count_cards(node, node->preferred_vendor))
        return node->preferred_vendor;
    for (const struct vendor *v = vendors; v->name; v++) {
        size_t n = count_cards(node, v->name);
        if (n > most) {
            best = v->name;
            most = n;
        }
    }
    return best;
}

/* The cards that Koordinator is shown, and their numbers there. */
struct seen {
    const char *vendor; /* NULL: none is shown */
    const struct vendor_koordinator *dialect;
    const struct koordinator_card *cards[MINORS]; /* by minor */
    size_t n;
    bool by_minor; /* else by index: the driver reports no minors */
};

static int64_t minor_of(const struct seen *s, const struct koordinator_card *c)
{
    return s->by_minor ? c->minor : c->index;
}

static void insert(struct seen *s, const struct koordinator_card *c)
{
    size_t at = s->n++;
    for (; at > 0 && minor_of(s, s->cards[at - 1]) > minor_of(s, c); at--)
        s->cards[at] = s->cards[at - 1];
    s->cards[at] = c;
}

static struct seen look(const struct koordinator_node *node)
{
    struct seen s = {.vendor = vendor_of(node)};
    const struct koordinator_card *all = node->cards;
    if (!s.vendor)
        return s;
    s.dialect = dialect_of(s.vendor);
    for (size_t i = 0; i < node->n_cards; i++)
        s.by_minor |= strcmp(all[i].vendor, s.vendor) == 0 && all[i].minor >= 0;
    for (size_t i = 0; i < node->n_cards && s.n < MINORS; i++) {
        int64_t minor = minor_of(&s, &all[i]);
        if (strcmp(all[i].vendor, s.vendor) == 0 && is_offered(&all[i]) && minor >= 0 &&
            minor < MINORS)
            insert(&s, &all[i]);
    }
    return s;
}

static bool is_well(const struct koordinator_card *c)
{
    return c->healthy && !c->withdrawn;
}

bool koordinator_mirror_has_cards(const struct koordinator_node *node)
{
    return look(node).n > 0;
}

/* --- Parts of one device --- */

static char *memory_text(const struct koordinator_card *c)
{
    return quantity_format_binary(c->memory_mib * MIB);
}

/* The kernel's spelling: 00000000:38:00.0 is 0000:38:00.0. */
static void bus_id_of(const struct koordinator_card *c, char ret[BUS_ID_BYTES])
{
    const char *id = c->pci_bus_id ? c->pci_bus_id : "";
    while (*id == '0' && strlen(id) > strlen("0000:00:00.0"))
        id++;
    (void)snprintf(ret, BUS_ID_BYTES, "%s", id);
    for (char *p = ret; *p; p++)
        *p = (char)tolower((unsigned char)*p);
}

/* The device owns the text. NOLINTNEXTLINE(readability-non-const-parameter) */
static void add_resource(struct koordinator_device *d, const char *name, char *text_take)
{
    *XPUSH(d->resources, d->n_resources) = (struct jx_pair){.key = xstrdup(name), .str = text_take};
}

static void add_topology(const struct koordinator_card *c, struct koordinator_device *d)
{
    char bus_id[BUS_ID_BYTES];
    bus_id_of(c, bus_id);
    if (!c->pcie_root || !*c->pcie_root || !*bus_id)
        return;
    d->has_topology = true;
    d->topology = (struct koordinator_topology){.socket_id = -1,
                                                .node_id = c->numa_node,
                                                .pcie_id = xstrdup(c->pcie_root),
                                                .bus_id = xstrdup(bus_id)};
}

static const struct condition *condition_before(const struct koordinator_spec *before,
                                                const char *uuid)
{
    for (size_t i = 0; before && i < before->n_devices; i++) {
        const struct koordinator_device *d = &before->devices[i];
        for (size_t k = 0; d->id && strcmp(d->id, uuid) == 0 && k < d->conditions.count; k++)
            if (strcmp(d->conditions.items[k].type, "Healthy") == 0)
                return &d->conditions.items[k];
    }
    return NULL;
}

static int64_t transition_of(const struct koordinator_card *c, const struct condition *before,
                             int64_t now_ms)
{
    int status = is_well(c) ? CONDITION_TRUE : CONDITION_FALSE;
    if (before && before->status == status)
        return before->last_transition_ms;
    int64_t at = c->healthy || !c->since_ms ? now_ms : c->since_ms;
    return at - at % 1000;
}

static void add_condition(const struct koordinator_card *c, const struct condition *before,
                          int64_t now_ms, struct koordinator_device *d)
{
    struct condition *cond = XPUSH(d->conditions.items, d->conditions.count);
    *cond = (struct condition){.type = xstrdup("Healthy"),
                               .status = is_well(c) ? CONDITION_TRUE : CONDITION_FALSE,
                               .last_transition_ms = transition_of(c, before, now_ms)};
    if (!c->healthy) {
        cond->reason = koordinator_reason(c->reason);
        cond->message = xstrdup(c->message && *c->message ? c->message : "device is unhealthy");
    } else {
        cond->reason = xstrdup(c->withdrawn ? "Withdrawn" : "DeviceHealthy");
        cond->message =
            xstrdup(c->withdrawn ? "device is about to be changed" : "device is healthy");
    }
}

static void add_device(const struct seen *s, const struct koordinator_card *c,
                       const struct koordinator_spec *before, int64_t now_ms,
                       struct koordinator_spec *spec)
{
    struct koordinator_device *d = XPUSH(spec->devices, spec->n_devices);
    *d = (struct koordinator_device){.type = xstrdup("gpu"),
                                     .id = xstrdup(c->uuid),
                                     .has_minor = true,
                                     .minor = minor_of(s, c),
                                     .health = is_well(c)};
    add_resource(d, KOORDINATOR_CORE, quantity_format(WHOLE));
    add_resource(d, KOORDINATOR_MEMORY, memory_text(c));
    add_resource(d, KOORDINATOR_RATIO, quantity_format(WHOLE));
    add_topology(c, d);
    add_condition(c, condition_before(before, c->uuid), now_ms, d);
}

/* --- Labels --- */

static void add_text(json_t *map, const char *key, const char *value)
{
    if (value && *value)
        (void)json_object_set_new(map, key, json_string(value));
}

/* "NVIDIA H100 80GB HBM3" → "H100-80GB-HBM3", "MXC500" → "C500"; NULL when the models differ. */
static char *model_label(const struct seen *s)
{
    const char *model = s->cards[0]->model ? s->cards[0]->model : "";
    for (size_t i = 1; i < s->n; i++)
        if (!s->cards[i]->model || strcmp(s->cards[i]->model, model) != 0)
            return NULL;
    return label_value_from(koordinator_mirror_model(s->vendor, model));
}

static const char *driver_of(const struct koordinator_node *node, const struct seen *s)
{
    for (size_t i = 0; s->dialect->tells_driver && i < node->n_drivers; i++)
        if (strcmp(node->drivers[i].key, s->vendor) == 0 && label_value_legal(node->drivers[i].str))
            return node->drivers[i].str;
    return NULL;
}

/* --- Which cards form a good group --- */

/* The card itself and the shown cards that it is linked to, as bits of positions in s->cards. */
static uint64_t neighbours(const struct seen *s, size_t at)
{
    uint64_t bits = UINT64_C(1) << at;
    for (size_t i = 0; i < s->n; i++)
        if (s->cards[i]->index < MINORS && (s->cards[at]->linked >> s->cards[i]->index & 1))
            bits |= UINT64_C(1) << i;
    return bits;
}

/* True when all of these are linked to each other, and to no others. */
static bool is_group(const struct seen *s, uint64_t bits)
{
    for (size_t i = 0; i < s->n; i++)
        if ((bits >> i & 1) && neighbours(s, i) != bits)
            return false;
    return true;
}

static void add_partition(json_t *table, const struct seen *s, const size_t *places, size_t n)
{
    auto_free char *size = xasprintf("%zu", n);
    json_t *list = json_object_get(table, size);
    json_t *minors = json_array();
    if (!list) {
        list = json_array();
        (void)json_object_set_new(table, size, list);
    }
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(minors, json_integer(minor_of(s, s->cards[places[i]])));
    json_t *partition = json_pack("{s:o, s:i}", "minors", minors, "allocationScore", 1);
    if (n > 1)
        (void)json_object_set_new(partition, "gpuLinkType", json_string(link_of(s->dialect)));
    (void)json_array_append_new(list, partition);
}

/* Splits a group into halves, quarters, …: within it all cards are equally good together, and
 * taking neighbours leaves the rest whole. */
static void add_group(json_t *table, const struct seen *s, uint64_t bits)
{
    size_t places[MINORS];
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (bits >> i & 1)
            places[n++] = i;
    size_t size = 1;
    for (; size < n; size *= 2)
        for (size_t i = 0; i + size <= n; i += size)
            add_partition(table, s, &places[i], size);
    add_partition(table, s, places, n);
}

/* NULL: no card is linked to another. */
static json_t *partitions_of(const struct seen *s)
{
    json_t *table = json_object();
    bool linked = false;
    for (size_t i = 0; i < s->n; i++) {
        uint64_t bits = neighbours(s, i);
        uint64_t alone = UINT64_C(1) << i;
        bool first = (bits & (alone - 1)) == 0;
        if (!is_group(s, bits))
            bits = alone;
        else if (!first)
            continue;
        linked |= bits != alone;
        add_group(table, s, bits);
    }
    if (linked)
        return table;
    json_decref(table);
    return NULL;
}

static void add_partitions(const struct seen *s, struct koordinator_mirror *m)
{
    auto_json json_t *table = partitions_of(s);
    if (!table)
        return;
    auto_free char *text = jx_dump(table);
    add_text(m->annotations, KOORDINATOR_PARTITIONS, text);
    add_text(m->labels, KOORDINATOR_LABEL_POLICY, "Prefer");
}

/* --- The Device --- */

void koordinator_mirror_build(const struct koordinator_node *node,
                              const struct koordinator_spec *before, int64_t now_ms,
                              struct koordinator_mirror *ret)
{
    *ret = (struct koordinator_mirror){.labels = json_object(), .annotations = json_object()};
    struct seen s = look(node);
    if (!s.n)
        return;
    auto_free char *model = model_label(&s);
    add_text(ret->labels, KOORDINATOR_LABEL_VENDOR, s.vendor);
    add_text(ret->labels, KOORDINATOR_LABEL_MODEL, model);
    add_text(ret->labels, KOORDINATOR_LABEL_DRIVER, driver_of(node, &s));
    add_partitions(&s, ret);
    ret->link = link_of(s.dialect);
    for (size_t i = 0; i < s.n; i++) {
        ret->linked[i] = neighbours(&s, i) & ~(UINT64_C(1) << i);
        add_device(&s, s.cards[i], before, now_ms, &ret->spec);
    }
}

void koordinator_mirror_done(struct koordinator_mirror *m)
{
    json_decref(m->labels);
    json_decref(m->annotations);
    koordinator_spec_done(&m->spec);
    *m = (struct koordinator_mirror){0};
}

/* --- The Node --- */

/* XPUSH writes the count. NOLINTNEXTLINE(readability-non-const-parameter) */
static void add_count(struct device_resource **list, size_t *n, const char *name, int64_t count)
{
    *XPUSH(*list, *n) = (struct device_resource){.name = xstrdup(name),
                                                 .count = count,
                                                 .publisher = API_PUBLISHER_CONTROLLER};
}

/* Over all healthy cards. */
struct sums {
    int64_t cards, core, memory, ratio;
};

/* Another writer's Device may have negative amounts. The API server takes no status with less than
 * nothing of a resource, and would refuse the Node's others with it. */
static int64_t not_less_than_none(int64_t sum)
{
    return sum < 0 ? 0 : sum;
}

static void add_sums(const struct sums *s, bool has_gpu, struct device_resource **list, size_t *n)
{
    if (!s->cards)
        return;
    if (has_gpu)
        add_count(list, n, KOORDINATOR_GPU, not_less_than_none(s->core));
    add_count(list, n, KOORDINATOR_CORE, not_less_than_none(s->core));
    add_count(list, n, KOORDINATOR_MEMORY, not_less_than_none(s->memory));
    add_count(list, n, KOORDINATOR_RATIO, not_less_than_none(s->ratio));
    add_count(list, n, KOORDINATOR_SHARED, WHOLE * s->cards);
}

void koordinator_mirror_resources(const struct koordinator_node *node,
                                  struct device_resource **list, size_t *n)
{
    struct seen s = look(node);
    struct sums sums = {0};
    for (size_t i = 0; i < s.n; i++)
        if (is_well(s.cards[i])) {
            sums.cards++;
            sums.core += WHOLE;
            sums.memory += s.cards[i]->memory_mib * MIB;
            sums.ratio += WHOLE;
        }
    add_sums(&sums, s.n && s.dialect->has_gpu, list, n);
}

static void add_amount(const struct koordinator_device *d, const char *name, int64_t *sum)
{
    int64_t amount;
    for (size_t i = 0; i < d->n_resources; i++)
        if (strcmp(d->resources[i].key, name) == 0 &&
            quantity_parse(d->resources[i].str, &amount, NULL) == 0 &&
            __builtin_add_overflow(*sum, amount, sum))
            *sum = INT64_MAX;
}

void koordinator_mirror_resources_of(const struct koordinator_spec *device, const char *vendor,
                                     struct device_resource **list, size_t *n)
{
    struct sums sums = {0};
    for (size_t i = 0; i < device->n_devices; i++) {
        const struct koordinator_device *d = &device->devices[i];
        if (!d->type || strcmp(d->type, "gpu") != 0 || !d->health)
            continue;
        sums.cards++;
        add_amount(d, KOORDINATOR_CORE, &sums.core);
        add_amount(d, KOORDINATOR_MEMORY, &sums.memory);
        add_amount(d, KOORDINATOR_RATIO, &sums.ratio);
    }
    add_sums(&sums, !vendor || !*vendor || dialect_of(vendor)->has_gpu, list, n);
}
