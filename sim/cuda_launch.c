/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: launches of kernels. Contracts are the driver API's own; what a launch costs is in
 * cuda_cost.h. */
#include <stdlib.h>
#include <string.h>

#include "sim/cuda_capture.h"
#include "sim/cuda_cost.h"
#include "sim/cuda_graph_items.h"
#include "sim/cuda_library.h"
#include "sim/cuda_work.h"

#define MAX_GRID_X  2147483647U
#define MAX_GRID_YZ 65535U
#define MAX_BLOCK   1024U
#define MAX_BLOCK_Z 64U
#define MAX_EXTRA   16 /* words of a launch's `extra` that are read */

struct launch {
    CUfunction function;
    CUlaunchConfig config;
    void **params, **extra;
    bool is_cooperative;
};

static bool is_in(unsigned int n, unsigned int limit)
{
    return n > 0 && n <= limit;
}

static CUresult check_grid(const CUlaunchConfig *c)
{
    bool grid = is_in(c->gridDimX, MAX_GRID_X) && is_in(c->gridDimY, MAX_GRID_YZ) &&
                is_in(c->gridDimZ, MAX_GRID_YZ);
    bool block = is_in(c->blockDimX, MAX_BLOCK) && is_in(c->blockDimY, MAX_BLOCK) &&
                 is_in(c->blockDimZ, MAX_BLOCK_Z);
    if (!grid || !block || c->blockDimX * c->blockDimY * c->blockDimZ > MAX_BLOCK)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static struct cost_grid grid_of(const CUlaunchConfig *c)
{
    return (struct cost_grid){
        .blocks = (uint64_t)c->gridDimX * c->gridDimY * c->gridDimZ,
        .threads = c->blockDimX * c->blockDimY * c->blockDimZ,
    };
}

static CUresult check_resources(const struct launch *l, const struct function *f)
{
    const struct model *model = f->module->context->arena.device->model;
    struct cost_grid grid = grid_of(&l->config);
    if (f->entry->max_threads > 0 && grid.threads > f->entry->max_threads)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (l->config.sharedMemBytes > f->dynamic_shared)
        return CUDA_ERROR_INVALID_VALUE;
    if (l->is_cooperative && grid.blocks > cost_wave(model, grid.threads))
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return CUDA_SUCCESS;
}

/* --- Parameters --- */

/* The buffer that `extra` names; NULL: none, or it is too short. */
static const char *buffer_in(void **extra, size_t bytes)
{
    const char *buffer = NULL;
    size_t size = 0;
    for (int i = 0; i < MAX_EXTRA && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1] != NULL)
            size = *(const size_t *)extra[i + 1];
        else
            return NULL;
    }
    return size >= bytes ? buffer : NULL;
}

/* Copies the first parameter, which is all that counts here, up to 8 bytes of it. */
static CUresult read_first(const struct launch *l, const struct ptx_entry *e, uint64_t *ret)
{
    *ret = 0;
    if (l->params != NULL && l->extra != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (e->param_count == 0)
        return CUDA_SUCCESS;
    const char *first = l->extra != NULL ? buffer_in(l->extra, e->param_bytes) : NULL;
    if (l->params != NULL)
        first = l->params[0];
    if (first == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(ret, first, e->params[0].bytes < sizeof(*ret) ? e->params[0].bytes : sizeof(*ret));
    return CUDA_SUCCESS;
}

/* --- Launching --- */

/* How long it takes. */
static CUresult prepare(const struct launch *l, const struct function *f, uint64_t *ret_ns)
{
    uint64_t first = 0;
    CUresult rc = check_grid(&l->config);
    if (rc == CUDA_SUCCESS)
        rc = check_resources(l, f);
    if (rc == CUDA_SUCCESS)
        rc = read_first(l, f->entry, &first);
    if (rc != CUDA_SUCCESS)
        return rc;
    struct cost_grid grid = grid_of(&l->config);
    *ret_ns = cost_of(f->module->context->arena.device->model, f->entry, &grid, first);
    return CUDA_SUCCESS;
}

static struct work_item *new_item(uint64_t ns)
{
    struct work_item *item = malloc(sizeof(*item));
    if (item != NULL)
        *item = (struct work_item){.kind = WORK_KERNEL, .left_ns = ns, .bytes = sizeof(*item)};
    return item;
}

static CUresult submit(struct stream *s, uint64_t ns)
{
    struct work_item *item = new_item(ns);
    return item != NULL ? work_submit(s, item) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- As nodes of graphs --- */

/* The first of a block with the parameters' addresses and the parameters themselves behind it. */
struct kernel_params {
    CUDA_KERNEL_NODE_PARAMS node;
    void *addresses[];
};

static CUDA_KERNEL_NODE_PARAMS params_of(const struct launch *l)
{
    const CUlaunchConfig *c = &l->config;
    return (CUDA_KERNEL_NODE_PARAMS){.func = l->function,
                                     .gridDimX = c->gridDimX,
                                     .gridDimY = c->gridDimY,
                                     .gridDimZ = c->gridDimZ,
                                     .blockDimX = c->blockDimX,
                                     .blockDimY = c->blockDimY,
                                     .blockDimZ = c->blockDimZ,
                                     .sharedMemBytes = c->sharedMemBytes};
}

static void copy_params(const struct launch *l, const struct ptx_entry *e,
                        struct kernel_params *ret)
{
    char *bytes = (char *)(ret->addresses + e->param_count);
    const char *buffer = l->extra != NULL ? buffer_in(l->extra, e->param_bytes) : NULL;
    for (size_t i = 0; i < e->param_count; i++) {
        const struct ptx_param *p = &e->params[i];
        const void *from = l->params != NULL ? l->params[i] : buffer + p->offset;
        ret->addresses[i] = bytes + p->offset;
        if (from != NULL)
            memcpy(ret->addresses[i], from, p->bytes);
    }
}

/* prepare has found good what there is. */
static struct kernel_params *keep_params(const struct launch *l, const struct function *f)
{
    const struct ptx_entry *e = f->entry;
    size_t bytes = sizeof(struct kernel_params) + e->param_count * sizeof(void *) + e->param_bytes;
    struct kernel_params *kept = calloc(1, bytes);
    if (kept == NULL)
        return NULL;
    kept->node = params_of(l);
    kept->node.kernelParams = kept->addresses;
    kept->node.ctx = f->module->context;
    copy_params(l, e, kept);
    return kept;
}

static CUresult new_work(const struct launch *l, const struct function *f, uint64_t ns,
                         struct node_work **ret)
{
    struct work_item *item = new_item(ns);
    *ret = item != NULL ? node_work_new(f->module->context, item) : NULL;
    if (*ret == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*ret)->params = keep_params(l, f);
    if ((*ret)->params != NULL)
        return CUDA_SUCCESS;
    node_work_unref(*ret);
    *ret = NULL;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

const CUDA_KERNEL_NODE_PARAMS *items_kernel_params(const struct node_work *w)
{
    const struct kernel_params *kept = w->params;
    return &kept->node;
}

CUresult items_of_kernel(struct cuda_context *current, const CUDA_KERNEL_NODE_PARAMS *p,
                         struct node_work **ret)
{
    const struct launch l = {.function = p->func != NULL ? p->func : (CUfunction)p->kern,
                             .config = {p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX,
                                        p->blockDimY, p->blockDimZ, p->sharedMemBytes, NULL, NULL,
                                        0},
                             .params = p->kernelParams,
                             .extra = p->extra};
    struct function *f = NULL;
    uint64_t ns = 0;
    struct cuda_context *context = p->ctx != NULL ? p->ctx : current;
    CUresult rc = context_check(context);
    if (rc == CUDA_SUCCESS)
        rc = library_find_function(context, l.function, &f);
    if (rc == CUDA_SUCCESS)
        rc = prepare(&l, f, &ns);
    return rc == CUDA_SUCCESS ? new_work(&l, f, ns, ret) : rc;
}

static CUresult capture(struct stream *s, const struct launch *l, const struct function *f,
                        uint64_t ns)
{
    struct node_work *work = NULL;
    CUresult rc = new_work(l, f, ns, &work);
    if (rc == CUDA_SUCCESS)
        rc = capture_add_node(s, CU_GRAPH_NODE_TYPE_KERNEL, work, NULL);
    node_work_unref(work);
    return rc;
}

/* --- Calls --- */

static CUresult launch_in(struct stream *s, const struct launch *l, const struct function *f)
{
    uint64_t ns = 0;
    if (f->module->context != s->work->context)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult rc = prepare(l, f, &ns);
    if (rc != CUDA_SUCCESS)
        return rc;
    return s->capture != NULL ? capture(s, l, f, ns) : submit(s, ns);
}

static CUresult launch(unsigned int call, const struct launch *l)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    struct stream *s = NULL;
    struct function *f = NULL;
    CUresult rc = context_enter(&c, &context);
    if (rc == CUDA_SUCCESS)
        rc = library_find_function(context, l->function, &f);
    if (rc == CUDA_SUCCESS)
        rc = work_find_stream(context, l->config.hStream, &s);
    if (rc == CUDA_SUCCESS)
        rc = launch_in(s, l, f);
    return context_leave(&c, context, rc);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                        void **params, void **extra)
{
    const struct launch l = {.function = function,
                             .config = {grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                        shared_bytes, stream, NULL, 0},
                             .params = params,
                             .extra = extra};
    return launch(CALL_cuLaunchKernel, &l);
}

CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                             unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                             unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                             void **params, void **extra)
{
    const struct launch l = {.function = function,
                             .config = {grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                        shared_bytes, work_own_stream(stream), NULL, 0},
                             .params = params,
                             .extra = extra};
    return launch(CALL_cuLaunchKernel_ptsz, &l);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                   void **params)
{
    const struct launch l = {.function = function,
                             .config = {grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                        shared_bytes, stream, NULL, 0},
                             .params = params,
                             .is_cooperative = true};
    return launch(CALL_cuLaunchCooperativeKernel, &l);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int grid_x,
                                        unsigned int grid_y, unsigned int grid_z,
                                        unsigned int block_x, unsigned int block_y,
                                        unsigned int block_z, unsigned int shared_bytes,
                                        CUstream stream, void **params)
{
    const struct launch l = {.function = function,
                             .config = {grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                        shared_bytes, work_own_stream(stream), NULL, 0},
                             .params = params,
                             .is_cooperative = true};
    return launch(CALL_cuLaunchCooperativeKernel_ptsz, &l);
}

/* --- By a configuration --- */

/* What would record an event from within a kernel is not here; other attributes change no time. */
static CUresult read_attributes(const CUlaunchConfig *c, struct launch *l)
{
    if (c->numAttrs > 0 && c->attrs == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < c->numAttrs; i++) {
        const CUlaunchAttribute *a = &c->attrs[i];
        if (a->id < CU_LAUNCH_ATTRIBUTE_IGNORE || a->id > CU_LAUNCH_ATTRIBUTE_LAST)
            return CUDA_ERROR_INVALID_VALUE;
        if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
            a->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            l->is_cooperative = a->value.cooperative != 0;
    }
    return CUDA_SUCCESS;
}

static CUresult refuse(unsigned int call, CUresult with)
{
    struct cuda_call c = {.id = call};
    struct cuda_context *context = NULL;
    CUresult rc = context_enter(&c, &context);
    return context_leave(&c, context, rc == CUDA_SUCCESS ? with : rc);
}

static CUresult launch_by(unsigned int call, const CUlaunchConfig *config, CUstream stream,
                          struct launch *l)
{
    CUresult rc = read_attributes(config, l);
    l->config = *config;
    l->config.hStream = stream;
    return rc == CUDA_SUCCESS ? launch(call, l) : refuse(call, rc);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                          void **extra)
{
    struct launch l = {.function = function, .params = params, .extra = extra};
    if (config == NULL)
        return refuse(CALL_cuLaunchKernelEx, CUDA_ERROR_INVALID_VALUE);
    return launch_by(CALL_cuLaunchKernelEx, config, config->hStream, &l);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **params,
                               void **extra)
{
    struct launch l = {.function = function, .params = params, .extra = extra};
    if (config == NULL)
        return refuse(CALL_cuLaunchKernelEx_ptsz, CUDA_ERROR_INVALID_VALUE);
    return launch_by(CALL_cuLaunchKernelEx_ptsz, config, work_own_stream(config->hStream), &l);
}
