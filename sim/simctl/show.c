/* SPDX-License-Identifier: Apache-2.0 */
/* `show`: the machine as bars of its memory slices, or as JSON. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "sim/memory_limits.h"
#include "sim/mig.h"
#include "sim/nvml.h"
#include "sim/simctl/simctl.h"

#define BAR 72

static void profile_name(const struct hw_gpu *gpu, const struct hw_gi *gi, char *out, size_t size)
{
    gi_profile_short_name(mig_profile_of(gpu, gi), out, size);
}

/* One instance: "[1g.10gb ]" over its memory slices, "#" where a process runs in it. */
static void draw_instance(const struct hw *hw, uint32_t index, const struct hw_gi *gi, char *bar)
{
    const struct hw_gpu *gpu = &hw->gpus[index];
    size_t width = BAR / hw_model(gpu)->grid;
    char *cell = bar + gi->start * width;
    size_t span = gi->size * width;
    char name[64];
    bool busy = hw_count_procs(hw, index, gi->id, HW_NONE) > 0;
    profile_name(gpu, gi, name, sizeof(name));
    memset(cell, busy ? '#' : ' ', span);
    cell[0] = '[';
    cell[span - 1] = ']';
    size_t length = strlen(name) < span - 2 ? strlen(name) : span - 2;
    char *middle = cell + 1 + (span - 2 - length) / 2;
    for (size_t i = 0; i < length; i++)
        middle[i] = name[i];
}

static void draw_bar(const struct hw *hw, uint32_t index)
{
    char bar[BAR + 1];
    const struct hw_gpu *gpu = &hw->gpus[index];
    memset(bar, '.', BAR);
    bar[BAR] = '\0';
    for (size_t i = 0; i < HW_MAX_GI; i++) {
        if (gpu->gis[i].serial != 0)
            draw_instance(hw, index, &gpu->gis[i], bar);
    }
    (void)printf("   %s\n", bar);
}

static const char *mode_text(const struct hw_gpu *gpu)
{
    if (hw_model(gpu)->mig == MIG_NONE)
        return "no MIG";
    if (gpu->mig_current != gpu->mig_pending)
        return gpu->mig_pending ? "MIG off, on pending" : "MIG on, off pending";
    return gpu->mig_current ? "MIG on" : "MIG off";
}

static void show_gpu(const struct hw *hw, uint32_t index)
{
    const struct hw_gpu *gpu = &hw->gpus[index];
    const struct hw_gi *gi = NULL;
    const struct hw_ci *ci = NULL;
    char name[64];
    (void)printf("%2u %s  %s  %s%s%s\n", index, hw_model(gpu)->name, gpu->uuid, mode_text(gpu),
                 gpu->lost ? "  LOST" : "", gpu->removed ? "  removed" : "");
    if (gpu->mig_current)
        draw_bar(hw, index);
    for (unsigned int i = 0; mig_device_at(gpu, i, &gi, &ci); i++) {
        profile_name(gpu, gi, name, sizeof(name));
        (void)printf("   gi %-2u ci %u  %u:%u  %-14s %s\n", gi->id, ci->id, gi->start, gi->size,
                     name, ci->uuid);
    }
}

static void show_limits(const struct hw *hw)
{
    for (size_t i = 0; i < HW_MAX_LIMITS; i++) {
        const struct hw_limit *l = &hw->limits[i];
        if (limits_holds(l))
            (void)printf("limit gpu %u  soft %llu hard %llu  %s\n", l->gpu,
                         (unsigned long long)l->soft, (unsigned long long)l->hard, l->path);
    }
}

static void show_text(const struct hw *hw)
{
    (void)printf("driver %s, boot %u\n", hw->driver_version, hw->boot);
    for (uint32_t i = 0; i < hw->gpu_count; i++)
        show_gpu(hw, i);
    metax_show(hw);
    for (size_t i = 0; i < hw->proc_reach; i++) {
        const struct hw_proc *p = &hw->procs[i];
        if (p->pid == 0 || p->gpu >= HW_METAX)
            continue;
        (void)printf("pid %-7u gpu %u", p->kind != PROC_HIDDEN ? p->pid : 0, p->gpu);
        if (p->gi != HW_NONE)
            (void)printf(" gi %u ci %u", p->gi, p->ci);
        (void)printf("  %u MiB  %s\n", p->memory_mib, p->name);
    }
    show_limits(hw);
}

static json_t *ci_json(const struct hw_ci *ci)
{
    return json_pack("{s:i, s:i, s:s, s:{s:i, s:i}}", "id", (int)ci->id, "profile",
                     (int)ci->profile, "uuid", ci->uuid, "placement", "start", (int)ci->start,
                     "size", (int)ci->size);
}

static json_t *gi_json(const struct hw_gpu *gpu, const struct hw_gi *gi)
{
    char name[64];
    json_t *cis = json_array();
    profile_name(gpu, gi, name, sizeof(name));
    for (size_t i = 0; i < HW_MAX_CI; i++) {
        if (gi->cis[i].serial != 0)
            (void)json_array_append_new(cis, ci_json(&gi->cis[i]));
    }
    return json_pack("{s:i, s:s, s:i, s:{s:i, s:i}, s:o}", "id", (int)gi->id, "profile", name,
                     "profileId", (int)mig_profile_of(gpu, gi)->shape->id, "placement", "start",
                     (int)gi->start, "size", (int)gi->size, "computeInstances", cis);
}

static json_t *gis_json(const struct hw_gpu *gpu)
{
    json_t *gis = json_array();
    for (unsigned int slot = 0; slot < hw_model(gpu)->grid; slot++) {
        for (size_t i = 0; i < HW_MAX_GI; i++) {
            if (gpu->gis[i].serial != 0 && gpu->gis[i].start == slot)
                (void)json_array_append_new(gis, gi_json(gpu, &gpu->gis[i]));
        }
    }
    return gis;
}

static json_t *gpu_json(const struct hw *hw, uint32_t index)
{
    const struct hw_gpu *gpu = &hw->gpus[index];
    return json_pack("{s:i, s:s, s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:i, s:i, s:o}", "index",
                     (int)index, "model", gpu->model, "name", hw_model(gpu)->name, "uuid",
                     gpu->uuid, "migCapable", hw_model(gpu)->mig != MIG_NONE, "migCurrent",
                     (int)gpu->mig_current, "migPending", (int)gpu->mig_pending, "lost",
                     (int)gpu->lost, "removed", (int)gpu->removed, "recoveryAction",
                     (int)gpu->recovery_action, "grid", (int)hw_model(gpu)->grid, "gpuInstances",
                     gis_json(gpu));
}

static json_t *proc_json(const struct hw_proc *p)
{
    static const char *const kinds[] = {"compute", "graphics", "mps", "hidden"};
    json_t *o = json_pack("{s:i, s:i, s:s, s:s, s:i}", "pid",
                          p->kind != PROC_HIDDEN ? (int)p->pid : 0, "gpu", (int)p->gpu, "kind",
                          kinds[p->kind], "name", p->name, "memoryMiB", (int)p->memory_mib);
    if (p->gi != HW_NONE) {
        (void)json_object_set_new(o, "gi", json_integer(p->gi));
        (void)json_object_set_new(o, "ci", json_integer(p->ci));
    }
    return o;
}

static json_t *limits_json(const struct hw *hw)
{
    json_t *list = json_array();
    for (size_t i = 0; i < HW_MAX_LIMITS; i++) {
        const struct hw_limit *l = &hw->limits[i];
        if (limits_holds(l))
            (void)json_array_append_new(list,
                                        json_pack("{s:i, s:I, s:I, s:s}", "gpu", (int)l->gpu,
                                                  "softBytes", (json_int_t)l->soft, "hardBytes",
                                                  (json_int_t)l->hard, "cgroup", l->path));
    }
    return list;
}

static void show_json(const struct hw *hw)
{
    json_t *gpus = json_array();
    json_t *procs = json_array();
    for (uint32_t i = 0; i < hw->gpu_count; i++)
        (void)json_array_append_new(gpus, gpu_json(hw, i));
    for (size_t i = 0; i < hw->proc_reach; i++) {
        if (hw->procs[i].pid != 0 && hw->procs[i].gpu < HW_METAX)
            (void)json_array_append_new(procs, proc_json(&hw->procs[i]));
    }
    json_t *root =
        json_pack("{s:s, s:i, s:s, s:o, s:o, s:o, s:o}", "driverVersion", hw->driver_version,
                  "boot", (int)hw->boot, "bootId", hw->boot_id, "gpus", gpus, "processes", procs,
                  "memoryLimits", limits_json(hw), "metax", metax_json(hw));
    (void)json_dumpf(root, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    (void)putchar('\n');
    json_decref(root);
}

void show(struct state *s, struct args *a)
{
    bool json = take_flag(a, "--json");
    take_end(a);
    /* A copy, so that the lock is not held while a slow terminal reads. */
    static struct hw hw;
    hw = *state_lock(s);
    state_unlock(s);
    if (json)
        show_json(&hw);
    else
        show_text(&hw);
}
