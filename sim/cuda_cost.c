/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_cost.h"

#include <string.h>

#define LAUNCH_NS UINT64_C(2000)
#define WAVE_NS   UINT64_C(5000)
#define KIB       1024U

/* Of a multiprocessor, by its compute capability: CUDA C++ Programming Guide, "Technical
 * Specifications per Compute Capability". */
static const struct limits {
    unsigned int major, minor;
    unsigned int blocks, threads, shared_kib;
} limits[] = {
    {7, 5, 16, 1024, 64},  {8, 0, 32, 2048, 163},  {8, 6, 16, 1536, 99},  {8, 9, 24, 1536, 99},
    {9, 0, 32, 2048, 227}, {10, 0, 32, 2048, 227}, {12, 0, 24, 1536, 99},
};

static const struct limits *limits_of(const struct model *m)
{
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (limits[i].major == m->cc_major && limits[i].minor == m->cc_minor)
            return &limits[i];
    }
    return &limits[1];
}

bool cost_is_told(const struct ptx_entry *entry)
{
    size_t length = strlen(entry->name);
    return length > 3 && strcmp(entry->name + length - 3, "_ns") == 0 && entry->param_count > 0 &&
           entry->params[0].is_u64 && entry->params[0].bytes == sizeof(uint64_t);
}

uint64_t cost_wave(const struct model *model, unsigned int threads)
{
    const struct limits *l = limits_of(model);
    unsigned int warps = (threads + 31) / 32 * 32;
    unsigned int blocks = l->threads / (warps > 0 ? warps : 32);
    return (uint64_t)model->sms * (blocks < l->blocks ? blocks : l->blocks);
}

uint64_t cost_of(const struct model *model, const struct ptx_entry *entry,
                 const struct cost_grid *grid, uint64_t told)
{
    uint64_t ns = 0;
    if (cost_is_told(entry))
        return told;
    uint64_t wave = cost_wave(model, grid->threads);
    uint64_t waves = grid->blocks / wave + (grid->blocks % wave > 0);
    if (__builtin_mul_overflow(waves, WAVE_NS, &ns) || ns > UINT64_MAX / 2)
        return UINT64_MAX / 2;
    return LAUNCH_NS + ns;
}

unsigned int cost_shared_limit(const struct model *model)
{
    return limits_of(model)->shared_kib * KIB;
}
