/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/client.h"
#include "kubectl/completion.h"

/* Appends the names of the cluster's objects that begin so, one a line: nodes that have a Device,
 * namespaces, or pods of ns that wait for a node. What does not come before the scope ends, or may
 * not be read, is left out. */
void completion_names(struct kc *kc, struct scope *s, enum completion_kind kind, const char *ns,
                      const char *with, struct sb *ret);

/* The same of the contexts of the kubeconfig; path NULL: that of the environment. */
void completion_contexts(const char *path, char *const envp[], const char *with, struct sb *ret);
