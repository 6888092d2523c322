/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/client.h"
#include "service/metrics.h"

/*
 * A client that counts the writes that go through it:
 *
 *    cleave_controller_writes_total{resource="devices", result="Success"}
 *
 * resource is that of the URL with its subresource ("nodes/status", "pods/eviction"). result is
 * Success or the name of the error's kind: "Conflict"; for an eviction "TooManyRequests" means that
 * a disruption budget refused it. Reads are passed on uncounted.
 */

/* Borrows both, m for as long as the client is used. Threads: as inner. Caller frees with
 * kc_free. */
struct kc *write_metrics_new(struct kc *inner, struct metrics *m);
