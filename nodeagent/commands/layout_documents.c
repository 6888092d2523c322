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

static size_t skip_blanks(const char *text, size_t len, size_t at)
{
    while (at < len && strchr(" \t\r\n", text[at]))
        at++;
    return at;
}

/* JSON documents, one after the other, as `kubectl label -o json` prints several objects. */
static int load_json(const char *text, size_t len, json_t *docs, struct err *e)
{
    for (size_t at = skip_blanks(text, len, 0); at < len; at = skip_blanks(text, len, at)) {
        size_t n = jx_length(text + at, len - at);
        json_t *doc;
        if (n == 0)
            return err_set(e, ERR_PROTOCOL, "no whole object at byte %zu", at);
        TRY(jx_parse(text + at, n, /* max_bytes= */ n, &doc, e));
        (void)json_array_append_new(docs, doc);
        at += n;
    }
    return 0;
}

/* kubectl takes a text that begins with a brace as JSON where it is, and else as YAML (kubernetes
 * staging/src/k8s.io/apimachinery/pkg/util/yaml/decoder.go, YAMLOrJSONDecoder). */
static int load(const char *text, size_t len, json_t **ret, struct err *e)
{
    size_t begin = skip_blanks(text, len, 0);
    auto_json json_t *docs = json_array();
    if (begin < len && text[begin] == '{' && load_json(text, len, docs, /* e= */ NULL) == 0) {
        *ret = TAKE(docs);
        return 0;
    }
    return yaml_load_all(text, len, ret, e);
}

int layout_documents_each(const char *title, const char *text, size_t len, layout_object_fn *fn,
                          void *arg, size_t *ret_n, struct err *e)
{
    auto_json json_t *docs = NULL;
    if (load(text, len, &docs, e) < 0)
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
