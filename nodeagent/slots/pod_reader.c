/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/pod_reader.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "service/resources.h"

enum { MAX_QUESTIONS = 1024 };

struct question {
    char *ns, *name;
    bool runs;  /* it is being answered */
    bool again; /* it was asked again meanwhile */
};

struct pod_reader {
    struct kc *kc;
    struct heartbeat *beat; /* NULL: liveness is not watched */
    int wake, answered;     /* eventfds */
    pthread_mutex_t mu;
    /* Guarded by mu. */
    struct question *questions; /* the first one may run */
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

/* Drops the answers about the pod that were not taken: they are older than the question. */
static void drop_answers(struct pod_reader *r, const char *ns, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->n_answers; i++) {
        struct pod_answer *a = &r->answers[i];
        if (strcmp(a->ns, ns) == 0 && strcmp(a->name, name) == 0)
            pod_answer_done(a);
        else
            r->answers[kept++] = *a;
    }
    r->n_answers = kept;
}

static bool add_question(struct pod_reader *r, const char *ns, const char *name)
{
    HOLD(&r->mu);
    drop_answers(r, ns, name);
    for (size_t i = 0; i < r->n_questions; i++) {
        struct question *q = &r->questions[i];
        if (strcmp(q->ns, ns) != 0 || strcmp(q->name, name) != 0)
            continue;
        q->again = q->runs;
        return true;
    }
    assert(r->n_questions <= MAX_QUESTIONS);
    if (r->n_questions == MAX_QUESTIONS)
        return false;
    *XPUSH(r->questions, r->n_questions) =
        (struct question){.ns = xstrdup(ns), .name = xstrdup(name)};
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

/* For a static pod only the kubelet knows it, and writes it into the mirror pod's annotation
 * (kubernetes pkg/kubelet/types/constants.go). The mirror may be made again with another uid while
 * the pod runs on. */
const char *pod_answer_uid(const json_t *pod)
{
    const char *mirrored = JX_STR_AT(pod, "metadata", "annotations", "kubernetes.io/config.mirror");
    return mirrored ? mirrored : JX_STR_AT(pod, "metadata", "uid");
}

void pod_answer_done(struct pod_answer *a)
{
    free(a->ns);
    free(a->name);
    json_decref(a->pod);
    err_clear(&a->err);
    *a = (struct pod_answer){0};
}

/* The question stays in the list while it is answered, so that end() sees whether it was asked
 * again. */
static bool begin(struct pod_reader *r, struct pod_answer *ret)
{
    HOLD(&r->mu);
    if (r->n_questions == 0)
        return false;
    assert(!r->questions[0].runs); /* one thread reads */
    r->questions[0].runs = true;
    *ret = (struct pod_answer){.ns = xstrdup(r->questions[0].ns),
                               .name = xstrdup(r->questions[0].name)};
    return true;
}

/* The answer to a question that was asked again may tell of an earlier pod of the same name: the
 * pod is read again, after the others. */
static void end(struct pod_reader *r, struct pod_answer *a)
{
    HOLD(&r->mu);
    assert(r->n_questions > 0 && r->questions[0].runs);
    struct question q = r->questions[0];
    memmove(r->questions, r->questions + 1, --r->n_questions * sizeof(*r->questions));
    if (q.again) {
        pod_answer_done(a);
        q.runs = q.again = false;
        *XPUSH(r->questions, r->n_questions) = q;
        return;
    }
    free(q.ns);
    free(q.name);
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
