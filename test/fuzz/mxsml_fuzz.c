/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>

#include "nodeagent/vendor/metax/mxsml_open.h"
#include "test/fuzz/inventory_support.h"
#include "test/unit/mxsml_mad.h"

/*
 * Input: how MetaX's library differs from a sane one, answer by answer, through two readings and
 * each verb.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static bool is_part(const struct gpu_card *c, int part)
{
    for (unsigned i = 0; i < c->sgpu.n; i++)
        if ((int)c->sgpu.items[i].id == part)
            return true;
    for (unsigned i = 0; i < c->n_vfs; i++)
        if ((int)c->vfs[i].number == part)
            return true;
    return part == -1;
}

static void check_cut_card(const struct gpu_card *c)
{
    for (unsigned i = 0; i < c->sgpu.n; i++) {
        const char *uuid = c->slices[i].uuid;
        assert(!*uuid || sound_is_name(uuid));
        for (unsigned k = 0; k < i; k++)
            assert(c->sgpu.items[k].id != c->sgpu.items[i].id &&
                   (!*uuid || strcmp(c->slices[k].uuid, uuid) != 0));
    }
    for (unsigned i = 0; i < c->n_vfs; i++) {
        assert(sound_is_name(c->vfs[i].uuid) && sound_is_bus_id(c->vfs[i].pci_bus_id));
        assert(c->vfs[i].memory_mib <= MIG_MAX_MEMORY_MIB);
        assert(i == 0 || c->vfs[i - 1].number < c->vfs[i].number);
    }
    for (unsigned i = 0; i < c->n_users; i++)
        assert(is_part(c, c->users[i].part) && c->users[i].ci == -1);
    assert(c->n_vfs == 0 || c->unread || c->mode == GPU_VGPU);
    assert(c->mode == c->pending_mode && c->mode != GPU_MIG);
}

static void read_all(struct gpu *g)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    if (g->ops->read(g, &inv, NULL) < 0)
        return;
    check_inventory(&inv);
    for (size_t i = 0; i < inv.n_cards; i++)
        check_cut_card(&inv.cards[i]);
}

/* A failure says what it is. */
static void check_result(int rc, const struct err *e)
{
    assert(rc <= 0 && (int)e->kind == -rc && !rc == !e->msg);
    (void)rc;
    (void)e;
}

static void make_slice(struct gpu *g, const char *uuid)
{
    static const struct sgpu_want want = {"same", {1024, 10}};
    auto_err struct err e = {0};
    unsigned id = 12345;
    int rc = g->ops->slice_create(g, uuid, &want, &id, &e);
    check_result(rc, &e);
    assert((rc == 0 || id == 12345) && "a failure leaves the result alone");
}

#define USE(g, verb, ...)                                                                          \
    do {                                                                                           \
        auto_err struct err use_e = {0};                                                           \
        int use_rc = (g)->ops->verb(g, __VA_ARGS__, &use_e);                                       \
        check_result(use_rc, &use_e);                                                              \
    } while (0)

static void use(struct gpu *g, const char *uuid)
{
    auto_gpu_card struct gpu_card card = {0};
    auto_err struct err e = {0};
    enum gpu_mode_result mode;
    int rc = g->ops->read_card(g, uuid, &card, &e);
    check_result(rc, &e);
    if (rc == 0) {
        check_card(&card);
        check_cut_card(&card);
    }
    USE(g, mode_set, uuid, GPU_SGPU, &mode);
    make_slice(g, uuid);
    USE(g, slice_destroy, uuid, 1);
    USE(g, qos_set, uuid, API_BURST_SHARE);
    USE(g, timeslice_set, uuid, 30);
    check_measure(g, uuid);
    USE(g, reset, uuid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct mxsml_options o = {.library = "",
                                           .proc_root = "/nowhere",
                                           .sys_root = "/nowhere"};
    struct gpu *g = NULL;
    if (len > 4096)
        return 0;
    mxsml_mad_feed(data, len);
    int rc = gpu_mxsml_open(&o, &g, NULL);
    assert(rc == 0);
    (void)rc;
    read_all(g);
    use(g, "GPU-0");
    read_all(g);
    use(g, "GPU-100");
    (void)gpu_free(g);
    return 0;
}
