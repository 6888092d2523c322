/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/xalloc.h"

#include "kubeclient/object.h"
#include "scheduler/extender_words.h"
#include "scheduler/node_cards.h"

/*
 * Input: what kube-scheduler may ask, or an object as the API server sends it to the scheduler's
 * caches. Whatever is understood has an answer that is JSON, and no card that a record does not have.
 */
#define MAX_BYTES (1UL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_answer(const struct filter_args *a, const struct err *e)
{
    auto_choice struct choice c = {0};
    auto_sb struct sb out = SB_INIT(64UL << 20);
    choice_refuse_all(a->names, a->n_names, e, &c);
    assert(c.n_refused == a->n_names);
    filter_result_write(&c, &out);
    auto_json json_t *answer = json_loads(sb_str(&out), 0, NULL);
    assert(answer);
}

static void ask(const char *body, size_t len)
{
    auto_err struct err e = {0};
    auto_filter_args struct filter_args f = {0};
    auto_bind_args struct bind_args b = {0};
    auto_pod_ask struct pod_ask pod = {0};
    if (filter_args_parse(body, len, &f, &e) == 0) {
        if (pod_ask_of(f.pod, &pod, &e) == 0)
            assert(pod.uid[0] && pod.n <= FRACTION_MAX_CONTAINERS);
        else
            check_answer(&f, &e);
    }
    err_clear(&e);
    if (bind_args_parse(body, len, &b, &e) == 0)
        assert(b.ns && b.name && b.uid && b.node);
}

static void check_cards(const struct node_cards *n)
{
    assert(n->n <= FRACTION_MAX_CARDS);
    for (size_t i = 0; i < n->n_told; i++)
        assert(n->told[i].card < n->n && n->told[i].pod);
}

static void keep(const json_t *o)
{
    auto_err struct err e = {0};
    auto_object struct object *device = NULL;
    auto_object struct object *pod = NULL;
    if (object_new(&node_cards_type, o, &device, &e) == 0 && node_cards_of(device))
        check_cards(node_cards_of(device));
    err_clear(&e);
    if (object_new(&pod_shares_type, o, &pod, &e) == 0 && pod_shares_of(pod))
        assert(pod_shares_of(pod)->node[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *text = (const char *)data;
    if (len > MAX_BYTES)
        return 0;
    auto_json json_t *o = json_loadb(text, len, 0, NULL);
    ask(text, len);
    if (o)
        keep(o);
    return 0;
}
