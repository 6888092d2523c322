/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/nvidia/nvidia_smi.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/sb.h"
#include "base/spawn.h"
#include "base/xalloc.h"

#define MAX_OUTPUT 4096

/* nvidia-smi's exit codes are NVML's return codes (its manual, RETURN VALUE). */
enum { SMI_OK = 0, SMI_NOT_AVAILABLE = 3, SMI_NO_PERMISSION = 4 };

/* True for the variables that nvidia-smi gets: those for finding the program and its library, and
 * CLEAVE_SIM_, which lead simulated libraries to their state. */
static bool passes(const char *variable)
{
    static const char *const allowed[] = {"PATH=", "LD_LIBRARY_PATH=", "CLEAVE_SIM_"};
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
        if (strncmp(variable, allowed[i], strlen(allowed[i])) == 0)
            return true;
    return false;
}

/* The caller owns the array but not the strings. */
static char **clean_environment(void)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **kept = xcalloc(count + 1, sizeof(*kept));
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (passes(environ[i]))
            kept[n++] = environ[i];
    return kept;
}

static int start_reset(const char *nvidia_smi, const char *bus_id, int out_fd, pid_t *ret,
                       struct err *e)
{
    auto_free char **env = clean_environment();
    auto_free char *program = xstrdup(nvidia_smi);
    auto_free char *bus = xstrdup(bus_id);
    char reset[] = "--gpu-reset";
    char id[] = "-i";
    char *const argv[] = {program, reset, id, bus, NULL};
    const int fds[] = {SPAWN_NULL, out_fd, out_fd};
    int rc = spawn(nvidia_smi, argv, env, fds, ret);
    if (rc == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "no program %s to reset the card with", nvidia_smi);
    return rc ? err_set_errno(e, rc, "run %s", nvidia_smi) : 0;
}

static void add_bounded(struct sb *out, const char *data, size_t len)
{
    assert(out->len <= out->cap);
    size_t room = out->cap - out->len;
    sb_add_mem(out, data, len < room ? len : room);
}

/* Reads until the program closes its end. False: timeout. */
static bool read_all(int fd, int64_t deadline_ms, struct sb *out)
{
    for (;;) {
        int64_t left = deadline_ms - clock_mono_ms(clock_real());
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (ready == 0)
            return false;
        char chunk[512];
        ssize_t got = ready > 0 ? read(fd, chunk, sizeof(chunk)) : -1;
        if (got > 0)
            add_bounded(out, chunk, (size_t)got);
        else if (got == 0 || errno != EINTR)
            return true;
    }
}

static int wait_for(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int judge_exit(int exit_code, struct sb *out, const char *bus_id, struct err *e)
{
    if (exit_code == SMI_OK)
        return 0;
    char *said = out->data ? out->data : (char[]){"nothing"};
    for (size_t i = 0; said[i]; i++)
        if (said[i] == '\n')
            said[i] = ' ';
    enum err_kind kind = ERR_UNAVAILABLE;
    if (exit_code == SMI_NOT_AVAILABLE)
        kind = ERR_INVALID;
    else if (exit_code == SMI_NO_PERMISSION)
        kind = ERR_FORBIDDEN;
    int rc = err_set(e, kind, "nvidia-smi --gpu-reset -i %s: exit %d, said: %s", bus_id, exit_code,
                     said);
    if (e && (strstr(said, "in use") || strstr(said, "being used")))
        e->reason = "InUse";
    return rc;
}

int nvidia_smi_reset(const char *nvidia_smi, const char *bus_id, int timeout_ms, struct err *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set_errno(e, errno, "pipe");
    auto_fd int from = ends[0];
    auto_fd int to = ends[1];
    auto_sb struct sb out = SB_INIT(MAX_OUTPUT);
    pid_t pid = -1;
    int64_t deadline_ms = clock_mono_ms(clock_real()) + timeout_ms;
    TRY(start_reset(nvidia_smi, bus_id, to, &pid, e));
    (void)close(TAKE_FD(to));
    if (!read_all(from, deadline_ms, &out)) {
        (void)kill(pid, SIGKILL);
        (void)wait_for(pid);
        return err_set(e, ERR_TIMEOUT, "nvidia-smi --gpu-reset took longer than %d ms", timeout_ms);
    }
    return judge_exit(wait_for(pid), &out, bus_id, e);
}
