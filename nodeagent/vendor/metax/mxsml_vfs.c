/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/metax/mxsml_vfs.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nodeagent/vendor/metax/mxsml_find.h"

/* Functions of one card have numbers of sixteen bits (PCIe's routing ids). */
#define MAX_NUMBER 0xffff

/* --- numbers --- */

static bool take_hex(const char **text, char end, uint64_t most, uint64_t *ret)
{
    size_t digits = strspn(*text, "0123456789abcdefABCDEF");
    if (digits == 0 || digits > 8 || (*text)[digits] != end)
        return false;
    *ret = strtoul(*text, /* endptr= */ NULL, 16);
    *text += digits + (end != '\0');
    return *ret <= most;
}

/* "0000:09:00.1": domain, bus, device, function, as one number. */
static int address_of(const char *text, uint64_t *ret, struct err *e)
{
    const char *at = text;
    uint64_t domain;
    uint64_t bus;
    uint64_t device;
    uint64_t function;
    if (!take_hex(&at, ':', UINT32_MAX, &domain) || !take_hex(&at, ':', 0xff, &bus) ||
        !take_hex(&at, '.', 0x1f, &device) || !take_hex(&at, '\0', 7, &function))
        return err_set(e, ERR_PROTOCOL, "\"%.40s\" is no bus address", text);
    *ret = domain << 16 | bus << 8 | device << 3 | function;
    return 0;
}

int mxsml_vf_number(const char *card, const char *function, unsigned *ret, struct err *e)
{
    uint64_t a;
    uint64_t b;
    TRY(address_of(card, &a, e));
    TRY(address_of(function, &b, e));
    if (b <= a || b - a - 1 > MAX_NUMBER)
        return err_set(e, ERR_PROTOCOL, "%s is no virtual function of %s", function, card);
    *ret = (unsigned)(b - a - 1);
    return 0;
}

/* --- one function --- */

static int check_is_vf(struct mxsml *m, const struct mxsml_info *info, struct err *e)
{
    if (info->mode != MXSML_MODE_VF) {
        atomic_store(&m->stale, true);
        return err_set(e, ERR_UNAVAILABLE, "the card's virtual functions are not what they were");
    }
    return 0;
}

static void judge_vf(struct mxsml *m, struct gpu_vf *vf)
{
    int state = 1;
    struct mxsml_unavailable why = {0};
    vf->healthy = MXSML_CALL(m, state, vf->dev, &state) != MXSML_SUCCESS || state;
    if (vf->healthy)
        return;
    bool told = MXSML_CALL(m, unavailable, vf->dev, &why) == MXSML_SUCCESS && why.reason[0];
    (void)snprintf(vf->unhealthy_message, sizeof(vf->unhealthy_message), "not available%s%.*s",
                   told ? ": " : "", (int)sizeof(why.reason) - 1, why.reason);
}

static int read_vf(struct mxsml *m, unsigned dev, const struct gpu_card *c, struct gpu_vf *ret,
                   struct err *e)
{
    struct mxsml_info info = {0};
    struct mxsml_memory memory = {0};
    TRY(MXSML_DO(m, e, info, dev, &info));
    TRY(mxsml_sound_info(dev, &info, e));
    TRY(check_is_vf(m, &info, e));
    *ret = (struct gpu_vf){.dev = dev};
    (void)snprintf(ret->uuid, sizeof(ret->uuid), "%s", info.uuid);
    (void)snprintf(ret->pci_bus_id, sizeof(ret->pci_bus_id), "%s", info.bdf);
    TRY(mxsml_vf_number(c->pci_bus_id, ret->pci_bus_id, &ret->number, e));
    if (MXSML_CALL(m, memory, dev, &memory) == MXSML_SUCCESS && memory.vram_total > 0)
        ret->memory_mib = mxsml_sound_memory((uint64_t)memory.vram_total >> 10);
    judge_vf(m, ret);
    return 0;
}

/* --- the functions of a card --- */

static int by_number(const void *a, const void *b)
{
    const struct gpu_vf *x = a;
    const struct gpu_vf *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int check_distinct(const struct gpu_card *c, struct err *e)
{
    for (unsigned i = 0; i < c->n_vfs; i++)
        for (unsigned k = 0; k < i; k++)
            if (c->vfs[i].number == c->vfs[k].number || strcmp(c->vfs[i].uuid, c->vfs[k].uuid) == 0)
                return err_set(e, ERR_PROTOCOL,
                               "two virtual functions have the same address or UUID: %s, %s",
                               c->vfs[i].pci_bus_id, c->vfs[i].uuid);
    return 0;
}

/* A function that does not answer may be in use: the card then counts as unread. */
int mxsml_read_vfs(struct mxsml *m, unsigned dev, struct gpu_card *c, struct err *e)
{
    struct mxsml_ids ids;
    c->mode = c->pending_mode = GPU_VGPU;
    TRY(mxsml_list_vfs(m, dev, &ids, e));
    for (int i = 0; i < ids.n; i++) {
        assert(c->n_vfs < GPU_MAX_VFS); /* mxsml_list_vfs has the bound */
        TRY(read_vf(m, (unsigned)ids.ids[i], c, &c->vfs[c->n_vfs], e));
        c->n_vfs++;
    }
    qsort(c->vfs, c->n_vfs, sizeof(c->vfs[0]), by_number);
    return check_distinct(c, e);
}
