/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/gpu/nvml_session.h"
#include "nodeagent/gpu/vitals.h"

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
    read_vitals(n, f, &card);
    vitals_judge(&card);
    *ret = card;
    card.processes = NULL; /* handed over */
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
static int check_unique(struct gpu_card *cards, unsigned index, struct nvml_facts **f,
                        struct err *e)
{
    unsigned first = first_of(cards, index, (*f)->card.uuid);
    if (first == index)
        return 0;
    if (cards[first].unread) {
        cards[first].uuid[0] = '\0';
        return 0;
    }
    (*f)->current = false;
    (*f)->card.index = first;
    *f = NULL;
    return err_set(e, ERR_PROTOCOL, "the driver gives card %u the UUID of card %u", index, first);
}

/* Reads one card of an inventory; a failure is reported in the card. */
static void read_slot(struct nvml *n, unsigned index, struct gpu_card *cards)
{
    auto_err struct err why = {0};
    struct gpu_card *ret = &cards[index];
    struct nvml_facts *f = NULL;
    int rc = nvml_facts_at(n, index, &f, &why);
    if (rc == 0)
        rc = check_unique(cards, index, &f, &why);
    if (rc == 0)
        rc = read_card(n, f, ret, &why);
    if (rc == 0)
        return;
    const struct nvml_facts *last = f ? f : nvml_facts_last_at(n, index);
    *ret = last ? last->card
                : (struct gpu_card){.vendor = "nvidia", .minor = UINT_MAX, .numa_node = -1};
    ret->index = index;
    ret->unread = true;
    mark_unhealthy(ret, &why);
}

static int count_cards(struct nvml *n, unsigned *ret, struct err *e)
{
    TRY(nvml_session_ensure(n, e));
    TRY(NVML_DO(n, e, count, ret));
    if (*ret > GPU_MAX_CARDS)
        return err_set(e, ERR_TOO_LARGE, "%u cards; at most %d are managed", *ret, GPU_MAX_CARDS);
    return 0;
}

/* The first call after a reload of the driver notices it; a new session helps at once. */
static int count_cards_afresh(struct nvml *n, unsigned *ret, struct err *e)
{
    bool was_open = n->open;
    int rc = count_cards(n, ret, e);
    return rc < 0 && was_open && n->stale ? count_cards(n, ret, e) : rc;
}

int nvml_op_read(struct gpu *g, struct gpu_inventory *ret, struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    unsigned count = 0;
    TRY(count_cards_afresh(n, &count, e));
    *ret =
        (struct gpu_inventory){.n_drivers = 1, .drivers = {{.vendor = "nvidia"}}, .n_cards = count};
    ret->cards = xcalloc(count, sizeof(*ret->cards));
    for (unsigned i = 0; i < count; i++)
        read_slot(n, i, ret->cards);
    nvml_topology_read(n, ret);
    struct gpu_driver *d = &ret->drivers[0];
    (void)snprintf(d->version, sizeof(d->version), "%s", n->driver);
    (void)snprintf(d->cuda_version, sizeof(d->cuda_version), "%s", n->cuda);
    gpu_inventory_read_boot(ret, n->proc_root);
    return 0;
}

int nvml_op_read_card(struct gpu *g, const char *uuid, struct gpu_card *ret, struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    struct nvml_facts *f = NULL;
    TRY(nvml_facts_get(n, uuid, &f, e));
    return read_card(n, f, ret, e);
}
