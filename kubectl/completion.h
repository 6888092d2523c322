/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/sb.h"

/* Words for a shell that completes a command line. Pure. */

/* Appends the words that the last of `words`, which stand after "kubectl cleave", may become, one a
 * line, and the directive of Cobra that kubectl asks of a plugin: ":4", no files, or ":0", files as
 * well (kubernetes staging/src/k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go). */
void completion_add(const char *const *words, size_t n, struct sb *ret);
