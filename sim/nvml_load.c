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
    return c->gpu->temperature_c + load_percent(c) * 36 / 100;
}

/* Assumed: 1 GiB/s through each link while the card works. */
unsigned long long load_nvlink_kib(const struct call *c)
{
    unsigned long long ms = load_ns(c, NULL, timeslices_now()) / 1000000;
    return hw_model(c->gpu)->nvlinks * (ms * 1048576 / 1000);
}
