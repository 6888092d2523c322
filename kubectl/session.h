/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/config.h"
#include "kubectl/command.h"

/* A command's cluster and outputs, from the flags that all commands have. */

/* The flags' values; NULL: not given. */
struct session_flags {
    const char *kubeconfig, *context, *output;
    const char *timeout; /* of one request */
};

struct session {
    struct kc_config config;
    struct kc *kc;
    struct scope *scope;
};

/* Fills *ret, and *c, which borrows from it; connects to nothing yet. ERR_INVALID: a flag; the
 * errors of a kubeconfig (kubeclient/config_source.h). */
int session_open(const struct session_flags *given, struct session *ret, struct command *c,
                 struct err *e) MUST_CHECK;
void session_done(struct session *s);

AUTO_DEFINE(session, struct session, session_done)
#define auto_session AUTO(session)
