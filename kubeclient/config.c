/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/config.h"

#include <string.h>

#include "base/xalloc.h"

struct kc_config kc_config_take(struct kc_config *c)
{
    struct kc_config taken = *c;
    *c = (struct kc_config){0};
    return taken;
}

static void exec_copy(struct kc_exec_config *to, const struct kc_exec_config *from)
{
    to->command = xstrdup(from->command);
    to->api_version = xstrdup(from->api_version);
    to->provide_cluster_info = from->provide_cluster_info;
    for (size_t i = 0; i < from->arg_count; i++)
        *XPUSH(to->args, to->arg_count) = xstrdup(from->args[i]);
    for (size_t i = 0; i < from->env_count; i++)
        *XPUSH(to->env, to->env_count) =
            (struct kc_exec_env){xstrdup(from->env[i].name), xstrdup(from->env[i].value)};
}

void kc_config_copy(struct kc_config *to, const struct kc_config *from)
{
    *to = (struct kc_config){
        .server = xstrdup(from->server),
        .ns = xstrdup(from->ns),
        .proxy_url = xstrdup(from->proxy_url),
        .tls_server_name = xstrdup(from->tls_server_name),
        .insecure_skip_tls_verify = from->insecure_skip_tls_verify,
        .ca_file = xstrdup(from->ca_file),
        .ca_pem = xstrdup(from->ca_pem),
        .cert_file = xstrdup(from->cert_file),
        .cert_pem = xstrdup(from->cert_pem),
        .key_file = xstrdup(from->key_file),
        .key_pem = xstrdup(from->key_pem),
        .token = xstrdup(from->token),
        .token_file = xstrdup(from->token_file),
        .envp = from->envp,
    };
    exec_copy(&to->exec, &from->exec);
}

static void exec_done(struct kc_exec_config *x)
{
    for (size_t i = 0; i < x->arg_count; i++)
        free(x->args[i]);
    for (size_t i = 0; i < x->env_count; i++) {
        free(x->env[i].name);
        free(x->env[i].value);
    }
    free(x->args);
    free(x->env);
    free(x->command);
    free(x->api_version);
}

/* Wipes the text, so that no secret stays in freed memory. */
static void free_secret(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}

void kc_config_done(struct kc_config *c)
{
    free(c->server);
    free(c->ns);
    free(c->proxy_url);
    free(c->tls_server_name);
    free(c->ca_file);
    free(c->ca_pem);
    free(c->cert_file);
    free(c->cert_pem);
    free(c->key_file);
    free_secret(c->key_pem);
    free_secret(c->token);
    free(c->token_file);
    exec_done(&c->exec);
    *c = (struct kc_config){0};
}
