/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/health/health.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/xalloc.h"

enum { SETTLE_MS = 60000, HOLD_MS = 600000, MAX_ILL = MIG_MAX_INSTANCES, XID_OFF_THE_BUS = 79 };

static_assert(XID_MAX % 8 == 0, "a bit for each Xid");
static_assert(XID_IGNORED < XID_LOOK && XID_LOOK < XID_SUSPECT && XID_SUSPECT < XID_RESET &&
                  XID_RESET < XID_REBOOT,
              "a worse effect is the larger one");

/* --- The table --- */

static const struct xid_row {
    uint16_t first, last;
    enum xid_effect effect;
    bool shared; /* by all instances of the card */
    const char *words;
} table[] = {
    {8, 8, XID_IGNORED, false, "a channel stopped"},
    {11, 11, XID_IGNORED, false, "an invalid push buffer"},
    {13, 13, XID_IGNORED, false, "a fault of the program"},
    {14, 14, XID_IGNORED, false, "an injected error"},
    {25, 25, XID_IGNORED, false, "an illegal push buffer"},
    {31, 32, XID_IGNORED, false, "an illegal access of the program"},
    {37, 41, XID_IGNORED, false, "an error of an engine"},
    {43, 45, XID_IGNORED, false, "a program was ended"},
    {46, 46, XID_RESET, false, "the GPU stopped processing"},
    {48, 48, XID_RESET, false, "an uncorrectable memory error"},
    {54, 54, XID_REBOOT, true, "auxiliary power is missing"},
    {60, 60, XID_IGNORED, false, "an error of the video engine"},
    {62, 62, XID_RESET, true, "an internal controller halted"},
    {63, 63, XID_LOOK, true, "a memory row is to be remapped"},
    {64, 64, XID_RESET, true, "a memory row could not be remapped"},
    {66, 72, XID_IGNORED, false, "an error of an engine"},
    {74, 74, XID_RESET, true, "an NVLink error"},
    {75, 77, XID_IGNORED, false, "an error of a copy engine"},
    {78, 78, XID_IGNORED, false, "a vGPU did not start"},
    {79, 79, XID_REBOOT, true, "the GPU fell off the bus"},
    {80, 80, XID_IGNORED, false, "corrupted data was sent to the GPU"},
    {82, 86, XID_IGNORED, false, "an error of a media engine"},
    {88, 89, XID_IGNORED, false, "an error of a media engine"},
    {92, 93, XID_IGNORED, true, "many correctable memory errors, or the InfoROM's wear limit"},
    {94, 94, XID_LOOK, false, "a memory error contained to one program"},
    {95, 95, XID_RESET, false, "an uncontained memory error"},
    {96, 108, XID_IGNORED, false, "an error of a media engine, or a test message"},
    {109, 109, XID_LOOK, false, "a context switch took too long"},
    {110, 110, XID_RESET, true, "a security fault"},
    {119, 120, XID_RESET, true, "the GPU's system processor does not answer"},
    {121, 121, XID_IGNORED, true, "corrected errors of the link to the CPU"},
    {126, 135, XID_IGNORED, false, "an error of a copy engine"},
    {136, 136, XID_RESET, true, "an NVLink could not be trained"},
    {137, 137, XID_IGNORED, false, "an illegal access of the program over NVLink"},
    {139, 139, XID_IGNORED, false, "an error of an engine"},
    {140, 140, XID_RESET, true, "memory errors that could not be handled"},
    {141, 142, XID_IGNORED, false, "an error of an engine"},
    {143, 143, XID_RESET, true, "the GPU could not be initialised"},
    /* NVML does not pass on their subcodes, which tell harmless ones from others. The recovery
     * action that the driver then asks for decides instead. */
    {144, 150, XID_LOOK, true, "an NVLink error"},
    {151, 151, XID_REBOOT, true, "a key rotation failed"},
    {152, 153, XID_IGNORED, false, "an error of an engine"},
    {154, 154, XID_LOOK, true, "the recovery action changed"},
    {155, 155, XID_RESET, true, "an NVLink went down"},
    {156, 156, XID_LOOK, true, "a part of the GPU is to be retired"},
    {157, 157, XID_IGNORED, true, "a part of the GPU could not be retired"},
    {158, 158, XID_RESET, true, "a fatal timeout"},
    {160, 166, XID_IGNORED, true, "for information"},
    {167, 167, XID_RESET, true, "a fatal timeout of PCIe"},
    {168, 168, XID_LOOK, true, "errors in protected memory"},
    {169, 169, XID_RESET, true, "an internal controller halted"},
    {170, 170, XID_LOOK, true, "an interrupt of NVLink"},
    {171, 172, XID_LOOK, false, "more on an uncorrectable memory error"},
};

static const struct xid_row *row_of(uint64_t xid)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (xid >= table[i].first && xid <= table[i].last)
            return &table[i];
    return NULL;
}

enum xid_effect xid_effect(uint64_t xid)
{
    const struct xid_row *r = row_of(xid);
    return r ? r->effect : XID_SUSPECT;
}

bool xid_concerns_card(uint64_t xid)
{
    const struct xid_row *r = row_of(xid);
    return r && r->shared;
}

const char *xid_words(uint64_t xid)
{
    const struct xid_row *r = row_of(xid);
    return r ? r->words : "";
}

/* --- Overrides --- */

static bool has_bit(const uint8_t *bits, uint64_t xid)
{
    return xid < XID_MAX && (bits[xid / 8] & (1U << xid % 8));
}

static bool is_all(const char *word)
{
    return strcasecmp(word, "all") == 0 || strcasecmp(word, "xids") == 0;
}

static int take_word(const char *word, uint8_t *bits, bool *all, struct err *e)
{
    int64_t xid = 0;
    if (all && is_all(word)) {
        *all = true;
        return 0;
    }
    TRY(num_parse(word, 0, XID_MAX - 1, &xid, e));
    bits[xid / 8] |= (uint8_t)(1U << xid % 8);
    return 0;
}

/* Applies every word; the first wrong one is the error. */
static int take_list(const char *text, uint8_t *bits, bool *all, struct err *e)
{
    auto_free char *copy = xstrdup(text ? text : "");
    char *rest = copy;
    int rc = 0;
    for (char *w = strsep(&rest, ", "); w; w = strsep(&rest, ", ")) {
        int rc_word = *w ? take_word(w, bits, all, rc < 0 ? NULL : e) : 0;
        if (rc_word == 0 || rc < 0)
            continue;
        rc = rc_word;
        (void)err_wrap(e, "\"%s\" is not an Xid, a number from 0 to %d", w, XID_MAX - 1);
    }
    return rc;
}

int health_options_parse(const char *disable, const char *enable, struct health_options *ret,
                         struct err *e)
{
    assert(ret);
    int rc = take_list(disable, ret->ignore, &ret->no_xids, e);
    int rc_enable = take_list(enable, ret->heed, NULL, rc < 0 ? NULL : e);
    return rc < 0 ? rc : rc_enable;
}

static enum xid_effect effect_of(const struct health_options *o, uint64_t xid)
{
    enum xid_effect effect = xid_effect(xid);
    if (has_bit(o->heed, xid))
        return effect == XID_IGNORED || effect == XID_LOOK ? XID_SUSPECT : effect;
    if (o->no_xids || has_bit(o->ignore, xid))
        return XID_IGNORED;
    return effect;
}

/* --- Memory --- */

struct illness {
    enum xid_effect effect;
    uint64_t xid;
    int64_t at_mono_ms; /* when the last Xid of this kind happened */
    int gi_id;          /* -1: the card */
    /* The MIG UUIDs of the ill instance. None: it was not read since. */
    unsigned n_uuids;
    char uuids[MIG_MAX_CIS][GPU_UUID_BYTES];
    char message[192];
};

struct patient {
    char uuid[GPU_UUID_BYTES];
    bool was_lost;
    bool was_read;
    uint64_t last_xid;        /* 0: none */
    struct gpu_vitals vitals; /* as last read */
    size_t n;
    struct illness *items; /* owned; the card's and at most one an instance */
};

struct health {
    struct health_options o;
    size_t n;
    struct patient *patients; /* owned */
};

struct health *health_new(const struct health_options *o)
{
    struct health *h = xcalloc(1, sizeof(*h));
    if (o)
        h->o = *o;
    h->o.settle_ms = h->o.settle_ms ? h->o.settle_ms : SETTLE_MS;
    h->o.hold_ms = h->o.hold_ms ? h->o.hold_ms : HOLD_MS;
    return h;
}

struct health *health_free(struct health *h)
{
    if (!h)
        return NULL;
    for (size_t i = 0; i < h->n; i++)
        free(h->patients[i].items);
    free(h->patients);
    free(h);
    return NULL;
}

static struct patient *find_patient(const struct health *h, const char *uuid)
{
    for (size_t i = 0; i < h->n; i++)
        if (strcmp(h->patients[i].uuid, uuid) == 0)
            return &h->patients[i];
    return NULL;
}

static struct patient *patient_of(struct health *h, const char *uuid)
{
    struct patient *p = find_patient(h, uuid);
    if (!p) {
        p = XPUSH(h->patients, h->n);
        (void)snprintf(p->uuid, sizeof(p->uuid), "%s", uuid);
    }
    return p;
}

static struct illness *illness_of(const struct patient *p, int gi_id)
{
    assert(gi_id >= -1 && p->n <= MAX_ILL + 1);
    for (size_t i = 0; i < p->n; i++)
        if (p->items[i].gi_id == gi_id)
            return &p->items[i];
    return NULL;
}

static void note_uuids(struct illness *ill, const struct gpu_card *card)
{
    assert(ill->n_uuids <= MIG_MAX_CIS);
    for (unsigned i = 0; ill->gi_id >= 0 && i < card->n_partitions; i++) {
        const struct gpu_partition *part = &card->partitions[i];
        if ((int)part->gi_id != ill->gi_id || !*part->uuid || ill->n_uuids == MIG_MAX_CIS)
            continue;
        memcpy(ill->uuids[ill->n_uuids++], part->uuid, sizeof(part->uuid));
    }
}

static const char *remedy_of(const struct illness *ill)
{
    if (ill->effect == XID_REBOOT)
        return "it needs a reset of its bus or a reboot of the node";
    if (ill->effect == XID_RESET)
        return ill->gi_id < 0 ? "it needs a reset, once nothing uses it"
                              : "it needs to be made again, or a reset of the card, once nothing "
                                "uses it";
    return "it is not in the table of Xids; see dmesg";
}

static void describe(struct illness *ill)
{
    const char *words = xid_words(ill->xid);
    (void)snprintf(ill->message, sizeof(ill->message), "Xid %llu%s%s%s: %s",
                   (unsigned long long)ill->xid, *words ? " (" : "", words, *words ? ")" : "",
                   remedy_of(ill));
}

/* A worse illness stays; a repeated one begins anew. */
static void fall_ill(struct patient *p, const struct illness *new, const struct gpu_card *card)
{
    assert(new->effect > XID_LOOK); /* the lesser ones make nothing ill */
    struct illness *ill = illness_of(p, new->gi_id);
    if (!ill && p->n == MAX_ILL + 1)
        return;
    if (!ill) {
        ill = XPUSH(p->items, p->n);
        *ill = *new;
    }
    ill->at_mono_ms = new->at_mono_ms;
    if (new->effect >= ill->effect) {
        ill->effect = new->effect;
        ill->xid = new->xid;
    }
    if (ill->n_uuids == 0)
        note_uuids(ill, card);
    describe(ill);
}

enum xid_effect health_xid(struct health *h, const struct gpu_card *card,
                           const struct gpu_event *ev, int64_t now_mono_ms)
{
    enum xid_effect effect = effect_of(&h->o, ev->code);
    if (card)
        patient_of(h, card->uuid)->last_xid = ev->code;
    if (effect == XID_IGNORED || effect == XID_LOOK)
        return effect;
    if (!card)
        return XID_LOOK;
    bool whole = ev->gi_id < 0 || xid_concerns_card(ev->code) || card->mode != GPU_MIG;
    const struct illness new = {.effect = effect,
                                .xid = ev->code,
                                .at_mono_ms = now_mono_ms,
                                .gi_id = whole ? -1 : ev->gi_id};
    fall_ill(patient_of(h, card->uuid), &new, card);
    return effect;
}

uint64_t health_last_xid(const struct health *h, const char *uuid)
{
    const struct patient *p = find_patient(h, uuid);
    return p ? p->last_xid : 0;
}

/* --- Recovery --- */

static bool has_instance(const struct gpu_card *card, int gi_id)
{
    for (unsigned i = 0; i < card->state.n; i++)
        if ((int)card->state.items[i].gi_id == gi_id)
            return true;
    return false;
}

/* True when the ill instance is gone. */
static bool is_another(const struct illness *ill, const struct gpu_card *card)
{
    if (ill->gi_id < 0)
        return false;
    if (card->mode != GPU_MIG || !has_instance(card, ill->gi_id))
        return true;
    for (unsigned i = 0; i < card->n_partitions; i++)
        for (unsigned k = 0; k < ill->n_uuids; k++)
            if (strcmp(card->partitions[i].uuid, ill->uuids[k]) == 0)
                return false;
    return ill->n_uuids != 0;
}

static bool is_over(const struct health *h, const struct patient *p, const struct illness *ill,
                    const struct gpu_card *card, int64_t began_mono_ms)
{
    int64_t since = began_mono_ms - ill->at_mono_ms;
    if (since < 0)
        return false;
    if (is_another(ill, card) || p->was_lost ||
        (p->was_read && vitals_show_reset(&p->vitals, &card->vitals)))
        return true;
    if (since >= h->o.settle_ms && (vitals_are_well(&card->vitals) || ill->xid == XID_OFF_THE_BUS))
        return true;
    return since >= h->o.hold_ms && ill->effect == XID_SUSPECT && !card->vitals.action_known;
}

void health_reading(struct health *h, const struct gpu_card *card, int64_t began_mono_ms)
{
    struct patient *p = find_patient(h, card->uuid);
    if (!*card->uuid || (!p && card->unread))
        return;
    p = p ? p : patient_of(h, card->uuid);
    if (card->unread) {
        p->was_lost |= strcmp(card->unhealthy_reason, "GPULost") == 0;
        return;
    }
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (is_over(h, p, &p->items[i], card, began_mono_ms))
            continue;
        p->items[n] = p->items[i];
        if (p->items[n].n_uuids == 0)
            note_uuids(&p->items[n], card);
        n++;
    }
    assert(n <= p->n);
    p->n = n;
    p->was_lost = false;
    p->was_read = true;
    p->vitals = card->vitals;
}

static bool is_among(const char *uuid, const char *const *uuids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(uuid, uuids[i]) == 0)
            return true;
    return false;
}

void health_keep(struct health *h, const char *const *uuids, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < h->n; i++) {
        if (is_among(h->patients[i].uuid, uuids, n))
            h->patients[kept++] = h->patients[i];
        else
            free(h->patients[i].items);
    }
    assert(kept <= h->n);
    h->n = kept;
}

/* --- Texts --- */

static const char *reason_of(const struct illness *ill)
{
    return ill->xid == XID_OFF_THE_BUS ? "GPULost" : "XidError";
}

void health_apply(const struct health *h, struct gpu_card *card)
{
    const struct patient *p = find_patient(h, card->uuid);
    const struct illness *whole = p ? illness_of(p, -1) : NULL;
    if (whole && card->healthy)
        gpu_card_mark_ill(card, reason_of(whole), whole->message);
    for (unsigned i = 0; i < card->n_partitions; i++) {
        struct gpu_partition *part = &card->partitions[i];
        part->healthy &= card->healthy && !(p && illness_of(p, (int)part->gi_id));
    }
}

static bool describe_illness(const struct health *h, const char *uuid, int gi_id,
                             const char **ret_reason, const char **ret_message)
{
    const struct patient *p = find_patient(h, uuid);
    const struct illness *ill = p ? illness_of(p, gi_id) : NULL;
    if (!ill)
        return false;
    *ret_reason = reason_of(ill);
    *ret_message = ill->message;
    return true;
}

bool health_instance(const struct health *h, const char *uuid, unsigned gi_id,
                     const char **ret_reason, const char **ret_message)
{
    return describe_illness(h, uuid, (int)gi_id, ret_reason, ret_message);
}

bool health_card(const struct health *h, const char *uuid, const char **ret_reason,
                 const char **ret_message)
{
    return describe_illness(h, uuid, /* gi_id= */ -1, ret_reason, ret_message);
}
