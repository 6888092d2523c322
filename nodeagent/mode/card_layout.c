/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/mode/card_layout.h"

#include <assert.h>

struct card_step *card_steps_add(struct card_steps *s, enum card_step_kind kind)
{
    assert(s->n < CARD_MAX_STEPS);
    struct card_step *step = &s->items[s->n++];
    *step = (struct card_step){.kind = kind, .ci_start = -1};
    return step;
}

bool card_is_used_as_a_whole(const struct gpu_card *card)
{
    for (unsigned i = 0; i < card->n_processes; i++)
        if (card->mode == GPU_NATIVE || card->processes[i].part < 0)
            return true;
    return false;
}
