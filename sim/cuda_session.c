/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "sim/cuda_rows.h"
#include "sim/nvml.h"

#define LIBRARY_VERSION 13000 /* where there is no driver */

static struct session session = {.mu = PTHREAD_MUTEX_INITIALIZER};

static pthread_mutex_t init_mu = PTHREAD_MUTEX_INITIALIZER;

/* Written under init_mu until `ready` is set, and read from then on. */
static struct {
    _Atomic bool ready, forked;
    int count;
    struct cuda_device devices[HW_MAX_GPUS];
} self;

/* A child of a process without CUDA may have its own. */
static void forget_after_fork(void)
{
    if (atomic_load(&self.ready))
        atomic_store(&self.forked, true);
    (void)pthread_mutex_init(&init_mu, NULL);
    cuda_rows_forget(&session.state.rows);
    session_forget(&session);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

/* --- Which devices are seen --- */

/*
 * Assumed: in a container, which is seen by its device files, the cards are those whose file it
 * has. Without any the process runs where the simulated machine's device files are in a folder, and
 * has all cards.
 */
static bool has_device_file(const struct hw_gpu *gpu)
{
    char path[32];
    if (access("/dev/nvidiactl", F_OK) != 0)
        return true;
    (void)snprintf(path, sizeof(path), "/dev/nvidia%u", gpu->minor);
    return access(path, R_OK | W_OK) == 0;
}

/* Assumed: a card with MIG on has no device here; CUDA would show its first instance. */
static bool can_be_seen(const struct hw_gpu *gpu)
{
    return !gpu->lost && !gpu->removed && !gpu->mig_current && has_device_file(gpu);
}

static bool is_before(const struct cuda_device *a, const struct cuda_device *b)
{
    if (a->domain != b->domain)
        return a->domain < b->domain;
    return a->bus != b->bus ? a->bus < b->bus : a->device < b->device;
}

/* Lists the cards that can be seen, in the order of their addresses. */
static int list_devices(const struct hw *hw, struct cuda_device *ret)
{
    int n = 0;
    for (uint32_t i = 0; i < hw->gpu_count; i++) {
        const struct hw_gpu *gpu = &hw->gpus[i];
        struct cuda_device d = {.gpu = i,
                                .model = hw_model(gpu),
                                .domain = gpu->domain,
                                .bus = gpu->bus,
                                .device = gpu->device};
        if (!can_be_seen(gpu))
            continue;
        memcpy(d.uuid, gpu->uuid, sizeof(d.uuid));
        int at = n++;
        for (; at > 0 && is_before(&d, &ret[at - 1]); at--)
            ret[at] = ret[at - 1];
        ret[at] = d;
    }
    return n;
}

/* One word of CUDA_VISIBLE_DEVICES: an ordinal, or the beginning of one card's UUID; -1 for
 * anything else. */
static int find_visible(const char *word, size_t length, const struct cuda_device *all, int n)
{
    char text[64];
    char *end = NULL;
    (void)snprintf(text, sizeof(text), "%.*s", (int)length, word);
    if (strncmp(text, "GPU-", 4) != 0) {
        long ordinal = strtol(text, &end, 10);
        return end != text && *end == '\0' && ordinal >= 0 && ordinal < n ? (int)ordinal : -1;
    }
    int found = -1;
    for (int i = 0; i < n; i++) {
        if (strncasecmp(all[i].uuid, text, strlen(text)) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = i;
    }
    return found;
}

static bool has_device(const struct cuda_device *list, int n, const struct cuda_device *d)
{
    for (int i = 0; i < n; i++) {
        if (list[i].gpu == d->gpu)
            return true;
    }
    return false;
}

/* The list ends before the first word that is no device; a device that comes twice leaves none. */
static int choose_visible(const struct cuda_device *all, int n, struct cuda_device *ret)
{
    const char *wish = getenv("CUDA_VISIBLE_DEVICES");
    int count = 0;
    if (wish == NULL) {
        memcpy(ret, all, (size_t)n * sizeof(*all));
        return n;
    }
    while (*wish != '\0' && count < HW_MAX_GPUS) {
        size_t length = strcspn(wish, ",");
        int i = find_visible(wish, length, all, n);
        if (i < 0)
            break;
        if (has_device(ret, count, &all[i]))
            return 0;
        ret[count++] = all[i];
        wish += length + (wish[length] == ',');
    }
    return count;
}

/* --- Initialisation --- */

static CUresult code_of_open(int rc)
{
    if (rc == 0)
        return CUDA_SUCCESS;
    if (rc == NVML_ERROR_LIB_RM_VERSION_MISMATCH)
        return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    return rc == NVML_ERROR_DRIVER_NOT_LOADED ? CUDA_ERROR_NO_DEVICE : CUDA_ERROR_OPERATING_SYSTEM;
}

static const char *program_name(void)
{
    static char path[64];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    return path;
}

/* The state is open. */
static CUresult find_devices(void)
{
    struct cuda_device all[HW_MAX_GPUS];
    const struct hw *hw = NULL;
    struct cuda_rows *rows = state_lock_cuda(&session.state, &hw);
    CUresult rc = rows != NULL ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
    if (rc == CUDA_SUCCESS) {
        self.count = choose_visible(all, list_devices(hw, all), self.devices);
        rc = self.count > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
    }
    if (rc == CUDA_SUCCESS && !cuda_rows_join(rows, program_name()))
        rc = CUDA_ERROR_OPERATING_SYSTEM;
    state_unlock(&session.state);
    return rc;
}

/* The call itself, with its faults. */
static CUresult play_init(void)
{
    struct turn t = {0};
    struct fault f;
    if (!turn_begin(&t, &session, CALL_cuInit))
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult rc = turn_play(&t, HW_NONE, &f) ? f.value : CUDA_SUCCESS;
    turn_end(&t, rc);
    return rc;
}

static void leave(void)
{
    const struct hw *hw = NULL;
    struct cuda_rows *rows = state_lock_cuda(&session.state, &hw);
    if (rows != NULL)
        cuda_rows_leave(rows);
    state_unlock(&session.state);
    (void)session_close(&session);
}

static CUresult init_once(void)
{
    if (atomic_load(&self.ready))
        return play_init();
    CUresult rc = code_of_open(session_open(&session));
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = find_devices();
    if (rc == CUDA_SUCCESS)
        rc = play_init();
    if (rc == CUDA_SUCCESS)
        atomic_store(&self.ready, true);
    else
        leave();
    return rc;
}

CUresult cuda_init(void)
{
    if (atomic_load(&self.forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    (void)pthread_mutex_lock(&init_mu);
    CUresult rc = init_once();
    (void)pthread_mutex_unlock(&init_mu);
    return rc;
}

int cuda_device_count(void)
{
    return self.count;
}

const struct cuda_device *cuda_device_at(CUdevice device)
{
    return &self.devices[device];
}

uint64_t cuda_thread(void)
{
    static _Atomic uint64_t last;
    static _Thread_local uint64_t own;
    if (own == 0)
        own = atomic_fetch_add(&last, 1) + 1;
    return own;
}

bool cuda_device_is_lost(const struct cuda_device *d)
{
    return state_gpu_is_lost(&session.state, d->gpu);
}

uint32_t cuda_row(void)
{
    return (uint32_t)(session.state.rows.own - session.state.rows.file->rows);
}

const char *cuda_state_path(void)
{
    return session.state.path[0] != '\0' ? session.state.path : NULL;
}

int cuda_driver_version(void)
{
    int version = LIBRARY_VERSION;
    if (session_open(&session) != 0)
        return version;
    version = state_lock(&session.state)->cuda_version;
    state_unlock(&session.state);
    (void)session_close(&session);
    return version;
}

/* --- Calls --- */

static _Thread_local bool calls_are_forbidden;

void cuda_forbid_calls(bool on)
{
    calls_are_forbidden = on;
}

static CUresult enter(struct cuda_call *c, const struct cuda_device *device)
{
    struct fault f;
    if (!atomic_load(&self.ready) || atomic_load(&self.forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (calls_are_forbidden)
        return CUDA_ERROR_NOT_PERMITTED;
    if (!turn_begin(&c->turn, &session, c->id))
        return CUDA_ERROR_NOT_INITIALIZED;
    return turn_play(&c->turn, device != NULL ? device->gpu : HW_NONE, &f) ? f.value : CUDA_SUCCESS;
}

CUresult cuda_enter(struct cuda_call *c)
{
    return enter(c, NULL);
}

CUresult cuda_enter_device(struct cuda_call *c, CUdevice device)
{
    bool known = atomic_load(&self.ready) && device >= 0 && device < self.count;
    CUresult rc = enter(c, known ? &self.devices[device] : NULL);
    return rc == CUDA_SUCCESS && !known ? CUDA_ERROR_INVALID_DEVICE : rc;
}

CUresult cuda_leave(struct cuda_call *c, CUresult rc)
{
    if (c->turn.session != NULL)
        turn_end(&c->turn, rc);
    return rc;
}

void cuda_args(struct cuda_call *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    turn_args(&c->turn, format, args);
    va_end(args);
}

/* --- The state --- */

struct cuda_rows *cuda_lock(const struct hw **ret_hw)
{
    return state_lock_cuda(&session.state, ret_hw);
}

void cuda_unlock(void)
{
    state_unlock(&session.state);
}
