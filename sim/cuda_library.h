/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries: code that is loaded into a context when something of it is first needed there. Guarded
 * by the contexts' lock. */
#pragma once

#include "sim/cuda_module.h"

/* The function of a handle, which may be a kernel's too: as it is in that context, whichever has
 * the function. INVALID_HANDLE, or why the kernel cannot be loaded there. */
CUresult library_find_function(struct cuda_context *context, CUfunction handle,
                               struct function **ret);
