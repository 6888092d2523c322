/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

/*
 * Stands in for libFuzzer where the compiler has none: runs a fuzz target once over each file that
 * is named, or that lies in a folder that is named, in the order of names.
 */
#define MAX_INPUT_BYTES (64UL * 1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int run_file(const char *path, size_t *count)
{
    auto_err struct err e = {0};
    auto_free char *text = NULL;
    size_t len = 0;
    if (file_read(path, MAX_INPUT_BYTES, &text, &len, &e) < 0) {
        (void)fprintf(stderr, "%s\n", err_msg(&e));
        return -1;
    }
    /* A copy of the exact size, so that reading past the end is noticed. */
    auto_free uint8_t *input = xmemdup(text, len);
    (void)LLVMFuzzerTestOneInput(input, len);
    ++*count;
    return 0;
}

static int run_folder(const char *path, size_t *count)
{
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, NULL, alphasort);
    int rc = n < 0 ? -1 : 0;
    for (int i = 0; i < n; i++) {
        auto_free struct dirent *entry = entries[i];
        auto_free char *file = xasprintf("%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.' && run_file(file, count) < 0)
            rc = -1;
    }
    free(entries);
    if (n < 0)
        perror(path);
    return rc;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        bool folder = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
        failed |= folder ? run_folder(argv[i], &count) : run_file(argv[i], &count);
    }
    (void)printf("%zu inputs\n", count);
    return failed || count == 0;
}
