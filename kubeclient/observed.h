/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/client.h"

/* A client that reports how each write ended, evictions included. Reads pass. */

/* rc: 0 or -kind. e: the error, with its message and HTTP status; kind 0 when rc is 0. Called on the
 * writing thread after the write, from several threads at once. */
typedef void kc_written_fn(void *arg, const struct kc_target *t, int rc, const struct err *e);

/* Borrows inner and arg for as long as the client is used. Threads: as inner. Caller frees with
 * kc_free. */
struct kc *kc_observed_new(struct kc *inner, kc_written_fn *written, void *arg);
