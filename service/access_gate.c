/* SPDX-License-Identifier: Apache-2.0 */
#include "service/access_gate.h"

#include <assert.h>
#include <errno.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "service/access_review.h"

/* For both requests together: a scrape waits ten seconds at most, which is Prometheus' default. */
enum { REVIEW_MS = 5000 };

struct access_gate {
    struct kc *kc;
    const struct clock *clk;
    const char *path;
    struct metric *reviews; /* NULL: nothing is counted */
    int work, done;     /* eventfds: work when a token was queued, done when a result was decided */
    bool silent;        /* the last review failed and was logged; used by the runner only */
    pthread_mutex_t mu; /* guards what follows */
    struct access_table *table;
    char *tokens[ACCESS_MAX]; /* of the table's pending entries */
};

static int event_new(int *ret, struct err *e)
{
    *ret = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return *ret < 0 ? err_set_errno(e, errno, "eventfd") : 0;
}

int access_gate_new(const struct access_gate_options *o, struct access_gate **ret, struct err *e)
{
    auto_access_gate struct access_gate *g = xmalloc(sizeof(*g));
    *g = (struct access_gate){.kc = o->kc, .clk = o->clk, .path = o->path, .work = -1, .done = -1};
    (void)pthread_mutex_init(&g->mu, NULL);
    g->table = access_table_new();
    TRY(event_new(&g->work, e));
    TRY(event_new(&g->done, e));
    if (o->metrics)
        g->reviews =
            metrics_counter(o->metrics, "cleave_http_token_reviews_total",
                            "Reviews of tokens by the API server.", METRIC_LABELS("result"));
    *ret = TAKE(g);
    return 0;
}

/* An eventfd accepts this until its counter reaches 2^64 - 2. */
static void raise_event(int fd)
{
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof(one));
}

static void lower_event(int fd)
{
    uint64_t n;
    (void)!read(fd, &n, sizeof(n));
}

static struct access_key key_of(const char *token, size_t len)
{
    struct access_key key;
    (void)SHA256((const unsigned char *)token, len, key.sha256);
    return key;
}

enum access access_gate_ask(struct access_gate *g, const char *token, size_t len, uint32_t peer,
                            struct access_key *ret_key)
{
    size_t entry = 0;
    bool put = false;
    *ret_key = key_of(token, len);
    int64_t now_ms = clock_mono_ms(g->clk);
    HOLD(&g->mu);
    enum access found = access_table_ask(g->table, ret_key, peer, now_ms, &entry, &put);
    if (put) {
        assert(!g->tokens[entry]);
        g->tokens[entry] = xstrndup(token, len);
        raise_event(g->work);
    }
    return found;
}

int access_gate_fd(const struct access_gate *g)
{
    return g->done;
}

void access_gate_heard(struct access_gate *g)
{
    lower_event(g->done);
}

enum access access_gate_result(struct access_gate *g, const struct access_key *key)
{
    HOLD(&g->mu);
    return access_table_result(g->table, key);
}

/* --- Reviews --- */

static void forget_token(char *token)
{
    if (token)
        explicit_bzero(token, strlen(token));
    free(token);
}

/* The token of the next entry in the queue; NULL: none. The caller's. */
static char *take_next(struct access_gate *g, size_t *ret_entry)
{
    HOLD(&g->mu);
    if (!access_table_next(g->table, ret_entry))
        return NULL;
    return TAKE(g->tokens[*ret_entry]);
}

static void decide(struct access_gate *g, size_t entry, enum access verdict)
{
    int64_t now_ms = clock_mono_ms(g->clk);
    {
        HOLD(&g->mu);
        access_table_decide(g->table, entry, verdict, now_ms);
        for (size_t i = 0; i < ACCESS_MAX; i++)
            if (g->tokens[i] && !access_table_is_pending(g->table, i))
                forget_token(TAKE(g->tokens[i]));
    }
    raise_event(g->done);
}

/* Logs an outage once, not once for each token. */
static void complain(struct access_gate *g, const struct err *e)
{
    if (!g->silent)
        log_warn("Could not ask the API server who may read the metrics", kv_err(e),
                 kv("remedy", e->kind == ERR_FORBIDDEN
                                  ? "let this program's account create tokenreviews and "
                                    "subjectaccessreviews (config/components/metrics-auth)"
                                  : NULL));
    g->silent = true;
}

static enum access review(struct access_gate *g, struct scope *parent, const char *token)
{
    auto_err struct err e = {0};
    auto_scope struct scope *s = scope_new(parent, REVIEW_MS);
    bool authenticated = false;
    bool allowed = false;
    if (access_review(g->kc, s, token, g->path, &authenticated, &allowed, &e) < 0) {
        if (!scope_is_canceled(parent))
            complain(g, &e);
        return ACCESS_UNKNOWN;
    }
    g->silent = false;
    if (!authenticated)
        return ACCESS_UNAUTHENTICATED;
    return allowed ? ACCESS_ALLOWED : ACCESS_FORBIDDEN;
}

static void count_result(const struct access_gate *g, enum access verdict)
{
    static const char *const names[] = {[ACCESS_ALLOWED] = "allowed",
                                        [ACCESS_UNAUTHENTICATED] = "unauthenticated",
                                        [ACCESS_FORBIDDEN] = "forbidden",
                                        [ACCESS_UNKNOWN] = "unknown"};
    if (g->reviews)
        metric_add(METRIC_WITH(g->reviews, names[verdict]), 1);
}

int access_gate_run(void *arg, struct scope *s, struct err *e)
{
    struct access_gate *g = arg;
    for (;;) {
        size_t entry;
        TRY(scope_wait_readable(s, g->work, e));
        lower_event(g->work);
        for (char *token; !scope_is_canceled(s) && (token = take_next(g, &entry));) {
            enum access verdict = review(g, s, token);
            forget_token(token);
            count_result(g, verdict);
            decide(g, entry, verdict);
        }
    }
}

struct access_gate *access_gate_free(struct access_gate *g)
{
    if (!g)
        return NULL;
    for (size_t i = 0; i < ACCESS_MAX; i++)
        forget_token(g->tokens[i]);
    (void)access_table_free(g->table);
    if (g->work >= 0)
        (void)close(g->work);
    if (g->done >= 0)
        (void)close(g->done);
    (void)pthread_mutex_destroy(&g->mu);
    free(g);
    return NULL;
}
