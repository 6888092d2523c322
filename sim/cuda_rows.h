/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CUDA's processes have on the cards, in a file beside the state's: "<state>.cuda".
 *
 * Each process has a row and two locks on bytes of the row's number, which the kernel drops with
 * the process, however it ends, so that nothing leaks. An open-file-description lock tells that it
 * lives, to other libraries of the same process, too. A POSIX lock tells whoever asks for its
 * holder that process's id as the asker knows it, so that a host sees the processes of its
 * containers. A process loses its POSIX locks when it closes any descriptor of the file: what has
 * opened the rows keeps them open.
 *
 * A row is read and written with the state locked (state.h), and cleared by whoever finds its
 * process dead.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sim/cuda_shared.h"
#include "sim/hw.h"

#define CUDA_MAX_ROWS SHARED_MAX_HOLDERS

struct cuda_row {
    uint32_t used;
    uint32_t pid;    /* in its own PID namespace, ... */
    uint64_t pid_ns; /* ... which has this inode */
    char name[64];
    uint32_t contexts[HW_MAX_GPUS];
    uint64_t bytes[HW_MAX_GPUS]; /* contexts' own included, shared memory not */
};

struct cuda_rows_file {
    uint32_t version;
    uint32_t reach; /* rows from here on were never used */
    struct cuda_row rows[CUDA_MAX_ROWS];
    struct shared_pieces shared;
};

/* A process's view of the file. Zero: not open. */
struct cuda_rows {
    int fd;
    char path[PATH_MAX];
    struct cuda_rows_file *file;
    struct cuda_row *own; /* this process's row; NULL when it has none */
};

/* Opens the rows of a state, making the file where there is none. NULL: of this process's own
 * cards. False: errno. */
bool cuda_rows_open(struct cuda_rows *r, const char *state_path);

/* Gives this process, which has none, a row. False when all are taken. */
bool cuda_rows_join(struct cuda_rows *r, const char *name);

/* The number of this process's row, which it has. */
uint32_t cuda_rows_own(const struct cuda_rows *r);

/* The id, as this process knows it, of the process of a row; 0 for one that is not known here: of a
 * PID namespace that is not below ours. */
pid_t cuda_rows_pid(const struct cuda_rows *r, uint32_t row);

/* Ends the row of this process, if it has one. */
void cuda_rows_leave(struct cuda_rows *r);

/* For the child of a fork: forgets the rows without ending the parent's, which its descriptor would
 * keep alive. */
void cuda_rows_forget(struct cuda_rows *r);

/* Clears the rows of processes that have ended, and returns how many are in use. */
unsigned int cuda_rows_sweep(struct cuda_rows *r);

/* The bytes that all have on a card, and processes that have ended had. */
uint64_t cuda_rows_bytes(const struct cuda_rows *r, uint32_t gpu);

/*
 * Writes each process's part of each card into the list of processes, instead of those that were
 * there. Returns how many rows are in use.
 */
unsigned int cuda_rows_fold(struct cuda_rows *r, struct hw *hw);
