/* SPDX-License-Identifier: Apache-2.0 */
/* MXSML: state, ECC, resets, telemetry. Contracts are MXSML's own. */
#include <stdio.h>
#include <string.h>

#include "sim/metax.h"
#include "sim/mxsml_session.h"

unsigned int mxSmlGetDeviceState(unsigned int dev, int *state)
{
    struct mx_call c = {.id = CALL_mxSmlGetDeviceState};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && state == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        *state = !c.card->unavailable;
    return mx_leave(&c, rc);
}

/* Assumed: on an available card the code is 0 and the reason empty. */
unsigned int mxSmlGetDeviceUnavailableReason(unsigned int dev,
                                             struct mxsml_unavailable_reason *reason)
{
    struct mx_call c = {.id = CALL_mxSmlGetDeviceUnavailableReason};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && reason == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS) {
        *reason = (struct mxsml_unavailable_reason){.code = c.card->reason_code};
        (void)snprintf(reason->reason, sizeof(reason->reason), "%s", c.card->reason);
    }
    return mx_leave(&c, rc);
}

unsigned int mxSmlGetEccState(unsigned int dev, unsigned int *state)
{
    struct mx_call c = {.id = CALL_mxSmlGetEccState};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && state == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        *state = c.card->ecc_on;
    return mx_leave(&c, rc);
}

/* Assumed: with ECC off nothing is counted, and the query is not supported. */
unsigned int mxSmlGetTotalEccErrors(unsigned int dev, struct mxsml_ecc_errors *errors)
{
    struct mx_call c = {.id = CALL_mxSmlGetTotalEccErrors};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && errors == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS && !c.card->ecc_on)
        rc = MXSML_OPERATION_NOT_SUPPORT;
    if (rc == MXSML_SUCCESS)
        *errors = (struct mxsml_ecc_errors){.sram_ce = c.card->ecc.sram_ce,
                                            .sram_ue = c.card->ecc.sram_ue,
                                            .dram_ce = c.card->ecc.dram_ce,
                                            .dram_ue = c.card->ecc.dram_ue,
                                            .retired_page = c.card->ecc.retired_pages};
    return mx_leave(&c, rc);
}

/* A warm reset applies to a card, not to a virtual function. */
unsigned int mxSmlReset(unsigned int dev)
{
    struct mx_call c = {.id = CALL_mxSmlReset};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && c.vf != HW_NONE)
        rc = MXSML_OPERATION_NOT_SUPPORT;
    if (rc == MXSML_SUCCESS)
        rc = mx_reset(c.hw, c.metax);
    return mx_leave(&c, rc);
}

unsigned int mxSmlFunctionLevelReset(unsigned int dev)
{
    struct mx_call c = {.id = CALL_mxSmlFunctionLevelReset};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS)
        rc = mx_flr(c.hw, c.metax, c.vf);
    return mx_leave(&c, rc);
}

static bool is_busy(const struct mx_call *c)
{
    return mx_count_procs(c->hw, c->metax, HW_NONE, c->vf) > 0;
}

/* Assumed: percent, and 0 for units that a C-class card does not have. */
unsigned int mxSmlGetDeviceIpUsage(unsigned int dev, unsigned int ip, int *usage)
{
    struct mx_call c = {.id = CALL_mxSmlGetDeviceIpUsage};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && (usage == NULL || ip > MXSML_USAGE_XCORE))
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        *usage = ip == MXSML_USAGE_XCORE && is_busy(&c) ? 87 : 0;
    return mx_leave(&c, rc);
}

/* Assumed: one rail feeds the whole board. */
unsigned int mxSmlGetBoardPowerInfo(unsigned int dev, unsigned int *number,
                                    struct mxsml_board_power *ways)
{
    static const unsigned int voltage_mv = 54000;
    struct mx_call c = {.id = CALL_mxSmlGetBoardPowerInfo};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && number == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS && *number < 1) {
        *number = 1;
        rc = MXSML_INSUFFICIENT_SIZE;
    }
    if (rc == MXSML_SUCCESS && ways == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS) {
        unsigned int power_mw = mx_model_of(c.card)->power_limit_w * (is_busy(&c) ? 900 : 150);
        *number = 1;
        *ways = (struct mxsml_board_power){.voltage = voltage_mv,
                                           .current = power_mw / (voltage_mv / 1000),
                                           .power = power_mw};
    }
    return mx_leave(&c, rc);
}

unsigned int mxSmlGetBoardPowerLimit(unsigned int dev, unsigned int *limit)
{
    struct mx_call c = {.id = CALL_mxSmlGetBoardPowerLimit};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && limit == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        *limit = mx_model_of(c.card)->power_limit_w * 1000;
    return mx_leave(&c, rc);
}

/* Assumed: the hot spot is the only sensor. */
unsigned int mxSmlGetTemperatureInfo(unsigned int dev, unsigned int sensor, int *temperature)
{
    struct mx_call c = {.id = CALL_mxSmlGetTemperatureInfo};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && (temperature == NULL || sensor != MXSML_TEMPERATURE_HOTSPOT))
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS)
        *temperature = is_busy(&c) ? 6150 : 3725;
    return mx_leave(&c, rc);
}
