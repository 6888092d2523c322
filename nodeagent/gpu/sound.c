/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/sound.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

/* "::" separates a shared device's id from the number of its replica (device_id.h). */
static bool consists_of(const char *text, const char *signs)
{
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr(signs, *c))
            return false;
    return isalnum((unsigned char)text[0]) && !strstr(text, "::");
}

bool sound_is_name(const char *text)
{
    return consists_of(text, "-_.:");
}

bool sound_is_part_name(const char *text)
{
    return consists_of(text, "-_.:/") && !strstr(text, "..");
}

bool sound_is_bus_id(const char *text)
{
    size_t domain = strspn(text, "0123456789abcdefABCDEF");
    const char *c = text + domain;
    static const char shape[] = ":xx:xx.x";
    if (domain < 4 || domain > 8)
        return false;
    for (size_t i = 0; i < strlen(shape); i++, c++)
        if (shape[i] == 'x' ? !isxdigit((unsigned char)*c) : *c != shape[i])
            return false;
    return *c == '\0';
}

void sound_text(char *text, size_t room)
{
    assert(room > 0);
    text[room - 1] = '\0';
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
}
