/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nvml_session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/mig.h"
#include "sim/proc_files.h"
#include "sim/proc_tree.h"

#define CHUNK   256
#define CHUNKS  4096
#define BUCKETS 4096

enum handle_kind { HANDLE_GPU = 1, HANDLE_MIG, HANDLE_GI, HANDLE_CI };

/* Immutable once given out. The serials keep a handle of a destroyed instance invalid. */
struct nvml_handle {
    enum handle_kind kind;
    uint32_t gpu;
    uint64_t gi, ci;
    struct nvml_handle *next; /* next in its bucket */
};

/*
 * The process's one session, and under its mutex the handles given out. A call that gives one out
 * takes the mutex while it holds the state's lock.
 */
static struct {
    struct nvml_handle *chunks[CHUNKS];
    size_t count;
    struct nvml_handle *buckets[BUCKETS]; /* newest first */
} handles;

static void forget_handles(void)
{
    for (size_t i = 0; i < CHUNKS && handles.chunks[i] != NULL; i++) {
        free(handles.chunks[i]);
        handles.chunks[i] = NULL;
    }
    handles.count = 0;
    memset(handles.buckets, 0, sizeof(handles.buckets));
}

static struct session session = {.mu = PTHREAD_MUTEX_INITIALIZER, .on_close = forget_handles};

struct state *session_state(void)
{
    return &session.state;
}

static void forget_after_fork(void)
{
    session_forget(&session);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static int boot_machine(const struct hw *hw)
{
    if (!hw_has_nvidia(hw))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (proc_root() != NULL && proc_tree_boot(hw, state_tree_is_old(&session.state)))
        state_tree_is_new(&session.state);
    return NVML_SUCCESS;
}

/* True for nvidia-smi when it resets: its session keeps no other process from resetting a card. */
static bool only_resets(void)
{
    return getenv("CLEAVE_SIM_RESETS") != NULL;
}

/* A fault or a latency of nvmlInit itself plays once the state is open, and reverts the init. */
int session_init(unsigned int call_id)
{
    int rc = session_open(&session);
    if (rc != NVML_SUCCESS)
        return rc;
    struct call c = {.id = call_id};
    rc = call_enter(&c, /* handle= */ NULL, ON_NOTHING);
    if (rc == NVML_SUCCESS)
        rc = boot_machine(c.hw);
    if (rc == NVML_SUCCESS && !only_resets())
        state_session_enter(&session.state);
    rc = call_leave(&c, rc);
    if (rc != NVML_SUCCESS)
        (void)session_close(&session);
    return rc;
}

int session_shutdown(void)
{
    struct call c = {.id = CALL_nvmlShutdown};
    int rc = call_leave(&c, call_enter(&c, /* handle= */ NULL, ON_NOTHING));
    if (rc != NVML_SUCCESS)
        return rc;
    return session_close(&session) ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

static bool same(const struct nvml_handle *a, const struct nvml_handle *b)
{
    return a->kind == b->kind && a->gpu == b->gpu && a->gi == b->gi && a->ci == b->ci;
}

static struct nvml_handle **bucket_of(const struct nvml_handle *h)
{
    uint64_t mix = ((uint64_t)h->kind << 32U) ^ h->gpu ^ (h->gi * 31) ^ (h->ci * 1009);
    return &handles.buckets[mix * UINT64_C(0x9E3779B97F4A7C15) >> 52U];
}

static struct nvml_handle *new_handle(const struct nvml_handle *wanted)
{
    size_t chunk = handles.count / CHUNK;
    if (chunk < CHUNKS && handles.chunks[chunk] == NULL)
        handles.chunks[chunk] = calloc(CHUNK, sizeof(struct nvml_handle));
    if (chunk >= CHUNKS || handles.chunks[chunk] == NULL)
        abort();
    struct nvml_handle *h = &handles.chunks[chunk][handles.count++ % CHUNK];
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
    uintptr_t first = (uintptr_t)handles.chunks[chunk];
    uintptr_t at = (uintptr_t)handle;
    if (at < first || at >= first + CHUNK * sizeof(struct nvml_handle))
        return false;
    size_t offset = at - first;
    return offset % sizeof(struct nvml_handle) == 0 &&
           chunk * CHUNK + offset / sizeof(struct nvml_handle) < handles.count;
}

/* True when the pointer was given out; a bad one is compared and never followed. */
static bool handed_out(const void *handle, struct nvml_handle *ret)
{
    bool found = false;
    (void)pthread_mutex_lock(&session.mu);
    for (size_t i = 0; i < CHUNKS && handles.chunks[i] != NULL && !found; i++)
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

int call_enter(struct call *c, const void *handle, enum call_on on)
{
    struct fault fault = {0};
    struct nvml_handle h = {0};
    if (!turn_begin(&c->turn, &session, c->id))
        return NVML_ERROR_UNINITIALIZED;
    bool known = on == ON_NOTHING || (handed_out(handle, &h) && kind_fits(h.kind, on));
    c->gpu_index = on == ON_NOTHING || !known ? HW_NONE : h.gpu;
    if (turn_play(&c->turn, c->gpu_index, &fault))
        return fault.value;
    if (!known)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (c->waits)
        return NVML_SUCCESS;
    turn_lock(&c->turn);
    c->hw = c->turn.hw;
    if (on == ON_NOTHING)
        return NVML_SUCCESS;
    int rc = resolve(c, &h);
    return rc == NVML_SUCCESS && on == ON_WHOLE && h.kind == HANDLE_MIG ? NVML_ERROR_NOT_SUPPORTED
                                                                        : rc;
}

int call_leave(struct call *c, int rc)
{
    if (c->turn.session != NULL)
        turn_end(&c->turn, rc);
    return rc;
}

void call_args(struct call *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    turn_args(&c->turn, format, args);
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
