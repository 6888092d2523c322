/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "nodeagent/vendor/nvidia/nvml_telemetry.h"

/*
 * GPM: the counters of the hardware, from Hopper on, as means between two samples. Samples are at
 * least 100 ms apart, as the counters are not refreshed more often (NVIDIA, NVML API Reference
 * Guide, nvmlGpmMetricsGet).
 */
enum { SHORTEST_SPAN_MS = 100 };

/* GPM's metrics. NVML's number is multiplied by factor; more than `most` is nonsense. */
static const struct metric {
    enum telemetry_value value;
    unsigned id;
    double factor, most;
} metrics[] = {
#define RATIO(name)       TELEMETRY_##name##_ACTIVE, NVML_GPM_##name, 0.01, 1
#define BYTES(name, wire) TELEMETRY_##name##_BYTES, NVML_GPM_##wire, 1048576, 1e14
    {RATIO(GRAPHICS)},
    {RATIO(SM)},
    {TELEMETRY_SM_OCCUPANCY, NVML_GPM_SM_OCCUPANCY, 0.01, 1},
    {RATIO(TENSOR)},
    {RATIO(FP64)},
    {RATIO(FP32)},
    {RATIO(FP16)},
    {RATIO(DRAM)},
    {BYTES(PCIE_TX, PCIE_TX)},
    {BYTES(PCIE_RX, PCIE_RX)},
    {BYTES(NVLINK_TX, NVLINK_TX)},
    {BYTES(NVLINK_RX, NVLINK_RX)},
#undef RATIO
#undef BYTES
};

static_assert(ARRAY_LEN(metrics) <= ARRAY_LEN(((struct nvml_gpm_metrics *)0)->metrics), "room");

/* Rounding may make a little more than everything of it. */
static double sound(const struct metric *of, double value)
{
    value *= of->factor;
    if (!(value >= 0) || value > of->most * 1.01)
        return (double)NAN;
    return value < of->most ? value : of->most;
}

/* Asks whether the card has GPM, until there is an answer. */
static int learn(struct nvml_measure *m, struct err *e)
{
    struct nvml *n = m->n;
    struct nvml_gpm_support support = {.version = NVML_GPM_VERSION};
    if (m->kept->gpm_told)
        return 0;
    nvml_ret rc = NVML_CALL(n, gpm_support, m->device, &support);
    m->kept->gpm_told = nvml_is_told(rc);
    m->kept->has_gpm = rc == NVML_SUCCESS && support.isSupportedDevice;
    return nvml_measure_check(n, nvml_names.gpm_support, rc, e);
}

static void compare(struct nvml *n, nvml_gpm_sample before, nvml_gpm_sample now,
                    struct telemetry_values *ret)
{
    struct nvml_gpm_metrics get = {.version = NVML_GPM_VERSION,
                                   .numMetrics = ARRAY_LEN(metrics),
                                   .sample1 = before,
                                   .sample2 = now};
    for (size_t i = 0; i < ARRAY_LEN(metrics); i++)
        get.metrics[i] =
            (struct nvml_gpm_metric){.metricId = metrics[i].id, .nvmlReturn = NVML_NOT_SUPPORTED};
    if (NVML_CALL(n, gpm_metrics, &get) != NVML_SUCCESS)
        return;
    for (size_t i = 0; i < ARRAY_LEN(metrics); i++)
        if (get.metrics[i].nvmlReturn == NVML_SUCCESS)
            ret->of[metrics[i].value] = sound(&metrics[i], get.metrics[i].value);
}

void nvml_gpm_forget(struct nvml *n, struct nvml_span *s)
{
    if (s->last)
        (void)NVML_CALL(n, gpm_free, s->last);
    *s = (struct nvml_span){0};
}

static nvml_ret take(struct nvml_measure *m, bool whole, unsigned gi_id, nvml_gpm_sample *ret)
{
    struct nvml *n = m->n;
    nvml_ret rc = NVML_CALL(n, gpm_alloc, ret);
    if (rc != NVML_SUCCESS || !*ret)
        return rc == NVML_SUCCESS ? NVML_INSUFFICIENT_RESOURCES : rc;
    rc = whole ? NVML_CALL(n, gpm_get, m->device, *ret)
               : NVML_CALL(n, gpm_get_part, m->device, gi_id, *ret);
    if (rc != NVML_SUCCESS) {
        (void)NVML_CALL(n, gpm_free, *ret);
        *ret = NULL;
    }
    return rc;
}

int nvml_gpm_read(struct nvml_measure *m, struct nvml_measured_part *part, unsigned gi_id,
                  struct telemetry_values *ret, struct err *e)
{
    struct nvml *n = m->n;
    struct nvml_span *s = part ? &part->span : &m->kept->whole;
    struct nvml_span now = {.at_mono_ms = clock_mono_ms(n->clock)};
    TRY(learn(m, e));
    if (!m->kept->has_gpm || (s->last && now.at_mono_ms - s->at_mono_ms < SHORTEST_SPAN_MS))
        return 0;
    nvml_ret rc = take(m, !part, gi_id, &now.last);
    if (now.last && s->last)
        compare(n, s->last, now.last, ret);
    nvml_gpm_forget(n, s);
    if (now.last)
        *s = now;
    return nvml_measure_check(n, part ? nvml_names.gpm_get_part : nvml_names.gpm_get, rc, e);
}
