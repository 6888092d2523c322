/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/sb.h"

#include "api/device.h"
#include "nodeagent/container/entry.h"
#include "nodeagent/mode/card_layout.h"
#include "nodeagent/mode/card_part.h"

/*
 * All that the agent knows of one mode: of the parts of a card in this mode, and of the way there
 * and back. A mode is a line of api/modes.def and a file beside this one, which defines
 * card_mode_<word>. What reads, counts, plans, offers and reports asks the row: in the agent
 * nothing else tells the modes apart, except what only one of them has. Modes are told apart by
 * name in partition/resolve_judge.c, resolve.c and resource_names.c, reconcilers/node_resources.c,
 * nodeagent/commands/layout_check.c, and the enums of crds/: each has to know a new one.
 * docs/adding-a-mode.md has it worked through.
 *
 * Rows are immutable and static, their functions pure. A member that may be NULL says what that
 * means; the others are required.
 */

/* Why a card cannot have a layout. */
struct card_unfit {
    const char *reason;       /* CamelCase, static */
    char message[384];        /* for a person */
    struct mig_wants nearest; /* a layout that would fit; n 0: none */
};

/* The refusals of a mode that no call switches on or off. */
struct card_fixed {
    const char *stands, *stands_why;   /* the card has it, and another mode is wanted */
    const char *missing, *missing_why; /* it is wanted, and the card does not have it */
};

struct card_mode {
    /* --- Words --- */
    const char *word;               /* "MIG": "switch MIG off", "this card has no MIG" */
    const char *bare;               /* the layout of a card without parts: "nothing cut" */
    const char *summary;            /* the same in one word, for the Device's column */
    const char *unsupported;        /* reason of a card that cannot have the mode. NULL: all can */
    const struct card_fixed *fixed; /* NULL: steps lead there and back */

    /* True when the card can have the mode. NULL: every card. */
    bool (*is_possible)(const struct gpu_card *card);

    /* --- Parts. All NULL: the card is one device, without parts --- */
    unsigned (*count)(const struct gpu_card *card);
    struct card_part (*part_at)(const struct gpu_card *card, unsigned i);
    bool (*kind)(const struct gpu_card *card, const struct card_part *p, char *buf);
    /* What names the part on its card for ever, also when it is made again: "1g.10gb@4". False:
     * nothing does. */
    bool (*place)(const struct gpu_card *card, const struct card_part *p, char *buf);
    /* The name of the resource. strategy, renamed: as resource_name. buf holds
     * RESOURCE_NAME_BYTES. False: such a part is not offered. */
    bool (*resource)(const char *vendor, int strategy, bool renamed, const char *kind, char *buf);
    bool can_share; /* a spec may let several containers share a part */
    /* Turns the card's entry into the part's, with its cdi_name. */
    void (*set_entry)(const struct gpu_card *card, const struct card_part *p,
                      struct entry_device *d);
    /* Fills in what the status says of the part beside its profile and its users. */
    void (*show)(const struct gpu_card *card, const struct card_part *p,
                 struct device_partition *to);
    /* Adds what `inspect` prints of the part, without indentation or newline. */
    void (*describe)(const struct gpu_card *card, const struct card_part *p, struct sb *b);

    /* --- Layouts --- */
    /* Translates a want of this mode. NULL: the mode says everything. */
    int (*wish_of)(const struct gpu_card *card, const struct device_want *want,
                   struct card_wish *ret, struct err *e);
    /* Adds the parts that exist, with their places. NULL: no step makes any. */
    void (*layout_of)(const struct gpu_card *card, struct card_layout *ret);
    /* Chooses the layout for a wish of this mode; the card may be in another one. False: there is
     * none. NULL: the mode is the whole layout. */
    bool (*target_of)(const struct gpu_card *card, const struct card_wish *wish,
                      struct card_layout *ret, struct card_unfit *why);
    /* Adds the steps before the switch of modes: for a card in this mode, what the layout (of any
     * mode) does not keep. Marks what is in use as blocking. NULL: nothing is destroyed. */
    void (*steps_down)(const struct gpu_card *card, const struct card_layout *layout,
                       struct card_steps *ret);
    /* Adds those after the switch: for a layout of this mode, what is missing. NULL: nothing. */
    void (*steps_up)(const struct gpu_card *card, const struct card_layout *layout,
                     struct card_steps *ret);
    /* Adds the name of the item whose bit i in steps.blocking is set; returns the number by which
     * its users name it. NULL: its steps set none. */
    int (*blocking_item)(const struct gpu_card *card, unsigned i, struct sb *b);
    /* True when the steps cannot run before part i is free. NULL: always false. */
    bool (*must_be_free)(const struct card_steps *steps, const struct card_part *p, unsigned i);
    /* stays[i]: part i is left on offer. True when no wanted part was taken. NULL: always true. */
    bool (*keeps)(const struct gpu_card *card, const struct device_want *want, const bool *stays);
};

/* The row of a mode. */
const struct card_mode *card_mode_of(enum gpu_mode mode);
/* The rows in the order of the enum; NULL past the end. */
const struct card_mode *card_mode_at(unsigned i);
/* True when the card can have another mode than a whole card's. */
bool card_can_be_cut(const struct gpu_card *card);

/* --- Parts of a card, whatever its mode --- */

/* The number of parts that exist. */
unsigned card_parts(const struct gpu_card *card);
/* The part at i, below card_parts: partitions in the order of card.partitions, slices in that of
 * card.sgpu, functions in that of card.vfs. */
struct card_part card_part_at(const struct gpu_card *card, unsigned i);

/* The kind of a part: "1g.10gb", the alias of a slice without its number, or "vf". False: the kind
 * is not known, or the slice was not ordered by kind. buf holds MIG_NAME_BYTES. */
bool card_part_kind(const struct gpu_card *card, const struct card_part *p, char *buf);
/* The kind for the status: as above, "sgpu" for a slice that was made for a pod, else "unknown".
 * buf holds MIG_NAME_BYTES. */
void card_part_name(const struct gpu_card *card, const struct card_part *p, char *buf);
/* True when this process or pod uses the part. */
bool card_part_is_used_by(const struct card_part *p, const struct gpu_user *by);
/* True when the part may be offered: it is not ill and not foreign. */
bool card_part_is_good(const struct card_part *p);
