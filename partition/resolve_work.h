/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/sb.h"

#include "partition/resolve_types.h"

enum { TEXT_BYTES = 1024, MAX_COUNT = 64 };

/*
 * Resolves one node in four passes. 1. Every source (the label, each profile) claims cards as if
 * it were alone. 2. Each card is assigned to one source, or to none in a conflict. 3. Each source's
 * cards are judged against the hardware; a single bad one refuses all of the source's cards.
 * 4. The cards of the node are judged together. Internal to resolve*.c.
 */

/* The want of one source for one card. */
struct claim {
    bool made;
    const struct migconfig_spec *config;  /* from a MIGConfig … */
    const char *builtin;                  /* … or a built-in layout … */
    const struct gpuprofile_entry *entry; /* … or a profile's entry; NULL: remainder native */
    bool from_label;
    bool unknown; /* the named config does not exist; the source is refused */
};

struct source {
    enum api_source_kind kind;
    const char *name;
    int64_t generation;
    const struct gpuprofile_spec *profile; /* NULL: the label */
    struct claim *claims;                  /* one for each card */
    size_t owned, claimed;
    bool refused;
    bool contends; /* it is one of the sources of a conflict */
    struct resolve_problem *problems;
    size_t n_problems;
};

struct work {
    const struct resolve_input *in;
    struct source *sources;
    size_t n_sources;
    struct source **owner;     /* for each card; NULL: no source, or a conflict */
    bool *contested;           /* for each card: in conflict */
    struct device_want *wants; /* for each card that has an owner and was judged good */
};

/* A total order of sources, so that the result does not depend on the order of the input. */
bool resolve_leads(const struct source *a, const struct source *b);
/* The want that stays in force for a card while its source is refused, or several contend for it;
 * NULL: there is none. Borrowed from the input. */
const struct device_want *resolve_kept_want(const struct work *w, size_t card);

/* The caller owns the name in it. */
struct device_source resolve_source_id(const struct source *s);
/* Adds a problem; card NULL: it concerns the whole node. */
void resolve_add_problem(struct source *s, const char *reason, const struct resolve_card *card,
                         const char *message);
/* Adds a problem with the card's number and model in front, and refuses all of the source's
 * cards. */
void resolve_refuse(struct source *s, const char *reason, const struct resolve_card *card,
                    const char *why);

/* Pass 1 (resolve_claims.c): what every source would take if it were alone. */
void resolve_make_claims(struct work *w);
/* The entry of a MIGConfig that applies to the card, or NULL. Borrowed. */
const struct migconfig_entry *resolve_config_entry(const struct migconfig_spec *spec,
                                                   const struct resolve_card *card);
/* Pass 3 (resolve_judge.c): the want of every card that has an owner, or the reason against it. */
void resolve_judge_cards(struct work *w);
/* Pass 4 (resolve_shares.c): refuses sources whose cards cannot be shared as wanted beside the
 * node's other cards. */
void resolve_judge_shares(struct work *w);
