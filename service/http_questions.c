/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_questions.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "service/http_guests.h"

/* --- What a question says --- */

const char *http_token_of(struct MHD_Connection *connection)
{
    static const char scheme[] = "Bearer ";
    const char *value =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (!value || strncasecmp(value, scheme, sizeof(scheme) - 1) != 0)
        return NULL;
    value += sizeof(scheme) - 1;
    value += strspn(value, " ");
    return http_token_is_sound(value, strlen(value)) ? value : NULL;
}

/* IPv6 addresses are folded to four bytes; an IPv4 address is used as it is. 0: unknown. */
static uint32_t peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    uint32_t parts[4] = {0};
    if (!info || !info->client_addr)
        return 0;
    if (info->client_addr->sa_family == AF_INET)
        memcpy(parts, (const char *)info->client_addr + offsetof(struct sockaddr_in, sin_addr),
               sizeof(struct in_addr));
    else if (info->client_addr->sa_family == AF_INET6)
        memcpy(parts, (const char *)info->client_addr + offsetof(struct sockaddr_in6, sin6_addr),
               sizeof(struct in6_addr));
    return parts[0] ^ parts[1] ^ parts[2] ^ parts[3];
}

/* --- Sending --- */

/* False: the channel has no room now, or it is broken. */
static bool send_record(struct questions *qs, const void *p, size_t len)
{
    ssize_t n = send(qs->channel, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return false;
    qs->broken = n != (ssize_t)len;
    return !qs->broken;
}

static bool send_head(struct questions *qs, uint16_t number, const struct request *r)
{
    struct http_ask_record a = {.head = {.question = number,
                                         .route = (uint16_t)r->route,
                                         .body_len = (uint32_t)r->upload.bytes.len}};
    const char *token = qs->terms.guarded ? http_token_of(r->connection) : NULL;
    if (token) {
        a.head.token_len = (uint16_t)strlen(token);
        a.head.peer = peer_of(r->connection);
        memcpy(a.token, token, a.head.token_len);
    }
    return send_record(qs, &a, sizeof(a.head) + a.head.token_len);
}

static bool send_body(struct questions *qs, const struct sb *body)
{
    while (qs->sent < body->len) {
        size_t len = http_piece_bytes(body->len - qs->sent);
        if (!send_record(qs, body->data + qs->sent, len))
            return false;
        qs->sent += len;
    }
    return true;
}

static void first_is_sent(struct questions *qs)
{
    struct question *q = &qs->all[qs->queue[qs->first]];
    for (struct request *r = q->waiting; r; r = r->next)
        r->covered = true;
    q->queued = false;
    q->asked = true;
    qs->first = (qs->first + 1) % HTTP_MAX_QUESTIONS;
    qs->n_queued--;
    qs->begun = false;
    qs->sent = 0;
}

static bool send_first(struct questions *qs)
{
    uint16_t number = qs->queue[qs->first];
    struct request *r = qs->all[number].waiting;
    qs->begun = qs->begun || send_head(qs, number, r);
    if (!qs->begun || !send_body(qs, &r->upload.bytes))
        return false;
    http_upload_done(&qs->uploads, &r->upload);
    first_is_sent(qs);
    return true;
}

void questions_send(struct questions *qs)
{
    while (qs->n_queued && send_first(qs))
        ;
}

/* --- Asking --- */

static bool is_shared(const struct questions *qs, size_t route)
{
    return !qs->terms.guarded && !http_takes_body(&qs->terms, route);
}

/* There are as many as connections, each with one request at a time. */
static struct question *free_question(struct questions *qs)
{
    static_assert((int)HTTP_MAX_ROUTES + (int)HTTP_FRONT_MAX_CONNECTIONS <= (int)HTTP_MAX_QUESTIONS,
                  "a question for each page and each connection");
    struct question *q = qs->all + HTTP_MAX_ROUTES;
    while (q->waiting)
        q++;
    assert(q < qs->all + HTTP_MAX_QUESTIONS);
    return q;
}

static void enqueue(struct questions *qs, struct question *q)
{
    size_t last = (qs->first + qs->n_queued++) % HTTP_MAX_QUESTIONS;
    qs->queue[last] = (uint16_t)(q - qs->all);
    q->queued = true;
    questions_send(qs);
}

void questions_ask(struct questions *qs, struct request *r)
{
    struct question *q = is_shared(qs, r->route) ? &qs->all[r->route] : free_question(qs);
    r->next = q->waiting;
    q->waiting = r;
    MHD_suspend_connection(r->connection);
    if (!q->asked && !q->queued)
        enqueue(qs, q);
}

/* --- Answers --- */

bool questions_expects(const struct questions *qs, size_t number)
{
    return number < HTTP_MAX_QUESTIONS && qs->all[number].asked;
}

size_t questions_route(const struct questions *qs, size_t number)
{
    return qs->all[number].waiting->route;
}

void questions_deliver(struct questions *qs, size_t number, struct text *t)
{
    struct question *q = &qs->all[number];
    struct request *later = NULL;
    struct request *next;
    for (struct request *r = q->waiting; r; r = next) {
        next = r->next;
        if (r->covered) {
            t->refs++;
            r->text = t;
            MHD_resume_connection(r->connection);
        } else {
            r->next = later;
            later = r;
        }
    }
    q->waiting = later;
    q->asked = false;
    if (later)
        enqueue(qs, q);
}

void questions_release(struct questions *qs)
{
    for (size_t i = 0; i < HTTP_MAX_QUESTIONS; i++) {
        for (struct request *r = qs->all[i].waiting; r; r = r->next)
            MHD_resume_connection(r->connection);
        qs->all[i].waiting = NULL;
    }
}
