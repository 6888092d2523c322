/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nodeagent/arbiter/arbiter.h"

/*
 * The arbiter with real terms, descriptors and processes. The test says what their members say. What
 * it decides is tested in turns_test.c.
 */

enum { SLOT = 1024, OTHER = 1025 };

static struct arbiter *start(void)
{
    struct arbiter *a = NULL;
    cr_assert_eq(arbiter_new(clock_real(), &a, NULL), 0);
    return a;
}

static const struct terms_card half = {.uuid = {1}, .percent = 50, .compute_level = LEVEL_LIBRARY};

/* A container's terms, as it has them mapped. */
static const struct terms *put(struct arbiter *a, unsigned slot, const struct terms_card *cards,
                               unsigned n)
{
    auto_fd int fd = memfd_create("terms", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, sizeof(struct terms)), 0);
    struct terms *ours = mmap(NULL, sizeof(*ours), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const struct terms *theirs = mmap(NULL, sizeof(*ours), PROT_READ, MAP_SHARED, fd, 0);
    cr_assert(ours != MAP_FAILED && theirs != MAP_FAILED);
    ours->n_cards = n;
    memcpy(ours->cards, cards, n * sizeof(*cards));
    arbiter_put(a, slot, ours);
    arbiter_step(a);
    return theirs;
}

/* The same file, with other percents. */
static void put_again(struct arbiter *a, unsigned slot, const struct terms *theirs,
                      const struct terms_card *card)
{
    struct terms *ours =
        mmap(NULL, sizeof(*ours), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(ours != MAP_FAILED);
    memcpy(ours, theirs, sizeof(*ours));
    ours->cards[0].percent = card->percent;
    memcpy(ours->cards[0].uuid, card->uuid, sizeof(card->uuid));
    arbiter_put(a, slot, ours);
    arbiter_step(a);
}

static pid_t start_process(void)
{
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        (void)pause();
}

static void end_process(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

static void says(struct arbiter *a, unsigned slot, pid_t pid, unsigned member, enum share_word word,
                 uint32_t turn)
{
    const struct ucred from = {.pid = pid};
    const struct share_message m = {REGION_VERSION, word, 0, turn, member, 0};
    arbiter_hear(a, slot, &from, &m);
    arbiter_step(a);
}

static void wants(struct arbiter *a, unsigned slot, pid_t pid)
{
    says(a, slot, pid, 0, SHARE_SERVES, 0);
    says(a, slot, pid, 0, SHARE_WANT, 0);
}

static enum share_gate gate_of(const struct terms *t)
{
    return (enum share_gate)t->cards[0].gate;
}

/* False: nothing came due in that time. */
static bool follow(struct arbiter *a, int ms)
{
    struct pollfd p = {.fd = arbiter_fd(a), .events = POLLIN};
    if (poll(&p, 1, ms) <= 0)
        return false;
    arbiter_step(a);
    return true;
}

/* --- Gates --- */

Test(arbiter, a_container_is_told_and_its_first_work_opens_the_gate)
{
    struct arbiter *a = start();
    const struct terms *t = put(a, SLOT, &half, 1);
    cr_expect(gate_of(t) == GATE_TELL && t->heed == 1);
    uint32_t beat = t->beat;
    wants(a, SLOT, getpid());
    cr_expect(gate_of(t) == GATE_OPEN && t->heed == 0);
    cr_expect_neq(t->beat, beat);
    arbiter_free(a);
}

Test(arbiter, nothing_comes_due_while_nobody_else_wants_the_card)
{
    struct arbiter *a = start();
    const struct terms *t = put(a, SLOT, &half, 1);
    (void)put(a, OTHER, &half, 1);
    wants(a, SLOT, getpid());
    while (follow(a, 0)) {
    }
    uint32_t beat = t->beat;
    cr_expect_not(follow(a, 400));
    cr_expect_eq(t->beat, beat);
    arbiter_free(a);
}

static const struct terms *waiting_for;
static uint32_t seen;

static void *wait_for_beat(void *arg)
{
    const struct timespec long_time = {.tv_sec = 20};
    (void)arg;
    return (void *)syscall(SYS_futex, &waiting_for->beat, FUTEX_WAIT, seen, &long_time, NULL, 0);
}

Test(arbiter, two_take_turns_and_each_change_wakes_who_waits)
{
    struct arbiter *a = start();
    pthread_t waiter;
    pid_t pid = start_process();
    const struct terms *t = put(a, SLOT, &half, 1), *u = put(a, OTHER, &half, 1);
    wants(a, SLOT, getpid());
    wants(a, OTHER, pid);
    cr_expect(gate_of(t) == GATE_CLOSED && gate_of(u) == GATE_CLOSED);
    waiting_for = u;
    seen = u->beat;
    cr_assert_eq(pthread_create(&waiter, NULL, wait_for_beat, NULL), 0);
    says(a, SLOT, getpid(), 0, SHARE_DRAINED, t->cards[0].turn);
    (void)pthread_join(waiter, NULL);
    says(a, OTHER, pid, 0, SHARE_DRAINED, u->cards[0].turn);
    cr_expect((gate_of(t) == GATE_TURN) != (gate_of(u) == GATE_TURN));
    cr_expect(t->heed == 1 && u->heed == 1);
    cr_expect(gate_of(u) != GATE_TURN ||
              u->cards[0].turn_ends > (uint64_t)clock_mono_us(clock_real()) * 1000);
    arbiter_free(a);
    end_process(pid);
}

/* It has finished, and has more to do. */
static void answer(struct arbiter *a, unsigned slot, pid_t pid, const struct terms *t)
{
    if (gate_of(t) != GATE_CLOSED)
        return;
    says(a, slot, pid, 0, SHARE_WANT, t->cards[0].turn);
    says(a, slot, pid, 0, SHARE_DRAINED, t->cards[0].turn);
}

Test(arbiter, who_waits_hears_a_beat_four_times_a_second)
{
    struct arbiter *a = start();
    const struct terms *t = put(a, SLOT, &half, 1), *u = put(a, OTHER, &half, 1);
    wants(a, SLOT, getpid());
    wants(a, OTHER, getppid());
    int64_t end = clock_mono_ms(clock_real()) + 1000;
    uint32_t turns = t->cards[0].turn, beats = t->beat;
    while (clock_mono_ms(clock_real()) < end) {
        answer(a, SLOT, getpid(), t);
        answer(a, OTHER, getppid(), u);
        (void)follow(a, 300);
    }
    turns = t->cards[0].turn - turns;
    beats = t->beat - beats;
    cr_expect(turns > 10 && beats - turns >= 4, "%u of %u", beats - turns, beats);
    arbiter_free(a);
}

Test(arbiter, cards_of_which_the_library_holds_nothing_stay_open)
{
    struct arbiter *a = start();
    struct terms_card cards[] = {half, half};
    cards[0].compute_level = LEVEL_NONE;
    cards[0].gate = GATE_CLOSED; /* an earlier agent's */
    cards[1].uuid[0] = 2;
    const struct terms *t = put(a, SLOT, cards, 2);
    cr_expect(t->cards[1].gate == GATE_TELL && t->heed >= 1);
    cards[1].compute_level = LEVEL_NONE;
    const struct terms *u = put(a, OTHER, cards, 2);
    cr_expect(u->cards[0].gate == GATE_OPEN && u->cards[1].gate == GATE_OPEN && u->heed == 0);
    arbiter_free(a);
}

Test(arbiter, another_agent_counts_on_from_the_turn_that_it_finds)
{
    struct arbiter *a = start();
    struct terms_card card = half;
    card.turn = 41;
    card.gate = GATE_CLOSED;
    const struct terms *t = put(a, SLOT, &card, 1);
    cr_expect(gate_of(t) == GATE_TELL && t->cards[0].turn == 42 && t->heed == 1);
    arbiter_free(a);
}

Test(arbiter, the_end_of_the_arbiter_opens_all_gates)
{
    struct arbiter *a = start();
    const struct terms *t = put(a, SLOT, &half, 1), *u = put(a, OTHER, &half, 1);
    wants(a, SLOT, getpid());
    wants(a, OTHER, getppid());
    arbiter_free(a);
    cr_expect(gate_of(t) == GATE_OPEN && t->heed == 0);
    cr_expect(gate_of(u) == GATE_OPEN && u->heed == 0);
}

Test(arbiter, a_dropped_containers_gates_are_opened_and_the_other_has_the_card)
{
    struct arbiter *a = start();
    const struct terms *t = put(a, SLOT, &half, 1), *u = put(a, OTHER, &half, 1);
    wants(a, SLOT, getpid());
    wants(a, OTHER, getppid());
    arbiter_drop(a, SLOT);
    arbiter_drop(a, SLOT);
    arbiter_step(a);
    cr_expect(gate_of(t) == GATE_OPEN && t->heed == 0);
    says(a, OTHER, getppid(), 0, SHARE_DRAINED, u->cards[0].turn);
    cr_expect_eq(gate_of(u), GATE_TURN);
    while (gate_of(u) != GATE_OPEN)
        cr_assert(follow(a, 5000));
    arbiter_free(a);
}

/* --- Members --- */

Test(arbiter, a_holder_that_is_killed_makes_way_at_once)
{
    struct arbiter *a = start();
    pid_t pids[] = {start_process(), start_process()};
    const struct terms *t[] = {put(a, SLOT, &half, 1), put(a, OTHER, &half, 1)};
    for (unsigned i = 0; i < 2; i++)
        wants(a, SLOT + i, pids[i]);
    for (unsigned i = 0; i < 2; i++)
        says(a, SLOT + i, pids[i], 0, SHARE_DRAINED, t[i]->cards[0].turn);
    unsigned holder = gate_of(t[0]) == GATE_TURN ? 0 : 1;
    cr_assert_eq(gate_of(t[holder]), GATE_TURN);
    end_process(pids[holder]);
    while (gate_of(t[1 - holder]) != GATE_TURN)
        cr_assert(follow(a, 5000));
    cr_expect_neq(gate_of(t[holder]), GATE_TURN);
    end_process(pids[1 - holder]);
    while (gate_of(t[1 - holder]) != GATE_TELL)
        cr_assert(follow(a, 5000));
    arbiter_free(a);
}

Test(arbiter, a_process_under_the_slot_of_another_one_takes_its_place)
{
    struct arbiter *a = start();
    pid_t pid = start_process();
    const struct terms *t = put(a, SLOT, &half, 1);
    wants(a, SLOT, pid);
    cr_expect_eq(gate_of(t), GATE_OPEN);
    wants(a, SLOT, getpid());
    end_process(pid);
    cr_expect_not(follow(a, 50), "its end means nothing any more");
    cr_expect_eq(gate_of(t), GATE_OPEN);
    arbiter_free(a);
}

Test(arbiter, the_last_words_of_a_process_that_has_ended_mean_nothing)
{
    struct arbiter *a = start();
    pid_t pid = start_process();
    const struct terms *t = put(a, SLOT, &half, 1);
    end_process(pid);
    wants(a, SLOT, pid);
    cr_expect_eq(gate_of(t), GATE_TELL);
    arbiter_free(a);
}

Test(arbiter, other_percents_keep_the_members_and_other_cards_do_not_keep_the_turns)
{
    struct arbiter *a = start();
    struct terms_card card = half;
    const struct terms *t = put(a, SLOT, &half, 1);
    struct arbiter_sums sums;
    pid_t pid = start_process();
    wants(a, SLOT, pid);
    card.percent = 20;
    put_again(a, SLOT, t, &card);
    end_process(pid);
    cr_expect(follow(a, 5000), "its end is noticed");
    card.uuid[0] = 9;
    put_again(a, SLOT, t, &card);
    cr_expect(arbiter_sums(a, SLOT, 0, &sums) && sums.held_ns == 0);
    arbiter_free(a);
}

Test(arbiter, what_makes_no_sense_changes_nothing)
{
    struct arbiter *a = start();
    const struct terms *t = put(a, SLOT, &half, 1);
    const struct ucred us = {.pid = getpid()}, nobody = {0};
    const struct share_message messages[] = {
        {REGION_VERSION, SHARE_WANT, 1, 0, 0, 0},
        {REGION_VERSION, SHARE_WANT, UINT32_MAX, 0, 0, 0},
        {REGION_VERSION, SHARE_WANT, 0, 0, REGION_MAX_PROCESSES, 0},
        {REGION_VERSION, SHARE_WANT, 0, 0, UINT32_MAX, 0},
        {REGION_VERSION, 99, 0, 0, 0, 0},
        {REGION_VERSION, SHARE_DRAINED, 0, 77, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(messages); i++)
        arbiter_hear(a, SLOT, &us, &messages[i]);
    const struct share_message want = {REGION_VERSION, SHARE_WANT, 0, 0, 0, 0};
    arbiter_hear(a, SLOT, &nobody, &want);
    arbiter_hear(a, OTHER, &us, &want);
    arbiter_hear(a, UINT32_MAX, &us, &want);
    arbiter_step(a);
    cr_expect_eq(gate_of(t), GATE_TELL);
    arbiter_free(a);
}

/* Of a container with more processes than there are descriptors some ends are not noticed, and the
 * agent has the other half. */
Test(arbiter, a_container_does_not_take_all_descriptors)
{
    struct rlimit few = {.rlim_cur = 64, .rlim_max = 64};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct arbiter *a = start();
    const struct terms *t = put(a, SLOT, &half, 1);
    pid_t pids[48];
    for (unsigned i = 0; i < ARRAY_LEN(pids); i++) {
        pids[i] = start_process();
        says(a, SLOT, pids[i], i, SHARE_SERVES, 0);
    }
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cr_expect(fd >= 0 && fd < 60, "%d", fd);
    says(a, SLOT, pids[47], 47, SHARE_WANT, 0);
    cr_expect_eq(gate_of(t), GATE_OPEN);
    for (unsigned i = 0; i < ARRAY_LEN(pids); i++)
        end_process(pids[i]);
    (void)close(fd);
    arbiter_free(a);
}

Test(arbiter, the_highest_slot_takes_turns_as_well)
{
    struct arbiter *a = start();
    const struct terms *t = put(a, ARBITER_MAX_SLOTS - 1, &half, 1);
    wants(a, ARBITER_MAX_SLOTS - 1, getpid());
    cr_expect_eq(gate_of(t), GATE_OPEN);
    arbiter_free(a);
}

Test(arbiter, what_was_held_is_known_by_slot_and_card)
{
    struct arbiter *a = start();
    struct arbiter_sums sums = {0};
    (void)put(a, SLOT, &half, 1);
    const struct terms *u = put(a, OTHER, &half, 1);
    wants(a, SLOT, getpid());
    wants(a, OTHER, getppid());
    says(a, OTHER, getppid(), 0, SHARE_DRAINED, u->cards[0].turn);
    for (unsigned i = 0; i < 3; i++)
        (void)follow(a, 500);
    cr_expect(arbiter_sums(a, SLOT, 0, &sums) && sums.held_ns > 0);
    cr_expect(arbiter_sums(a, OTHER, 0, &sums) && sums.throttled_ns > 0, "it waited for its turn");
    cr_expect_not(arbiter_sums(a, SLOT, 1, &sums));
    cr_expect_not(arbiter_sums(a, SLOT + 2, 0, &sums));
    cr_expect_not(arbiter_sums(a, UINT32_MAX, 0, &sums));
    arbiter_free(a);
}
