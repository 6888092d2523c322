/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/state.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/nvml.h"

#define STATE_VERSION 8U
static const char magic[8] = "CLVSIM";

/* Byte ranges that the locks use; they need not exist in the file. */
enum { LOCK_STATE = 0, LOCK_SESSION = 1, LOCK_DRIVER = 2 /* and one for each library */ };

static int lock_byte(int fd, int command, short type, off_t byte)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int rc;
    do
        rc = fcntl(fd, command, &l);
    while (rc != 0 && errno == EINTR);
    return command == F_OFD_GETLK && rc == 0 ? l.l_type : rc;
}

void state_format(struct state_file *file)
{
    memcpy(file->magic, magic, sizeof(magic));
    file->version = STATE_VERSION;
    file->size = (uint32_t)sizeof(*file);
}

static bool layout_fits(int fd, const struct state_file *file)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_size == (off_t)sizeof(*file) &&
           memcmp(file->magic, magic, sizeof(magic)) == 0 && file->version == STATE_VERSION &&
           file->size == sizeof(*file);
}

static struct state_file *map(int fd)
{
    void *at = mmap(NULL, sizeof(struct state_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Sizes and fills a file that no other process can see yet. */
static int fill_fd(int fd, state_fill_fn *fill, void *arg)
{
    if (ftruncate(fd, (off_t)sizeof(struct state_file)) != 0)
        return NVML_ERROR_OPERATING_SYSTEM;
    struct state_file *file = map(fd);
    if (file == NULL)
        return NVML_ERROR_OPERATING_SYSTEM;
    state_format(file);
    int rc = fill(arg, file);
    (void)munmap(file, sizeof(*file));
    return rc;
}

/* When several processes create the file, one link succeeds; the others' files are removed
 * unseen. */
static int create(const char *path, state_fill_fn *fill, void *arg)
{
    char name[PATH_MAX];
    if (snprintf(name, sizeof(name), "%s.XXXXXX", path) >= (int)sizeof(name))
        return NVML_ERROR_OPERATING_SYSTEM;
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return NVML_ERROR_OPERATING_SYSTEM;
    int rc = fchmod(fd, 0666) == 0 ? fill_fd(fd, fill, arg) : NVML_ERROR_OPERATING_SYSTEM;
    (void)close(fd);
    if (rc == NVML_SUCCESS && link(name, path) != 0 && errno != EEXIST)
        rc = NVML_ERROR_OPERATING_SYSTEM;
    (void)unlink(name);
    return rc;
}

static int open_named(const char *path, state_fill_fn *fill, void *arg, int *ret_fd)
{
    *ret_fd = open(path, O_RDWR | O_CLOEXEC);
    if (*ret_fd >= 0)
        return NVML_SUCCESS;
    if (errno != ENOENT)
        return NVML_ERROR_OPERATING_SYSTEM;
    if (fill == NULL)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    int rc = create(path, fill, arg);
    if (rc != NVML_SUCCESS)
        return rc;
    *ret_fd = open(path, O_RDWR | O_CLOEXEC);
    return *ret_fd >= 0 ? NVML_SUCCESS : NVML_ERROR_OPERATING_SYSTEM;
}

static int open_private(state_fill_fn *fill, void *arg, int *ret_fd)
{
    if (fill == NULL)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    *ret_fd = memfd_create("cleave-sim", MFD_CLOEXEC);
    if (*ret_fd < 0)
        return NVML_ERROR_OPERATING_SYSTEM;
    int rc = fill_fd(*ret_fd, fill, arg);
    if (rc != NVML_SUCCESS)
        (void)close(*ret_fd);
    return rc;
}

int state_open(struct state *s, const char *path, state_fill_fn *fill, void *arg)
{
    int rc = path != NULL ? open_named(path, fill, arg, &s->fd) : open_private(fill, arg, &s->fd);
    if (rc != NVML_SUCCESS)
        return rc;
    s->file = map(s->fd);
    struct stat st;
    /* A file shorter than the map would fault on its first read. */
    bool mapped =
        s->file != NULL && fstat(s->fd, &st) == 0 && st.st_size >= (off_t)sizeof(*s->file);
    if (mapped && layout_fits(s->fd, s->file)) {
        /* Absolute: the rows beside it are opened later. */
        if (path == NULL || realpath(path, s->path) == NULL)
            s->path[0] = '\0';
        (void)pthread_mutex_init(&s->mu, NULL);
        for (size_t i = 0; i < LIBRARY_COUNT; i++)
            (void)pthread_mutex_init(&s->driver_mu[i], NULL);
        return NVML_SUCCESS;
    }
    rc = s->file == NULL ? NVML_ERROR_OPERATING_SYSTEM : NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    if (s->file != NULL)
        (void)munmap(s->file, sizeof(*s->file));
    (void)close(s->fd);
    s->file = NULL;
    return rc;
}

void state_close(struct state *s)
{
    (void)munmap(s->file, sizeof(*s->file));
    (void)close(s->fd);
    (void)pthread_mutex_destroy(&s->mu);
    for (size_t i = 0; i < LIBRARY_COUNT; i++)
        (void)pthread_mutex_destroy(&s->driver_mu[i]);
    s->file = NULL;
}

/* The mutex excludes threads, which share the file's description and its locks with it. */
static void lock_both(struct state *s, pthread_mutex_t *mu, off_t byte)
{
    (void)pthread_mutex_lock(mu);
    int rc = lock_byte(s->fd, F_OFD_SETLKW, F_WRLCK, byte);
    assert(rc == 0);
    (void)rc;
}

static void unlock_both(struct state *s, pthread_mutex_t *mu, off_t byte)
{
    (void)lock_byte(s->fd, F_OFD_SETLK, F_UNLCK, byte);
    (void)pthread_mutex_unlock(mu);
}

static struct hw *lock_hw(struct state *s)
{
    lock_both(s, &s->mu, LOCK_STATE);
    return &s->file->copies[atomic_load(&s->file->active)].hw;
}

static bool open_rows(struct state *s)
{
    return cuda_rows_open(&s->rows, s->path[0] != '\0' ? s->path : NULL);
}

static bool has_same_procs(const struct hw *a, const struct hw *b)
{
    return a->proc_reach == b->proc_reach && a->cuda_procs == b->cuda_procs &&
           memcmp(a->procs, b->procs, a->proc_reach * sizeof(a->procs[0])) == 0;
}

/*
 * CUDA's processes come and go without a call of any library: who locks writes down those that
 * live, which is a change like others, but for the clients, who are told of none.
 */
const struct hw *state_lock(struct state *s)
{
    struct hw *hw = lock_hw(s);
    if (atomic_load(&s->file->has_cuda) == 0 || !open_rows(s))
        return hw;
    struct hw *draft = state_begin(s);
    unsigned int rows = cuda_rows_fold(&s->rows, draft);
    if (!has_same_procs(hw, draft)) {
        atomic_store(&s->file->active, 1 - atomic_load(&s->file->active));
        hw = draft;
    }
    if (rows == 0)
        atomic_store(&s->file->has_cuda, 0);
    return hw;
}

bool state_gpu_is_lost(const struct state *s, uint32_t gpu)
{
    const struct hw *hw = &s->file->copies[atomic_load(&s->file->active)].hw;
    return __atomic_load_n(&hw->gpus[gpu].lost, __ATOMIC_RELAXED) != 0;
}

struct cuda_rows *state_lock_cuda(struct state *s, const struct hw **ret_hw)
{
    *ret_hw = lock_hw(s);
    if (!open_rows(s))
        return NULL;
    atomic_store(&s->file->has_cuda, 1);
    return &s->rows;
}

void state_unlock(struct state *s)
{
    unlock_both(s, &s->mu, LOCK_STATE);
}

void state_driver_lock(struct state *s, enum call_library library)
{
    lock_both(s, &s->driver_mu[library], LOCK_DRIVER + (off_t)library);
}

void state_driver_unlock(struct state *s, enum call_library library)
{
    unlock_both(s, &s->driver_mu[library], LOCK_DRIVER + (off_t)library);
}

struct hw *state_begin(struct state *s)
{
    uint32_t active = atomic_load(&s->file->active);
    struct hw *draft = &s->file->copies[1 - active].hw;
    memcpy(draft, &s->file->copies[active].hw, hw_size(&s->file->copies[active].hw));
    return draft;
}

static void ring(struct state_file *file)
{
    atomic_fetch_add(&file->event_bell, 1);
    (void)syscall(SYS_futex, &file->event_bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/*
 * The bell rings before the commit. A woken process must take the lock to look, and gets it only
 * when the commit is done or its writer is dead. A writer killed in between has rung for nothing;
 * in the other order it would leave an event that nobody looks for.
 */
void state_commit(struct state *s)
{
    uint32_t old = atomic_load(&s->file->active);
    if (s->file->copies[old].hw.event_sequence != s->file->copies[1 - old].hw.event_sequence)
        ring(s->file);
    atomic_store(&s->file->tree_is_old, 1);
    atomic_store(&s->file->active, 1 - old);
}

bool state_tree_is_old(const struct state *s)
{
    return atomic_load(&s->file->tree_is_old);
}

void state_tree_is_new(struct state *s)
{
    atomic_store(&s->file->tree_is_old, 0);
}

uint32_t state_event_bell(struct state *s)
{
    return atomic_load(&s->file->event_bell);
}

void state_wait_event(struct state *s, uint32_t bell, int64_t timeout_ms)
{
    struct timespec ts = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000};
    (void)syscall(SYS_futex, &s->file->event_bell, FUTEX_WAIT, bell, &ts, NULL, 0);
}

void state_session_enter(struct state *s)
{
    (void)lock_byte(s->fd, F_OFD_SETLK, F_RDLCK, LOCK_SESSION);
}

bool state_session_others(struct state *s)
{
    return lock_byte(s->fd, F_OFD_GETLK, F_WRLCK, LOCK_SESSION) != F_UNLCK;
}

static struct log_record *next_slot(struct state_file *file, uint32_t call)
{
    if (call_class_of(call) == CALL_QUERY)
        return &file->log_short[atomic_fetch_add(&file->log_short_next, 1) % STATE_LOG_SHORT];
    return &file->log_long[atomic_fetch_add(&file->log_long_next, 1) % STATE_LOG_LONG];
}

void state_log(struct state *s, const struct log_record *record)
{
    struct log_record *slot = next_slot(s->file, record->call);
    atomic_store(&slot->sequence, 0);
    slot->start_ns = record->start_ns;
    slot->end_ns = record->end_ns;
    slot->call = record->call;
    slot->gpu = record->gpu;
    slot->pid = record->pid;
    slot->result = record->result;
    memcpy(slot->args, record->args, sizeof(slot->args));
    atomic_store(&slot->sequence, atomic_fetch_add(&s->file->log_sequence, 1) + 1);
}

static size_t gather(const struct log_record *ring, size_t size, uint64_t after,
                     struct log_record *out)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        uint64_t sequence = atomic_load(&ring[i].sequence);
        if (sequence == 0 || sequence <= after)
            continue;
        out[n] = ring[i];
        /* Overwritten while it was copied: the copy is neither the old record nor the new. */
        if (atomic_load(&ring[i].sequence) == sequence)
            n++;
    }
    return n;
}

static int by_sequence(const void *a, const void *b)
{
    uint64_t x = ((const struct log_record *)a)->sequence;
    uint64_t y = ((const struct log_record *)b)->sequence;
    return (x > y) - (x < y);
}

size_t state_log_read(struct state *s, struct log_record **ret)
{
    struct state_file *file = s->file;
    struct log_record *all = calloc(STATE_LOG_LONG + STATE_LOG_SHORT, sizeof(*all));
    if (all == NULL)
        abort();
    uint64_t after = atomic_load(&file->log_cleared);
    size_t n = gather(file->log_long, STATE_LOG_LONG, after, all);
    n += gather(file->log_short, STATE_LOG_SHORT, after, all + n);
    qsort(all, n, sizeof(*all), by_sequence);
    *ret = all;
    return n;
}

void state_log_clear(struct state *s)
{
    atomic_store(&s->file->log_cleared, atomic_load(&s->file->log_sequence));
}

static void recount_faults(struct state_file *file)
{
    uint32_t n = 0;
    for (size_t i = 0; i < STATE_MAX_FAULTS; i++)
        n += atomic_load(&file->faults[i].armed) != 0;
    atomic_store(&file->fault_count, n);
}

bool state_fault_add(struct state *s, const struct fault *fault)
{
    bool added = false;
    (void)state_lock(s);
    for (size_t i = 0; i < STATE_MAX_FAULTS && !added; i++) {
        struct fault *slot = &s->file->faults[i];
        if (atomic_load(&slot->armed) != 0)
            continue;
        slot->call = fault->call;
        slot->nth = fault->nth;
        slot->action = fault->action;
        slot->value = fault->value;
        slot->gpu = fault->gpu;
        slot->library = fault->library;
        slot->sys_errno = fault->sys_errno;
        atomic_store(&slot->seen, 0);
        atomic_store(&slot->armed, 1);
        added = true;
    }
    recount_faults(s->file);
    state_unlock(s);
    return added;
}

void state_fault_clear(struct state *s)
{
    (void)state_lock(s);
    for (size_t i = 0; i < STATE_MAX_FAULTS; i++)
        atomic_store(&s->file->faults[i].armed, 0);
    recount_faults(s->file);
    state_unlock(s);
}

bool fault_matches(const struct fault *fault, uint32_t call, uint32_t gpu)
{
    if (fault->gpu != HW_NONE && fault->gpu != gpu)
        return false;
    if (fault->library != LIBRARY_ANY && fault->library != call_library_of(call))
        return false;
    if (fault->call == FAULT_ANY_CALL)
        return call_class_of(call) != CALL_LIFE;
    if (fault->call == FAULT_MUTATING_CALL)
        return call_class_of(call) == CALL_MUTATING;
    return fault->call == call;
}

/* When two processes count at once, exactly one gets the n-th call. */
bool fault_counts_down(struct fault *fault)
{
    uint32_t seen = atomic_fetch_add(&fault->seen, 1) + 1;
    return fault->nth == 0 || seen == fault->nth;
}

bool state_fault_hit(struct state *s, uint32_t call, uint32_t gpu, struct fault *ret)
{
    bool hit = false;
    if (atomic_load(&s->file->fault_count) == 0)
        return false;
    for (size_t i = 0; i < STATE_MAX_FAULTS; i++) {
        struct fault *f = &s->file->faults[i];
        if (atomic_load(&f->armed) == 0 || !fault_matches(f, call, gpu) || !fault_counts_down(f) ||
            hit)
            continue;
        *ret = *f;
        hit = true;
    }
    return hit;
}
