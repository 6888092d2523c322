/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_server.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/spawn.h"
#include "base/xalloc.h"

#include "service/http_channel.h"
#include "service/http_child.h"
#include "service/listen_socket.h"
#include "service/sandbox.h"

enum {
    MAX_LISTENERS = 4,
    /* A child that accepts no answer for so long hangs. */
    ANSWER_MS = 5000,
    /* Interval of checks of a certificate's files; the kubelet delivers a renewed one within a
     * minute. */
    LOOK_MS = 10 * 1000,
    /* Time for a child that was ordered to leave to end its connections. */
    LEAVE_MS = 5000,
    /* Age at which a child that was asked is replaced, long before probes and scrapes have used up
     * its CPU limit (http_child.c). */
    RENEW_MS = 24 * 3600 * 1000,
    /* Time for a child to end by itself after its channel was closed, and time for a killed one to
     * be gone. */
    LAST_MS = 100,
    GONE_MS = 5000,
    /* Bytes of a child's standard error that are logged. */
    MAX_LAST_WORDS = 4096,
    /* A uid that nothing else uses. 65532 is the usual user of images without root and 65534 is
     * nobody; both may own other processes of the node. */
    CHILD_UID = 65533,
};

/* A listener with a port of its own has a thread and a child. Set up by one thread; then fd,
 * certificate, backoff and rng belong to the port's thread, and the rest does not change. */
struct listener {
    const struct http_server *srv;
    struct http_listener opts;
    bool owns; /* it has a port: it is neither off nor sharing another listener's */
    int fd;    /* the port's socket; -1: it could not be bound anew yet */
    int port;  /* the actual one */
    /* The port's routes, as the child numbers them. */
    const struct http_route *served[HTTP_MAX_ROUTES];
    size_t n_served;
    struct tls_pair pair; /* the certificate of its children; empty: plain HTTP */
    bool complained;      /* it was logged that the files are unusable */
    struct backoff backoff;
    struct rng rng;
};

struct child {
    pid_t pid;
    int channel, words; /* words: its standard error */
};

struct http_server {
    struct listener listeners[MAX_LISTENERS];
    size_t n;
    uid_t child_uid;                /* 0: no change of user */
    struct metric_series *restarts; /* NULL: not counted */
};

/* --- Ports --- */

static bool same_addr(const struct listener *a, const struct listener *b)
{
    return a->opts.addr && b->opts.addr && strcmp(a->opts.addr, b->opts.addr) == 0;
}

/* The listener that owns the port: the first of those that share an address. */
static const struct listener *port_of(const struct http_server *srv, const struct listener *l)
{
    const struct listener *first = srv->listeners;
    while (first != l && !same_addr(first, l))
        first++;
    return first;
}

static void serve_routes(struct listener *owner, const struct http_listener *o)
{
    for (size_t i = 0; i < o->n_routes; i++) {
        assert(owner->n_served < HTTP_MAX_ROUTES);
        owner->served[owner->n_served++] = &o->routes[i];
    }
}

static bool is_special(const struct listener *l)
{
    return l->opts.gate || l->opts.tls.cert;
}

static int add_listener(struct http_server *srv, const struct http_listener *o, struct err *e)
{
    struct listener *l = &srv->listeners[srv->n++];
    *l = (struct listener){.srv = srv, .opts = *o, .fd = -1};
    if (!o->addr || !*o->addr)
        return 0;
    struct listener *owner = &srv->listeners[port_of(srv, l) - srv->listeners];
    if (owner != l && (is_special(owner) || is_special(l)))
        return err_set(e, ERR_INVALID,
                       "%s is the address of plain pages for everybody and of pages behind TLS or "
                       "a token: give the latter a port of its own",
                       o->addr);
    if (l->opts.tls.cert)
        TRY(tls_files_read(&l->opts.tls, &l->pair, e));
    if (owner == l) {
        TRY(listen_socket_open(o->addr, /* port= */ 0, &l->fd, &l->port, e));
        l->owns = true;
        /* The kubelet gives up a probe after three seconds and a container after a minute, so
         * retries are fast. */
        l->backoff = (struct backoff){.base_ms = 50,
                                      .cap_ms = 1000,
                                      .factor = 2,
                                      .jitter_pct = 20,
                                      .reset_after_ms = 60000};
        rng_init_random(&l->rng);
    }
    serve_routes(owner, o);
    return 0;
}

static uid_t child_user(void)
{
    if (geteuid() != 0)
        return 0;
    if (sandbox_can_change_user())
        return CHILD_UID;
    log_warn("The processes that serve HTTP run as user 0 without capabilities",
             kv("why", "this program lacks the capabilities SETUID and SETGID"),
             kv("remedy", "add both to the container's securityContext.capabilities.add"));
    return 0;
}

int http_server_new(const struct http_listener *listeners, size_t n, struct metrics *metrics,
                    struct http_server **ret, struct err *e)
{
    assert(n <= MAX_LISTENERS);
    auto_http_server struct http_server *srv = xmalloc(sizeof(*srv));
    srv->child_uid = child_user();
    for (size_t i = 0; i < n; i++)
        TRY(add_listener(srv, &listeners[i], e));
    if (metrics)
        srv->restarts =
            METRIC_WITH(metrics_counter(metrics, "cleave_http_restarts_total",
                                        "Restarts of the process that serves HTTP.", NULL));
    *ret = TAKE(srv);
    return 0;
}

int http_server_port(const struct http_server *srv, size_t listener)
{
    return port_of(srv, &srv->listeners[listener])->port;
}

/* Replaces the listening socket, which parent and child share: only the child's system call filter
 * keeps it from shutting the socket down. No child runs when this is called. */
static int bind_anew(struct listener *l, struct err *e)
{
    if (listen_socket_listens(l->fd))
        return 0;
    if (l->fd >= 0)
        (void)close(l->fd);
    l->fd = -1;
    TRY(listen_socket_open(l->opts.addr, l->port, &l->fd, &l->port, e));
    log_error("A socket no longer listened and was bound anew", kv("address", l->opts.addr),
              kv_int("port", l->port));
    return 0;
}

/* --- The child --- */

static void add_arg(char *args[], size_t *n, char *arg_take)
{
    args[(*n)++] = arg_take;
}

static int start_program(const struct listener *l, int channel, int words, int pair, pid_t *ret)
{
    char *argv[6 + HTTP_MAX_ROUTES] = {0};
    char *env[] = {NULL};
    int fds[HTTP_CHILD_FDS];
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = SPAWN_NULL;
    fds[STDERR_FILENO] = words;
    fds[HTTP_CHILD_CHANNEL] = channel;
    fds[HTTP_CHILD_SOCKET] = l->fd;
    if (pair >= 0)
        fds[HTTP_CHILD_PAIR] = pair;
    add_arg(argv, &n, xstrdup("cleave"));
    add_arg(argv, &n, xstrdup(HTTP_CHILD_VERB));
    add_arg(argv, &n, xasprintf("%u", l->srv->child_uid));
    add_arg(argv, &n, xstrdup(pair >= 0 ? HTTP_CHILD_TLS : HTTP_CHILD_PLAIN));
    add_arg(argv, &n, xstrdup(l->opts.gate ? HTTP_CHILD_GUARDED : HTTP_CHILD_OPEN));
    for (size_t i = 0; i < l->n_served; i++)
        add_arg(argv, &n, xstrdup(l->served[i]->path));
    int failure = spawn_with("/proc/self/exe", argv, env, fds, ARRAY_LEN(fds), ret);
    for (size_t i = 0; i < n; i++)
        free(argv[i]);
    return failure;
}

static void child_close(struct child *c)
{
    if (c->channel >= 0)
        (void)close(c->channel);
    if (c->words >= 0)
        (void)close(c->words);
}

static int child_start(const struct listener *l, struct child *ret, struct err *e)
{
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
    if (l->pair.cert_pem)
        TRY(tls_pair_lend(&l->pair, &pair, e));
    int failure = start_program(l, theirs, speaks, pair, &ret->pid);
    if (failure)
        return err_set_errno(e, failure, "run %s", HTTP_CHILD_VERB);
    ret->channel = TAKE_FD(ours);
    ret->words = TAKE_FD(listens);
    return 0;
}

/* Sends all of it. False: the child accepts no more, or the scope ended. */
static bool send_all(const struct child *c, const struct scope *s, const void *p, size_t len)
{
    for (size_t done = 0; done < len;) {
        size_t piece = len - done < HTTP_MAX_PIECE_BYTES ? len - done : HTTP_MAX_PIECE_BYTES;
        ssize_t n = send(c->channel, (const char *)p + done, piece, MSG_NOSIGNAL);
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

static bool answer(const struct child *c, const struct scope *s, uint16_t question, int status,
                   const struct sb *body)
{
    const struct http_answer head = {question, (uint16_t)status, (uint32_t)body->len};
    return send_all(c, s, &head, sizeof(head)) && send_all(c, s, body->data, body->len);
}

static bool answer_page(const struct listener *l, const struct child *c, const struct scope *s,
                        const struct http_ask *a)
{
    auto_sb struct sb body = SB_INIT(HTTP_MAX_BODY_BYTES);
    const struct http_route *r = l->served[a->route];
    int status = r->get(r->arg, &body);
    if (body.overflow) {
        status = 500;
        sb_reset(&body);
        sb_add(&body, "the page is too long\n");
    }
    return answer(c, s, a->question, status, &body);
}

/* --- Access --- */

/* The answers to visitors that do not get the page. */
static const struct refusal {
    int status;
    const char *why;
} refusals[] = {
    [ACCESS_UNAUTHENTICATED] = {401, "the API server does not know this token\n"},
    [ACCESS_FORBIDDEN] = {403, "the bearer of this token may not get this page: that takes the "
                               "verb get on its path, as nonResourceURLs of a ClusterRole\n"},
    [ACCESS_UNKNOWN] = {503, "the API server could not be asked about this token; the log of the "
                             "program says why\n"},
    [ACCESS_BUSY] = {429, "too many unknown tokens at once; try again\n"},
};

static bool answer_access(const struct listener *l, const struct child *c, const struct scope *s,
                          const struct http_ask *a, enum access access)
{
    if (access == ACCESS_ALLOWED)
        return answer_page(l, c, s, a);
    auto_sb struct sb body = SB_INIT(HTTP_MAX_PIECE_BYTES);
    sb_add(&body, refusals[access].why);
    return answer(c, s, a->question, refusals[access].status, &body);
}

/* Questions that wait for a token's review. */
struct waiting {
    struct http_ask ask;
    struct access_key key;
};

struct waiting_room {
    struct waiting seats[HTTP_MAX_QUESTIONS]; /* by the question's number, which is unique */
    size_t n;
};

static bool is_waiting(const struct waiting_room *w, uint16_t question)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->seats[i].ask.question == question)
            return true;
    return false;
}

/* False: as serve_child. */
static bool ask_for_leave(const struct listener *l, const struct child *c, const struct scope *s,
                          struct waiting_room *w, const struct http_ask_record *r)
{
    struct access_key key;
    if (is_waiting(w, r->head.question))
        return false;
    enum access access =
        access_gate_ask(l->opts.gate, r->token, r->head.token_len, r->head.peer, &key);
    if (access != ACCESS_PENDING)
        return answer_access(l, c, s, &r->head, access);
    w->seats[w->n++] = (struct waiting){r->head, key};
    return true;
}

/* Answers the questions whose tokens were reviewed. */
static bool call_in(const struct listener *l, const struct child *c, const struct scope *s,
                    struct waiting_room *w)
{
    size_t n = w->n;
    access_gate_heard(l->opts.gate);
    w->n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct waiting one = w->seats[i];
        enum access access = access_gate_result(l->opts.gate, &one.key);
        if (access == ACCESS_PENDING)
            w->seats[w->n++] = one;
        else if (!answer_access(l, c, s, &one.ask, access))
            return false;
    }
    return true;
}

/* Answers one question of the child. False: the child broke the protocol, or closed the channel. */
static bool serve_child(const struct listener *l, const struct child *c, const struct scope *s,
                        struct waiting_room *w)
{
    struct http_ask_record r;
    ssize_t n = recv(c->channel, &r, sizeof(r), MSG_TRUNC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    bool going = http_ask_is_sound(&r, (size_t)n, l->n_served, l->opts.gate);
    if (going)
        going = l->opts.gate ? ask_for_leave(l, c, s, w, &r) : answer_page(l, c, s, &r.head);
    explicit_bzero(r.token, sizeof(r.token));
    return going;
}

/* --- Renewal --- */

/* Reads the files, if there are any; true when they hold another pair, which the listener then uses. An unusable pair
 * may be half of a renewal, so the old one stays. */
static bool look_for_renewal(struct listener *l)
{
    auto_err struct err e = {0};
    auto_tls_pair struct tls_pair now = {0};
    if (!l->pair.cert_pem)
        return false;
    if (tls_files_read(&l->opts.tls, &now, &e) < 0) {
        if (!l->complained)
            log_warn("Kept the old certificate", kv("address", l->opts.addr), kv_err(&e));
        l->complained = true;
        return false;
    }
    l->complained = false;
    if (tls_pair_equals(&now, &l->pair))
        return false;
    tls_pair_done(&l->pair);
    l->pair = (struct tls_pair){TAKE(now.cert_pem), TAKE(now.key_pem)};
    return true;
}

/* Why a child's life ends. */
enum end { STOPPED, BROKEN, RENEWED };

/* The next thing to do without a question from the child. */
struct due {
    int64_t at_ms;
    int64_t old_at_ms; /* the child is then replaced for its age */
    bool asked;        /* the child has put a question */
    bool leaving;      /* the child was ordered to leave; when due, it is ended */
};

static int look_ms(const struct listener *l)
{
    return l->opts.tls.look_ms ? l->opts.tls.look_ms : LOOK_MS;
}

static int due_in_ms(const struct due *d)
{
    int64_t left = d->at_ms - clock_mono_ms(clock_real());
    return left < 0 ? 0 : (int)left;
}

/* The next look at the certificate, or the end of the child's age. */
static int64_t next_due(const struct listener *l, const struct due *d, int64_t now)
{
    int64_t look_at = now + look_ms(l);
    return l->pair.cert_pem && look_at < d->old_at_ms ? look_at : d->old_at_ms;
}

static int64_t next_age(const struct listener *l, int64_t now)
{
    return now + (l->opts.renew_ms ? l->opts.renew_ms : RENEW_MS);
}

static struct due first_due(const struct listener *l)
{
    int64_t now = clock_mono_ms(clock_real());
    struct due d = {.old_at_ms = next_age(l, now)};
    d.at_ms = next_due(l, &d, now);
    return d;
}

/* A child that put no question yet may still be starting, and were it replaced, so might the next
 * one be, and nobody would be served. */
static bool is_old(const struct listener *l, struct due *d, int64_t now)
{
    if (now < d->old_at_ms)
        return false;
    if (!d->asked)
        d->old_at_ms = next_age(l, now);
    return d->asked;
}

/* False: the child's life ends. */
static bool do_what_is_due(struct listener *l, const struct child *c, const struct scope *s,
                           struct due *d)
{
    const struct http_answer leave = {.question = HTTP_LEAVE};
    if (d->leaving)
        return false;
    int64_t now = clock_mono_ms(clock_real());
    bool renewed = look_for_renewal(l);
    d->leaving = is_old(l, d, now) || renewed;
    d->at_ms = d->leaving ? now + LEAVE_MS : next_due(l, d, now);
    if (!d->leaving)
        return true;
    if (renewed)
        log_info("The certificate was renewed", kv("address", l->opts.addr));
    return send_all(c, s, &leave, sizeof(leave));
}

static enum end attend(struct listener *l, const struct child *c, const struct scope *s)
{
    struct waiting_room w = {.n = 0};
    struct due due = first_due(l);
    struct pollfd fds[] = {{.fd = scope_cancel_fd(s), .events = POLLIN},
                           {.fd = c->channel, .events = POLLIN},
                           {.fd = l->opts.gate ? access_gate_fd(l->opts.gate) : -1,
                            .events = POLLIN}};
    bool going = true;
    while (going) {
        int n = poll(fds, ARRAY_LEN(fds), due_in_ms(&due));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || fds[0].revents)
            break;
        if (fds[2].revents)
            going = call_in(l, c, s, &w);
        if (going && fds[1].revents) {
            due.asked = true;
            going = serve_child(l, c, s, &w);
        }
        if (going && due_in_ms(&due) == 0)
            going = do_what_is_due(l, c, s, &due);
    }
    return scope_is_canceled(s) ? STOPPED : due.leaving ? RENEWED : BROKEN;
}

static char *last_words(const struct child *c)
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
static bool kill_child(const struct listener *l, const struct child *c)
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
              kv("address", l->opts.addr), kv_int("pid", c->pid), kv("kill", failure));
    return false;
}

static void child_end(const struct listener *l, struct child *c, bool expected)
{
    int status = 0;
    (void)close(TAKE_FD(c->channel));
    if (kill_child(l, c)) {
        while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (!expected) {
            auto_free char *how = how_it_ended(status);
            auto_free char *words = last_words(c);
            log_error("The process that serves HTTP ended and is started again",
                      kv("address", l->opts.addr), kv("ended", how), kv("said", words));
        }
    }
    child_close(c);
}

static enum end run_child(struct listener *l, const struct scope *s)
{
    auto_err struct err e = {0};
    struct child c = {.channel = -1, .words = -1};
    if (bind_anew(l, &e) < 0 || child_start(l, &c, &e) < 0) {
        log_error("Could not start the process that serves HTTP", kv("address", l->opts.addr),
                  kv_err(&e));
        return BROKEN;
    }
    log_debug("Started the process that serves HTTP", kv("address", l->opts.addr),
              kv_int("pid", c.pid));
    enum end end = attend(l, &c, s);
    child_end(l, &c, end != BROKEN);
    return end;
}

struct attendant {
    struct listener *listener;
    const struct scope *scope;
    pthread_t thread;
};

static void *attend_port(void *arg)
{
    const struct attendant *a = arg;
    struct listener *l = a->listener;
    while (!scope_is_canceled(a->scope)) {
        if (run_child(l, a->scope) != BROKEN)
            continue;
        if (l->srv->restarts)
            metric_add(l->srv->restarts, 1);
        (void)scope_wait_ms(a->scope, backoff_next_ms(&l->backoff, clock_real(), &l->rng));
    }
    return NULL;
}

/* Returns 0, or the errno of the first thread that did not start. */
static int start_attendants(struct http_server *srv, const struct scope *s,
                            struct attendant *attendants, size_t *ret_started)
{
    *ret_started = 0;
    for (size_t i = 0; i < srv->n; i++) {
        struct attendant *a = &attendants[*ret_started];
        if (!srv->listeners[i].owns)
            continue;
        *a = (struct attendant){.listener = &srv->listeners[i], .scope = s};
        int failure = pthread_create(&a->thread, NULL, attend_port, a);
        if (failure)
            return failure;
        (*ret_started)++;
    }
    return 0;
}

int http_server_run(void *arg, struct scope *s, struct err *e)
{
    struct attendant attendants[MAX_LISTENERS];
    size_t n;
    auto_scope struct scope *life = scope_new(s, -1);
    int failure = start_attendants(arg, life, attendants, &n);
    if (!failure)
        (void)scope_wait_ms(s, -1);
    scope_cancel(life);
    for (size_t i = 0; i < n; i++)
        (void)pthread_join(attendants[i].thread, NULL);
    return failure ? err_set_errno(e, failure, "starting the threads of the HTTP server") : 0;
}

struct http_server *http_server_free(struct http_server *srv)
{
    if (!srv)
        return NULL;
    for (size_t i = 0; i < srv->n; i++) {
        tls_pair_done(&srv->listeners[i].pair);
        if (srv->listeners[i].fd >= 0)
            (void)close(srv->listeners[i].fd);
    }
    free(srv);
    return NULL;
}
