/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/heartbeat.h"

/*
 * The page /healthz of a program: 200 and "ok", or 500 and a line for each part that hangs. A
 * http_route's function; arg is a struct heartbeats, borrowed. Any thread.
 */
int liveness_page(void *arg, struct sb *body);
