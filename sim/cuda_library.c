/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: libraries. Contracts are the driver API's own. */
#include "sim/cuda_library.h"

#include <stdlib.h>
#include <string.h>

#include "sim/cuda_handle.h"

struct kernel {
    void *handle; /* NULL: nobody has asked for it yet */
    struct library *library;
};

struct library {
    void *handle;
    struct image *image;
    struct module *modules; /* of one context each */
    struct kernel *kernels; /* one for each entry */
};

static void free_library(struct library *l)
{
    for (size_t i = 0; l->kernels != NULL && i < l->image->ptx.entry_count; i++)
        handle_end(l->kernels[i].handle);
    handle_end(l->handle);
    image_unref(l->image);
    free(l->kernels);
    free(l);
}

/* The image is the callee's. */
static CUresult make_take(struct image *image, CUlibrary *ret)
{
    struct library *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        image_unref(image);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    l->image = image;
    l->kernels = calloc(image->ptx.entry_count + 1, sizeof(*l->kernels));
    l->handle = handle_new(HANDLE_LIBRARY, l);
    if (l->kernels == NULL || l->handle == NULL) {
        free_library(l);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < image->ptx.entry_count; i++)
        l->kernels[i].library = l;
    *ret = l->handle;
    return CUDA_SUCCESS;
}

/* Options change nothing here. It needs no context. */
/* NOLINTBEGIN(readability-non-const-parameter): the ABI's parameters. */
CUresult cuLibraryLoadData(CUlibrary *library, const void *data, int *jit_options,
                           void **jit_values, unsigned int jit_count, int *options, void **values,
                           unsigned int count)
{
    static const struct image_log none;
    struct cuda_call c = {.id = CALL_cuLibraryLoadData};
    struct image *image = NULL;
    bool fits = library != NULL &&
                (jit_count == 0 || (jit_options != NULL && jit_values != NULL)) &&
                (count == 0 || (options != NULL && values != NULL));
    CUresult rc = cuda_enter(&c);
    context_lock();
    if (rc == CUDA_SUCCESS)
        rc = fits ? image_load(data, &none, &image) : CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = make_take(image, library);
    context_unlock();
    return cuda_leave(&c, rc);
}
/* NOLINTEND(readability-non-const-parameter) */

CUresult cuLibraryUnload(CUlibrary library)
{
    struct cuda_call c = {.id = CALL_cuLibraryUnload};
    CUresult rc = cuda_enter(&c);
    context_lock();
    struct library *l = rc == CUDA_SUCCESS ? handle_find(HANDLE_LIBRARY, library) : NULL;
    if (rc == CUDA_SUCCESS && l == NULL)
        rc = CUDA_ERROR_INVALID_HANDLE;
    while (l != NULL && l->modules != NULL)
        module_unload(l->modules);
    if (l != NULL)
        free_library(l);
    context_unlock();
    return cuda_leave(&c, rc);
}

static CUresult find_kernel(struct library *l, const char *name, CUkernel *ret)
{
    const struct ptx *p = &l->image->ptx;
    size_t i = 0;
    if (ret == NULL || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    while (i < p->entry_count && strcmp(p->entries[i].name, name) != 0)
        i++;
    if (i == p->entry_count)
        return CUDA_ERROR_NOT_FOUND;
    if (l->kernels[i].handle == NULL)
        l->kernels[i].handle = handle_new(HANDLE_KERNEL, &l->kernels[i]);
    *ret = l->kernels[i].handle;
    return *ret != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    struct cuda_call c = {.id = CALL_cuLibraryGetKernel};
    CUresult rc = cuda_enter(&c);
    context_lock();
    struct library *l = rc == CUDA_SUCCESS ? handle_find(HANDLE_LIBRARY, library) : NULL;
    if (rc == CUDA_SUCCESS)
        rc = l != NULL ? find_kernel(l, name, kernel) : CUDA_ERROR_INVALID_HANDLE;
    context_unlock();
    return cuda_leave(&c, rc);
}

/* --- In contexts --- */

/* A library's module of a context, which is loaded there when it is not yet. */
static CUresult module_in(struct library *l, struct cuda_context *context, struct module **ret)
{
    for (*ret = l->modules; *ret != NULL; *ret = (*ret)->next) {
        if ((*ret)->context == context)
            return CUDA_SUCCESS;
    }
    CUresult rc = module_load(context, l->image, ret);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct module *m = *ret;
    m->next = l->modules;
    m->before = &l->modules;
    if (m->next != NULL)
        m->next->before = &m->next;
    l->modules = m;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    struct cuda_call c = {.id = CALL_cuLibraryGetModule};
    struct cuda_context *context = NULL;
    struct module *m = NULL;
    CUresult rc = context_enter(&c, &context);
    struct library *l = rc == CUDA_SUCCESS ? handle_find(HANDLE_LIBRARY, library) : NULL;
    if (rc == CUDA_SUCCESS && module == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = l != NULL ? module_in(l, context, &m) : CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS)
        *module = m->handle;
    return context_leave(&c, context, rc);
}

static CUresult function_in(const struct kernel *k, struct cuda_context *context,
                            struct function **ret)
{
    struct module *m = NULL;
    CUresult rc = module_in(k->library, context, &m);
    if (rc == CUDA_SUCCESS)
        *ret = &m->functions[k - k->library->kernels];
    return rc;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    struct cuda_call c = {.id = CALL_cuKernelGetFunction};
    struct cuda_context *context = NULL;
    struct function *f = NULL;
    CUresult rc = context_enter(&c, &context);
    const struct kernel *k = rc == CUDA_SUCCESS ? handle_find(HANDLE_KERNEL, kernel) : NULL;
    if (rc == CUDA_SUCCESS && function == NULL)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS)
        rc = k != NULL ? function_in(k, context, &f) : CUDA_ERROR_INVALID_HANDLE;
    if (rc == CUDA_SUCCESS)
        rc = function_handle(f, function);
    return context_leave(&c, context, rc);
}

CUresult library_find_function(struct cuda_context *context, CUfunction handle,
                               struct function **ret)
{
    *ret = handle_find(HANDLE_FUNCTION, handle);
    if (*ret != NULL)
        return CUDA_SUCCESS;
    const struct kernel *k = handle_find(HANDLE_KERNEL, handle);
    return k != NULL ? function_in(k, context, ret) : CUDA_ERROR_INVALID_HANDLE;
}
