/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/jx.h"

#include "interop/koordinator_pod.h"
#include "nodeagent/slots/slot_wish.h"

/*
 * Input: a pod as the API server has it, with what schedulers and people wrote into its annotations
 * and limits. Whatever is understood is something that a card could give; what is not says why.
 */
#define MAX_BYTES (1UL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_quota(const struct slot_wish *w, unsigned card_memory_mib)
{
    struct sgpu_quota q;
    auto_err struct err e = {0};
    if (slot_quota(w, card_memory_mib, &q, &e) < 0) {
        assert(e.kind == ERR_INVALID && w->said_by);
        return;
    }
    assert(q.memory_mib > 0 && q.memory_mib % SGPU_STEP_MIB == 0);
    assert(q.compute_percent <= 100);
    assert(w->memory_mib || q.memory_mib <= card_memory_mib || q.memory_mib == SGPU_STEP_MIB);
}

static void check(const json_t *pod, const char *container, unsigned nth)
{
    auto_err struct err e = {0};
    struct slot_wish w = {0};
    int rc = slot_wish_of(pod, container, nth, &w, &e);
    assert((rc < 0) == (e.msg != NULL));
    assert(rc == 0 || rc == -(int)ERR_INVALID || rc == -(int)ERR_NOT_FOUND);
    if (rc < 0)
        return;
    assert(memchr(w.card, '\0', sizeof(w.card)));
    assert(w.memory_percent <= 100 && w.compute_percent <= 100);
    assert(w.qos >= -1 && w.qos <= API_BURST_SHARE);
    check_quota(&w, 65536);
    check_quota(&w, 0);
}

/* An annotation is anybody's: with it no slot gets more than the most that a container of the pod
 * requests without it, and a step where a share of the card was rounded. */
static void check_bound(json_t *pod)
{
    enum { CARD_MIB = 65536 };
    static const char *const names[] = {"main", "init"};
    static const char *const keys[] = {SLOT_ALLOCATED, KOORDINATOR_ALLOCATED};
    json_t *annotations = json_object_get(json_object_get(pod, "metadata"), "annotations");
    struct slot_wish with[2][3];
    struct sgpu_quota given[2][3] = {0};
    for (size_t c = 0; c < 2; c++)
        for (unsigned nth = 0; nth < 3; nth++)
            if (slot_wish_of(pod, names[c], nth, &with[c][nth], NULL) < 0 ||
                slot_quota(&with[c][nth], CARD_MIB, &given[c][nth], NULL) < 0)
                given[c][nth] = (struct sgpu_quota){0};
    for (size_t k = 0; k < 2; k++)
        (void)json_object_del(annotations, keys[k]);
    struct slot_wish own[2];
    bool known[2];
    unsigned most_compute = 0;
    unsigned most_mib = 0;
    for (size_t c = 0; c < 2; c++) {
        struct sgpu_quota q;
        known[c] = slot_wish_of(pod, names[c], 0, &own[c], NULL) == 0 &&
                   slot_quota(&own[c], CARD_MIB, &q, NULL) == 0;
        if (known[c] && q.compute_percent > most_compute)
            most_compute = q.compute_percent;
        if (known[c] && q.memory_mib > most_mib)
            most_mib = q.memory_mib;
    }
    if (json_array_size(json_object_get(json_object_get(pod, "spec"), "containers")) +
            json_array_size(json_object_get(json_object_get(pod, "spec"), "initContainers")) >
        (size_t)known[0] + known[1])
        return; /* containers of other names */
    for (size_t c = 0; c < 2; c++)
        for (unsigned nth = 0; nth < 3; nth++) {
            assert(given[c][nth].compute_percent <= most_compute);
            assert(given[c][nth].memory_mib <= most_mib + SGPU_STEP_MIB);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *pod = NULL;
    if (jx_parse((const char *)data, len, MAX_BYTES, &pod, NULL) < 0)
        return 0;
    for (unsigned nth = 0; nth < 3; nth++) {
        check(pod, "main", nth);
        check(pod, "init", nth);
    }
    check_bound(pod);
    return 0;
}
