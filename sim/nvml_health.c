/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: ECC, row remapping, retired pages, field values. Contracts are NVML's own. */
#include <limits.h>
#include <time.h>

#include "sim/nvml_calls.h"
#include "sim/nvml_load.h"

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    struct call c = {.id = CALL_nvmlDeviceGetEccMode};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && (current == NULL || pending == NULL))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS) {
        *current = c.gpu->ecc_current;
        *pending = c.gpu->ecc_pending;
    }
    return call_leave(&c, rc);
}

static uint64_t ecc_total(const struct hw_ecc *e, unsigned int type, unsigned int counter)
{
    if (type == 0)
        return counter == 0 ? e->corrected_volatile : e->corrected_aggregate;
    return counter == 0 ? e->uncorrected_volatile : e->uncorrected_aggregate;
}

/* Counters exist only while ECC is on. */
static int ecc_arguments(const struct call *c, unsigned int type, unsigned int counter,
                         const void *out)
{
    if (out == NULL || type > 1 || counter > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    return c->gpu->ecc_current ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int errorType,
                                         unsigned int counterType, unsigned long long *eccCounts)
{
    struct call c = {.id = CALL_nvmlDeviceGetTotalEccErrors};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS)
        rc = ecc_arguments(&c, errorType, counterType, eccCounts);
    if (rc == NVML_SUCCESS)
        *eccCounts = ecc_total(&c.gpu->ecc, errorType, counterType);
    return call_leave(&c, rc);
}

/* MEMORY_LOCATION: DRAM 2, SRAM 7; finer locations of SRAM have no counters here. */
static uint64_t ecc_at(const struct hw_ecc *e, unsigned int type, unsigned int counter,
                       unsigned int location)
{
    uint64_t sram = type == 0 ? e->sram_corrected : e->sram_uncorrected;
    if (location == 7)
        return sram;
    return location == 2 ? ecc_total(e, type, counter) - sram : 0;
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned int errorType,
                                             unsigned int counterType, unsigned int locationType,
                                             unsigned long long *count)
{
    struct call c = {.id = CALL_nvmlDeviceGetMemoryErrorCounter};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && locationType >= 8)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = ecc_arguments(&c, errorType, counterType, count);
    if (rc == NVML_SUCCESS)
        *count = ecc_at(&c.gpu->ecc, errorType, counterType, locationType);
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *status)
{
    struct call c = {.id = CALL_nvmlDeviceGetSramEccErrorStatus};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && status == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && status->version != NVML_STRUCT_VERSION(sizeof(*status), 1U))
        rc = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (rc == NVML_SUCCESS && !c.gpu->ecc_current)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS) {
        const struct hw_ecc *e = &c.gpu->ecc;
        *status = (nvmlEccSramErrorStatus_t){.version = status->version,
                                             .aggregateUncSecDed = e->sram_uncorrected,
                                             .aggregateCor = e->sram_corrected,
                                             .volatileUncSecDed = e->sram_uncorrected,
                                             .volatileCor = e->sram_corrected,
                                             .aggregateUncBucketSm = e->sram_uncorrected};
    }
    return call_leave(&c, rc);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrRows,
                                       unsigned int *uncRows, unsigned int *isPending,
                                       unsigned int *failureOccurred)
{
    struct call c = {.id = CALL_nvmlDeviceGetRemappedRows};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && (!corrRows || !uncRows || !isPending || !failureOccurred))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS && !hw_model(c.gpu)->row_remapping)
        rc = NVML_ERROR_NOT_SUPPORTED;
    if (rc == NVML_SUCCESS) {
        *corrRows = c.gpu->remap.corrected;
        *uncRows = c.gpu->remap.uncorrected;
        *isPending = c.gpu->remap.pending;
        *failureOccurred = c.gpu->remap.failed;
    }
    return call_leave(&c, rc);
}

/* Only generations before row remapping retire pages; here no page ever is. */
static int retirement(const struct call *c)
{
    return hw_model(c->gpu)->row_remapping ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

/* NOLINTBEGIN(readability-non-const-parameter): the ABI's parameters; no page is ever written. */
nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned int cause,
                                          unsigned int *pageCount, unsigned long long *addresses,
                                          unsigned long long *timestamps)
{
    struct call c = {.id = CALL_nvmlDeviceGetRetiredPages_v2};
    (void)addresses;
    (void)timestamps;
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && (pageCount == NULL || cause > 1))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = retirement(&c);
    if (rc == NVML_SUCCESS)
        *pageCount = 0;
    return call_leave(&c, rc);
}
/* NOLINTEND(readability-non-const-parameter) */

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned int cause,
                                       unsigned int *pageCount, unsigned long long *addresses)
{
    return nvmlDeviceGetRetiredPages_v2(device, cause, pageCount, addresses, NULL);
}

nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, unsigned int *isPending)
{
    struct call c = {.id = CALL_nvmlDeviceGetRetiredPagesPendingStatus};
    int rc = call_enter(&c, device, ON_WHOLE);
    if (rc == NVML_SUCCESS && isPending == NULL)
        rc = NVML_ERROR_INVALID_ARGUMENT;
    if (rc == NVML_SUCCESS)
        rc = retirement(&c);
    if (rc == NVML_SUCCESS)
        *isPending = 0;
    return call_leave(&c, rc);
}

static int put_uint(nvmlFieldValue_t *v, unsigned int value)
{
    v->valueType = VALUE_UINT;
    v->value.uiVal = value;
    return NVML_SUCCESS;
}

static int put_ull(nvmlFieldValue_t *v, unsigned long long value)
{
    v->valueType = VALUE_ULONGLONG;
    v->value.ullVal = value;
    return NVML_SUCCESS;
}

static int ecc_field(const struct hw_gpu *gpu, nvmlFieldValue_t *v, unsigned long long value)
{
    return gpu->ecc_current ? put_ull(v, value) : NVML_ERROR_NOT_SUPPORTED;
}

static int remap_field(const struct hw_gpu *gpu, nvmlFieldValue_t *v, unsigned int value)
{
    return hw_model(gpu)->row_remapping ? put_uint(v, value) : NVML_ERROR_NOT_SUPPORTED;
}

/* Links are numbered from 0; UINT_MAX: all of them. */
static int link_field(const struct call *c, nvmlFieldValue_t *v, unsigned long long of_all)
{
    unsigned int links = c->hw->links != LINKS_NONE ? hw_model(c->gpu)->nvlinks : 0;
    if (links == 0 || (v->scopeId != UINT_MAX && v->scopeId >= links))
        return NVML_ERROR_NOT_SUPPORTED;
    return put_ull(v, v->scopeId == UINT_MAX ? of_all : of_all / links);
}

/* Of all links, whatever the scope. */
static int link_errors_field(const struct call *c, nvmlFieldValue_t *v, unsigned long long value)
{
    bool linked = c->hw->links != LINKS_NONE && hw_model(c->gpu)->nvlinks > 0;
    return linked ? put_ull(v, value) : NVML_ERROR_NOT_SUPPORTED;
}

/* Only generations before row remapping retire pages; here no page ever is. */
static int retired_field(const struct hw_gpu *gpu, nvmlFieldValue_t *v)
{
    return hw_model(gpu)->row_remapping ? NVML_ERROR_NOT_SUPPORTED : put_uint(v, 0);
}

/* Fields that follow the work, and those of what never happens here. */
static int fill_moving_field(const struct call *c, nvmlFieldValue_t *v)
{
    if (c->gi != NULL)
        return NVML_ERROR_NOT_SUPPORTED;
    switch (v->fieldId) {
    case FI_MEMORY_TEMP:
        return put_uint(v, load_celsius(c) + 6);
    case FI_TOTAL_ENERGY:
        return put_ull(v, load_energy_mj(c));
    case FI_POWER_INSTANT:
        return put_uint(v, load_power_mw(c));
    case FI_PERF_POLICY_POWER:
        return put_ull(v, load_held_ns(c, HOLD_POWER));
    case FI_PERF_POLICY_THERMAL:
        return put_ull(v, load_held_ns(c, HOLD_HEAT));
    case FI_NVLINK_DATA_TX:
    case FI_NVLINK_DATA_RX:
        return link_field(c, v, load_nvlink_kib(c));
    case FI_NVLINK_CRC_FLIT_TOTAL:
        return link_errors_field(c, v, c->gpu->link_errors.crc_flits);
    case FI_NVLINK_CRC_DATA_TOTAL:
        return link_errors_field(c, v, c->gpu->link_errors.crc_data);
    case FI_NVLINK_REPLAY_TOTAL:
        return link_errors_field(c, v, c->gpu->link_errors.replays);
    case FI_NVLINK_RECOVERY_TOTAL:
        return link_errors_field(c, v, c->gpu->link_errors.recoveries);
    default:
        return NVML_ERROR_NOT_SUPPORTED;
    }
}

/* RESET_STATUS and DRAIN_AND_RESET_STATUS are the older fields for the recovery action. */
static int fill_field(const struct call *c, nvmlFieldValue_t *v)
{
    const struct hw_gpu *gpu = c->gpu;
    switch (v->fieldId) {
    case FI_ECC_CURRENT:
        return put_uint(v, gpu->ecc_current);
    case FI_ECC_PENDING:
        return put_uint(v, gpu->ecc_pending);
    case FI_ECC_SBE_VOL_TOTAL:
        return ecc_field(gpu, v, gpu->ecc.corrected_volatile);
    case FI_ECC_DBE_VOL_TOTAL:
        return ecc_field(gpu, v, gpu->ecc.uncorrected_volatile);
    case FI_ECC_SBE_AGG_TOTAL:
        return ecc_field(gpu, v, gpu->ecc.corrected_aggregate);
    case FI_ECC_DBE_AGG_TOTAL:
        return ecc_field(gpu, v, gpu->ecc.uncorrected_aggregate);
    case FI_RETIRED_SBE:
    case FI_RETIRED_DBE:
    case FI_RETIRED_PENDING:
        return retired_field(gpu, v);
    case FI_NVLINK_LINK_COUNT:
        return put_uint(v, hw_model(gpu)->nvlinks);
    case FI_PCIE_REPLAY_COUNTER:
        return put_uint(v, (unsigned int)gpu->pcie_replays);
    case FI_REMAPPED_COR:
        return remap_field(gpu, v, gpu->remap.corrected);
    case FI_REMAPPED_UNC:
        return remap_field(gpu, v, gpu->remap.uncorrected);
    case FI_REMAPPED_PENDING:
        return remap_field(gpu, v, gpu->remap.pending);
    case FI_REMAPPED_FAILURE:
        return remap_field(gpu, v, gpu->remap.failed);
    case FI_RESET_STATUS:
        return put_uint(v, gpu->recovery_action == 1);
    case FI_DRAIN_AND_RESET_STATUS:
        return put_uint(v, gpu->recovery_action == 4);
    case FI_GPU_RECOVERY_ACTION:
        return put_uint(v, gpu->recovery_action);
    default:
        return fill_moving_field(c, v);
    }
}

static long long now_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    return ts.tv_sec * 1000000LL + ts.tv_nsec / 1000;
}

/* Each field has its own return code; the call itself fails only for its arguments. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount,
                                      nvmlFieldValue_t *values)
{
    struct call c = {.id = CALL_nvmlDeviceGetFieldValues};
    int rc = call_enter(&c, device, ON_DEVICE);
    if (rc == NVML_SUCCESS && (values == NULL || valuesCount <= 0))
        rc = NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; rc == NVML_SUCCESS && i < valuesCount; i++) {
        values[i].timestamp = now_us();
        values[i].latencyUsec = 0;
        values[i].nvmlReturn = fill_field(&c, &values[i]);
    }
    return call_leave(&c, rc);
}
