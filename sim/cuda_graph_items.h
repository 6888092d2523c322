/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes of graphs do, made of parameters as streams do the same (work_submit). Guarded by the
 * contexts' lock. */
#pragma once

#include "sim/cuda_queue.h"

/* A kernel of whichever context; the work keeps the parameters (kernel_params_of). */
CUresult items_of_kernel(struct cuda_context *current, const CUDA_KERNEL_NODE_PARAMS *params,
                         struct node_work **ret);

/* Those of a kernel's node, which stay as long as the work. */
const CUDA_KERNEL_NODE_PARAMS *items_kernel_params(const struct node_work *w);

/* They are to be put into a node_work. */
CUresult items_of_copy(const CUDA_MEMCPY3D *params, struct work_item **ret);
CUresult items_of_setting(const CUDA_MEMSET_NODE_PARAMS_v1 *params, struct work_item **ret);
CUresult items_of_function(struct cuda_context *current, const CUDA_HOST_NODE_PARAMS *params,
                           struct work_item **ret);
