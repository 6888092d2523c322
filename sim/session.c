/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/session.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/fault.h"
#include "sim/fleet.h"
#include "sim/mig.h"
#include "sim/proc_driver.h"
#include "sim/proc_tree.h"

#define ENV_FAULTS 8
#define CHUNK      256
#define CHUNKS     4096
#define BUCKETS    4096

enum handle_kind { HANDLE_GPU = 1, HANDLE_MIG, HANDLE_GI, HANDLE_CI };

/* Immutable once handed out. The serials make a handle of a dead instance stay dead. */
struct nvml_handle {
    enum handle_kind kind;
    uint32_t gpu;
    uint64_t gi, ci;
    struct nvml_handle *next; /* of its bucket */
};

/*
 * The process's one session. Guarded by mu, apart from `state`, which guards itself; where both are
 * held the state's lock was taken first, as by a call that hands out a handle. The state
 * stays open while somebody is initialised or a call is under way: a thread may hang in a call
 * while another shuts down.
 */
static struct {
    pthread_mutex_t mu;
    unsigned int refs, in_flight;
    struct state state;
    struct nvml_handle *chunks[CHUNKS];
    size_t handle_count;
    struct nvml_handle *buckets[BUCKETS]; /* newest first */
    struct fault env_faults[ENV_FAULTS];
    size_t env_fault_count;
    char env_fault_text[256];
} session = {.mu = PTHREAD_MUTEX_INITIALIZER};

struct state *session_state(void)
{
    return &session.state;
}

/* Counters go on over a new nvmlInit; another text starts anew. */
static void read_env_faults(void)
{
    const char *text = getenv("CLEAVE_SIM_FAULT");
    text = text != NULL ? text : "";
    if (strcmp(text, session.env_fault_text) == 0)
        return;
    (void)snprintf(session.env_fault_text, sizeof(session.env_fault_text), "%s", text);
    session.env_fault_count = 0;
    while (*text != '\0' && session.env_fault_count < ENV_FAULTS) {
        struct fault *f = &session.env_faults[session.env_fault_count];
        *f = (struct fault){.armed = 1};
        if (fault_parse(text, f))
            session.env_fault_count++;
        else
            (void)fprintf(stderr, "cleave-sim: CLEAVE_SIM_FAULT not understood: %s\n", text);
        text += strcspn(text, ",");
        text += *text == ',';
    }
}

static int open_state(void)
{
    const char *path = getenv("CLEAVE_SIM_STATE");
    const char *fleet = getenv("CLEAVE_SIM_FLEET");
    path = path != NULL && *path != '\0' ? path : NULL;
    fleet = fleet != NULL && *fleet != '\0' ? fleet : NULL;
    /* fleet_fill only reads the path. */
    return state_open(&session.state, path, fleet != NULL ? fleet_fill : NULL,
                      (void *)(uintptr_t)fleet);
}

static void close_when_unused(void)
{
    if (session.refs > 0 || session.in_flight > 0 || session.state.file == NULL)
        return;
    state_close(&session.state);
    for (size_t i = 0; i < CHUNKS && session.chunks[i] != NULL; i++) {
        free(session.chunks[i]);
        session.chunks[i] = NULL;
    }
    session.handle_count = 0;
    memset(session.buckets, 0, sizeof(session.buckets));
}

/*
 * A forked child shares the parent's open file, and with it the lock, which then excludes nothing
 * between the two. So it starts without a session and has to initialise its own.
 */
static void forget_after_fork(void)
{
    (void)pthread_mutex_init(&session.mu, NULL);
    session.refs = 0;
    session.in_flight = 0;
    close_when_unused();
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static int init_locked(void)
{
    read_env_faults();
    if (session.state.file == NULL) {
        int rc = open_state();
        if (rc != NVML_SUCCESS)
            return rc;
        state_session_enter(&session.state);
    }
    session.refs++;
    return NVML_SUCCESS;
}

static int shutdown_locked(void)
{
    if (session.refs == 0)
        return NVML_ERROR_UNINITIALIZED;
    session.refs--;
    close_when_unused();
    return NVML_SUCCESS;
}

/* A fault or a latency of nvmlInit itself plays once the state is open, and undoes the init. */
int session_init(unsigned int call_id)
{
    (void)pthread_mutex_lock(&session.mu);
    int rc = init_locked();
    (void)pthread_mutex_unlock(&session.mu);
    if (rc != NVML_SUCCESS)
        return rc;
    struct call c = {.id = call_id};
    rc = call_enter(&c, /* handle= */ NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS)
        (void)proc_tree_boot(c.hw);
    rc = call_leave(&c, rc);
    if (rc == NVML_SUCCESS)
        return rc;
    (void)pthread_mutex_lock(&session.mu);
    (void)shutdown_locked();
    (void)pthread_mutex_unlock(&session.mu);
    return rc;
}

int session_shutdown(void)
{
    struct call c = {.id = CALL_nvmlShutdown};
    int rc = call_leave(&c, call_enter(&c, /* handle= */ NULL, ON_NOTHING));
    if (rc != NVML_SUCCESS)
        return rc;
    (void)pthread_mutex_lock(&session.mu);
    rc = shutdown_locked();
    (void)pthread_mutex_unlock(&session.mu);
    return rc;
}

static bool same(const struct nvml_handle *a, const struct nvml_handle *b)
{
    return a->kind == b->kind && a->gpu == b->gpu && a->gi == b->gi && a->ci == b->ci;
}

static struct nvml_handle **bucket_of(const struct nvml_handle *h)
{
    uint64_t mix = ((uint64_t)h->kind << 32U) ^ h->gpu ^ (h->gi * 31) ^ (h->ci * 1009);
    return &session.buckets[mix * UINT64_C(0x9E3779B97F4A7C15) >> 52U];
}

static struct nvml_handle *new_handle(const struct nvml_handle *wanted)
{
    size_t chunk = session.handle_count / CHUNK;
    if (chunk < CHUNKS && session.chunks[chunk] == NULL)
        session.chunks[chunk] = calloc(CHUNK, sizeof(struct nvml_handle));
    if (chunk >= CHUNKS || session.chunks[chunk] == NULL)
        abort();
    struct nvml_handle *h = &session.chunks[chunk][session.handle_count++ % CHUNK];
    *h = *wanted;
    h->next = *bucket_of(wanted);
    *bucket_of(wanted) = h;
    return h;
}

static struct nvml_handle *intern(struct nvml_handle wanted)
{
    (void)pthread_mutex_lock(&session.mu);
    struct nvml_handle *found = *bucket_of(&wanted);
    while (found != NULL && !same(found, &wanted))
        found = found->next;
    if (found == NULL)
        found = new_handle(&wanted);
    (void)pthread_mutex_unlock(&session.mu);
    return found;
}

static bool in_chunk(const void *handle, size_t chunk)
{
    uintptr_t first = (uintptr_t)session.chunks[chunk];
    uintptr_t at = (uintptr_t)handle;
    if (at < first || at >= first + CHUNK * sizeof(struct nvml_handle))
        return false;
    size_t offset = at - first;
    return offset % sizeof(struct nvml_handle) == 0 &&
           chunk * CHUNK + offset / sizeof(struct nvml_handle) < session.handle_count;
}

/* True when the pointer is one that was handed out; garbage is compared and never followed. */
static bool handed_out(const void *handle, struct nvml_handle *ret)
{
    bool found = false;
    (void)pthread_mutex_lock(&session.mu);
    for (size_t i = 0; i < CHUNKS && session.chunks[i] != NULL && !found; i++)
        found = in_chunk(handle, i);
    if (found)
        *ret = *(const struct nvml_handle *)handle;
    (void)pthread_mutex_unlock(&session.mu);
    return found;
}

nvmlDevice_t handle_of_gpu(uint32_t gpu)
{
    return intern((struct nvml_handle){.kind = HANDLE_GPU, .gpu = gpu});
}

nvmlGpuInstance_t handle_of_gi(uint32_t gpu, const struct hw_gi *gi)
{
    return intern((struct nvml_handle){.kind = HANDLE_GI, .gpu = gpu, .gi = gi->serial});
}

nvmlComputeInstance_t handle_of_ci(uint32_t gpu, const struct hw_gi *gi, const struct hw_ci *ci)
{
    return intern(
        (struct nvml_handle){.kind = HANDLE_CI, .gpu = gpu, .gi = gi->serial, .ci = ci->serial});
}

nvmlDevice_t handle_of_mig(uint32_t gpu, const struct hw_gi *gi, const struct hw_ci *ci)
{
    return intern(
        (struct nvml_handle){.kind = HANDLE_MIG, .gpu = gpu, .gi = gi->serial, .ci = ci->serial});
}

uint32_t handle_gpu(const void *handle)
{
    struct nvml_handle h = {0};
    if (!handed_out(handle, &h) || (h.kind != HANDLE_GPU && h.kind != HANDLE_MIG))
        return HW_NONE;
    return h.gpu;
}

static bool kind_fits(enum handle_kind kind, enum call_on on)
{
    switch (on) {
    case ON_NOTHING:
        return false;
    case ON_GPU:
        return kind == HANDLE_GPU;
    case ON_WHOLE:
    case ON_DEVICE:
        return kind == HANDLE_GPU || kind == HANDLE_MIG;
    case ON_GI:
        return kind == HANDLE_GI;
    case ON_CI:
        return kind == HANDLE_CI;
    }
    return false;
}

static int resolve(struct call *c, const struct nvml_handle *h)
{
    c->gpu = &c->hw->gpus[h->gpu];
    if (c->gpu->lost || c->gpu->removed)
        return NVML_ERROR_GPU_IS_LOST;
    if (h->gi == 0)
        return NVML_SUCCESS;
    c->gi = mig_gi_by_serial(c->gpu, h->gi);
    if (c->gi == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (h->ci == 0)
        return NVML_SUCCESS;
    c->ci = mig_ci_by_serial(c->gi, h->ci);
    return c->ci != NULL ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
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

/* What kill -9 from outside would do; nothing after it runs. */
static void die(void)
{
    (void)kill(getpid(), SIGKILL);
    for (;;)
        (void)pause();
}

static bool env_fault_hit(uint32_t call, uint32_t gpu, struct fault *ret)
{
    bool hit = false;
    for (size_t i = 0; i < session.env_fault_count; i++) {
        struct fault *f = &session.env_faults[i];
        if (!fault_matches(f, call, gpu) || !fault_counts_down(f) || hit)
            continue;
        *ret = *f;
        hit = true;
    }
    return hit;
}

static int play_fault(struct call *c, const struct fault *f)
{
    switch ((enum fault_action)f->action) {
    case FAULT_FAIL:
        return f->value;
    case FAULT_HANG:
        take_time(f->value * INT64_C(1000000));
        return NVML_SUCCESS;
    case FAULT_KILL:
        c->record.result = -1;
        c->record.end_ns = now_ns();
        state_log(&session.state, &c->record);
        die();
        return NVML_SUCCESS;
    case FAULT_KILL_AFTER:
        c->dies = true;
        return NVML_SUCCESS;
    }
    return NVML_SUCCESS;
}

static int play_faults(struct call *c)
{
    struct fault f = {0};
    int rc = NVML_SUCCESS;
    if (env_fault_hit(c->id, c->gpu_index, &f))
        rc = play_fault(c, &f);
    if (rc == NVML_SUCCESS && state_fault_hit(&session.state, c->id, c->gpu_index, &f))
        rc = play_fault(c, &f);
    return rc;
}

static void play_latency(const struct call *c)
{
    uint32_t us = atomic_load(&session.state.file->latency_us[c->id]);
    if (us > 0)
        take_time(us * INT64_C(1000));
}

static bool begin_use(void)
{
    (void)pthread_mutex_lock(&session.mu);
    bool initialised = session.refs > 0;
    session.in_flight += initialised;
    (void)pthread_mutex_unlock(&session.mu);
    return initialised;
}

static void end_use(void)
{
    (void)pthread_mutex_lock(&session.mu);
    session.in_flight--;
    close_when_unused();
    (void)pthread_mutex_unlock(&session.mu);
}

static void lock_hw(struct call *c)
{
    const struct hw *active = state_lock(&session.state);
    c->locked = true;
    c->draft = call_class_of(c->id) == CALL_MUTATING;
    /* Queries only read; one pointer type serves both. */
    c->hw = c->draft ? state_begin(&session.state) : (struct hw *)(uintptr_t)active;
}

int call_enter(struct call *c, const void *handle, enum call_on on)
{
    if (!begin_use())
        return NVML_ERROR_UNINITIALIZED;
    c->entered = true;
    struct nvml_handle h = {0};
    bool known = on == ON_NOTHING || (handed_out(handle, &h) && kind_fits(h.kind, on));
    c->gpu_index = on == ON_NOTHING || !known ? HW_NONE : h.gpu;
    c->record.start_ns = now_ns();
    c->record.call = c->id;
    c->record.gpu = c->gpu_index;
    c->record.pid = (uint32_t)getpid();
    atomic_fetch_add(&session.state.file->calls[c->id], 1);
    int rc = play_faults(c);
    if (rc != NVML_SUCCESS)
        return rc;
    play_latency(c);
    if (!known)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (c->waits)
        return NVML_SUCCESS;
    lock_hw(c);
    if (on == ON_NOTHING)
        return NVML_SUCCESS;
    rc = resolve(c, &h);
    return rc == NVML_SUCCESS && on == ON_WHOLE && h.kind == HANDLE_MIG ? NVML_ERROR_NOT_SUPPORTED
                                                                        : rc;
}

int call_leave(struct call *c, int rc)
{
    if (!c->entered)
        return rc;
    bool changes = c->draft && rc == NVML_SUCCESS;
    if (changes)
        state_commit(&session.state);
    /* At once: who is killed here has changed the hardware, and the log should know. */
    c->record.end_ns = now_ns();
    c->record.result = rc;
    state_log(&session.state, &c->record);
    if (changes)
        (void)proc_driver_sync(c->hw, c->gpu_index);
    if (c->locked)
        state_unlock(&session.state);
    if (c->dies)
        die();
    end_use();
    return rc;
}

void call_args(struct call *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(c->record.args, sizeof(c->record.args), format, args);
    va_end(args);
}

int copy_text(char *buffer, unsigned int size, const char *text)
{
    if (buffer == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(buffer, text, strlen(text) + 1);
    return NVML_SUCCESS;
}
