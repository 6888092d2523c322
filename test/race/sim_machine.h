/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/gpu.h"

/*
 * A machine with the simulator's cards for a race test, which depends on the target `sim`; and what
 * its threads have in common.
 */

static char machine_dir[64];
static char machine_sim[PATH_MAX]; /* folder of the simulated libraries, beside this program's */

static inline void machine_path(const char *variable, const char *name)
{
    auto_free char *path = xasprintf("%s/%s", machine_dir, name);
    int rc = setenv(variable, path, 1);
    assert(rc == 0);
}

/* gpus: the list of a fleet file; latency: of its calls, "none" or a mapping. A machine that was
 * started before is gone. */
static inline void machine_start(const char *gpus, const char *latency)
{
    ssize_t n = readlink("/proc/self/exe", machine_sim, sizeof(machine_sim) - 1);
    assert(n > 0);
    machine_sim[n] = '\0';
    for (int i = 0; i < 3; i++)
        *strrchr(machine_sim, '/') = '\0';
    (void)snprintf(machine_sim + strlen(machine_sim), sizeof(machine_sim) - strlen(machine_sim),
                   "/sim");
    (void)snprintf(machine_dir, sizeof(machine_dir), "/tmp/race-XXXXXX");
    const char *made = mkdtemp(machine_dir);
    assert(made);
    machine_path("CLEAVE_SIM_STATE", "state");
    machine_path("CLEAVE_SIM_FLEET", "fleet.yaml");
    auto_free char *text = xasprintf("driverVersion: 580.95.05\ncudaVersion: \"13.0\"\n"
                                     "metaxDriverVersion: 2.32.0.6\nmacaVersion: 2.32.0.6\n"
                                     "seed: 1\nlatency: %s\ngpus: %s\n",
                                     latency, gpus);
    int rc = file_write_atomic(getenv("CLEAVE_SIM_FLEET"), text, strlen(text), 0600, NULL);
    assert(rc == 0);
}

static inline void machine_stop(void)
{
    auto_free char *command = xasprintf("rm -rf '%s'", machine_dir);
    int rc = system(command);
    assert(rc == 0);
}

/* Words of cleave-simctl, which must succeed. */
static inline void machine_control(const char *words)
{
    auto_free char *command = xasprintf("'%s/cleave-simctl' %s >/dev/null", machine_sim, words);
    int rc = system(command);
    assert(rc == 0);
}

/* The path of one of the simulator's files. Caller frees. */
static inline char *machine_file(const char *name)
{
    return xasprintf("%s/%s", machine_sim, name);
}

/* Runs a test in a process of its own, which may leave hung threads behind; returns 0 or 1. */
static inline int machine_run(void (*test)(void))
{
    int status = 0;
    pid_t child = fork();
    assert(child >= 0);
    if (child == 0) {
        test();
        (void)fflush(NULL);
        _exit(0);
    }
    pid_t ended = waitpid(child, &status, 0);
    assert(ended == child);
    return status ? 1 : 0;
}

/* Fails the test when the verb did. */
static inline void must(int rc, const struct err *e)
{
    if (rc < 0)
        (void)fprintf(stderr, "%s\n", err_msg(e));
    assert(rc == 0);
}

static inline void start_thread(pthread_t *t, void *(*run)(void *), void *arg)
{
    int rc = pthread_create(t, NULL, run, arg);
    assert(rc == 0);
}

/* Waits until the thread is in a call of this name. */
static inline void wait_for_call(const struct gpu_activity *a, const char *name)
{
    const char *call = NULL;
    while (!call || strcmp(call, name) != 0) {
        (void)sched_yield();
        call = atomic_load(&a->call);
    }
}
