/* SPDX-License-Identifier: Apache-2.0 */
#include "interop/hami_names.h"

#include <string.h>

#include "base/auto.h"

int hami_names_parse(const char *text, enum hami_names *ret, struct err *e)
{
    static const char *const words[] = {
        [HAMI_NONE] = "none",
        [HAMI_CURRENT] = "current",
        [HAMI_LEGACY] = "legacy",
        [HAMI_BOTH] = "both",
    };
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret = (enum hami_names)i;
            return 0;
        }
    }
    return err_set(e, ERR_INVALID, "--hami-metrics is \"%s\", none of none, current, legacy, both",
                   text);
}

bool hami_names_have(enum hami_names names, enum hami_generation g)
{
    return names == HAMI_BOTH || names == (g == HAMI_NAMES_CURRENT ? HAMI_CURRENT : HAMI_LEGACY);
}
