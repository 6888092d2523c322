/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_location.h"

CUresult location_enter(struct cuda_call *c, const CUmemLocation *l)
{
    bool is_device = l != NULL && l->type == CU_MEM_LOCATION_TYPE_DEVICE;
    return is_device ? cuda_enter_device(c, l->id) : cuda_enter(c);
}

CUresult location_check(const CUmemLocation *l)
{
    switch (l->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return l->id >= 0 && l->id < cuda_device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return l->id >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Assumed: there are no channels for fabric handles, as on a machine where nobody made them. */
CUresult location_check_handles(const CUmemLocation *l, int handle_types)
{
    const int known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
    if ((handle_types & ~known) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle_types != 0 && l->type == CU_MEM_LOCATION_TYPE_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return (handle_types & CU_MEM_HANDLE_TYPE_FABRIC) != 0 ? CUDA_ERROR_NOT_PERMITTED
                                                           : CUDA_SUCCESS;
}
