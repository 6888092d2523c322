/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * The API server's address and our identity, from a kubeconfig file or from the pod we run in
 * (client-go tools/clientcmd/api/v1/types.go, rest/config.go). Only file names are kept here;
 * kubeclient/credentials.h reads those files again while the client lives.
 */

struct kc_exec_env {
    char *name, *value;
};

/* A credential plugin (client.authentication.k8s.io ExecCredential). */
struct kc_exec_config {
    char *command; /* NULL: no plugin */
    char *api_version;
    char **args;
    size_t arg_count;
    struct kc_exec_env *env;
    size_t env_count;
    bool provide_cluster_info;
};

/* A plain value. Secrets inside: never print one. */
struct kc_config {
    char *server; /* URL, no trailing slash; a path prefix is kept */
    char *ns;     /* the context's namespace; NULL: none given */
    char *proxy_url;
    char *tls_server_name;
    bool insecure_skip_tls_verify;
    char *ca_file, *ca_pem; /* PEM text; of a pair the text wins, as in client-go */
    char *cert_file, *cert_pem;
    char *key_file, *key_pem;
    char *token, *token_file; /* of this pair the file wins */
    struct kc_exec_config exec;
    char *const *envp; /* borrowed: the environment a plugin inherits; NULL: none */
};

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
typedef void kc_context_fn(void *arg, const char *name);
int kc_config_contexts(const char *path_flag, char *const envp[], kc_context_fn *fn, void *arg,
                       struct err *e) MUST_CHECK;

/* A kubeconfig file. context NULL: its current-context. Relative paths in it are relative to the
 * file's folder. ERR_NOT_FOUND, ERR_INVALID (names the field), ERR_TOO_LARGE beyond 4 MiB. */
int kc_config_load(const char *path, const char *context, struct kc_config *ret,
                   struct err *e) MUST_CHECK;

/* The same from memory; relative paths are relative to folder. */
int kc_config_parse(const char *text, size_t len, const char *folder, const char *context,
                    struct kc_config *ret, struct err *e) MUST_CHECK;

/* The service account of a pod: host and port from the environment, token, ca.crt and namespace in
 * folder (NULL: /var/run/secrets/kubernetes.io/serviceaccount). ERR_NOT_FOUND outside a pod. */
int kc_config_in_cluster(char *const envp[], const char *folder, struct kc_config *ret,
                         struct err *e) MUST_CHECK;

/* A deep copy; envp stays borrowed. */
void kc_config_copy(struct kc_config *to, const struct kc_config *from);

/* Frees what it owns and zeroes it. */
void kc_config_done(struct kc_config *c);

AUTO_DEFINE(kc_config, struct kc_config, kc_config_done)
#define auto_kc_config AUTO(kc_config)
