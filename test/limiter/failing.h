/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which call of the limiter's fails: one of the system's or the C library's (failing_calls.c, which
 * is preloaded and has the plan), or one of the driver's (failing_driver.c, which stands in the
 * real driver's place).
 */
#pragma once

#include <stdbool.h>

enum failing_kind { FAILING_NONE, FAILING_SYSTEM, FAILING_DRIVER };

/* From now on the n-th call of a kind that the main thread makes (others: that another thread makes)
 * fails with this code; 0: none, they are counted. */
void failing_plan(enum failing_kind kind, bool others, unsigned int n, int code);
/* How many there were, and the name of each. */
unsigned int failing_count(void);
const char *failing_name(unsigned int n);

/* Is this the call? For those that are the program's as well, with an address in who called. */
bool failing_now(enum failing_kind kind, const char *name, void *caller, int *ret_code);
