/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <poll.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/scope.h"

#include "kubeclient/way.h"

/*
 * A connection to a port of a pod, as `kubectl port-forward` makes one: through the API server and
 * the pod's kubelet, into the pod's network namespace, where it comes from the pod itself. No
 * NetworkPolicy applies, and no header of ours is taken off on the way. Needs the rights to get and
 * create pods/portforward.
 *
 * It is WebSocket's subprotocol v4.channel.k8s.io (k8s.io/kubelet pkg/cri/streaming/portforward
 * websocket.go): each message begins with its channel, 0 for data and 1 for the error's text; the
 * first message of each channel is the port. One thread.
 */
struct port_forward;

/* Connects to 127.0.0.1 in the pod. ERR_NOT_FOUND: no such pod; the errors of a call (client.h).
 * Whether anything listens at the port tells port_forward_move. way is borrowed. */
int port_forward_new(const struct way *way, struct scope *s, const char *ns, const char *pod,
                     uint16_t port, struct port_forward **ret, struct err *e) MUST_CHECK;

/* Gives p the user's stream socket, of which the port is the other end from now on; p closes it.
 * Once. */
void port_forward_attach(struct port_forward *p, int fd);

/* Moves some of what there is, both ways, without waiting; what comes before a user keeps. 1: there
 * is more to move at once; 0: port_forward_poll tells what to wait for. ERR_UNAVAILABLE: the pod or
 * its kubelet says why it cannot be reached, or the connection broke. The end of what the pod sends
 * is no error. */
int port_forward_move(struct port_forward *p, struct err *e) MUST_CHECK;

enum { PORT_FORWARD_FDS = 2 };
/* The descriptors to wait for before the next move, after one that returned 0. */
void port_forward_poll(const struct port_forward *p, struct pollfd ret[PORT_FORWARD_FDS]);

/* NULL allowed; returns NULL. */
struct port_forward *port_forward_free(struct port_forward *p);

AUTO_DEFINE_PTR(port_forward, struct port_forward, port_forward_free)
#define auto_port_forward AUTO_PTR(port_forward)
