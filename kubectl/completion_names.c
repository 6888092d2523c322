/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/completion_names.h"

#include <string.h>

#include "base/jx.h"

#include "kubeclient/config_source.h"
#include "kubectl/safe_text.h"
#include "service/resources.h"

/* More than anybody reads. */
enum { MAX_NAMES = 200 };

static const struct kc_resource namespaces = {"", "v1", "namespaces", "Namespace", false};

struct names {
    const char *with;
    struct sb *out;
    size_t n;
};

static void add(void *arg, const char *name)
{
    struct names *l = arg;
    if (!name || l->n == MAX_NAMES || strncmp(name, l->with, strlen(l->with)) != 0)
        return;
    auto_free char *safe = safe_text(name);
    sb_addf(l->out, "%s\n", safe);
    l->n++;
}

static int see(void *arg, const json_t *obj, struct err *e)
{
    struct names *l = arg;
    add(l, JX_STR_AT(obj, "metadata", "name"));
    return l->n < MAX_NAMES ? 0 : err_set(e, ERR_CANCELED, "enough names");
}

void completion_names(struct kc *kc, struct scope *s, enum completion_kind kind, const char *ns,
                      const char *with, struct sb *ret)
{
    static const struct kc_resource *const kinds[] = {[COMPLETION_NODE] = &resource_devices,
                                                      [COMPLETION_POD] = &resource_pods,
                                                      [COMPLETION_NAMESPACE] = &namespaces};
    bool is_pod = kind == COMPLETION_POD;
    auto_err struct err why = {0};
    struct names names = {.with = with, .out = ret};
    const struct kc_target t = {.res = kinds[kind], .ns = is_pod ? ns : NULL};
    const struct kc_list_opts o = {.resource_version = "0",
                                   .metadata_only = true,
                                   .fields = is_pod ? "status.phase=Pending" : NULL};
    int rc = kc_list_each(kc, s, &t, &o, see, &names, /* ret_version= */ NULL, &why);
    (void)rc; /* the names that came before an error are names all the same */
}

void completion_contexts(const char *path, char *const envp[], const char *with, struct sb *ret)
{
    auto_err struct err why = {0};
    struct names names = {.with = with, .out = ret};
    int rc = kc_config_contexts(path, envp, add, &names, &why);
    (void)rc; /* a kubeconfig that cannot be read has none */
}
