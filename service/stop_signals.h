/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"
#include "base/err.h"
#include "base/scope.h"

/* SIGTERM and SIGINT end a program in order: they cancel the scope of its life. */
struct stop_signals {
    int fd;
    struct scope *life; /* borrowed */
};

/* Blocks the signals; before any thread is started, because threads inherit the mask. ERR_SYSTEM. */
int stop_signals_open(struct scope *life, struct stop_signals *ret, struct err *e) MUST_CHECK;
/* Waits for the first signal, and cancels. arg is a struct stop_signals (a service_fn of the
 * manager). */
int stop_signals_wait(void *arg, struct scope *s, struct err *e) MUST_CHECK;
void stop_signals_done(struct stop_signals *s);
