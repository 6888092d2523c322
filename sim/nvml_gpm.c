/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML: GPM, from Hopper on: the mean of a card's counters between two samples. NVIDIA's interface
 * is in "NVML API Reference Guide", GPM Functions and Structs. That wants 100 ms between two
 * samples, whose counters are not newer; here they are.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "sim/cuda_timeslice.h"
#include "sim/mig.h"
#include "sim/nvml_calls.h"
#include "sim/nvml_load.h"

/* A sample: a client's buffer, and what was read into it. */
struct nvml_gpm_sample {
    struct nvml_gpm_sample *next;
    uint32_t gpu; /* HW_NONE: nothing was read into it */
    uint64_t gi;  /* serial of the instance; 0: the whole card */
    int64_t at_ns, load_ns;
    unsigned int links;
};

/* The buffers given out. A bad pointer of a client is compared and never followed. */
static struct {
    pthread_mutex_t mu;
    struct nvml_gpm_sample *first;
} samples = {.mu = PTHREAD_MUTEX_INITIALIZER};

/* mu is held. NULL: it points to none. */
static struct nvml_gpm_sample **find(const struct nvml_gpm_sample *sample)
{
    struct nvml_gpm_sample **at = &samples.first;
    while (*at != NULL && *at != sample)
        at = &(*at)->next;
    return *at != NULL ? at : NULL;
}

static bool copy_out(const struct nvml_gpm_sample *sample, struct nvml_gpm_sample *ret)
{
    (void)pthread_mutex_lock(&samples.mu);
    bool found = find(sample) != NULL;
    if (found)
        *ret = *sample;
    (void)pthread_mutex_unlock(&samples.mu);
    return found;
}

static int copy_in(struct nvml_gpm_sample *sample, const struct nvml_gpm_sample *content)
{
    (void)pthread_mutex_lock(&samples.mu);
    bool found = find(sample) != NULL;
    if (found) {
        struct nvml_gpm_sample *next = sample->next;
        *sample = *content;
        sample->next = next;
    }
    (void)pthread_mutex_unlock(&samples.mu);
    return found ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *gpmSample)
{
    struct call c = {.id = CALL_nvmlGpmSampleAlloc};
    int rc = call_enter(&c, /* handle= */ NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS && gpmSample == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    struct nvml_gpm_sample *s = rc == NVML_SUCCESS ? calloc(1, sizeof(*s)) : NULL;
    if (rc == NVML_SUCCESS && s == NULL)
        rc = NVML_ERROR_MEMORY;
    if (s != NULL) {
        s->gpu = HW_NONE;
        (void)pthread_mutex_lock(&samples.mu);
        s->next = samples.first;
        samples.first = s;
        (void)pthread_mutex_unlock(&samples.mu);
        *gpmSample = s;
    }
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t gpmSample)
{
    struct call c = {.id = CALL_nvmlGpmSampleFree};
    int rc = call_enter(&c, /* handle= */ NULL, ON_NOTHING);
    if (rc != NVML_SUCCESS)
        return call_leave(&c, rc);
    (void)pthread_mutex_lock(&samples.mu);
    struct nvml_gpm_sample **at = find(gpmSample);
    if (at != NULL)
        *at = gpmSample->next;
    (void)pthread_mutex_unlock(&samples.mu);
    if (at != NULL)
        free(gpmSample);
    return call_leave(&c, at != NULL ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT);
}

static bool has_gpm(const struct call *c)
{
    return hw_model(c->gpu)->arch >= ARCH_HOPPER;
}

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *gpmSupport)
{
    struct call c = {.id = CALL_nvmlGpmQueryDeviceSupport};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && gpmSupport == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && gpmSupport->version != NVML_GPM_VERSION)
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS)
        gpmSupport->isSupportedDevice = has_gpm(&c);
    return call_leave(&c, rc);
}

/* gi NULL: of the card. MIG switches NVLinks off. */
static int take(const struct call *c, const struct hw_gi *gi, nvmlGpmSample_t sample)
{
    const int64_t now_ns = timeslices_now();
    const struct nvml_gpm_sample content = {
        .gpu = c->gpu_index,
        .gi = gi != NULL ? gi->serial : 0,
        .at_ns = now_ns,
        .load_ns = load_ns(c, gi, now_ns),
        .links = c->hw->links != LINKS_NONE && !c->gpu->mig_current ? hw_model(c->gpu)->nvlinks : 0,
    };
    return copy_in(sample, &content);
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t gpmSample)
{
    struct call c = {.id = CALL_nvmlGpmSampleGet};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && !has_gpm(&c))
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS)
        rc = take(&c, NULL, gpmSample);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gpuInstanceId,
                                 nvmlGpmSample_t gpmSample)
{
    struct call c = {.id = CALL_nvmlGpmMigSampleGet};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && (!has_gpm(&c) || !c.gpu->mig_current))
        rc = NVML_ERROR_NOT_SUPPORTED;
    const struct hw_gi *gi = rc == NVML_SUCCESS ? mig_find_gi(c.gpu, gpuInstanceId) : NULL;
    if (rc == NVML_SUCCESS && gi == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = take(&c, gi, gpmSample);
    return call_leave(&c, rc);
}

/* --- metrics --- */

/* How much each is while the card works. Assumed: a training job in half precision. */
static const struct metric {
    const char *name, *unit;
    double at_work;
    unsigned int id;
    bool of_links; /* of each NVLink */
} metrics[] = {
    {"Graphics utilization", "%", 100, 1, false},
    {"SM utilization", "%", 90, 2, false},
    {"SM occupancy", "%", 50, 3, false},
    {"Integer utilization", "%", 20, 4, false},
    {"Tensor utilization", "%", 60, 5, false},
    {"DFMA tensor utilization", "%", 0, 6, false},
    {"HMMA tensor utilization", "%", 60, 7, false},
    {"IMMA tensor utilization", "%", 0, 9, false},
    {"DRAM bandwidth utilization", "%", 40, 10, false},
    {"FP64 utilization", "%", 0, 11, false},
    {"FP32 utilization", "%", 30, 12, false},
    {"FP16 utilization", "%", 10, 13, false},
    {"PCIe transmit", "MiB/s", 1000, 20, false},
    {"PCIe receive", "MiB/s", 2000, 21, false},
    {"NVLink receive", "MiB/s", 1024, 60, true},
    {"NVLink transmit", "MiB/s", 1024, 61, true},
};

static const struct metric *metric_of(unsigned int id)
{
    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
        if (metrics[i].id == id)
            return &metrics[i];
    return NULL;
}

/* The part of the time between two samples in which there was work. */
static double part_at_work(const struct nvml_gpm_sample *a, const struct nvml_gpm_sample *b)
{
    if (a->at_ns == b->at_ns)
        return (double)NAN;
    double part = (double)(b->load_ns - a->load_ns) / (double)(b->at_ns - a->at_ns);
    return part < 1 ? part : 1;
}

static void fill(nvmlGpmMetric_t *m, double part, const struct nvml_gpm_sample *of)
{
    const struct metric *known = metric_of(m->metricId);
    m->nvmlReturn = known != NULL && (!known->of_links || of->links > 0) ? NVML_SUCCESS
                                                                         : NVML_ERROR_NOT_SUPPORTED;
    if (known == NULL)
        return;
    m->metricInfo.shortName = m->metricInfo.longName = known->name;
    m->metricInfo.unit = known->unit;
    m->value = part * known->at_work * (known->of_links ? of->links : 1);
}

static int fill_all(nvmlGpmMetricsGet_t *get)
{
    struct nvml_gpm_sample a;
    struct nvml_gpm_sample b;
    if (get->version != NVML_GPM_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (get->numMetrics > NVML_GPM_METRIC_MAX || !copy_out(get->sample1, &a) ||
        !copy_out(get->sample2, &b))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (a.gpu == HW_NONE || a.gpu != b.gpu || a.gi != b.gi || a.at_ns > b.at_ns)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; i < get->numMetrics; i++)
        fill(&get->metrics[i], part_at_work(&a, &b), &b);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *metricsGet)
{
    struct call c = {.id = CALL_nvmlGpmMetricsGet};
    int rc = call_enter(&c, /* handle= */ NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS)
        rc = metricsGet != NULL ? fill_all(metricsGet) : NVML_ERROR_INVALID_ARGUMENT;
    return call_leave(&c, rc);
}
