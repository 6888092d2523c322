/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/sharing.h"

#include <assert.h>
#include <string.h>

#include "nodeagent/offer/plugin_config.h"
#include "partition/resource_names.h"
#include "partition/vendor.h"

static const struct sharing unshared = {.replicas = 1};

int sharing_strategy(const struct plugin_config *config, const struct device_spec *spec)
{
    bool governed = spec && spec->has_source;
    if (!governed && config && config->said.mig_strategy)
        return config->mig_strategy;
    return spec ? spec->mig_strategy : API_STRATEGY_MIXED;
}

static struct sharing sharing_of_want(const struct device_want *want)
{
    const struct device_replicas *t =
        want->has_sharing ? device_sharing_terms(&want->sharing) : NULL;
    if (!t)
        return unshared;
    assert(t->replicas >= 1);
    return (struct sharing){want->sharing.has_mps ? SHARING_MPS : SHARING_TIME_SLICING, t->replicas,
                            t->rename_by_default, t->fail_requests_greater_than_one};
}

static enum sharing_kind kind_of(enum plugin_sharing sharing)
{
    return sharing == PLUGIN_MPS ? SHARING_MPS : SHARING_TIME_SLICING;
}

/* The configuration names resources by their unshared names. */
static struct sharing sharing_of_resource(const struct plugin_config *config, const char *name)
{
    for (size_t i = 0; i < config->n_shared; i++) {
        const struct plugin_shared *s = &config->shared[i];
        if (strcmp(s->name, name) == 0)
            return (struct sharing){kind_of(config->sharing), s->replicas,
                                    strcmp(s->offered_as, name) != 0,
                                    config->fail_requests_greater_than_one};
    }
    return unshared;
}

/* kubelet_link starts the MPS daemons and withholds devices without one. Without that, pods would
 * share a card without limits. */
const char *sharing_refusal(const char *vendor, const struct device_want *want,
                            enum api_publisher publisher)
{
    static const char *const by_publisher[] = {
        [API_PUBLISHER_KUBELET] = NULL,
        [API_PUBLISHER_CONTROLLER] =
            "MPS needs an agent that serves the kubelet, since that runs the daemons: start it "
            "with --resources=kubelet (it runs with controller), or share by timeSlicing",
        [API_PUBLISHER_OTHER] =
            "MPS needs an agent that serves the kubelet, since that runs the daemons: start it "
            "with --resources=kubelet (it runs with none), or share by timeSlicing",
    };
    assert(publisher >= 0 && (size_t)publisher < ARRAY_LEN(by_publisher));
    const struct vendor *v = vendor_find(vendor);
    if (!want || !want->has_sharing || !want->sharing.has_mps)
        return NULL;
    if (!v || !v->has_mps)
        return "MPS is a service of NVIDIA's driver; share by timeSlicing";
    return by_publisher[publisher];
}

struct sharing sharing_of(const struct sharing_rules *r, const char *vendor,
                          const struct device_want *want, const char *profile)
{
    char name[RESOURCE_NAME_BYTES];
    if (sharing_refusal(vendor, want, r->publisher))
        return unshared; /* reported as MPSUnsupported (card_status.c) */
    if (want && (want->has_source || want->has_sharing))
        return sharing_of_want(want);
    if (!r->config || r->config->sharing == PLUGIN_UNSHARED ||
        !resource_name(vendor, r->strategy, /* renamed= */ false, profile, name))
        return unshared;
    return sharing_of_resource(r->config, name);
}
