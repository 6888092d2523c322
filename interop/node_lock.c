/* SPDX-License-Identifier: Apache-2.0 */
#include "interop/node_lock.h"

#include <ctype.h>
#include <string.h>

#include "base/jx.h"
#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/xalloc.h"

#include "api/koordinator.h"
#include "partition/vendor.h"

/* Domains of other vendors whose cards HAMi shares under this lock (HAMi pkg/device: all whose
 * LockNode calls nodelock.LockNode, which has one key only). Cambricon's lock has a name of its
 * own. */
static const char *const sharers[] = {
    "amd.com/",      "aws.amazon.com/", "birentech.com/",  "enflame.com/",
    "huawei.com/",   "hygon.com/",      "iluvatar.ai/",    "kunlunxin.com/",
    "mthreads.com/", "nvidia.com/",     "vastaitech.com/",
};

/* --- Parsing --- */

/* True for the characters of object names: the name goes into a selector. */
static bool is_name(const char *s, size_t len, size_t room)
{
    for (size_t i = 0; i < len; i++)
        if (!islower((unsigned char)s[i]) && !isdigit((unsigned char)s[i]) && s[i] != '-' &&
            s[i] != '.')
            return false;
    return len > 0 && len < room;
}

static int take_name(const char *s, size_t len, const char *what, char *ret, size_t room,
                     struct err *e)
{
    if (!is_name(s, len, room))
        return err_set(e, ERR_INVALID, "\"%.*s\" is no name of a %s", (int)len, s, what);
    memcpy(ret, s, len);
    ret[len] = '\0';
    return 0;
}

int node_lock_parse(const char *value, struct node_lock *ret, struct err *e)
{
    *ret = (struct node_lock){0};
    if (strnlen(value, NODE_LOCK_MAX_BYTES + 1) > NODE_LOCK_MAX_BYTES)
        return err_set(e, ERR_INVALID, "it has more than %d bytes", NODE_LOCK_MAX_BYTES);
    const char *ns = strchr(value, ',');
    const char *pod = ns ? strchr(ns + 1, ',') : NULL;
    auto_free char *time = xstrndup(value, ns ? (size_t)(ns - value) : strlen(value));
    TRY(rfc3339_parse(time, &ret->since_ms, e));
    if (!ns)
        return 0;
    if (!pod)
        return err_set(e, ERR_INVALID, "it is not of the form time,namespace,pod");
    TRY(take_name(ns + 1, (size_t)(pod - ns - 1), "namespace", ret->ns, sizeof(ret->ns), e));
    return take_name(pod + 1, strlen(pod + 1), "pod", ret->pod, sizeof(ret->pod), e);
}

/* --- Who removes it --- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* True when Cleave offers a resource of this domain on the node. */
static bool is_served(const struct device_resource *offered, size_t n, const char *domain)
{
    for (size_t i = 0; i < n; i++)
        if (offered[i].publisher != API_PUBLISHER_OTHER && begins(offered[i].name, domain))
            return true;
    return false;
}

struct claims {
    const struct device_resource *offered;
    size_t n_offered;
    bool ours, others;
};

static bool is_more_than_none(const json_t *amount)
{
    int64_t n;
    if (json_is_integer(amount))
        return json_integer_value(amount) > 0;
    /* An amount that cannot be read may be above zero. */
    return !json_is_string(amount) || quantity_parse(json_string_value(amount), &n, NULL) < 0 ||
           n > 0;
}

/* True for a card, or a slice made for its pod, of a vendor with such slices. For Koordinator's
 * names of shares of cards, its scheduler takes this lock only on nodes with such slices. */
static bool is_ours(const char *resource)
{
    if (koordinator_is_resource(resource))
        return true;
    for (const struct vendor *v = vendors; v->name; v++)
        if (v->slice && (strcmp(resource, v->slice) == 0 || strcmp(resource, v->card) == 0))
            return true;
    return false;
}

static bool is_others(const struct claims *c, const char *resource)
{
    for (size_t i = 0; i < ARRAY_LEN(sharers); i++)
        if (begins(resource, sharers[i]))
            return !is_served(c->offered, c->n_offered, sharers[i]);
    return false;
}

static void read_list(const json_t *list, struct claims *c)
{
    const char *resource;
    json_t *amount;
    json_object_foreach((json_t *)(uintptr_t)list, resource, amount) {
        if (!is_more_than_none(amount))
            continue;
        if (is_ours(resource))
            c->ours = true;
        else if (is_others(c, resource))
            c->others = true;
    }
}

static void read_containers(const json_t *containers, struct claims *c)
{
    size_t i;
    const json_t *container;
    json_array_foreach(containers, i, container) {
        read_list(JX_AT(container, "resources", "limits"), c);
        read_list(JX_AT(container, "resources", "requests"), c);
    }
}

enum node_lock_verdict node_lock_judge(const struct node_lock *lock, const json_t *pod,
                                       const struct device_resource *offered, size_t n_offered,
                                       int64_t now_ms)
{
    struct claims c = {.offered = offered, .n_offered = n_offered};
    if (!pod)
        return now_ms - lock->since_ms > NODE_LOCK_FORGOTTEN_MS ? NODE_LOCK_RELEASE
                                                                : NODE_LOCK_WAIT;
    read_containers(JX_AT(pod, "spec", "initContainers"), &c);
    read_containers(JX_AT(pod, "spec", "containers"), &c);
    return c.ours && !c.others ? NODE_LOCK_RELEASE : NODE_LOCK_LEAVE;
}
