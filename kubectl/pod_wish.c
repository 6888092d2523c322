/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/pod_wish.h"

#include <string.h>

#include "base/jx.h"
#include "base/quantity.h"
#include "base/xalloc.h"

#include "api/share_request.h"
#include "nodeagent/slots/slot_wish.h"
#include "partition/vendor.h"

/* --- The resources that a pod asks for --- */

/* NULL: there is no room for one more. */
static struct wish_resource *resource_of(struct pod_wish *w, const char *name)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->resources[i].name, name) == 0)
            return &w->resources[i];
    w->more |= w->n == POD_WISH_MAX;
    if (w->more)
        return NULL;
    w->resources[w->n].name = name;
    return &w->resources[w->n++];
}

static int64_t amount_of(const json_t *value)
{
    int64_t n = json_is_integer(value) ? json_integer_value(value) : 0;
    const char *text = json_string_value(value);
    return text && quantity_parse(text, &n, NULL) < 0 ? 0 : n;
}

int64_t pod_wish_sum(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* Extended resources have their limits as requests. */
static const json_t *requests_of(const json_t *container)
{
    const json_t *limits = JX_AT(container, "resources", "limits");
    return limits ? limits : JX_AT(container, "resources", "requests");
}

static bool goes_on(const json_t *container)
{
    const char *policy = JX_STR_AT(container, "restartPolicy");
    return policy && strcmp(policy, "Always") == 0;
}

static bool is_share_word(const char *name)
{
    static const char *const words[] = {SHARE_MEMORY, SHARE_MEMORY_PERCENT, SHARE_COMPUTE,
                                        SHARE_PRIORITY, SHARE_SLOT};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(name, words[i]) == 0)
            return true;
    return false;
}

/* True for the size of a slice (nodeagent/slots/slot_wish.h), which no Node counts. */
static bool is_slice_word(const char *name)
{
    return strcmp(name, SLOT_COMPUTE) == 0 || strcmp(name, SLOT_MEMORY) == 0;
}

static void add_container(struct pod_wish *w, const json_t *container, bool alone)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)requests_of(container), name, value) {
        int64_t amount = amount_of(value);
        bool is_share = is_share_word(name);
        w->shares |= is_share;
        if (strchr(name, '/') && !vendor_owns(name))
            w->foreign = name;
        if (is_share || is_slice_word(name) || !vendor_owns(name) || amount <= 0)
            continue;
        struct wish_resource *r = resource_of(w, name);
        if (r && !alone)
            r->count = pod_wish_sum(r->count, amount);
        else if (r && amount > r->count)
            r->count = amount;
    }
}

void pod_wish_read(const json_t *pod, struct pod_wish *ret)
{
    size_t i;
    json_t *container;
    *ret = (struct pod_wish){0};
    json_array_foreach(JX_AT(pod, "spec", "containers"), i, container)
        add_container(ret, container, /* alone= */ false);
    json_array_foreach(JX_AT(pod, "spec", "initContainers"), i, container)
        add_container(ret, container, /* alone= */ !goes_on(container));
}

int64_t pod_wish_of(const struct pod_wish *w, const char *resource)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->resources[i].name, resource) == 0)
            return w->resources[i].count;
    return 0;
}
