/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "limiter/region.h"
#include "nodeagent/audit/usage_file.h"

static int folder = -1;
static struct usage *usage;
static struct usage_file file;

static void set_up(void)
{
    folder_enter();
    folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    usage = xmalloc(sizeof(*usage));
    usage->magic = USAGE_MAGIC;
    usage->version = REGION_VERSION;
    usage->bytes = sizeof(*usage);
}

static void tear_down(void)
{
    usage_file_done(&file);
    free(usage);
    (void)close(folder);
    folder_leave();
}

TestSuite(usage_file, .init = set_up, .fini = tear_down);

static void write_bytes(size_t n)
{
    auto_fd int fd = open(REGION_USAGE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    cr_assert_eq(write(fd, usage, n), (ssize_t)n);
}

static int read_card(unsigned card)
{
    usage_file_done(&file);
    return usage_file_read(folder, card, &file, /* e= */ NULL);
}

static void process(unsigned at, uint32_t pid, uint64_t started, uint64_t taken)
{
    usage->processes[at] = (struct usage_process){.pid = pid, .started = started};
    usage->taken[1][at] = taken;
    if (usage->reach <= at)
        usage->reach = at + 1;
}

Test(usage_file, it_says_what_each_process_has_taken_of_a_card)
{
    process(0, 17, 500, 1000);
    process(2, 18, 600, 2000);
    usage->by_contexts[1][2] = 300;
    usage->contexts[1][2] = 3;
    write_bytes(sizeof(*usage));
    cr_assert_eq(read_card(1), 0);
    cr_expect_eq(file.n, 2);
    const struct usage_process_taken *p = usage_file_find(&file, 18, 600);
    cr_assert_not_null(p);
    cr_expect(p->taken == 2000 && p->taken_by_contexts == 300 && p->contexts == 3);
    cr_expect_null(usage_file_find(&file, 18, 601), "another process of that number");
    cr_expect_null(usage_file_find(&file, 19, 600));
    cr_assert_eq(read_card(0), 0);
    cr_expect_eq(usage_file_find(&file, 17, 500)->taken, 0);
}

Test(usage_file, all_slots_of_the_last_card_are_read)
{
    process(REGION_MAX_PROCESSES - 1, 17, 500, 0);
    usage->taken[REGION_MAX_CARDS - 1][REGION_MAX_PROCESSES - 1] = 4;
    write_bytes(sizeof(*usage));
    cr_assert_eq(read_card(REGION_MAX_CARDS - 1), 0);
    cr_expect_eq(usage_file_find(&file, 17, 500)->taken, 4);
}

Test(usage_file, no_more_than_all_slots_are_read_and_contexts_have_no_more_than_all)
{
    process(0, 17, 500, 1000);
    usage->by_contexts[1][0] = UINT64_MAX;
    usage->reach = UINT32_MAX;
    write_bytes(sizeof(*usage));
    cr_assert_eq(read_card(1), 0);
    cr_expect_eq(file.items[0].taken_by_contexts, 1000);
}

Test(usage_file, a_file_without_processes_says_nothing)
{
    write_bytes(sizeof(*usage));
    cr_expect_eq(read_card(0), 0);
    cr_expect_eq(file.n, 0);
}

Test(usage_file, a_missing_file_is_not_found)
{
    cr_expect_eq(read_card(0), -ERR_NOT_FOUND);
}

Test(usage_file, what_is_cut_at_any_length_is_refused_where_something_lacks)
{
    process(3, 17, 500, 1000);
    for (size_t n = 0; n < 4096; n += 7) {
        write_bytes(n);
        cr_expect_eq(read_card(1), -ERR_PROTOCOL, "%zu", n);
    }
    write_bytes(offsetof(struct usage, by_contexts));
    cr_expect_eq(read_card(1), -ERR_PROTOCOL);
    write_bytes(offsetof(struct usage, contexts));
    cr_expect_eq(read_card(1), -ERR_PROTOCOL);
}

Test(usage_file, another_layout_is_refused)
{
    usage->version++;
    write_bytes(sizeof(*usage));
    cr_expect_eq(read_card(0), -ERR_PROTOCOL);
    usage->version--;
    usage->magic++;
    write_bytes(sizeof(*usage));
    cr_expect_eq(read_card(0), -ERR_PROTOCOL);
    usage->magic--;
    usage->bytes--;
    write_bytes(sizeof(*usage));
    cr_expect_eq(read_card(0), -ERR_PROTOCOL);
}

Test(usage_file, what_is_no_file_is_neither_opened_nor_waited_for, .timeout = 10)
{
    cr_assert_eq(mkfifo(REGION_USAGE, 0666), 0);
    cr_expect_eq(read_card(0), -ERR_PROTOCOL);
    cr_assert_eq(unlink(REGION_USAGE), 0);
    cr_assert_eq(mkdir(REGION_USAGE, 0777), 0);
    cr_expect_eq(read_card(0), -ERR_PROTOCOL);
    cr_assert_eq(rmdir(REGION_USAGE), 0);
    cr_assert_eq(symlink("/etc/passwd", REGION_USAGE), 0);
    cr_expect_eq(read_card(0), -ERR_PROTOCOL);
    cr_assert_eq(unlink(REGION_USAGE), 0);
    auto_fd int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = REGION_USAGE};
    cr_assert_eq(bind(s, (const void *)&at, sizeof(at)), 0);
    cr_expect_eq(read_card(0), -ERR_PROTOCOL);
}

Test(usage_file, a_file_that_is_shut_is_an_error)
{
    write_bytes(sizeof(*usage));
    if (geteuid() == 0)
        return; /* who may open anything */
    cr_assert_eq(chmod(REGION_USAGE, 0), 0);
    cr_expect_eq(read_card(0), -ERR_SYSTEM);
}

Test(usage_file, whatever_is_in_it_has_bounds)
{
    struct rng rng;
    rng_init(&rng, 20261127);
    for (int i = 0; i < 200; i++) {
        uint64_t *words = (void *)usage;
        for (size_t k = 2; k < sizeof(*usage) / sizeof(*words); k++)
            words[k] = rng_below(&rng, 4) ? rng_next(&rng) : 0;
        write_bytes(sizeof(*usage));
        cr_assert_eq(read_card((unsigned)rng_below(&rng, REGION_MAX_CARDS)), 0);
        cr_assert_leq(file.n, REGION_MAX_PROCESSES);
        for (size_t k = 0; k < file.n; k++)
            cr_assert(file.items[k].pid != 0 &&
                      file.items[k].taken_by_contexts <= file.items[k].taken);
    }
}
