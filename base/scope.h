/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * Deadline and cancellation, the second argument of everything that can block. Scopes form a tree:
 * canceling one cancels its descendants. A parent outlives its children. scope_cancel and the
 * queries may be called from any thread; new and free of one scope belong to one thread.
 */
struct scope;

/* timeout_ms < 0: no deadline of its own (a parent's still holds). parent may be NULL. */
struct scope *scope_new(struct scope *parent, int64_t timeout_ms);
/* Wakes every thread that waits under this scope. Idempotent. */
void scope_cancel(struct scope *s);
bool scope_is_canceled(const struct scope *s);
/* Readable once the scope is canceled (by hand or through a parent); never on a deadline alone, so
 * poll with scope_left_ms as the timeout. Owned by the scope. */
int scope_cancel_fd(const struct scope *s);
/* Milliseconds until the nearest deadline on the way to the root, 0 when past or canceled,
 * INT64_MAX without any. */
int64_t scope_left_ms(const struct scope *s);
/* The same in poll(2)'s terms: -1 for no deadline. */
int scope_poll_ms(const struct scope *s);
/* 0, or ERR_CANCELED / ERR_TIMEOUT. */
int scope_check(const struct scope *s, struct err *e) MUST_CHECK;
/* Waits until the scope ends or ms have passed (ms < 0: until the scope ends). Returns true when
 * the time passed and the scope still lives. */
bool scope_wait_ms(const struct scope *s, int64_t ms);
/* Waits until fd is readable. 0, ERR_CANCELED or ERR_TIMEOUT. */
int scope_wait_readable(const struct scope *s, int fd, struct err *e) MUST_CHECK;
/* Detaches from its parent and frees; NULL allowed; returns NULL. No thread may wait on it. */
struct scope *scope_free(struct scope *s);

AUTO_DEFINE_PTR(scope, struct scope, scope_free)
#define auto_scope AUTO_PTR(scope)
