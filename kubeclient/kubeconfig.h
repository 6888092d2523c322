/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/config.h"

/* The text of a kubeconfig file (client-go tools/clientcmd/api/v1/types.go). Pure. */

#define KUBECONFIG_MAX_BYTES (4UL << 20)

/* Reads the configuration of a context; context NULL: the current one. Relative paths are relative
 * to folder. ERR_INVALID (names the field), ERR_TOO_LARGE. */
int kubeconfig_parse(const char *text, size_t len, const char *folder, const char *context,
                     struct kc_config *ret, struct err *e) MUST_CHECK;

/* Calls fn with the name of each context. ERR_INVALID. */
typedef void kc_context_fn(void *arg, const char *name);
int kubeconfig_contexts(const char *text, size_t len, kc_context_fn *fn, void *arg,
                        struct err *e) MUST_CHECK;
