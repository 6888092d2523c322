/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: modules. Contracts are the driver API's own. */
#include "sim/cuda_module.h"

#include <stdlib.h>
#include <string.h>

#include "sim/cuda_cost.h"
#include "sim/cuda_handle.h"

/* --- Their memory --- */

static CUresult allocate(struct cuda_context *context, uint64_t bytes, CUdeviceptr *ret)
{
    struct allocation *a = NULL;
    CUresult rc = arena_allocate(&context->arena, RANGE_MODULE, bytes > 0 ? bytes : 1, &a);
    if (rc == CUDA_SUCCESS)
        *ret = a->range.base;
    return rc;
}

/* Assumed: machine code is as long as its text. Variables are zero: their initial values are not
 * read. */
static CUresult allocate_all(struct module *m)
{
    const struct ptx *p = &m->image->ptx;
    CUresult rc = allocate(m->context, m->image->text_bytes, &m->code);
    for (size_t i = 0; rc == CUDA_SUCCESS && i < p->variable_count; i++)
        rc = allocate(m->context, p->variables[i].bytes, &m->variables[i]);
    return rc;
}

static void free_at(CUdeviceptr pointer)
{
    struct range *r = pointer != 0 ? range_find(pointer) : NULL;
    if (r != NULL)
        arena_free((struct allocation *)r);
}

/* --- Loading --- */

static void end(struct module *m)
{
    const struct ptx *p = &m->image->ptx;
    for (size_t i = 0; m->functions != NULL && i < p->entry_count; i++)
        handle_end(m->functions[i].handle);
    for (size_t i = 0; m->variables != NULL && i < p->variable_count; i++)
        free_at(m->variables[i]);
    free_at(m->code);
    if (m->before != NULL)
        *m->before = m->next;
    if (m->before != NULL && m->next != NULL)
        m->next->before = m->before;
    handle_end(m->handle);
    image_unref(m->image);
    free(m->functions);
    free(m->variables);
    free(m);
}

static void end_part(struct context_part *part)
{
    end((struct module *)part);
}

void module_unload(struct module *m)
{
    context_remove_part(&m->part);
    end(m);
}

static unsigned int without_asking(const struct ptx_entry *e)
{
    return e->shared_bytes < COST_SHARED ? COST_SHARED - (unsigned int)e->shared_bytes : 0;
}

static CUresult fill(struct module *m)
{
    const struct ptx *p = &m->image->ptx;
    m->functions = calloc(p->entry_count + 1, sizeof(*m->functions));
    m->variables = calloc(p->variable_count + 1, sizeof(*m->variables));
    m->handle = handle_new(HANDLE_MODULE, m);
    if (m->functions == NULL || m->variables == NULL || m->handle == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < p->entry_count; i++) {
        m->functions[i] = (struct function){.module = m,
                                            .entry = &p->entries[i],
                                            .dynamic_shared = without_asking(&p->entries[i]),
                                            .carveout = -1};
    }
    return allocate_all(m);
}

/* Assumed: INVALID_PTX is what the compiler's refusal of a newer target comes to. */
static bool runs_on(const struct image *image, const struct model *model)
{
    return image->ptx.target <= model->cc_major * 10 + model->cc_minor;
}

CUresult module_load(struct cuda_context *context, struct image *image, struct module **ret)
{
    if (!runs_on(image, context->arena.device->model))
        return CUDA_ERROR_INVALID_PTX;
    struct module *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    image->refs++;
    *m = (struct module){.part.end = end_part, .context = context, .image = image};
    CUresult rc = fill(m);
    if (rc != CUDA_SUCCESS) {
        end(m);
        return rc;
    }
    context_add_part(context, &m->part);
    *ret = m;
    return CUDA_SUCCESS;
}

/* The image is the callee's. */
static CUresult load_take(struct cuda_context *context, CUmodule *ret, struct image *image)
{
    struct module *m = NULL;
    CUresult rc = module_load(context, image, &m);
    if (rc == CUDA_SUCCESS)
        *ret = m->handle;
    image_unref(image);
    return rc;
}

static CUresult load(unsigned int call, CUmodule *ret, const void *data,
                     const struct image_log *log)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct image *image = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = ret != NULL ? image_load(data, log, &image) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = load_take(context, ret, image);
    return context_leave(&c, context, rc);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    static const struct image_log none;
    return load(CALL_cuModuleLoadData, module, image, &none);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    static const struct image_log none;
    return load(CALL_cuModuleLoadFatBinary, module, image, &none);
}

/* Only what the compiler says about an error is here; its other options change nothing. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the ABI's parameter. */
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, int *options,
                            void **values)
{
    struct image_log log = {0};
    bool fits = count == 0 || (options != NULL && values != NULL);
    for (unsigned int i = 0; fits && i < count; i++) {
        fits = options[i] >= 0 && options[i] < CU_JIT_NUM_OPTIONS;
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
            log.text = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            log.size = (unsigned int)(uintptr_t)values[i];
    }
    if (log.text == NULL)
        log.size = 0;
    if (log.size > 0)
        log.text[0] = '\0';
    CUresult rc = load(CALL_cuModuleLoadDataEx, fits ? module : NULL, image, &log);
    for (unsigned int i = 0; fits && i < count; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            values[i] = (void *)(uintptr_t)(log.size > 0 ? strlen(log.text) : 0);
        if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
            values[i] = NULL;
    }
    return rc;
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    struct cuda_call c = {.id = CALL_cuModuleLoad};
    struct cuda_context *context = NULL;
    struct image *image = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = module != NULL ? image_load_file(path, &image) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = load_take(context, module, image);
    return context_leave(&c, context, rc);
}

/* --- What they have --- */

/* Begins a call that concerns a module. */
static CUresult enter(struct cuda_call *c, CUmodule module, struct cuda_context **context,
                      struct module **ret)
{
    CUresult rc = context_enter(c, context);
    if (rc != CUDA_SUCCESS)
        return rc;
    *ret = handle_find(HANDLE_MODULE, module);
    return *ret != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* A library's module is the library's to unload. */
CUresult cuModuleUnload(CUmodule module)
{
    struct cuda_call c = {.id = CALL_cuModuleUnload};
    struct cuda_context *context = NULL;
    struct module *m = NULL;
    CUresult rc = enter(&c, module, &context, &m);
    if (rc == CUDA_SUCCESS && m->before != NULL)
        rc = CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS)
        module_unload(m);
    return context_leave(&c, context, rc);
}

struct function *module_function(struct module *m, const char *name)
{
    const struct ptx *p = &m->image->ptx;
    for (size_t i = 0; i < p->entry_count; i++) {
        if (strcmp(p->entries[i].name, name) == 0)
            return &m->functions[i];
    }
    return NULL;
}

CUresult function_handle(struct function *f, CUfunction *ret)
{
    if (f->handle == NULL)
        f->handle = handle_new(HANDLE_FUNCTION, f);
    *ret = f->handle;
    return f->handle != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    struct cuda_call c = {.id = CALL_cuModuleGetFunction};
    struct cuda_context *context = NULL;
    struct module *m = NULL;
    CUresult rc = enter(&c, module, &context, &m);
    if (rc == CUDA_SUCCESS && (function == NULL || name == NULL))
        rc = CUDA_ERROR_INVALID_VALUE;
    struct function *f = rc == CUDA_SUCCESS ? module_function(m, name) : NULL;
    if (rc == CUDA_SUCCESS)
        rc = f != NULL ? function_handle(f, function) : CUDA_ERROR_NOT_FOUND;
    return context_leave(&c, context, rc);
}

static CUresult find_variable(const struct module *m, const char *name, size_t *ret)
{
    const struct ptx *p = &m->image->ptx;
    if (name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (*ret = 0; *ret < p->variable_count; (*ret)++) {
        if (strcmp(p->variables[*ret].name, name) == 0)
            return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule module,
                              const char *name)
{
    struct cuda_call c = {.id = CALL_cuModuleGetGlobal_v2};
    struct cuda_context *context = NULL;
    struct module *m = NULL;
    size_t i = 0;
    CUresult rc = enter(&c, module, &context, &m);
    if (rc == CUDA_SUCCESS)
        rc = find_variable(m, name, &i);
    if (rc == CUDA_SUCCESS && pointer != NULL)
        *pointer = m->variables[i];
    if (rc == CUDA_SUCCESS && bytes != NULL)
        *bytes = m->image->ptx.variables[i].bytes;
    return context_leave(&c, context, rc);
}
