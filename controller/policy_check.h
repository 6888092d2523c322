/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/scope.h"

#include "kubeclient/client.h"
#include "kubeclient/recorder.h"
#include "service/metrics.h"

/*
 * Looks whether the API server holds this process to the policies of config/admission. They go by
 * the name of the account, and nothing else would show that they match no request: an installer
 * gave the account another name, left the policies out, or removed them. For each policy the check
 * sends one request that the policy must refuse, as a dry run (?dryRun=All): the server judges it
 * and stores nothing. Only the leader asks, because others are refused by cleave-controller-leader
 * whatever they send. At most nine requests and three reads, when this process begins to lead and
 * each POLICY_CHECK_PERIOD_MS (POLICY_CHECK_RETRY_MS while one is not in force); nothing waits for the answers.
 *
 * A policy that has let its request pass for POLICY_CHECK_SETTLE_MS (a new policy takes effect
 * within seconds) is reported: in the log, in an Event of the Leader, and by the gauge
 * cleave_controller_policy_in_force. The controller works on: the policies protect the cluster from
 * a stolen token, and work that stops would protect nobody.
 *
 * Not covered: cleave-controller-leader and cleave-controller-pod, which refuse nothing that the
 * leader could send, and the agents' policies.
 */
struct policy_check;

#define POLICY_CHECK_SETTLE_MS 30000
#define POLICY_CHECK_PERIOD_MS 600000
/* How often the check repeats while a policy is not in force. */
#define POLICY_CHECK_RETRY_MS 10000

/* Borrowed; strings too. */
struct policy_check_opts {
    struct kc *kc;             /* not observed: the refusals are no refused writes */
    struct recorder *recorder; /* NULL: no Events */
    struct metrics *metrics;
    const char *ns;       /* the controller's namespace */
    const char *leader;   /* name of the Leader, which Events are about */
    const char *identity; /* of this replica */
    const struct clock *clk;
};

/* Borrows what the options point to. */
struct policy_check *policy_check_new(const struct policy_check_opts *o);

/* This process leads now: the check begins. Any thread. */
void policy_check_start(struct policy_check *p);
/* Checks until the scope ends, once it was started. arg is a struct policy_check. Blocks; one
 * thread. */
int policy_check_run(void *arg, struct scope *s, struct err *e) MUST_CHECK;
/* One round, without waiting; returns the milliseconds until the next one. For tests. */
int64_t policy_check_step(struct policy_check *p, struct scope *s);

/* Not while running. NULL allowed; returns NULL. */
struct policy_check *policy_check_free(struct policy_check *p);
AUTO_DEFINE_PTR(policy_check, struct policy_check, policy_check_free)
#define auto_policy_check AUTO_PTR(policy_check)
