/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/kubeconfig.h"

/* The places where a program finds its configuration: a kubeconfig file, or the pod that it runs in
 * (client-go rest/config.go). */

/*
 * The configuration for a program started with this environment, the first of:
 *
 *   path_flag            the --kubeconfig flag
 *   $KUBECONFIG          the first existing file of its list (lists are not merged)
 *   the pod we run in    when KUBERNETES_SERVICE_HOST is set
 *   $HOME/.kube/config
 *
 * envp is borrowed as long as the result lives. ERR_NOT_FOUND when there is none of them;
 * ERR_INVALID.
 */
int kc_config_discover(const char *path_flag, char *const envp[], struct kc_config *ret,
                       struct err *e) MUST_CHECK;

/* The same with a context other than the file's current one, which the pod we run in has not, and
 * is not asked for. context NULL: the current one. */
int kc_config_discover_context(const char *path_flag, const char *context, char *const envp[],
                               struct kc_config *ret, struct err *e) MUST_CHECK;

/* Calls fn with the name of each context of the file from which kc_config_discover_context takes
 * one. ERR_NOT_FOUND, ERR_INVALID. */
int kc_config_contexts(const char *path_flag, char *const envp[], kc_context_fn *fn, void *arg,
                       struct err *e) MUST_CHECK;

/* A kubeconfig file. context NULL: its current-context. Relative paths in it are relative to the
 * file's folder. ERR_NOT_FOUND, ERR_INVALID (names the field), ERR_TOO_LARGE beyond 4 MiB. */
int kc_config_load(const char *path, const char *context, struct kc_config *ret,
                   struct err *e) MUST_CHECK;

/* The service account of a pod: host and port from the environment, token, ca.crt and namespace in
 * folder (NULL: /var/run/secrets/kubernetes.io/serviceaccount). ERR_NOT_FOUND outside a pod. */
int kc_config_in_cluster(char *const envp[], const char *folder, struct kc_config *ret,
                         struct err *e) MUST_CHECK;
