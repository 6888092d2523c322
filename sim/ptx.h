/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a driver must know of a PTX module without running it: its version and target, the entries
 * with their parameters, and the variables. Function bodies are skipped; of them only the sizes of
 * shared variables count. The grammar is PTX ISA 8's, "Directives" and "State Spaces".
 *
 * Any bytes may be given; what is no PTX is refused with a line and a reason.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_MAX_BYTES  ((size_t)256 << 20U)
#define PTX_MAX_PARAMS 32764 /* bytes of an entry's parameters, as of PTX 8.1 */
#define PTX_MAX_ITEMS  16384 /* entries, or variables, of a module */

struct ptx_param {
    uint32_t offset, bytes;
    bool is_u64; /* declared so */
};

struct ptx_entry {
    char *name;
    struct ptx_param *params;
    size_t param_count;
    uint32_t param_bytes;
    uint32_t max_threads; /* of .maxntid or .reqntid; 0: not said */
    uint64_t shared_bytes;
};

struct ptx_variable {
    char *name;
    uint64_t bytes, align;
};

struct ptx {
    unsigned int version; /* 80 for 8.0 */
    unsigned int target;  /* 90 for sm_90, sm_90a */
    struct ptx_entry *entries;
    size_t entry_count;
    struct ptx_variable *variables; /* .global and .const */
    size_t variable_count;
};

/* True for text that begins as PTX does: with .version, after spaces and comments. */
bool ptx_is(const char *text, size_t length);

/* Reads a module; false: *ret is empty, and `reason` tells why. */
bool ptx_read(const char *text, size_t length, struct ptx *ret, char *reason, size_t reason_size);

void ptx_done(struct ptx *p);
