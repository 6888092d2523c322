/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/nvidia/nvml_vitals.h"

#include "base/auto.h"

#include "nodeagent/gpu/vitals.h"
#include "nodeagent/vendor/nvidia/nvml_abi.h"

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

void nvml_vitals_judge(struct gpu_card *card)
{
    const struct remedy *r = remedy_of(&card->vitals);
    card->healthy = true;
    if (r)
        gpu_card_mark_ill(card, r->reason, r->message);
}
