/* SPDX-License-Identifier: Apache-2.0 */
#include "interop/host_selector.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

enum { LABEL_BYTES = 63 };

static bool is_name_char(char c)
{
    return islower((unsigned char)c) || isdigit((unsigned char)c);
}

int host_selector_check(const char *field, const char *name, struct err *e)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < len; i++)
        if (!is_name_char(name[i]) &&
            ((name[i] != '-' && name[i] != '.') || i == 0 || i == len - 1))
            return err_set(e, ERR_INVALID,
                           "%s \"%.60s\" is not a node name: use lower-case letters, digits, "
                           "and - or . between them",
                           field, name);
    if (len == 0 || len > LABEL_BYTES)
        return err_set(e, ERR_INVALID,
                       "%s must have 1 to %d characters, as the label kubernetes.io/hostname",
                       field, LABEL_BYTES);
    return 0;
}

json_t *host_selector_requirement(const char *op, const char *const *names, size_t n)
{
    json_t *values = json_array();
    assert(n <= HOST_SELECTOR_NODES);
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(values, json_string(names[i]));
    return json_pack("{s:s, s:s, s:o}", "key", "kubernetes.io/hostname", "operator", op, "values",
                     values);
}
