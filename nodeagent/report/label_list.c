/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/label_list.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "api/label_value.h"

void label_put(struct label_list *l, const char *key, const char *value)
{
    assert(key && value);
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->items[i].key, key) == 0) {
            xstr_set(&l->items[i].str, value);
            return;
        }
    }
    struct jx_pair *p = XPUSH(l->items, l->n);
    p->key = xstrdup(key);
    p->str = xstrdup(value);
}

void label_put_of(struct label_list *l, const char *base, const char *what, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    auto_free char *value = xvasprintf(fmt, ap);
    va_end(ap);
    auto_free char *key = xasprintf("%s%s", base, what);
    label_put(l, key, value);
}

void label_put_text(struct label_list *l, const char *base, const char *what, const char *text)
{
    auto_free char *value = text ? label_value_from(text) : NULL;
    label_put_of(l, base, what, "%s", value ? value : "");
}

void label_split_version(const char *text, char parts[3][24])
{
    for (size_t i = 0; i < 3; i++) {
        size_t n = strcspn(text, ".");
        (void)snprintf(parts[i], sizeof(parts[i]), "%.*s", (int)n, text);
        text += n + (text[n] == '.');
    }
}
