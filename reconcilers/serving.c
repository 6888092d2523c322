/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/serving.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/rfc3339.h"
#include "base/strmap.h"
#include "base/xalloc.h"

#include "api/kinds.h"
#include "service/resources.h"

/* --- Pure --- */

bool serving_is_gone(const struct device_record *device)
{
    return device->ready.present && device->ready.status == CONDITION_UNKNOWN &&
           device->ready.reason && strcmp(device->ready.reason, SERVING_GONE) == 0;
}

static const struct node_resource *resource_of(const struct node_record *node, const char *name)
{
    for (size_t i = 0; i < node->n_resources; i++)
        if (strcmp(node->resources[i].name, name) == 0)
            return &node->resources[i];
    return NULL;
}

bool serving_is_contradicted(const struct node_view *v)
{
    size_t offered = 0;
    if (!v->node || !v->device || !v->node->ready)
        return false;
    for (size_t i = 0; i < v->device->n_resources; i++) {
        const struct device_resource *r = &v->device->resources[i];
        if (r->publisher != API_PUBLISHER_KUBELET || r->count <= 0)
            continue;
        const struct node_resource *there = resource_of(v->node, r->name);
        if (!there || there->allocatable != 0)
            return false;
        offered++;
    }
    return offered;
}

char *serving_message(const char *node, int64_t since_ms)
{
    char since[RFC3339_BYTES];
    return xasprintf("the kubelet of %s has had none of the devices that this Device offers since "
                     "%s: cleave-agent does not serve it; look at its pod: kubectl get pods -A "
                     "-o wide -l app.kubernetes.io/name=cleave --field-selector spec.nodeName=%s",
                     node, rfc3339_format(since_ms, since), node);
}

json_t *serving_body(const struct node_view *v, const char *message, int64_t now_ms)
{
    char now[RFC3339_BYTES];
    const struct object *o = v->device_object;
    assert(v->device && message);
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:{s:[{s:s, s:s, s:s, s:s, s:s, s:I}]}}",
                     "apiVersion", API_GROUP_VERSION, "kind", "Device", "metadata", "name",
                     object_name(o), "uid", object_uid(o), "resourceVersion", object_version(o),
                     "status", "conditions", "type", "Ready", "status", "Unknown", "reason",
                     SERVING_GONE, "message", message, "lastTransitionTime",
                     rfc3339_format(now_ms, now), "observedGeneration",
                     (json_int_t)v->device->observed_generation);
}

/* --- The time --- */

/* A contradiction that lasts. */
struct episode {
    int64_t since_mono_ms, since_wall_ms;
    bool marked; /* the Device was written */
};

struct serving {
    pthread_mutex_t mu;
    struct strmap *episodes; /* guarded by mu: node → struct episode, owned */
};

struct serving *serving_new(void)
{
    struct serving *s = xmalloc(sizeof(*s));
    (void)pthread_mutex_init(&s->mu, NULL);
    s->episodes = strmap_new();
    return s;
}

static struct episode *episode_of(struct serving *s, const struct clock *clk, const char *node)
{
    struct episode *ep = strmap_get(s->episodes, node);
    if (ep)
        return ep;
    ep = xmalloc(sizeof(*ep));
    *ep =
        (struct episode){.since_mono_ms = clock_mono_ms(clk), .since_wall_ms = clock_wall_ms(clk)};
    (void)strmap_put(s->episodes, node, ep);
    return ep;
}

struct serving_verdict serving_note(struct serving *s, const struct clock *clk, const char *node,
                                    const struct node_view *v)
{
    HOLD(&s->mu);
    if (!serving_is_contradicted(v)) {
        free(strmap_remove(s->episodes, node));
        return (struct serving_verdict){0};
    }
    struct episode *ep = episode_of(s, clk, node);
    ep->marked |= serving_is_gone(v->device); /* by an earlier process */
    int64_t left_ms = ep->since_mono_ms + SERVING_AFTER_MS - clock_mono_ms(clk);
    if (ep->marked)
        return (struct serving_verdict){0};
    if (left_ms > 0)
        return (struct serving_verdict){.wait_ms = left_ms};
    return (struct serving_verdict){.mark = true, .since_ms = ep->since_wall_ms};
}

void serving_marked(struct serving *s, const char *node)
{
    HOLD(&s->mu);
    struct episode *ep = strmap_get(s->episodes, node);
    if (ep)
        ep->marked = true;
}

struct serving *serving_free(struct serving *s)
{
    if (!s)
        return NULL;
    size_t pos = 0;
    void *ep;
    while (strmap_next(s->episodes, &pos, &(const char *){NULL}, &ep))
        free(ep);
    (void)strmap_free(s->episodes);
    (void)pthread_mutex_destroy(&s->mu);
    free(s);
    return NULL;
}
