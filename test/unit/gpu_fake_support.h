/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"

/*
 * Cards in memory behind struct gpu, for tests: hardware that outlives the struct gpu opened on it,
 * refuses what a driver refuses, and fails, dies or gets a user at a chosen call. One thread.
 */
#define FAKE_MAX_CARDS 4

/* C500: no MIG, slices with quotas instead. */
enum fake_model { FAKE_H100, FAKE_A100, FAKE_NO_MIG, FAKE_C500 };

/* A process of a test: pid 0 is an empty place. */
struct fake_process {
    unsigned pid;
    int start;    /* of the GPU instance, or a slice's id; -1: the whole card */
    int ci_start; /* -1: the whole GPU instance */
};

struct fake_card {
    struct gpu_card card; /* identity, table, mode and the instances that stand */
    struct fake_process users[8];
    unsigned mutations; /* calls that tried to change this card */
};

struct fake_hw {
    unsigned n_cards;
    struct fake_card cards[FAKE_MAX_CARDS];
    unsigned calls;      /* so far */
    unsigned serial;     /* of UUIDs */
    unsigned violations; /* attempts to destroy, reset or switch something in use */
    bool reset_impossible;
    bool places_cis_itself;        /* as drivers did before they could be told */
    enum gpu_mode_result stubborn; /* what a mode switch answers; the mode stays pending */
    /* Faults by number of the call, counted from 1; 0: none. */
    unsigned fail_at, fail_after_at; /* without, with the call's effect */
    unsigned fail_count;             /* how many calls from there on fail; 0: one */
    unsigned kill_at, kill_after_at; /* the process dies: no later call does anything */
    unsigned attach_at;              /* before that call a process takes the place below */
    unsigned attach_card;
    struct fake_process attach;
    bool dead;
    void (*on_kill)(void *arg);
    void *on_kill_arg;
};

/* A card with its model's table, MIG off. Borrowed from hw. */
struct fake_card *fake_add(struct fake_hw *hw, enum fake_model model);
/* Puts an instance with one compute instance per entry of cis (0 ends them). MIG must be on. */
void fake_put(struct fake_card *c, const char *profile, unsigned start, const unsigned *cis);
/* Puts a slice. The card must be in mode GPU_SGPU. Returns its id. */
unsigned fake_slice(struct fake_card *c, const char *alias, struct sgpu_quota quota, bool foreign);
void fake_attach(struct fake_card *c, struct fake_process p);
/* The index of a profile by name; fails the test when there is none. */
unsigned fake_profile(const struct fake_card *c, const char *name);
/* No faults, calls counted from 1 again: a new process on the same hardware. */
void fake_heal(struct fake_hw *hw);

/* A struct gpu on the hardware, which outlives it. Caller frees with gpu_free. */
struct gpu *gpu_fake_open(struct fake_hw *hw);
