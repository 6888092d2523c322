/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "base/xalloc.h"

struct clock {
    bool fake;
    _Atomic int64_t mono_ms;
    _Atomic int64_t boot_ms;
    _Atomic int64_t wall_ms;
};

static const struct clock real;

const struct clock *clock_real(void)
{
    return &real;
}

static int64_t read_us(clockid_t id)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static int64_t read_ms(clockid_t id)
{
    return read_us(id) / 1000;
}

int64_t clock_mono_ms(const struct clock *c)
{
    return c->fake ? atomic_load(&c->mono_ms) : read_ms(CLOCK_MONOTONIC);
}

int64_t clock_mono_us(const struct clock *c)
{
    return c->fake ? atomic_load(&c->mono_ms) * 1000 : read_us(CLOCK_MONOTONIC);
}

int64_t clock_boot_ms(const struct clock *c)
{
    return c->fake ? atomic_load(&c->boot_ms) : read_ms(CLOCK_BOOTTIME);
}

int64_t clock_wall_ms(const struct clock *c)
{
    return c->fake ? atomic_load(&c->wall_ms) : read_ms(CLOCK_REALTIME);
}

int64_t clock_used_ms(pid_t pid)
{
    clockid_t used;
    return clock_getcpuclockid(pid, &used) == 0 ? read_ms(used) : 0;
}

struct clock *clock_fake_new(int64_t wall_ms)
{
    struct clock *c = xmalloc(sizeof(*c));
    c->fake = true;
    atomic_init(&c->mono_ms, 1000000);
    atomic_init(&c->boot_ms, 2000000);
    atomic_init(&c->wall_ms, wall_ms);
    return c;
}

void clock_fake_advance(struct clock *c, int64_t ms)
{
    atomic_fetch_add(&c->mono_ms, ms);
    clock_fake_suspend(c, ms);
}

void clock_fake_suspend(struct clock *c, int64_t ms)
{
    atomic_fetch_add(&c->boot_ms, ms);
    atomic_fetch_add(&c->wall_ms, ms);
}

struct clock *clock_free(struct clock *c)
{
    free(c);
    return NULL;
}
