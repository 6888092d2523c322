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

static struct sharing sharing_of_want(const struct device_want *want, const char *profile)
{
    const struct device_replicas *t =
        want->has_sharing ? device_sharing_terms(&want->sharing) : NULL;
    bool fractional = want->has_sharing && want->sharing.has_fractional && !profile;
    assert(!t || t->replicas >= 1);
    if (fractional)
        return (struct sharing){.kind = SHARING_FRACTIONAL,
                                .replicas = 1,
                                .shares = want->sharing.fractional.max_shares};
    if (!t)
        return unshared;
    return (struct sharing){.kind = want->sharing.has_mps ? SHARING_MPS : SHARING_TIME_SLICING,
                            .replicas = t->replicas,
                            .renamed = t->rename_by_default,
                            .one_only = t->fail_requests_greater_than_one};
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
            return (struct sharing){.kind = kind_of(config->sharing),
                                    .replicas = s->replicas,
                                    .renamed = strcmp(s->offered_as, name) != 0,
                                    .one_only = config->fail_requests_greater_than_one};
    }
    return unshared;
}

#define NEEDS_KUBELET(what, why, resources)                                                        \
    what " needs an agent that serves the kubelet, since that " why                                \
         ": start it with --resources=kubelet (it runs with " resources                            \
         "), or share by timeSlicing"

/* kubelet_link starts the MPS daemons and withholds devices without one. Without that, pods would
 * share a card without limits. */
static const char *mps_refusal(const struct vendor *v, enum api_publisher publisher)
{
    static const char *const by_publisher[] = {
        [API_PUBLISHER_KUBELET] = NULL,
        [API_PUBLISHER_CONTROLLER] = NEEDS_KUBELET("MPS", "runs the daemons", "controller"),
        [API_PUBLISHER_OTHER] = NEEDS_KUBELET("MPS", "runs the daemons", "none"),
    };
    assert(publisher >= 0 && (size_t)publisher < ARRAY_LEN(by_publisher));
    if (!v || !v->has_mps)
        return "MPS is a service of NVIDIA's driver; share by timeSlicing";
    return by_publisher[publisher];
}

/* A share is known by its slot, whose pod is found when the kubelet has granted it. */
static const char *shares_refusal(const struct vendor *v, enum api_publisher publisher)
{
#define SHARES_NEED(resources)                                                                     \
    NEEDS_KUBELET("sharing.fractional", "finds the pod of each share", resources)
    static const char *const by_publisher[] = {
        [API_PUBLISHER_KUBELET] = NULL,
        [API_PUBLISHER_CONTROLLER] = SHARES_NEED("controller"),
        [API_PUBLISHER_OTHER] = SHARES_NEED("none"),
    };
#undef SHARES_NEED
    assert(publisher >= 0 && (size_t)publisher < ARRAY_LEN(by_publisher));
    if (!v || !v->has_shares)
        return "only NVIDIA's cards are given out in shares; share by timeSlicing";
    return by_publisher[publisher];
}

const char *sharing_refusal(const char *vendor, const struct device_want *want,
                            const struct sharing_means *means, const char **ret_reason)
{
    const struct vendor *v = vendor_find(vendor);
    const char *reason = NULL;
    const char *why = NULL;
    if (want && want->has_sharing && want->sharing.has_mps) {
        reason = "MPSUnsupported";
        why = mps_refusal(v, means->publisher);
    } else if (want && want->has_sharing && want->sharing.has_fractional) {
        reason = "FractionalUnsupported";
        why = shares_refusal(v, means->publisher);
        if (!why) {
            reason = ENFORCEMENT_UNAVAILABLE;
            why = enforcement_missing(&want->sharing.fractional, &means->enforcement);
        }
    }
    if (why && ret_reason)
        *ret_reason = reason;
    return why;
}

struct sharing sharing_of(const struct sharing_rules *r, const char *vendor,
                          const struct device_want *want, const char *profile)
{
    char name[RESOURCE_NAME_BYTES];
    if (sharing_refusal(vendor, want, &r->means, /* ret_reason= */ NULL))
        return unshared; /* reported (card_status.c) */
    if (want && (want->has_source || want->has_sharing))
        return sharing_of_want(want, profile);
    if (!r->config || r->config->sharing == PLUGIN_UNSHARED ||
        !resource_name(vendor, r->strategy, /* renamed= */ false, profile, name))
        return unshared;
    return sharing_of_resource(r->config, name);
}

int64_t sharing_times(const struct sharing *s)
{
    return s->kind == SHARING_FRACTIONAL ? s->shares : s->replicas;
}
