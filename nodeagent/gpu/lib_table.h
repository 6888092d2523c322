/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/*
 * A vendor's library as a struct of function pointers. Each symbol is looked up separately, the
 * newest name first. A symbol that the driver lacks is NULL; then a feature is missing, but the
 * agent works.
 */
struct lib_symbol {
    const char *newest, *older; /* older: NULL when it always had one name */
    size_t offset;              /* of the pointer in the struct */
    bool needed;                /* the back end cannot work without it */
};

/* Loads the library and fills the struct. *ret_dl is for dlclose. whose: the vendor's name in
 * errors, "NVIDIA". ERR_NOT_FOUND: there is no library; ERR_PROTOCOL: it lacks a needed
 * function. */
int lib_table_open(const char *path, const char *whose, const struct lib_symbol *symbols, size_t n,
                   void *table, void **ret_dl, struct err *e) MUST_CHECK;
