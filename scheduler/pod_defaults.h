/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

/*
 * What a pod of cards does not say and means (docs/sharing.md): a container that names only a size
 * gets one share, and a pod that names neither scheduler nor node goes to cleave-scheduler. A value that
 * counts as less is written as that, and the annotation SHARE_CLAMPED says so. The rules are those of
 * config/scheduler-defaults/pod-defaults.yaml, by which API servers of Kubernetes 1.36 and later do the
 * same; test/e2e/share_defaults.py holds both to one list of cases.
 *
 * With gpushare (docs/gpushare.md) a container that asks in gpushare's words alone (interop/gpushare.h)
 * gets one share of so many GiB. config/gpushare-defaults has that rule for API servers.
 *
 * With Koordinator's shares (docs/koordinator.md) a container that asks in Koordinator's words alone
 * gets a slot for each card (koordinator_pod_slots); its pod stays with its scheduler.
 * config/koordinator-defaults has that rule. Pure.
 */

/* The others whose words count. */
struct pod_defaults_words {
    bool gpushare, koordinator;
};

/* In each of a pod's two lists; so that a patch has a bound. An API server stores fewer. */
#define POD_DEFAULTS_MAX_CONTAINERS 2048

/* The JSON Patch (RFC 6902) of a new pod, as the API server shows it to admission; NULL: it stays as
 * it is. New reference. ERR_INVALID: it has not the shape of a pod; the message names the member. ERR_TOO_LARGE. */
int pod_defaults_patch(const json_t *pod, struct pod_defaults_words words, json_t **ret_patch,
                       struct err *e) MUST_CHECK;
