/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/layout_documents.h"

#include <string.h>

#include "base/jx.h"
#include "base/yaml.h"

/* kubectl prints several objects as a v1 List; the API server's list also names the kind. */
static bool is_list(const json_t *doc)
{
    static const char *const kinds[] = {"List", "GPUProfileList", "MIGConfigList"};
    const char *kind = JX_STR_AT(doc, "kind");
    for (size_t i = 0; kind && i < ARRAY_LEN(kinds); i++)
        if (strcmp(kind, kinds[i]) == 0)
            return true;
    return false;
}

static int each_of(const json_t *doc, layout_object_fn *fn, void *arg, struct err *e)
{
    if (!is_list(doc))
        return fn(arg, doc, e);
    const json_t *items = json_object_get(doc, "items");
    if (json_array_size(items) == 0)
        return err_set(e, ERR_INVALID, ".items: holds nothing");
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item) {
        if (fn(arg, item, e) < 0)
            return err_wrap(e, ".items[%zu]", i);
    }
    return 0;
}

int layout_documents_each(const char *title, const char *text, size_t len, layout_object_fn *fn,
                          void *arg, size_t *ret_n, struct err *e)
{
    auto_json json_t *docs = NULL;
    if (yaml_load_all(text, len, &docs, e) < 0)
        return err_wrap(e, "%s", title);
    size_t i;
    json_t *doc;
    json_array_foreach(docs, i, doc) {
        if (each_of(doc, fn, arg, e) < 0)
            return err_wrap(e, "%s, document %zu", title, i + 1);
    }
    *ret_n = json_array_size(docs);
    return 0;
}
