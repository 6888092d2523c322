/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "reconcilers/records/device_record.h"

/*
 * Which breaches of each node its pods were told of: those that its Device had last. When they began
 * does not say it, since times in a status have seconds, agents have clocks of their own, and the
 * kubelet may name the pod of an older breach later. It lives as long as the process; what a node
 * has when this one first looks was mostly told by the process before. One thread.
 */
struct breach_ledger;

struct breach_ledger *breach_ledger_new(void);
/* The breaches of a Device that its node's pods were not told of; of a node that is not known yet,
 * those that began after fresh_ms. The array is the caller's, and borrows from the record. */
const struct breach_record **breach_ledger_news(const struct breach_ledger *l, const char *node,
                                                const struct device_record *device,
                                                int64_t fresh_ms, size_t *ret_n);
/* They were told of all that it has. */
void breach_ledger_note(struct breach_ledger *l, const char *node,
                        const struct device_record *device);
void breach_ledger_forget(struct breach_ledger *l, const char *node);
struct breach_ledger *breach_ledger_free(struct breach_ledger *l); /* NULL allowed; returns NULL */
