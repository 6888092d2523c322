/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/slot_wish.h"

#include <assert.h>
#include <string.h>

#include "base/jx.h"
#include "base/quantity.h"
#include "base/xalloc.h"

#include "interop/koordinator_pod.h"

enum {
    MAX_ANNOTATION_BYTES = 1 << 18, /* the bound on all annotations of an object together */
    MAX_MEMORY_MIB = 1 << 24,
};

/* --- Numbers --- */

static int take_memory(int64_t mib, struct slot_wish *ret, struct err *e)
{
    if (mib <= 0 || mib > MAX_MEMORY_MIB)
        return err_set(e, ERR_INVALID, "a slice takes from 1 to %d MiB of memory, not %lld",
                       MAX_MEMORY_MIB, (long long)mib);
    ret->memory_mib = (unsigned)((mib + SGPU_STEP_MIB - 1) / SGPU_STEP_MIB * SGPU_STEP_MIB);
    return 0;
}

/* Rounded up; values up to 0 stay. */
static int64_t mib_of(int64_t bytes)
{
    return bytes > 0 ? ((bytes - 1) >> 20) + 1 : bytes;
}

static int take_percent(int64_t percent, int64_t least, const char *of, unsigned *ret,
                        struct err *e)
{
    if (percent < least || percent > 100)
        return err_set(e, ERR_INVALID, "a slice takes from %lld to 100 %% of %s, not %lld",
                       (long long)least, of, (long long)percent);
    *ret = (unsigned)percent;
    return 0;
}

/* A quantity under this key. */
static int quantity_at(const json_t *list, const char *key, bool *ret_there, int64_t *ret,
                       struct err *e)
{
    const json_t *value = json_object_get(list, key);
    *ret_there = value;
    if (!value)
        return 0;
    if (json_is_integer(value)) {
        *ret = json_integer_value(value);
        return 0;
    }
    const char *text = json_string_value(value);
    if (!text)
        return err_set(e, ERR_INVALID, "%s must be a number or a quantity such as \"4Gi\"", key);
    auto_err struct err why = {0};
    return quantity_parse(text, ret, &why) < 0
               ? err_set(e, ERR_INVALID, "%s: %s", key, err_msg(&why))
               : 0;
}

/* --- The pod --- */

static const char *annotation(const json_t *pod, const char *key)
{
    return JX_STR_AT(pod, "metadata", "annotations", key);
}

static const json_t *requests_of(const json_t *container)
{
    const json_t *limits = JX_AT(container, "resources", "limits");
    return limits ? limits : JX_AT(container, "resources", "requests");
}

static int64_t slots_of(const json_t *container)
{
    bool there = false;
    int64_t n = 0;
    if (quantity_at(requests_of(container), SLOT_RESOURCE, &there, &n, /* e= */ NULL) < 0 || !there)
        return 0;
    return n > 0 && n <= SGPU_MAX_SLOTS ? n : 0;
}

/* A container's rank among its pod's containers with slots, and its slots' rank among theirs. */
struct rank {
    size_t container;
    int64_t first_slot, n_slots;
};

/* Init containers come first, as in schedulers' annotations. */
static const json_t *find_container(const json_t *pod, const char *name, struct rank *ret)
{
    static const char *const lists[] = {"initContainers", "containers"};
    const json_t *found = NULL;
    *ret = (struct rank){0};
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        const json_t *list = JX_AT(pod, "spec", lists[l]);
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *c = json_array_get(list, i);
            const char *is = JX_STR_AT(c, "name");
            if (!found && is && strcmp(is, name) == 0) {
                found = c;
                ret->first_slot = ret->n_slots;
            }
            ret->container += !found && slots_of(c) > 0;
            ret->n_slots += slots_of(c);
        }
    }
    return found;
}

static int parse_annotation(const char *key, const char *text, json_t **ret, struct err *e)
{
    auto_err struct err why = {0};
    if (jx_parse(text, strlen(text), MAX_ANNOTATION_BYTES, ret, &why) < 0)
        return err_set(e, ERR_INVALID, "annotation %s: %s", key, err_msg(&why));
    return 0;
}

/* --- Annotations of schedulers --- */

static int take_card(const char *uuid, struct slot_wish *ret, struct err *e)
{
    if (strlen(uuid) >= sizeof(ret->card))
        return err_set(e, ERR_INVALID, "a card's uuid is too long");
    (void)snprintf(ret->card, sizeof(ret->card), "%s", uuid);
    return 0;
}

/* How an annotation describes a slot. */
struct said {
    bool sum;    /* the device is the sum of several slots: only its card is used */
    bool evenly; /* the list has the whole pod's devices, all alike */
};

/* True when two devices give the same amounts. */
typedef bool same_fn(const json_t *a, const json_t *b);

/* The device of a slot in a list for the whole pod, as Koordinator writes it. With one device for
 * each slot they are taken in order. One device for several slots is what all of them request
 * together, and each slot has its part. NULL: neither fits. */
static const json_t *device_of(const json_t *list, const struct rank *r, unsigned nth,
                               same_fn *is_same, struct said *ret)
{
    assert(r->first_slot >= 0 && r->first_slot < r->n_slots);
    size_t n = json_array_size(list);
    *ret = (struct said){.sum = n == 1 && r->n_slots > 1, .evenly = n > 1};
    if (ret->sum)
        return json_array_get(list, 0);
    for (size_t i = 1; i < n; i++)
        ret->evenly &= is_same(json_array_get(list, 0), json_array_get(list, i));
    return (int64_t)n < r->n_slots ? NULL : json_array_get(list, (size_t)r->first_slot + nth);
}

/* HAMi adds empty lists for containers without devices; for which ones depends on its version. */
static bool is_empty(const json_t *list)
{
    const char *uuid = JX_STR_AT(json_array_get(list, 0), "uuid");
    return json_array_size(list) == 0 || (uuid && !*uuid);
}

/* The n-th list that has devices, and how many of these there are. */
static const json_t *find_list(const json_t *doc, size_t number, size_t *ret_n)
{
    const json_t *found = NULL;
    *ret_n = 0;
    for (size_t i = 0; i < json_array_size(doc); i++) {
        const json_t *list = json_array_get(doc, i);
        if (is_empty(list))
            continue;
        if (*ret_n == number)
            found = list;
        ++*ret_n;
    }
    return found;
}

static int from_device(const json_t *device, bool sum, struct slot_wish *ret, struct err *e)
{
    const char *uuid = JX_STR_AT(device, "uuid");
    const json_t *compute = json_object_get(device, "compute");
    const json_t *memory = json_object_get(device, "vRam");
    if (!uuid || (compute && !json_is_integer(compute)) || (memory && !json_is_integer(memory)))
        return err_set(e, ERR_INVALID,
                       "annotation %s: a device needs uuid, and numbers in compute "
                       "and vRam",
                       SLOT_ALLOCATED);
    TRY(take_card(uuid, ret, e));
    if (compute && !sum)
        TRY(take_percent(json_integer_value(compute), 0, "compute", &ret->compute_percent, e));
    return memory && !sum ? take_memory(json_integer_value(memory), ret, e) : 0;
}

/* True also where both lack the key. */
static bool is_same_value(const json_t *a, const json_t *b, const char *key)
{
    const json_t *x = json_object_get(a, key);
    const json_t *y = json_object_get(b, key);
    return x && y ? json_equal(x, y) : x == y;
}

static bool is_same_device(const json_t *a, const json_t *b)
{
    return is_same_value(a, b, "compute") && is_same_value(a, b, "vRam");
}

/* [[{"uuid":"GPU-…","compute":10,"vRam":1024}]]: HAMi writes one list for each container with
 * devices, Koordinator one for the pod. The container's requests supply missing amounts. */
static int from_allocated(const char *text, const struct rank *r, unsigned nth, struct said *said,
                          struct slot_wish *ret, struct err *e)
{
    size_t n;
    auto_json json_t *doc = NULL;
    TRY(parse_annotation(SLOT_ALLOCATED, text, &doc, e));
    if (!json_is_array(doc))
        return err_set(e, ERR_INVALID, "annotation %s must be a list", SLOT_ALLOCATED);
    const json_t *list = find_list(doc, r->container, &n);
    const json_t *device = json_array_get(list, nth);
    *said = (struct said){0};
    if (n == 1)
        device = device_of(find_list(doc, 0, &n), r, nth, is_same_device, said);
    if (!device)
        return err_set(e, ERR_NOT_FOUND, "annotation %s has no device %u for container %zu",
                       SLOT_ALLOCATED, nth, r->container);
    return from_device(device, said->sum, ret, e);
}

/* Koordinator's resource names for quotas, for so many slots together. */
static int from_koordinator_list(const json_t *list, int64_t slots, struct slot_wish *ret,
                                 struct err *e)
{
    struct koordinator_pod_amounts a;
    assert(slots > 0);
    TRY(koordinator_pod_amounts(list, &a, e));
    if (a.has_core)
        TRY(take_percent(a.core / slots, 0, "compute", &ret->compute_percent, e));
    if (a.has_memory)
        return take_memory(mib_of(a.memory / slots), ret, e);
    if (a.has_ratio)
        return take_percent(a.ratio / slots, 1, "memory", &ret->memory_percent, e);
    return 0;
}

static bool is_same_gpu(const json_t *a, const json_t *b)
{
    return is_same_value(a, b, "resources");
}

/* {"gpu":[{"minor":0,"id":"GPU-…","resources":{…}}]} */
static int from_koordinator(const char *text, const struct rank *r, unsigned nth, struct said *said,
                            struct slot_wish *ret, struct err *e)
{
    auto_json json_t *doc = NULL;
    TRY(parse_annotation(KOORDINATOR_ALLOCATED, text, &doc, e));
    const json_t *device = device_of(json_object_get(doc, "gpu"), r, nth, is_same_gpu, said);
    if (!json_is_object(device))
        return err_set(e, ERR_NOT_FOUND, "annotation %s has no gpu %lld", KOORDINATOR_ALLOCATED,
                       (long long)r->first_slot + nth);
    const char *id = JX_STR_AT(device, "id");
    if (id)
        TRY(take_card(id, ret, e));
    if (said->sum)
        return 0;
    struct slot_wish given = {.memory_percent = ret->memory_percent,
                              .compute_percent = ret->compute_percent};
    const json_t *resources = json_object_get(device, "resources");
    TRY(from_koordinator_list(resources, 1, &given, e));
    bool tells_memory = json_object_get(resources, "koordinator.sh/gpu-memory") ||
                        json_object_get(resources, "koordinator.sh/gpu-memory-ratio") ||
                        json_object_get(resources, "koordinator.sh/gpu");
    ret->compute_percent = given.compute_percent;
    if (tells_memory) {
        ret->memory_mib = given.memory_mib;
        ret->memory_percent = given.memory_percent;
    }
    return 0;
}

/* HAMi's resource names: a plain number of memory is in GiB. */
static int from_hami_list(const json_t *list, struct slot_wish *ret, struct err *e)
{
    bool has_core = false;
    bool has_memory = false;
    int64_t core = 0;
    int64_t memory = 0;
    TRY(quantity_at(list, SLOT_COMPUTE, &has_core, &core, e));
    TRY(quantity_at(list, SLOT_MEMORY, &has_memory, &memory, e));
    if (has_core)
        TRY(take_percent(core, 0, "compute", &ret->compute_percent, e));
    bool bare = memory > 0 && memory < 1 << 20;
    return has_memory ? take_memory(bare ? memory << 10 : mib_of(memory), ret, e) : 0;
}

static int take_policy(const json_t *pod, struct slot_wish *ret, struct err *e)
{
    const char *word = annotation(pod, SLOT_QOS_ANNOTATION);
    ret->qos = -1;
    if (!word)
        return 0;
    for (int i = 0; api_qos_policy_names[i]; i++)
        if (strcmp(api_qos_policy_names[i], word) == 0)
            ret->qos = i;
    return ret->qos >= 0 ? 0
                         : err_set(e, ERR_INVALID,
                                   "annotation %s: \"%.40s\" is none of best-effort, fixed-share, "
                                   "burst-share",
                                   SLOT_QOS_ANNOTATION, word);
}

/* --- Requests of a container --- */

/* The requests for one slot of a container, without a card. Without requests a slot is worth a
 * whole card. */
static int from_requests(const json_t *c, struct slot_wish *ret, struct err *e)
{
    assert(slots_of(c) > 0);
    *ret = (struct slot_wish){.memory_percent = 100, .compute_percent = 100, .qos = -1};
    TRY(from_hami_list(requests_of(c), ret, e));
    return from_koordinator_list(requests_of(c), slots_of(c), ret, e);
}

/* The sum of the requests of a pod's slots, if all use the same resource names. */
struct total {
    int64_t slots, compute_percent, memory_mib, memory_percent;
    bool any_mib, any_percent;
};

static int add_requests(const json_t *c, struct total *ret, struct err *e)
{
    struct slot_wish own;
    int64_t slots = slots_of(c);
    if (slots == 0)
        return 0;
    TRY(from_requests(c, &own, e));
    ret->slots += slots;
    ret->compute_percent += slots * own.compute_percent;
    ret->memory_mib += slots * own.memory_mib;
    ret->memory_percent += slots * own.memory_percent;
    ret->any_mib |= own.memory_mib > 0;
    ret->any_percent |= own.memory_mib == 0;
    return 0;
}

static int sum_requests(const json_t *pod, struct total *ret, struct err *e)
{
    static const char *const lists[] = {"initContainers", "containers"};
    *ret = (struct total){0};
    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        const json_t *list = JX_AT(pod, "spec", lists[l]);
        for (size_t i = 0; i < json_array_size(list); i++)
            TRY(add_requests(json_array_get(list, i), ret, e));
    }
    return 0;
}

/* Koordinator divides a pod's requests evenly among its devices. A slot may then have that part,
 * even if its own container requested less. */
static void bound_evenly(const struct total *t, struct slot_wish *bound)
{
    assert(t->slots > 0); /* the container that is asked about has some */
    unsigned compute = (unsigned)((t->compute_percent + t->slots - 1) / t->slots);
    unsigned mib = (unsigned)((t->memory_mib + t->slots - 1) / t->slots);
    unsigned percent = (unsigned)((t->memory_percent + t->slots - 1) / t->slots);
    if (compute > bound->compute_percent)
        bound->compute_percent = compute;
    if (!t->any_percent && mib > bound->memory_mib)
        bound->memory_mib = (mib + SGPU_STEP_MIB - 1) / SGPU_STEP_MIB * SGPU_STEP_MIB;
    if (!t->any_mib && percent > bound->memory_percent)
        bound->memory_percent = percent;
}

/* --- Annotation and requests --- */

/* Everybody who may create pods may write an annotation. So it chooses the card, and an amount only
 * within the container's requests. */
static int check_compute(const struct slot_wish *w, const struct slot_wish *bound, struct err *e)
{
    if (w->compute_percent <= bound->compute_percent)
        return 0;
    return err_set(e, ERR_INVALID,
                   "annotation %s gives %u %% of compute, the container requests %u %%: let the "
                   "scheduler write the annotation, or request more",
                   w->said_by, w->compute_percent, bound->compute_percent);
}

int slot_wish_of(const json_t *pod, const char *container, unsigned nth, struct slot_wish *ret,
                 struct err *e)
{
    struct slot_wish own;
    struct rank rank;
    struct said said = {0};
    const json_t *c = find_container(pod, container, &rank);
    const char *allocated = annotation(pod, SLOT_ALLOCATED);
    const char *koordinator = annotation(pod, KOORDINATOR_ALLOCATED);
    if (!c || slots_of(c) == 0)
        return err_set(e, ERR_NOT_FOUND, "the pod has no container %s that asks for %s", container,
                       SLOT_RESOURCE);
    TRY(from_requests(c, &own, e));
    TRY(take_policy(pod, &own, e));
    struct slot_wish w = own;
    if (allocated)
        TRY(from_allocated(allocated, &rank, nth, &said, &w, e));
    else if (koordinator)
        TRY(from_koordinator(koordinator, &rank, nth, &said, &w, e));
    if (said.evenly) {
        struct total total;
        TRY(sum_requests(pod, &total, e));
        bound_evenly(&total, &own);
    }
    w.said_by = allocated ? SLOT_ALLOCATED : koordinator ? KOORDINATOR_ALLOCATED : NULL;
    w.most_memory_mib = own.memory_mib;
    w.most_memory_percent = own.memory_percent;
    TRY(check_compute(&w, &own, e));
    *ret = w;
    return 0;
}

/* A percentage of a card's memory in whole steps, rounded down or up. */
static unsigned share_of(unsigned card_memory_mib, unsigned percent, bool up)
{
    assert(percent <= 100);
    uint64_t hundredths = (uint64_t)card_memory_mib * percent + (up ? 100 * SGPU_STEP_MIB - 1 : 0);
    uint64_t mib = hundredths / (100 * SGPU_STEP_MIB) * SGPU_STEP_MIB;
    return mib ? (unsigned)mib : SGPU_STEP_MIB;
}

int slot_quota(const struct slot_wish *w, unsigned card_memory_mib, struct sgpu_quota *ret,
               struct err *e)
{
    unsigned memory =
        w->memory_mib ? w->memory_mib : share_of(card_memory_mib, w->memory_percent, false);
    unsigned most = w->most_memory_mib
                        ? w->most_memory_mib
                        : share_of(card_memory_mib, w->most_memory_percent, /* up= */ true);
    /* Requests alone may ask for a whole card's worth, even if less is free. */
    if (w->said_by && memory > most)
        return err_set(e, ERR_INVALID,
                       "annotation %s gives %u MiB of memory, the container requests %u MiB: let "
                       "the scheduler write the annotation, or request more",
                       w->said_by, memory, most);
    assert(memory > 0 && memory % SGPU_STEP_MIB == 0 && w->compute_percent <= 100);
    *ret = (struct sgpu_quota){memory, w->compute_percent};
    return 0;
}
