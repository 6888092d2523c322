/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/vitals.h"

#include <assert.h>
#include <stdio.h>

void gpu_card_mark_ill(struct gpu_card *card, const char *reason, const char *message)
{
    assert(*reason && card->n_partitions <= GPU_MAX_PARTITIONS); /* a condition needs a reason */
    card->healthy = false;
    (void)snprintf(card->unhealthy_reason, sizeof(card->unhealthy_reason), "%s", reason);
    (void)snprintf(card->unhealthy_message, sizeof(card->unhealthy_message), "%s", message);
    for (unsigned i = 0; i < card->n_partitions; i++)
        card->partitions[i].healthy = false;
}

const char *vitals_notice(const struct gpu_vitals *v, const char **ret_message)
{
    if (v->remap_known && v->remap_pending) {
        *ret_message = "memory rows will be remapped at the next reset; work may go on until then";
        return "RowRemapPending";
    }
    if (v->retired_pending) {
        *ret_message = "memory pages will be retired at the next reset; work may go on until then";
        return "PageRetirementPending";
    }
    return NULL;
}

bool vitals_are_well(const struct gpu_vitals *v)
{
    return v->action_known && v->action == 0;
}

bool vitals_show_reset(const struct gpu_vitals *before, const struct gpu_vitals *after)
{
    bool remapped =
        before->remap_known && after->remap_known && before->remap_pending && !after->remap_pending;
    bool counts_anew =
        before->ecc_known && after->ecc_known && after->ecc_uncorrected < before->ecc_uncorrected;
    bool acted = before->action_known && before->action != 0 && vitals_are_well(after);
    return remapped || counts_anew || acted;
}
