/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose kernels a card runs: one context's at a time, of all processes of a state. Contexts with
 * kernels get time slices in rotation, each 2 ms long or as long as it has work.
 *
 * The file "<state>.work" has a seat for each context that ever ran a kernel, and the cards: who
 * has each, and what slices it gave. A lock that the kernel drops guards them, for a few
 * microseconds; a second one tells of each seat that its process lives. A waiter sleeps on its
 * seat's bell (a futex).
 *
 * A slice has an end from its beginning on. Its holder hands the card to the next; where it does
 * not, because it was killed, stopped or had no processor, the next takes the card a millisecond
 * after that end. So nobody is held up by another process. The card worked for the holder until
 * then, whether its process saw it or not, and so the holder counts it.
 *
 * Times are CLOCK_MONOTONIC. A slice begins where the one before it ended, though its holder woke
 * later, as long as that is no more than TIMESLICE_LAG_NS ago: waking takes no time from the card.
 */
#pragma once

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/hw.h"

#define TIMESLICE_NS        INT64_C(2000000) /* Assumed: as the driver's default is */
#define TIMESLICE_MARGIN_NS INT64_C(1000000)
#define TIMESLICE_LAG_NS    INT64_C(4000000)
#define TIMESLICE_SEATS     1024
#define TIMESLICE_PAST      1024 /* slices that are kept of each card */
#define TIMESLICE_NEVER     INT64_MAX

struct timeslice {
    int64_t start_ns, end_ns;
};

struct timeslice_seat {
    _Atomic uint32_t bell;
    uint32_t used;
    uint32_t gpu;
    uint32_t pid;     /* as the process knows itself, ... */
    uint32_t row;     /* ... and where it is among CUDA's processes (cuda_rows.h) */
    uint32_t waits;   /* it has kernels, and not the card */
    uint32_t granted; /* it was given `slice`, and does not know it yet */
    int64_t since_ns; /* when its kernels were there */
    struct timeslice slice;
    int64_t run_ns; /* of all its slices */
};

struct timeslice_past {
    struct timeslice slice; /* as far as it was used */
    uint32_t seat, pid, row;
};

struct timeslice_card {
    uint32_t holder; /* its seat + 1; 0: none */
    uint32_t last;   /* the seat that had it last */
    int64_t free_ns; /* when it was free of its last holder */
    int64_t run_ns;
    uint64_t count; /* slices that have ended; past[(count - 1) % TIMESLICE_PAST] is the last */
    struct timeslice_past past[TIMESLICE_PAST];
};

struct timeslice_file {
    uint32_t version;
    uint32_t reach; /* seats from here on were never used */
    struct timeslice_seat seats[TIMESLICE_SEATS];
    struct timeslice_card cards[HW_MAX_GPUS];
};

/* A process's view of the file; `mu` excludes its threads. Zero but for `mu`: not open. */
struct timeslices {
    pthread_mutex_t mu;
    int fd;
    struct timeslice_file *file;
    bool own[TIMESLICE_SEATS];
};

/* Opens the file of a state, making it where there is none, once. NULL: of this process's own
 * cards. False: errno. */
bool timeslices_open(struct timeslices *t, const char *state_path);

/* For the child of a fork, whose descriptor would keep its parent's seats alive. */
void timeslices_forget(struct timeslices *t);

/* Excludes everybody else from the file, for a short look. */
void timeslices_lock(struct timeslices *t);
void timeslices_unlock(struct timeslices *t);

/* A seat for a context on a card, of the process of a row; -1 when all are taken. */
int timeslices_join(struct timeslices *t, uint32_t gpu, uint32_t row);

/* Ends a seat, which used the card until then if it has it. */
void timeslices_leave(struct timeslices *t, int seat, int64_t until_ns);

/*
 * Asks for the card, for kernels that are there since then. True: it has, or had, the card for
 * *ret, which was not told before. False: look again when the bell rings, at *ret_look_ns at the
 * latest.
 */
bool timeslices_ask(struct timeslices *t, int seat, int64_t since_ns, struct timeslice *ret,
                    int64_t *ret_look_ns);

/* Hands the card on, which the seat used until then; with `again` it waits for its next slice. */
void timeslices_give(struct timeslices *t, int seat, int64_t until_ns, bool again);

/* The bell of a seat: what it says before one looks for reasons to sleep is what to sleep by. */
uint32_t timeslices_bell(const struct timeslices *t, int seat);
void timeslices_sleep(struct timeslices *t, int seat, uint32_t bell, int64_t until_ns);

/* Rings it; a sleeper wakes only with `wake`, which costs a call of the system. */
void timeslices_ring(struct timeslices *t, int seat, bool wake);

/* True when the seat's process lives. Locked. */
bool timeslices_is_live(const struct timeslices *t, uint32_t seat);

/* CLOCK_MONOTONIC. */
int64_t timeslices_now(void);

/*
 * How much of the last second a card ran kernels, in percent: those of one row's process, or of
 * TIMESLICE_ALL. Of a shorter time where no more slices are kept. Locked.
 */
#define TIMESLICE_ALL UINT32_MAX
uint32_t timeslices_percent(const struct timeslices *t, uint32_t gpu, uint32_t row);

/* The time of all slices of a card that have ended. Locked. */
int64_t timeslices_run_ns(const struct timeslices *t, uint32_t gpu);
