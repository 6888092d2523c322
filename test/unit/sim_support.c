/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_support.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/vendor/metax/mxsml_open.h"
#include "nodeagent/vendor/nvidia/nvml_open.h"

static char dir[64];
static char sim[PATH_MAX]; /* folder of the simulated libraries, beside this program's */

static void set_path(const char *variable, const char *name)
{
    auto_free char *path = xasprintf("%s/%s", dir, name);
    cr_assert_eq(setenv(variable, path, 1), 0);
}

void sim_machine_start(void)
{
    const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    ssize_t n = readlink("/proc/self/exe", sim, sizeof(sim) - 1);
    cr_assert_gt(n, 0);
    sim[n] = '\0';
    for (int i = 0; i < 3; i++)
        *strrchr(sim, '/') = '\0';
    (void)snprintf(sim + strlen(sim), sizeof(sim) - strlen(sim), "/sim");
    (void)snprintf(dir, sizeof(dir), "%s/sim-test-XXXXXX", root);
    cr_assert(mkdtemp(dir));
    set_path("CLEAVE_SIM_STATE", "state");
    set_path("CLEAVE_SIM_FLEET", "fleet.yaml");
    set_path("CLEAVE_SIM_PROC", "proc");
}

void sim_machine_stop(void)
{
    auto_free char *command = xasprintf("rm -rf '%s'", dir);
    cr_assert_eq(system(command), 0);
}

const char *sim_machine_dir(void)
{
    return dir;
}

void sim_fleet(const char *gpus)
{
    auto_free char *path = xasprintf("%s/fleet.yaml", dir);
    auto_free char *text =
        xasprintf("driverVersion: 570.86.15\ncudaVersion: \"12.8\"\n"
                  "fabric: {clusterUUID: 0e1b2c3d4e5f60718293a4b5c6d7e8f9, clique: 7, state: "
                  "completed}\ngpus: %s\n",
                  gpus);
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0600, NULL), 0);
}

struct gpu *sim_open(void)
{
    auto_free char *library = xasprintf("%s/libnvidia-ml.so.1", sim);
    auto_free char *smi = xasprintf("%s/nvidia-smi", sim);
    auto_free char *proc = xasprintf("%s/proc", dir);
    auto_free char *sys = xasprintf("%s/sys", dir);
    struct gpu *g = NULL;
    auto_err struct err e = {0};
    const struct nvml_options o = {.library = library,
                                   .nvidia_smi = smi,
                                   .proc_root = proc,
                                   .sys_root = sys};
    cr_assert_eq(gpu_nvml_open(&o, &g, &e), 0, "%s", err_msg(&e));
    return g;
}

struct gpu *sim_open_metax(void)
{
    auto_free char *library = xasprintf("%s/libmxsml.so", sim);
    auto_free char *proc = xasprintf("%s/proc", dir);
    auto_free char *sys = xasprintf("%s/sys", dir);
    struct gpu *g = NULL;
    auto_err struct err e = {0};
    const struct mxsml_options o = {.library = library, .proc_root = proc, .sys_root = sys};
    cr_assert_eq(gpu_mxsml_open(&o, &g, &e), 0, "%s", err_msg(&e));
    return g;
}

void *sim_symbol(const char *library, const char *name)
{
    auto_free char *path = xasprintf("%s/%s", sim, library);
    void *dl = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays, as the program does */
    cr_assert(dl, "%s", dlerror());
    return dlsym(dl, name);
}

void sim_control(const char *words)
{
    auto_free char *command = xasprintf("'%s/cleave-simctl' %s > /dev/null", sim, words);
    cr_assert_eq(system(command), 0, "%s", words);
}

struct gpu_inventory sim_read(struct gpu *g)
{
    struct gpu_inventory inv = {0};
    auto_err struct err e = {0};
    cr_assert_eq(g->ops->read(g, &inv, &e), 0, "%s", err_msg(&e));
    return inv;
}

static void make(struct gpu *g, const struct gpu_card *card, unsigned profile, unsigned start,
                 unsigned ci_slices)
{
    const struct mig_profile *p = &card->mig.profiles[profile];
    unsigned gi = 0;
    unsigned ci = 0;
    auto_err struct err e = {0};
    cr_assert_eq(g->ops->gi_create(g, card->uuid, p->id, start, p->size, &gi, &e), 0,
                 "%s at %u: %s", p->name, start, err_msg(&e));
    cr_assert_eq(g->ops->ci_create(g, card->uuid, gi, ci_slices, -1, &ci, &e), 0, "%s: %s", p->name,
                 err_msg(&e));
}

void sim_cut_named(struct gpu *g, const struct gpu_card *card, const char *layout)
{
    struct mig_wants wants;
    bool enabled;
    auto_err struct err e = {0};
    cr_assert_eq(mig_named_layout(&card->mig, layout, &enabled, &wants, &e), 0, "%s", err_msg(&e));
    auto_free struct mig_plan *plan = xmalloc(sizeof(*plan));
    mig_plan(&card->mig, &card->state, &wants, plan);
    cr_assert_eq(plan->verdict, MIG_PLAN_CHANGE);
    for (unsigned i = 0; i < plan->n_create; i++)
        make(g, card, plan->create[i].profile, plan->create[i].start, plan->create[i].cis[0]);
}

void sim_cut_part(struct gpu *g, const struct gpu_card *card, const char *profile, unsigned start,
                  unsigned ci_slices)
{
    for (unsigned i = 0; i < card->mig.n_profiles; i++)
        if (strcmp(card->mig.profiles[i].name, profile) == 0) {
            make(g, card, i, start, ci_slices);
            return;
        }
    cr_assert_fail("no profile %s", profile);
}
