/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/pod_reader.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/xalloc.h"

#include "service/resources.h"

enum { MAX_QUESTIONS = 1024 };

struct question {
    char *ns, *name;
};

struct pod_reader {
    struct kc *kc;
    struct heartbeat *beat; /* NULL: liveness is not watched */
    int wake, answered;     /* eventfds */
    pthread_mutex_t mu;
    /* Guarded by mu. */
    struct question *questions; /* the first one may be in progress */
    size_t n_questions;
    struct pod_answer *answers;
    size_t n_answers;
};

struct pod_reader *pod_reader_new(struct kc *kc)
{
    struct pod_reader *r = xmalloc(sizeof(*r));
    *r = (struct pod_reader){.kc = kc,
                             .wake = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
                             .answered = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))};
    (void)pthread_mutex_init(&r->mu, NULL);
    return r;
}

void pod_reader_set_beat(struct pod_reader *r, struct heartbeat *beat)
{
    r->beat = beat;
}

static bool add_question(struct pod_reader *r, const char *ns, const char *name)
{
    HOLD(&r->mu);
    for (size_t i = 0; i < r->n_questions; i++)
        if (strcmp(r->questions[i].ns, ns) == 0 && strcmp(r->questions[i].name, name) == 0)
            return true;
    if (r->n_questions == MAX_QUESTIONS)
        return false;
    *XPUSH(r->questions, r->n_questions) = (struct question){xstrdup(ns), xstrdup(name)};
    return true;
}

bool pod_reader_ask(struct pod_reader *r, const char *ns, const char *name)
{
    bool added = add_question(r, ns, name);
    (void)eventfd_write(r->wake, 1);
    return added;
}

int pod_reader_fd(const struct pod_reader *r)
{
    return r->answered;
}

bool pod_reader_take(struct pod_reader *r, struct pod_answer *ret)
{
    HOLD(&r->mu);
    eventfd_t n;
    (void)eventfd_read(r->answered, &n);
    if (r->n_answers == 0)
        return false;
    *ret = r->answers[0];
    memmove(r->answers, r->answers + 1, --r->n_answers * sizeof(*r->answers));
    return true;
}

void pod_answer_done(struct pod_answer *a)
{
    free(a->ns);
    free(a->name);
    json_decref(a->pod);
    err_clear(&a->err);
    *a = (struct pod_answer){0};
}

/* The question stays in the list while it is answered, so that it is not asked twice. */
static bool begin(struct pod_reader *r, struct pod_answer *ret)
{
    HOLD(&r->mu);
    if (r->n_questions == 0)
        return false;
    *ret = (struct pod_answer){.ns = xstrdup(r->questions[0].ns),
                               .name = xstrdup(r->questions[0].name)};
    return true;
}

static void end(struct pod_reader *r, const struct pod_answer *a)
{
    HOLD(&r->mu);
    free(r->questions[0].ns);
    free(r->questions[0].name);
    memmove(r->questions, r->questions + 1, --r->n_questions * sizeof(*r->questions));
    *XPUSH(r->answers, r->n_answers) = *a;
    (void)eventfd_write(r->answered, 1);
}

bool pod_reader_step(struct pod_reader *r, struct scope *s)
{
    struct pod_answer a;
    if (!begin(r, &a))
        return false;
    const struct kc_target pod = {.res = &resource_pods, .ns = a.ns, .name = a.name};
    if (kc_get(r->kc, s, &pod, &a.pod, &a.err) < 0)
        a.pod = NULL;
    end(r, &a);
    return true;
}

int pod_reader_run(struct pod_reader *r, struct scope *s, struct err *e)
{
    for (;;) {
        TRY(scope_check(s, e));
        eventfd_t n;
        (void)eventfd_read(r->wake, &n);
        heartbeat_busy(r->beat);
        bool read = pod_reader_step(r, s);
        heartbeat_idle(r->beat);
        if (read)
            continue;
        struct pollfd fds[] = {{.fd = r->wake, .events = POLLIN},
                               {.fd = scope_cancel_fd(s), .events = POLLIN}};
        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
            return err_set_errno(e, errno, "wait for questions about pods");
    }
}

struct pod_reader *pod_reader_free(struct pod_reader *r)
{
    if (!r)
        return NULL;
    for (size_t i = 0; i < r->n_questions; i++) {
        free(r->questions[i].ns);
        free(r->questions[i].name);
    }
    free(r->questions);
    for (size_t i = 0; i < r->n_answers; i++)
        pod_answer_done(&r->answers[i]);
    free(r->answers);
    (void)close(r->wake);
    (void)close(r->answered);
    (void)pthread_mutex_destroy(&r->mu);
    free(r);
    return NULL;
}
