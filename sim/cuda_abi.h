/* SPDX-License-Identifier: Apache-2.0 */
/* The words that all parts of CUDA's ABI use (cuda.h). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CUDA_API __attribute__((visibility("default")))

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct cuda_context *CUcontext;
typedef struct cuda_stream *CUstream;
typedef struct cuda_function *CUfunction;
typedef struct cuda_kernel *CUkernel;
typedef void (*CUhostFn)(void *data);
typedef struct cuda_event *CUevent;
