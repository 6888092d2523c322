/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/hw.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const struct model *hw_model(const struct hw_gpu *gpu)
{
    const struct model *m = model_find(gpu->model);
    assert(m != NULL);
    return m;
}

bool hw_has_nvidia(const struct hw *hw)
{
    return hw->gpu_count > 0 || hw->mx_count == 0;
}

uint64_t hw_next_serial(struct hw *hw)
{
    return ++hw->serials;
}

/* splitmix64. Its state is part of the hardware, so a seeded fleet repeats itself. */
static uint64_t next_random(struct hw *hw)
{
    uint64_t z = hw->random += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

void hw_new_uuid(struct hw *hw, const char *prefix, char *ret_uuid, size_t size)
{
    uint64_t a = next_random(hw);
    uint64_t b = next_random(hw);
    (void)snprintf(ret_uuid, size, "%s%08x-%04x-4%03x-8%03x-%012llx", prefix, (unsigned)(a >> 32),
                   (unsigned)(a >> 16 & 0xFFFF), (unsigned)(a & 0xFFF), (unsigned)(b >> 52),
                   (unsigned long long)(b & 0xFFFFFFFFFFFF));
}

void hw_emit(struct hw *hw, uint64_t type, uint64_t data, uint32_t gpu, uint32_t gi, uint32_t ci)
{
    uint64_t sequence = ++hw->event_sequence;
    hw->events[sequence % HW_MAX_EVENTS] = (struct hw_event){.sequence = sequence,
                                                             .type = type,
                                                             .data = data,
                                                             .gpu = gpu,
                                                             .gi = gi,
                                                             .ci = ci};
}

void hw_emit_text(struct hw *hw, uint64_t type, const char *text, uint32_t metax)
{
    hw_emit(hw, type, 0, HW_METAX + metax, HW_NONE, HW_NONE);
    struct hw_event *e = &hw->events[hw->event_sequence % HW_MAX_EVENTS];
    (void)snprintf(e->text, sizeof(e->text), "%s", text);
}

size_t hw_size(const struct hw *hw)
{
    return offsetof(struct hw, procs) + hw->proc_reach * sizeof(hw->procs[0]);
}

struct hw_proc *hw_free_proc(struct hw *hw)
{
    for (size_t i = 0; i < HW_MAX_PROCS; i++) {
        if (i < hw->proc_reach && hw->procs[i].pid != 0)
            continue;
        if (i == hw->proc_reach)
            hw->proc_reach++;
        return &hw->procs[i];
    }
    return NULL;
}

static bool is_in_instance(const struct hw_proc *p, uint32_t gpu, uint32_t gi, uint32_t ci)
{
    return p->pid != 0 && p->gpu == gpu && (gi == HW_NONE || p->gi == gi) &&
           (ci == HW_NONE || p->ci == ci);
}

unsigned int hw_count_procs(const struct hw *hw, uint32_t gpu, uint32_t gi, uint32_t ci)
{
    unsigned int count = 0;
    for (size_t i = 0; i < hw->proc_reach; i++)
        count += is_in_instance(&hw->procs[i], gpu, gi, ci);
    return count;
}

int64_t hw_work_ns(const struct hw_work *w, int64_t now_ns)
{
    int64_t since = now_ns > w->since_ns ? now_ns - w->since_ns : 0;
    return w->done_ns + since / 100 * (int64_t)w->percent;
}

bool hw_is_held(const struct hw_gpu *gpu, uint64_t percent, enum hw_hold why)
{
    if (why == HOLD_POWER)
        return percent >= 100;
    return percent > 0 &&
           gpu->temperature_c + percent * FULL_LOAD_CELSIUS / 100 >= SLOWDOWN_CELSIUS;
}

int64_t hw_held_ns(const struct hw_gpu *gpu, enum hw_hold why, int64_t now_ns)
{
    const struct hw_work *w = &gpu->work;
    bool is_held = now_ns > w->since_ns && hw_is_held(gpu, w->percent, why);
    return gpu->held_ns[why] + (is_held ? now_ns - w->since_ns : 0);
}

static uint64_t load_on(const struct hw *hw, uint32_t gpu, uint32_t gi)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < hw->proc_reach; i++)
        if (is_in_instance(&hw->procs[i], gpu, gi, HW_NONE))
            sum += hw->procs[i].load;
    return sum < 100 ? sum : 100;
}

static void begin_work(struct hw_work *w, uint64_t percent, int64_t now_ns)
{
    *w = (struct hw_work){.percent = percent, .since_ns = now_ns, .done_ns = hw_work_ns(w, now_ns)};
}

/* An instance has its part of the card's time. */
void hw_count_work(struct hw *hw, uint32_t gpu, int64_t now_ns)
{
    struct hw_gpu *card = &hw->gpus[gpu];
    uint64_t parts = 0;
    for (size_t i = 0; i < HW_MAX_GI; i++) {
        struct hw_gi *gi = &card->gis[i];
        uint64_t load = gi->serial != 0 ? load_on(hw, gpu, gi->id) : 0;
        begin_work(&gi->work, load, now_ns);
        parts += load * gi->size;
    }
    uint64_t whole = card->mig_current ? parts / hw_model(card)->grid : load_on(hw, gpu, HW_NONE);
    for (enum hw_hold why = 0; why < HOLDS; why++)
        card->held_ns[why] = hw_held_ns(card, why, now_ns);
    begin_work(&card->work, whole, now_ns);
}
