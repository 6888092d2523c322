/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#include "folder_support.h"
#include "nodeagent/slots/share_terms.h"

static int folder = -1;

static void set_up(void)
{
    folder_enter();
    folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void tear_down(void)
{
    (void)close(folder);
    folder_leave();
}

TestSuite(share_terms, .init = set_up, .fini = tear_down);

#define CARD_A "GPU-00112233-4455-6677-8899-aabbccddeeff"
#define CARD_B "GPU-FFFFFFFF-4455-6677-8899-aabbccddeeff"
#define MIB    ((uint64_t)1 << 20)

static const struct share_limit limits[] = {{CARD_A, 3000 * MIB, 30, false, LEVEL_LIBRARY,
                                             LEVEL_NONE, true},
                                            {CARD_B, 5000 * MIB, 0, false, LEVEL_LIBRARY,
                                             LEVEL_NONE, false}};

static struct terms terms_of(const struct share_limit *list, size_t n)
{
    struct terms t;
    auto_err struct err e = {0};
    cr_assert_eq(share_terms_of(list, n, &t, &e), 0, "%s", err_msg(&e));
    return t;
}

Test(share_terms, they_say_each_cards_limits_in_order_and_leave_all_gates_open)
{
    static const uint8_t uuid[] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                   0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    const struct terms t = terms_of(limits, 2);
    cr_expect_eq(t.magic, TERMS_MAGIC);
    cr_expect_eq(t.version, REGION_VERSION);
    cr_expect_eq(t.bytes, sizeof(t));
    cr_expect_eq(t.heed, 0);
    cr_assert_eq(t.n_cards, 2);
    cr_expect_arr_eq(t.cards[0].uuid, uuid, sizeof(uuid));
    cr_expect_eq(t.cards[0].memory_bytes, 3145728000);
    cr_expect_eq(t.cards[0].percent, 30);
    cr_expect_eq(t.cards[0].priority, 1, "low");
    cr_expect_eq(t.cards[0].memory_level, LEVEL_LIBRARY);
    cr_expect_eq(t.cards[0].compute_level, LEVEL_NONE);
    cr_expect_eq(t.cards[0].gate, GATE_OPEN);
    cr_expect_eq(t.cards[1].uuid[0], 0xff);
    cr_expect_eq(t.cards[1].memory_bytes, 5242880000);
    cr_expect_eq(t.cards[1].priority, 0);
}

Test(share_terms, a_card_that_cuda_could_not_name_has_none)
{
    static const char *const names[] = {"GPU-a",
                                        "",
                                        "MIG-00112233-4455-6677-8899-aabbccddeeff",
                                        "GPU-00112233-4455-6677-8899-aabbccddeef",
                                        "GPU-00112233-4455-6677-8899-aabbccddeeff0",
                                        "GPU-0011223g-4455-6677-8899-aabbccddeeff"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        auto_err struct err e = {0};
        struct share_limit l = {.memory_bytes = MIB};
        struct terms t;
        (void)snprintf(l.card, sizeof(l.card), "%s", names[i]);
        cr_expect_eq(share_terms_of(&l, 1, &t, &e), -ERR_INVALID, "%s", names[i]);
        cr_expect(strstr(err_msg(&e), "UUID"), "%s", err_msg(&e));
    }
}

Test(share_terms, more_cards_than_the_limiter_counts_are_refused)
{
    auto_err struct err e = {0};
    struct share_limit many[REGION_MAX_CARDS + 1];
    struct terms t;
    for (size_t i = 0; i < REGION_MAX_CARDS + 1; i++)
        many[i] = limits[0];
    cr_expect_eq(share_terms_of(many, REGION_MAX_CARDS, &t, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(share_terms_of(many, REGION_MAX_CARDS + 1, &t, &e), -ERR_INVALID);
    cr_expect(strstr(err_msg(&e), "17 cards"), "%s", err_msg(&e));
}

static struct stat look(const char *name)
{
    struct stat st;
    cr_assert_eq(stat(name, &st), 0, "%s", name);
    return st;
}

Test(share_terms, usage_is_everybodys_to_write_and_takes_no_room_yet)
{
    const struct terms t = terms_of(limits, 2);
    mode_t mask = umask(0077);
    cr_assert_eq(share_terms_write(folder, &t, NULL), 0);
    (void)umask(mask);
    const struct stat usage = look(REGION_USAGE);
    cr_expect_eq(usage.st_mode & 0777U, 0666);
    cr_expect_eq(usage.st_size, sizeof(struct usage));
    cr_expect_lt(usage.st_blocks * 512, 16384, "all but its head is a hole");
    cr_expect_eq(look(REGION_TERMS).st_mode & 0777U, 0644);
    auto_free char *said = NULL;
    size_t len = 0;
    cr_assert_eq(file_read(REGION_USAGE, sizeof(struct usage), &said, &len, NULL), 0);
    const struct usage *u = (const void *)said;
    cr_expect_eq(u->magic, USAGE_MAGIC);
    cr_expect_eq(u->version, REGION_VERSION);
    cr_expect_eq(u->bytes, sizeof(struct usage));
    cr_expect(u->lock == 0 && u->reach == 0 && u->processes[0].pid == 0);
}

Test(share_terms, amounts_change_under_those_who_have_them_mapped)
{
    auto_err struct err e = {0};
    const struct terms t = terms_of(limits, 2);
    struct share_limit more[2] = {limits[0], limits[1]};
    more[0].memory_bytes = 9000 * MIB;
    more[1].percent = 50;
    const struct terms to = terms_of(more, 2);
    cr_assert_eq(share_terms_write(folder, &t, NULL), 0);
    auto_terms struct terms *process = NULL;
    auto_terms struct terms *agent = NULL;
    cr_assert_eq(share_terms_map(folder, &process, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(share_terms_map(folder, &agent, &e), 0, "%s", err_msg(&e));
    cr_expect(share_terms_update(agent, &to));
    cr_expect_eq(process->cards[0].memory_bytes, 9000 * MIB);
    cr_expect_eq(process->cards[1].percent, 50);
}

Test(share_terms, other_cards_or_levels_are_not_written_over)
{
    const struct share_limit swapped[] = {limits[1], limits[0]};
    struct share_limit unlimited[2] = {limits[0], limits[1]};
    unlimited[1].memory_level = LEVEL_NONE;
    const struct terms cases[] = {terms_of(swapped, 2), terms_of(limits, 1),
                                  terms_of(unlimited, 2)};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct terms t = terms_of(limits, 2);
        const struct terms before = t;
        cr_expect_not(share_terms_update(&t, &cases[i]), "%zu", i);
        cr_expect_eq(memcmp(&t, &before, sizeof(t)), 0, "%zu", i);
    }
}

static void expect_unusable(const void *data, size_t len, const char *what)
{
    auto_err struct err e = {0};
    struct terms *t = NULL;
    cr_assert_eq(file_write_atomic(REGION_TERMS, data, len, 0644, NULL), 0);
    cr_expect_eq(share_terms_map(folder, &t, &e), -ERR_PROTOCOL, "%s: %s", what, err_msg(&e));
    cr_expect_null(t);
}

Test(share_terms, what_is_of_another_layout_is_not_mapped)
{
    struct terms *none = NULL;
    cr_expect_eq(share_terms_map(folder, &none, NULL), -ERR_NOT_FOUND);
    struct terms t = terms_of(limits, 2);
    expect_unusable(&t, sizeof(t) - 1, "short");
    t.version++;
    expect_unusable(&t, sizeof(t), "another version");
    t = terms_of(limits, 2);
    t.magic++;
    expect_unusable(&t, sizeof(t), "another magic");
    t = terms_of(limits, 2);
    t.n_cards = REGION_MAX_CARDS + 1;
    expect_unusable(&t, sizeof(t), "too many cards");
}

Test(share_terms, usage_that_a_container_made_longer_is_cut)
{
    const struct terms t = terms_of(limits, 1);
    cr_assert_eq(share_usage_trim(folder, NULL), 0, "there is none");
    cr_assert_eq(share_terms_write(folder, &t, NULL), 0);
    cr_assert_eq(truncate(REGION_USAGE, 1 << 30), 0);
    cr_assert_eq(chmod(REGION_USAGE, 0), 0);
    cr_expect_eq(share_usage_trim(folder, NULL), 0);
    cr_expect_eq(look(REGION_USAGE).st_size, sizeof(struct usage));
    cr_assert_eq(chmod(REGION_USAGE, 0600), 0);
    cr_assert_eq(truncate(REGION_USAGE, 10), 0);
    cr_expect_eq(share_usage_trim(folder, NULL), 0);
    cr_expect_eq(look(REGION_USAGE).st_size, 10, "a shorter one is the container's own loss");
}

Test(share_terms, room_behind_the_end_of_usage_is_given_back)
{
    const struct terms t = terms_of(limits, 1);
    cr_assert_eq(share_terms_write(folder, &t, NULL), 0);
    auto_fd int fd = open(REGION_USAGE, O_WRONLY | O_CLOEXEC);
    cr_assert_eq(fallocate(fd, FALLOC_FL_KEEP_SIZE, 4 << 20, 4 << 20), 0);
    cr_assert_gt(look(REGION_USAGE).st_blocks * 512, 4 << 20);
    cr_expect_eq(share_usage_trim(folder, NULL), 0);
    cr_expect_eq(look(REGION_USAGE).st_size, sizeof(struct usage));
    cr_expect_lt(look(REGION_USAGE).st_blocks * 512, 1 << 20);
}

Test(share_terms, a_lease_of_usage_is_not_waited_for)
{
    const struct terms t = terms_of(limits, 1);
    auto_err struct err e = {0};
    cr_assert_eq(share_terms_write(folder, &t, NULL), 0);
    cr_assert_eq(truncate(REGION_USAGE, 1 << 20), 0);
    auto_fd int fd = open(REGION_USAGE, O_RDWR | O_CLOEXEC);
    (void)signal(SIGIO, SIG_IGN);
    cr_assert_eq(fcntl(fd, F_SETLEASE, F_WRLCK), 0);
    cr_expect_eq(share_usage_trim(folder, &e), -ERR_SYSTEM);
    cr_expect_eq(e.sys_errno, EAGAIN);
}
