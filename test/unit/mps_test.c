/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/container/mps.h"

/*
 * A script stands for nvidia-cuda-mps-control. As the daemon (-f) it makes "control", notes its pid
 * and its environment, and stays; as the client it notes what it is told, and refuses while "deaf"
 * is there or the daemon is not.
 */
static const char script[] =
    "#!/bin/sh\n"
    "cd \"$CUDA_MPS_PIPE_DIRECTORY\" || exit 9\n"
    "if [ \"$1\" = -f ]; then\n"
    "    [ ! -e \"$CUDA_MPS_LOG_DIRECTORY/broken\" ] || exit 7\n"
    "    echo \"$CUDA_VISIBLE_DEVICES\" >> \"$CUDA_MPS_LOG_DIRECTORY/visible\"\n"
    "    echo $$ > control\n"
    "    exec sleep 60\n"
    "fi\n"
    "[ -e control ] && [ ! -e \"$CUDA_MPS_LOG_DIRECTORY/deaf\" ] || exit 1\n"
    "cat > commands\n";

static struct clock *clk;
static struct reactor *reactor;
static int changes;

static void enter(void)
{
    folder_enter();
    cr_assert_eq(file_write_atomic("program", script, strlen(script), 0755, NULL), 0);
    clk = clock_fake_new(0);
    cr_assert_eq(reactor_new(clk, &reactor, NULL), 0);
}

static void leave(void)
{
    reactor = reactor_free(reactor);
    clk = clock_free(clk);
    folder_leave();
}

TestSuite(mps, .init = enter, .fini = leave);

static void count_change(void *arg)
{
    (void)arg;
    changes++;
}

static struct mps *new_mps(void)
{
    auto_free char *program = xasprintf("%s/program", folder_path());
    const struct mps_options o = {.root = folder_path(),
                                  .host_root = "/host/mps",
                                  .host_shm = "/host/shm",
                                  .program = program};
    return mps_new(reactor, &o, count_change, NULL);
}

static const struct mps_device cards[] = {{"GPU-0", 81920}, {"GPU-1", 40960}};
static const struct mps_device slice[] = {{"MIG-a", 9856}};
static const struct mps_device slice_again[] = {{"MIG-b", 9856}};
static const struct mps_unit gpus = {"nvidia.com/gpu", cards, 2, 4};
static const struct mps_unit part = {"GPU-2-1g.10gb-0", slice, 1, 2};
static const struct mps_unit part_again = {"GPU-2-1g.10gb-0", slice_again, 1, 2};

/* Lets the clock go on, as its pauses demand, until it holds; a daemon that never comes is ended by
 * the test's own limit. */
static void wait_ready(struct mps *m, const char *name, bool ready)
{
    while (mps_is_ready(m, name) != ready) {
        clock_fake_advance(clk, 100);
        reactor_run(reactor, 20);
    }
}

static void wait_gone(struct mps *m, const char *name)
{
    while (!mps_is_gone(m, name))
        reactor_run(reactor, 1000);
}

static char *read_text(const char *path)
{
    char *text = NULL;
    auto_err struct err e = {0};
    cr_assert_eq(file_read(path, 4096, &text, /* ret_len= */ NULL, &e), 0, "%s", err_msg(&e));
    return text;
}

static pid_t read_pid(const char *path)
{
    auto_free char *text = read_text(path);
    int64_t pid = 0;
    text[strcspn(text, "\n")] = '\0';
    cr_assert_eq(num_parse(text, 2, INT32_MAX, &pid, NULL), 0);
    return (pid_t)pid;
}

Test(mps, limits_are_equal_parts)
{
    auto_free char *commands = mps_commands(&gpus);
    cr_expect_str_eq(commands, "set_default_device_pinned_mem_limit 0 20480M\n"
                               "set_default_device_pinned_mem_limit 1 10240M\n"
                               "set_default_active_thread_percentage 25\n");
    cr_expect_eq(mps_thread_pct(1), 100);
    cr_expect_eq(mps_thread_pct(48), 2);
    cr_expect_eq(mps_thread_pct(101), 1);
    cr_expect_eq(mps_memory_mib(81559, 3), 27186);
}

Test(mps, memory_that_is_not_known_is_not_limited)
{
    const struct mps_device unknown[] = {{"GPU-0", 0}};
    const struct mps_unit u = {"x", unknown, 1, 2};
    auto_free char *commands = mps_commands(&u);
    cr_expect_str_eq(commands, "set_default_active_thread_percentage 50\n");
}

Test(mps, daemon_is_ready_once_it_took_its_limits, .timeout = 20)
{
    auto_mps struct mps *m = new_mps();
    cr_assert_eq(mps_set(m, &gpus, 1, NULL), 0);
    cr_expect_not(mps_is_ready(m, gpus.name));
    wait_ready(m, gpus.name, true);
    auto_free char *commands = read_text("nvidia.com/gpu/pipe/commands");
    auto_free char *wanted = mps_commands(&gpus);
    auto_free char *visible = read_text("nvidia.com/gpu/log/visible");
    cr_expect_str_eq(commands, wanted);
    cr_expect_str_eq(visible, "GPU-0,GPU-1\n");
    cr_expect_eq(access("nvidia.com/gpu/log", F_OK), 0);
    cr_expect_eq(changes, 1);
}

Test(mps, answer_has_pipes_and_shared_memory, .timeout = 20)
{
    auto_mps struct mps *m = new_mps();
    auto_entry struct entry en = {0};
    auto_free char *pipe_folder = xasprintf("%s/%s/pipe", folder_path(), part.name);
    cr_assert_eq(mps_set(m, &part, 1, NULL), 0);
    cr_assert_eq(mps_entry(m, part.name, &en, NULL), -ERR_UNAVAILABLE);
    cr_expect_eq(en.n_envs, 0);
    wait_ready(m, part.name, true);
    cr_assert_eq(mps_entry(m, part.name, &en, NULL), 0);
    cr_expect_str_eq(en.envs[0].key, "CUDA_MPS_PIPE_DIRECTORY");
    cr_expect_str_eq(en.envs[0].value, pipe_folder);
    cr_expect_str_eq(en.mounts[0].container_path, pipe_folder);
    cr_expect_str_eq(en.mounts[0].host_path, "/host/mps/GPU-2-1g.10gb-0/pipe");
    cr_expect_str_eq(en.mounts[1].container_path, "/dev/shm");
    cr_expect_str_eq(en.mounts[1].host_path, "/host/shm");
}

Test(mps, each_partition_has_a_daemon_of_its_own, .timeout = 20)
{
    const struct mps_unit units[] = {gpus, part};
    auto_mps struct mps *m = new_mps();
    cr_assert_eq(mps_set(m, units, 2, NULL), 0);
    wait_ready(m, gpus.name, true);
    wait_ready(m, part.name, true);
    cr_expect_neq(read_pid("nvidia.com/gpu/pipe/control"),
                  read_pid("GPU-2-1g.10gb-0/pipe/control"));
}

Test(mps, daemon_that_died_is_started_again_after_a_pause, .timeout = 20)
{
    auto_mps struct mps *m = new_mps();
    cr_assert_eq(mps_set(m, &part, 1, NULL), 0);
    wait_ready(m, part.name, true);
    pid_t first = read_pid("GPU-2-1g.10gb-0/pipe/control");
    cr_assert_eq(kill(first, SIGKILL), 0);
    wait_ready(m, part.name, false);
    cr_expect_str_eq(mps_problem(m, part.name), "the MPS control daemon ended with status 137");
    wait_ready(m, part.name, true);
    cr_expect_neq(read_pid("GPU-2-1g.10gb-0/pipe/control"), first);
    cr_expect_str_eq(mps_problem(m, part.name), "");
}

/* The root of a container that has the pipe folder is root here. */
Test(mps, what_a_container_left_does_not_meet_the_next_daemon, .timeout = 20)
{
    auto_mps struct mps *m = new_mps();
    struct stat before, after;
    cr_assert_eq(file_write_atomic("victim", "ours", 4, 0600, NULL), 0);
    cr_assert_eq(mps_set(m, &part, 1, NULL), 0);
    wait_ready(m, part.name, true);
    pid_t first = read_pid("GPU-2-1g.10gb-0/pipe/control");
    cr_assert_eq(stat("GPU-2-1g.10gb-0/pipe", &before), 0);
    auto_fd int mounted = open("GPU-2-1g.10gb-0/pipe", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(unlink("GPU-2-1g.10gb-0/pipe/control"), 0);
    cr_assert_eq(symlink("../../victim", "GPU-2-1g.10gb-0/pipe/control"), 0);
    cr_assert_eq(kill(first, SIGKILL), 0);
    wait_ready(m, part.name, false);
    cr_assert_eq(stat("GPU-2-1g.10gb-0/pipe", &after), 0);
    cr_expect_neq(after.st_ino, before.st_ino, "before there is a daemon again");
    cr_expect_lt(faccessat(AT_FDCWD, "GPU-2-1g.10gb-0/pipe/control", F_OK, AT_SYMLINK_NOFOLLOW), 0);
    wait_ready(m, part.name, true);
    auto_free char *victim = read_text("victim");
    cr_expect_str_eq(victim, "ours");
    cr_assert_eq(stat("GPU-2-1g.10gb-0/pipe", &after), 0);
    cr_expect_neq(after.st_ino, before.st_ino, "those who have the old one do not have the new");
    cr_expect_neq(unlinkat(mounted, "control", 0), 0);
    cr_expect_neq(read_pid("GPU-2-1g.10gb-0/pipe/control"), first);
}

Test(mps, daemon_that_takes_no_limits_is_not_ready, .timeout = 20)
{
    auto_mps struct mps *m = new_mps();
    cr_assert_eq(file_make_dirs("GPU-2-1g.10gb-0/log", 0755, NULL), 0);
    cr_assert_eq(file_write_atomic("GPU-2-1g.10gb-0/log/deaf", "", 0, 0644, NULL), 0);
    cr_assert_eq(mps_set(m, &part, 1, NULL), 0);
    while (!strstr(mps_problem(m, part.name), "does not take its limits")) {
        clock_fake_advance(clk, 100);
        reactor_run(reactor, 20);
    }
    cr_expect_not(mps_is_ready(m, part.name));
    cr_assert_eq(unlink("GPU-2-1g.10gb-0/log/deaf"), 0);
    wait_ready(m, part.name, true);
}

Test(mps, unit_that_is_no_more_is_ended, .timeout = 20)
{
    auto_mps struct mps *m = new_mps();
    cr_assert_eq(mps_set(m, &part, 1, NULL), 0);
    wait_ready(m, part.name, true);
    pid_t pid = read_pid("GPU-2-1g.10gb-0/pipe/control");
    cr_assert_eq(mps_set(m, /* units= */ NULL, 0, NULL), 0);
    cr_expect_not(mps_is_ready(m, part.name));
    cr_expect_not(mps_is_gone(m, part.name));
    wait_gone(m, part.name);
    cr_expect_neq(kill(pid, 0), 0);
    cr_assert_eq(mps_set(m, /* units= */ NULL, 0, NULL), 0);
    cr_assert_eq(mps_set(m, &part, 1, NULL), 0);
    wait_ready(m, part.name, true);
}

Test(mps, partition_made_again_gets_a_fresh_daemon, .timeout = 20)
{
    auto_mps struct mps *m = new_mps();
    cr_assert_eq(mps_set(m, &part, 1, NULL), 0);
    wait_ready(m, part.name, true);
    cr_assert_eq(mps_set(m, &part, 1, NULL), 0);
    cr_expect(mps_is_ready(m, part.name), "the same again changes nothing");
    cr_assert_eq(mps_set(m, &part_again, 1, NULL), 0);
    cr_expect_not(mps_is_ready(m, part.name));
    wait_ready(m, part.name, true);
    auto_free char *visible = read_text("GPU-2-1g.10gb-0/log/visible");
    cr_expect_str_eq(visible, "MIG-a\nMIG-b\n");
}

Test(mps, program_that_is_not_there_is_told, .timeout = 20)
{
    auto_mps struct mps *m = new_mps();
    cr_assert_eq(unlink("program"), 0);
    cr_assert_eq(mps_set(m, &part, 1, NULL), 0);
    while (!mps_problem(m, part.name)[0])
        reactor_run(reactor, 1000);
    cr_expect_not_null(strstr(mps_problem(m, part.name), "No such file"));
    cr_assert_eq(file_write_atomic("program", script, strlen(script), 0755, NULL), 0);
    wait_ready(m, part.name, true);
}

Test(mps, daemons_end_with_their_owner, .timeout = 20)
{
    struct mps *m = new_mps();
    cr_assert_eq(mps_set(m, &part, 1, NULL), 0);
    wait_ready(m, part.name, true);
    pid_t pid = read_pid("GPU-2-1g.10gb-0/pipe/control");
    m = mps_free(m);
    cr_expect_null(m);
    cr_expect_neq(kill(pid, 0), 0);
}

static const struct {
    const char *name;
    unsigned replicas;
} bad_units[] = {
    {"", 2},
    {"../x", 2},
    {"a/../b", 2},
    {"/a", 2},
    {".a", 2},
    {"a", 0},
    {"a", 49},
    {"a-name-that-is-so-long-that-the-path-of-the-sockets-below-the-root-would-not-fit-108", 2},
};

Test(mps, unit_that_cannot_be_is_left_out_and_told, .timeout = 20)
{
    for (size_t i = 0; i < ARRAY_LEN(bad_units); i++) {
        const struct mps_unit units[] = {{bad_units[i].name, slice, 1, bad_units[i].replicas},
                                         part};
        auto_mps struct mps *m = new_mps();
        cr_expect_eq(mps_set(m, units, 2, NULL), -ERR_INVALID, "%s", bad_units[i].name);
        cr_expect(mps_is_gone(m, bad_units[i].name));
        cr_expect_not(mps_is_gone(m, part.name));
    }
}
