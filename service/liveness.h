/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/heartbeat.h"

/*
 * The page /healthz: 200 and "ok", or 500 and a line for each part of the process that hangs. A
 * http_get_fn; arg is a struct heartbeats, borrowed. Any thread.
 */
int liveness_page(void *arg, struct sb *body);
