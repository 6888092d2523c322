/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * An API server with a pod behind it, as far as one port-forward sees them: it serves one connection
 * by a test's function, in a thread of its own.
 */
struct pod_server {
    int listener;
    uint16_t port;
    pthread_t thread;
    void (*serve)(struct pod_server *p, int fd);
    char asked[4096], heard[4096]; /* of the API server; of the pod's port */
    size_t pongs;
};

void pod_server_start(struct pod_server *p, void (*fn)(struct pod_server *, int));
/* Waits until fn has returned. */
void pod_server_end(struct pod_server *p);

/* What the server still says before its connection breaks, in bytes. */
extern size_t pod_server_to_say;

void pod_server_say(int fd, const void *p, size_t len);
void pod_server_say_text(int fd, const char *text);
/* A message of a channel. len < 125. */
void pod_server_say_on(int fd, char channel, const void *p, size_t len);
/* Answers that the connection is a WebSocket now. */
void pod_server_shake_hands(struct pod_server *p, int fd);
void pod_server_open_channels(int fd);

/* Receives up to a text. False: the connection ended, or there was no room for it. */
bool pod_server_receive_until(int fd, char *into, size_t room, const char *end);
/* One frame of the client's: p->heard grows by its data. False: there is none. */
bool pod_server_hear(struct pod_server *p, int fd);
/* The request to the pod's port. */
void pod_server_hear_request(struct pod_server *p, int fd);
