/* SPDX-License-Identifier: Apache-2.0 */
/* cleave-simctl: whose kernels the cards have run. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "sim/cuda_timeslice.h"
#include "sim/simctl/simctl.h"

static struct timeslices slices = {.mu = PTHREAD_MUTEX_INITIALIZER};

static const struct timeslice_card *card_at(uint32_t gpu)
{
    return &slices.file->cards[gpu];
}

static bool is_of(uint32_t seat, uint32_t gpu)
{
    const struct timeslice_seat *s = &slices.file->seats[seat];
    return s->used && s->gpu == gpu && timeslices_is_live(&slices, seat);
}

static uint64_t first_kept(const struct timeslice_card *card)
{
    return card->count > TIMESLICE_PAST ? card->count - TIMESLICE_PAST : 0;
}

static json_t *past_json(const struct timeslice_card *card)
{
    json_t *list = json_array();
    for (uint64_t i = first_kept(card); i < card->count; i++) {
        const struct timeslice_past *p = &card->past[i % TIMESLICE_PAST];
        (void)json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:I}", "context",
                                                    (json_int_t)p->seat, "pid", (json_int_t)p->pid,
                                                    "startNs", (json_int_t)p->slice.start_ns,
                                                    "endNs", (json_int_t)p->slice.end_ns));
    }
    return list;
}

static json_t *contexts_json(uint32_t gpu)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < slices.file->reach; i++) {
        const struct timeslice_seat *s = &slices.file->seats[i];
        if (is_of(i, gpu))
            (void)json_array_append_new(list,
                                        json_pack("{s:i, s:I, s:b, s:b, s:I}", "context", i, "pid",
                                                  (json_int_t)s->pid, "waits", (int)s->waits,
                                                  "hasCard", card_at(gpu)->holder == i + 1,
                                                  "usedNs", (json_int_t)s->run_ns));
    }
    return list;
}

static void print_json(uint32_t gpu)
{
    const struct timeslice_card *card = card_at(gpu);
    json_t *o = json_pack("{s:i, s:I, s:I, s:o, s:o}", "gpu", gpu, "usedNs",
                          (json_int_t)card->run_ns, "count", (json_int_t)card->count, "contexts",
                          contexts_json(gpu), "slices", past_json(card));
    (void)json_dumpf(o, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
    (void)putchar('\n');
    json_decref(o);
}

static void print(uint32_t gpu)
{
    const struct timeslice_card *card = card_at(gpu);
    (void)printf("GPU %u: %.3f s in %llu time slices\n", gpu, (double)card->run_ns / 1e9,
                 (unsigned long long)card->count);
    for (uint32_t i = 0; i < slices.file->reach; i++) {
        const struct timeslice_seat *s = &slices.file->seats[i];
        if (is_of(i, gpu))
            (void)printf("  process %u: %.3f s%s\n", s->pid, (double)s->run_ns / 1e9,
                         card->holder == i + 1 ? ", has the card"
                         : s->waits            ? ", waits"
                                               : "");
    }
}

void timeslices_command(struct state *s, struct args *a)
{
    bool json = take_flag(a, "--json");
    take_end(a);
    if (!timeslices_open(&slices, s->path))
        die("%s.work: %s", s->path, strerror(errno));
    uint32_t count = state_lock(s)->gpu_count;
    state_unlock(s);
    timeslices_lock(&slices);
    for (uint32_t gpu = 0; gpu < count; gpu++) {
        if (json)
            print_json(gpu);
        else
            print(gpu);
    }
    timeslices_unlock(&slices);
}
