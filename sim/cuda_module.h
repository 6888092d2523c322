/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: code that was loaded into a context, with its functions and variables. Their memory is
 * the context's, and all of it ends with the context. Guarded by the contexts' lock.
 */
#pragma once

#include "sim/cuda_context.h"
#include "sim/cuda_image.h"

struct function {
    void *handle; /* NULL: nobody has asked for it yet */
    struct module *module;
    const struct ptx_entry *entry;
    unsigned int dynamic_shared; /* bytes that a launch may ask for */
    int carveout;
};

struct module {
    struct context_part part;
    struct module *next, **before; /* in its library; NULL: it is of none */
    struct cuda_context *context;
    struct image *image;
    void *handle;
    CUdeviceptr code;
    CUdeviceptr *variables;     /* one for each of the text's */
    struct function *functions; /* one for each entry */
};

/* Loads an image, of which the module keeps a reference, into a context. */
CUresult module_load(struct cuda_context *context, struct image *image, struct module **ret);

/* Ends a module. */
void module_unload(struct module *m);

/* The function of that name; NULL: there is none. */
struct function *module_function(struct module *m, const char *name);

/* Gives a function its handle. */
CUresult function_handle(struct function *f, CUfunction *ret);
