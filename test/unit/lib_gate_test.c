/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that do one thing when they are ordered to, and answer when it is done: no test waits for
 * time to pass. Limits of 0 make every wait one that has lasted too long.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"

#include "nodeagent/gpu/lib_gate.h"

static const struct lib_gate_limits patient = {600000, 600000, 600000, 600000};
static const struct lib_gate_limits impatient = {0, 0, 0, 0};

struct library {
    atomic_int state; /* enum lib_session */
    atomic_int opened, ended;
    atomic_bool opening;
    atomic_bool fails;
    atomic_bool waits; /* the opening does, for a byte */
    int let[2];
};

static enum lib_session state_of(const void *arg)
{
    const struct library *l = arg;
    return (enum lib_session)atomic_load(&l->state);
}

static int open_session(void *arg, struct err *e)
{
    struct library *l = arg;
    char c;
    gpu_call_begin("nvmlInit");
    atomic_store(&l->opening, true);
    if (atomic_load(&l->waits))
        cr_expect_eq(read(l->let[0], &c, 1), 1);
    gpu_call_end();
    atomic_fetch_add(&l->opened, 1);
    if (atomic_load(&l->fails))
        return err_set(e, ERR_NOT_FOUND, "no driver");
    atomic_store(&l->state, LIB_SESSION_READY);
    return 0;
}

static void end_session(void *arg)
{
    struct library *l = arg;
    atomic_fetch_add(&l->ended, 1);
    atomic_store(&l->state, LIB_SESSION_NONE);
}

static struct library library;
static struct lib_gate *gate;

static void start(const struct lib_gate_limits *limits)
{
    const struct lib_gate_session s = {.vendor = "NVIDIA",
                                       .state = state_of,
                                       .open = open_session,
                                       .end = end_session,
                                       .arg = &library};
    library = (struct library){.state = LIB_SESSION_NONE};
    cr_assert_eq(pipe(library.let), 0);
    gate = lib_gate_new(&s, limits);
}

static void stop(void)
{
    gate = lib_gate_free(gate);
}

TestSuite(lib_gate, .fini = stop);

/* --- threads --- */

enum order {
    VERB = 'v',
    RESET = 'r',
    READ = 'u',
    MEASURE = 'm',
    LEAVE = 'l',
    CALL = 'c',
    RETURN = 'e',
    QUIT = 'q'
};

struct thread {
    pthread_t id;
    int orders[2], answers[2];
    struct lib_pass pass;
    struct err e;
    bool closed;
};

static int obey(struct thread *t, char order)
{
    switch ((enum order)order) {
    case VERB:
        return lib_gate_enter(gate, &t->pass, &t->e);
    case RESET:
        return lib_gate_enter_reset(gate, &t->pass, &t->e);
    case READ:
        return lib_gate_enter_unless_reset(gate, &t->pass, &t->closed, &t->e);
    case MEASURE:
        return lib_gate_enter_at_once(gate, &t->pass, &t->e);
    case LEAVE:
        lib_gate_leave(&t->pass);
        return 0;
    case CALL:
        gpu_call_begin("nvmlHangs");
        return 0;
    case RETURN:
        gpu_call_end();
        return 0;
    case QUIT:
        break;
    }
    return 0;
}

static void *live(void *arg)
{
    struct thread *t = arg;
    char order = 0;
    while (order != QUIT && read(t->orders[0], &order, 1) == 1) {
        int rc = obey(t, order);
        cr_expect_eq(write(t->answers[1], &rc, sizeof(rc)), (ssize_t)sizeof(rc));
    }
    return NULL;
}

static void begin(struct thread *t)
{
    *t = (struct thread){.closed = false};
    cr_assert(pipe(t->orders) == 0 && pipe(t->answers) == 0);
    cr_assert_eq(pthread_create(&t->id, NULL, live, t), 0);
}

static void order(struct thread *t, enum order o)
{
    char c = (char)o;
    cr_assert_eq(write(t->orders[1], &c, 1), 1);
}

static int answer(struct thread *t)
{
    int rc = 0;
    cr_assert_eq(read(t->answers[0], &rc, sizeof(rc)), (ssize_t)sizeof(rc));
    return rc;
}

static int does(struct thread *t, enum order o)
{
    order(t, o);
    return answer(t);
}

static void end(struct thread *t)
{
    (void)does(t, LEAVE);
    (void)does(t, QUIT);
    (void)pthread_join(t->id, NULL);
    err_clear(&t->e);
}

#define auto_thread __attribute__((cleanup(end)))

static void wait_for_waiting(unsigned verbs, unsigned resets)
{
    struct lib_gate_counts n;
    do {
        (void)sched_yield();
        n = lib_gate_count(gate);
    } while (n.waiting_verbs != verbs || n.waiting_resets != resets);
}

/* --- the gate --- */

Test(lib_gate, verbs_are_inside_together_in_one_session)
{
    auto_thread struct thread a;
    auto_thread struct thread b;
    start(&impatient);
    begin(&a);
    begin(&b);
    cr_expect_eq(does(&a, VERB), 0);
    cr_expect_eq(does(&b, VERB), 0, "%s", err_msg(&b.e));
    cr_expect_eq(lib_gate_count(gate).verbs, 2);
    cr_expect_eq(does(&a, LEAVE), 0);
    cr_expect_eq(does(&b, LEAVE), 0);
    cr_expect_eq(library.opened, 1);
}

Test(lib_gate, a_session_is_opened_once_while_the_others_wait)
{
    auto_thread struct thread a;
    auto_thread struct thread b;
    start(&patient);
    atomic_store(&library.waits, true);
    begin(&a);
    begin(&b);
    order(&a, VERB);
    while (!atomic_load(&library.opening))
        (void)sched_yield();
    order(&b, VERB);
    wait_for_waiting(1, 0);
    cr_assert_eq(write(library.let[1], "x", 1), 1);
    cr_expect_eq(answer(&a), 0);
    cr_expect_eq(answer(&b), 0);
    cr_expect_eq(library.opened, 1);
}

Test(lib_gate, a_session_that_cannot_be_opened_is_the_verbs_error_and_is_tried_again)
{
    auto_thread struct thread a;
    start(&impatient);
    atomic_store(&library.fails, true);
    begin(&a);
    cr_expect_eq(does(&a, VERB), -(int)ERR_NOT_FOUND);
    cr_expect_eq(does(&a, LEAVE), 0, "it is outside, and leaves nothing");
    atomic_store(&library.fails, false);
    cr_expect_eq(does(&a, VERB), 0);
    cr_expect_eq(library.opened, 2);
}

Test(lib_gate, resets_run_side_by_side_and_end_the_session_once)
{
    auto_thread struct thread a;
    auto_thread struct thread b;
    start(&patient);
    begin(&a);
    begin(&b);
    cr_assert_eq(does(&a, VERB), 0);
    cr_assert_eq(does(&a, LEAVE), 0);
    cr_expect_eq(does(&a, RESET), 0);
    cr_expect_eq(does(&b, RESET), 0);
    cr_expect_eq(lib_gate_count(gate).resets, 2);
    cr_expect_eq(library.ended, 1);
    cr_expect_eq(does(&a, LEAVE), 0);
    cr_expect_eq(does(&b, LEAVE), 0);
    cr_expect_eq(does(&a, VERB), 0);
    cr_expect_eq(library.opened, 2);
}

Test(lib_gate, a_reset_waits_for_the_verbs_inside_and_keeps_later_ones_out)
{
    auto_thread struct thread verb;
    auto_thread struct thread reset;
    auto_thread struct thread late;
    start(&patient);
    begin(&verb);
    begin(&reset);
    begin(&late);
    cr_assert_eq(does(&verb, VERB), 0);
    order(&reset, RESET);
    wait_for_waiting(0, 1);
    order(&late, VERB);
    wait_for_waiting(1, 1);
    cr_expect_eq(lib_gate_count(gate).verbs, 1, "later ones do not put the reset off");
    cr_expect_eq(does(&verb, LEAVE), 0);
    cr_expect_eq(answer(&reset), 0);
    cr_expect_eq(lib_gate_count(gate).verbs, 0, "no verb beside a reset");
    wait_for_waiting(1, 0);
    cr_expect_eq(does(&reset, LEAVE), 0);
    cr_expect_eq(answer(&late), 0);
}

Test(lib_gate, verbs_that_waited_go_before_the_next_resets)
{
    static const struct lib_gate_limits no_joining = {600000, 600000, 600000, 0};
    auto_thread struct thread first;
    auto_thread struct thread second;
    auto_thread struct thread verb;
    start(&no_joining);
    begin(&first);
    begin(&second);
    begin(&verb);
    cr_assert_eq(does(&first, RESET), 0);
    order(&verb, VERB);
    wait_for_waiting(1, 0);
    order(&second, RESET);
    wait_for_waiting(1, 1);
    cr_assert_eq(does(&first, LEAVE), 0);
    cr_expect_eq(answer(&verb), 0);
    cr_expect_eq(lib_gate_count(gate).waiting_resets, 1);
    cr_expect_eq(does(&verb, LEAVE), 0);
    cr_expect_eq(answer(&second), 0);
}

Test(lib_gate, a_call_that_hangs_fails_the_reset_and_holds_up_no_verb)
{
    auto_thread struct thread hung;
    auto_thread struct thread other;
    start(&impatient);
    begin(&hung);
    begin(&other);
    cr_assert_eq(does(&hung, VERB), 0);
    cr_assert_eq(does(&hung, CALL), 0);
    cr_expect_eq(does(&other, RESET), -(int)ERR_UNAVAILABLE);
    cr_expect(strstr(err_msg(&other.e), "cannot be reset while NVIDIA's library is called: "
                                        "nvmlHangs has not returned for 0 s"),
              "%s", err_msg(&other.e));
    cr_expect_eq(does(&other, VERB), 0);
    cr_expect_eq(does(&other, LEAVE), 0);
    cr_expect_eq(does(&hung, RETURN), 0);
    cr_expect_eq(does(&hung, LEAVE), 0);
    err_clear(&other.e);
    cr_expect_eq(does(&other, RESET), 0, "%s", err_msg(&other.e));
}

Test(lib_gate, an_opening_that_hangs_fails_the_others_and_names_the_call)
{
    auto_thread struct thread a;
    auto_thread struct thread b;
    start(&impatient);
    atomic_store(&library.waits, true);
    begin(&a);
    begin(&b);
    order(&a, VERB);
    while (!atomic_load(&library.opening))
        (void)sched_yield();
    cr_expect_eq(does(&b, VERB), -(int)ERR_UNAVAILABLE);
    cr_expect(strstr(err_msg(&b.e), "NVIDIA's library cannot be called now: nvmlInit has not "),
              "%s", err_msg(&b.e));
    cr_assert_eq(write(library.let[1], "x", 1), 1);
    cr_expect_eq(answer(&a), 0);
}

Test(lib_gate, a_lost_session_is_opened_anew_only_when_the_verbs_have_left)
{
    auto_thread struct thread a;
    auto_thread struct thread b;
    start(&impatient);
    begin(&a);
    begin(&b);
    cr_assert_eq(does(&a, VERB), 0);
    cr_assert_eq(does(&a, CALL), 0);
    atomic_store(&library.state, LIB_SESSION_NONE);
    cr_expect_eq(does(&b, VERB), -(int)ERR_UNAVAILABLE);
    cr_expect(strstr(err_msg(&b.e), "no new session with NVIDIA's library can be opened: "
                                    "nvmlHangs has not returned"),
              "%s", err_msg(&b.e));
    cr_expect_eq(library.opened, 1);
    cr_expect_eq(does(&a, LEAVE), 0);
    err_clear(&b.e);
    cr_expect_eq(does(&b, VERB), 0);
    cr_expect_eq(library.opened, 2);
}

Test(lib_gate, a_worn_session_serves_until_nobody_is_inside)
{
    auto_thread struct thread a;
    auto_thread struct thread b;
    start(&impatient);
    begin(&a);
    begin(&b);
    cr_assert_eq(does(&a, VERB), 0);
    atomic_store(&library.state, LIB_SESSION_WORN);
    cr_expect_eq(does(&b, VERB), 0);
    cr_expect_eq(library.opened, 1);
    cr_expect_eq(does(&b, LEAVE), 0);
    cr_expect_eq(does(&a, LEAVE), 0);
    cr_expect_eq(does(&b, VERB), 0);
    cr_expect_eq(library.opened, 2);
}

Test(lib_gate, a_reading_does_not_wait_for_resets)
{
    auto_thread struct thread reset;
    auto_thread struct thread reader;
    start(&patient);
    begin(&reset);
    begin(&reader);
    cr_assert_eq(does(&reset, RESET), 0);
    cr_expect_eq(does(&reader, READ), 0);
    cr_expect(reader.closed && !reader.pass.gate);
    cr_expect_eq(does(&reset, LEAVE), 0);
    cr_expect_eq(does(&reader, READ), 0);
    cr_expect(!reader.closed && reader.pass.gate);
    order(&reset, RESET);
    wait_for_waiting(0, 1);
    cr_expect_eq(does(&reader, LEAVE), 0);
    cr_expect_eq(answer(&reset), 0);
}

/* It never opens a session, and is refused wherever another thread would wait. */
Test(lib_gate, who_enters_at_once_waits_for_nobody)
{
    auto_thread struct thread verb;
    auto_thread struct thread reset;
    auto_thread struct thread measure;
    start(&patient);
    begin(&verb);
    begin(&reset);
    begin(&measure);
    cr_expect_eq(does(&measure, MEASURE), -(int)ERR_UNAVAILABLE, "no session");
    cr_expect_eq(library.opened, 0);
    cr_expect_eq(does(&verb, VERB), 0);
    cr_expect_eq(does(&measure, MEASURE), 0, "%s", err_msg(&measure.e));
    cr_expect_eq(lib_gate_count(gate).verbs, 2);
    cr_expect_eq(does(&measure, LEAVE), 0);
    order(&reset, RESET);
    wait_for_waiting(0, 1);
    cr_expect_eq(does(&measure, MEASURE), -(int)ERR_UNAVAILABLE, "a reset waits");
    cr_expect_eq(does(&verb, LEAVE), 0);
    cr_expect_eq(answer(&reset), 0);
    cr_expect_eq(does(&measure, MEASURE), -(int)ERR_UNAVAILABLE, "a reset runs");
}

Test(lib_gate, who_enters_at_once_is_refused_while_a_session_is_opened)
{
    auto_thread struct thread verb;
    auto_thread struct thread measure;
    start(&patient);
    begin(&verb);
    begin(&measure);
    atomic_store(&library.waits, true);
    order(&verb, VERB);
    while (!atomic_load(&library.opening))
        (void)sched_yield();
    cr_expect_eq(does(&measure, MEASURE), -(int)ERR_UNAVAILABLE);
    cr_expect_eq(write(library.let[1], "g", 1), 1);
    cr_expect_eq(answer(&verb), 0);
    cr_expect_eq(does(&measure, MEASURE), 0);
}

/* --- cards in hand --- */

struct taker {
    struct lib_holds *hs;
    struct lib_hold *h;
    int rc;
};

static void *take(void *arg)
{
    struct taker *t = arg;
    HOLD(&t->hs->mu);
    t->rc = lib_hold_take(t->hs, t->h, "GPU-1", 600000, NULL);
    lib_hold_give(t->hs, t->h);
    return NULL;
}

static unsigned waiting_for(struct lib_holds *hs, const struct lib_hold *h)
{
    HOLD(&hs->mu);
    return h->waiting;
}

Test(lib_gate, a_card_is_in_the_hands_of_one_thread)
{
    struct lib_holds hs;
    struct lib_hold h = {.by = NULL};
    struct taker other = {.hs = &hs, .h = &h, .rc = -1};
    auto_err struct err e = {0};
    pthread_t id;
    lib_holds_init(&hs);
    (void)pthread_mutex_lock(&hs.mu);
    cr_expect(lib_hold_try(&h));
    cr_expect(!lib_hold_try(&h));
    gpu_call_begin("nvmlHangs");
    cr_expect_eq(lib_hold_take(&hs, &h, "GPU-1", -1, &e), -(int)ERR_UNAVAILABLE);
    cr_expect(strstr(err_msg(&e), "card GPU-1 is in use by another thread: nvmlHangs has not "),
              "%s", err_msg(&e));
    gpu_call_end();
    (void)pthread_mutex_unlock(&hs.mu);
    cr_assert_eq(pthread_create(&id, NULL, take, &other), 0);
    while (!waiting_for(&hs, &h))
        (void)sched_yield();
    {
        HOLD(&hs.mu);
        lib_hold_give(&hs, &h);
    }
    (void)pthread_join(id, NULL);
    cr_expect_eq(other.rc, 0);
    lib_holds_done(&hs);
}

/* --- the calls of a thread --- */

static void *call_unwatched(void *arg)
{
    (void)arg;
    gpu_call_begin("of another thread");
    gpu_call_end();
    return NULL;
}

Test(lib_gate, a_call_is_noted_with_its_own_thread)
{
    struct gpu_activity activity = {.call = NULL};
    pthread_t id;
    gpu_activity_of_thread(&activity);
    gpu_call_begin("mine");
    cr_assert_eq(pthread_create(&id, NULL, call_unwatched, NULL), 0);
    (void)pthread_join(id, NULL);
    cr_expect_str_eq(atomic_load(&activity.call), "mine");
    gpu_call_end();
    cr_expect_null(atomic_load(&activity.call));
    gpu_activity_of_thread(NULL);
}
