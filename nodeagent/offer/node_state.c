/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/node_state.h"

#include <string.h>

const struct device_want *node_state_want(const struct node_state *s, const char *uuid)
{
    return device_spec_want(s->spec, uuid);
}

const struct card_memo *node_state_memo(const struct node_state *s, const char *uuid)
{
    for (size_t i = 0; i < s->n_memos; i++)
        if (strcmp(s->memos[i].uuid, uuid) == 0)
            return &s->memos[i];
    return NULL;
}
