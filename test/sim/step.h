/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches changes of the simulated hardware instruction by instruction.
 *
 * A child makes one call of each changing kind under PTRACE_SINGLESTEP; after every single
 * instruction the parent looks at the state file. What a kill there would leave must be the
 * hardware before the call or the one after it, byte for byte.
 */
#pragma once

/* The child's part: makes its calls, and raises SIGSTOP before each and after the last, so that the
 * parent steps through the call alone. */
typedef void change_fn(void);

/*
 * Steps through so many calls of `change`, and prints the number of instructions. What main
 * returns: 77 where ptrace is not allowed; exits with 1 when a call left torn hardware.
 */
int step_main(change_fn *change, int calls);
