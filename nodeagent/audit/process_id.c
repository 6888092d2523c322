/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/audit/process_id.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/num.h"
#include "base/xalloc.h"

enum { STAT_BYTES = 4096, STATUS_BYTES = 16384 };

static int read_file(const char *proc_root, unsigned pid, const char *name, char *ret, size_t size,
                     struct err *e)
{
    auto_free char *path = xasprintf("%s/%u/%s", proc_root ? proc_root : "/proc", pid, name);
    return file_read_head(path, ret, size, e);
}

/* Reads the number at the beginning of the text. */
static int number_at(const char *text, int64_t max, int64_t *ret, struct err *e)
{
    auto_free char *word = xstrndup(text, strspn(text, "0123456789"));
    return num_parse(word, 0, max, ret, e);
}

/* The name in parentheses, the 2nd field, may hold anything (proc(5)). */
int process_started(const char *proc_root, unsigned pid, uint64_t *ret, struct err *e)
{
    enum { START_FIELD = 22, AFTER_NAME = 3 };
    char text[STAT_BYTES];
    int64_t ticks = 0;
    TRY(read_file(proc_root, pid, "stat", text, sizeof(text), e));
    const char *at = strrchr(text, ')');
    for (int i = AFTER_NAME - 1; at && i < START_FIELD; i++)
        at = strchr(at + 1, ' ');
    if (!at || number_at(at + 1, INT64_MAX, &ticks, /* e= */ NULL) < 0)
        return err_set(e, ERR_PROTOCOL, "/proc/%u/stat does not say when the process began", pid);
    *ret = (uint64_t)ticks;
    return 0;
}

/* "NSpid:" has the number in each namespace, the innermost last (Linux 4.1). */
int process_own_pid(const char *proc_root, unsigned pid, unsigned *ret, struct err *e)
{
    static const char key[] = "\nNSpid:";
    char text[STATUS_BYTES];
    int64_t own = 0;
    TRY(read_file(proc_root, pid, "status", text, sizeof(text), e));
    char *line = strstr(text, key);
    if (line) {
        line += strlen(key);
        line[strcspn(line, "\n")] = '\0';
    }
    const char *last = line ? strrchr(line, '\t') : NULL;
    if (!last || number_at(last + 1, INT32_MAX, &own, /* e= */ NULL) < 0)
        return err_set(e, ERR_PROTOCOL, "/proc/%u/status does not say its own number", pid);
    *ret = (unsigned)own;
    return 0;
}

/* --- Its end --- */

static bool is_known(const struct process_id *id)
{
    return id->pid > 1 && id->pid != (unsigned)getpid() && *id->of.pod_uid && *id->of.container_id;
}

static bool began_then(const char *proc_root, const struct process_id *id)
{
    uint64_t started = 0;
    return process_started(proc_root, id->pid, &started, /* e= */ NULL) == 0 &&
           started == id->started;
}

/* Descriptors are opened by the numbers of this process's own PID namespace, and proc_root may be of
 * another one: there somebody else has the number. */
static bool is_still(const char *proc_root, const struct process_id *id)
{
    struct consumer now;
    return began_then(proc_root, id) && began_then(/* proc_root= */ NULL, id) &&
           consumer_of_pid(proc_root, id->pid, &now, /* e= */ NULL) == 0 &&
           strcmp(now.pod_uid, id->of.pod_uid) == 0 &&
           strcmp(now.container_id, id->of.container_id) == 0;
}

/* The descriptor is opened first: what is found out afterwards is about the process behind it, or
 * about a later one, and then the signal reaches nobody. */
int process_end(const char *proc_root, const struct process_id *id, bool *ret_ended, struct err *e)
{
    if (!is_known(id))
        return err_set(e, ERR_INVALID, "process %u is of no container that is known", id->pid);
    auto_fd int fd = pidfd_open((pid_t)id->pid, 0);
    if (fd < 0 && errno != ESRCH)
        return err_set_errno(e, errno, "open process %u", id->pid);
    bool ends = fd >= 0 && is_still(proc_root, id);
    if (ends && pidfd_send_signal(fd, SIGKILL, NULL, 0) < 0) {
        if (errno != ESRCH)
            return err_set_errno(e, errno, "end process %u", id->pid);
        ends = false;
    }
    *ret_ended = ends;
    return 0;
}
