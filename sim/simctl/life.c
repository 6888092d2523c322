/* SPDX-License-Identifier: Apache-2.0 */
/* Commands for events in the hardware's life: processes, errors, reboots. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda_timeslice.h"
#include "sim/machine.h"
#include "sim/mig.h"
#include "sim/nvml.h"
#include "sim/proc_tree.h"
#include "sim/simctl/simctl.h"

void attach(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    struct hw_proc proc = {.gpu = take_card(a, hw)};
    proc.gi = take_number(a, "--gi", HW_NONE);
    proc.ci = take_number(a, "--ci", proc.gi == HW_NONE ? HW_NONE : 0);
    proc.slice = take_number(a, "--slice", HW_NONE);
    proc.vf = take_number(a, "--vf", HW_NONE);
    proc.pid = take_number(a, "--pid", 0);
    proc.memory_mib = take_number(a, "--mem", 512);
    proc.load = take_number(a, "--load", 0);
    const char *name = take_option(a, "--name");
    struct proc_facts facts = {.pid = proc.pid, .name = name != NULL ? name : "python3"};
    facts.pod_uid = take_option(a, "--pod-uid");
    facts.container = take_option(a, "--container");
    if (take_flag(a, "--graphics"))
        proc.kind = PROC_GRAPHICS;
    else if (take_flag(a, "--mps"))
        proc.kind = PROC_MPS;
    take_end(a);
    if (proc.pid == 0)
        die("--pid is needed");
    if (proc.load > 100)
        die("--load is in percent");
    (void)snprintf(proc.name, sizeof(proc.name), "%s", facts.name);
    check(machine_attach(hw, &proc), "attach");
    /* The process is in /proc before any client can learn its pid. */
    if (!proc_tree_add(&facts))
        die("CLEAVE_SIM_PROC: %s", strerror(errno));
    state_commit(s);
    state_unlock(s);
}

static bool still_runs(const struct hw *hw, uint32_t pid)
{
    for (size_t i = 0; i < hw->proc_reach; i++) {
        if (hw->procs[i].pid == pid)
            return true;
    }
    return false;
}

void detach(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    uint32_t pid = take_number(a, "--pid", 0);
    bool one = a->count > 0;
    uint32_t gpu = one ? take_card(a, hw) : HW_NONE;
    take_end(a);
    if (pid == 0)
        die("--pid is needed");
    if (machine_detach(hw, pid, gpu) == 0)
        die("process %u is on no card", pid);
    state_commit(s);
    if (!still_runs(hw, pid))
        proc_tree_remove(pid);
    state_unlock(s);
}

void xid(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    uint32_t gpu = take_gpu(a, hw);
    uint32_t code = take_number(a, "--code", 0);
    uint32_t gi = take_number(a, "--gi", HW_NONE);
    uint32_t ci = take_number(a, "--ci", HW_NONE);
    take_end(a);
    if (code == 0)
        die("--code is needed");
    hw->gpus[gpu].last_xid = code;
    hw_emit(hw, EVENT_XID, code, gpu, gi, ci);
    state_commit(s);
    state_unlock(s);
}

uint32_t word_number(struct args *a)
{
    const char *text = take_word(a);
    char *end = NULL;
    unsigned long n = text != NULL ? strtoul(text, &end, 10) : 0;
    if (text == NULL || *text == '-' || end == text || *end != '\0' || n > UINT32_MAX)
        die("a number is needed");
    return (uint32_t)n;
}

static void ecc_count(struct hw *hw, uint32_t gpu, const char *what, uint32_t n)
{
    struct hw_ecc *e = &hw->gpus[gpu].ecc;
    if (strcmp(what, "corrected") == 0) {
        e->corrected_volatile += n;
        e->corrected_aggregate += n;
        hw_emit(hw, EVENT_SINGLE_BIT_ECC, n, gpu, HW_NONE, HW_NONE);
        return;
    }
    if (strcmp(what, "sram") != 0 && strcmp(what, "uncorrected") != 0)
        die("ecc takes corrected, uncorrected, sram or clear");
    if (strcmp(what, "sram") == 0)
        e->sram_uncorrected += n;
    e->uncorrected_volatile += n;
    e->uncorrected_aggregate += n;
    hw_emit(hw, EVENT_DOUBLE_BIT_ECC, n, gpu, HW_NONE, HW_NONE);
}

static void nvidia_ecc(struct hw *hw, uint32_t gpu, struct args *a)
{
    const char *what = take_word(a);
    if (what == NULL)
        die("ecc takes corrected, uncorrected, sram or clear");
    if (strcmp(what, "clear") == 0)
        hw->gpus[gpu].ecc = (struct hw_ecc){0};
    else
        ecc_count(hw, gpu, what, word_number(a));
}

void ecc(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    uint32_t card = take_card(a, hw);
    if (card >= HW_METAX)
        metax_ecc(hw, card - HW_METAX, a);
    else
        nvidia_ecc(hw, card, a);
    take_end(a);
    state_commit(s);
    state_unlock(s);
}

void remap(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    struct hw_remap *r = &hw->gpus[take_gpu(a, hw)].remap;
    if (a->count > 0 && strcmp(a->words[0], "clear") == 0) {
        (void)take_word(a);
        *r = (struct hw_remap){0};
    }
    r->corrected = take_number(a, "--corrected", r->corrected);
    r->uncorrected = take_number(a, "--uncorrected", r->uncorrected);
    r->pending = take_number(a, "--pending", r->pending) != 0;
    r->failed = take_number(a, "--failed", r->failed) != 0;
    take_end(a);
    state_commit(s);
    state_unlock(s);
}

void nvlink(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    struct hw_link_errors *e = &hw->gpus[take_gpu(a, hw)].link_errors;
    e->replays += take_number(a, "--replays", 0);
    e->recoveries += take_number(a, "--recoveries", 0);
    e->crc_flits += take_number(a, "--crc-flits", 0);
    e->crc_data += take_number(a, "--crc-data", 0);
    take_end(a);
    state_commit(s);
    state_unlock(s);
}

void temperature(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    uint32_t gpu = take_gpu(a, hw);
    uint32_t celsius = word_number(a);
    take_end(a);
    hw_count_work(hw, gpu, timeslices_now());
    hw->gpus[gpu].temperature_c = celsius < 150 ? celsius : 150;
    state_commit(s);
    state_unlock(s);
}

void recovery_action(struct state *s, struct args *a)
{
    static const char *const names[] = {"none",      "reset",           "reboot",
                                        "drain-p2p", "drain-and-reset", "imex"};
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    uint32_t gpu = take_gpu(a, hw);
    const char *name = take_word(a);
    uint32_t action = 0;
    while (action < 6 && (name == NULL || strcmp(names[action], name) != 0))
        action++;
    if (action == 6)
        die("recovery-action is none, reset, reboot, drain-p2p, drain-and-reset or imex");
    take_end(a);
    hw->gpus[gpu].recovery_action = action;
    hw_emit(hw, EVENT_RECOVERY_ACTION, action, gpu, HW_NONE, HW_NONE);
    state_commit(s);
    state_unlock(s);
}

/* The kernel log has Xid 79 for a card that fell off the bus. */
void lost(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    uint32_t gpu = take_gpu(a, hw);
    const char *what = take_word(a);
    bool set = what != NULL && strcmp(what, "set") == 0;
    if (!set && (what == NULL || strcmp(what, "clear") != 0))
        die("lost takes set or clear");
    take_end(a);
    if (set && !hw->gpus[gpu].lost) {
        hw->gpus[gpu].last_xid = 79;
        hw_emit(hw, EVENT_XID, 79, gpu, HW_NONE, HW_NONE);
    }
    hw->gpus[gpu].lost = set;
    state_commit(s);
    state_unlock(s);
}

/* As nvidia-smi -pm sets it, and nvidia-persistenced. */
void persistence(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    uint32_t gpu = take_gpu(a, hw);
    uint32_t on = word_number(a);
    take_end(a);
    if (on > 1)
        die("persistence takes 0 or 1");
    hw->gpus[gpu].persistence = on;
    state_commit(s);
    state_unlock(s);
}

void reboot_command(struct state *s, struct args *a)
{
    take_end(a);
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    machine_reboot(hw);
    state_commit(s);
    proc_tree_remove_all();
    if (!proc_tree_boot(hw, /* is_old= */ true))
        die("CLEAVE_SIM_PROC: %s", strerror(errno));
    state_unlock(s);
}
