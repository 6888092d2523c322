/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state file: simulated hardware that outlives every process.
 *
 * One file of fixed, versioned layout, mapped shared by all. It holds the hardware twice; `active`
 * is the index of the valid copy. A change is made in the other copy and takes effect by one store
 * to `active`, so a SIGKILL at any instruction leaves the old hardware or the new. The lock is an
 * open-file-description lock: the kernel drops it with its holder. Other data in the file needs no
 * transaction: ordered faults, latencies, call counters, the log (rings of records that are valid
 * once their sequence number is stored).
 *
 * Any thread may use a struct state; state_lock excludes threads and processes alike.
 */
#pragma once

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/calls.h"
#include "sim/cuda_rows.h"
#include "sim/hw.h"

#define STATE_MAX_FAULTS 64
#define STATE_LOG_ARGS   96
#define STATE_LOG_LONG   8192 /* records of mutating calls that are kept */
#define STATE_LOG_SHORT  4096 /* records of queries */

enum fault_action { FAULT_FAIL, FAULT_HANG, FAULT_KILL, FAULT_KILL_AFTER };

/* `call` holds a call_id, or one of these. */
enum { FAULT_ANY_CALL = 0x10000, FAULT_MUTATING_CALL = 0x10001 };

struct fault {
    _Atomic uint32_t armed; /* 0: the entry is empty */
    _Atomic uint32_t seen;  /* matching calls so far */
    uint32_t call;
    uint32_t nth;      /* fires at this one; 0: at each call */
    uint32_t action;   /* enum fault_action */
    int32_t value;     /* FAIL: the return code; HANG: milliseconds */
    int32_t sys_errno; /* errno after a failing MXSML call; 0: unchanged */
    uint32_t gpu;      /* HW_NONE: any card */
    uint32_t library;  /* enum call_library: only its calls */
};

struct log_record {
    _Atomic uint64_t sequence; /* 0 while the record is written */
    int64_t start_ns, end_ns;  /* CLOCK_MONOTONIC */
    uint32_t call;
    uint32_t gpu; /* HW_NONE: no card */
    uint32_t pid;
    int32_t result; /* -1: the caller was killed before the effect */
    char args[STATE_LOG_ARGS];
};

/* Holes, which are never written, lie between the parts of the file: the kernel maps 64 KiB around
 * a page that is read, as far as there is content. */
#define STATE_HOLE 65536

struct state_file {
    char magic[8];
    uint32_t version;
    uint32_t size;
    _Atomic uint32_t active;
    _Atomic uint32_t event_bell;  /* futex: changes with each new event */
    _Atomic uint32_t tree_is_old; /* see state_tree_is_old */
    _Atomic uint32_t has_cuda;    /* somebody has a row of CUDA's processes, or had one */
    _Atomic uint32_t fault_count;
    _Atomic uint64_t log_sequence, log_cleared;
    _Atomic uint64_t calls[CALL_COUNT];
    _Atomic uint32_t latency_us[CALL_COUNT];
    _Atomic uint32_t driver_lock_percent[CALL_COUNT]; /* of latency_us: spent with the lock held */
    struct fault faults[STATE_MAX_FAULTS];
    _Atomic uint64_t log_long_next, log_short_next;
    struct {
        char hole[STATE_HOLE];
        struct hw hw;
    } copies[2];
    char hole[STATE_HOLE];
    struct log_record log_long[STATE_LOG_LONG];
    struct log_record log_short[STATE_LOG_SHORT];
};

struct state {
    pthread_mutex_t mu;
    pthread_mutex_t driver_mu[LIBRARY_COUNT];
    int fd; /* of the lock, and of the file */
    struct state_file *file;
    char path[PATH_MAX];   /* "": private */
    struct cuda_rows rows; /* opened when they are needed, and from then on */
};

/* Fills a new file's content before other processes see it; 0 or an NVML return code. */
typedef int state_fill_fn(void *arg, struct state_file *file);

/*
 * Opens the file at `path`, for a struct that was zero before the first time, creating it through
 * `fill` where there is none (of several creators one wins, and all use its file). With a NULL path
 * the state is this process's own. 0, or DRIVER_NOT_LOADED (no file and `fill` NULL or failed),
 * LIB_RM_VERSION_MISMATCH (another layout), OPERATING_SYSTEM.
 */
int state_open(struct state *s, const char *path, state_fill_fn *fill, void *arg);
void state_close(struct state *s);

/* Gives a zeroed file its header and an empty hardware. */
void state_format(struct state_file *file);

/* Is a card lost? As it was a moment ago, without the lock. */
bool state_gpu_is_lost(const struct state *s, uint32_t gpu);

/* Locks and returns the active hardware, which stays as it is until state_unlock; its processes are
 * those that live, unless the rows of CUDA's (cuda_rows.h) cannot be opened. */
const struct hw *state_lock(struct state *s);
void state_unlock(struct state *s);

/*
 * Locks for what CUDA's processes have, whose entries in *ret_hw may be old. NULL: the rows cannot
 * be opened. In any case state_unlock ends it.
 */
struct cuda_rows *state_lock_cuda(struct state *s, const struct hw **ret_hw);

/*
 * The lock that one vendor's driver takes for all of its cards, against threads and processes. Two
 * calls on different cards wait for each other while they hold it. It guards no data here, and is
 * taken before state_lock.
 */
void state_driver_lock(struct state *s, enum call_library library);
void state_driver_unlock(struct state *s, enum call_library library);

/*
 * Under the lock: state_begin gives a private copy of the hardware to change, state_commit makes it
 * the valid one. Without state_commit nothing changes.
 */
struct hw *state_begin(struct state *s);
void state_commit(struct state *s);

/*
 * Is the fake /proc (proc_tree.h) older than the hardware? A commit makes it so, whoever brings the
 * tree up to date says that it is not. Call with the state locked.
 */
bool state_tree_is_old(const struct state *s);
void state_tree_is_new(struct state *s);

/* Blocks until an event later than `bell` may have come, or timeout_ms have passed. */
uint32_t state_event_bell(struct state *s);
void state_wait_event(struct state *s, uint32_t bell, int64_t timeout_ms);

/*
 * Sessions: each NVML client holds one while initialised. A reset is refused while another one is
 * alive; a dead process holds none.
 */
void state_session_enter(struct state *s);
bool state_session_others(struct state *s);

/* Appends to the log. Any thread, without the lock. */
void state_log(struct state *s, const struct log_record *record);

/* Copies of the present records, in order; the caller frees *ret. Returns their number. */
size_t state_log_read(struct state *s, struct log_record **ret);

/* Removes the records logged so far. */
void state_log_clear(struct state *s);

/* Orders a fault; false when the table is full. The other removes all of them. */
bool state_fault_add(struct state *s, const struct fault *fault);
void state_fault_clear(struct state *s);

/*
 * Counts this call against the ordered faults; true when one fires, which *ret then is (the first
 * in the table if several do).
 */
bool state_fault_hit(struct state *s, uint32_t call, uint32_t gpu, struct fault *ret);

/* True when `fault` concerns a call of that id on that card. */
bool fault_matches(const struct fault *fault, uint32_t call, uint32_t gpu);

/* Counts one matching call; true when it is the one on which the fault fires. */
bool fault_counts_down(struct fault *fault);
