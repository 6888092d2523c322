/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/metax/container_metax.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#define ENV_BYTES ((size_t)64 * 1024)

/* --- Its own files: those of all cards, which its driver makes --- */

static struct metax_files look(const struct driver_where *w)
{
    return (struct metax_files){
        .mxcd = dri_file_stands(w->dev_root, "mxcd"),
        .mxnd = dri_file_stands(w->dev_root, "mxnd"),
        .mxgd = dri_file_stands(w->dev_root, "mxgd"),
    };
}

static void *read_own(const struct driver_where *w, struct err *e)
{
    (void)e; /* a file that cannot be looked at is not there */
    struct metax_files *own = xmalloc(sizeof(*own));
    *own = look(w);
    return own;
}

static bool is_current(const struct driver_where *w, const void *own)
{
    const struct metax_files *then = own;
    const struct metax_files now = look(w);
    return now.mxcd == then->mxcd && now.mxnd == then->mxnd && now.mxgd == then->mxgd;
}

static const struct container_own_files own_files = {
    .read = read_own,
    .is_current = is_current,
    .free = free,
};

static const struct metax_files *own_of(const struct device_nodes *n)
{
    static const struct metax_files none;
    const struct metax_files *own = device_nodes_own(n, &container_metax);
    return own ? own : &none;
}

/* --- Files for containers --- */

static void add_common_paths(const struct device_nodes *n, struct device_paths *ret)
{
    const struct metax_files *own = own_of(n);
    ret->host_root = n->dri.host_dev_root ? n->dri.host_dev_root : "";
    if (own->mxcd)
        device_paths_add(ret, xstrdup("/dev/mxcd"));
    if (own->mxnd)
        device_paths_add(ret, xstrdup("/dev/mxnd"));
    if (own->mxgd)
        device_paths_add(ret, xstrdup("/dev/mxgd"));
}

static bool has_render(const struct dri_card *card, unsigned minor)
{
    for (size_t i = 0; i < card->n_renders; i++) {
        if (card->renders[i] == minor)
            return true;
    }
    return false;
}

/*
 * The render node of a slice. The library reports a minor for each slice but does not document its
 * node. If the slice's card has a render node of that number, it is taken as the slice's own; else
 * the card's first one is used. (Card nodes are numbered from 0, as the slices' minors may be, so
 * an equal number there means nothing.)
 */
static unsigned render_of(const struct dri_card *card, const struct entry_device *d)
{
    return d->has_slice && has_render(card, d->slice.minor) ? d->slice.minor : card->renders[0];
}

static bool knows_paths(const struct device_nodes *n, const struct entry_device *d)
{
    return own_of(n)->mxcd && dri_nodes_card(&n->dri, d->pci_bus_id);
}

static int add_paths_of(const struct device_nodes *n, const struct entry_device *d,
                        struct device_paths *ret, struct err *e)
{
    const struct dri_card *card = dri_nodes_card(&n->dri, d->pci_bus_id);
    if (!own_of(n)->mxcd)
        return err_set(e, ERR_NOT_FOUND, "%s: there is no /dev/mxcd", d->cdi_name);
    if (!card || card->n_renders == 0)
        return err_set(e, ERR_NOT_FOUND, "%s: there is no render node of %s in /dev/dri",
                       d->cdi_name, d->pci_bus_id ? d->pci_bus_id : "its card");
    unsigned render = render_of(card, d);
    ret->host_root = n->dri.host_dev_root ? n->dri.host_dev_root : "";
    if (card->n_cards && render == card->renders[0])
        device_paths_add(ret, xasprintf("/dev/dri/card%u", card->cards[0]));
    device_paths_add(ret, xasprintf("/dev/dri/renderD%u", render));
    return 0;
}

/* The driver accepts any text as alias; in the variable it must not contain a separator. */
static bool is_plain(const char *alias)
{
    for (const char *c = alias; *c; c++) {
        if (!isgraph((unsigned char)*c) || strchr(";,\"\\", *c))
            return false;
    }
    return true;
}

static int add_slice(const struct entry_device *d, struct sb *list, struct err *e)
{
    char bus_id[DRI_BUS_ID_BYTES];
    const struct entry_slice *s = &d->slice;
    if (!dri_bus_id(d->pci_bus_id, bus_id))
        return err_set(e, ERR_INVALID, "%s: \"%.40s\" is no PCI address", d->cdi_name,
                       d->pci_bus_id ? d->pci_bus_id : "");
    if (!is_plain(s->alias))
        return err_set(
            e, ERR_INVALID,
            "%s: METAX_SGPUS cannot hold its alias: no blanks, \";\", \",\", quotes or backslashes",
            d->cdi_name);
    sb_addf(list, "%ssgpu=%s#%u;compute=%u;vram=%" PRIu64 ";alias=%s", list->len ? "," : "", bus_id,
            s->id, s->compute_percent, s->memory_mib, s->alias);
    return 0;
}

static int device_env(const struct entry_device *const *devices, size_t n, const char **ret_key,
                      char **ret_value, struct err *e)
{
    auto_sb struct sb list = SB_INIT(ENV_BYTES);
    for (size_t i = 0; i < n; i++) {
        if (devices[i]->has_slice)
            TRY(add_slice(devices[i], &list, e));
    }
    TRY(sb_check(&list, e));
    *ret_key = list.len ? "METAX_SGPUS" : NULL;
    *ret_value = list.len ? sb_take(&list) : NULL;
    return 0;
}

/* --- The row --- */

const struct container_vendor container_metax = {
    .name = "metax",
    .cdi_kind = "gpu.cleave.dev/metax",
    .uses_dri = true,
    .own = &own_files,
    .common_paths = add_common_paths,
    .knows_paths = knows_paths,
    .paths_of = add_paths_of,
    .device_env = device_env,
};
