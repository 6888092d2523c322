/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * What the agent and the limiter in a container share: two files in a folder of the container, and
 * a socket. In the container they are
 *
 *    /run/cleave/terms   written by the agent; the container can only read it
 *    /run/cleave/usage   made by the agent, written by the container's processes
 *    /run/cleave/agent   a datagram socket of the agent, for struct share_message
 *
 * Both files have a fixed size and are mapped. The agent maps terms alone: a container may shorten
 * or scribble over usage, so the agent reads that one with pread, bounds every word, and believes
 * nothing in it that the driver contradicts.
 *
 * All fields are naturally aligned words of the machine; those marked (atomic) are read and written
 * with atomic operations by several processes, the others are written before the file is seen.
 * Sizes are in bytes, times in nanoseconds of CLOCK_MONOTONIC.
 */

#define REGION_FOLDER "/run/cleave"
#define REGION_TERMS  "terms"
#define REGION_USAGE  "usage"
#define REGION_AGENT  "agent"

enum {
    REGION_VERSION = 1,
    REGION_MAX_CARDS = 16,
    REGION_MAX_PROCESSES = 1024,
};

#define TERMS_MAGIC UINT64_C(0x31736d7265745643) /* "CVterms1" */
#define USAGE_MAGIC UINT64_C(0x3165676173755643) /* "CVusage1" */

/* --- Terms --- */

/* When a container's work may go to a card: the word `gate`. Who waits for it to change sleeps on
 * `beat`, a futex, which changes with each gate. */
enum share_gate {
    GATE_OPEN = 0,   /* nothing is asked; work goes on without a word */
    GATE_TELL = 1,   /* work goes on; who sends the first says WANT */
    GATE_CLOSED = 2, /* work waits until it changes; who wants some says WANT */
    GATE_TURN = 3,   /* work goes on, bounded in flight, until it changes */
};

/* What holds the limits (enforcement.memory and .compute). */
enum share_level { LEVEL_NONE, LEVEL_LIBRARY, LEVEL_MPS, LEVEL_DRIVER };

/* One card of the container, in the order of its slots. `turn` counts all changes of the gate, not
 * only those to GATE_TURN: WANT, IDLE and DRAINED say which one they are about. */
struct terms_card {
    uint8_t uuid[16];
    uint64_t memory_bytes;  /* (atomic) the limit over all processes of the container */
    uint64_t context_bytes; /* (atomic) what a process's context takes besides, as measured */
    uint32_t percent;       /* (atomic) of the card's compute; 0: no guarantee */
    uint32_t priority;      /* 0 high, 1 low */
    uint32_t memory_level, compute_level; /* enum share_level */
    union {
        struct {
            uint32_t gate; /* enum share_gate */
            uint32_t turn; /* counts the changes of the gate */
        };
        uint64_t gate_and_turn; /* (atomic) they are written and read together */
    };
    uint64_t turn_ends; /* (atomic) of GATE_TURN, as planned */
    uint32_t is_capped; /* 1: never more than its percent, also alone */
    uint32_t pad;
    uint64_t reserved[7];
};

struct terms {
    uint64_t magic;
    uint32_t version, bytes; /* of the whole file */
    uint32_t n_cards;
    uint32_t heed; /* (atomic) the number of cards whose gate is not OPEN: the one word that a
                       launch reads */
    uint32_t beat; /* (atomic) changes at least four times a second while a gate is CLOSED or
                       TURN: who waits and sees it stand still for a second takes the agent for
                       gone */
    uint32_t pad;
    uint64_t reserved[12];
    struct terms_card cards[REGION_MAX_CARDS];
};

/* --- Usage --- */

/* A process of the container. Free while pid is 0; one whose pid is no process that started then
 * is of a process that has ended. */
struct usage_process {
    uint32_t pid;     /* (atomic) in its PID namespace, ... */
    uint32_t pid_ns;  /* (atomic) ... which has this inode */
    uint64_t started; /* (atomic) starttime of /proc/<pid>/stat, in clock ticks since boot */
    uint64_t reserved[6];
};

struct usage {
    uint64_t magic;
    uint32_t version, bytes;
    uint32_t pad;
    uint32_t reach; /* (atomic) slots from here on were never used */
    uint64_t lock;  /* (atomic) word_lock.h */
    uint64_t trial; /* (atomic) the same, of who tries what may pass a limit by a granule, or by
                        a pool's slab */
    uint64_t reserved[11];
    struct usage_process processes[REGION_MAX_PROCESSES];
    /* (atomic) What each process has of each card, its contexts included. */
    uint64_t taken[REGION_MAX_CARDS][REGION_MAX_PROCESSES];
    /* (atomic) Of these, what was taken for its contexts (terms_card.context_bytes). */
    uint64_t by_contexts[REGION_MAX_CARDS][REGION_MAX_PROCESSES];
    /* (atomic) How many of these there are. */
    uint64_t contexts[REGION_MAX_CARDS][REGION_MAX_PROCESSES];
};

/* --- Messages to the agent --- */

enum share_word {
    SHARE_HELLO = 1, /* a process has taken its slot in usage */
    SHARE_SERVES,    /* it has a context on the card, and will answer when its gate is closed */
    SHARE_WANT,      /* there is work for the card */
    SHARE_DRAINED, /* of a turn: nothing of this process is in flight any more; at GATE_TURN, it gives
                      * the turn back in order to have it together with other cards' ... */
    SHARE_IDLE,    /* ... and nothing waits */
};

/* One datagram. The sender's process is known from its credentials, not from what it says. */
struct share_message {
    uint32_t version;
    uint32_t word; /* enum share_word */
    uint32_t card; /* its index in terms */
    uint32_t turn;
    uint32_t slot; /* in usage */
    uint32_t pad;
};

_Static_assert(sizeof(struct terms_card) == 128, "laid out without gaps");
_Static_assert(sizeof(struct terms) == 128 + 128 * REGION_MAX_CARDS, "laid out without gaps");
_Static_assert(sizeof(struct usage_process) == 64, "laid out without gaps");
_Static_assert(offsetof(struct usage, processes) == 128, "laid out without gaps");
