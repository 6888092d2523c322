/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* An error in the words of kubectl (kubernetes staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go,
 * StandardErrorMessage and checkErr), which its users know. Safe for a terminal. server: the one
 * that was asked; NULL: none was. Caller frees. */
char *failure_words(const struct err *e, const char *server);
/* True when the server does not know who asks, and so will answer nothing at all. */
bool failure_is_login(const struct err *e);
