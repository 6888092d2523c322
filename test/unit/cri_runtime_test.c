/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/container/cri_runtime.h"

static char *dir, *proc, *host;

static void make(void)
{
    dir = folder_make();
    proc = xasprintf("%s/proc", dir);
    host = xasprintf("%s/host", dir);
    cr_assert_eq(file_make_dirs(proc, 0755, NULL), 0);
    cr_assert_eq(file_make_dirs(host, 0755, NULL), 0);
}

static void clean(void)
{
    folder_remove(dir);
    free(proc);
    free(host);
}

TestSuite(cri_runtime, .init = make, .fini = clean);

static void put(const char *root, const char *path, const char *text, size_t len)
{
    auto_free char *file = xasprintf("%s%s", root, path);
    auto_free char *folder = xstrndup(file, (size_t)(strrchr(file, '/') - file));
    cr_assert_eq(file_make_dirs(folder, 0755, NULL), 0);
    cr_assert_eq(file_replace(file, text, len, 0644, NULL), 0);
}

static void put_host(const char *path, const char *text)
{
    put(host, path, text, strlen(text));
}

static void put_process(unsigned pid, const char *comm, const char *cmdline, size_t len)
{
    auto_free char *name = xasprintf("/%u/comm", pid);
    auto_free char *words = xasprintf("/%u/cmdline", pid);
    auto_free char *line = xasprintf("%s\n", comm);
    put(proc, name, line, strlen(line));
    put(proc, words, cmdline, len);
}

#define PROCESS(pid, comm, cmdline) put_process(pid, comm, cmdline, sizeof(cmdline))
#define CRI2                        "[plugins.\"io.containerd.grpc.v1.cri\"]\n"
#define CRI3                        "[plugins.'io.containerd.cri.v1.runtime']\n"

static struct cri_runtime look(const struct cri_runtime *before)
{
    struct cri_runtime r;
    cri_runtime_read(proc, host, before, &r);
    return r;
}

/* --- The answer --- */

static const struct {
    int major, minor, version;
    enum cri_switch set;
    enum cri_cdi cdi;
} answers[] = {
    {1, 6, 2, CRI_UNSET, CRI_CDI_NONE},     {1, 6, 2, CRI_ON, CRI_CDI_NONE},
    {1, 7, 2, CRI_UNSET, CRI_CDI_OFF},      {1, 7, 2, CRI_ON, CRI_CDI_ON},
    {1, 7, 2, CRI_OFF, CRI_CDI_OFF},        {1, -1, 2, CRI_UNSET, CRI_CDI_OFF},
    {1, -1, 2, CRI_ON, CRI_CDI_ON},         {2, 0, 2, CRI_UNSET, CRI_CDI_ON},
    {2, 1, 3, CRI_UNSET, CRI_CDI_ON},       {2, 1, 3, CRI_OFF, CRI_CDI_OFF},
    {0, -1, 3, CRI_UNSET, CRI_CDI_ON},      {0, -1, 2, CRI_UNSET, CRI_CDI_UNKNOWN},
    {0, -1, 0, CRI_UNSET, CRI_CDI_UNKNOWN}, {0, -1, 2, CRI_ON, CRI_CDI_ON},
    {0, -1, 2, CRI_OFF, CRI_CDI_OFF},
};

Test(cri_runtime, versions_and_switch_tell_of_cdi)
{
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        const struct cri_config c = {.version = answers[i].version, .cdi = answers[i].set};
        cr_expect_eq(cri_containerd_cdi(answers[i].major, answers[i].minor, &c), answers[i].cdi,
                     "%zu", i);
    }
}

/* --- The configuration --- */

Test(cri_runtime, the_configuration_is_the_one_that_the_process_names)
{
    PROCESS(7, "containerd", "containerd\0-c\0/var/lib/k3s/config.toml\0--state\0/run/k3s");
    put_host("/etc/containerd/config.toml", "version = 2\n" CRI2 "enable_cdi = false\n");
    put_host("/var/lib/k3s/config.toml", "version = 2\n" CRI2 "enable_cdi = true\n");
    const struct cri_runtime r = look(NULL);
    cr_expect_eq(r.kind, CRI_KIND_CONTAINERD);
    cr_expect_eq(r.cdi, CRI_CDI_ON);
    cr_expect_str_eq(r.file, "/var/lib/k3s/config.toml");
}

Test(cri_runtime, imported_files_win_by_name)
{
    PROCESS(7, "containerd", "/usr/bin/containerd");
    put_host("/etc/containerd/config.toml",
             "version = 3\nimports = ['conf.d/*.toml']\n" CRI3 "enable_cdi = true\n");
    put_host("/etc/containerd/conf.d/20.toml", CRI3 "enable_cdi = false\n");
    put_host("/etc/containerd/conf.d/10.toml", CRI3 "enable_cdi = true\n");
    put_host("/etc/containerd/conf.d/30.json", "{}");
    cr_expect_eq(look(NULL).cdi, CRI_CDI_OFF);
}

Test(cri_runtime, a_file_that_imports_itself_is_read_once)
{
    PROCESS(7, "containerd", "/usr/bin/containerd");
    put_host("/etc/containerd/config.toml", "version = 3\n"
                                            "imports = ['/etc/containerd/config.toml', 'no']\n");
    cr_expect_eq(look(NULL).cdi, CRI_CDI_ON);
    cr_expect_str_eq(look(NULL).trouble, "");
}

Test(cri_runtime, what_cannot_be_understood_says_nothing)
{
    PROCESS(7, "containerd", "/usr/bin/containerd");
    put_host("/etc/containerd/config.toml", "version = 3\n" CRI3 "enable_cdi = \"\n");
    const struct cri_runtime r = look(NULL);
    cr_expect_eq(r.cdi, CRI_CDI_UNKNOWN);
    cr_expect_not_null(strstr(r.trouble, "line 3"), "%s", r.trouble);
}

Test(cri_runtime, a_configuration_that_others_may_write_is_not_read)
{
    PROCESS(7, "containerd", "/usr/bin/containerd");
    put_host("/etc/containerd/config.toml", "version = 3\n");
    auto_free char *path = xasprintf("%s/etc/containerd/config.toml", host);
    cr_assert_eq(chmod(path, 0666), 0);
    const struct cri_runtime r = look(NULL);
    cr_expect_eq(r.cdi, CRI_CDI_UNKNOWN);
    cr_expect_not_null(strstr(r.trouble, "0666"), "%s", r.trouble);
}

/* Opening a device may do something, and a pipe that nobody writes would hold the reading for ever. */
Test(cri_runtime, only_regular_files_are_opened)
{
    PROCESS(7, "containerd", "containerd\0--config=/run/pipe");
    put_host("/run/none", "");
    auto_free char *path = xasprintf("%s/run/pipe", host);
    cr_assert_eq(mkfifo(path, 0600), 0);
    const struct cri_runtime r = look(NULL);
    cr_expect_eq(r.cdi, CRI_CDI_UNKNOWN);
    cr_expect_not_null(strstr(r.trouble, "/run/pipe is no regular file"), "%s", r.trouble);
}

Test(cri_runtime, a_file_without_a_size_is_not_read)
{
    PROCESS(7, "containerd", "containerd\0--config=/proc/self/cmdline");
    auto_free char *here = TAKE(host);
    host = xstrdup("/");
    const struct cri_runtime r = look(NULL);
    cr_expect_str_eq(r.trouble, "");
    free(host);
    host = TAKE(here);
}

Test(cri_runtime, more_files_than_are_read_say_nothing)
{
    PROCESS(7, "containerd", "/usr/bin/containerd");
    put_host("/etc/containerd/config.toml", "version = 3\nimports = ['conf.d/*.toml']\n");
    for (int i = 0; i < 20; i++) {
        auto_free char *path = xasprintf("/etc/containerd/conf.d/%02d.toml", i);
        put_host(path, i == 19 ? CRI3 "enable_cdi = false\n" : CRI3);
    }
    const struct cri_runtime r = look(NULL);
    cr_expect_eq(r.cdi, CRI_CDI_UNKNOWN);
    cr_expect_not_null(strstr(r.trouble, "more than 16 files"), "%s", r.trouble);
}

Test(cri_runtime, a_value_without_room_is_no_silence)
{
    auto_err struct err e = {0};
    struct cri_config c = {0};
    auto_free char *text = xasprintf("imports = ['%0300d']\n", 0);
    cr_expect_eq(cri_config_take(&c, text, strlen(text), &e), -(int)ERR_TOO_LARGE);
    cr_expect_not_null(strstr(err_msg(&e), "an import's path"));
}

static void put_began(unsigned pid, long long ticks)
{
    auto_free char *name = xasprintf("/%u/stat", pid);
    auto_free char *of =
        xasprintf("%u (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 %lld 9 9", pid,
                  ticks);
    put(proc, name, of, strlen(of));
}

/* A containerd that began so many seconds after the epoch, on a machine that was up for 100 then. */
static void put_started(unsigned pid, long long s)
{
    auto_free char *machine =
        xasprintf("cpu 1 2\nintr 5 6\nctxt 7\nbtime %lld\nprocesses 9\n", s - 100);
    put_began(pid, 100LL * sysconf(_SC_CLK_TCK));
    put(proc, "/stat", machine, strlen(machine));
}

Test(cri_runtime, a_configuration_that_is_newer_than_the_process_says_nothing)
{
    PROCESS(7, "containerd", "/usr/bin/containerd");
    put_host("/etc/containerd/config.toml",
             "version = 2\nimports = ['more.toml']\n" CRI2 "enable_cdi = true\n");
    put_host("/etc/containerd/more.toml", "version = 2\n");
    long long now = (long long)time(NULL);
    put_started(7, now + 5);
    cr_expect_eq(look(NULL).cdi, CRI_CDI_ON);
    put_started(7, now - 60);
    const struct cri_runtime r = look(NULL);
    cr_expect_eq(r.started_s, now - 60);
    cr_expect_eq(r.cdi, CRI_CDI_UNKNOWN);
    cr_expect(strstr(r.trouble, "restart containerd"), "%s", r.trouble);
    put_started(7, now + 5);
    cr_expect_eq(look(&r).cdi, CRI_CDI_UNKNOWN, "the same process");
}

Test(cri_runtime, marks_count_once_containerd_runs_by_the_file_that_names_cleave_runtime)
{
    PROCESS(7, "containerd", "/usr/bin/containerd");
    put_host("/etc/containerd/config.toml",
             "version = 2\n" CRI2 "enable_cdi = false\n"
             "[plugins.cri.containerd.runtimes.runc.options]\nBinaryName = '/x/cleave-runtime'\n");
    long long now = (long long)time(NULL);
    put_started(7, now - 60);
    struct cri_runtime r = look(NULL);
    cr_expect(r.own_is_default);
    cr_expect_not(cri_marks_count(&r), "it was not restarted: %s", r.trouble);
    put_started(7, now + 5);
    r = look(NULL);
    cr_expect(cri_marks_count(&r));
}

Test(cri_runtime, a_process_stays_what_it_was_before_its_configuration_was_edited)
{
    PROCESS(7, "containerd", "/usr/bin/containerd");
    put_host("/etc/containerd/config.toml", "version = 2\n" CRI2 "enable_cdi = false\n");
    long long now = (long long)time(NULL);
    put_started(7, now + 5);
    struct cri_runtime first = look(NULL);
    cr_expect(cri_needs_mounts(&first));
    cr_expect_not(first.is_edited);
    first.started_s = now - 60; /* as if the file was written a minute after the start */
    put_host("/etc/containerd/config.toml", "version = 2\n" CRI2 "enable_cdi = true\n");
    struct cri_runtime r = look(&first);
    cr_expect(cri_needs_mounts(&r));
    cr_expect(r.is_edited);
    put_host("/etc/containerd/config.toml", "version = [\n");
    r = look(&r);
    cr_expect(cri_needs_mounts(&r));
    cr_expect(r.is_edited);
    cr_expect_str_empty(r.trouble);
    put_host("/etc/containerd/config.toml", "version = 2\n" CRI2 "enable_cdi = true\n");
    PROCESS(8, "containerd", "/usr/bin/containerd");
    put_started(8, now + 5);
    auto_free char *gone = xasprintf("%s/7/comm", proc);
    cr_assert_eq(unlink(gone), 0);
    r = look(&r);
    cr_expect_eq(r.cdi, CRI_CDI_ON, "another process reads the file as it is now");
    cr_expect_not(r.is_edited);
}

Test(cri_runtime, a_configuration_that_was_not_there_yet_is_read_again)
{
    PROCESS(7, "containerd", "containerd\0--config\0/etc/containerd/config.toml");
    put_started(7, (long long)time(NULL) + 5);
    struct cri_runtime r = look(NULL);
    cr_expect_not(r.has_file);
    put_host("/etc/containerd/config.toml", "version = 2\n" CRI2 "enable_cdi = false\n");
    r = look(&r);
    cr_expect_eq(r.cdi, CRI_CDI_OFF);
    cr_expect_not(r.is_edited);
}

/* A program that is being installed tells no version, and the second version of the file has CDI in
 * some. */
Test(cri_runtime, an_answer_that_was_not_known_is_looked_for_again)
{
    PROCESS(7, "containerd", "/usr/bin/containerd");
    put_host("/etc/containerd/config.toml", "version = 2\n");
    put_started(7, (long long)time(NULL) + 5);
    struct cri_runtime r = look(NULL);
    cr_assert_eq(r.cdi, CRI_CDI_UNKNOWN);
    put_host("/etc/containerd/config.toml", "version = 3\n");
    r = look(&r);
    cr_expect_eq(r.cdi, CRI_CDI_ON);
}

/* In place of the C library's, for the test below: the time of a change cannot be set. NULL: as it
 * is. */
static const int64_t *changes_s;

int fstat(int fd, struct stat *st)
{
    int rc = fstatat(fd, "", st, AT_EMPTY_PATH);
    if (changes_s && rc == 0 && S_ISREG(st->st_mode) && !(fcntl(fd, F_GETFL) & O_PATH))
        st->st_ctim.tv_sec = *changes_s++;
    return rc;
}

Test(cri_runtime, a_file_that_is_written_in_place_while_it_is_read_is_edited)
{
    PROCESS(7, "containerd", "/usr/bin/containerd");
    put_host("/etc/containerd/config.toml", "version = 2\n" CRI2 "enable_cdi = true\n");
    put_started(7, 1000);
    const int64_t before_and_after[] = {900, 1100, 1100};
    changes_s = before_and_after;
    const struct cri_runtime r = look(NULL);
    cr_expect_eq(changes_s - before_and_after, 2);
    changes_s = NULL;
    cr_expect(r.is_edited);
    cr_expect(strstr(r.trouble, "restart containerd"), "%s", r.trouble);
}

Test(cri_runtime, a_process_that_has_the_number_of_one_before_is_another)
{
    PROCESS(7, "containerd", "/usr/bin/containerd");
    put_host("/etc/containerd/config.toml", "version = 2\n" CRI2 "enable_cdi = false\n");
    long long now = (long long)time(NULL);
    put_started(7, now + 5);
    struct cri_runtime r = look(NULL);
    cr_assert_eq(r.cdi, CRI_CDI_OFF);
    put_host("/etc/containerd/config.toml", "version = 2\n" CRI2 "enable_cdi = true\n");
    put_began(7, 100LL * sysconf(_SC_CLK_TCK) + 1); /* of the same second */
    r = look(&r);
    cr_expect_eq(r.cdi, CRI_CDI_ON);
    cr_expect_not(r.is_edited);
}

Test(cri_runtime, a_link_leads_to_the_hosts_file)
{
    PROCESS(7, "containerd", "/usr/bin/containerd");
    put_host("/opt/config.toml", "version = 3\n" CRI3 "enable_cdi = false\n");
    put_host("/etc/containerd/none", "");
    auto_free char *link = xasprintf("%s/etc/containerd/config.toml", host);
    cr_assert_eq(symlink("/opt/config.toml", link), 0);
    cr_expect_eq(look(NULL).cdi, CRI_CDI_OFF);
}

Test(cri_runtime, nvidias_handler_is_found)
{
    static const char text[] =
        "version = 2\n" CRI2 "[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n"
        "default_runtime_name = \"runc\"\n"
        "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia.options]\n"
        "BinaryName = \"/usr/bin/nvidia-container-runtime\"\n";
    struct cri_config c = {0};
    bool is_default = true;
    cr_assert_eq(cri_config_take(&c, text, strlen(text), NULL), 0);
    cr_expect_str_eq(cri_config_handler(&c, &c.nvidia, &is_default), "nvidia");
    cr_expect_not(is_default);
    static const char more[] = "[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n"
                               "default_runtime_name = \"nvidia\"\n";
    cr_assert_eq(cri_config_take(&c, more, strlen(more), NULL), 0);
    cr_expect_str_eq(cri_config_handler(&c, &c.nvidia, &is_default), "nvidia");
    cr_expect(is_default);
}

Test(cri_runtime, what_a_handler_runs_is_what_was_said_last)
{
    static const char first[] = "[plugins.cri.containerd.runtimes.runc.options]\n"
                                "BinaryName = '/usr/bin/nvidia-container-runtime'\n";
    static const char last[] = "[plugins.cri.containerd.runtimes.runc.options]\n"
                               "BinaryName = '/usr/local/lib/cleave/cleave-runtime'\n";
    struct cri_config c = {0};
    bool is_default = false;
    cr_assert_eq(cri_config_take(&c, first, strlen(first), NULL), 0);
    cr_expect_str_eq(cri_config_handler(&c, &c.nvidia, &is_default), "runc");
    cr_expect(is_default, "it is containerd's default where none is set");
    cr_assert_eq(cri_config_take(&c, last, strlen(last), NULL), 0);
    cr_expect_null(cri_config_handler(&c, &c.nvidia, &is_default));
    cr_expect_str_eq(cri_config_handler(&c, &c.own, &is_default), "runc");
    cr_expect(is_default);
}

Test(cri_runtime, where_nothing_brings_the_drivers_files_the_answer_has_to)
{
    PROCESS(7, "containerd", "/usr/bin/containerd");
    put_host("/etc/containerd/config.toml", "version = 2\n" CRI2 "enable_cdi = false\n");
    struct cri_runtime r = look(NULL);
    cr_expect(cri_needs_mounts(&r));
    cr_expect_not(cri_resolves_names(&r));
    put_host("/etc/containerd/config.toml",
             "version = 2\n" CRI2 "enable_cdi = false\n"
             "[plugins.cri.containerd.runtimes.runc.options]\nBinaryName = '/x/cleave-runtime'\n");
    r = look(NULL);
    cr_expect_str_eq(r.own, "runc");
    cr_expect_not(cri_needs_mounts(&r));
    cr_expect(cri_resolves_names(&r));
}

/* --- Docker --- */

Test(cri_runtime, dockers_runtimes_are_those_of_its_file)
{
    PROCESS(7, "cri-dockerd", "cri-dockerd");
    struct cri_runtime r = look(NULL);
    cr_expect(cri_needs_mounts(&r), "runc alone");
    put_host("/etc/docker/daemon.json",
             "{\"default-runtime\": \"cleave\", \"runtimes\": {\"nvidia\": {\"path\": "
             "\"nvidia-container-runtime\"}, \"cleave\": {\"path\": "
             "\"/usr/local/lib/cleave/cleave-runtime\"}}}");
    r = look(NULL);
    cr_expect_eq(r.cdi, CRI_CDI_NONE);
    cr_expect_str_eq(r.own, "cleave");
    cr_expect(r.own_is_default);
    cr_expect_str_eq(r.handler, "nvidia");
    cr_expect_not(r.handler_is_default);
    cr_expect(cri_resolves_names(&r));
    put_host("/etc/docker/daemon.json", "{");
    r = look(NULL);
    cr_expect_not_null(strstr(r.trouble, "/etc/docker/daemon.json"), "%s", r.trouble);
    cr_expect_not(cri_needs_mounts(&r));
}

/* --- The process --- */

Test(cri_runtime, the_one_that_serves_the_kubelet_counts)
{
    cr_expect_eq(look(NULL).kind, CRI_KIND_UNKNOWN);
    PROCESS(30, "containerd", "/usr/bin/containerd");
    PROCESS(31, "containerd-shim", "containerd-shim");
    cr_expect_eq(look(NULL).kind, CRI_KIND_CONTAINERD);
    PROCESS(40, "cri-dockerd", "cri-dockerd");
    const struct cri_runtime docker = look(NULL);
    cr_expect_eq(docker.kind, CRI_KIND_DOCKER);
    cr_expect(cri_cdi_is_off(&docker));
}

static void put_status(unsigned pid, const char *uids, const char *pids)
{
    auto_free char *name = xasprintf("/%u/status", pid);
    auto_free char *text =
        xasprintf("Name:\tx\nUid:\t%s\nGid:\t0\t0\t0\t0\nNSpid:\t%s\n", uids, pids);
    put(proc, name, text, strlen(text));
}

static void put_groups(unsigned pid, const char *text)
{
    auto_free char *name = xasprintf("/%u/cgroup", pid);
    put(proc, name, text, strlen(text));
}

Test(cri_runtime, a_pod_that_sees_the_hosts_processes_is_none_of_them)
{
    PROCESS(30, "containerd", "/usr/bin/containerd");
    put_status(30, "0\t0\t0\t0", "30");
    PROCESS(40, "cri-dockerd", "cri-dockerd");
    put_status(40, "0\t0\t0\t0", "40");
    put_groups(1, "0::/init.scope\n");
    put_groups(30, "0::/system.slice/containerd.service\n");
    put_groups(40, "0::/kubepods.slice/kubepods-pod1.slice/cri-1.scope\n");
    cr_expect_eq(look(NULL).kind, CRI_KIND_CONTAINERD);
    /* The host is itself a container of a pod. */
    put_groups(1, "0::/kubepods/pod1/1\n");
    put_groups(30, "0::/kubepods/pod1/1\n");
    put_groups(40, "0::/kubepods/pod1/1/kubepods/pod2/2\n");
    cr_expect_eq(look(NULL).kind, CRI_KIND_CONTAINERD);
}

Test(cri_runtime, a_process_of_a_container_or_of_a_user_is_no_runtime_whatever_its_name)
{
    PROCESS(30, "containerd", "/usr/bin/containerd");
    put_status(30, "0\t0\t0\t0", "30");
    PROCESS(40, "cri-dockerd", "cri-dockerd");
    put_status(40, "0\t0\t0\t0", "40\t1");
    cr_expect_eq(look(NULL).kind, CRI_KIND_CONTAINERD, "of a container");
    put_status(40, "1000\t1000\t1000\t1000", "40");
    cr_expect_eq(look(NULL).kind, CRI_KIND_CONTAINERD, "of a user");
    put_status(40, "0\t65534\t65534\t65534", "40");
    cr_expect_eq(look(NULL).kind, CRI_KIND_CONTAINERD, "of a user, with rights exchanged");
    put_status(40, "0\t0\t0\t0", "40");
    cr_expect_eq(look(NULL).kind, CRI_KIND_DOCKER, "of the host");
}

Test(cri_runtime, one_that_is_gone_is_looked_for_again)
{
    PROCESS(30, "containerd", "/usr/bin/containerd");
    const struct cri_runtime before = look(NULL);
    PROCESS(20, "crio", "/usr/bin/crio");
    cr_expect_eq(look(&before).pid, 30, "it is still there");
    PROCESS(30, "sleep", "sleep");
    const struct cri_runtime now = look(&before);
    cr_expect_eq(now.kind, CRI_KIND_CRIO);
    cr_expect_eq(now.cdi, CRI_CDI_ON);
}
