/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/quota.h"

#include "base/jx.h"
#include "base/quantity.h"
#include "base/xalloc.h"

#include "kubeclient/client.h"

#define QUOTA_MEMORY "limits.nvidia.com/gpumem"
#define QUOTA_CORES  "limits.nvidia.com/gpucores"
#define BY_NAMESPACE "namespace"

static const struct kc_resource quota_resource = {"", "v1", "resourcequotas", "ResourceQuota",
                                                  /* namespaced= */ true};

/* What is no quantity was not accepted by the API server. */
static int64_t bound(const json_t *quota, const char *word)
{
    int64_t value = -1;
    const char *text = JX_STR_AT(quota, "spec", "hard", word);
    if (!text || quantity_parse(text, &value, NULL) < 0)
        return -1;
    return value;
}

static int read_quota(const json_t *o, void **ret, struct err *e)
{
    const struct quota_use q = {bound(o, QUOTA_MEMORY), bound(o, QUOTA_CORES)};
    (void)e;
    if (q.memory_mib >= 0 || q.percent >= 0)
        *ret = xmemdup(&q, sizeof(q));
    return 0;
}

const struct object_type quota_type = {&quota_resource, read_quota, free};

bool quota_has_words(const struct object *quota)
{
    return quota && object_payload(quota);
}

struct quota_use quota_most(const struct object *quota)
{
    return *(const struct quota_use *)object_payload(quota);
}

static void index_namespace(const struct object *o, struct store_index_out *out)
{
    if (quota_has_words(o))
        store_index_emit(out, object_key(o).ns);
}

void quota_add_index(struct store *quotas)
{
    store_add_index(quotas, BY_NAMESPACE, index_namespace);
}

void quota_use_add(struct quota_use *u, const struct pod_shares *s)
{
    for (size_t i = 0; i < s->n; i++) {
        u->memory_mib += s->items[i].size.memory_mib;
        u->percent += s->items[i].size.percent;
    }
}

bool quota_bounds(struct store *quotas, const char *ns)
{
    auto_object_list struct object_list found = {0};
    store_by_index(quotas, BY_NAMESPACE, ns, &found);
    return found.count > 0;
}

static int check(const struct object *o, const char *word, int64_t would_be, int64_t most,
                 struct err *e)
{
    if (most < 0 || would_be <= most)
        return 0;
    return err_set(e, ERR_UNAVAILABLE,
                   "quota %s of namespace %s: there would be %lld of %lld %s: end pods of the "
                   "namespace, or raise it",
                   object_name(o), object_key(o).ns, (long long)would_be, (long long)most, word);
}

int quota_check(struct store *quotas, const char *ns, const struct quota_use *use, struct err *e)
{
    auto_object_list struct object_list found = {0};
    store_by_index(quotas, BY_NAMESPACE, ns, &found);
    for (size_t i = 0; i < found.count; i++) {
        const struct quota_use most = quota_most(found.items[i]);
        TRY(check(found.items[i], QUOTA_MEMORY, use->memory_mib, most.memory_mib, e));
        TRY(check(found.items[i], QUOTA_CORES, use->percent, most.percent, e));
    }
    return 0;
}
