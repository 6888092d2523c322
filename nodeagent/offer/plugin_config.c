/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/plugin_config.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/container/entry.h"

enum { WORDS_BYTES = 4000 }; /* a condition's message has 4096 characters */

/* XPUSH writes the count. NOLINTNEXTLINE(readability-non-const-parameter) */
void plugin_config_note(struct plugin_config *c, const char *where, const char *fmt, ...)
{
    assert(c->n_notices <= PLUGIN_CONFIG_MAX_NOTICES);
    if (c->n_notices == PLUGIN_CONFIG_MAX_NOTICES)
        return;
    va_list ap;
    va_start(ap, fmt);
    struct plugin_notice *n = XPUSH(c->notices, c->n_notices);
    n->where = xstrdup(where);
    n->why = xvasprintf(fmt, ap);
    va_end(ap);
}

void plugin_config_ignore(struct plugin_config *c, const char *where, const char *why)
{
    plugin_config_note(c, where, "%s", why);
}

void plugin_config_note_unknown(struct plugin_config *c, const json_t *obj,
                                const struct jx_field *fields, const char *path)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)obj, key, value) {
        const struct jx_field *f = fields;
        while (f->name && strcmp(f->name, key) != 0)
            f++;
        if (f->name)
            continue;
        auto_free char *where = xasprintf("%s.%.100s", path, key);
        plugin_config_note(c, where, "is not known");
    }
}

bool plugin_config_is_empty(const json_t *block)
{
    return !block || json_is_null(block) || (json_is_object(block) && json_object_size(block) == 0);
}

bool plugin_config_wants_cdi(const struct plugin_config *c)
{
    return !c || !c->said.ways || (c->ways & ENTRY_ALL_CDI);
}

char *plugin_config_words(const struct plugin_config *c)
{
    auto_sb struct sb text = SB_INIT(WORDS_BYTES);
    for (size_t i = 0; i < c->n_notices; i++) {
        const struct plugin_notice *n = &c->notices[i];
        size_t more = strlen(n->where) + strlen(n->why) + sizeof("; : ; and 100 more");
        if (text.len + more > WORDS_BYTES) {
            sb_addf(&text, "; and %zu more", c->n_notices - i);
            break;
        }
        sb_addf(&text, "%s%s: %s", i ? "; " : "", n->where, n->why);
    }
    return sb_take(&text);
}

void plugin_config_done(struct plugin_config *c)
{
    free(c->driver_root);
    free(c->dev_root);
    free(c->container_driver_root);
    free(c->cdi_annotation_prefix);
    free(c->mps_root);
    free(c->disable_health_checks);
    free(c->enable_health_checks);
    free(c->machine_type_file);
    for (size_t i = 0; i < c->n_shared; i++) {
        free(c->shared[i].name);
        free(c->shared[i].offered_as);
    }
    free(c->shared);
    for (size_t i = 0; i < c->n_notices; i++) {
        free(c->notices[i].where);
        free(c->notices[i].why);
    }
    free(c->notices);
    *c = (struct plugin_config){0};
}
