/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * The API server's address and our identity, as a kubeconfig file or the pod we run in gives them
 * (kubeclient/config_source.h). Only file names are kept here; kubeclient/credentials.h reads those
 * files again while the client lives.
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

/* Hands a configuration over, leaving an empty one behind. */
struct kc_config kc_config_take(struct kc_config *c);
/* A deep copy; envp stays borrowed. */
void kc_config_copy(struct kc_config *to, const struct kc_config *from);

/* Frees what it owns and zeroes it. */
void kc_config_done(struct kc_config *c);

AUTO_DEFINE(kc_config, struct kc_config, kc_config_done)
#define auto_kc_config AUTO(kc_config)
