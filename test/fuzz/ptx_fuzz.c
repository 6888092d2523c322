/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator's reader of PTX, which is none of the product's libraries. */
#include <assert.h>

#include "sim/ptx.c"
#include "sim/ptx_words.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Parameters lie one behind the other, within what they take. */
static void check_entry(const struct ptx_entry *e)
{
    uint32_t end = 0;
    assert(e->name[0] != '\0' && e->param_bytes <= PTX_MAX_PARAMS);
    for (size_t i = 0; i < e->param_count; i++) {
        assert(e->params[i].offset >= end);
        end = e->params[i].offset + e->params[i].bytes;
    }
    assert(end == e->param_bytes);
}

/* What is refused leaves nothing and has a reason. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct ptx p;
    char reason[80] = "";
    bool read = ptx_read((const char *)data, len, &p, reason, sizeof(reason));
    assert(read == (reason[0] == '\0'));
    assert(read || (p.entry_count == 0 && p.variable_count == 0));
    assert(!read || ptx_is((const char *)data, len));
    for (size_t i = 0; i < p.entry_count; i++)
        check_entry(&p.entries[i]);
    for (size_t i = 0; i < p.variable_count; i++)
        assert(p.variables[i].align > 0 && p.variables[i].bytes <= MAX_VARIABLE);
    ptx_done(&p);
    return 0;
}
