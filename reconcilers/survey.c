/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/survey.h"

#include <string.h>

static bool matches(const struct profile_record *p, const struct node_record *n)
{
    return label_selector_matches(&p->spec.node_selector, n->labels, n->n_labels);
}

bool survey_is_cardless(const struct device_record *d)
{
    return d->n_cards == 0 && d->ready.present && strcmp(d->ready.reason, DEVICE_NO_CARDS) == 0;
}

void survey_begin(const struct profile_record *p, struct survey *ret)
{
    *ret = (struct survey){.profile = p, .coverage = coverage_new(&p->spec)};
}

void survey_add(struct survey *s, const struct node_record *n, const struct device_record *d)
{
    if (!matches(s->profile, n))
        return;
    s->matched++;
    s->cardless += survey_is_cardless(d);
    s->n_cards += d->n_cards;
    s->blind |= d->n_cards == 0 && !survey_is_cardless(d);
    for (size_t i = 0; i < d->n_cards; i++) {
        struct resolve_card card;
        records_card_view(&d->cards[i], &card);
        coverage_add(s->coverage, &card);
    }
}

char *survey_not_found(const struct survey *s)
{
    return s->matched && !s->blind ? coverage_missing(s->coverage) : NULL;
}

size_t survey_selected(const struct profile_record *p, struct store *nodes)
{
    auto_object_list struct object_list list = {0};
    size_t n = 0;
    store_list(nodes, &list);
    for (size_t i = 0; i < list.count; i++)
        n += matches(p, object_payload(list.items[i]));
    return n;
}

void survey_done(struct survey *s)
{
    s->coverage = coverage_free(s->coverage);
}
