/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_reply.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "service/http_channel.h"

/* Lives until the port has freed it and every reply was given. */
struct http_replies {
    int event;          /* an eventfd, raised while the list is not empty */
    pthread_mutex_t mu; /* guards what follows */
    uint64_t child;
    size_t n_owed;
    bool abandoned; /* the port is gone */
    struct http_reply *first, *last;
};

struct http_replies *http_replies_new(void)
{
    struct http_replies *r = xmalloc(sizeof(*r));
    r->event = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    (void)pthread_mutex_init(&r->mu, NULL);
    return r;
}

/* An eventfd accepts this until its counter reaches 2^64 - 2. */
static void raise_event(const struct http_replies *r)
{
    const uint64_t one = 1;
    (void)!write(r->event, &one, sizeof(one));
}

static void lower_event(const struct http_replies *r)
{
    uint64_t n;
    (void)!read(r->event, &n, sizeof(n));
}

/* With mu held. */
static struct http_reply *take_all(struct http_replies *r)
{
    struct http_reply *all = TAKE(r->first);
    r->last = NULL;
    if (all)
        lower_event(r);
    return all;
}

static void free_list(struct http_reply *list)
{
    while (list) {
        struct http_reply *next = list->next;
        (void)http_reply_free(list);
        list = next;
    }
}

void http_replies_next_child(struct http_replies *r)
{
    struct http_reply *late;
    {
        HOLD(&r->mu);
        r->child++;
        late = take_all(r);
    }
    free_list(late);
}

struct http_reply *http_replies_owe(struct http_replies *r, uint16_t question)
{
    HOLD(&r->mu);
    if (r->n_owed == HTTP_MAX_REPLIES)
        return NULL;
    r->n_owed++;
    struct http_reply *reply = xmalloc(sizeof(*reply));
    *reply = (struct http_reply){.port = r, .child = r->child, .question = question};
    return reply;
}

int http_replies_fd(const struct http_replies *r)
{
    return r->event;
}

struct http_reply *http_replies_collect(struct http_replies *r)
{
    HOLD(&r->mu);
    struct http_reply *reply = r->first;
    if (!reply)
        return NULL;
    r->first = reply->next;
    if (!r->first) {
        r->last = NULL;
        lower_event(r);
    }
    return reply;
}

static void copy_answer(struct http_reply *reply, int status, const struct sb *body)
{
    static const char too_long[] = "{\"error\": \"the answer is too long\"}\n";
    bool fits = !body->overflow && body->len <= HTTP_MAX_BODY_BYTES;
    assert(status >= 200 && status < 600);
    reply->status = fits ? status : 500;
    reply->body = SB_INIT(HTTP_MAX_BODY_BYTES);
    if (fits)
        sb_add_mem(&reply->body, body->data, body->len);
    else
        sb_add(&reply->body, too_long);
}

/* With mu held. False: nobody waits for it. */
static bool put(struct http_replies *r, struct http_reply *reply)
{
    if (r->abandoned || reply->child != r->child)
        return false;
    if (r->last)
        r->last->next = reply;
    else
        r->first = reply;
    r->last = reply;
    if (reply == r->first)
        raise_event(r);
    return true;
}

static void destroy(struct http_replies *r)
{
    (void)close(r->event);
    (void)pthread_mutex_destroy(&r->mu);
    free(r);
}

void http_reply_give(struct http_reply *reply_take, int status, const struct sb *body)
{
    struct http_replies *r = reply_take->port;
    bool wanted;
    bool last;
    copy_answer(reply_take, status, body);
    {
        HOLD(&r->mu);
        r->n_owed--;
        wanted = put(r, reply_take);
        last = r->abandoned && r->n_owed == 0;
    }
    if (!wanted)
        (void)http_reply_free(reply_take);
    if (last)
        destroy(r);
}

struct http_reply *http_reply_free(struct http_reply *reply)
{
    if (!reply)
        return NULL;
    sb_done(&reply->body);
    free(reply);
    return NULL;
}

struct http_replies *http_replies_free(struct http_replies *r)
{
    if (!r)
        return NULL;
    struct http_reply *late;
    bool last;
    {
        HOLD(&r->mu);
        r->abandoned = true;
        late = take_all(r);
        last = r->n_owed == 0;
    }
    free_list(late);
    if (last)
        destroy(r);
    return NULL;
}
