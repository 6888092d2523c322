/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* An error in the words of kubectl (kubernetes staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go,
 * StandardErrorMessage and checkErr), which its users know. Safe for a terminal. server: the one
 * that was asked; NULL: none was. Caller frees. */
char *failure_words(const struct err *e, const char *server);
/* Behind a refusal, the role of Cleave's that has the right, in words: " (the ClusterRole
 * cleave-viewer has this right)"; "" where none has. */
const char *failure_role(const struct err *e);
/* True when the server does not know who asks, and so will answer nothing at all. */
bool failure_is_login(const struct err *e);
