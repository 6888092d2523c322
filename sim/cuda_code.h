/* SPDX-License-Identifier: Apache-2.0 */
/* The names of CUDA's codes. */
#pragma once

#include <stddef.h>

/* "CUDA_ERROR_OUT_OF_MEMORY"; NULL for other codes. Static. */
const char *cuda_code_name(int code);

/* A text of it; NULL for other codes. Static. */
const char *cuda_code_text(int code);

/* The code of that name, with or without CUDA_ERROR_, or -1. */
int cuda_code_parse(const char *name);

/* The name of the i-th code, CUDA_SUCCESS first; NULL after the last. Static. */
const char *cuda_code_at(size_t i);
