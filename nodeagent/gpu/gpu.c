/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/gpu.h"

#include <stdlib.h>

void gpu_card_done(struct gpu_card *c)
{
    free(TAKE(c->processes));
    c->n_processes = 0;
}

void gpu_inventory_done(struct gpu_inventory *inv)
{
    for (size_t i = 0; i < inv->n_cards; i++)
        gpu_card_done(&inv->cards[i]);
    free(TAKE(inv->cards));
    inv->n_cards = 0;
}

struct gpu *gpu_free(struct gpu *g)
{
    return g ? g->ops->free(g) : NULL;
}
