/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "limiter/proc_stat.h"

/* Any text is read or refused; and any name leaves the numbers as they are. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_name(const char *name)
{
    char text[400];
    struct proc_stat s = {0};
    (void)snprintf(text, sizeof(text),
                   "1 (%.200s) D 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 4 0 99 5\n", name);
    bool ok = proc_stat_parse(text, &s);
    assert(ok && s.state == 'D' && s.threads == 4 && s.started == 99);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char text[512] = "";
    struct proc_stat s = {.state = '?', .started = 7};
    memcpy(text, data, len < sizeof(text) ? len : sizeof(text) - 1);
    if (!proc_stat_parse(text, &s))
        assert(s.state == '?' && s.started == 7);
    check_name(text);
    return 0;
}
