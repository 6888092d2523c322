/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: arrays. Contracts are the driver API's own. */
#include "sim/cuda_array.h"

#include <stdlib.h>

#include "sim/cuda_handle.h"
#include "sim/cuda_work.h"

#define NO_MEMORY  (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)
#define MAX_LEVELS 20U

/* Assumed: what is mapped later is mapped in pages of this size. */
#define PAGE UINT64_C(65536)

struct mipmapped {
    struct context_part part;
    void *handle;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    struct allocation *memory; /* as in struct array */
    size_t bytes;
    unsigned int level_count;
    struct array levels[MAX_LEVELS];
};

static CUresult allocate(struct cuda_context *context, const CUDA_ARRAY3D_DESCRIPTOR *d,
                         size_t bytes, struct allocation **ret)
{
    *ret = NULL;
    if ((d->Flags & NO_MEMORY) != 0)
        return CUDA_SUCCESS;
    return arena_allocate(&context->arena, RANGE_HIDDEN, bytes, ret);
}

static char *bytes_of(const struct allocation *a)
{
    return a != NULL ? (char *)(uintptr_t)a->range.base : NULL;
}

struct array *array_find(CUarray handle)
{
    return handle_find(HANDLE_ARRAY, handle);
}

/* --- Arrays of one level --- */

static void end(struct array *a)
{
    handle_end(a->handle);
    if (a->memory != NULL)
        arena_free(a->memory);
    free(a);
}

static void end_part(struct context_part *part)
{
    end((struct array *)part);
}

static CUresult make(struct cuda_context *context, const CUDA_ARRAY3D_DESCRIPTOR *d, CUarray *ret)
{
    struct array *a = calloc(1, sizeof(*a));
    if (a == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *a = (struct array){.part.end = end_part, .descriptor = *d};
    CUresult rc = shape_of(d, &a->shape);
    if (rc == CUDA_SUCCESS)
        rc = allocate(context, d, a->shape.bytes, &a->memory);
    if (rc == CUDA_SUCCESS) {
        a->bytes = bytes_of(a->memory);
        a->handle = handle_new(HANDLE_ARRAY, a);
        rc = a->handle != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (rc != CUDA_SUCCESS) {
        end(a);
        return rc;
    }
    context_add_part(context, &a->part);
    *ret = a->handle;
    return CUDA_SUCCESS;
}

static CUresult create(unsigned int call, CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && (array == NULL || d == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = make(context, d, array);
    if (d != NULL)
        cuda_args(&c, "%zu %zu %zu", d->Width, d->Height, d->Depth);
    return context_leave(&c, context, rc);
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *descriptor)
{
    if (descriptor == NULL)
        return create(CALL_cuArrayCreate_v2, array, NULL);
    const CUDA_ARRAY3D_DESCRIPTOR d = {.Width = descriptor->Width,
                                       .Height = descriptor->Height,
                                       .Format = descriptor->Format,
                                       .NumChannels = descriptor->NumChannels};
    return create(CALL_cuArrayCreate_v2, array, &d);
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    return create(CALL_cuArray3DCreate_v2, array, descriptor);
}

/* Waits for the context's work, as cuMemFree does. Assumed: the level of another is none. */
CUresult cuArrayDestroy(CUarray array)
{
    struct cuda_call c = {.id = CALL_cuArrayDestroy};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = work_wait_context(context);
    struct array *a = rc == CUDA_SUCCESS ? array_find(array) : NULL;
    if (rc == CUDA_SUCCESS && (a == NULL || a->mipmapped != NULL))
        rc = CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS) {
        context_remove_part(&a->part);
        end(a);
    }
    return context_leave(&c, context, rc);
}

/* --- What they are --- */

static CUresult enter_array(struct cuda_call *c, CUarray array, const void *ret,
                            struct cuda_context **ret_context, struct array **ret_array)
{
    CUresult rc = context_enter(c, ret_context);
    *ret_array = rc == CUDA_SUCCESS ? array_find(array) : NULL;
    if (rc == CUDA_SUCCESS && *ret_array == NULL)
        rc = CUDA_ERROR_INVALID_HANDLE;
    return rc == CUDA_SUCCESS && ret == NULL ? CUDA_ERROR_INVALID_VALUE : rc;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *descriptor, CUarray array)
{
    struct cuda_call c = {.id = CALL_cuArrayGetDescriptor_v2};
    struct cuda_context *context = NULL;
    struct array *a = NULL;
    CUresult rc = enter_array(&c, array, descriptor, &context, &a);
    if (rc == CUDA_SUCCESS)
        *descriptor = (CUDA_ARRAY_DESCRIPTOR){.Width = a->descriptor.Width,
                                              .Height = a->descriptor.Height,
                                              .Format = a->descriptor.Format,
                                              .NumChannels = a->descriptor.NumChannels};
    return context_leave(&c, context, rc);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *descriptor, CUarray array)
{
    struct cuda_call c = {.id = CALL_cuArray3DGetDescriptor_v2};
    struct cuda_context *context = NULL;
    struct array *a = NULL;
    CUresult rc = enter_array(&c, array, descriptor, &context, &a);
    if (rc == CUDA_SUCCESS)
        *descriptor = a->descriptor;
    return context_leave(&c, context, rc);
}

/* Only of arrays that are mapped later. */
static CUresult put_requirements(const CUDA_ARRAY3D_DESCRIPTOR *d, size_t bytes,
                                 CUDA_ARRAY_MEMORY_REQUIREMENTS *ret)
{
    if (ret == NULL || (d->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = arena_round_up(bytes, PAGE), .alignment = PAGE};
    return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUarray array,
                                      CUdevice device)
{
    struct cuda_call c = {.id = CALL_cuArrayGetMemoryRequirements};
    CUresult rc = cuda_enter_device(&c, device);
    context_lock();
    const struct array *a = rc == CUDA_SUCCESS ? array_find(array) : NULL;
    if (rc == CUDA_SUCCESS)
        rc = a != NULL ? put_requirements(&a->descriptor, a->shape.bytes, requirements)
                       : CUDA_ERROR_INVALID_VALUE;
    context_unlock();
    return cuda_leave(&c, rc);
}

/* --- Mipmapped arrays --- */

static void end_mipmapped(struct mipmapped *m)
{
    for (unsigned int i = 0; i < m->level_count; i++)
        handle_end(m->levels[i].handle);
    handle_end(m->handle);
    if (m->memory != NULL)
        arena_free(m->memory);
    free(m);
}

static void end_mipmapped_part(struct context_part *part)
{
    end_mipmapped((struct mipmapped *)part);
}

static CUresult measure_levels(struct mipmapped *m, const CUDA_ARRAY3D_DESCRIPTOR *d,
                               unsigned int levels)
{
    CUDA_ARRAY3D_DESCRIPTOR level = *d;
    CUresult rc = CUDA_SUCCESS;
    for (unsigned int i = 0; rc == CUDA_SUCCESS && i < levels; i++) {
        m->levels[i] = (struct array){.descriptor = level, .mipmapped = m};
        rc = shape_of(&level, &m->levels[i].shape);
        m->bytes += m->levels[i].shape.bytes;
        level = shape_next_level(&level);
    }
    return rc;
}

static bool give_handles(struct mipmapped *m, unsigned int levels)
{
    char *at = bytes_of(m->memory);
    m->handle = handle_new(HANDLE_MIPMAPPED, m);
    bool good = m->handle != NULL;
    for (unsigned int i = 0; good && i < levels; i++) {
        struct array *a = &m->levels[i];
        a->memory = m->memory;
        a->bytes = at;
        at = at != NULL ? at + a->shape.bytes : NULL;
        a->handle = handle_new(HANDLE_ARRAY, a);
        good = a->handle != NULL;
        m->level_count += good;
    }
    return good;
}

static unsigned int clamp(unsigned int levels, unsigned int most)
{
    if (levels < 1)
        return 1;
    return levels < most ? levels : most;
}

static CUresult make_mipmapped(struct cuda_context *context, const CUDA_ARRAY3D_DESCRIPTOR *d,
                               unsigned int levels, CUmipmappedArray *ret)
{
    struct shape whole;
    CUresult rc = shape_of(d, &whole);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct mipmapped *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->part.end = end_mipmapped_part;
    m->descriptor = *d;
    unsigned int count = clamp(levels, shape_max_levels(d));
    rc = measure_levels(m, d, count);
    if (rc == CUDA_SUCCESS)
        rc = allocate(context, d, m->bytes, &m->memory);
    if (rc == CUDA_SUCCESS && !give_handles(m, count))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (rc != CUDA_SUCCESS) {
        end_mipmapped(m);
        return rc;
    }
    context_add_part(context, &m->part);
    *ret = m->handle;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                                unsigned int levels)
{
    struct cuda_call c = {.id = CALL_cuMipmappedArrayCreate};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS && (array == NULL || descriptor == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = make_mipmapped(context, descriptor, levels, array);
    return context_leave(&c, context, rc);
}

CUresult cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray mipmapped, unsigned int level)
{
    struct cuda_call c = {.id = CALL_cuMipmappedArrayGetLevel};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    const struct mipmapped *m =
        rc == CUDA_SUCCESS ? handle_find(HANDLE_MIPMAPPED, mipmapped) : NULL;
    if (rc == CUDA_SUCCESS && m == NULL)
        rc = CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS && (array == NULL || level >= m->level_count))
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        *array = m->levels[level].handle;
    return context_leave(&c, context, rc);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    struct cuda_call c = {.id = CALL_cuMipmappedArrayDestroy};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = work_wait_context(context);
    struct mipmapped *m = rc == CUDA_SUCCESS ? handle_find(HANDLE_MIPMAPPED, array) : NULL;
    if (rc == CUDA_SUCCESS && m == NULL)
        rc = CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS) {
        context_remove_part(&m->part);
        end_mipmapped(m);
    }
    return context_leave(&c, context, rc);
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements,
                                               CUmipmappedArray array, CUdevice device)
{
    struct cuda_call c = {.id = CALL_cuMipmappedArrayGetMemoryRequirements};
    CUresult rc = cuda_enter_device(&c, device);
    context_lock();
    const struct mipmapped *m = rc == CUDA_SUCCESS ? handle_find(HANDLE_MIPMAPPED, array) : NULL;
    if (rc == CUDA_SUCCESS)
        rc = m != NULL ? put_requirements(&m->descriptor, m->bytes, requirements)
                       : CUDA_ERROR_INVALID_VALUE;
    context_unlock();
    return cuda_leave(&c, rc);
}
