/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/url.h"

#include <inttypes.h>
#include <string.h>

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void url_add_escaped(struct sb *out, const char *s)
{
    bool dots = !strcmp(s, ".") || !strcmp(s, "..");
    for (; *s; s++) {
        if (is_unreserved(*s) && !dots)
            sb_add_char(out, *s);
        else
            sb_addf(out, "%%%02X", (unsigned)(unsigned char)*s);
    }
}

void url_add_query(struct sb *out, const char *name, const char *value)
{
    if (!value)
        return;
    sb_add_char(out, strchr(sb_str(out), '?') ? '&' : '?');
    sb_add(out, name);
    sb_add_char(out, '=');
    url_add_escaped(out, value);
}

void url_add_query_int(struct sb *out, const char *name, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    url_add_query(out, name, text);
}

static void add_segment(struct sb *out, const char *s)
{
    if (!s)
        return;
    sb_add_char(out, '/');
    url_add_escaped(out, s);
}

void url_add_target(struct sb *out, const struct kc_target *t)
{
    const struct kc_resource *r = t->res;
    if (*r->group) {
        sb_add(out, "/apis");
        add_segment(out, r->group);
    } else {
        sb_add(out, "/api");
    }
    add_segment(out, r->version);
    if (r->namespaced && t->ns) {
        sb_add(out, "/namespaces");
        add_segment(out, t->ns);
    }
    add_segment(out, r->plural);
    add_segment(out, t->name);
    add_segment(out, t->subresource);
}
