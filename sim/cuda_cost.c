/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_cost.h"

#include <string.h>

#include "sim/cuda_traits.h"

#define LAUNCH_NS UINT64_C(2000)
#define WAVE_NS   UINT64_C(5000)

bool cost_is_told(const struct ptx_entry *entry)
{
    size_t length = strlen(entry->name);
    return length > 3 && strcmp(entry->name + length - 3, "_ns") == 0 && entry->param_count > 0 &&
           entry->params[0].is_u64 && entry->params[0].bytes == sizeof(uint64_t);
}

uint64_t cost_wave(const struct model *model, unsigned int threads)
{
    const struct traits *t = traits_of(model);
    unsigned int warps = (threads + 31) / 32 * 32;
    unsigned int blocks = t->threads_per_sm / (warps > 0 ? warps : 32);
    return (uint64_t)model->sms * (blocks < t->blocks_per_sm ? blocks : t->blocks_per_sm);
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
    return traits_of(model)->shared_per_block;
}
