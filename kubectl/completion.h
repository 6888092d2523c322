/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/sb.h"

/* Words for a shell that completes a command line. Pure. `words` stand after "kubectl cleave"; the
 * last is the one to complete. */

/* The kind of word that the last one may become. */
enum completion_kind {
    COMPLETION_WORDS,
    COMPLETION_CONTEXT,
    COMPLETION_NODE,
    COMPLETION_POD,
    COMPLETION_NAMESPACE
};
enum completion_kind completion_kind_of(const char *const *words, size_t n);

/* Appends the verbs, flags and formats that it may become, one a line, and the directive of Cobra
 * that kubectl asks of a plugin: ":4", no files, or ":0", files as well (kubernetes
 * staging/src/k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go). */
void completion_add(const char *const *words, size_t n, struct sb *ret);
