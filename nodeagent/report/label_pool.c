/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/label_pool.h"

#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

const char *label_device_model(const struct label_device *m)
{
    assert(m->of && !m->of->card->unread);
    return m->of->card->model;
}

size_t label_pool_count(const struct label_pool *p, const char *model)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += strcmp(label_device_model(&p->members[i]), model) == 0;
    return n;
}

const struct label_device *label_pool_speaker(const struct label_pool *p)
{
    const struct label_device *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct label_device *m = &p->members[i];
        size_t n = label_pool_count(p, label_device_model(m));
        if (n < most ||
            (best && n == most && strcmp(label_device_model(m), label_device_model(best)) >= 0))
            continue;
        most = n;
        best = m;
    }
    return best;
}

struct sharing label_pool_least_shared(const struct label_pool *p)
{
    struct sharing least = {0};
    for (size_t i = 0; i < p->n; i++)
        if (i == 0 || sharing_times(&p->members[i].sharing) < sharing_times(&least))
            least = p->members[i].sharing;
    return least;
}

struct sharing label_sharing_in(const struct gpu_labels_input *in, const struct gpu_labels_card *c,
                                const char *profile)
{
    const struct sharing_rules rules = {in->config, in->mig_strategy, in->means};
    return sharing_of(&rules, c->card->vendor, c->want, profile);
}

static struct label_device member_of_card(const struct gpu_labels_input *in,
                                          const struct gpu_labels_card *c)
{
    return (struct label_device){.of = c, .sharing = label_sharing_in(in, c, /* profile= */ NULL)};
}

struct label_pool label_pool_of_cards(const struct gpu_labels_input *in, const char *vendor)
{
    struct label_pool cards = {0};
    for (size_t i = 0; i < in->n_cards; i++) {
        const struct gpu_card *c = in->cards[i].card;
        if (!c->unread && (!vendor || strcmp(c->vendor, vendor) == 0))
            *XPUSH(cards.members, cards.n) = member_of_card(in, &in->cards[i]);
    }
    return cards;
}
