/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/config_source.h"

#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "kubeclient/kubeconfig.h"

#define SERVICE_ACCOUNT_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return xstrdup(".");
    return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

int kc_config_load(const char *path, const char *context, struct kc_config *ret, struct err *e)
{
    auto_free char *text = NULL;
    size_t len = 0;
    TRY(file_read(path, KUBECONFIG_MAX_BYTES, &text, &len, e));
    auto_free char *folder = folder_of(path);
    return kubeconfig_parse(text, len, folder, context, ret, e) < 0 ? err_wrap(e, "%s", path) : 0;
}

static const char *env_get(char *const envp[], const char *name)
{
    size_t len = strlen(name);
    for (; envp && *envp; envp++)
        if (!strncmp(*envp, name, len) && (*envp)[len] == '=')
            return *envp + len + 1;
    return NULL;
}

static char *service_url(const char *host, const char *port)
{
    bool v6 = strchr(host, ':');
    return v6 ? xasprintf("https://[%s]:%s", host, port) : xasprintf("https://%s:%s", host, port);
}

static bool is_readable(const char *path)
{
    return access(path, R_OK) == 0;
}

int kc_config_in_cluster(char *const envp[], const char *folder, struct kc_config *ret,
                         struct err *e)
{
    const char *host = env_get(envp, "KUBERNETES_SERVICE_HOST");
    const char *port = env_get(envp, "KUBERNETES_SERVICE_PORT");
    if (!host || !*host || !port || !*port)
        return err_set(e, ERR_NOT_FOUND, "not in a pod: no KUBERNETES_SERVICE_HOST and _PORT");
    int64_t number;
    TRY(num_parse(port, 1, 65535, &number, e));
    const char *in = folder ? folder : SERVICE_ACCOUNT_FOLDER;
    auto_kc_config struct kc_config made = {
        .server = service_url(host, port),
        .token_file = xasprintf("%s/token", in),
        .ca_file = xasprintf("%s/ca.crt", in),
        .envp = envp,
    };
    if (!is_readable(made.token_file))
        return err_set(e, ERR_NOT_FOUND, "the pod has no service account token (%s)",
                       made.token_file);
    auto_free char *ns_file = xasprintf("%s/namespace", in);
    if (file_read(ns_file, 256, &made.ns, /* ret_len= */ NULL, /* e= */ NULL) == 0)
        made.ns[strcspn(made.ns, "\r\n")] = '\0';
    *ret = kc_config_take(&made);
    return 0;
}

/* The first existing file of a colon-separated list, or NULL. Caller frees. */
static char *first_existing(const char *list)
{
    while (list && *list) {
        size_t len = strcspn(list, ":");
        auto_free char *path = xstrndup(list, len);
        if (*path && is_readable(path))
            return TAKE(path);
        list += len + (list[len] == ':');
    }
    return NULL;
}

static int load_with_environ(const char *path, const char *context, char *const envp[],
                             struct kc_config *ret, struct err *e)
{
    TRY(kc_config_load(path, context, ret, e));
    ret->envp = envp;
    return 0;
}

int kc_config_discover(const char *path_flag, char *const envp[], struct kc_config *ret,
                       struct err *e)
{
    return kc_config_discover_context(path_flag, /* context= */ NULL, envp, ret, e);
}

/* The file that the flag or KUBECONFIG names, or NULL. Caller frees. */
static char *named_file(const char *path_flag, char *const envp[])
{
    return path_flag && *path_flag ? xstrdup(path_flag)
                                   : first_existing(env_get(envp, "KUBECONFIG"));
}

/* ~/.kube/config, or NULL where there is none. Caller frees. */
static char *own_file(char *const envp[])
{
    const char *home = env_get(envp, "HOME");
    auto_free char *own = home ? xasprintf("%s/.kube/config", home) : NULL;
    return own && is_readable(own) ? TAKE(own) : NULL;
}

int kc_config_discover_context(const char *path_flag, const char *context, char *const envp[],
                               struct kc_config *ret, struct err *e)
{
    const char *list = env_get(envp, "KUBECONFIG");
    auto_free char *named = named_file(path_flag, envp);
    if (named)
        return load_with_environ(named, context, envp, ret, e);
    if (!context && env_get(envp, "KUBERNETES_SERVICE_HOST"))
        return kc_config_in_cluster(envp, /* folder= */ NULL, ret, e);
    if (list && *list)
        return err_set(e, ERR_NOT_FOUND, "KUBECONFIG: %s does not exist or cannot be read", list);
    auto_free char *own = own_file(envp);
    if (own)
        return load_with_environ(own, context, envp, ret, e);
    return err_set(e, ERR_NOT_FOUND,
                   "no kubeconfig: use --kubeconfig or KUBECONFIG, or run in a pod");
}

int kc_config_contexts(const char *path_flag, char *const envp[], kc_context_fn *fn, void *arg,
                       struct err *e)
{
    size_t len = 0;
    auto_free char *text = NULL;
    const char *list = env_get(envp, "KUBECONFIG");
    auto_free char *named = named_file(path_flag, envp);
    auto_free char *path = named || (list && *list) ? TAKE(named) : own_file(envp);
    if (!path)
        return err_set(e, ERR_NOT_FOUND, "no kubeconfig");
    TRY(file_read(path, KUBECONFIG_MAX_BYTES, &text, &len, e));
    return kubeconfig_contexts(text, len, fn, arg, e);
}
