/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/koord_infos.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sb.h"
#include "base/text.h"
#include "base/xalloc.h"

#include "interop/koordinator_mirror.h"
#include "partition/sgpu.h"
#include "service/conditions.h"

/* --- The cards --- */

/* Slices that were made for pods, and shares, belong to no layout. */
static bool is_cut(const struct device_card *c, const struct device_want *want)
{
    if (want && want->sgpu.n_slices)
        return true;
    for (size_t i = 0; i < c->n_partitions; i++)
        if (sgpu_is_declared(c, &c->partitions[i]))
            return true;
    return false;
}

static uint64_t links_of(const struct device_card *c)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < c->n_linked_with; i++)
        if (c->linked_with[i] < KOORDINATOR_MAX_CARDS)
            bits |= UINT64_C(1) << c->linked_with[i];
    return bits;
}

static void see(const struct device_card *c, const struct device_want *want,
                struct koordinator_card *ret)
{
    const struct condition *why = condition_get(&c->conditions, "Healthy");
    *ret = (struct koordinator_card){
        .uuid = c->uuid,
        .vendor = c->vendor,
        .model = c->model,
        .pci_bus_id = c->pci_bus_id,
        .pcie_root = c->pcie_root,
        .index = c->index,
        .minor = c->has_minor ? c->minor : -1,
        .numa_node = c->numa_node,
        .memory_mib = c->memory_mib,
        .mode = c->mode,
        .cut = is_cut(c, want),
        .withdrawn = c->has_drain || c->has_pending_mode || (want && want->mode != c->mode),
        .healthy = c->healthy,
        .reason = why ? why->reason : NULL,
        .message = why ? why->message : NULL,
        .linked = links_of(c),
    };
}

/* --- The text --- */

static json_t *number_text(int64_t n)
{
    return json_sprintf("%" PRId64, n);
}

/* The indices of the devices to which a device is linked, as "1,2,3"; NULL: none. */
static json_t *links_info(const struct koordinator_mirror *m, size_t at)
{
    auto_sb struct sb minors = SB_INIT(KOORDINATOR_MAX_CARDS * sizeof("62,"));
    for (size_t i = 0; i < m->spec.n_devices; i++)
        if (m->linked[at] >> i & 1)
            sb_addf(&minors, "%s%" PRId64, minors.len ? "," : "", m->spec.devices[i].minor);
    if (!minors.len)
        return NULL;
    return json_pack("[{s:s, s:s}]", "peerMinor", sb_str(&minors), "type", m->link);
}

static json_t *topology_info(const struct koordinator_mirror *m, size_t at)
{
    const struct koordinator_device *d = &m->spec.devices[at];
    if (!d->has_topology)
        return NULL;
    return json_pack("{s:o, s:o, s:s, s:s, s:b, s:o*}", "socketID",
                     number_text(d->topology.socket_id), "nodeID", number_text(d->topology.node_id),
                     "pcieID", d->topology.pcie_id, "busID", d->topology.bus_id,
                     "mustHonorPartition", false, "p2pLinks", links_info(m, at));
}

static json_t *resources_info(const struct koordinator_device *d)
{
    json_t *map = json_object();
    for (size_t i = 0; i < d->n_resources; i++)
        (void)json_object_set_new(map, d->resources[i].key, json_string(d->resources[i].str));
    return map;
}

/* koordlet copies the code into a condition's reason. */
static json_t *status_info(const struct koordinator_device *d)
{
    const struct condition *c = &d->conditions.items[0];
    if (d->health)
        return json_pack("{s:b}", "healthy", true);
    return json_pack("{s:b, s:s, s:s}", "healthy", false, "errCode", c->reason, "errMessage",
                     c->message);
}

static json_t *device_info(const struct koordinator_mirror *m, size_t at)
{
    const struct koordinator_device *d = &m->spec.devices[at];
    return json_pack("{s:O, s:O*, s:s, s:o, s:o, s:o*, s:o}", "vendor",
                     json_object_get(m->labels, KOORDINATOR_LABEL_VENDOR), "model",
                     json_object_get(m->labels, KOORDINATOR_LABEL_MODEL), "uuid", d->id, "minor",
                     number_text(d->minor), "resources", resources_info(d), "topology",
                     topology_info(m, at), "status", status_info(d));
}

char *koord_infos_text(const struct device_status *st, const struct device_spec *spec)
{
    auto_free struct koordinator_card *cards = xcalloc(st->n_devices, sizeof(*cards));
    for (size_t i = 0; i < st->n_devices; i++)
        see(&st->devices[i], device_spec_want(spec, st->devices[i].uuid), &cards[i]);
    const struct koordinator_node node = {.cards = cards, .n_cards = st->n_devices};
    auto_koordinator_mirror struct koordinator_mirror m = {0};
    koordinator_mirror_build(&node, /* before= */ NULL, /* now_ms= */ 0, &m);
    if (m.spec.n_devices == 0)
        return NULL;
    auto_json json_t *list = json_array();
    for (size_t i = 0; i < m.spec.n_devices; i++)
        (void)json_array_append_new(list, device_info(&m, i));
    return jx_dump(list);
}

/* --- The file --- */

struct koord_infos {
    char *folder;
    bool written; /* the file's content is `text` */
    char *text;   /* NULL: no file */
};

struct koord_infos *koord_infos_new(const char *folder)
{
    assert(folder);
    struct koord_infos *k = xmalloc(sizeof(*k));
    k->folder = xstrdup(folder);
    return k;
}

static int put(const struct koord_infos *k, const char *text, struct err *e)
{
    auto_free char *own = xasprintf("%s/.cleave", k->folder);
    auto_free char *fresh = xasprintf("%s/%s", own, KOORD_INFOS_FILE);
    auto_free char *path = xasprintf("%s/%s", k->folder, KOORD_INFOS_FILE);
    TRY(file_make_dirs(own, 0755, e));
    TRY(file_replace(fresh, text, strlen(text), 0644, e));
    if (rename(fresh, path) < 0)
        return err_set_errno(e, errno, "put %s", path);
    return 0;
}

static int take_away(const struct koord_infos *k, struct err *e)
{
    auto_free char *path = xasprintf("%s/%s", k->folder, KOORD_INFOS_FILE);
    return file_remove(path, e);
}

int koord_infos_keep(struct koord_infos *k, const struct device_status *st,
                     const struct device_spec *spec, struct err *e)
{
    auto_free char *text = koord_infos_text(st, spec);
    if (k->written && text_same(text, k->text))
        return 0;
    k->written = false;
    TRY(text ? put(k, text, e) : take_away(k, e));
    k->written = true;
    free(k->text);
    k->text = TAKE(text);
    return 0;
}

struct koord_infos *koord_infos_free(struct koord_infos *k)
{
    if (!k)
        return NULL;
    free(k->folder);
    free(k->text);
    free(k);
    return NULL;
}
