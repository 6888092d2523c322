/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/mode/card_layout.h"

#include <assert.h>

static_assert(CARD_MAX_STEPS >= 2 * SGPU_MAX_SLICES + 4, "a change of slices has room, too");
static_assert(MIG_MAX_INSTANCES <= 32 && SGPU_MAX_SLICES <= 32,
              "card_steps.blocking has a bit each");

struct card_step *card_steps_add(struct card_steps *s, enum card_step_kind kind)
{
    assert(s->n < CARD_MAX_STEPS);
    struct card_step *step = &s->items[s->n++];
    *step = (struct card_step){.kind = kind, .ci_start = -1};
    return step;
}

bool card_is_used_as_a_whole(const struct gpu_card *card)
{
    assert(card->n_users == 0 || card->users);
    for (unsigned i = 0; i < card->n_users; i++)
        if (card->mode == GPU_NATIVE || card->users[i].part < 0)
            return true;
    return false;
}
