/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/auto.h"

#include "partition/resolve_work.h"
#include "partition/select.h"

enum { MAX_NAMES = 8 };

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

const struct migconfig_entry *resolve_config_entry(const struct migconfig_spec *spec,
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

/* A name is built in when it is for any card of the node; each card is judged by itself later. */
static bool is_builtin(const struct resolve_input *in, const char *name)
{
    if (strcmp(name, "all-disabled") == 0)
        return true;
    for (size_t i = 0; i < in->n_cards; i++)
        if (has_builtin(&in->cards[i], name))
            return true;
    return false;
}

/* Fills the claim from a name; false when the named config has no entry for this card. */
static bool claim_named(struct claim *c, const struct resolve_config *config, const char *name,
                        const struct resolve_card *card)
{
    if (!config) {
        c->builtin = name;
        /* A name in the node's label concerns the models that have it, as in the configuration that
         * mig-parted generates; a profile's entry concerns exactly the cards that it selects. */
        return !c->from_label || has_builtin(card, name);
    }
    const struct migconfig_entry *entry = resolve_config_entry(config->spec, card);
    if (!entry || (entry->mig_enabled && !card->mig_capable && entry->n_indices == 0))
        return false;
    c->config = config->spec;
    return true;
}

static bool has_mig(const struct resolve_input *in)
{
    for (size_t i = 0; i < in->n_cards; i++)
        if (in->cards[i].table)
            return true;
    return false;
}

/* Adds the names that may have been meant by a misspelt one. A MIGConfig may have a built-in name
 * too. */
static void add_names(const struct resolve_input *in, struct sb *out)
{
    static const char *const builtin[] = {"all-disabled", "all-enabled", "all-balanced"};
    size_t shown = 0;
    sb_add(out, "; there are ");
    for (size_t i = 0; i < ARRAY_LEN(builtin); i++)
        if (is_builtin(in, builtin[i]))
            sb_addf(out, "%s, ", builtin[i]);
    sb_add(out, "all-<profile>");
    for (size_t i = 0; i < in->n_configs && shown <= MAX_NAMES; i++) {
        if (is_builtin(in, in->configs[i].name))
            continue;
        sb_addf(out, ", %s", shown++ < MAX_NAMES ? in->configs[i].name : "…");
    }
}

static bool is_offered_before(const struct resolve_input *in, size_t n_cards, const char *profile)
{
    for (size_t i = 0; i < n_cards; i++) {
        const struct mig_table *t = in->cards[i].table;
        for (unsigned k = 0; t && k < t->n_profiles; k++)
            if (strcmp(t->profiles[k].name, profile) == 0)
                return true;
    }
    return false;
}

/* For a name in the form of a built-in one: adds the profiles that the node's cards have. */
static void add_profiles(const struct resolve_input *in, const struct mig_name *wanted,
                         struct sb *out)
{
    char name[MIG_NAME_BYTES];
    const char *separator = "";
    sb_addf(out, "; no card here has %s; there are ", mig_name_format(wanted, name));
    for (size_t i = 0; i < in->n_cards; i++) {
        const struct mig_table *t = in->cards[i].table;
        for (unsigned k = 0; t && k < t->n_profiles; k++) {
            if (is_offered_before(in, i, t->profiles[k].name))
                continue;
            sb_addf(out, "%s%s", separator, t->profiles[k].name);
            separator = ", ";
        }
    }
}

static bool names_profile(const char *name, struct mig_name *ret)
{
    static const char form[] = "all-";
    return strncmp(name, form, strlen(form)) == 0 &&
           mig_name_parse_label(name + strlen(form), ret, NULL) == 0 && !ret->ci_slices;
}

static void refuse_name(const struct resolve_input *in, struct source *s, const char *name)
{
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    struct mig_name profile = {0};
    sb_addf(&text, "there is no MIGConfig or built-in layout named \"%s\"", name);
    if (has_mig(in) && names_profile(name, &profile))
        add_profiles(in, &profile, &text);
    else if (has_mig(in))
        add_names(in, &text);
    else
        sb_add(&text, "; built-in ones need a card with MIG, and this node has none");
    resolve_refuse(s, "UnknownConfig", NULL, sb_str(&text));
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
        refuse_name(in, s, in->label);
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
        refuse_name(in, s, name);
}

static void claim_by_profile(struct work *w, struct source *s)
{
    for (size_t i = 0; i < s->profile->n_devices; i++)
        claim_entry(w, s, &s->profile->devices[i]);
    if (s->profile->remainder == API_REMAINDER_NATIVE)
        for (size_t i = 0; i < w->in->n_cards; i++)
            s->claims[i].made = true;
}

void resolve_make_claims(struct work *w)
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
