/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/gpu/vitals.h"
#include "nodeagent/vendor/nvidia/nvml_session.h"
#include "nodeagent/vendor/nvidia/nvml_vitals.h"

static enum gpu_mode mode_of(unsigned nvml_mode)
{
    return nvml_mode == NVML_MIG_ENABLE ? GPU_MIG : GPU_NATIVE;
}

/* A card without MIG answers NOT_SUPPORTED; a driver too old for MIG lacks the call. */
static int read_mode(struct nvml *n, struct nvml_facts *f, struct gpu_card *card, struct err *e)
{
    unsigned current = NVML_MIG_DISABLE;
    unsigned pending = NVML_MIG_DISABLE;
    nvml_ret rc = NVML_CALL(n, mig_mode, f->device, &current, &pending);
    card->mig_capable = rc == NVML_SUCCESS;
    if (rc != NVML_NOT_SUPPORTED && rc != NVML_FUNCTION_NOT_FOUND)
        TRY(nvml_check(n, nvml_names.mig_mode, rc, e));
    card->mode = mode_of(current);
    card->pending_mode = mode_of(pending);
    return 0;
}

/* A card whose compute mode the driver does not report counts as shared (DEFAULT). */
static void read_compute_mode(struct nvml *n, struct nvml_facts *f, struct gpu_card *card)
{
    unsigned mode = NVML_COMPUTE_DEFAULT;
    nvml_ret rc = NVML_CALL(n, compute_mode, f->device, &mode);
    card->exclusive = rc == NVML_SUCCESS && mode == NVML_COMPUTE_EXCLUSIVE_PROCESS;
}

static void read_persistence(struct nvml *n, struct nvml_facts *f, struct gpu_card *card)
{
    unsigned on = 0;
    card->persistence_known = NVML_CALL(n, persistence, f->device, &on) == NVML_SUCCESS;
    card->persistence = card->persistence_known && on;
}

/* The table is read once. A driver that lists nothing while MIG is off is asked again. */
static int read_table(struct nvml *n, struct nvml_facts *f, struct gpu_card *card, struct err *e)
{
    if (f->card.mig.n_profiles == 0)
        TRY(nvml_mig_table(n, f, e));
    card->mig = f->card.mig;
    return 0;
}

static nvml_ret ask_fabric(struct nvml *n, nvml_device d, struct nvml_fabric *ret)
{
    struct nvml_fabric_v2 v = {.version = NVML_STRUCT_VERSION(struct nvml_fabric_v2, 2)};
    nvml_ret rc = NVML_CALL(n, fabric_v, d, &v);
    if (rc == NVML_FUNCTION_NOT_FOUND || rc == NVML_ARGUMENT_VERSION_MISMATCH)
        return NVML_CALL(n, fabric, d, ret);
    *ret = (struct nvml_fabric){.status = v.status, .cliqueId = v.cliqueId, .state = v.state};
    memcpy(ret->clusterUuid, v.clusterUuid, sizeof(ret->clusterUuid));
    return rc;
}

static_assert(GPU_FABRIC_BYTES >= 36 + 1 + 10 + 1, "a UUID, a dot, a number of 32 bits");
static void fabric_words(const struct nvml_fabric *v, char *ret)
{
    static const unsigned char none[16];
    const unsigned char *u = v->clusterUuid;
    *ret = '\0';
    if (v->state != NVML_FABRIC_COMPLETED || v->status != NVML_SUCCESS ||
        memcmp(u, none, sizeof(none)) == 0)
        return;
    (void)snprintf(ret, GPU_FABRIC_BYTES,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x.%u", u[0],
                   u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
                   u[14], u[15], v->cliqueId);
}

/* A fabric comes up minutes after the driver and may be changed, so it is asked for every time. On
 * a temporary failure the last answer stays. */
static void read_fabric(struct nvml *n, struct nvml_facts *f, struct gpu_card *card)
{
    struct nvml_fabric v = {0};
    if (f->no_fabric)
        return;
    nvml_ret rc = ask_fabric(n, f->device, &v);
    f->no_fabric = rc == NVML_NOT_SUPPORTED || rc == NVML_FUNCTION_NOT_FOUND ||
                   (rc == NVML_SUCCESS && v.state == NVML_FABRIC_NOT_SUPPORTED);
    if (rc != NVML_SUCCESS)
        return;
    fabric_words(&v, f->card.fabric);
    memcpy(card->fabric, f->card.fabric, sizeof(card->fabric));
}

static int read_dynamic(struct nvml *n, struct nvml_facts *f, struct gpu_card *card, struct err *e)
{
    unsigned minor = UINT_MAX;
    nvml_ret rc = NVML_CALL(n, minor, f->device, &minor); /* a mode change may renumber it */
    card->minor = rc == NVML_SUCCESS ? nvml_sound_minor(minor) : UINT_MAX;
    read_fabric(n, f, card);
    TRY(read_mode(n, f, card, e));
    if (card->mig_capable)
        TRY(read_table(n, f, card, e));
    if (card->mode == GPU_MIG)
        TRY(nvml_instances_read(n, f, card, e));
    return nvml_processes_read(n, f, card, e);
}

static unsigned long long number_of(const struct nvml_field_value *v)
{
    bool wide =
        v->valueType == NVML_VALUE_UNSIGNED_LONG || v->valueType == NVML_VALUE_UNSIGNED_LONG_LONG;
    return wide ? v->value.ullVal : v->value.uiVal;
}

/* Reads the driver's verdict on the hardware: a card may be readable although the driver has given
 * it up. Each field fails on its own: drivers before 570 know no recovery action, cards without ECC
 * count nothing, and a card with MIG instances may not report remapped rows. */
static void read_vitals(struct nvml *n, struct nvml_facts *f, struct gpu_card *card)
{
    enum { ACTION, PENDING, FAILURE, RETIRED, ECC, COUNT };
    struct nvml_field_value v[COUNT] = {
        [ACTION] = {.fieldId = NVML_FI_RECOVERY_ACTION},
        [PENDING] = {.fieldId = NVML_FI_REMAPPED_PENDING},
        [FAILURE] = {.fieldId = NVML_FI_REMAPPED_FAILURE},
        [RETIRED] = {.fieldId = NVML_FI_RETIRED_PENDING},
        [ECC] = {.fieldId = NVML_FI_ECC_DBE_VOL_TOTAL},
    };
    card->vitals = (struct gpu_vitals){0};
    if (NVML_CALL(n, field_values, f->device, COUNT, v) != NVML_SUCCESS)
        return;
    card->vitals = (struct gpu_vitals){
        .action_known = v[ACTION].nvmlReturn == NVML_SUCCESS,
        .action = (unsigned)number_of(&v[ACTION]),
        .remap_known =
            v[PENDING].nvmlReturn == NVML_SUCCESS && v[FAILURE].nvmlReturn == NVML_SUCCESS,
        .remap_pending = number_of(&v[PENDING]) != 0,
        .remap_failed = number_of(&v[FAILURE]) != 0,
        .retired_pending = v[RETIRED].nvmlReturn == NVML_SUCCESS && number_of(&v[RETIRED]) != 0,
        .ecc_known = v[ECC].nvmlReturn == NVML_SUCCESS,
        .ecc_uncorrected = number_of(&v[ECC]),
    };
}

static int read_card(struct nvml *n, struct nvml_facts *f, struct gpu_card *ret, struct err *e)
{
    auto_gpu_card struct gpu_card card = f->card;
    TRY(read_dynamic(n, f, &card, e));
    read_compute_mode(n, f, &card);
    read_persistence(n, f, &card);
    read_vitals(n, f, &card);
    nvml_vitals_judge(&card);
    *ret = card;
    card.users = NULL; /* handed over */
    return 0;
}

static void mark_unhealthy(struct gpu_card *card, const struct err *why)
{
    const char *reason =
        why->reason && strcmp(why->reason, "NVMLError") != 0 ? why->reason : "ReadFailed";
    gpu_card_mark_ill(card, reason, err_msg(why));
}

/* The earlier card with the same UUID; `index` itself: none. */
static unsigned first_of(const struct gpu_card *cards, unsigned index, const char *uuid)
{
    unsigned i = 0;
    while (i < index && strcmp(cards[i].uuid, uuid) != 0)
        i++;
    return i;
}

/* Two cards may not report one UUID. The lower index keeps it, unless that card could not be read
 * now and its UUID is only remembered. The next reading asks both again. */
static int check_unique(struct nvml *n, struct gpu_card *cards, unsigned index, const char *uuid,
                        struct nvml_facts **f, struct err *e)
{
    assert(index < GPU_MAX_CARDS);
    unsigned first = first_of(cards, index, uuid);
    if (first == index)
        return 0;
    if (cards[first].unread && !cards[first].busy) {
        cards[first].uuid[0] = '\0';
        return 0;
    }
    if (*f)
        nvml_facts_unsettle(n, *f, first);
    nvml_facts_give(n, TAKE(*f));
    return err_set(e, ERR_PROTOCOL, "the driver gives card %u the UUID of card %u", index, first);
}

/* Another thread works on the card: nothing but its identity is known now. */
static void show_busy(struct gpu_card *ret, const struct gpu_card *identity, unsigned index)
{
    *ret = *identity;
    ret->index = index;
    ret->healthy = ret->unread = ret->busy = true;
}

static struct gpu_card stranger(void)
{
    return (struct gpu_card){.vendor = "nvidia", .minor = UINT_MAX, .numa_node = -1};
}

/* f: the card in hand; NULL: it is the one last seen at the index, if any, unless another card is
 * shown with that UUID. */
static void show_ill(struct nvml *n, const struct nvml_facts *f, unsigned index,
                     const struct err *why, struct gpu_card *cards)
{
    struct gpu_card *ret = &cards[index];
    if (f)
        *ret = f->card;
    else if (!nvml_facts_last_at(n, index, ret) || first_of(cards, index, ret->uuid) != index)
        *ret = stranger();
    ret->index = index;
    ret->unread = true;
    mark_unhealthy(ret, why);
}

/* Reads one card of an inventory; a failure is reported in the card. */
static void read_slot(struct nvml *n, unsigned index, struct gpu_card *cards)
{
    auto_err struct err why = {0};
    struct gpu_card *ret = &cards[index];
    struct nvml_facts *f = NULL;
    bool busy = false;
    int rc = nvml_facts_at(n, index, &f, &busy, ret, &why);
    if (rc == 0)
        rc = check_unique(n, cards, index, f ? f->uuid : ret->uuid, &f, &why);
    if (rc == 0 && busy)
        show_busy(ret, ret, index);
    else if (rc == 0) {
        assert(f);
        rc = read_card(n, f, ret, &why);
    }
    if (rc < 0)
        show_ill(n, f, index, &why, cards);
    nvml_facts_give(n, f);
}

/* *ret stays when the driver did not say how many, whatever it left behind there. */
static int count_cards(struct nvml *n, struct lib_pass *p, unsigned *ret, bool *ret_closed,
                       struct err *e)
{
    unsigned count = 0;
    TRY(nvml_session_enter(n, p, ret_closed, e));
    if (!p->gate)
        return 0;
    TRY(NVML_DO(n, e, count, &count));
    if (count > GPU_MAX_CARDS)
        return err_set(e, ERR_TOO_LARGE, "%u cards; at most %d are managed", count, GPU_MAX_CARDS);
    *ret = count;
    return 0;
}

/* The first call after a reload of the driver notices it; a new session helps at once. */
static int count_cards_afresh(struct nvml *n, struct lib_pass *p, unsigned *ret, bool *ret_closed,
                              struct err *e)
{
    bool was_open = atomic_load(&n->open);
    int rc = count_cards(n, p, ret, ret_closed, e);
    if (rc == 0 || !p->gate || !was_open || !(atomic_load(&n->stale) || atomic_load(&n->worn)))
        return rc;
    lib_gate_leave(p);
    return count_cards(n, p, ret, ret_closed, e);
}

static unsigned remembered_count(struct nvml *n)
{
    HOLD(&n->holds.mu);
    return n->n_cards;
}

/* While cards are reset the driver is not asked: each card is shown as it was last known. */
static void recall_cards(struct nvml *n, struct gpu_inventory *ret)
{
    for (unsigned i = 0; i < ret->n_cards; i++) {
        struct gpu_card card = stranger();
        (void)nvml_facts_last_at(n, i, &card);
        show_busy(&ret->cards[i], &card, i);
    }
}

static void describe_driver(struct nvml *n, struct gpu_driver *d)
{
    HOLD(&n->holds.mu);
    (void)snprintf(d->version, sizeof(d->version), "%s", n->driver);
    (void)snprintf(d->cuda_version, sizeof(d->cuda_version), "%s", n->cuda);
}

static void remember_count(struct nvml *n, unsigned count)
{
    HOLD(&n->holds.mu);
    n->n_cards = count;
}

int nvml_op_read(struct gpu *g, struct gpu_inventory *ret, struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    auto_lib_pass struct lib_pass pass = {0};
    unsigned count = remembered_count(n);
    bool closed = false;
    TRY(count_cards_afresh(n, &pass, &count, count ? &closed : NULL, e));
    *ret =
        (struct gpu_inventory){.n_drivers = 1, .drivers = {{.vendor = "nvidia"}}, .n_cards = count};
    assert(count <= GPU_MAX_CARDS && (!closed || count > 0));
    ret->cards = xcalloc(count, sizeof(*ret->cards));
    if (closed)
        recall_cards(n, ret);
    for (unsigned i = 0; i < count && !closed; i++)
        read_slot(n, i, ret->cards);
    remember_count(n, count);
    nvml_topology_read(n, ret);
    describe_driver(n, &ret->drivers[0]);
    gpu_inventory_read_boot(ret, n->proc_root);
    return 0;
}

int nvml_op_read_card(struct gpu *g, const char *uuid, struct gpu_card *ret, struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    auto_nvml_turn struct nvml_turn t = {.n = n};
    TRY(nvml_turn_begin(&t, n, uuid, e));
    return read_card(n, t.facts, ret, e);
}
