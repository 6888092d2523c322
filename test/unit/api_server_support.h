/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * A small HTTP/1.1 server that answers from a script, in a thread of its own, on a free loopback
 * port: for tests of what only a wire can show (chunking, resets, silence, headers). Each request
 * takes the first unused answer whose method and target prefix fit; without one it gets a 500 that
 * says so. Connections are served in parallel, a thread each.
 */
struct api_server;

enum api_end {
    API_KEEP,  /* the answer is complete, the connection stays */
    API_CLOSE, /* complete, then closed */
    API_CUT,   /* closed without the end of the body (chunked: no last chunk) */
    API_RESET, /* RST after what was sent */
    API_HANG,  /* silence after what was sent, until the client or the test ends */
};

struct api_answer {
    const char *method;        /* NULL: any */
    const char *target_prefix; /* path and query as sent; NULL: any */
    int status;                /* 0: 200. -1: nothing at all is sent, only `end` happens */
    const char *headers;       /* more header lines, each with \r\n; NULL: none */
    const char *body;          /* NULL: empty */
    size_t body_bytes;         /* 0: strlen(body) */
    const char *const *chunks; /* NULL-terminated: chunked, each sent by itself, in place of body */
    size_t cut_bytes;          /* chunked: body in pieces of so many bytes (0: not) */
    enum api_end end;
    int times; /* 0: once; -1: for ever */
};

struct api_request {
    char *method, *target, *headers, *body; /* headers: as sent, NUL-terminated */
};

struct api_server_opts {
    /* TLS: PEM files of the server; NULL: plain HTTP. client_ca: clients must show a certificate of
     * it. */
    const char *cert_file, *key_file, *client_ca_file;
};

/* Starts it; o may be NULL. Asserts that it works. */
struct api_server *api_server_new(const struct api_server_opts *o);
/* "http://127.0.0.1:PORT", or https. Borrowed. */
const char *api_server_url(const struct api_server *srv);
/* Adds to the script (copied). Any time. */
void api_server_add(struct api_server *srv, const struct api_answer *a);
/* Adds an answer of 200 with a JSON body. */
void api_server_add_json(struct api_server *srv, const char *method, const char *target_prefix,
                         const char *body);
/* Waits until n requests have arrived in all (at most 10 s); false when they did not. */
bool api_server_wait(struct api_server *srv, size_t n);
size_t api_server_count(struct api_server *srv);
/* The i-th request, borrowed until the server is freed; NULL when there was none. */
const struct api_request *api_server_request(struct api_server *srv, size_t i);
/* Value of a request header, or NULL; the caller frees. */
char *api_request_header(const struct api_request *r, const char *name);
/* How many connections were accepted. */
size_t api_server_connections(struct api_server *srv);
/* Ends all connections and threads. NULL allowed; returns NULL. */
struct api_server *api_server_free(struct api_server *srv);

#define auto_api_server __attribute__((cleanup(auto_free_api_server)))
static inline void auto_free_api_server(struct api_server **srv)
{
    (void)api_server_free(*srv);
}
