/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/container/slot_pool.h"
#include "nodeagent/slots/share_folder.h"

/*
 * What turns cost the agent: cards on each of which two containers always want, in processes that
 * answer at once.
 *
 *   arbiter_bench [CARDS [SECONDS]]
 *
 * Writes the processor time of the thread that hears and decides, in percent of a core: contended, and
 * when all that wanted have ended but one container a card; and the turns and messages a second.
 */

enum { A_CARD = 2, MAX_CARDS = 16 };

struct stand_in {
    struct sockaddr_un to;
    const struct terms *terms;
    int socket;
};

struct bench {
    char root[64];
    struct share_folders *folders;
    struct scope *scope;
    pthread_t thread;
    unsigned cards;
    pid_t pids[A_CARD * MAX_CARDS];
    unsigned long messages; /* the thread's */
};

static uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static void must(bool good, const char *what)
{
    if (good)
        return;
    (void)fprintf(stderr, "arbiter_bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* --- A process of a container --- */

static void say(const struct stand_in *s, enum share_word word, uint32_t turn)
{
    const struct share_message m = {.version = REGION_VERSION, .word = word, .turn = turn};
    (void)!sendto(s->socket, &m, sizeof(m), 0, (const struct sockaddr *)&s->to, sizeof(s->to));
}

static void answer(const struct stand_in *s, uint32_t gate, uint32_t turn)
{
    if (gate == GATE_CLOSED)
        say(s, SHARE_DRAINED, turn);
    if (gate == GATE_CLOSED || gate == GATE_TELL)
        say(s, SHARE_WANT, turn);
}

static void follow(const struct stand_in *s)
{
    uint32_t told = UINT32_MAX;
    say(s, SHARE_SERVES, 0);
    for (;;) {
        uint32_t beat = load(&s->terms->beat);
        uint32_t gate = load(&s->terms->cards[0].gate), turn = load(&s->terms->cards[0].turn);
        if (turn != told)
            answer(s, gate, turn);
        told = turn;
        (void)syscall(SYS_futex, &s->terms->beat, FUTEX_WAIT, beat, NULL, NULL, 0);
    }
}

static const struct terms *map_terms(const char *folder)
{
    auto_free char *path = xasprintf("%s/" REGION_TERMS, folder);
    auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct terms), PROT_READ, MAP_SHARED, fd, 0);
    must(at != MAP_FAILED, path);
    return at;
}

static pid_t start(const struct bench *b, unsigned slot)
{
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto_free char *folder = share_folders_path(b->folders, slot);
    struct stand_in s = {.to = {.sun_family = AF_UNIX}, .terms = map_terms(folder)};
    (void)snprintf(s.to.sun_path, sizeof(s.to.sun_path), "%s/" REGION_AGENT, folder);
    s.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    follow(&s);
    _exit(0);
}

/* --- The agent --- */

static void count(void *arg, unsigned slot, const struct ucred *from, const struct share_message *m)
{
    struct bench *b = arg;
    (void)slot;
    (void)from;
    (void)m;
    __atomic_fetch_add(&b->messages, 1, __ATOMIC_RELAXED);
}

static void *hear(void *arg)
{
    struct bench *b = arg;
    auto_err struct err e = {0};
    (void)!share_folders_run(b->folders, b->scope, count, b, &e);
    return NULL;
}

static unsigned slot_of(unsigned container)
{
    return slot_at(SLOT_POOL_SHARE, container);
}

static void put(struct bench *b, unsigned container)
{
    auto_err struct err e = {0};
    struct share_limit limit = {.percent = container % A_CARD ? 70 : 30,
                                .memory_level = LEVEL_LIBRARY,
                                .compute_level = LEVEL_LIBRARY};
    (void)snprintf(limit.card, sizeof(limit.card), "GPU-%032x", container / A_CARD);
    if (share_folders_put(b->folders, slot_of(container), &limit, 1, &e) < 0) {
        (void)fprintf(stderr, "arbiter_bench: %s\n", err_msg(&e));
        exit(1);
    }
}

static void begin(struct bench *b)
{
    (void)snprintf(b->root, sizeof(b->root), "/tmp/arbiter-bench-XXXXXX");
    must(mkdtemp(b->root), b->root);
    must(share_folders_new(b->root, &b->folders, NULL) == 0, "folders");
    b->scope = scope_new(/* parent= */ NULL, /* timeout_ms= */ -1);
    for (unsigned i = 0; i < A_CARD * b->cards; i++)
        put(b, i);
    must(pthread_create(&b->thread, NULL, hear, b) == 0, "thread");
    for (unsigned i = 0; i < A_CARD * b->cards; i++)
        b->pids[i] = start(b, slot_of(i));
}

static void kill_one(struct bench *b, unsigned container)
{
    (void)kill(b->pids[container], SIGKILL);
    (void)waitpid(b->pids[container], NULL, 0);
}

static void end(struct bench *b)
{
    scope_cancel(b->scope);
    (void)pthread_join(b->thread, NULL);
    for (unsigned i = 0; i < A_CARD * b->cards; i++) {
        if (i % A_CARD == 0)
            kill_one(b, i);
        (void)!share_folders_remove(b->folders, slot_of(i), NULL);
    }
    b->folders = share_folders_free(b->folders);
    b->scope = scope_free(b->scope);
    (void)rmdir(b->root);
}

/* --- Measures --- */

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static unsigned long turns_given(const struct bench *b)
{
    unsigned long n = 0;
    for (unsigned i = 0; i < A_CARD * b->cards; i++) {
        auto_free char *folder = share_folders_path(b->folders, slot_of(i));
        const struct terms *t = map_terms(folder);
        n += load(&t->cards[0].turn);
        (void)munmap((void *)(uintptr_t)t, sizeof(*t));
    }
    return n;
}

static void measure(const struct bench *b, const char *what, unsigned seconds)
{
    clockid_t used;
    must(pthread_getcpuclockid(b->thread, &used) == 0, "clock");
    double before = seconds_of(used), begun = seconds_of(CLOCK_MONOTONIC);
    unsigned long turns = turns_given(b),
                  messages = __atomic_load_n(&b->messages, __ATOMIC_RELAXED);
    (void)scope_wait_ms(b->scope, seconds * 1000);
    double time = seconds_of(CLOCK_MONOTONIC) - begun;
    (void)printf("%s: %.2f %% of a core, %.0f changes of gates and %.0f messages a second\n", what,
                 (seconds_of(used) - before) * 100 / time, (double)(turns_given(b) - turns) / time,
                 (double)(__atomic_load_n(&b->messages, __ATOMIC_RELAXED) - messages) / time);
}

int main(int argc, char **argv)
{
    int64_t cards = MAX_CARDS, seconds = 5;
    struct bench b = {0};
    if ((argc > 1 && num_parse(argv[1], 1, MAX_CARDS, &cards, NULL) < 0) ||
        (argc > 2 && num_parse(argv[2], 1, 600, &seconds, NULL) < 0))
        return 2;
    b.cards = (unsigned)cards;
    begin(&b);
    (void)scope_wait_ms(b.scope, 500);
    measure(&b, "contended", (unsigned)seconds);
    for (unsigned i = 1; i < A_CARD * b.cards; i += A_CARD)
        kill_one(&b, i);
    (void)scope_wait_ms(b.scope, 1500);
    measure(&b, "alone", (unsigned)seconds);
    end(&b);
    return 0;
}
