/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_process.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/spawn.h"
#include "base/xalloc.h"

#include "service/http_channel.h"
#include "service/http_child.h"

enum {
    /* A child that accepts no answer for so long hangs. */
    ANSWER_MS = 5000,
    /* Time for a child to end by itself after its channel was closed, and time for a killed one to
     * be gone. */
    LAST_MS = 100,
    GONE_MS = 5000,
    /* Bytes of a child's standard error that are logged. */
    MAX_LAST_WORDS = 4096,
};

static void add_arg(char *args[], size_t *n, char *arg_take)
{
    args[(*n)++] = arg_take;
}

static int start_program(const struct http_process_options *o, int channel, int words, int pair,
                         pid_t *ret)
{
    char *argv[6 + HTTP_MAX_ROUTES] = {0};
    char *env[] = {NULL};
    int fds[HTTP_CHILD_FDS];
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = SPAWN_NULL;
    fds[STDERR_FILENO] = words;
    fds[HTTP_CHILD_CHANNEL] = channel;
    fds[HTTP_CHILD_SOCKET] = o->socket;
    if (pair >= 0)
        fds[HTTP_CHILD_PAIR] = pair;
    add_arg(argv, &n, xstrdup("cleave"));
    add_arg(argv, &n, xstrdup(HTTP_CHILD_VERB));
    add_arg(argv, &n, xasprintf("%u", o->uid));
    add_arg(argv, &n, xstrdup(pair >= 0 ? HTTP_CHILD_TLS : HTTP_CHILD_PLAIN));
    add_arg(argv, &n, xstrdup(o->guarded ? HTTP_CHILD_GUARDED : HTTP_CHILD_OPEN));
    for (size_t i = 0; i < o->n_routes; i++)
        add_arg(argv, &n,
                xasprintf("%s%s", o->routes[i]->post ? HTTP_CHILD_POST : "", o->routes[i]->path));
    auto_free char *program = spawn_child_program("cleave-child");
    int failure = spawn_with(program, argv, env, fds, ARRAY_LEN(fds), ret);
    for (size_t i = 0; i < n; i++)
        free(argv[i]);
    return failure;
}

static void child_close(struct http_process *c)
{
    if (c->channel >= 0)
        (void)close(c->channel);
    if (c->words >= 0)
        (void)close(c->words);
}

int http_process_start(const struct http_process_options *o, struct http_process *ret,
                       struct err *e)
{
    assert(o->n_routes <= HTTP_MAX_ROUTES);
    int channel[2];
    int words[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, channel) < 0)
        return err_set_errno(e, errno, "socketpair");
    auto_fd int ours = channel[0];
    auto_fd int theirs = channel[1];
    if (pipe2(words, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_set_errno(e, errno, "pipe");
    auto_fd int listens = words[0];
    auto_fd int speaks = words[1];
    auto_fd int pair = -1;
    if (o->pair->cert_pem)
        TRY(tls_pair_lend(o->pair, &pair, e));
    int failure = start_program(o, theirs, speaks, pair, &ret->pid);
    if (failure)
        return err_set_errno(e, failure, "run %s", HTTP_CHILD_VERB);
    ret->channel = TAKE_FD(ours);
    ret->words = TAKE_FD(listens);
    return 0;
}

bool http_process_send(const struct http_process *c, const struct scope *s, const void *p,
                       size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n =
            send(c->channel, (const char *)p + done, http_piece_bytes(len - done), MSG_NOSIGNAL);
        if (n > 0) {
            done += (size_t)n;
            continue;
        }
        struct pollfd fds[] = {{.fd = c->channel, .events = POLLOUT},
                               {.fd = scope_cancel_fd(s), .events = POLLIN}};
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        int ready = poll(fds, ARRAY_LEN(fds), ANSWER_MS);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0 || fds[1].revents)
            return false;
    }
    return true;
}

static char *last_words(const struct http_process *c)
{
    char text[MAX_LAST_WORDS];
    ssize_t n = read(c->words, text, sizeof(text));
    while (n > 0 && text[n - 1] == '\n')
        n--;
    return n > 0 ? xstrndup(text, (size_t)n) : NULL;
}

static char *how_it_ended(int status)
{
    if (WIFSIGNALED(status))
        return xasprintf("signal %s", sigabbrev_np(WTERMSIG(status)));
    return xasprintf("exit status %d", WEXITSTATUS(status));
}

static bool is_gone_within(int pidfd, int ms)
{
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    int n;
    do
        n = poll(&gone, 1, ms);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

/* A sound child ends when its channel is closed. Another one is killed, for which root needs the
 * capability KILL, because the child's user is another. False: it lives on. */
static bool kill_child(const char *addr, const struct http_process *c)
{
    auto_fd int pidfd = pidfd_open(c->pid, 0);
    if (pidfd >= 0 && is_gone_within(pidfd, LAST_MS))
        return true;
    const char *failure = kill(c->pid, SIGKILL) < 0 ? strerrorname_np(errno) : NULL;
    /* Without a descriptor its end cannot be waited for with a bound, so the kill must have
     * worked. */
    if (pidfd < 0 ? !failure : is_gone_within(pidfd, GONE_MS))
        return true;
    log_error("The process that serves HTTP cannot be ended and is left behind",
              kv("address", addr), kv_int("pid", c->pid), kv("kill", failure));
    return false;
}

void http_process_end(struct http_process *c, const char *addr, bool expected)
{
    int status = 0;
    (void)close(TAKE_FD(c->channel));
    if (kill_child(addr, c)) {
        while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (!expected) {
            auto_free char *how = how_it_ended(status);
            auto_free char *words = last_words(c);
            log_error("The process that serves HTTP ended and is started again",
                      kv("address", addr), kv("ended", how), kv("said", words));
        }
    }
    child_close(c);
}
