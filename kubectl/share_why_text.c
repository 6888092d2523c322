/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jx.h"
#include "base/xalloc.h"

#include "kubectl/safe_text.h"
#include "kubectl/share_why.h"

static bool has_room(const struct share_node *n)
{
    return !n->refusal && !n->misfit;
}

/* The quota that refuses it wherever there is room; NULL: none does. Borrowed. */
static const char *quota_of(const struct share_why *y)
{
    const char *quota = NULL;
    for (size_t i = 0; i < y->n_nodes; i++) {
        if (has_room(&y->nodes[i]) && !y->nodes[i].quota)
            return NULL;
        if (has_room(&y->nodes[i]) && !quota)
            quota = y->nodes[i].quota;
    }
    return quota;
}

/* docs/sharing.md, Set-up */
#define HOW_TO_GIVE                                                                                   \
    "A GPUProfile with mode native and sharing.fractional gives cards so, on a node with the label\n" \
    "  gpu.cleave.dev.node-restriction.kubernetes.io/slots=true (docs/sharing.md#set-up).\n"

static bool is_given(const struct share_why *y)
{
    for (size_t i = 0; i < y->n_nodes; i++)
        if (y->nodes[i].gives)
            return true;
    return false;
}

/* The verdict in a sentence. */
static char *verdict(const struct share_why *y)
{
    bool room = false;
    const char *quota = quota_of(y);
    for (size_t i = 0; i < y->n_nodes; i++)
        room |= has_room(&y->nodes[i]);
    if (quota)
        return xasprintf("A quota refuses it: %s.", quota);
    if (room)
        return xstrdup("There is room for it: something other than GPUs keeps the pod waiting.");
    if (!is_given(y))
        return xstrdup("No node gives its cards in shares.");
    return xstrdup("No node that the pod may have has room for its shares.");
}

static void add_words(const struct screen *s, enum ink ink, const char *text, struct sb *b)
{
    sb_add(b, "; ");
    screen_paint_foreign(s, b, ink, text);
}

static void add_node(const struct share_node *n, const struct screen *s, struct sb *b)
{
    auto_free char *name = safe_text(n->name);
    sb_addf(b, "  %s  ", name);
    if (n->has_largest)
        sb_addf(b, "largest free share %u MiB, %u %%, of GPU %lld", n->largest.memory_mib,
                n->largest.percent, (long long)n->largest.card);
    else
        sb_add(b, "no free share");
    if (n->misfit)
        add_words(s, INK_BUSY, n->misfit, b);
    else
        sb_add(b, "; there is room");
    if (n->quota)
        sb_add(b, ", and a quota does not allow it");
    if (n->refusal)
        add_words(s, INK_BAD, n->refusal, b);
    sb_add_char(b, '\n');
}

void share_why_text(const struct share_why *y, const struct screen *s, struct sb *ret)
{
    auto_free char *words = verdict(y);
    screen_paint_foreign(s, ret, INK_STRONG, words);
    sb_add_char(ret, '\n');
    if (!is_given(y))
        sb_add(ret, HOW_TO_GIVE);
    for (size_t i = 0; i < y->n_nodes; i++)
        if (y->nodes[i].gives)
            add_node(&y->nodes[i], s, ret);
}

static json_t *node_json(const struct share_node *n)
{
    json_t *o =
        json_pack("{s:s, s:b, s:b, s:s*, s:s*, s:s*}", "name", n->name, "gives", n->gives, "room",
                  !n->misfit, "misfit", n->misfit, "quota", n->quota, "refusal", n->refusal);
    if (n->has_largest)
        (void)json_object_set_new(o, "largest",
                                  json_pack("{s:I, s:I, s:I}", "card", (json_int_t)n->largest.card,
                                            "memoryMiB", (json_int_t)n->largest.memory_mib,
                                            "computePercent", (json_int_t)n->largest.percent));
    return o;
}

json_t *share_why_json(const struct share_why *y)
{
    auto_free char *words = verdict(y);
    json_t *nodes = json_array();
    for (size_t i = 0; i < y->n_nodes; i++)
        (void)json_array_append_new(nodes, node_json(&y->nodes[i]));
    return json_pack("{s:s, s:s, s:o}", "asks", y->asks, "verdict", words, "nodes", nodes);
}
