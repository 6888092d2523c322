/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/session.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/fault.h"
#include "sim/fleet.h"
#include "sim/proc_driver.h"
#include "sim/proc_files.h"

/* Counters continue over a new initialisation; a changed text starts anew. */
static void read_env_faults(struct session *s)
{
    const char *text = getenv("CLEAVE_SIM_FAULT");
    text = text != NULL ? text : "";
    if (strcmp(text, s->env_fault_text) == 0)
        return;
    (void)snprintf(s->env_fault_text, sizeof(s->env_fault_text), "%s", text);
    s->env_fault_count = 0;
    while (*text != '\0' && s->env_fault_count < SESSION_ENV_FAULTS) {
        struct fault *f = &s->env_faults[s->env_fault_count];
        *f = (struct fault){.armed = 1};
        if (fault_parse(text, f))
            s->env_fault_count++;
        else
            (void)fprintf(stderr, "cleave-sim: CLEAVE_SIM_FAULT not understood: %s\n", text);
        text += strcspn(text, ",");
        text += *text == ',';
    }
}

static int open_state(struct session *s)
{
    const char *path = getenv("CLEAVE_SIM_STATE");
    const char *fleet = getenv("CLEAVE_SIM_FLEET");
    path = path != NULL && *path != '\0' ? path : NULL;
    fleet = fleet != NULL && *fleet != '\0' ? fleet : NULL;
    /* fleet_fill only reads the path. */
    return state_open(&s->state, path, fleet != NULL ? fleet_fill : NULL, (void *)(uintptr_t)fleet);
}

static void close_when_unused(struct session *s)
{
    if (s->refs > 0 || s->in_flight > 0 || s->state.file == NULL)
        return;
    state_close(&s->state);
    if (s->on_close != NULL)
        s->on_close();
}

void session_forget(struct session *s)
{
    (void)pthread_mutex_init(&s->mu, NULL);
    s->refs = 0;
    s->in_flight = 0;
    close_when_unused(s);
}

/* mu is held. */
static int open_locked(struct session *s)
{
    read_env_faults(s);
    int rc = s->state.file == NULL ? open_state(s) : 0;
    if (rc == 0)
        s->refs++;
    return rc;
}

int session_open(struct session *s)
{
    (void)pthread_mutex_lock(&s->mu);
    int rc = open_locked(s);
    (void)pthread_mutex_unlock(&s->mu);
    return rc;
}

int session_reopen(struct session *s)
{
    (void)pthread_mutex_lock(&s->mu);
    s->refs--;
    close_when_unused(s);
    int rc = open_locked(s);
    (void)pthread_mutex_unlock(&s->mu);
    return rc;
}

bool session_close(struct session *s)
{
    (void)pthread_mutex_lock(&s->mu);
    bool was_open = s->refs > 0;
    if (was_open) {
        s->refs--;
        close_when_unused(s);
    }
    (void)pthread_mutex_unlock(&s->mu);
    return was_open;
}

static bool begin_use(struct session *s)
{
    (void)pthread_mutex_lock(&s->mu);
    bool initialised = s->refs > 0;
    s->in_flight += initialised;
    (void)pthread_mutex_unlock(&s->mu);
    return initialised;
}

static void end_use(struct session *s)
{
    (void)pthread_mutex_lock(&s->mu);
    s->in_flight--;
    close_when_unused(s);
    (void)pthread_mutex_unlock(&s->mu);
}

static int64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static void take_time(int64_t ns)
{
    struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

/* The lock is held at the end, where a driver reprograms the hardware. */
static void take_latency(struct state *state, uint32_t call)
{
    int64_t ns = atomic_load(&state->file->latency_us[call]) * INT64_C(1000);
    int64_t locked_ns = ns / 100 * atomic_load(&state->file->driver_lock_percent[call]);
    if (ns > locked_ns)
        take_time(ns - locked_ns);
    if (locked_ns == 0)
        return;
    enum call_library library = call_library_of(call);
    state_driver_lock(state, library);
    take_time(locked_ns);
    state_driver_unlock(state, library);
}

/* Has the effect of kill -9 from outside; nothing after it runs. */
static void die(void)
{
    (void)kill(getpid(), SIGKILL);
    for (;;)
        (void)pause();
}

static bool env_fault_hit(struct session *s, uint32_t call, uint32_t card, struct fault *ret)
{
    bool hit = false;
    for (size_t i = 0; i < s->env_fault_count; i++) {
        struct fault *f = &s->env_faults[i];
        if (!fault_matches(f, call, card) || !fault_counts_down(f) || hit)
            continue;
        *ret = *f;
        hit = true;
    }
    return hit;
}

/* True for a fault that makes the call fail. */
static bool play_fault(struct turn *t, const struct fault *f)
{
    switch ((enum fault_action)f->action) {
    case FAULT_FAIL:
        return true;
    case FAULT_HANG:
        take_time(f->value * INT64_C(1000000));
        return false;
    case FAULT_KILL:
        t->record.result = -1;
        t->record.end_ns = now_ns();
        state_log(&t->session->state, &t->record);
        die();
        return false;
    case FAULT_KILL_AFTER:
        t->dies = true;
        return false;
    }
    return false;
}

bool turn_begin(struct turn *t, struct session *s, unsigned int call)
{
    if (!begin_use(s))
        return false;
    t->session = s;
    t->record.start_ns = now_ns();
    t->record.call = call;
    t->record.gpu = HW_NONE;
    t->record.pid = (uint32_t)getpid();
    return true;
}

bool turn_play(struct turn *t, uint32_t card, struct fault *ret)
{
    struct state *state = &t->session->state;
    uint32_t call = t->record.call;
    t->record.gpu = card;
    atomic_fetch_add(&state->file->calls[call], 1);
    if (env_fault_hit(t->session, call, card, ret) && play_fault(t, ret))
        return true;
    if (state_fault_hit(state, call, card, ret) && play_fault(t, ret))
        return true;
    take_latency(state, call);
    return false;
}

void turn_lock(struct turn *t)
{
    const struct hw *active = state_lock(&t->session->state);
    t->locked = true;
    t->draft = call_class_of(t->record.call) == CALL_MUTATING;
    /* Queries only read; one pointer type serves both. */
    t->hw = t->draft ? state_begin(&t->session->state) : (struct hw *)(uintptr_t)active;
}

void turn_end(struct turn *t, int rc)
{
    int kept = errno;
    struct state *state = &t->session->state;
    bool changes = t->draft && rc == 0;
    bool was_old = changes && state_tree_is_old(state); /* by more than this change */
    if (changes)
        state_commit(state);
    /* Logged at once: a process that is killed here has changed the hardware. */
    t->record.end_ns = now_ns();
    t->record.result = rc;
    state_log(state, &t->record);
    if (changes && proc_root() != NULL && proc_driver_sync(t->hw, t->record.gpu) && !was_old)
        state_tree_is_new(state);
    if (t->locked)
        state_unlock(state);
    if (t->dies)
        die();
    end_use(t->session);
    errno = kept;
}

void turn_args(struct turn *t, const char *format, va_list args)
{
    (void)vsnprintf(t->record.args, sizeof(t->record.args), format, args);
}
