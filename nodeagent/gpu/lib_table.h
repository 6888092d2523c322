/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/*
 * A vendor's library as a struct of function pointers. Each symbol is looked up by itself, the
 * newest name first; one that this driver lacks is NULL and costs a feature, not the agent.
 */
struct lib_symbol {
    const char *newest, *older; /* older: NULL where it has always had one name */
    size_t offset;              /* of the pointer in the struct */
    bool needed;                /* nothing works without it */
};

/* Loads the library and fills the struct. ERR_NOT_FOUND: there is none; ERR_PROTOCOL: one without a
 * function that is needed. *ret_dl is for dlclose. whose: in errors, "NVIDIA". */
int lib_table_open(const char *path, const char *whose, const struct lib_symbol *symbols, size_t n,
                   void *table, void **ret_dl, struct err *e) MUST_CHECK;
