/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#include "nodeagent/gpu/gpu_event.h"
#include "nodeagent/gpu/sound.h"
#include "nodeagent/vendor/nvidia/nvml_lib.h"
#include "nodeagent/vendor/vendor_backend.h"

/*
 * The process that waits for NVML's events and writes each one to a descriptor. It is a process
 * because nothing else can end its wait: NVML has no call for that. A waiting session would keep a
 * card from being reset, and a second session in one process would keep the first from being
 * renewed.
 *
 * A registration that failed is repeated, unless the answer was "not supported".
 */

_Static_assert((int)NVML_GPU_IS_LOST == (int)GPU_EVENT_CODE_LOST, "codes pass unchanged");
static_assert(NVML_UUID_BYTES == GPU_UUID_BYTES, "UUIDs are copied whole");

/* The awaited event types, as far as a card supports them. Xids say what happened; the others only
 * that the card should be read. Corrected single bit errors and clock changes do not concern
 * health. */
static const unsigned long long watched_types =
    NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT_ECC | NVML_EVENT_DRAM_RETIREMENT |
    NVML_EVENT_DRAM_RETIREMENT_FAILURE | NVML_EVENT_FATAL_POISON | NVML_EVENT_GPU_UNAVAILABLE |
    NVML_EVENT_RECOVERY_ACTION;

/* The pause before a failed registration is repeated; it doubles each time, up to a beat. */
enum { RETRY_MS = 1000 };

/* Bounds on waits that return at once, which would keep a core busy for ever, and the agent with
 * it. After PACE_ENDS ends within PACE_MS, the rest of that time is waited out. The driver keeps
 * events meanwhile. */
enum { PACE_MS = 1000, PACE_ENDS = 128 };

struct source {
    struct nvml_lib lib;
    nvml_event_set set;
    int beat_fd, out_fd;
    int beat_ms, retry_ms;
    unsigned n, n_watched;
    int64_t second_mono_ms; /* begin of the current period of PACE_MS */
    unsigned ends;          /* ends of waits in this period */
    /* By index. A lost card does not report its UUID any more. */
    struct watched_card {
        nvml_device device; /* NULL: not known yet */
        char uuid[NVML_UUID_BYTES];
        bool again; /* it failed, and may succeed the next time */
    } cards[GPU_MAX_CARDS];
};

static int write_event(const struct source *s, const struct gpu_event *ev, struct err *e)
{
    ssize_t wrote;
    do
        wrote = write(s->out_fd, ev, sizeof(*ev));
    while (wrote < 0 && errno == EINTR);
    return wrote == (ssize_t)sizeof(*ev) ? 0 : err_set_errno(e, errno, "write an event");
}

static nvml_ret register_card(const struct source *s, nvml_device device)
{
    unsigned long long types = 0;
    nvml_ret rc = s->lib.event_types(device, &types);
    if (rc == NVML_SUCCESS && !(types & NVML_EVENT_XID))
        rc = NVML_NOT_SUPPORTED;
    return rc == NVML_SUCCESS ? s->lib.event_register(device, types & watched_types, s->set) : rc;
}

/* True when a later try may succeed. A driver without events stays so. A lost card is registered
 * again after a reading finds it back. */
static bool may_pass(nvml_ret rc)
{
    return rc != NVML_SUCCESS && rc != NVML_NOT_SUPPORTED && rc != NVML_FUNCTION_NOT_FOUND &&
           rc != NVML_GPU_IS_LOST;
}

/* Reports the result for the card whose handle was asked for with this return code. */
static int watch_card(struct source *s, unsigned index, nvml_ret rc, struct err *e)
{
    struct watched_card *c = &s->cards[index];
    struct gpu_event ev = {.kind = GPU_EVENT_UNWATCHED, .gi_id = -1, .ci_id = -1};
    if (rc == NVML_SUCCESS)
        rc = s->lib.uuid(c->device, c->uuid, sizeof(c->uuid));
    SOUND_END(c->uuid);
    if (rc == NVML_SUCCESS) {
        memcpy(ev.uuid, c->uuid, sizeof(ev.uuid));
        rc = register_card(s, c->device);
    }
    if (rc == NVML_SUCCESS)
        ev.kind = GPU_EVENT_WATCHED;
    s->n_watched += rc == NVML_SUCCESS;
    c->again = may_pass(rc);
    ev.code = (uint64_t)rc;
    return write_event(s, &ev, e);
}

/* *ret_last: no card has this index. */
static int watch_index(struct source *s, unsigned index, bool *ret_last, struct err *e)
{
    assert(index < ARRAY_LEN(s->cards));
    struct watched_card *c = &s->cards[index];
    *c = (struct watched_card){0};
    nvml_ret rc = s->lib.by_index(index, &c->device);
    *ret_last = rc == NVML_INVALID_ARGUMENT;
    return *ret_last ? 0 : watch_card(s, index, rc, e);
}

static int watch_again(struct source *s, struct err *e)
{
    bool last;
    s->retry_ms = s->retry_ms < s->beat_ms / 2 ? s->retry_ms * 2 : s->beat_ms;
    for (unsigned i = 0; i < s->n; i++)
        if (s->cards[i].again)
            TRY(watch_index(s, i, &last, e));
    return 0;
}

static int instance_of(unsigned id)
{
    return id == NVML_NO_INSTANCE || id > INT_MAX ? -1 : (int)id;
}

static int tell_event(const struct source *s, const struct nvml_event_data *d, struct err *e)
{
    bool xid = d->eventType & NVML_EVENT_XID;
    struct gpu_event ev = {.kind = xid ? GPU_EVENT_XID : GPU_EVENT_OTHER,
                           .code = xid ? d->eventData : d->eventType,
                           .gi_id = instance_of(d->gpuInstanceId),
                           .ci_id = instance_of(d->computeInstanceId)};
    for (unsigned i = 0; i < s->n; i++)
        if (s->cards[i].device == d->device)
            memcpy(ev.uuid, s->cards[i].uuid, sizeof(ev.uuid));
    return write_event(s, &ev, e);
}

/* NVML's wait needs a timeout: a beat, or less while cards must be registered again. */
static int wait_time_ms(const struct source *s)
{
    for (unsigned i = 0; i < s->n; i++)
        if (s->cards[i].again && s->retry_ms < s->beat_ms)
            return s->retry_ms;
    return s->beat_ms;
}

/* Waits for the reader to go, at most so long. */
static int check_reader(const struct source *s, int64_t timeout_ms, struct err *e)
{
    struct pollfd reader = {.fd = s->out_fd};
    int rc = poll(&reader, 1, (int)timeout_ms);
    return rc > 0 ? err_set_errno(e, EPIPE, "write an event") : 0;
}

/* Waits when the driver does not. Ends early only when the reader is gone. */
static int pace(struct source *s, struct err *e)
{
    int64_t now = clock_mono_ms(clock_real());
    if (now - s->second_mono_ms >= PACE_MS) {
        s->second_mono_ms = now;
        s->ends = 0;
    }
    if (++s->ends < PACE_ENDS)
        return 0;
    return check_reader(s, s->second_mono_ms + PACE_MS - now, e);
}

/* No event, which would wake the agent: it has nothing to do then. */
static int beat(const struct source *s, struct err *e)
{
    ssize_t wrote = write(s->beat_fd, "", 1); /* fails where thousands are unread already */
    (void)wrote;
    return check_reader(s, /* timeout_ms= */ 0, e);
}

/* *ret: the return code that ended the wait. */
static int report(struct source *s, nvml_ret *ret, struct err *e)
{
    for (;;) {
        struct nvml_event_data d = {.gpuInstanceId = NVML_NO_INSTANCE,
                                    .computeInstanceId = NVML_NO_INSTANCE};
        nvml_ret rc = s->lib.event_wait(s->set, &d, (unsigned)wait_time_ms(s));
        TRY(pace(s, e));
        if (rc == NVML_SUCCESS)
            TRY(tell_event(s, &d, e));
        else if (rc == NVML_TIMEOUT) {
            TRY(beat(s, e));
            TRY(watch_again(s, e));
        } else {
            *ret = rc;
            return 0;
        }
    }
}

static int check_answer(const struct nvml_lib *lib, const char *call, nvml_ret rc, struct err *e)
{
    return rc == NVML_SUCCESS ? 0 : nvml_lib_error(lib, call, rc, e);
}

static int watch_all(struct source *s, nvml_ret *ret, struct err *e)
{
    bool last = false;
    s->n = s->n_watched = 0;
    s->retry_ms = RETRY_MS;
    TRY(check_answer(&s->lib, nvml_names.event_set_create, s->lib.event_set_create(&s->set), e));
    while (s->n < GPU_MAX_CARDS && !last) {
        TRY(watch_index(s, s->n, &last, e));
        s->n += !last;
    }
    return report(s, ret, e);
}

static void drop_set(struct source *s)
{
    if (s->set && s->lib.event_set_free)
        (void)s->lib.event_set_free(s->set);
    s->set = NULL;
}

/* A card that falls off the bus ends the wait for all cards. The others are then awaited in a new
 * set at once, as long as each set is smaller than the one before. Any other error ends the
 * process, and the agent starts a new one. */
static int watch(struct source *s, struct err *e)
{
    unsigned before = GPU_MAX_CARDS + 1;
    nvml_ret ended = NVML_GPU_IS_LOST;
    while (ended == NVML_GPU_IS_LOST) {
        int rc = watch_all(s, &ended, e);
        drop_set(s);
        if (rc < 0 || s->n_watched >= before)
            return rc;
        before = s->n_watched;
    }
    return 0;
}

int vendor_watch_events(const char *library, int beat_ms, int beat_fd, int out_fd, struct err *e)
{
    struct source s = {.beat_fd = beat_fd, .out_fd = out_fd, .beat_ms = beat_ms};
    TRY(nvml_lib_open(library, &s.lib, e));
    bool able =
        s.lib.event_set_create && s.lib.event_types && s.lib.event_register && s.lib.event_wait;
    int rc = able ? check_answer(&s.lib, nvml_names.init, s.lib.init(), e)
                  : nvml_lib_error(&s.lib, nvml_names.event_wait, NVML_FUNCTION_NOT_FOUND, e);
    if (rc == 0) {
        rc = watch(&s, e);
        (void)s.lib.shutdown();
    }
    nvml_lib_close(&s.lib);
    return rc;
}
