/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* Starts a thread that nobody waits for. */
bool new_thread(void *(*run)(void *), void *arg);
