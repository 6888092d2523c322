/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/mps.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/container/mps_daemon.h"

#define PROGRAM    "/usr/bin/nvidia-cuda-mps-control"
#define TEXT_BYTES ((size_t)64 * 1024)
/* The longest name that MPS gives a socket in its pipe folder. */
#define LONGEST_SOCKET "/control_privileged"

struct unit {
    char *name, *pipe_folder;
    struct mps_daemon *daemon;
    bool wanted;
};

struct mps {
    struct reactor *reactor; /* borrowed */
    mps_fn *fn;
    void *arg;
    char *root, *host_root, *host_shm, *program, *library_path;
    struct unit **units; /* allocated one by one, so that their addresses stay */
    size_t n_units;
};

unsigned mps_thread_pct(unsigned replicas)
{
    assert(replicas > 0);
    return replicas < 100 ? 100 / replicas : 1;
}

uint64_t mps_memory_mib(uint64_t total_mib, unsigned replicas)
{
    assert(replicas > 0);
    return total_mib / replicas;
}

char *mps_commands(const struct mps_unit *u)
{
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    for (size_t i = 0; i < u->n_devices; i++) {
        uint64_t mib = mps_memory_mib(u->devices[i].memory_mib, u->replicas);
        if (mib > 0)
            sb_addf(&text, "set_default_device_pinned_mem_limit %zu %" PRIu64 "M\n", i, mib);
    }
    sb_addf(&text, "set_default_active_thread_percentage %u\n", mps_thread_pct(u->replicas));
    return sb_take(&text);
}

static char *visible_of(const struct mps_unit *u)
{
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    for (size_t i = 0; i < u->n_devices; i++)
        sb_addf(&text, "%s%s", i ? "," : "", u->devices[i].uuid);
    return sb_take(&text);
}

struct mps *mps_new(struct reactor *r, const struct mps_options *o, mps_fn *fn, void *arg)
{
    assert(r && o->root && fn);
    struct mps *m = xcalloc(1, sizeof(*m));
    m->reactor = r;
    m->fn = fn;
    m->arg = arg;
    m->root = xstrdup(o->root);
    m->host_root = xstrdup(o->host_root ? o->host_root : o->root);
    m->host_shm = xstrdup(o->host_shm ? o->host_shm : "/dev/shm");
    m->program = xstrdup(o->program ? o->program : PROGRAM);
    m->library_path = xstrdup(o->library_path);
    return m;
}

static struct unit *find_unit(const struct mps *m, const char *name)
{
    for (size_t i = 0; i < m->n_units; i++) {
        if (strcmp(m->units[i]->name, name) == 0)
            return m->units[i];
    }
    return NULL;
}

/* Names become folders: they must not lead upwards, be hidden, or make a socket's path too long for
 * the kernel. */
static int check_unit(const struct mps *m, const struct mps_unit *u, struct err *e)
{
    struct sockaddr_un address;
    size_t len = strlen(m->root) + strlen(u->name) + strlen("//pipe" LONGEST_SOCKET);
    if (u->replicas == 0 || u->replicas > MPS_MAX_REPLICAS)
        return err_set(e, ERR_INVALID, "%s: %u replicas; MPS serves from 1 to %d", u->name,
                       u->replicas, MPS_MAX_REPLICAS);
    if (!u->name[0] || u->name[0] == '/' || u->name[0] == '.' || strstr(u->name, "/."))
        return err_set(e, ERR_INVALID, "\"%s\" is no name of an MPS daemon", u->name);
    if (len >= sizeof(address.sun_path))
        return err_set(e, ERR_INVALID, "%s: the path of its sockets below %s is too long", u->name,
                       m->root);
    return 0;
}

static void on_change(void *arg)
{
    struct mps *m = arg;
    m->fn(m->arg);
}

static struct unit *new_unit(struct mps *m, const char *name, const char *visible,
                             const char *commands)
{
    assert(!find_unit(m, name));
    auto_free char *log_folder = xasprintf("%s/%s/log", m->root, name);
    struct unit *unit = xcalloc(1, sizeof(*unit));
    unit->name = xstrdup(name);
    unit->pipe_folder = xasprintf("%s/%s/pipe", m->root, name);
    const struct mps_daemon_options o = {
        .program = m->program,
        .library_path = m->library_path,
        .pipe_folder = unit->pipe_folder,
        .log_folder = log_folder,
        .visible = visible,
        .commands = commands,
    };
    unit->daemon = mps_daemon_new(m->reactor, &o, on_change, m);
    return unit;
}

static void set_unit(struct mps *m, const struct mps_unit *u)
{
    auto_free char *visible = visible_of(u);
    auto_free char *commands = mps_commands(u);
    struct unit *unit = find_unit(m, u->name);
    if (unit) {
        mps_daemon_set(unit->daemon, visible, commands);
    } else {
        unit = new_unit(m, u->name, visible, commands);
        *XPUSH(m->units, m->n_units) = unit;
    }
    unit->wanted = true;
}

static void free_unit(struct unit *unit)
{
    unit->daemon = mps_daemon_free(unit->daemon);
    free(unit->name);
    free(unit->pipe_folder);
    free(unit);
}

static void end_unwanted(struct mps *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->n_units; i++) {
        struct unit *unit = m->units[i];
        if (!unit->wanted && mps_daemon_is_gone(unit->daemon)) {
            free_unit(unit);
            continue;
        }
        if (!unit->wanted)
            mps_daemon_end(unit->daemon);
        m->units[kept++] = unit;
    }
    assert(kept <= m->n_units);
    m->n_units = kept;
}

int mps_set(struct mps *m, const struct mps_unit *units, size_t n, struct err *e)
{
    assert(units || n == 0);
    auto_err struct err first = {0};
    for (size_t i = 0; i < m->n_units; i++)
        m->units[i]->wanted = false;
    for (size_t i = 0; i < n; i++) {
        struct err now = {0};
        if (check_unit(m, &units[i], &now) == 0)
            set_unit(m, &units[i]);
        else if (!first.kind)
            (void)err_move(&first, &now);
        err_clear(&now);
    }
    end_unwanted(m);
    return first.kind ? err_move(e, &first) : 0;
}

bool mps_is_ready(const struct mps *m, const char *name)
{
    const struct unit *unit = find_unit(m, name);
    return unit && unit->wanted && mps_daemon_is_ready(unit->daemon);
}

bool mps_is_gone(const struct mps *m, const char *name)
{
    const struct unit *unit = find_unit(m, name);
    return !unit || mps_daemon_is_gone(unit->daemon);
}

const char *mps_problem(const struct mps *m, const char *name)
{
    const struct unit *unit = find_unit(m, name);
    return unit ? mps_daemon_problem(unit->daemon) : "";
}

int mps_entry(const struct mps *m, const char *name, struct entry *en, struct err *e)
{
    const struct unit *unit = find_unit(m, name);
    if (!mps_is_ready(m, name))
        return err_set(e, ERR_UNAVAILABLE, "the MPS control daemon of %s is not ready: %s", name,
                       mps_problem(m, name));
    auto_free char *host_pipe = xasprintf("%s/%s/pipe", m->host_root, name);
    entry_add_env(en, "CUDA_MPS_PIPE_DIRECTORY", unit->pipe_folder);
    entry_add_mount(en, unit->pipe_folder, host_pipe, /* read_only= */ false);
    entry_add_mount(en, "/dev/shm", m->host_shm, /* read_only= */ false);
    return 0;
}

void mps_add_part(struct entry *en, unsigned percent, uint64_t memory_mib)
{
    auto_free char *threads = xasprintf("%u", percent);
    auto_free char *memory = xasprintf("0=%" PRIu64 "M", memory_mib);
    if (percent)
        entry_add_env(en, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", threads);
    entry_add_env(en, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", memory);
}

static void ignore_change(void *arg)
{
    (void)arg;
}

/* All daemons are signalled before the first is waited for. */
struct mps *mps_free(struct mps *m)
{
    if (!m)
        return NULL;
    m->fn = ignore_change;
    for (size_t i = 0; i < m->n_units; i++)
        mps_daemon_end(m->units[i]->daemon);
    for (size_t i = 0; i < m->n_units; i++)
        free_unit(m->units[i]);
    free(m->units);
    free(m->root);
    free(m->host_root);
    free(m->host_shm);
    free(m->program);
    free(m->library_path);
    free(m);
    return NULL;
}
