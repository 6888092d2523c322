/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/config.h"
#include "kubectl/command.h"

/* A command's cluster and outputs, from the flags that all commands have. */

/* What was given; NULL: nothing. */
struct session_flags {
    const char *kubeconfig, *context, *output;
    const char *timeout; /* of one request */
};

struct session {
    struct kc_config config;
    struct kc *kc;
    struct scope *scope;
};

/* Fills both; *c borrows from *ret. Connects only when asked. ERR_INVALID, and what a kubeconfig may
 * lack. */
int session_open(const struct session_flags *given, struct session *ret, struct command *c,
                 struct err *e) MUST_CHECK;
void session_done(struct session *s);

AUTO_DEFINE(session, struct session, session_done)
#define auto_session AUTO(session)
