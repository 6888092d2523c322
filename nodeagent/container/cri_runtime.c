/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/cri_runtime.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/container/go_version.h"
#include "nodeagent/container/rooted.h"

#define MODULE        "github.com/containerd/containerd"
#define DOCKER_CONFIG "/etc/docker/daemon.json"

enum {
    MAX_PROCESSES = 65536,
    MAX_CONFIG_BYTES = 256 << 10,
    MAX_FILES = 16,     /* of a configuration */
    MAX_ENTRIES = 1024, /* of a folder with imported files */
    CMDLINE_BYTES = 4096,
    STATUS_BYTES = 2048, /* NSpid is among the first lines */
    CGROUP_BYTES = 8192,
    STAT_BYTES = 4 << 20, /* a number for each interrupt of each processor */
};

/* --- The process --- */

/* cri-dockerd stands between the kubelet and Docker, whose containerd serves Docker alone. */
static const struct {
    const char *comm;
    enum cri_kind kind;
} programs[] = {{"cri-dockerd", CRI_KIND_DOCKER},
                {"crio", CRI_KIND_CRIO},
                {"containerd", CRI_KIND_CONTAINERD}};

/* Both begin a line of /proc/<pid>/status, whose first line, the name, has no line break in it. */
#define UID_LINE "\nUid:\t"
#define PID_LINE "\nNSpid:\t"

/* How often a process's control groups name a kubelet's: once for each hierarchy in a pod. */
static unsigned count_pods(const char *proc_root, unsigned pid)
{
    char groups[CGROUP_BYTES];
    unsigned n = 0;
    auto_free char *path = xasprintf("%s/%u/cgroup", proc_root, pid);
    if (file_read_head(path, groups, sizeof(groups), NULL) < 0)
        return 0;
    for (const char *at = groups; (at = strstr(at, "kubepods")); at++)
        n++;
    return n;
}

/* False for processes of pods, of other containers and of ordinary users, which can have any name.
 * A process has a number in each PID namespace that it is in, and one of the host's own has no
 * other; nor has a pod's with hostPID, but it is in more of a kubelet's control groups than the
 * host's first process (which is in some where the host is itself a container). A program that runs
 * with other rights than its user's is in that user's hands. A process without a status is
 * believed. */
static bool is_hosts_own(const char *proc_root, unsigned pid)
{
    char status[STATUS_BYTES];
    auto_free char *path = xasprintf("%s/%u/status", proc_root, pid);
    if (file_read_head(path, status, sizeof(status), NULL) < 0)
        return true;
    const char *pids = strstr(status, PID_LINE);
    if (!pids || !strstr(status, UID_LINE "0\t0\t0\t0\n"))
        return false;
    pids += strlen(PID_LINE);
    return pids[strcspn(pids, "\t\n")] == '\n' &&
           count_pods(proc_root, pid) <= count_pods(proc_root, 1);
}

/* ARRAY_LEN(programs): it is none of them. */
static size_t program_of(const char *proc_root, unsigned pid)
{
    char comm[32];
    auto_free char *path = xasprintf("%s/%u/comm", proc_root, pid);
    size_t i = 0;
    if (file_read_head(path, comm, sizeof(comm), NULL) < 0)
        return ARRAY_LEN(programs);
    comm[strcspn(comm, "\n")] = '\0';
    while (i < ARRAY_LEN(programs) && strcmp(programs[i].comm, comm) != 0)
        i++;
    return i < ARRAY_LEN(programs) && is_hosts_own(proc_root, pid) ? i : ARRAY_LEN(programs);
}

/* The processes with the lowest number of each program: a container may run one of its own. */
static void look_for(const char *proc_root, unsigned pids[ARRAY_LEN(programs)])
{
    auto_dir DIR *d = opendir(proc_root);
    const struct dirent *entry;
    for (unsigned n = 0; d && n < MAX_PROCESSES && (entry = readdir(d)); n++) {
        int64_t pid;
        if (num_parse(entry->d_name, 1, INT32_MAX, &pid, NULL) < 0)
            continue;
        size_t i = program_of(proc_root, (unsigned)pid);
        if (i < ARRAY_LEN(programs) && (!pids[i] || (unsigned)pid < pids[i]))
            pids[i] = (unsigned)pid;
    }
}

static void find(const char *proc_root, struct cri_runtime *ret)
{
    unsigned pids[ARRAY_LEN(programs)] = {0};
    look_for(proc_root, pids);
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        if (!pids[i])
            continue;
        ret->pid = pids[i];
        ret->kind = programs[i].kind;
        return;
    }
}

/* When a process began, in ticks since the machine did; 0: not known. */
static int64_t began_ticks(const char *proc_root, unsigned pid)
{
    enum { START_FIELD = 22, AFTER_COMM = 3 };
    char text[1024];
    auto_free char *path = xasprintf("%s/%u/stat", proc_root, pid);
    if (file_read_head(path, text, sizeof(text), NULL) < 0)
        return 0;
    const char *at = strrchr(text, ')'); /* a program's name may have anything in it */
    if (at)
        at++;
    for (int i = AFTER_COMM; at && i < START_FIELD; i++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at + 1, NULL, 10) : 0;
}

/* The same in seconds of the wall clock; 0: not known. */
static int64_t started_s(const char *proc_root, int64_t ticks)
{
    auto_free char *path = xasprintf("%s/stat", proc_root);
    auto_free char *all = NULL;
    size_t len = 0;
    if (!ticks || file_read(path, STAT_BYTES, &all, &len, NULL) < 0)
        return 0;
    const char *boot = strstr(all, "\nbtime ");
    return boot ? strtoll(boot + strlen("\nbtime "), NULL, 10) + ticks / sysconf(_SC_CLK_TCK) : 0;
}

/* A number is used again: the process that has it now began at another time. The wall clock may have
 * been set meanwhile. */
static bool is_there(const char *proc_root, const struct cri_runtime *before)
{
    if (!before || !before->pid)
        return false;
    size_t i = program_of(proc_root, before->pid);
    return i < ARRAY_LEN(programs) && programs[i].kind == before->kind &&
           began_ticks(proc_root, before->pid) == before->began_ticks;
}

/* --- Its command line --- */

struct cmdline {
    char text[CMDLINE_BYTES];
    const char *program; /* argv[0]; "": not known */
    const char *config;  /* NULL: the default */
};

static void read_words(struct cmdline *c, size_t len)
{
    const char *end = c->text + len;
    c->program = c->text;
    for (const char *word = c->text + strlen(c->text) + 1; word < end; word += strlen(word) + 1) {
        const char *next = word + strlen(word) + 1;
        if (strncmp(word, "--config=", strlen("--config=")) == 0)
            c->config = word + strlen("--config=");
        else if (strcmp(word, "--config") == 0 || strcmp(word, "-c") == 0)
            c->config = next < end ? next : NULL;
    }
}

static void read_cmdline(const char *proc_root, unsigned pid, struct cmdline *ret)
{
    auto_free char *path = xasprintf("%s/%u/cmdline", proc_root, pid);
    *ret = (struct cmdline){.program = ""};
    auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, ret->text, sizeof(ret->text) - 1);
    if (len > 0)
        read_words(ret, (size_t)len);
}

/* --- Its files --- */

/* Opens a file of the host for reading. The path may be a stranger's word (a command line), and
 * root's too are files whose opening does something or whose reading waits: pipes, devices. */
static int open_file(const char *host_root, const char *path, int *ret_fd, struct err *e)
{
    char again[32];
    auto_free char *real = NULL;
    auto_fd int found = -1;
    struct stat st;
    TRY(rooted_open(host_root, path, &real, &found, e));
    if (fstat(found, &st) < 0)
        return err_set_errno(e, errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "%s is no regular file", path);
    (void)snprintf(again, sizeof(again), "/proc/self/fd/%d", found);
    int fd = open(again, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(e, errno, "open %s", path);
    *ret_fd = fd;
    return 0;
}

/* *newest_s: becomes the time of the file's last change where that is later. */
static int note_change(int fd, const char *path, struct stat *ret, int64_t *newest_s, struct err *e)
{
    if (fstat(fd, ret) < 0)
        return err_set_errno(e, errno, "%s", path);
    if (ret->st_ctim.tv_sec > *newest_s)
        *newest_s = ret->st_ctim.tv_sec;
    return 0;
}

/* Its time is looked at before and after: who writes in place may do it between the two. */
static int read_file(const char *host_root, const char *path, char **ret, size_t *ret_len,
                     int64_t *newest_s, struct err *e)
{
    auto_fd int fd = -1;
    struct stat st;
    TRY(open_file(host_root, path, &fd, e));
    TRY(note_change(fd, path, &st, newest_s, e));
    /* The kernel's own files have no size, and reading one may take something away. */
    if (st.st_size == 0) {
        *ret = xstrdup("");
        *ret_len = 0;
        return 0;
    }
    auto_free char *text = NULL;
    TRY(file_read_fd(fd, path, MAX_CONFIG_BYTES, &text, ret_len, e));
    TRY(note_change(fd, path, &st, newest_s, e));
    *ret = TAKE(text);
    return 0;
}

/* The files of a configuration, in the order in which they count. */
struct files {
    char *paths[MAX_FILES]; /* owned */
    size_t n;
    bool more; /* than are here */
};

static void files_done(struct files *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->paths[i]);
}
AUTO_DEFINE(files, struct files, files_done)

/* Takes the path over. A file that is named twice counts once. */
static void add_file(struct files *f, char *path_take)
{
    auto_free char *path = path_take;
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->paths[i], path) == 0)
            return;
    if (f->n < MAX_FILES)
        f->paths[f->n++] = TAKE(path);
    else
        f->more = true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the files whose names fit a pattern, by name. */
static void add_matches(const char *host_root, const char *folder, const char *pattern,
                        struct files *f)
{
    auto_free char *real = NULL;
    size_t before = f->n;
    if (rooted_resolve(host_root, folder, &real, NULL) < 0)
        return;
    auto_free char *here = rooted_join(host_root, real);
    auto_dir DIR *d = opendir(here);
    const struct dirent *entry;
    unsigned n = 0;
    for (; d && n < MAX_ENTRIES && (entry = readdir(d)); n++)
        if (fnmatch(pattern, entry->d_name, FNM_PERIOD) == 0)
            add_file(f, xasprintf("%s/%s", real, entry->d_name));
    f->more |= n == MAX_ENTRIES;
    qsort(f->paths + before, f->n - before, sizeof(f->paths[0]), by_text);
}

/* A path without '/' at its beginning is relative to the file that names it. */
static void add_import(const char *host_root, const char *of, const char *import, struct files *f)
{
    auto_free char *path = import[0] == '/'
                               ? xstrdup(import)
                               : xasprintf("%.*s/%s", (int)(strrchr(of, '/') - of), of, import);
    char *name = strrchr(path, '/');
    if (!strpbrk(name, "*?[")) {
        add_file(f, TAKE(path));
        return;
    }
    *name = '\0';
    add_matches(host_root, path, name + 1, f);
}

/* A default that is not there is no trouble; what cannot be read or understood may say anything. */
static void read_configs(const char *host_root, const char *path, struct cri_config *config,
                         struct cri_runtime *ret)
{
    AUTO(files) struct files f = {0};
    int64_t newest_s = 0;
    add_file(&f, xstrdup(path));
    for (size_t i = 0; i < f.n; i++) {
        auto_err struct err e = {0};
        auto_free char *text = NULL;
        size_t len = 0;
        int rc = read_file(host_root, f.paths[i], &text, &len, &newest_s, &e);
        if (rc == 0 && cri_config_take(config, text, len, &e) < 0)
            rc = err_wrap(&e, "%s", f.paths[i]);
        if (i == 0)
            ret->has_file = rc == 0;
        if (rc == 0)
            for (unsigned k = 0; k < config->n_imports; k++)
                add_import(host_root, f.paths[i], config->imports[k], &f);
        else if (e.kind != ERR_NOT_FOUND && !*ret->trouble)
            (void)snprintf(ret->trouble, sizeof(ret->trouble), "%s", err_msg(&e));
    }
    if (f.more && !*ret->trouble)
        (void)snprintf(ret->trouble, sizeof(ret->trouble),
                       "%s is made of more than %d files, or of folders with more than %d", path,
                       MAX_FILES, MAX_ENTRIES);
    /* Both clocks tell whole seconds. */
    ret->is_edited = ret->started_s && newest_s > ret->started_s + 1;
    (void)snprintf(ret->file, sizeof(ret->file), "%s", path);
}

/* --- Its version --- */

/* A program that was started by name is looked for where packages and installers put it. */
static void read_version(const char *host_root, const char *program, struct cri_runtime *ret)
{
    static const char *const usual[] = {"/usr/bin/containerd", "/usr/local/bin/containerd",
                                        "/usr/sbin/containerd",
                                        "/var/lib/rancher/k3s/data/current/bin/containerd",
                                        "/var/lib/rancher/rke2/bin/containerd"};
    const char *const named[] = {program};
    bool by_path = program[0] == '/';
    const char *const *places = by_path ? named : usual;
    size_t n = by_path ? 1 : ARRAY_LEN(usual);
    for (size_t i = 0; i < n; i++) {
        auto_fd int fd = -1;
        struct go_version v;
        if (open_file(host_root, places[i], &fd, NULL) < 0 ||
            go_version_read(fd, MODULE, &v, NULL) < 0)
            continue;
        ret->major = v.major;
        ret->minor = v.minor;
        return;
    }
}

/* --- The answer --- */

/* containerd knows CDI since 1.7, where it is off unless it is switched on; since 2.0 it is on
 * unless it is switched off. Version 3 of the file came with 2.0. */
enum cri_cdi cri_containerd_cdi(int major, int minor, const struct cri_config *c)
{
    bool is_two = major >= 2 || (major == 0 && c->version >= 3);
    if (major == 1 && minor >= 0 && minor < 7)
        return CRI_CDI_NONE;
    if (c->cdi != CRI_UNSET)
        return c->cdi == CRI_ON ? CRI_CDI_ON : CRI_CDI_OFF;
    if (is_two)
        return CRI_CDI_ON;
    return major == 1 ? CRI_CDI_OFF : CRI_CDI_UNKNOWN;
}

bool cri_cdi_is_off(const struct cri_runtime *r)
{
    return r->cdi == CRI_CDI_OFF || r->cdi == CRI_CDI_NONE;
}

bool cri_resolves_names(const struct cri_runtime *r)
{
    return !cri_cdi_is_off(r) || r->own_is_default;
}

bool cri_needs_mounts(const struct cri_runtime *r)
{
    return cri_cdi_is_off(r) && !*r->trouble && !r->own_is_default && !*r->handler;
}

bool cri_marks_count(const struct cri_runtime *r)
{
    return r->own_is_default && !*r->trouble;
}

static void set_handlers(const struct cri_config *c, struct cri_runtime *ret)
{
    const char *nvidia = cri_config_handler(c, &c->nvidia, &ret->handler_is_default);
    const char *own = cri_config_handler(c, &c->own, &ret->own_is_default);
    (void)snprintf(ret->handler, sizeof(ret->handler), "%s", nvidia ? nvidia : "");
    (void)snprintf(ret->own, sizeof(ret->own), "%s", own ? own : "");
}

/* What the process runs by is known: the file was there and understood before anybody changed it. One
 * that is missing may be written before the process reads it, and a program that is just being
 * installed tells no version. */
static bool is_settled(const struct cri_runtime *r)
{
    return r->started_s && r->has_file && r->cdi != CRI_CDI_UNKNOWN && !*r->trouble;
}

/* before: of the same process; NULL: nothing was read of it. */
static void read_containerd(const char *proc_root, const char *host_root,
                            const struct cri_runtime *before, struct cri_runtime *ret)
{
    struct cmdline words;
    struct cri_config config = {0};
    read_cmdline(proc_root, ret->pid, &words);
    read_version(host_root, words.program, ret);
    bool by_path = words.config && words.config[0] == '/';
    read_configs(host_root, by_path ? words.config : "/etc/containerd/config.toml", &config, ret);
    if (before && is_settled(before)) {
        bool is_edited = ret->is_edited || *ret->trouble;
        *ret = *before;
        ret->is_edited = is_edited;
        return;
    }
    if (ret->is_edited && !*ret->trouble)
        (void)
            snprintf(ret->trouble, sizeof(ret->trouble),
                     "restart containerd: %s, or what it imports, was changed after it had started",
                     ret->file);
    ret->cdi =
        *ret->trouble ? CRI_CDI_UNKNOWN : cri_containerd_cdi(ret->major, ret->minor, &config);
    set_handlers(&config, ret);
}

/* cri-dockerd does not pass CDI names on. */
static void read_docker(const char *host_root, struct cri_runtime *ret)
{
    auto_err struct err e = {0};
    auto_free char *text = NULL;
    struct cri_config config = {0};
    size_t len = 0;
    int64_t changed_s = 0;
    ret->cdi = CRI_CDI_NONE;
    (void)snprintf(ret->file, sizeof(ret->file), "%s", DOCKER_CONFIG);
    int rc = read_file(host_root, DOCKER_CONFIG, &text, &len, &changed_s, &e);
    if (rc == 0 && cri_config_take_docker(&config, text, len, &e) < 0)
        rc = err_wrap(&e, "%s", DOCKER_CONFIG);
    if (rc < 0 && e.kind != ERR_NOT_FOUND)
        (void)snprintf(ret->trouble, sizeof(ret->trouble), "%s", err_msg(&e));
    set_handlers(&config, ret);
}

void cri_runtime_read(const char *proc_root, const char *host_root,
                      const struct cri_runtime *before, struct cri_runtime *ret)
{
    *ret = (struct cri_runtime){.minor = -1};
    assert(proc_root && host_root);
    if (!is_there(proc_root, before))
        before = NULL;
    if (before) {
        ret->pid = before->pid;
        ret->kind = before->kind;
        ret->began_ticks = before->began_ticks;
        ret->started_s = before->started_s;
    } else {
        find(proc_root, ret);
        ret->began_ticks = ret->pid ? began_ticks(proc_root, ret->pid) : 0;
        ret->started_s = started_s(proc_root, ret->began_ticks);
    }
    if (ret->kind == CRI_KIND_CONTAINERD)
        read_containerd(proc_root, host_root, before, ret);
    else if (ret->kind == CRI_KIND_CRIO)
        ret->cdi = CRI_CDI_ON; /* CRI-O has CDI since 1.23, and no switch for it */
    else if (ret->kind == CRI_KIND_DOCKER)
        read_docker(host_root, ret);
}
