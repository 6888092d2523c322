/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nvml_load.h"

#include <stdio.h>
#include <unistd.h>

#include "sim/cuda_timeslice.h"

/* Opens the cards' time slices. False: there are none, as no kernel ran. */
static bool open_slices(struct timeslices *t)
{
    char path[PATH_MAX];
    const char *state = session_state()->path;
    *t = (struct timeslices){.mu = PTHREAD_MUTEX_INITIALIZER};
    if (snprintf(path, sizeof(path), "%s.work", state) >= (int)sizeof(path))
        return false;
    return *state != '\0' && access(path, F_OK) == 0 && timeslices_open(t, state);
}

static uint32_t busy_percent(uint32_t gpu, uint32_t row)
{
    struct timeslices t;
    uint32_t percent = 0;
    if (!open_slices(&t))
        return 0;
    timeslices_lock(&t);
    percent = timeslices_percent(&t, gpu, row);
    timeslices_unlock(&t);
    timeslices_forget(&t);
    return percent;
}

static int64_t busy_ns(uint32_t gpu)
{
    struct timeslices t;
    if (!open_slices(&t))
        return 0;
    timeslices_lock(&t);
    int64_t ns = timeslices_run_ns(&t, gpu);
    timeslices_unlock(&t);
    timeslices_forget(&t);
    return ns;
}

unsigned int load_percent(const struct call *c)
{
    unsigned int sum =
        busy_percent(c->gpu_index, TIMESLICE_ALL) + (unsigned int)c->gpu->work.percent;
    return sum < 100 ? sum : 100;
}

unsigned int load_of_process(const struct call *c, const struct hw_proc *p)
{
    return p->cuda > 0 ? busy_percent(c->gpu_index, p->cuda - 1) : p->load;
}

int64_t load_ns(const struct call *c, const struct hw_gi *gi, int64_t now_ns)
{
    if (gi != NULL)
        return hw_work_ns(&gi->work, now_ns);
    return busy_ns(c->gpu_index) + hw_work_ns(&c->gpu->work, now_ns);
}

/* Idle power is about a tenth of the limit on these boards; work takes the rest. */
unsigned int load_power_mw(const struct call *c)
{
    return hw_model(c->gpu)->power_limit_w * (100 + 9 * load_percent(c));
}

unsigned long long load_energy_mj(const struct call *c)
{
    int64_t now_ns = timeslices_now();
    unsigned long long idle = now_ns / 10000000; /* a tenth of the milliseconds */
    unsigned long long work = load_ns(c, NULL, now_ns) / 1000000 * 9 / 10;
    return hw_model(c->gpu)->power_limit_w * (idle + work);
}

/* Derived: 70 degrees at full load, as a cooled H100 has. It follows the work at once. */
unsigned int load_celsius(const struct call *c)
{
    return c->gpu->temperature_c + load_percent(c) * FULL_LOAD_CELSIUS / 100;
}

static bool is_held(const struct call *c, enum hw_hold why)
{
    return hw_is_held(c->gpu, load_percent(c), why);
}

/* Assumed: 210 MHz at rest, as nvidia-smi shows of Ampere's boards (github.com/noonghunna/club-3090,
 * issue 107, where GDDR's memory is at 405 MHz; that of HBM stays, as issue 914 of
 * github.com/NVIDIA/nvidia-docker shows of a V100); nine tenths at the power limit, and half when it
 * is too hot. Clocks come in steps of 15 MHz. */
unsigned int load_sm_mhz(const struct call *c)
{
    enum { IDLE = 210, STEP = 15 };
    unsigned int most = hw_model(c->gpu)->clock_sm_mhz;
    if (load_percent(c) == 0)
        return IDLE;
    if (is_held(c, HOLD_HEAT))
        most /= 2;
    else if (is_held(c, HOLD_POWER))
        most = most * 9 / 10;
    return most / STEP * STEP;
}

unsigned int load_memory_mhz(const struct call *c)
{
    const struct model *m = hw_model(c->gpu);
    return m->idle_memory_mhz && load_percent(c) == 0 ? m->idle_memory_mhz : m->clock_memory_mhz;
}

unsigned long long load_clock_reasons(const struct call *c)
{
    enum { REASON_IDLE = 0x1, REASON_POWER = 0x4, REASON_HEAT = 0x20 };
    if (load_percent(c) == 0)
        return REASON_IDLE;
    return (is_held(c, HOLD_POWER) ? REASON_POWER : 0) | (is_held(c, HOLD_HEAT) ? REASON_HEAT : 0);
}

unsigned long long load_held_ns(const struct call *c, enum hw_hold why)
{
    return (unsigned long long)hw_held_ns(c->gpu, why, timeslices_now());
}

/* Assumed: 1 GiB/s through each link while the card works. */
unsigned long long load_nvlink_kib(const struct call *c)
{
    unsigned long long ms = load_ns(c, NULL, timeslices_now()) / 1000000;
    return hw_model(c->gpu)->nvlinks * (ms * 1048576 / 1000);
}
