/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/auto.h"
#include "base/scope.h"

#include "kubeclient/way.h"

/*
 * A connection of its own to the API server that has become a WebSocket (RFC 6455, section 4): from
 * then on bytes go both ways, which kubeclient/ws_frames.h writes and reads. One thread.
 */
struct upgrade;

/* Connects, and asks for the path (escaped, with its query) and the subprotocol. way is borrowed. A
 * token that is refused is asked for anew, once. ERR_PROTOCOL: no WebSocket was answered with; else
 * the errors of a call (client.h). */
int upgrade_new(const struct way *way, struct scope *s, const char *path, const char *protocol,
                struct upgrade **ret, struct err *e) MUST_CHECK;

/* The descriptor to poll for reading when upgrade_recv had nothing. Borrowed. */
int upgrade_fd(const struct upgrade *u);

/* Receives without waiting: *ret_len is how much arrived, 0 for nothing. ERR_UNAVAILABLE: the peer
 * has closed the connection, or it broke. */
int upgrade_recv(struct upgrade *u, void *p, size_t room, size_t *ret_len,
                 struct err *e) MUST_CHECK;
/* Sends without waiting: *ret_len is how much was sent. The same error. */
int upgrade_send(struct upgrade *u, const void *p, size_t len, size_t *ret_len,
                 struct err *e) MUST_CHECK;

/* Closes it. NULL allowed; returns NULL. */
struct upgrade *upgrade_free(struct upgrade *u);

AUTO_DEFINE_PTR(upgrade, struct upgrade, upgrade_free)
#define auto_upgrade AUTO_PTR(upgrade)
