/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/description.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/xalloc.h"

#define KIND_PREFIX "gpu.cleave.dev/"
#define SLOT_PREFIX "slot."
#define VERSION     "0.5.0"

char *description_path(const char *folder, const struct grant_mark *m)
{
    assert(*m->vendor && *m->name && !strchr(m->name, '/'));
    if (strncmp(m->name, SLOT_PREFIX, strlen(SLOT_PREFIX)) == 0)
        return xasprintf("%s/%s.gpu.cleave.dev-%s-slot.json", folder, m->name, m->vendor);
    return xasprintf("%s/gpu.cleave.dev-%s.json", folder, m->vendor);
}

static int check(const json_t *d, const char *vendor, struct err *e)
{
    static const char *const known[] = {"cdiVersion", "kind", "containerEdits", "devices", NULL};
    const char *version = JX_STR_AT(d, "cdiVersion");
    const char *kind = JX_STR_AT(d, "kind");
    const char *unknown = json_is_object(d) ? jx_unknown_key(d, known) : NULL;
    if (!version || strcmp(version, VERSION) != 0)
        return err_set(e, ERR_INVALID,
                       "cdiVersion is \"%.20s\", and this cleave-runtime knows %s: install the "
                       "agent's own version of it",
                       version ? version : "", VERSION);
    if (!kind || strncmp(kind, KIND_PREFIX, strlen(KIND_PREFIX)) != 0 ||
        strcmp(kind + strlen(KIND_PREFIX), vendor) != 0)
        return err_set(e, ERR_INVALID, "its kind is \"%.60s\", not %s%s", kind ? kind : "",
                       KIND_PREFIX, vendor);
    if (unknown)
        return err_set(e, ERR_INVALID, "\"%.60s\" is not known", unknown);
    return 0;
}

int description_parse(const char *text, size_t len, const char *vendor, json_t **ret, struct err *e)
{
    auto_json json_t *d = NULL;
    TRY(jx_parse(text, len, DESCRIPTION_BYTES, &d, e));
    TRY(check(d, vendor, e));
    *ret = TAKE(d);
    return 0;
}

const json_t *description_common(const json_t *description)
{
    return JX_AT(description, "containerEdits");
}

int description_device(const json_t *description, const char *name, const json_t **ret,
                       struct err *e)
{
    size_t i;
    const json_t *d;
    json_array_foreach(JX_AT(description, "devices"), i, d) {
        const char *its_name = JX_STR_AT(d, "name");
        const json_t *edits = JX_AT(d, "containerEdits");
        if (!its_name || strcmp(its_name, name) != 0)
            continue;
        if (!edits)
            return err_set(e, ERR_INVALID, "%s has no containerEdits", name);
        *ret = edits;
        return 0;
    }
    return err_set(e, ERR_NOT_FOUND, "it has no device %s", name);
}

static bool edits_have_node(const json_t *edits, const char *path)
{
    size_t i;
    const json_t *node;
    json_array_foreach(JX_AT(edits, "deviceNodes"), i, node) {
        const char *its_path = JX_STR_AT(node, "path");
        if (its_path && strcmp(its_path, path) == 0)
            return true;
    }
    return false;
}

bool description_has_node(const json_t *description, const char *path)
{
    size_t i;
    const json_t *d;
    if (edits_have_node(description_common(description), path))
        return true;
    json_array_foreach(JX_AT(description, "devices"), i, d)
        if (edits_have_node(JX_AT(d, "containerEdits"), path))
            return true;
    return false;
}
