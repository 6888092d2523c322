/* SPDX-License-Identifier: Apache-2.0 */
#include "api/subdomain.h"

#include <string.h>

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool subdomain_legal(const char *name)
{
    for (const char *c = name; *c; c++) {
        bool edge = c == name || c[-1] == '.' || c[1] == '.' || !c[1];
        if (!is_lower_or_digit(*c) && (edge || (*c != '-' && *c != '.')))
            return false;
    }
    return *name && strlen(name) <= SUBDOMAIN_MAX;
}
