/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/jx.h"

#include "nodeagent/slot_wish.h"

/*
 * Input: a pod as the API server has it, with what schedulers and people wrote into its annotations
 * and limits. Whatever is understood is something that a card could give; what is not says why.
 */
#define MAX_BYTES (1UL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_quota(const struct slot_wish *w, unsigned card_memory_mib)
{
    const struct sgpu_quota q = slot_quota(w, card_memory_mib);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *pod = NULL;
    if (jx_parse((const char *)data, len, MAX_BYTES, &pod, NULL) < 0)
        return 0;
    for (unsigned nth = 0; nth < 3; nth++) {
        check(pod, "main", nth);
        check(pod, "init", nth);
    }
    return 0;
}
