/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* An error in the words of kubectl (kubernetes staging/src/k8s.io/kubectl/pkg/cmd/util/helpers.go,
 * StandardErrorMessage and checkErr), so that who reads both knows it. Safe for a terminal. server:
 * that was asked; NULL: none was. Caller frees. */
char *failure_words(const struct err *e, const char *server);
