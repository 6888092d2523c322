/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/vendor/nvidia/nvml_session.h"

/* Bound on the processes that the driver is asked for. The kept list is shorter
 * (GPU_MAX_PROCESSES), but the in-use marks come from all of them, and stay when holders are set
 * (gpu_card_set_holders). */
#define MAX_RAW   4096
#define FIRST_TRY 64
/* The list may grow between the questions for its size and for its content. */
#define MAX_TRIES 6

#define STAT_BYTES  4096
#define MAX_PARENTS 3 /* server, daemon, agent */

struct raw_list {
    unsigned n;
    struct nvml_process_info *items; /* owned */
};

typedef nvml_ret list_fn(nvml_device, unsigned *, struct nvml_process_info *);

/* Reads one list by NVML's protocol: a too small buffer is answered with the needed size.
 * *ret_told: false when the driver or card has no such list. */
static int ask_list(struct nvml *n, const char *call, list_fn *fn, nvml_device d,
                    struct raw_list *ret, bool *ret_told, struct err *e)
{
    unsigned room = FIRST_TRY;
    nvml_ret rc = NVML_FUNCTION_NOT_FOUND;
    for (int i = 0; fn && i < MAX_TRIES; i++) {
        ret->items = xreallocarray(ret->items, room, sizeof(*ret->items));
        ret->n = room;
        gpu_call_begin(call);
        rc = fn(d, &ret->n, ret->items);
        gpu_call_end();
        if (rc != NVML_INSUFFICIENT_SIZE || ret->n > MAX_RAW)
            break;
        room = (ret->n > room ? ret->n : room) + FIRST_TRY;
    }
    *ret_told = rc == NVML_SUCCESS;
    if (*ret_told)
        return nvml_sound_count("processes", ret->n, room, e);
    ret->n = 0;
    if (rc == NVML_NOT_SUPPORTED || rc == NVML_FUNCTION_NOT_FOUND)
        return 0;
    return nvml_check(n, call, rc, e);
}

static int id_of(unsigned nvml_id)
{
    return nvml_id > INT_MAX ? -1 : (int)nvml_id; /* NVML_NO_INSTANCE, or an impossible value */
}

/* comm is the name that `ps` shows; a process that just ended has none. */
static void read_name(const struct nvml *n, struct gpu_user *p)
{
    auto_free char *path = xasprintf("%s/%u/comm", n->proc_root, p->pid);
    auto_free char *text = NULL;
    if (file_read(path, sizeof(p->name), &text, NULL, NULL) < 0)
        return;
    text[strcspn(text, "\n")] = '\0';
    (void)snprintf(p->name, sizeof(p->name), "%s", text);
}

/* --- The agent's own MPS servers --- */

/* The parent's pid; 0: unknown. The name in parentheses may hold anything; state and parent follow
 * it (proc(5)). */
static unsigned parent_of(const struct nvml *n, unsigned pid)
{
    auto_free char *path = xasprintf("%s/%u/stat", n->proc_root, pid);
    auto_free char *text = NULL;
    int64_t parent = 0;
    if (file_read(path, STAT_BYTES, &text, NULL, NULL) < 0)
        return 0;
    char *behind = strrchr(text, ')');
    if (!behind || strlen(behind) < sizeof(") S 1") - 1)
        return 0;
    behind += sizeof(") S ") - 1;
    behind[strcspn(behind, " ")] = '\0';
    return num_parse(behind, 0, INT32_MAX, &parent, NULL) == 0 ? (unsigned)parent : 0;
}

/* True for a server of a control daemon that the agent runs (container/mps.h). The daemon starts
 * the server for its first client and keeps it. Such a server is not a user of the card: its
 * clients are listed themselves, and it ends with the daemon, which the agent ends before it
 * removes the card or partition. */
static bool is_our_server(const struct nvml *n, unsigned pid)
{
    static const char name[] = "nvidia-cuda-mps"; /* the kernel keeps 15 characters of it */
    struct gpu_user p = {.pid = pid};
    read_name(n, &p);
    if (strncmp(p.name, name, sizeof(name) - 1) != 0)
        return false;
    for (int i = 0; i < MAX_PARENTS && pid > 1; i++) {
        pid = parent_of(n, pid);
        if (pid == (unsigned)getpid())
            return true;
    }
    return false;
}

static bool is_listed(const struct gpu_card *card, const struct nvml_process_info *raw)
{
    for (unsigned i = 0; i < card->n_users; i++) {
        const struct gpu_user *p = &card->users[i];
        if (p->pid == raw->pid && p->part == id_of(raw->gpuInstanceId) &&
            p->ci == id_of(raw->computeInstanceId))
            return true;
    }
    return false;
}

static void list_process(const struct nvml *n, struct gpu_card *card,
                         const struct nvml_process_info *raw)
{
    if (card->n_users == GPU_MAX_PROCESSES || is_listed(card, raw))
        return;
    assert(raw->pid && card->n_users < GPU_MAX_PROCESSES);
    struct gpu_user *p = &card->users[card->n_users++];
    *p = (struct gpu_user){.pid = raw->pid,
                           .part = id_of(raw->gpuInstanceId),
                           .ci = id_of(raw->computeInstanceId)};
    if (raw->usedGpuMemory != NVML_MEMORY_UNKNOWN)
        p->memory_bytes = raw->usedGpuMemory;
    read_name(n, p);
}

/* A process that names no compute instance holds all of its GPU instance. */
static void mark_in_use(struct gpu_card *card, const struct nvml_process_info *raw)
{
    for (unsigned i = 0; i < card->state.n; i++) {
        struct mig_instance *in = &card->state.items[i];
        if (in->gi_id != raw->gpuInstanceId)
            continue;
        in->in_use = true;
        for (unsigned c = 0; c < in->n_cis; c++)
            if (raw->computeInstanceId == NVML_NO_INSTANCE ||
                in->cis[c].id == raw->computeInstanceId)
                in->cis[c].in_use = true;
    }
}

struct reading {
    const struct nvml *n;
    struct gpu_card *card;
};

static void note_user(void *arg, const struct nvml_process_info *raw)
{
    const struct reading *r = arg;
    if (is_our_server(r->n, raw->pid))
        return;
    mark_in_use(r->card, raw);
    if (raw->pid)
        list_process(r->n, r->card, raw);
    else
        r->card->users_unknown = true; /* an unknown user, since there is no pid */
}

static int walk_list(struct nvml *n, const char *call, list_fn *fn, nvml_device d,
                     nvml_process_fn *each, void *arg, bool *ret_told, struct err *e)
{
    struct raw_list raw = {0};
    int rc = ask_list(n, call, fn, d, &raw, ret_told, e);
    auto_free struct nvml_process_info *items = raw.items;
    TRY(rc);
    for (unsigned i = 0; i < raw.n; i++)
        each(arg, &items[i]);
    return 0;
}

/* A process may be in several instances. */
static int by_pid(const void *a, const void *b)
{
    const struct gpu_user *x = a;
    const struct gpu_user *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return x->ci < y->ci ? -1 : x->ci > y->ci;
}

#define WALK_LIST(n, d, list, each, arg, told, e)                                                  \
    walk_list(n, nvml_names.list, (n)->lib.list, d, each, arg, told, e)

/* A card without graphics has no list of graphics processes, and an old driver none for MPS: these
 * count as empty. */
int nvml_process_lists(struct nvml *n, nvml_device d, nvml_process_fn *each, void *arg,
                       bool *ret_told, struct err *e)
{
    bool unimportant;
    TRY(WALK_LIST(n, d, compute_processes, each, arg, ret_told, e));
    TRY(WALK_LIST(n, d, graphics_processes, each, arg, &unimportant, e));
    return WALK_LIST(n, d, mps_processes, each, arg, &unimportant, e);
}

/* Without the list of compute processes the users are unknown. */
int nvml_processes_read(struct nvml *n, struct nvml_facts *f, struct gpu_card *card, struct err *e)
{
    bool told = false;
    struct reading r = {.n = n, .card = card};
    card->users = xcalloc(GPU_MAX_PROCESSES, sizeof(*card->users));
    TRY(nvml_process_lists(n, f->device, note_user, &r, &told, e));
    card->users_unknown |= !told;
    gpu_card_keep_marks(card);
    if (card->n_users == 0)
        free(TAKE(card->users));
    else
        qsort(card->users, card->n_users, sizeof(*card->users), by_pid);
    return 0;
}
