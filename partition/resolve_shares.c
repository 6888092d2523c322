/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/sb.h"

#include "partition/resolve_work.h"
#include "partition/vendor.h"

/*
 * The rules for the cards of a node together. Where a card of a vendor is given out in shares, the
 * name of the vendor's whole cards is the name of all shares: a card that nobody shares counts as
 * one, and no card may offer replicas under that name. A node has at most DEVICE_MAX_SHARES.
 *
 * A refused source leaves its cards as they are, and what is in force there may break the same rule.
 * So the rules look at what would remain. No decision depends on the order of cards or sources.
 */

static bool is_fractional(const struct device_want *want)
{
    return want && want->has_sharing && want->sharing.has_fractional;
}

/* True for replicas under the name of whole cards. Partitions have names of their own. */
static bool takes_name(const struct device_want *want)
{
    const struct device_replicas *terms =
        want && want->has_sharing ? device_sharing_terms(&want->sharing) : NULL;
    return terms && want->mode == API_MODE_NATIVE && !terms->rename_by_default;
}

static bool is_in_force(const struct source *s)
{
    return s && !s->refused;
}

/* The want of the card if the source (NULL: none) were refused beside those that are. */
static const struct device_want *want_without(const struct work *w, size_t card,
                                              const struct source *without)
{
    const struct source *s = w->owner[card];
    return is_in_force(s) && s != without ? &w->wants[card] : resolve_kept_want(w, card);
}

static bool same_vendor(const struct work *w, size_t a, size_t b)
{
    return strcmp(w->in->cards[a].vendor, w->in->cards[b].vendor) == 0;
}

/* --- The number of shares --- */

static int64_t shares_of(const struct resolve_card *card, const struct device_want *want)
{
    const struct vendor *v = vendor_find(card->vendor);
    int mode = want ? want->mode : card->mode;
    if (!v || !v->has_shares || mode != API_MODE_NATIVE)
        return 0;
    if (is_fractional(want))
        return want->sharing.fractional.max_shares;
    return want && want->has_sharing ? 0 : 1;
}

/* 0: no card is given out in shares. */
static int64_t shares_without(const struct work *w, const struct source *without)
{
    int64_t sum = 0;
    bool any = false;
    for (size_t i = 0; i < w->in->n_cards; i++) {
        const struct device_want *want = want_without(w, i, without);
        sum += shares_of(&w->in->cards[i], want);
        any |= is_fractional(want);
    }
    return any ? sum : 0;
}

static bool wants_shares(const struct work *w, const struct source *s)
{
    for (size_t i = 0; i < w->in->n_cards; i++)
        if (w->owner[i] == s && is_fractional(&w->wants[i]))
            return true;
    return false;
}

/* What becomes of too many shares when a source is refused. */
enum relief { RELIEF_NONE, RELIEF_SOME, RELIEF_ENOUGH };

static enum relief relief_of(const struct work *w, const struct source *s, int64_t shares)
{
    int64_t left = shares_without(w, s);
    if (left <= DEVICE_MAX_SHARES)
        return RELIEF_ENOUGH;
    return left < shares ? RELIEF_SOME : RELIEF_NONE;
}

/* The source whose refusal helps most; of those that help alike, the weakest. */
static struct source *most_dispensable(const struct work *w, int64_t shares)
{
    struct source *best = NULL;
    enum relief most = RELIEF_NONE;
    for (size_t i = 0; i < w->n_sources; i++) {
        struct source *s = &w->sources[i];
        if (s->refused || !wants_shares(w, s))
            continue;
        enum relief relief = relief_of(w, s, shares);
        if (best && (relief < most || (relief == most && resolve_leads(s, best))))
            continue;
        best = s;
        most = relief;
    }
    return best;
}

static bool refuse_excess(struct work *w)
{
    int64_t shares = shares_without(w, /* without= */ NULL);
    struct source *s = shares > DEVICE_MAX_SHARES ? most_dispensable(w, shares) : NULL;
    if (!s)
        return false;
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    sb_addf(&text,
            "the cards of this node would have %lld shares together; a node has at most %d, "
            "counting one for each card that nobody shares: lower maxShares, or select fewer cards",
            (long long)shares, DEVICE_MAX_SHARES);
    resolve_refuse(s, "TooManyShares", /* card= */ NULL, sb_str(&text));
    return true;
}

/* --- The name of the shares --- */

static void refuse_replicas(struct work *w, size_t replicas, size_t shares)
{
    const struct resolve_card *card = &w->in->cards[replicas];
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    sb_addf(&text,
            "its replicas would be offered as %s, the name of the shares of GPU %u; set "
            "renameByDefault: true",
            vendor_find(card->vendor)->card, w->in->cards[shares].index);
    resolve_refuse(w->owner[replicas], "SharedNameTaken", card, sb_str(&text));
}

static void refuse_shares(struct work *w, size_t shares, size_t replicas)
{
    const struct resolve_card *card = &w->in->cards[shares];
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    sb_addf(&text,
            "its shares would be offered as %s, the name of the replicas of GPU %u; set "
            "renameByDefault: true for that card first",
            vendor_find(card->vendor)->card, w->in->cards[replicas].index);
    resolve_refuse(w->owner[shares], "SharedNameTaken", card, sb_str(&text));
}

/* The first card of the same vendor that is given out in shares, of this source or (NULL) of any;
 * n_cards: there is none. */
static size_t shares_beside(const struct work *w, size_t card, const struct source *of)
{
    size_t i = 0;
    while (i < w->in->n_cards && !(same_vendor(w, i, card) && (!of || w->owner[i] == of) &&
                                   is_fractional(want_without(w, i, /* without= */ NULL))))
        i++;
    return i;
}

/* A source that takes the name twice is refused whatever the others want. */
static bool refuse_contradictions(struct work *w)
{
    bool any = false;
    for (size_t i = 0; i < w->in->n_cards; i++) {
        const struct source *s = w->owner[i];
        if (!is_in_force(s) || !takes_name(&w->wants[i]))
            continue;
        size_t shares = shares_beside(w, i, s);
        if (shares == w->in->n_cards)
            continue;
        refuse_replicas(w, i, shares);
        any = true;
    }
    return any;
}

/* True when the refusal of the card's source would not take the name from replicas of the vendor,
 * since they are in force. */
static bool keeps_name(const struct work *w, size_t card)
{
    for (size_t i = 0; i < w->in->n_cards; i++)
        if (same_vendor(w, i, card) && w->owner[i] == w->owner[card] &&
            takes_name(resolve_kept_want(w, i)))
            return true;
    return false;
}

/* Replicas that keep the name in any case leave none for shares. */
static bool refuse_shares_beside_replicas(struct work *w)
{
    bool any = false;
    for (size_t i = 0; i < w->in->n_cards; i++) {
        if (!takes_name(want_without(w, i, /* without= */ NULL)) || !keeps_name(w, i))
            continue;
        for (size_t k = 0; k < w->in->n_cards; k++) {
            if (!same_vendor(w, i, k) || !is_in_force(w->owner[k]) || !is_fractional(&w->wants[k]))
                continue;
            refuse_shares(w, k, i);
            any = true;
        }
    }
    return any;
}

/* Other replicas need a name of their own. */
static bool refuse_replicas_beside_shares(struct work *w)
{
    bool any = false;
    for (size_t i = 0; i < w->in->n_cards; i++) {
        if (!is_in_force(w->owner[i]) || !takes_name(&w->wants[i]) || keeps_name(w, i))
            continue;
        size_t shares = shares_beside(w, i, /* of= */ NULL);
        if (shares == w->in->n_cards)
            continue;
        refuse_replicas(w, i, shares);
        any = true;
    }
    return any;
}

/* A refusal puts older wants in force, which the rules are to look at again. Each round refuses a
 * source. */
void resolve_judge_shares(struct work *w)
{
    size_t rounds = 0;
    while (refuse_contradictions(w) || refuse_shares_beside_replicas(w) || refuse_excess(w) ||
           refuse_replicas_beside_shares(w)) {
        rounds++;
        assert(rounds <= w->n_sources);
    }
}
