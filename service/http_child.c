/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"

#include "service/http_channel.h"
#include "service/http_front.h"
#include "service/http_guests.h"
#include "service/sandbox.h"
#include "service/tls_library.h"

enum {
    /* http_front.c's texts (16 MiB, and 4 for the one being read) and connections (1), and some for
     * the program itself and for fragmentation. Two children and the parent stay below the limit of
     * the agent's container (128 MiB). */
    MAX_BYTES = 36 << 20,
    /* Bodies (16 MiB), in memory that doubles as they grow. */
    MAX_UPLOAD_BYTES = 34 << 20,
    /* A request takes a fraction of a millisecond, and a child lives for a day: some 30,000 probes
     * and scrapes. The rest is half a minute for a fault that spins. */
    MAX_CPU_S = 30,
    /* A handshake takes a millisecond or two, and each scrape makes one. */
    MAX_CPU_TLS_S = 300,
    /* A kube-scheduler asks hundreds of times a second, so the parent replaces the child long
     * before it has used up its time. */
    MAX_CPU_POST_S = 2 * HTTP_CHILD_WORN_S,
    /* Besides connections: inherited descriptors, and those of the library for the socket. */
    OTHER_FDS = SANDBOX_FIRST_OWN_FD + 8,
};

struct task {
    int64_t uid;
    const char *paths[HTTP_MAX_ROUTES];
    struct http_terms terms;
    bool tls;
};

static void add_route(struct task *t, const char *arg)
{
    size_t route = t->terms.n_routes++;
    bool posts = strncmp(arg, HTTP_CHILD_POST, sizeof(HTTP_CHILD_POST) - 1) == 0;
    t->paths[route] = posts ? arg + sizeof(HTTP_CHILD_POST) - 1 : arg;
    t->terms.posts |= (uint16_t)(posts << route);
}

static int read_task(int argc, char **argv, struct task *ret, struct err *e)
{
    enum { FIXED = 4 };
    if (argc < FIXED || argc - FIXED > HTTP_MAX_ROUTES)
        return err_set(e, ERR_INVALID,
                       "cleave-agent and cleave-controller start it themselves; it takes a uid, "
                       "how it is to serve, and paths");
    TRY(num_parse(argv[1], 0, INT32_MAX, &ret->uid, e));
    ret->tls = strcmp(argv[2], HTTP_CHILD_TLS) == 0;
    ret->terms.guarded = strcmp(argv[3], HTTP_CHILD_GUARDED) == 0;
    for (int i = FIXED; i < argc; i++)
        add_route(ret, argv[i]);
    return 0;
}

/* The descriptor stays open, because connections get the numbers after it. */
static int prepare_tls(struct tls_pair *ret, struct err *e)
{
    TRY(tls_library_load(e));
    TRY(tls_pair_receive(HTTP_CHILD_PAIR, ret, e));
    if (dup3(HTTP_CHILD_PAIR + 1, HTTP_CHILD_PAIR, O_CLOEXEC) < 0)
        return err_set_errno(e, errno, "dup3");
    return 0;
}

static struct sandbox confinement(const struct task *t)
{
    static_assert((int)HTTP_CHILD_FDS == SANDBOX_FIRST_OWN_FD, "what is inherited");
    static_assert((int)MAX_CPU_POST_S >= (int)MAX_CPU_TLS_S, "a port may have both");
    size_t max_bytes = t->terms.posts ? MAX_BYTES + MAX_UPLOAD_BYTES : MAX_BYTES;
    return (struct sandbox){.uid = (uid_t)t->uid,
                            .max_fds = OTHER_FDS + HTTP_FRONT_MAX_CONNECTIONS,
                            .max_bytes = SANDBOX_SANITIZED ? 0 : max_bytes,
                            .max_cpu_s = t->terms.posts ? MAX_CPU_POST_S
                                         : t->tls       ? MAX_CPU_TLS_S
                                                        : MAX_CPU_S};
}

static int serve(const struct task *t, struct err *e)
{
    const struct sandbox s = confinement(t);
    struct tls_pair pair = {0}; /* freed by the end of the process */
    const struct http_front_options o = {.socket = HTTP_CHILD_SOCKET,
                                         .paths = t->paths,
                                         .terms = t->terms,
                                         .tls = t->tls ? &pair : NULL,
                                         .channel = HTTP_CHILD_CHANNEL};
    struct http_front *front = NULL;
    tzset(); /* reads a file now, which it would otherwise do at the first Date header */
    if (t->tls)
        TRY(prepare_tls(&pair, e));
    TRY(sandbox_drop(&s, e));
    TRY(http_front_new(&o, &front, e));
    TRY(sandbox_seal(SANDBOX_SANITIZED, e));
    (void)malloc_trim(0); /* what it took to make the filter */
    int rc = 0;
    while (rc == 0)
        rc = http_front_step(front, /* max_wait_ms= */ -1, /* ret_busy= */ NULL, e);
    return rc; /* the front is freed by the end of the process */
}

int http_child_main(int argc, char **argv)
{
    auto_err struct err e = {0};
    struct task task = {0};
    /* The parent ends the child; a terminal's SIGINT to all its processes must not. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    int rc = read_task(argc, argv, &task, &e);
    if (rc == 0)
        rc = serve(&task, &e);
    if (rc == -(int)ERR_CANCELED)
        _exit(0);
    (void)dprintf(STDERR_FILENO, "%s: %s\n", HTTP_CHILD_VERB, err_msg(&e));
    _exit(1);
}
