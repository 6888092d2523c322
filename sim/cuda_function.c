/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: attributes of functions. Contracts are the driver API's own. */
#include "sim/cuda_cost.h"
#include "sim/cuda_library.h"

#define REGISTERS   32 /* Assumed: of a thread, for any function */
#define MAX_THREADS 1024

static const struct model *model_of(const struct function *f)
{
    return f->module->context->arena.device->model;
}

static int max_threads(const struct function *f)
{
    unsigned int said = f->entry->max_threads;
    return said > 0 && said < MAX_THREADS ? (int)said : MAX_THREADS;
}

static CUresult get(const struct function *f, int attribute, int *ret)
{
    const struct model *m = model_of(f);
    const int values[] = {
        [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = max_threads(f),
        [CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = (int)f->entry->shared_bytes,
        [CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES] = 0,
        [CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES] = 0,
        [CU_FUNC_ATTRIBUTE_NUM_REGS] = REGISTERS,
        [CU_FUNC_ATTRIBUTE_PTX_VERSION] = (int)f->module->image->ptx.target,
        [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = (int)(m->cc_major * 10 + m->cc_minor),
        [CU_FUNC_ATTRIBUTE_CACHE_MODE_CA] = 0,
        [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = (int)f->dynamic_shared,
        [CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = f->carveout,
    };
    if (attribute < 0 || attribute >= (int)(sizeof(values) / sizeof(values[0])))
        return CUDA_ERROR_INVALID_VALUE;
    *ret = values[attribute];
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
    struct cuda_call c = {.id = CALL_cuFuncGetAttribute};
    struct cuda_context *context = NULL;
    struct function *f = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = library_find_function(context, function, &f);
    if (rc == CUDA_SUCCESS)
        rc = value != NULL ? get(f, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    return context_leave(&c, context, rc);
}

/* Two of them can be set. */
static CUresult set(struct function *f, int attribute, int value)
{
    uint64_t limit = cost_shared_limit(model_of(f));
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || f->entry->shared_bytes + (unsigned int)value > limit)
            return CUDA_ERROR_INVALID_VALUE;
        f->dynamic_shared = (unsigned int)value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        f->carveout = value;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    struct cuda_call c = {.id = CALL_cuFuncSetAttribute};
    struct cuda_context *context = NULL;
    struct function *f = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = library_find_function(context, function, &f);
    if (rc == CUDA_SUCCESS)
        rc = set(f, attribute, value);
    return context_leave(&c, context, rc);
}
