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

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t skip_blanks(const char *text, size_t len, size_t at)
{
    while (at < len && is_blank(text[at]))
        at++;
    return at;
}

/* Parses the JSON document at *at, and moves behind it. *ret NULL: there is none any more. */
static int next_json(const char *text, size_t len, size_t *at, json_t **ret, struct err *e)
{
    *at = skip_blanks(text, len, *at);
    *ret = NULL;
    if (*at == len)
        return 0;
    size_t n = jx_length(text + *at, len - *at);
    if (n == 0)
        return err_set(e, ERR_INVALID, "no whole object at byte %zu", *at);
    TRY(jx_parse(text + *at, n, /* max_bytes= */ n, ret, e));
    *at += n;
    return 0;
}

/* Walks JSON documents, one after the other, as `kubectl label -o json` prints several objects. Each
 * is dropped before the next is parsed: an object takes up to a hundred times its text. */
static int each_json(const char *title, const char *text, size_t len, layout_object_fn *fn,
                     void *arg, size_t *ret_n, struct err *e)
{
    size_t at = 0;
    for (size_t n = 0;; n++) {
        auto_json json_t *doc = NULL;
        int rc = next_json(text, len, &at, &doc, e);
        if (rc == 0 && doc)
            rc = each_of(doc, fn, arg, e);
        if (rc < 0)
            return err_wrap(e, "%s, document %zu", title, n + 1);
        *ret_n = n;
        if (!doc)
            return 0;
    }
}

/* kubectl takes a text that begins with a brace as JSON where it is, and else as YAML (kubernetes
 * staging/src/k8s.io/apimachinery/pkg/util/yaml/decoder.go, YAMLOrJSONDecoder). One that is too long
 * for YAML can only be meant as JSON. */
static bool is_json(const char *text, size_t len)
{
    size_t at = skip_blanks(text, len, 0);
    if (at == len || text[at] != '{')
        return false;
    if (len > YAML_MAX_BYTES)
        return true;
    for (;;) {
        auto_json json_t *doc = NULL;
        if (next_json(text, len, &at, &doc, /* e= */ NULL) < 0)
            return false;
        if (!doc)
            return true;
    }
}

static int each_yaml(const char *title, const char *text, size_t len, layout_object_fn *fn,
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

int layout_documents_each(const char *title, const char *text, size_t len, layout_object_fn *fn,
                          void *arg, size_t *ret_n, struct err *e)
{
    return (is_json(text, len) ? each_json : each_yaml)(title, text, len, fn, arg, ret_n, e);
}
