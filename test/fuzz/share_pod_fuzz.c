/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "api/allocation.h"
#include "api/share_request.h"
#include "interop/hami_pod.h"
#include "interop/koordinator_pod.h"
#include "partition/fraction.h"

/*
 * Input: a pod as the API server has it, with what people, HAMi and our scheduler wrote into its
 * limits and annotations. Whatever is understood can be placed or gets a reason, no card gets more
 * than it has, and each record is read as it was written, HAMi's text as well.
 */
#define MAX_BYTES (1UL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* --- Records --- */

static void check_record(const struct allocation *a)
{
    AUTO(allocation) struct allocation same = {0};
    auto_free char *text = NULL;
    int rc = allocation_format(a, &text, NULL);
    assert(rc == 0 || rc == -ERR_TOO_LARGE);
    if (rc < 0)
        return;
    rc = allocation_parse(text, &same, NULL);
    assert(rc == 0);
    auto_free char *again = NULL;
    rc = allocation_format(&same, &again, NULL);
    assert(rc == 0 && strcmp(text, again) == 0);
}

/* As the API server sees to it; a few containers, to be quick. */
static bool names_differ(const json_t *pod)
{
    enum { MOST = 100 };
    const json_t *lists[] = {JX_AT(pod, "spec", "initContainers"),
                             JX_AT(pod, "spec", "containers")};
    const char *names[MOST];
    size_t n = 0;
    for (size_t l = 0; l < ARRAY_LEN(lists); l++)
        for (size_t i = 0; i < json_array_size(lists[l]); i++) {
            const char *name = JX_STR_AT(json_array_get(lists[l], i), "name");
            if (!name || n == MOST)
                return false;
            for (size_t k = 0; k < n; k++)
                if (strcmp(names[k], name) == 0)
                    return false;
            names[n++] = name;
        }
    return true;
}

static void check_hamis(const json_t *pod, const struct allocation *a)
{
    AUTO(allocation) struct allocation same = {0};
    auto_free char *text = hami_allocated_text(pod, a);
    if (!names_differ(pod))
        return;
    int rc = hami_allocated_parse(pod, text, &same, NULL);
    assert(rc == 0);
    auto_free char *again = hami_allocated_text(pod, &same);
    assert(strcmp(text, again) == 0);
}

static void check_records(const json_t *pod)
{
    const char *own = JX_STR_AT(pod, "metadata", "annotations", ALLOCATION_ANNOTATION);
    const char *hamis = JX_STR_AT(pod, "metadata", "annotations", HAMI_ALLOCATED);
    AUTO(allocation) struct allocation a = {0};
    AUTO(allocation) struct allocation b = {0};
    auto_err struct err e = {0};
    if (own && allocation_parse(own, &a, &e) == 0)
        check_record(&a);
    assert(!own || a.n_containers || e.msg);
    if (hamis && hami_allocated_parse(pod, hamis, &b, NULL) == 0) {
        check_record(&b);
        check_hamis(pod, &b);
    }
}

/* --- Placement --- */

/* Every card holds at each time what it has been given. */
static void check_plan(const struct fraction_node *n, const struct fraction_pod *p,
                       const struct fraction_plan *plan)
{
    for (unsigned i = 0; i < n->n; i++) {
        struct fraction_size peak = fraction_peak(n, p, plan, i);
        struct fraction_size room = fraction_room(&n->cards[i]);
        assert(peak.memory_mib <= room.memory_mib && peak.percent <= room.percent &&
               peak.shares <= room.shares);
    }
    for (unsigned k = 0; k < p->n; k++)
        for (unsigned i = 1; i < p->asks[k].count; i++)
            assert(!memchr(plan->cards[k], plan->cards[k][i], i));
}

/* What was planned can be written. */
static void check_plan_record(const struct fraction_node *n, const struct fraction_pod *p,
                              const struct fraction_plan *plan)
{
    AUTO(allocation) struct allocation a = {.version = ALLOCATION_VERSION};
    auto_free char *text = NULL;
    size_t n_shares = 0;
    for (unsigned k = 0; k < p->n; k++) {
        if (!p->asks[k].count)
            continue;
        struct allocation_container *c = XPUSH(a.containers, a.n_containers);
        c->name = xasprintf("c%u", k);
        for (unsigned i = 0; i < p->asks[k].count; i++, n_shares++) {
            const struct fraction_card *card = &n->cards[plan->cards[k][i]];
            struct fraction_size size = fraction_share(card, &p->asks[k]);
            *XPUSH(c->shares, c->n_shares) =
                (struct allocation_share){xstrdup(card->uuid), size.memory_mib, size.percent};
        }
    }
    if (!a.n_containers)
        return;
    int rc = allocation_format(&a, &text, NULL);
    assert(rc == 0 || rc == -ERR_TOO_LARGE);
    assert(rc == 0 || allocation_check_size(a.n_containers, n_shares, 5, NULL) < 0);
}

static void place(const struct fraction_pod *p)
{
    struct fraction_card cards[] = {
        {.uuid = "GPU-1", .model = "NVIDIA A100-SXM4-40GB", .total = {40960, 100, 10}},
        {.uuid = "GPU-2", .model = "NVIDIA A100-SXM4-40GB", .numa = 1, .total = {40960, 200, 10}},
        {.uuid = "GPU-3",
         .model = "Tesla V100",
         .numa = 1,
         .total = {16384, 100, 2},
         .used = {3000, 30, 1}},
    };
    static const uint16_t pairs[] = {0, 10, 20, 10, 0, 30, 20, 30, 0};
    const struct fraction_node n = {.cards = cards, .n = 3, .pairs = pairs};
    struct fraction_plan plan;
    auto_err struct err e = {0};
    if (fraction_search(&n, p, &plan, &e) == 0) {
        check_plan(&n, p, &plan);
        check_plan_record(&n, p, &plan);
    } else
        assert(e.msg &&
               (e.kind == ERR_UNAVAILABLE || e.kind == ERR_INVALID || e.kind == ERR_TOO_LARGE));
}

static void take_asks(const json_t *list, enum fraction_phase phase, struct fraction_ask *asks,
                      unsigned *n)
{
    for (size_t i = 0; i < json_array_size(list) && *n < FRACTION_MAX_CONTAINERS; i++) {
        auto_sb struct sb warnings = SB_INIT(1024);
        auto_err struct err e = {0};
        struct share_request r;
        const json_t *c = json_array_get(list, i);
        if (share_request_of(c, &r, &warnings, &e) < 0) {
            assert(e.kind == ERR_INVALID && e.msg);
            continue;
        }
        assert(r.memory_percent <= 100 && r.compute <= 100);
        assert(!r.count || (r.memory_mib > 0) != (r.memory_percent > 0));
        if (r.count > FRACTION_MAX_CARDS)
            continue;
        asks[(*n)++] = (struct fraction_ask){.container = "c",
                                             .phase = phase,
                                             .count = r.count,
                                             .memory_mib = r.memory_mib,
                                             .memory_percent = r.memory_percent,
                                             .percent = r.compute};
    }
}

/* --- Koordinator's words --- */

static void check_koordinators(const json_t *pod, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list) && i < FRACTION_MAX_CONTAINERS; i++) {
        const json_t *c = json_array_get(list, i);
        const char *name = JX_STR_AT(c, "name");
        auto_err struct err e = {0};
        auto_json json_t *cards = NULL;
        struct share_request r;
        assert(koordinator_pod_slots(c) >= 0);
        if (koordinator_pod_request(c, &r, &e) < 0) {
            assert(e.kind == ERR_INVALID && e.msg);
            continue;
        }
        assert(r.memory_percent <= 100 && r.compute <= 100);
        assert(!r.count || (r.memory_mib > 0) != (r.memory_percent > 0));
        if (!name || koordinator_pod_cards(pod, name, SHARE_SLOT, r.count, &cards, &e) < 0)
            assert(!name || (e.kind == ERR_INVALID && e.msg));
        else
            assert(!cards || json_array_size(cards) == r.count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *pod = NULL;
    struct fraction_ask asks[FRACTION_MAX_CONTAINERS];
    struct hami_wish w;
    auto_err struct err e = {0};
    unsigned n = 0;
    if (jx_parse((const char *)data, len, MAX_BYTES, &pod, NULL) < 0)
        return 0;
    check_records(pod);
    check_koordinators(pod, JX_AT(pod, "spec", "initContainers"));
    check_koordinators(pod, JX_AT(pod, "spec", "containers"));
    take_asks(JX_AT(pod, "spec", "initContainers"), FRACTION_INIT, asks, &n);
    take_asks(JX_AT(pod, "spec", "containers"), FRACTION_APP, asks, &n);
    if (hami_wish_of(pod, &w, &e) < 0) {
        assert(e.kind == ERR_INVALID && e.msg);
        return 0;
    }
    const struct fraction_pod p = {.asks = asks, .n = n, .wish = w.cards};
    place(&p);
    return 0;
}
