/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/grant_mark.h"

#include <assert.h>
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "base/xalloc.h"

#define VENDOR_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789"

char *grant_mark_path(const char *vendor, const char *cdi_name)
{
    assert(vendor && cdi_name);
    return xasprintf("%s/%s/%s", GRANT_FOLDER, vendor, cdi_name);
}

/* No file name that is made of it leads out of its folder. */
static bool is_name(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len >= GRANT_NAME_BYTES || !isalnum((unsigned char)name[0]) ||
        !isalnum((unsigned char)name[len - 1]))
        return false;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_-.", *c))
            return false;
    return true;
}

bool grant_mark_parse(const char *destination, struct grant_mark *ret)
{
    static const char before[] = GRANT_FOLDER "/";
    if (strncmp(destination, before, strlen(before)) != 0)
        return false;
    const char *vendor = destination + strlen(before);
    size_t len = strspn(vendor, VENDOR_LETTERS);
    if (len == 0 || len >= GRANT_VENDOR_BYTES || vendor[len] != '/' || !is_name(vendor + len + 1))
        return false;
    *ret = (struct grant_mark){0};
    memcpy(ret->vendor, vendor, len);
    memcpy(ret->name, vendor + len + 1, strlen(vendor + len + 1));
    return true;
}
