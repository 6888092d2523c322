/* SPDX-License-Identifier: Apache-2.0 */
/* MXSML: processes. Contracts are MXSML's own. */
#include <stdio.h>
#include <string.h>

#include "sim/metax.h"
#include "sim/mxsml_session.h"

#define GPUS_OF_PROCESS                                                                            \
    (sizeof(((struct mxsml_process *)0)->gpu) / sizeof(struct mxsml_process_gpu))

static bool is_on_metax(const struct hw_proc *p)
{
    return p->pid != 0 && p->gpu >= HW_METAX;
}

/* True when an earlier entry of the table has the same process, on another card or slice. */
static bool came_before(const struct hw *hw, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (is_on_metax(&hw->procs[i]) && hw->procs[i].pid == hw->procs[at].pid)
            return true;
    }
    return false;
}

/* Each process once. */
static unsigned int count_processes(const struct hw *hw)
{
    unsigned int count = 0;
    for (size_t i = 0; i < hw->proc_reach; i++)
        count += is_on_metax(&hw->procs[i]) && !came_before(hw, i);
    return count;
}

static void add_gpu(const struct hw *hw, const struct hw_proc *p, struct mxsml_process *ret)
{
    if (ret->gpu_number == GPUS_OF_PROCESS)
        return;
    const struct mx_card *card = &hw->mx_cards[p->gpu - HW_METAX];
    struct mxsml_process_gpu *gpu = &ret->gpu[ret->gpu_number++];
    mx_bdf(card, p->vf, gpu->bdf_id, sizeof(gpu->bdf_id));
    gpu->gpu_id = mx_gpu_id(card, p->vf);
    gpu->memory = (unsigned long)p->memory_mib << 20;
    gpu->sgpu_id = p->slice == HW_NONE ? -1 : (int)p->slice;
}

static void begin_process(const struct hw_proc *p, struct mxsml_process *ret)
{
    *ret = (struct mxsml_process){.pid = p->pid};
    (void)snprintf(ret->name, sizeof(ret->name), "%s", p->name);
}

unsigned int mxSmlGetNumberOfProcess(unsigned int *number)
{
    struct mx_call c = {.id = CALL_mxSmlGetNumberOfProcess};
    int rc = mx_enter(&c, 0, MX_ON_NOTHING);
    if (rc == MXSML_SUCCESS && number == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        *number = count_processes(c.hw);
    return mx_leave(&c, rc);
}

static void list_processes(const struct hw *hw, unsigned int room, struct mxsml_process *ret)
{
    unsigned int n = 0;
    memset(ret, 0, room * sizeof(*ret));
    for (size_t i = 0; i < hw->proc_reach && n < room; i++) {
        if (!is_on_metax(&hw->procs[i]) || came_before(hw, i))
            continue;
        begin_process(&hw->procs[i], &ret[n]);
        for (size_t k = i; k < hw->proc_reach; k++) {
            if (is_on_metax(&hw->procs[k]) && hw->procs[k].pid == ret[n].pid)
                add_gpu(hw, &hw->procs[k], &ret[n]);
        }
        n++;
    }
}

/* Assumed: of more processes the first `number`; entries without a process have the pid 0. */
unsigned int mxSmlGetProcessInfo_v3(unsigned int number, struct mxsml_process *processes)
{
    struct mx_call c = {.id = CALL_mxSmlGetProcessInfo_v3};
    int rc = mx_enter(&c, 0, MX_ON_NOTHING);
    if (rc == MXSML_SUCCESS && (processes == NULL || number > HW_MAX_PROCS))
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        list_processes(c.hw, number, processes);
    return mx_leave(&c, rc);
}

static bool is_on_device(const struct mx_call *c, const struct hw_proc *p)
{
    return p->pid != 0 && p->gpu == HW_METAX + c->metax && (c->vf == HW_NONE || p->vf == c->vf);
}

/* Assumed: an entry for each slice that a process is in. */
static int list_of_device(const struct mx_call *c, unsigned int *number, struct mxsml_process *ret)
{
    unsigned int count = mx_count_procs(c->hw, c->metax, HW_NONE, c->vf);
    bool fits = count <= *number;
    *number = count;
    if (!fits)
        return MXSML_INSUFFICIENT_SIZE;
    if (count > 0 && ret == NULL)
        return MXSML_INVALID_INPUT;
    for (size_t i = 0, n = 0; i < c->hw->proc_reach && n < count; i++) {
        if (!is_on_device(c, &c->hw->procs[i]))
            continue;
        begin_process(&c->hw->procs[i], &ret[n]);
        add_gpu(c->hw, &c->hw->procs[i], &ret[n++]);
    }
    return MXSML_SUCCESS;
}

unsigned int mxSmlGetSingleGpuProcess_v3(unsigned int dev, unsigned int *number,
                                         struct mxsml_process *processes)
{
    struct mx_call c = {.id = CALL_mxSmlGetSingleGpuProcess_v3};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && number == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        rc = list_of_device(&c, number, processes);
    return mx_leave(&c, rc);
}
