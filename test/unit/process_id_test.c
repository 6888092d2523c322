/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/audit/process_id.h"

#define UID       "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
#define CONTAINER "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

TestSuite(process_id, .init = folder_enter, .fini = folder_leave);

static void say(unsigned pid, const char *name, const char *text)
{
    auto_free char *folder = xasprintf("%u", pid);
    auto_free char *path = xasprintf("%u/%s", pid, name);
    (void)mkdir(folder, 0755);
    cr_assert_eq(file_replace(path, text, strlen(text), 0644, NULL), 0);
}

static void say_container(unsigned pid, const char *uid, const char *container)
{
    auto_free char *text = xasprintf("0::/kubepods/burstable/pod%s/%s\n", uid, container);
    say(pid, "cgroup", text);
}

static void say_started(unsigned pid, unsigned ticks)
{
    auto_free char *text = xasprintf("%u (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 %u "
                                     "20 21\n",
                                     pid, ticks);
    say(pid, "stat", text);
}

/* --- What /proc says --- */

Test(process_id, a_process_began_when_its_22nd_field_says_whatever_its_name_is)
{
    uint64_t started = 0;
    say_started(42, 4711);
    cr_assert_eq(process_started(folder_path(), 42, &started, NULL), 0);
    cr_expect_eq(started, 4711);
}

Test(process_id, a_file_of_another_form_says_nothing)
{
    static const char *const texts[] = {"", "42", "42 (a", "42 (a) S 1 2 3",
                                        "42 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x"};
    uint64_t started = 1;
    unsigned own = 1;
    cr_expect_eq(process_started(folder_path(), 41, &started, NULL), -ERR_NOT_FOUND);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        say(42, "stat", texts[i]);
        say(42, "status", texts[i]);
        cr_expect_eq(process_started(folder_path(), 42, &started, NULL), -ERR_PROTOCOL, "%s",
                     texts[i]);
        cr_expect_eq(process_own_pid(folder_path(), 42, &own, NULL), -ERR_PROTOCOL);
    }
    cr_expect(started == 1 && own == 1);
}

Test(process_id, a_process_calls_itself_by_the_last_of_its_numbers)
{
    unsigned own = 0;
    say(42, "status", "Name:\tpython\nNSpid:\t42\t1007\t7\nNSpgid:\t42\t1\n");
    cr_assert_eq(process_own_pid(folder_path(), 42, &own, NULL), 0);
    cr_expect_eq(own, 7);
    say(42, "status", "Name:\tNSpid:\t9\nNSpid:\t42\n");
    cr_assert_eq(process_own_pid(folder_path(), 42, &own, NULL), 0);
    cr_expect_eq(own, 42);
}

Test(process_id, the_kernel_says_so_of_this_process)
{
    uint64_t started = 0;
    unsigned own = 0;
    cr_assert_eq(process_started(NULL, (unsigned)getpid(), &started, NULL), 0);
    cr_expect_gt(started, 0);
    cr_assert_eq(process_own_pid(NULL, (unsigned)getpid(), &own, NULL), 0);
    cr_expect_eq(own, (unsigned)getpid());
}

/* --- Its end --- */

/* When the child of a test began, as the kernel has it. */
static uint64_t began;

static pid_t start(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)pause();
        _exit(0);
    }
    cr_assert_gt(pid, 0);
    cr_assert_eq(process_started(NULL, (unsigned)pid, &began, NULL), 0);
    say_started((unsigned)pid, (unsigned)began);
    say_container((unsigned)pid, UID, CONTAINER);
    return pid;
}

/* Ends it where it still lives. Returns whether it did. */
static bool lived(pid_t pid)
{
    int status = 0;
    bool lives = waitpid(pid, &status, WNOHANG) == 0;
    if (lives) {
        (void)kill(pid, SIGTERM);
        (void)waitpid(pid, &status, 0);
        return WTERMSIG(status) == SIGTERM;
    }
    return false;
}

static struct process_id id_of(pid_t pid)
{
    return (struct process_id){.pid = (unsigned)pid, .started = began, .of = {UID, CONTAINER}};
}

Test(process_id, the_process_that_is_meant_is_ended)
{
    int status = 0;
    bool ended = false;
    pid_t pid = start();
    const struct process_id id = id_of(pid);
    cr_assert_eq(process_end(folder_path(), &id, &ended, NULL), 0);
    cr_expect(ended);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

Test(process_id, another_process_under_its_number_lives)
{
    static const struct {
        uint64_t later;
        struct consumer of;
    } others[] = {
        {1, {UID, CONTAINER}},
        {0, {"1f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", CONTAINER}},
        {0, {UID, "10112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"}},
    };
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        bool ended = true;
        pid_t pid = start();
        const struct process_id id = {(unsigned)pid, began + others[i].later, others[i].of};
        cr_assert_eq(process_end(folder_path(), &id, &ended, NULL), 0);
        cr_expect_not(ended);
        cr_expect(lived(pid), "%zu", i);
    }
}

/* What proc_root says of the number is about a process that this one cannot even see. */
Test(process_id, one_that_has_the_number_in_another_pid_namespace_lives)
{
    bool ended = true;
    pid_t pid = start();
    struct process_id id = id_of(pid);
    id.started++;
    say_started((unsigned)pid, (unsigned)id.started);
    cr_assert_eq(process_end(folder_path(), &id, &ended, NULL), 0);
    cr_expect_not(ended);
    cr_expect(lived(pid));
}

Test(process_id, one_that_left_its_container_lives)
{
    bool ended = true;
    pid_t pid = start();
    const struct process_id id = id_of(pid);
    say((unsigned)pid, "cgroup", "0::/system.slice/sshd.service\n");
    cr_assert_eq(process_end(folder_path(), &id, &ended, NULL), 0);
    cr_expect_not(ended);
    cr_expect(lived(pid));
}

Test(process_id, one_that_has_ended_is_no_error)
{
    bool ended = true;
    pid_t pid = start();
    const struct process_id id = id_of(pid);
    cr_expect(lived(pid));
    cr_assert_eq(process_end(folder_path(), &id, &ended, NULL), 0);
    cr_expect_not(ended);
}

Test(process_id, neither_the_caller_nor_a_process_of_no_known_container_is_ended)
{
    bool ended = true;
    say_started((unsigned)getpid(), 4711);
    say_container((unsigned)getpid(), UID, CONTAINER);
    struct process_id id = id_of(getpid());
    cr_expect_eq(process_end(folder_path(), &id, &ended, NULL), -ERR_INVALID);
    id = id_of(1);
    cr_expect_eq(process_end(folder_path(), &id, &ended, NULL), -ERR_INVALID);
    id = id_of(0);
    cr_expect_eq(process_end(folder_path(), &id, &ended, NULL), -ERR_INVALID);
    pid_t pid = start();
    id = id_of(pid);
    id.of.container_id[0] = '\0';
    cr_expect_eq(process_end(folder_path(), &id, &ended, NULL), -ERR_INVALID);
    cr_expect(lived(pid));
}
