/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/telemetry.h"
#include "nodeagent/vendor/metax/mxsml_find.h"

/*
 * The verb that reads what a card measures of itself, as far as the library reports it; the rest
 * stays NAN. Slices are no parts here: the library counts what they use by its own clock.
 */

enum { MAX_WAYS = 16 };

struct measure {
    struct mxsml *m;
    struct lib_pass pass;
    struct mxsml_known *known; /* NULL: not begun */
    unsigned dev;
    struct mxsml_info info;
};

/* The error of a card that does not answer at its number. It may have another number by now, so it
 * is not taken for gone. */
static int does_not_show(struct mxsml *m, const char *call, mxsml_ret rc, struct err *e)
{
    auto_err struct err why = {0};
    if (mxsml_check(m, call, rc, errno, &why) == 0)
        return 0;
    return err_set(e, ERR_UNAVAILABLE, "the card does not show: %s", err_msg(&why));
}

/* 0 for an answer that there is no value. */
static int check(struct mxsml *m, const char *call, mxsml_ret rc, struct err *e)
{
    bool is_lost = rc == MXSML_NO_DEVICE || rc == MXSML_INVALID_DEVICE || rc == MXSML_NO_VF;
    return is_lost ? does_not_show(m, call, rc, e) : 0;
}

/* --- values --- */

static double sound(double value, double most)
{
    return value >= 0 && value <= most ? value : (double)NAN;
}

static int read_temperature(struct measure *t, struct telemetry_values *ret, struct err *e)
{
    int hundredths = 0;
    mxsml_ret rc = MXSML_CALL(t->m, temperature, t->dev, MXSML_SENSOR_HOTSPOT, &hundredths);
    if (rc == MXSML_SUCCESS)
        ret->of[TELEMETRY_TEMPERATURE] = sound(hundredths / 100.0, 1000);
    return check(t->m, mxsml_names.temperature, rc, e);
}

static int read_power(struct measure *t, struct telemetry_values *ret, struct err *e)
{
    struct mxsml_power ways[MAX_WAYS] = {0};
    unsigned n = MAX_WAYS;
    double mw = 0;
    mxsml_ret rc = MXSML_CALL(t->m, power, t->dev, &n, ways);
    for (unsigned i = 0; rc == MXSML_SUCCESS && i < n && i < MAX_WAYS; i++)
        mw += ways[i].mw;
    if (rc == MXSML_SUCCESS && n > 0 && n <= MAX_WAYS)
        ret->of[TELEMETRY_POWER] = sound(mw / 1000, 1e5);
    return check(t->m, mxsml_names.power, rc, e);
}

static int read_power_limit(struct measure *t, struct telemetry_values *ret, struct err *e)
{
    unsigned mw = 0;
    mxsml_ret rc = MXSML_CALL(t->m, power_limit, t->dev, &mw);
    if (rc == MXSML_SUCCESS)
        ret->of[TELEMETRY_POWER_LIMIT] = sound(mw / 1000.0, 1e5);
    return check(t->m, mxsml_names.power_limit, rc, e);
}

static int read_usage(struct measure *t, struct telemetry_values *ret, struct err *e)
{
    int percent = 0;
    mxsml_ret rc = MXSML_CALL(t->m, usage, t->dev, MXSML_IP_CORES, &percent);
    if (rc == MXSML_SUCCESS)
        ret->of[TELEMETRY_UTILIZATION] = sound(percent, 100);
    return check(t->m, mxsml_names.usage, rc, e);
}

static int read_memory(struct measure *t, struct telemetry_values *ret, struct err *e)
{
    struct mxsml_memory kb = {0};
    mxsml_ret rc = MXSML_CALL(t->m, memory, t->dev, &kb);
    bool is_sound = rc == MXSML_SUCCESS && kb.vram_used >= 0 && kb.vram_total >= kb.vram_used &&
                    kb.vram_total >> 40 == 0;
    if (is_sound) {
        ret->of[TELEMETRY_MEMORY_TOTAL] = (double)kb.vram_total * 1024;
        ret->of[TELEMETRY_MEMORY_USED] = (double)kb.vram_used * 1024;
        ret->of[TELEMETRY_MEMORY_FREE] = (double)(kb.vram_total - kb.vram_used) * 1024;
    }
    return check(t->m, mxsml_names.memory, rc, e);
}

/* The library counts retired pages, too, and does not say for which errors. */
static int read_ecc(struct measure *t, struct telemetry_values *ret, struct err *e)
{
    struct mxsml_ecc v = {0};
    mxsml_ret rc = MXSML_CALL(t->m, ecc_errors, t->dev, &v);
    if (rc == MXSML_SUCCESS) {
        ret->of[TELEMETRY_ECC_CORRECTED] = (double)v.sram_corrected + v.dram_corrected;
        ret->of[TELEMETRY_ECC_UNCORRECTED] = (double)v.sram_uncorrected + v.dram_uncorrected;
    }
    return check(t->m, mxsml_names.ecc_errors, rc, e);
}

static int read_values(struct measure *t, struct telemetry_values *ret, struct err *e)
{
    telemetry_values_init(ret);
    TRY(read_temperature(t, ret, e));
    TRY(read_power(t, ret, e));
    TRY(read_power_limit(t, ret, e));
    TRY(read_usage(t, ret, e));
    TRY(read_memory(t, ret, e));
    return read_ecc(t, ret, e);
}

/* --- processes --- */

struct found {
    struct telemetry_process *items; /* owned */
    size_t n;
};

static void add_process(const struct measure *t, const struct mxsml_process *p, struct found *ret)
{
    unsigned n = p->n_gpus < ARRAY_LEN(p->gpus) ? p->n_gpus : ARRAY_LEN(p->gpus);
    for (unsigned i = 0; p->pid && i < n; i++) {
        const struct mxsml_process_gpu *on = &p->gpus[i];
        if (strncasecmp(on->bdf, t->info.bdf, sizeof(on->bdf)) != 0)
            continue;
        *XPUSH(ret->items, ret->n) =
            (struct telemetry_process){.pid = p->pid,
                                       .gi_id = on->slice_id >= 0 ? on->slice_id : -1,
                                       .memory_bytes = (double)on->memory_bytes,
                                       .utilization = (double)NAN};
    }
}

static int read_processes(struct measure *t, struct telemetry_card *card, struct err *e)
{
    struct mxsml_process_list list;
    struct found found = {0};
    mxsml_ret rc = mxsml_ask_processes(t->m, t->dev, &list);
    auto_free struct mxsml_process *items = list.items;
    for (unsigned i = 0; rc == MXSML_SUCCESS && i < list.n && i < list.room; i++)
        add_process(t, &items[i], &found);
    telemetry_take_processes(card, found.items, found.n);
    free(found.items);
    return check(t->m, mxsml_names.processes, rc, e);
}

/* --- the verb --- */

/* Takes the card for this measure, with the number that it had when it was last seen. */
static int take(struct measure *t, const char *uuid, struct err *e)
{
    struct mxsml *m = t->m;
    HOLD(&m->holds.mu);
    struct mxsml_known *known = mxsml_known_of(m, uuid);
    if (!known)
        return err_set(e, ERR_NOT_FOUND, "no card %s was read", uuid);
    if (known->dev == UINT_MAX || known->epoch != m->epoch)
        return err_set(e, ERR_UNAVAILABLE,
                       "card %s was not read since the library looked for cards", uuid);
    if (!lib_hold_try(&known->measured)) {
        auto_free char *what = xasprintf("card %s is measured by another thread", uuid);
        return lib_hold_refuse(&known->measured, what, e);
    }
    t->known = known;
    t->dev = known->dev;
    return 0;
}

static int begin(struct measure *t, const char *uuid, struct err *e)
{
    TRY(lib_gate_enter_at_once(t->m->gate, &t->pass, e));
    TRY(take(t, uuid, e));
    mxsml_ret rc = MXSML_CALL(t->m, info, t->dev, &t->info);
    if (rc != MXSML_SUCCESS)
        return does_not_show(t->m, mxsml_names.info, rc, e);
    TRY(mxsml_sound_info(t->dev, &t->info, e));
    if (strcmp(t->info.uuid, uuid) != 0)
        return err_set(e, ERR_UNAVAILABLE, "card %s has another number now", uuid);
    return 0;
}

static void end(struct measure *t)
{
    if (t->known) {
        HOLD(&t->m->holds.mu);
        lib_hold_give(&t->m->holds, &t->known->measured);
    }
    lib_gate_leave(&t->pass);
}
AUTO_DEFINE(measure, struct measure, end)

/* The values are few, and none is dear: all are read, whatever is wanted. */
int mxsml_op_measure(struct gpu *g, const char *uuid, uint64_t wanted, struct telemetry_card *ret,
                     struct err *e)
{
    (void)wanted;
    AUTO(measure) struct measure t = {.m = (struct mxsml *)g};
    auto_free struct telemetry_card *card = xcalloc(1, sizeof(*card));
    TRY(begin(&t, uuid, e));
    TRY(read_values(&t, &card->values, e));
    TRY(read_processes(&t, card, e));
    (void)snprintf(card->uuid, sizeof(card->uuid), "%s", uuid);
    card->read_mono_ms = clock_mono_ms(clock_real());
    *ret = *card;
    return 0;
}
