/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/kubeconfig.h"

#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "kubeclient/base64.h"

#define MAX_URL_BYTES 4096

/* The file's shape (client-go tools/clientcmd/api/v1/types.go); fields without use for us are not
 * read. */
struct yaml_cluster {
    char *name, *server, *ca_file, *ca_data, *tls_server_name, *proxy_url;
    bool insecure;
};

struct yaml_user {
    char *name, *cert_file, *cert_data, *key_file, *key_data, *token, *token_file, *username;
    char *exec_command, *exec_version;
    char **exec_args;
    size_t exec_arg_count;
    struct kc_exec_env *exec_env;
    size_t exec_env_count;
    bool exec_cluster_info;
    json_t *auth_provider;
};

struct yaml_context {
    char *name, *cluster, *user, *ns;
};

struct kubeconfig {
    char *current_context;
    struct yaml_cluster *clusters;
    struct yaml_user *users;
    struct yaml_context *contexts;
    size_t cluster_count, user_count, context_count;
};

/* clang-format off */
#define C(m, js, t, ...) JX_F(yaml_cluster, m, js, t, ##__VA_ARGS__)
#define U(m, js, t, ...) JX_F(yaml_user, m, js, t, ##__VA_ARGS__)
#define X(m, js, t, ...) JX_F(yaml_context, m, js, t, ##__VA_ARGS__)

/* The members of a nested object are stored in the same struct: its offset is 0. */
#define INLINE(js, fields) {.name = (js), .type = JX_OBJECT, .offset = 0, .present_offset = JX_NO_OFFSET, .sub = (fields)}

static const struct jx_field cluster_fields[] = {
    C(server, "server", JX_STR),
    C(ca_file, "certificate-authority", JX_STR),
    C(ca_data, "certificate-authority-data", JX_STR),
    C(tls_server_name, "tls-server-name", JX_STR),
    C(proxy_url, "proxy-url", JX_STR),
    C(insecure, "insecure-skip-tls-verify", JX_BOOL),
    {0},
};
static const struct jx_field named_cluster_fields[] = {
    C(name, "name", JX_STR, .required = true),
    INLINE("cluster", cluster_fields),
    {0},
};

static const struct jx_field env_fields[] = {
    JX_F(kc_exec_env, name, "name", JX_STR, .required = true),
    JX_F(kc_exec_env, value, "value", JX_STR),
    {0},
};
static const struct jx_field exec_fields[] = {
    U(exec_command, "command", JX_STR, .required = true),
    U(exec_version, "apiVersion", JX_STR, .required = true),
    U(exec_args, "args", JX_STR_LIST, .count_offset = offsetof(struct yaml_user, exec_arg_count)),
    U(exec_env, "env", JX_LIST, .count_offset = offsetof(struct yaml_user, exec_env_count),
      .elem_bytes = sizeof(struct kc_exec_env), .sub = env_fields),
    U(exec_cluster_info, "provideClusterInfo", JX_BOOL),
    {0},
};
static const struct jx_field user_fields[] = {
    U(cert_file, "client-certificate", JX_STR),
    U(cert_data, "client-certificate-data", JX_STR),
    U(key_file, "client-key", JX_STR),
    U(key_data, "client-key-data", JX_STR),
    U(token, "token", JX_STR),
    U(token_file, "tokenFile", JX_STR),
    U(username, "username", JX_STR),
    U(auth_provider, "auth-provider", JX_ANY),
    INLINE("exec", exec_fields),
    {0},
};
static const struct jx_field named_user_fields[] = {
    U(name, "name", JX_STR, .required = true),
    INLINE("user", user_fields),
    {0},
};

static const struct jx_field context_fields[] = {
    X(cluster, "cluster", JX_STR),
    X(user, "user", JX_STR),
    X(ns, "namespace", JX_STR),
    {0},
};
static const struct jx_field named_context_fields[] = {
    X(name, "name", JX_STR, .required = true),
    INLINE("context", context_fields),
    {0},
};

#define NAMED(m, n, js, fields) \
    JX_F(kubeconfig, m, js, JX_LIST, .count_offset = offsetof(struct kubeconfig, n), \
         .elem_bytes = sizeof(*((struct kubeconfig *)0)->m), .sub = (fields))

static const struct jx_field kubeconfig_fields[] = {
    JX_F(kubeconfig, current_context, "current-context", JX_STR),
    NAMED(clusters, cluster_count, "clusters", named_cluster_fields),
    NAMED(users, user_count, "users", named_user_fields),
    NAMED(contexts, context_count, "contexts", named_context_fields),
    {0},
};
/* clang-format on */

static void kubeconfig_done(struct kubeconfig *k)
{
    jx_free(kubeconfig_fields, k);
}

/* A file name relative to the folder of the kubeconfig; NULL stays NULL. */
static char *resolve(const char *folder, const char *path)
{
    if (!path || !*path)
        return NULL;
    return *path == '/' ? xstrdup(path) : xasprintf("%s/%s", folder, path);
}

static char *non_empty(const char *s)
{
    return s && *s ? xstrdup(s) : NULL;
}

/* PEM text from a base64 field. */
static int decode_pem(const char *field, const char *base64, char **ret, struct err *e)
{
    if (!base64 || !*base64)
        return 0;
    auto_free char *pem = base64_decode_text(base64);
    if (!pem)
        return err_set(e, ERR_INVALID, "%s is not base64 of PEM text", field);
    *ret = TAKE(pem);
    return 0;
}

static int set_cluster(struct kc_config *c, const struct yaml_cluster *from, const char *folder,
                       struct err *e)
{
    if (!from->server ||
        (strncmp(from->server, "https://", 8) != 0 && strncmp(from->server, "http://", 7) != 0))
        return err_set(e, ERR_INVALID, "cluster \"%s\" has no http or https server", from->name);
    size_t len = strlen(from->server);
    if (len > MAX_URL_BYTES)
        return err_set(e, ERR_TOO_LARGE, "cluster \"%s\": server is too long", from->name);
    while (len && from->server[len - 1] == '/')
        len--;
    c->server = xstrndup(from->server, len);
    c->proxy_url = non_empty(from->proxy_url);
    c->tls_server_name = non_empty(from->tls_server_name);
    c->insecure_skip_tls_verify = from->insecure;
    c->ca_file = resolve(folder, from->ca_file);
    return decode_pem("certificate-authority-data", from->ca_data, &c->ca_pem, e);
}

/* As in a shell, except that "./name" is relative to the file's folder (client-go
 * clientcmd/client_config.go). */
static char *resolve_command(const char *folder, const char *command)
{
    return strchr(command, '/') ? resolve(folder, command) : xstrdup(command);
}

static void set_exec(struct kc_exec_config *x, struct yaml_user *from, const char *folder)
{
    if (!from->exec_command)
        return;
    x->command = resolve_command(folder, from->exec_command);
    x->api_version = TAKE(from->exec_version);
    x->args = TAKE(from->exec_args);
    x->arg_count = from->exec_arg_count;
    x->env = TAKE(from->exec_env);
    x->env_count = from->exec_env_count;
    x->provide_cluster_info = from->exec_cluster_info;
    from->exec_arg_count = from->exec_env_count = 0;
}

static int set_user(struct kc_config *c, struct yaml_user *from, const char *folder, struct err *e)
{
    if (from->auth_provider)
        return err_set(e, ERR_INVALID,
                       "user \"%s\" has an auth-provider; Kubernetes 1.26 replaced these by exec",
                       from->name);
    if (from->username)
        return err_set(e, ERR_INVALID,
                       "user \"%s\" has a password; API servers since 1.19 take none", from->name);
    c->token = non_empty(from->token);
    c->token_file = resolve(folder, from->token_file);
    c->cert_file = resolve(folder, from->cert_file);
    c->key_file = resolve(folder, from->key_file);
    set_exec(&c->exec, from, folder);
    TRY(decode_pem("client-certificate-data", from->cert_data, &c->cert_pem, e));
    TRY(decode_pem("client-key-data", from->key_data, &c->key_pem, e));
    if ((c->cert_file || c->cert_pem) != (c->key_file || c->key_pem))
        return err_set(e, ERR_INVALID, "user \"%s\" needs both a client certificate and its key",
                       from->name);
    return 0;
}

/* The element of that name, or NULL: every kind of entry begins with its name. */
static void *find_named(void *array, size_t count, size_t elem_bytes, const char *name)
{
    for (size_t i = 0; name && i < count; i++) {
        void *entry = (char *)array + i * elem_bytes;
        if (!strcmp(*(char **)entry, name))
            return entry;
    }
    return NULL;
}
#define FIND(array, count, name) find_named(array, count, sizeof(*(array)), name)

static int choose(struct kubeconfig *k, const char *context_name, const char *folder,
                  struct kc_config *ret, struct err *e)
{
    const char *name = context_name ? context_name : k->current_context;
    if (!name || !*name)
        return err_set(e, ERR_INVALID, "no current-context");
    const struct yaml_context *context = FIND(k->contexts, k->context_count, name);
    if (!context)
        return err_set(e, ERR_INVALID, "no context \"%s\"", name);
    const struct yaml_cluster *cluster = FIND(k->clusters, k->cluster_count, context->cluster);
    if (!cluster)
        return err_set(e, ERR_INVALID, "context \"%s\" names no cluster that is there", name);
    struct yaml_user *user = FIND(k->users, k->user_count, context->user);
    if (context->user && *context->user && !user)
        return err_set(e, ERR_INVALID, "context \"%s\" names no user that is there", name);
    ret->ns = non_empty(context->ns);
    TRY(set_cluster(ret, cluster, folder, e));
    return user ? set_user(ret, user, folder, e) : 0;
}

#define auto_kubeconfig __attribute__((cleanup(kubeconfig_done)))

static int read_kubeconfig(const char *text, size_t len, struct kubeconfig *ret, struct err *e)
{
    auto_json json_t *doc = NULL;
    TRY(yaml_load(text, len, &doc, e));
    return jx_decode(doc, kubeconfig_fields, ret, e);
}

static int parse(const char *text, size_t len, const char *folder, const char *context,
                 struct kc_config *ret, struct err *e)
{
    auto_kubeconfig struct kubeconfig k = {0};
    TRY(read_kubeconfig(text, len, &k, e));
    auto_kc_config struct kc_config made = {0};
    TRY(choose(&k, context, folder, &made, e));
    *ret = kc_config_take(&made);
    return 0;
}

int kubeconfig_parse(const char *text, size_t len, const char *folder, const char *context,
                     struct kc_config *ret, struct err *e)
{
    if (len > KUBECONFIG_MAX_BYTES)
        return err_set(e, ERR_TOO_LARGE, "kubeconfig larger than %lu bytes", KUBECONFIG_MAX_BYTES);
    return parse(text, len, folder, context, ret, e) < 0 ? err_wrap(e, "kubeconfig") : 0;
}

int kubeconfig_contexts(const char *text, size_t len, kc_context_fn *fn, void *arg, struct err *e)
{
    auto_kubeconfig struct kubeconfig k = {0};
    TRY(read_kubeconfig(text, len, &k, e));
    for (size_t i = 0; i < k.context_count; i++)
        fn(arg, k.contexts[i].name);
    return 0;
}
