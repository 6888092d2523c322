/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/mode/card_mode.h"

#include <assert.h>
#include <stdio.h>

/* Each file defines its own. */
#define MODE(name, word) extern const struct card_mode card_mode_##word;
#include "api/modes.def"
#undef MODE

#define MODE(name, word) [GPU_##name] = &card_mode_##word,
static const struct card_mode *const rows[] = {
#include "api/modes.def"
};
#undef MODE

const struct card_mode *card_mode_at(unsigned i)
{
    return i < ARRAY_LEN(rows) ? rows[i] : NULL;
}

const struct card_mode *card_mode_of(enum gpu_mode mode)
{
    assert((size_t)mode < ARRAY_LEN(rows));
    return rows[mode];
}

bool card_can_be_cut(const struct gpu_card *card)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i]->is_possible && rows[i]->is_possible(card))
            return true;
    return false;
}

/* --- Parts --- */

static_assert(MIG_NAME_BYTES >= SGPU_ALIAS_BYTES, "a buffer for a name takes both");
static_assert(CARD_PLACE_BYTES >= SGPU_ALIAS_BYTES, "a slice is named by its alias");
static_assert(GPU_MAX_PARTITIONS >= SGPU_MAX_SLICES && GPU_MAX_PARTITIONS >= GPU_MAX_VFS,
              "no card has more parts than that");

unsigned card_parts(const struct gpu_card *card)
{
    const struct card_mode *m = card_mode_of(card->mode);
    unsigned n = m->count ? m->count(card) : 0;
    assert(n <= GPU_MAX_PARTITIONS);
    return n;
}

struct card_part card_part_at(const struct gpu_card *card, unsigned i)
{
    assert(i < card_parts(card));
    return card_mode_of(card->mode)->part_at(card, i);
}

bool card_part_kind(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    return card_mode_of(card->mode)->kind(card, p, buf);
}

void card_part_name(const struct gpu_card *card, const struct card_part *p, char *buf)
{
    bool slot = p->slice && !p->foreign && sgpu_slot_of(p->slice->alias) >= 0;
    if (!card_part_kind(card, p, buf))
        (void)snprintf(buf, MIG_NAME_BYTES, slot ? "sgpu" : "unknown");
}

bool card_part_is_used_by(const struct card_part *p, const struct gpu_user *by)
{
    assert(p->number >= 0 && p->ci >= -1);
    return by->part == p->number && (p->ci < 0 || by->ci < 0 || by->ci == p->ci);
}

bool card_part_is_good(const struct card_part *p)
{
    return p->healthy && !p->foreign;
}
