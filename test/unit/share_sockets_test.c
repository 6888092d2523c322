/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"

#include "nodeagent/container/slot_pool.h"
#include "nodeagent/slots/share_sockets.h"

/*
 * A container that says as much as it can. What is heard, and of whom, is tested in
 * share_folder_test.c.
 */

enum { WINDOW_MS = 100, MOST = 500, TIME_MS = 1000, WORDS = 100 };

static char dir[64];
static atomic_bool over;

struct counts {
    unsigned loud, quiet;
};

static unsigned slot_of(unsigned i)
{
    return slot_at(SLOT_POOL_SHARE, i);
}

static void count(void *arg, unsigned slot, const struct ucred *from, const struct share_message *m)
{
    struct counts *c = arg;
    (void)from;
    (void)m;
    c->loud += slot == slot_of(0);
    c->quiet += slot == slot_of(1);
}

static struct share_sockets *open_two(void)
{
    struct share_sockets *s = NULL;
    (void)snprintf(dir, sizeof(dir), "/tmp/share-sockets-test-XXXXXX");
    cr_assert(mkdtemp(dir));
    cr_assert_eq(share_sockets_new(&s, NULL), 0);
    for (unsigned i = 0; i < 2; i++) {
        auto_free char *path = xasprintf("%s/%u", dir, i);
        cr_assert_eq(mkdir(path, 0700), 0);
        auto_fd int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        cr_assert_eq(share_sockets_open(s, slot_of(i), folder, NULL), 0);
    }
    return s;
}

static void close_two(struct share_sockets *s)
{
    share_sockets_free(s);
    auto_free char *command = xasprintf("rm -rf '%s'", dir);
    cr_assert_eq(system(command), 0);
}

/* False: the socket is full. */
static bool say(unsigned i)
{
    const struct share_message m = {.version = REGION_VERSION, .word = SHARE_WANT};
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%s/%u/" REGION_AGENT, dir, i);
    auto_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return sendto(fd, &m, sizeof(m), MSG_DONTWAIT, (const struct sockaddr *)&to, sizeof(to)) > 0;
}

static void *shout(void *arg)
{
    while (!atomic_load(&over))
        (void)say(0);
    return arg;
}

static bool step(struct share_sockets *s, struct counts *c, int ms)
{
    struct pollfd p = {.fd = share_sockets_fd(s), .events = POLLIN};
    if (poll(&p, 1, ms) <= 0)
        return false;
    share_sockets_step(s, count, c);
    return true;
}

Test(share_sockets, who_says_too_much_is_heard_so_often_and_no_more_and_nobody_else_waits)
{
    struct share_sockets *s = open_two();
    struct counts c = {0};
    pthread_t shouter;
    unsigned said = 0;
    cr_assert_eq(pthread_create(&shouter, NULL, shout, NULL), 0);
    int64_t begun = clock_mono_ms(clock_real()), now = begun;
    for (; now < begun + TIME_MS; now = clock_mono_ms(clock_real())) {
        if (said < (unsigned)(now - begun) * WORDS / TIME_MS)
            said += say(1);
        (void)step(s, &c, 5);
        cr_assert(said - c.quiet <= 10, "%u of %u", c.quiet, said);
    }
    atomic_store(&over, true);
    (void)pthread_join(shouter, NULL);
    unsigned windows = (unsigned)((now - begun) / WINDOW_MS) + 2;
    cr_expect(c.loud <= windows * MOST, "%u in %u windows", c.loud, windows);
    cr_expect(c.loud >= MOST, "%u: it was a flood", c.loud);
    cr_expect(c.quiet + 10 >= said && said > WORDS / 2, "%u of %u", c.quiet, said);
    close_two(s);
}

Test(share_sockets, nothing_comes_due_once_nobody_says_anything)
{
    struct share_sockets *s = open_two();
    struct counts c = {0};
    cr_assert(say(1));
    while (step(s, &c, 3 * WINDOW_MS)) {
    }
    cr_expect_eq(c.quiet, 1);
    cr_expect_not(step(s, &c, 3 * WINDOW_MS));
    close_two(s);
}
