/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/lib_table.h"

#include <dlfcn.h>
#include <string.h>

static int bind(void *dl, const char *whose, const struct lib_symbol *s, void *table, struct err *e)
{
    void *found = dlsym(dl, s->newest);
    if (!found && s->older)
        found = dlsym(dl, s->older);
    if (!found && s->needed)
        return err_set(e, ERR_PROTOCOL, "the %s library lacks %s", whose, s->newest);
    memcpy((char *)table + s->offset, &found, sizeof(found));
    return 0;
}

int lib_table_open(const char *path, const char *whose, const struct lib_symbol *symbols, size_t n,
                   void *table, void **ret_dl, struct err *e)
{
    void *dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!dl)
        return err_set(e, ERR_NOT_FOUND, "no %s management library: %s", whose, dlerror());
    for (size_t i = 0; i < n; i++) {
        int rc = bind(dl, whose, &symbols[i], table, e);
        if (rc < 0) {
            (void)dlclose(dl);
            return rc;
        }
    }
    *ret_dl = dl;
    return 0;
}
