/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The newest PTX of each CUDA: "Release Notes" of the PTX ISA. */
static const struct {
    int cuda;
    unsigned int ptx;
} newest[] = {
    {11000, 70}, {11010, 71}, {11020, 72}, {11030, 73}, {11040, 74}, {11050, 75}, {11060, 76},
    {11070, 77}, {11080, 78}, {12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84},
    {12050, 85}, {12070, 86}, {12080, 87}, {12090, 88}, {13000, 90}, {13010, 91},
};

static unsigned int newest_ptx(int cuda)
{
    unsigned int found = 65;
    for (size_t i = 0; i < sizeof(newest) / sizeof(newest[0]); i++)
        found = newest[i].cuda <= cuda ? newest[i].ptx : found;
    return found;
}

/* Machine code as ELF, a fat binary, and the wrapper of one that nvcc links into programs. Assumed:
 * none of it is for the simulated cards. */
static bool is_binary(const char *data)
{
    static const char *const begins[] = {"\177ELF", "\x50\xed\x55\xba", "\xb1\x43\x62\x46"};
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        if (strncmp(data, begins[i], 4) == 0)
            return true;
    }
    return false;
}

static CUresult read_text(const char *text, const struct image_log *log, struct image *ret)
{
    char reason[200] = "";
    ret->text_bytes = strnlen(text, PTX_MAX_BYTES + 1);
    if (!ptx_is(text, ret->text_bytes))
        return CUDA_ERROR_INVALID_IMAGE;
    if (!ptx_read(text, ret->text_bytes, &ret->ptx, reason, sizeof(reason))) {
        if (log->size > 0)
            (void)snprintf(log->text, log->size, "ptxas fatal: %s\n", reason);
        return CUDA_ERROR_INVALID_PTX;
    }
    if (ret->ptx.version > newest_ptx(cuda_driver_version()))
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    return CUDA_SUCCESS;
}

CUresult image_load(const void *data, const struct image_log *log, struct image **ret)
{
    if (data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_binary(data))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    struct image *image = calloc(1, sizeof(*image));
    if (image == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    image->refs = 1;
    CUresult rc = read_text(data, log, image);
    if (rc == CUDA_SUCCESS)
        *ret = image;
    else
        image_unref(image);
    return rc;
}

/* All of it, up to the longest text and a NUL; NULL: it cannot be read. */
static char *read_file(const char *path)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return NULL;
    FILE *copy = open_memstream(&text, &length);
    char piece[4096];
    size_t n;
    size_t sum = 0;
    while (copy != NULL && sum <= PTX_MAX_BYTES && (n = fread(piece, 1, sizeof(piece), f)) > 0)
        sum += fwrite(piece, 1, n, copy);
    bool failed = ferror(f) != 0 || copy == NULL;
    (void)fclose(f);
    if (copy != NULL)
        failed = fclose(copy) != 0 || failed;
    if (!failed)
        return text;
    free(text);
    return NULL;
}

CUresult image_load_file(const char *path, struct image **ret)
{
    static const struct image_log none;
    char *text = path != NULL ? read_file(path) : NULL;
    if (path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = text != NULL ? image_load(text, &none, ret) : CUDA_ERROR_FILE_NOT_FOUND;
    free(text);
    return rc;
}

void image_unref(struct image *image)
{
    if (image == NULL || --image->refs > 0)
        return;
    ptx_done(&image->ptx);
    free(image);
}
