/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/resolve.h"

#include <assert.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "partition/select.h"

enum { TEXT_BYTES = 1024, MAX_COUNT = 64 };

/*
 * Three passes over one node. 1. Every source (the label, each profile) claims cards, as if it were
 * alone. 2. Each card is given to one source, or to none in a conflict. 3. Each source's cards are
 * judged against the hardware; a single bad one refuses the source's whole share.
 */

/* What one source wants of one card. */
struct claim {
    bool made;
    const struct migconfig_spec *config;  /* from a MIGConfig … */
    const char *builtin;                  /* … or a built-in layout … */
    const struct gpuprofile_entry *entry; /* … or a profile's entry; NULL: remainder native */
    bool from_label;
    bool unknown; /* by a name that nothing has; its source is refused */
};

struct source {
    enum api_source_kind kind;
    const char *name;
    int64_t generation;
    const struct gpuprofile_spec *profile; /* NULL: the label */
    struct claim *claims;                  /* one for each card */
    size_t owned, claimed;
    bool refused;
    bool contends; /* a card is a conflict because of it */
    struct resolve_problem *problems;
    size_t n_problems;
};

struct work {
    const struct resolve_input *in;
    struct source *sources;
    size_t n_sources;
    struct source **owner;     /* for each card; NULL: nobody, or a conflict */
    bool *contested;           /* for each card: a conflict */
    struct device_want *wants; /* for each card that is owned and judged good */
};

/* The caller owns the name in it. */
static struct device_source source_id(const struct source *s)
{
    return (struct device_source){s->kind, xstrdup(s->name), s->generation};
}

static void add_problem(struct source *s, const char *reason, const struct resolve_card *card,
                        const char *message)
{
    struct resolve_problem *p = XPUSH(s->problems, s->n_problems);
    p->reason = xstrdup(reason);
    p->message = xstrdup(message);
    p->uuid = card ? xstrdup(card->uuid) : NULL;
}

static void refuse(struct source *s, const char *reason, const struct resolve_card *card,
                   const char *why)
{
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    if (card)
        sb_addf(&text, "GPU %u (%s): ", card->index, card->model ? card->model : card->uuid);
    sb_add(&text, why);
    add_problem(s, reason, card, sb_str(&text));
    s->refused = true;
}

/* --- Pass 1: claims --- */

static const struct resolve_config *find_config(const struct resolve_input *in, const char *name)
{
    for (size_t i = 0; i < in->n_configs; i++)
        if (strcmp(in->configs[i].name, name) == 0)
            return &in->configs[i];
    for (size_t i = 0; i < in->n_configs; i++)
        for (size_t k = 0; k < in->configs[i].spec->n_aliases; k++)
            if (strcmp(in->configs[i].spec->aliases[k], name) == 0)
                return &in->configs[i];
    return NULL;
}

static const struct migconfig_entry *config_entry(const struct migconfig_spec *spec,
                                                  const struct resolve_card *card)
{
    for (size_t i = spec->n_devices; i > 0; i--)
        if (select_config_entry(&spec->devices[i - 1], card))
            return &spec->devices[i - 1];
    return NULL;
}

static bool has_builtin(const struct resolve_card *card, const char *name)
{
    bool enabled;
    struct mig_wants wants;
    return card->table && mig_named_layout(card->table, name, &enabled, &wants, NULL) == 0;
}

/* A name is built in when it is so for any card of the node; each card is judged by itself later.
 */
static bool is_builtin(const struct resolve_input *in, const char *name)
{
    if (strcmp(name, "all-disabled") == 0)
        return true;
    for (size_t i = 0; i < in->n_cards; i++)
        if (has_builtin(&in->cards[i], name))
            return true;
    return false;
}

/* Fills the claim from a name; false when the named config does not speak about this card. */
static bool claim_named(struct claim *c, const struct resolve_config *config, const char *name,
                        const struct resolve_card *card)
{
    if (!config) {
        c->builtin = name;
        /* A name on a node means the models that have it, as in the configuration that mig-parted
         * generates; a profile's entry means the very cards that it selects. */
        return !c->from_label || has_builtin(card, name);
    }
    const struct migconfig_entry *entry = config_entry(config->spec, card);
    if (!entry || (entry->mig_enabled && !card->mig_capable && entry->n_indices == 0))
        return false;
    c->config = config->spec;
    return true;
}

static void refuse_name(struct source *s, const char *name)
{
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    sb_addf(&text, "there is no MIGConfig or built-in layout named \"%s\"", name);
    refuse(s, "UnknownConfig", NULL, sb_str(&text));
}

static void claim_by_label(struct work *w, struct source *s)
{
    const struct resolve_input *in = w->in;
    const struct resolve_config *config = find_config(in, in->label);
    bool known = config || is_builtin(in, in->label);
    for (size_t i = 0; i < in->n_cards; i++) {
        struct claim *c = &s->claims[i];
        c->from_label = true;
        c->made = known ? claim_named(c, config, in->label, &in->cards[i]) : true;
        c->unknown = !known;
    }
    if (!known)
        refuse_name(s, in->label);
}

static void claim_entry(struct work *w, struct source *s, const struct gpuprofile_entry *entry)
{
    const struct resolve_input *in = w->in;
    const char *name = entry->has_mig ? entry->mig.config : NULL;
    const struct resolve_config *config = name ? find_config(in, name) : NULL;
    bool known = !name || config || is_builtin(in, name);
    int64_t taken = 0;
    for (size_t i = 0; i < in->n_cards; i++) {
        struct claim *c = &s->claims[i];
        if (c->made || !select_card(&entry->selector, &in->cards[i]))
            continue;
        if (entry->selector.count && taken == entry->selector.count)
            break;
        taken++;
        c->made = known && name ? claim_named(c, config, name, &in->cards[i]) : true;
        c->unknown = !known;
        if (c->made)
            c->entry = entry;
    }
    if (!known && taken)
        refuse_name(s, name);
}

static void claim_by_profile(struct work *w, struct source *s)
{
    for (size_t i = 0; i < s->profile->n_devices; i++)
        claim_entry(w, s, &s->profile->devices[i]);
    if (s->profile->remainder == API_REMAINDER_NATIVE)
        for (size_t i = 0; i < w->in->n_cards; i++)
            s->claims[i].made = true;
}

static void make_claims(struct work *w)
{
    for (size_t i = 0; i < w->n_sources; i++) {
        struct source *s = &w->sources[i];
        if (s->profile)
            claim_by_profile(w, s);
        else
            claim_by_label(w, s);
        for (size_t k = 0; k < w->in->n_cards; k++)
            s->claimed += s->claims[k].made;
    }
}

/* --- Pass 2: owners --- */

/* The label stands above every profile. */
static bool beats(const struct source *a, const struct source *b)
{
    if (!a->profile || !b->profile)
        return !a->profile && b->profile;
    return a->profile->priority > b->profile->priority;
}

/* The same as an order without ties, so that nothing depends on the order of the input. */
static bool leads(const struct source *a, const struct source *b)
{
    return beats(a, b) || (!beats(b, a) && strcmp(a->name, b->name) < 0);
}

static void report_contender(const struct work *w, size_t card, const struct source *top,
                             struct source *s)
{
    const struct resolve_card *c = &w->in->cards[card];
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    sb_addf(&text, "GPU %u is selected with equal priority by GPUProfile", c->index);
    const char *separator = " ";
    for (size_t k = 0; k < w->n_sources; k++) {
        const struct source *rival = &w->sources[k];
        if (rival == s || !rival->claims[card].made || beats(top, rival))
            continue;
        sb_addf(&text, "%s%s", separator, rival->name);
        separator = ", ";
    }
    sb_add(&text, " too; raise one priority or narrow a selector");
    add_problem(s, "Conflict", c, sb_str(&text));
    s->contends = true;
}

static void report_conflict(struct work *w, size_t card, const struct source *top)
{
    const struct resolve_card *c = &w->in->cards[card];
    for (size_t i = 0; i < w->n_sources; i++) {
        struct source *s = &w->sources[i];
        if (!s->claims[card].made)
            continue;
        if (!beats(top, s)) {
            report_contender(w, card, top, s);
            continue;
        }
        auto_sb struct sb text = SB_INIT(TEXT_BYTES);
        sb_addf(&text, "GPU %u is in conflict between stronger profiles", c->index);
        add_problem(s, "Overridden", c, sb_str(&text));
    }
}

static void give_card(struct work *w, size_t card)
{
    struct source *top = NULL;
    bool tie = false;
    for (size_t i = 0; i < w->n_sources; i++) {
        struct source *s = &w->sources[i];
        if (!s->claims[card].made)
            continue;
        if (!top || beats(s, top)) {
            top = s;
            tie = false;
        } else if (!beats(top, s)) {
            tie = true;
        }
    }
    w->contested[card] = tie;
    if (tie)
        report_conflict(w, card, top);
    else if (top)
        top->owned++;
    w->owner[card] = tie ? NULL : top;
}

/* --- Pass 3: judgement --- */

static void want_profiles(struct device_want *want, const struct mig_table *t,
                          const struct mig_wants *wants)
{
    want->has_mig = true;
    for (unsigned i = 0; i < wants->n; i++) {
        char name[MIG_NAME_BYTES];
        mig_partition_name(&t->profiles[wants->items[i].profile], wants->items[i].ci_slices, name);
        struct profile_count *pc = NULL;
        for (size_t k = 0; k < want->mig.n_profiles && !pc; k++)
            if (strcmp(want->mig.profiles[k].profile, name) == 0)
                pc = &want->mig.profiles[k];
        if (!pc) {
            pc = XPUSH(want->mig.profiles, want->mig.n_profiles);
            pc->profile = xstrdup(name);
        }
        pc->count += wants->items[i].count;
    }
}

static const char *reason_of(int rc)
{
    return rc == -(int)ERR_NOT_FOUND ? "UnknownProfile" : "Invalid";
}

static bool check_geometry(struct source *s, const struct resolve_card *card,
                           const struct mig_wants *wants)
{
    const struct mig_state empty = {0};
    struct mig_plan plan;
    mig_plan(card->table, &empty, wants, &plan);
    if (plan.verdict != MIG_PLAN_INFEASIBLE)
        return true;
    auto_free char *nearest = mig_wants_text(card->table, &plan.nearest);
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    sb_addf(&text, "%s; the nearest layout that fits is %s", plan.reason, nearest);
    refuse(s, "Infeasible", card, sb_str(&text));
    return false;
}

/* Counts that no schema has bounded come from files. */
static int requests_of(const struct jx_pair *profiles, size_t n, struct mig_request *ret,
                       struct err *e)
{
    if (n > MIG_MAX_WANTS)
        return err_set(e, ERR_INVALID, "%zu kinds of partitions are too many", n);
    for (size_t i = 0; i < n; i++) {
        if (profiles[i].num < 0 || profiles[i].num > MAX_COUNT)
            return err_set(e, ERR_INVALID, "%s: the count must be from 0 to %d", profiles[i].key,
                           MAX_COUNT);
        ret[i] = (struct mig_request){profiles[i].key, (unsigned)profiles[i].num};
    }
    return 0;
}

/* Puts a resolved geometry into the wish, or refuses. */
static bool want_mig(struct source *s, const struct resolve_card *card,
                     const struct jx_pair *profiles, size_t n, struct device_want *want)
{
    if (!card->mig_capable || !card->table) {
        refuse(s, "MIGUnsupported", card, "this card has no MIG");
        return false;
    }
    struct mig_request requests[MIG_MAX_WANTS];
    auto_err struct err e = {0};
    struct mig_wants wants = {0};
    int rc = requests_of(profiles, n, requests, &e);
    if (rc == 0)
        rc = mig_resolve(card->table, requests, n, &wants, &e);
    if (rc < 0) {
        refuse(s, reason_of(rc), card, err_msg(&e));
        return false;
    }
    want->mode = API_MODE_MIG;
    want_profiles(want, card->table, &wants);
    return check_geometry(s, card, &wants);
}

static bool want_builtin(struct source *s, const struct resolve_card *card, const char *name,
                         struct device_want *want)
{
    if (strcmp(name, "all-disabled") == 0)
        return true;
    if (!card->mig_capable || !card->table) {
        refuse(s, "MIGUnsupported", card, "this card has no MIG");
        return false;
    }
    auto_err struct err e = {0};
    struct mig_wants wants;
    bool enabled;
    if (mig_named_layout(card->table, name, &enabled, &wants, &e) < 0) {
        refuse(s, "UnknownProfile", card, err_msg(&e));
        return false;
    }
    want->mode = enabled ? API_MODE_MIG : API_MODE_NATIVE;
    if (enabled)
        want_profiles(want, card->table, &wants);
    return true;
}

static bool judge(struct source *s, const struct claim *c, const struct resolve_card *card,
                  struct device_want *want)
{
    if (c->config) {
        const struct migconfig_entry *entry = config_entry(c->config, card);
        assert(entry); /* the claim was made by one */
        return !entry->mig_enabled ||
               want_mig(s, card, entry->mig_devices, entry->n_mig_devices, want);
    }
    if (c->builtin)
        return want_builtin(s, card, c->builtin, want);
    if (!c->entry || c->entry->mode != API_MODE_MIG)
        return true;
    return want_mig(s, card, c->entry->mig.profiles, c->entry->mig.n_profiles, want);
}

static void stamp(struct device_want *want, const struct source *s, const struct claim *c,
                  const struct resolve_card *card)
{
    want->uuid = xstrdup(card->uuid);
    want->has_source = true;
    want->source = source_id(s);
    want->has_rollout = true;
    want->rollout.timeout_s = 600;
    if (s->profile) {
        want->rollout.drain = s->profile->rollout.drain;
        want->rollout.timeout_s = s->profile->rollout.timeout_s;
        want->failure_policy = s->profile->failure_policy;
    }
    if (c->entry && c->entry->has_sharing) {
        want->has_sharing = true;
        want->sharing.time_slicing.replicas = c->entry->sharing.time_slicing.replicas;
    }
}

static void judge_cards(struct work *w)
{
    for (size_t i = 0; i < w->in->n_cards; i++) {
        struct source *s = w->owner[i];
        if (!s || s->claims[i].unknown)
            continue;
        (void)judge(s, &s->claims[i], &w->in->cards[i], &w->wants[i]);
        stamp(&w->wants[i], s, &s->claims[i], &w->in->cards[i]);
    }
}

/* --- The result --- */

static void want_copy(const struct device_want *from, struct device_want *to)
{
    *to = *from;
    to->uuid = xstrdup(from->uuid);
    to->source.name = xstrdup(from->source.name);
    to->mig.profiles = NULL;
    to->mig.n_profiles = 0;
    for (size_t i = 0; i < from->mig.n_profiles; i++) {
        struct profile_count *pc = XPUSH(to->mig.profiles, to->mig.n_profiles);
        pc->profile = xstrdup(from->mig.profiles[i].profile);
        pc->count = from->mig.profiles[i].count;
    }
}

static const struct device_want *in_force(const struct work *w, const char *uuid)
{
    const struct device_spec *current = w->in->current;
    for (size_t i = 0; current && i < current->n_devices; i++)
        if (strcmp(current->devices[i].uuid, uuid) == 0)
            return &current->devices[i];
    return NULL;
}

static void emit_card(struct work *w, size_t i, struct device_spec *spec)
{
    struct source *s = w->owner[i];
    if (s && !s->refused) {
        *XPUSH(spec->devices, spec->n_devices) = w->wants[i];
        w->wants[i] = (struct device_want){0};
        return;
    }
    const struct device_want *kept =
        s || w->contested[i] ? in_force(w, w->in->cards[i].uuid) : NULL;
    if (kept)
        want_copy(kept, XPUSH(spec->devices, spec->n_devices));
}

static int by_uuid(const void *a, const void *b)
{
    return strcmp(((const struct device_want *)a)->uuid, ((const struct device_want *)b)->uuid);
}

/* The source that speaks for the node as a whole: the strongest that governs a card. */
static const struct source *leading(const struct work *w)
{
    const struct source *top = NULL;
    for (size_t i = 0; i < w->n_sources; i++) {
        const struct source *s = &w->sources[i];
        if (s->owned && !s->refused && (!top || leads(s, top)))
            top = s;
    }
    return top;
}

/* Names of resources belong to the node, so the strongest profile decides, under a label too.
 * While that one is refused, or equals disagree, the names that are in force stay. */
static int strategy(const struct work *w)
{
    const struct source *top = NULL;
    bool agreed = true;
    for (size_t i = 0; i < w->n_sources; i++) {
        const struct source *s = &w->sources[i];
        if (!s->profile || !s->claimed || (top && beats(top, s)))
            continue;
        if (!top || beats(s, top) || (top->refused && !s->refused)) {
            top = s;
            agreed = true;
        } else if (!s->refused) {
            agreed &= s->profile->mig_strategy == top->profile->mig_strategy;
        }
    }
    if (top && !top->refused && agreed)
        return top->profile->mig_strategy;
    return top && w->in->current ? w->in->current->mig_strategy : API_STRATEGY_MIXED;
}

static void emit_spec(struct work *w, struct device_spec *spec)
{
    *spec = (struct device_spec){.mig_strategy = strategy(w), .has_rollout = true};
    spec->rollout.timeout_s = 600;
    for (size_t i = 0; i < w->in->n_cards; i++)
        emit_card(w, i, spec);
    if (spec->n_devices)
        qsort(spec->devices, spec->n_devices, sizeof(*spec->devices), by_uuid);
    const struct source *lead = leading(w);
    if (!lead)
        return;
    spec->has_source = true;
    spec->source = source_id(lead);
    if (!lead->profile)
        return;
    spec->rollout.drain = lead->profile->rollout.drain;
    spec->rollout.timeout_s = lead->profile->rollout.timeout_s;
    spec->failure_policy = lead->profile->failure_policy;
}

static enum resolve_verdict verdict_of(const struct source *s)
{
    if (s->refused)
        return RESOLVE_REFUSED;
    if (!s->claimed)
        return RESOLVE_NOT_CONCERNED;
    if (s->owned)
        return RESOLVE_GOVERNS;
    return s->contends ? RESOLVE_REFUSED : RESOLVE_OVERRIDDEN;
}

static void report_overridden(struct work *w, struct source *s)
{
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    for (size_t i = 0; i < w->in->n_cards; i++) {
        const struct source *o = w->owner[i];
        if (!s->claims[i].made || !o || o == s)
            continue;
        sb_addf(&text, "%sGPU %u is governed by %s %s", text.len ? ", " : "", w->in->cards[i].index,
                o->profile ? "GPUProfile" : "the node's label", o->name);
    }
    if (text.len)
        add_problem(s, "Overridden", NULL, sb_str(&text));
}

static void emit_outcomes(struct work *w, struct resolve_result *ret)
{
    for (size_t i = 0; i < w->n_sources; i++) {
        struct source *s = &w->sources[i];
        report_overridden(w, s);
        struct resolve_outcome *o = XPUSH(ret->outcomes, ret->n_outcomes);
        o->source = source_id(s);
        o->verdict = verdict_of(s);
        o->n_cards = s->refused ? 0 : s->owned;
        o->problems = TAKE(s->problems);
        o->n_problems = s->n_problems;
    }
}

static void add_source(struct work *w, struct source s)
{
    s.claims = xcalloc(w->in->n_cards, sizeof(*s.claims));
    w->sources[w->n_sources++] = s;
}

static void collect_sources(struct work *w)
{
    const struct resolve_input *in = w->in;
    w->sources = xcalloc(in->n_profiles + 1, sizeof(*w->sources));
    if (in->label && *in->label)
        add_source(w, (struct source){.kind = API_SOURCE_NODE_LABEL, .name = in->label});
    for (size_t i = 0; i < in->n_profiles; i++)
        add_source(w, (struct source){.kind = API_SOURCE_PROFILE,
                                      .name = in->profiles[i].name,
                                      .generation = in->profiles[i].generation,
                                      .profile = in->profiles[i].spec});
}

static void want_done(struct device_want *want)
{
    struct device_spec holder = {.devices = xmemdup(want, sizeof(*want)), .n_devices = 1};
    device_spec_done(&holder);
}

static void work_done(struct work *w)
{
    for (size_t i = 0; i < w->n_sources; i++)
        free(w->sources[i].claims);
    for (size_t i = 0; i < w->in->n_cards; i++)
        want_done(&w->wants[i]);
    free(w->sources);
    free(w->owner);
    free(w->contested);
    free(w->wants);
}

void resolve_node(const struct resolve_input *in, struct resolve_result *ret)
{
    *ret = (struct resolve_result){0};
    struct work w = {
        .in = in,
        .owner = xcalloc(in->n_cards, sizeof(*w.owner)),
        .contested = xcalloc(in->n_cards, sizeof(*w.contested)),
        .wants = xcalloc(in->n_cards, sizeof(*w.wants)),
    };
    collect_sources(&w);
    make_claims(&w);
    for (size_t i = 0; i < in->n_cards; i++)
        give_card(&w, i);
    judge_cards(&w);
    emit_spec(&w, &ret->spec);
    emit_outcomes(&w, ret);
    work_done(&w);
}

void resolve_result_done(struct resolve_result *r)
{
    device_spec_done(&r->spec);
    for (size_t i = 0; i < r->n_outcomes; i++) {
        struct resolve_outcome *o = &r->outcomes[i];
        for (size_t k = 0; k < o->n_problems; k++) {
            free(o->problems[k].reason);
            free(o->problems[k].message);
            free(o->problems[k].uuid);
        }
        free(o->problems);
        free(o->source.name);
    }
    free(r->outcomes);
    *r = (struct resolve_result){0};
}

static int64_t count_of(const struct profile_count *list, size_t n, const char *profile)
{
    int64_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].profile, profile) == 0)
            count += list[i].count;
    return count;
}

static int64_t total(const struct profile_count *list, size_t n)
{
    int64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += list[i].count;
    return count;
}

bool resolve_card_matches(const struct resolve_card *card, const struct device_want *want)
{
    if (card->mode != want->mode)
        return false;
    if (want->mode != API_MODE_MIG)
        return true;
    const struct profile_count *wanted = want->mig.profiles;
    size_t n = want->mig.n_profiles;
    for (size_t i = 0; i < n; i++)
        if (count_of(card->partitions, card->n_partitions, wanted[i].profile) != wanted[i].count)
            return false;
    return total(card->partitions, card->n_partitions) == total(wanted, n);
}
