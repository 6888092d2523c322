/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/err.h"

#include "limiter/region.h"

/*
 * The sockets by which the processes of containers with limited shares reach the agent, one in each
 * container's folder (share_folder.h). A container is known by its socket, and the sender by what
 * the kernel says of it, so that nothing in a message is believed but what it is about.
 *
 * Any thread opens and closes; one thread receives.
 */
struct share_sockets;

/* ERR_SYSTEM. */
int share_sockets_new(struct share_sockets **ret, struct err *e) MUST_CHECK;
struct share_sockets *share_sockets_free(struct share_sockets *s);
AUTO_DEFINE_PTR(share_sockets, struct share_sockets, share_sockets_free)
#define auto_share_sockets AUTO_PTR(share_sockets)

/* Makes the socket REGION_AGENT in the folder, in place of another one's of that name, for the
 * container with this slot (the lowest of its slots). The slot's earlier socket is closed. A process
 * that is connected to that one finds it gone with its next message, and connects again. ERR_SYSTEM. */
int share_sockets_open(struct share_sockets *s, unsigned slot, int folder,
                       struct err *e) MUST_CHECK;
bool share_sockets_has(struct share_sockets *s, unsigned slot);
/* No effect without one. */
void share_sockets_close(struct share_sockets *s, unsigned slot);

/* A message of a process of the container with this slot, in the agent's PID namespace (pid 0: of
 * one that is not seen there). Called on the thread that receives. */
typedef void share_heard_fn(void *arg, unsigned slot, const struct ucred *from,
                            const struct share_message *m);

/* Readable while there are messages. Owned by s. */
int share_sockets_fd(const struct share_sockets *s);
/* Receives what is there, or a part of it. What is no message of this layout is dropped. A container
 * that says more than 500 things in a tenth of a second is not heard until that is over. Never
 * blocks; one thread. */
void share_sockets_step(struct share_sockets *s, share_heard_fn *heard, void *arg);
