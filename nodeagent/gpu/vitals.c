/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/vitals.h"

#include <stdio.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/nvml_abi.h"

struct remedy {
    const char *reason, *message;
};

static const struct remedy actions[] = {
    [NVML_RECOVERY_RESET] = {"ResetRequired",
                             "the driver asks for a reset: end the work on the card, then "
                             "nvidia-smi --gpu-reset"},
    [NVML_RECOVERY_REBOOT] = {"RebootRequired", "the driver asks for a reboot of the node"},
    [NVML_RECOVERY_DRAIN_P2P] = {"RecoveryRequired",
                                 "the driver asks to end the work that uses NVLink to or from "
                                 "this card"},
    [NVML_RECOVERY_DRAIN_AND_RESET] = {"ResetRequired",
                                       "the driver takes no new work on the card: let what runs "
                                       "end, then nvidia-smi --gpu-reset"},
    [NVML_RECOVERY_IMEX_DOMAIN] = {"RecoveryRequired",
                                   "the driver asks for a recovery of the IMEX domain"},
    [NVML_RECOVERY_BUS_RESET] = {"RebootRequired",
                                 "the driver asks for a reset of the card's PCIe bus"},
    [NVML_RECOVERY_SYSTEM_REBOOT] = {"RebootRequired", "the driver asks for a reboot of the node"},
};

static const struct remedy unknown_action = {"RecoveryRequired",
                                             "the driver asks for a recovery that is not known "
                                             "here (nvidia-smi -q shows it)"};
static const struct remedy remap_failed =
    {"RowRemapFailure", "memory rows could not be remapped: have the card checked and replaced"};
static const struct remedy uncorrected =
    {"UncorrectableECC", "memory errors that ECC could not correct since the last reset: end the "
                         "work on the card, then nvidia-smi --gpu-reset"};

/* NULL: healthy. */
static const struct remedy *remedy_of(const struct gpu_vitals *v)
{
    if (v->action_known && v->action != NVML_RECOVERY_NONE)
        return v->action < ARRAY_LEN(actions) ? &actions[v->action] : &unknown_action;
    if (v->remap_known && v->remap_failed)
        return &remap_failed;
    return !v->action_known && v->ecc_known && v->ecc_uncorrected ? &uncorrected : NULL;
}

void gpu_card_mark_ill(struct gpu_card *card, const char *reason, const char *message)
{
    card->healthy = false;
    (void)snprintf(card->unhealthy_reason, sizeof(card->unhealthy_reason), "%s", reason);
    (void)snprintf(card->unhealthy_message, sizeof(card->unhealthy_message), "%s", message);
    for (unsigned i = 0; i < card->n_partitions; i++)
        card->partitions[i].healthy = false;
}

void vitals_judge(struct gpu_card *card)
{
    const struct remedy *r = remedy_of(&card->vitals);
    card->healthy = true;
    if (r)
        gpu_card_mark_ill(card, r->reason, r->message);
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
    return v->action_known && v->action == NVML_RECOVERY_NONE;
}

bool vitals_show_reset(const struct gpu_vitals *before, const struct gpu_vitals *after)
{
    bool remapped =
        before->remap_known && after->remap_known && before->remap_pending && !after->remap_pending;
    bool counts_anew =
        before->ecc_known && after->ecc_known && after->ecc_uncorrected < before->ecc_uncorrected;
    bool acted =
        before->action_known && before->action != NVML_RECOVERY_NONE && vitals_are_well(after);
    return remapped || counts_anew || acted;
}
