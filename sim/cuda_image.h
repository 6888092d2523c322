/* SPDX-License-Identifier: Apache-2.0 */
/* Code that a program loads: the text of a PTX module. Shared by the modules that are made of it;
 * guarded by the contexts' lock. */
#pragma once

#include "sim/cuda_session.h"
#include "sim/ptx.h"

struct image {
    unsigned int refs;
    size_t text_bytes;
    struct ptx ptx;
};

/* The buffers of cuModuleLoadDataEx for what the compiler says. */
struct image_log {
    char *text;
    size_t size; /* 0: none */
};

/*
 * Reads what a program has in memory, a text that ends with NUL: INVALID_IMAGE for what is no code,
 * NO_BINARY_FOR_GPU for code of another kind than PTX, INVALID_PTX, UNSUPPORTED_PTX_VERSION.
 */
CUresult image_load(const void *data, const struct image_log *log, struct image **ret);

/* The same from a file; FILE_NOT_FOUND. */
CUresult image_load_file(const char *path, struct image **ret);

void image_unref(struct image *image);
