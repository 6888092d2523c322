/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/nvidia/nvml_telemetry.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/gpu/sound.h"

/*
 * The verb that reads what a card measures of itself. A value that the card or its driver does not
 * report stays NAN, and so does one that cannot be.
 */

/* A session that ends, or a lost card: nothing further can be measured. */
static bool ends_measure(nvml_ret rc)
{
    return rc == NVML_GPU_IS_LOST || rc == NVML_UNINITIALIZED || rc == NVML_DRIVER_NOT_LOADED ||
           rc == NVML_LIB_RM_VERSION_MISMATCH;
}

int nvml_measure_check(struct nvml *n, const char *call, nvml_ret rc, struct err *e)
{
    return ends_measure(rc) ? nvml_check(n, call, rc, e) : 0;
}

/* --- numbers: a call each --- */

#define PERCENT 100
#define MHZ     100000

/* X(value, function, factor, the most that NVML can mean, arguments). The period of a figure, in
 * microseconds, is not wanted. */
#define NUMBERS(X)                                                                                 \
    X(SM_CLOCK, clock, 1, MHZ, d, NVML_CLOCK_SM, ret)                                              \
    X(MEMORY_CLOCK, clock, 1, MHZ, d, NVML_CLOCK_MEMORY, ret)                                      \
    X(TEMPERATURE, temperature, 1, 1000, d, NVML_TEMPERATURE_GPU, ret)                             \
    X(POWER, power, 0.001, 1e8, d, ret)                                                            \
    X(POWER_LIMIT, power_limit, 0.001, 1e8, d, ret)                                                \
    X(FAN_SPEED, fan, 1, 2 * PERCENT, d, ret)                                                      \
    X(PSTATE, pstate, 1, 15, d, ret)                                                               \
    X(PCIE_TX, pcie, 1, 1e12, d, NVML_PCIE_TX, ret)                                                \
    X(PCIE_RX, pcie, 1, 1e12, d, NVML_PCIE_RX, ret)                                                \
    X(ENCODER_UTILIZATION, encoder, 1, PERCENT, d, ret, period)                                    \
    X(DECODER_UTILIZATION, decoder, 1, PERCENT, d, ret, period)

#define ASK(name, fn, factor, most, ...)                                                           \
    static nvml_ret ask_##name(struct nvml *n, nvml_device d, unsigned *ret, unsigned *period)     \
    {                                                                                              \
        (void)period;                                                                              \
        return NVML_CALL(n, fn, __VA_ARGS__);                                                      \
    }
/* NOLINTNEXTLINE(readability-non-const-parameter): one type for all rows */
NUMBERS(ASK)

static const struct number {
    enum telemetry_value value;
    double factor, most;
    nvml_ret (*ask)(struct nvml *n, nvml_device d, unsigned *ret, unsigned *period);
    const char *const *call;
} numbers[] = {
#define ROW(name, fn, times, bound, ...)                                                           \
    {TELEMETRY_##name, times, bound, ask_##name, &nvml_names.fn},
    NUMBERS(ROW)
#undef ROW
};

/* A call takes up to 20 ms (PCIe's throughput), so the driver is asked for what is wanted only. */
static int read_numbers(struct nvml_measure *m, struct telemetry_values *ret, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        const struct number *of = &numbers[i];
        unsigned value = 0;
        unsigned period = 0;
        if (!(m->wanted & TELEMETRY_BIT(of->value)))
            continue;
        nvml_ret rc = of->ask(m->n, m->device, &value, &period);
        TRY(nvml_measure_check(m->n, *of->call, rc, e));
        if (rc == NVML_SUCCESS && value <= of->most)
            ret->of[of->value] = value * of->factor;
    }
    return 0;
}

/* --- fields: one call for all of them --- */

/* Rows of one value are added up. */
static const struct field {
    enum telemetry_value value;
    unsigned id;
    double most;
} fields[] = {
#define COUNTER 0x1p63
    {TELEMETRY_MEMORY_TEMPERATURE, NVML_FI_MEMORY_TEMP, 1000},
    {TELEMETRY_ENERGY, NVML_FI_TOTAL_ENERGY, COUNTER},
    {TELEMETRY_POWER_VIOLATION, NVML_FI_PERF_POLICY_POWER, COUNTER},
    {TELEMETRY_THERMAL_VIOLATION, NVML_FI_PERF_POLICY_THERMAL, COUNTER},
    {TELEMETRY_PCIE_REPLAYS, NVML_FI_PCIE_REPLAYS, COUNTER},
    {TELEMETRY_NVLINK_BYTES, NVML_FI_NVLINK_DATA_TX, COUNTER},
    {TELEMETRY_NVLINK_BYTES, NVML_FI_NVLINK_DATA_RX, COUNTER},
    {TELEMETRY_NVLINK_CRC_FLIT_ERRORS, NVML_FI_NVLINK_CRC_FLIT_ERRORS, COUNTER},
    {TELEMETRY_NVLINK_CRC_DATA_ERRORS, NVML_FI_NVLINK_CRC_DATA_ERRORS, COUNTER},
    {TELEMETRY_NVLINK_REPLAYS, NVML_FI_NVLINK_REPLAYS, COUNTER},
    {TELEMETRY_NVLINK_RECOVERIES, NVML_FI_NVLINK_RECOVERIES, COUNTER},
    {TELEMETRY_ECC_CORRECTED, NVML_FI_ECC_SBE_VOL_TOTAL, COUNTER},
    {TELEMETRY_ECC_UNCORRECTED, NVML_FI_ECC_DBE_VOL_TOTAL, COUNTER},
    {TELEMETRY_ECC_CORRECTED_TOTAL, NVML_FI_ECC_SBE_AGG_TOTAL, COUNTER},
    {TELEMETRY_ECC_UNCORRECTED_TOTAL, NVML_FI_ECC_DBE_AGG_TOTAL, COUNTER},
    {TELEMETRY_RETIRED_CORRECTED, NVML_FI_RETIRED_SBE, 1e9},
    {TELEMETRY_RETIRED_UNCORRECTED, NVML_FI_RETIRED_DBE, 1e9},
    {TELEMETRY_RETIRED_PENDING, NVML_FI_RETIRED_PENDING, 1},
    {TELEMETRY_REMAPPED_CORRECTABLE, NVML_FI_REMAPPED_COR, 1e9},
    {TELEMETRY_REMAPPED_UNCORRECTABLE, NVML_FI_REMAPPED_UNC, 1e9},
    {TELEMETRY_REMAP_PENDING, NVML_FI_REMAPPED_PENDING, 1},
    {TELEMETRY_REMAP_FAILED, NVML_FI_REMAPPED_FAILURE, 1},
#undef COUNTER
};

static double number_of(const struct nvml_field_value *v)
{
    switch (v->valueType) {
    case NVML_VALUE_DOUBLE:
        return v->value.dVal;
    case NVML_VALUE_UNSIGNED_INT:
        return v->value.uiVal;
    case NVML_VALUE_UNSIGNED_LONG:
    case NVML_VALUE_UNSIGNED_LONG_LONG:
        return (double)v->value.ullVal;
    case NVML_VALUE_SIGNED_LONG_LONG:
        return (double)v->value.sllVal;
    case NVML_VALUE_SIGNED_INT:
        return v->value.siVal;
    case NVML_VALUE_UNSIGNED_SHORT:
        return v->value.usVal;
    default:
        return (double)NAN;
    }
}

static void add_field(const struct field *of, const struct nvml_field_value *v,
                      struct telemetry_values *ret)
{
    double *sum = &ret->of[of->value];
    double value = number_of(v);
    if (v->nvmlReturn != NVML_SUCCESS || !(value >= 0 && value <= of->most))
        return;
    *sum = isnan(*sum) ? value : *sum + value;
}

static bool is_of_links(unsigned id)
{
    return id == NVML_FI_NVLINK_DATA_TX || id == NVML_FI_NVLINK_DATA_RX;
}

static int read_fields(struct nvml_measure *m, struct telemetry_values *ret, struct err *e)
{
    struct nvml *n = m->n;
    struct nvml_field_value v[ARRAY_LEN(fields)] = {0};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        v[i].fieldId = fields[i].id;
        v[i].scopeId = is_of_links(fields[i].id) ? NVML_ALL_LINKS : 0;
        v[i].nvmlReturn = NVML_NOT_SUPPORTED;
    }
    nvml_ret rc = NVML_CALL(n, field_values, m->device, (int)ARRAY_LEN(fields), v);
    TRY(nvml_measure_check(n, nvml_names.field_values, rc, e));
    for (size_t i = 0; rc == NVML_SUCCESS && i < ARRAY_LEN(fields); i++) {
        TRY(nvml_measure_check(n, nvml_names.field_values, v[i].nvmlReturn, e));
        add_field(&fields[i], &v[i], ret);
    }
    return 0;
}

/* --- calls with several values --- */

static void note_memory(const struct nvml_memory_v2 *v, struct telemetry_values *ret)
{
    if (v->total >> 50 || v->used > v->total || v->free > v->total || v->reserved > v->total)
        return;
    ret->of[TELEMETRY_MEMORY_TOTAL] = (double)v->total;
    ret->of[TELEMETRY_MEMORY_FREE] = (double)v->free;
    ret->of[TELEMETRY_MEMORY_USED] = (double)v->used;
    ret->of[TELEMETRY_MEMORY_RESERVED] = (double)v->reserved;
}

/* The older call counts what the driver has reserved as used. */
static int read_memory(struct nvml *n, nvml_device d, struct telemetry_values *ret, struct err *e)
{
    struct nvml_memory_v2 v = {.version = NVML_STRUCT_VERSION(struct nvml_memory_v2, 2)};
    struct nvml_memory old = {0};
    nvml_ret rc = NVML_CALL(n, memory_v2, d, &v);
    TRY(nvml_measure_check(n, nvml_names.memory_v2, rc, e));
    if (rc == NVML_SUCCESS) {
        note_memory(&v, ret);
        return 0;
    }
    rc = NVML_CALL(n, memory, d, &old);
    if (rc == NVML_SUCCESS) {
        v = (struct nvml_memory_v2){.total = old.total, .free = old.free, .used = old.used};
        note_memory(&v, ret);
        ret->of[TELEMETRY_MEMORY_RESERVED] = (double)NAN;
    }
    return nvml_measure_check(n, nvml_names.memory, rc, e);
}

/* A card with MIG on has no such figure. */
static int read_utilization(struct nvml_measure *m, struct telemetry_values *ret, struct err *e)
{
    struct nvml *n = m->n;
    struct nvml_utilization v = {0};
    nvml_ret rc = NVML_CALL(n, utilization, m->device, &v);
    if (rc == NVML_SUCCESS && v.gpu <= PERCENT)
        ret->of[TELEMETRY_UTILIZATION] = v.gpu;
    if (rc == NVML_SUCCESS && v.memory <= PERCENT)
        ret->of[TELEMETRY_COPY_UTILIZATION] = v.memory;
    return nvml_measure_check(n, nvml_names.utilization, rc, e);
}

/* Bits that a double does not hold mean nothing yet. */
static int read_reasons(struct nvml_measure *m, struct telemetry_values *ret, struct err *e)
{
    struct nvml *n = m->n;
    unsigned long long bits = 0;
    nvml_ret rc = NVML_CALL(n, clock_reasons, m->device, &bits);
    if (rc == NVML_SUCCESS && !(bits >> 53))
        ret->of[TELEMETRY_CLOCK_EVENT_REASONS] = (double)bits;
    return nvml_measure_check(n, nvml_names.clock_reasons, rc, e);
}

static int read_whole(struct nvml_measure *m, struct telemetry_values *ret, struct err *e)
{
    telemetry_values_init(ret);
    TRY(read_fields(m, ret, e));
    TRY(read_numbers(m, ret, e));
    TRY(read_memory(m->n, m->device, ret, e));
    TRY(read_utilization(m, ret, e));
    TRY(read_reasons(m, ret, e));
    return nvml_gpm_read(m, /* part= */ NULL, /* gi_id= */ 0, ret, e);
}

/* --- parts --- */

/* The entry of an instance; an empty one for a new instance. NULL: there is no room. */
static struct nvml_measured_part *kept_part(struct nvml_measured *kept, const char *uuid)
{
    struct nvml_measured_part *empty = NULL;
    for (size_t i = 0; i < ARRAY_LEN(kept->parts); i++) {
        struct nvml_measured_part *p = &kept->parts[i];
        if (strcmp(p->uuid, uuid) == 0)
            return p;
        if (!empty && !*p->uuid)
            empty = p;
    }
    if (empty)
        (void)snprintf(empty->uuid, sizeof(empty->uuid), "%s", uuid);
    return empty;
}

static bool is_listed(const struct telemetry_card *card, unsigned gi_id)
{
    for (unsigned i = 0; i < card->n_parts; i++)
        if (card->parts[i].gi_id == gi_id)
            return true;
    return false;
}

/* Memory is the instance's, whichever of its MIG devices is asked. */
static int read_part(struct nvml_measure *m, nvml_device mig, const char *uuid,
                     struct telemetry_part *ret, struct err *e)
{
    struct nvml_measured_part *kept = kept_part(m->kept, uuid);
    telemetry_values_init(&ret->values);
    TRY(read_memory(m->n, mig, &ret->values, e));
    if (!kept)
        return 0;
    kept->seen = true;
    return nvml_gpm_read(m, kept, ret->gi_id, &ret->values, e);
}

/* The MIG device at an index, if there is one; an instance is listed with its first. */
static int read_mig_device(struct nvml_measure *m, unsigned index, struct telemetry_card *card,
                           struct err *e)
{
    struct nvml *n = m->n;
    nvml_device mig = NULL;
    unsigned gi_id = 0;
    char uuid[NVML_UUID_BYTES] = "";
    nvml_ret rc = NVML_CALL(n, mig_device, m->device, index, &mig);
    if (rc == NVML_SUCCESS)
        rc = NVML_CALL(n, gi_id, mig, &gi_id);
    if (rc == NVML_SUCCESS)
        rc = NVML_CALL(n, uuid, mig, uuid, sizeof(uuid));
    TRY(nvml_measure_check(n, nvml_names.mig_device, rc, e));
    SOUND_END(uuid);
    if (rc != NVML_SUCCESS || !*uuid || is_listed(card, gi_id) ||
        card->n_parts == TELEMETRY_MAX_PARTS)
        return 0;
    struct telemetry_part *part = &card->parts[card->n_parts++];
    part->gi_id = gi_id;
    return read_part(m, mig, uuid, part, e);
}

static void forget_unseen(struct nvml_measure *m)
{
    for (size_t i = 0; i < ARRAY_LEN(m->kept->parts); i++) {
        struct nvml_measured_part *p = &m->kept->parts[i];
        if (!p->seen) {
            nvml_gpm_forget(m->n, &p->span);
            p->uuid[0] = '\0';
        }
        p->seen = false;
    }
}

/* A part without compute instances is not listed: nothing can run there. */
static int read_parts(struct nvml_measure *m, struct telemetry_card *card, struct err *e)
{
    enum { MOST = 64 };
    struct nvml *n = m->n;
    unsigned count = 0;
    nvml_ret rc = NVML_CALL(n, mig_count, m->device, &count);
    TRY(nvml_measure_check(n, nvml_names.mig_count, rc, e));
    for (unsigned i = 0; rc == NVML_SUCCESS && i < count && i < MOST; i++)
        TRY(read_mig_device(m, i, card, e));
    forget_unseen(m);
    return 0;
}

/* --- the verb --- */

/* holds.mu is held. NULL: there is no room. */
static struct nvml_measured *kept_of(struct nvml *n, const char *uuid)
{
    size_t i = 0;
    while (i < n->n_measured && strcmp(n->measured[i]->uuid, uuid) != 0)
        i++;
    if (i == ARRAY_LEN(n->measured))
        return NULL;
    if (i == n->n_measured) {
        n->measured[n->n_measured++] = xcalloc(1, sizeof(**n->measured));
        (void)snprintf(n->measured[i]->uuid, sizeof(n->measured[i]->uuid), "%s", uuid);
    }
    return n->measured[i];
}

static int take_kept(struct nvml_measure *m, const char *uuid, struct err *e)
{
    struct nvml *n = m->n;
    HOLD(&n->holds.mu);
    struct nvml_measured *kept = kept_of(n, uuid);
    if (!kept)
        return err_set(e, ERR_TOO_LARGE, "more than %d cards", GPU_MAX_CARDS);
    if (!lib_hold_try(&kept->hold)) {
        auto_free char *what = xasprintf("card %s is measured by another thread", uuid);
        return lib_hold_refuse(&kept->hold, what, e);
    }
    m->kept = kept;
    return 0;
}

static int begin(struct nvml_measure *m, const char *uuid, struct err *e)
{
    TRY(lib_gate_enter_at_once(m->n->gate, &m->pass, e));
    m->device = nvml_facts_device(m->n, uuid);
    if (!m->device && !nvml_facts_knows(m->n, uuid))
        return err_set(e, ERR_NOT_FOUND, "no card %s was read", uuid);
    if (!m->device)
        return err_set(e, ERR_UNAVAILABLE, "card %s was not read in this session", uuid);
    return take_kept(m, uuid, e);
}

static void end(struct nvml_measure *m)
{
    if (m->kept) {
        HOLD(&m->n->holds.mu);
        lib_hold_give(&m->n->holds, &m->kept->hold);
    }
    lib_gate_leave(&m->pass);
}
AUTO_DEFINE(nvml_measure, struct nvml_measure, end)

int nvml_op_measure(struct gpu *g, const char *uuid, uint64_t wanted, struct telemetry_card *ret,
                    struct err *e)
{
    struct nvml *n = (struct nvml *)g;
    AUTO(nvml_measure) struct nvml_measure m = {.n = n, .wanted = wanted};
    auto_free struct telemetry_card *card = xcalloc(1, sizeof(*card));
    TRY(begin(&m, uuid, e));
    TRY(read_whole(&m, &card->values, e));
    TRY(read_parts(&m, card, e));
    TRY(nvml_measure_processes(&m, card, e));
    (void)snprintf(card->uuid, sizeof(card->uuid), "%s", uuid);
    card->read_mono_ms = clock_mono_ms(n->clock);
    *ret = *card;
    return 0;
}

void nvml_measures_forget(struct nvml *n)
{
    while (n->n_measured > 0) { /* others look at them inside the gate only */
        struct nvml_measured *kept = n->measured[--n->n_measured];
        assert(!kept->hold.by);
        nvml_gpm_forget(n, &kept->whole);
        for (size_t i = 0; i < ARRAY_LEN(kept->parts); i++)
            nvml_gpm_forget(n, &kept->parts[i].span);
        free(TAKE(n->measured[n->n_measured]));
    }
}
