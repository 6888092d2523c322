/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/fake/fake_selector.h"

#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/xalloc.h"

/* One requirement, cut out of the selector. */
struct requirement {
    char *key, *values; /* values: comma-separated; NULL: only the key's presence counts */
    bool negate;
};

static void requirement_done(struct requirement *r)
{
    free(r->key);
    free(r->values);
}
#define auto_requirement __attribute__((cleanup(requirement_done)))

static char *trimmed(const char *s, size_t len)
{
    while (len && *s == ' ') {
        s++;
        len--;
    }
    while (len && s[len - 1] == ' ')
        len--;
    return xstrndup(s, len);
}

/* Length of the next requirement: to the comma outside parentheses. */
static size_t requirement_length(const char *s)
{
    bool inside = false;
    size_t n = 0;
    for (; s[n] && (inside || s[n] != ','); n++)
        inside = s[n] == '(' || (inside && s[n] != ')');
    return n;
}

static bool parse_set(const char *text, const char *word, struct requirement *r)
{
    const char *at = strstr(text, word);
    const char *open = at ? strchr(at, '(') : NULL;
    const char *close = open ? strchr(open, ')') : NULL;
    if (!close)
        return false;
    r->key = trimmed(text, (size_t)(at - text));
    r->values = trimmed(open + 1, (size_t)(close - open - 1));
    return true;
}

static void parse_equality(const char *text, struct requirement *r)
{
    size_t key = strcspn(text, "=!");
    const char *value = text + key + strspn(text + key, "=!");
    r->negate = text[key] == '!';
    r->key = trimmed(text, key);
    r->values = trimmed(value, strlen(value));
}

static int parse_requirement(const char *text, struct requirement *r, struct err *e)
{
    if (strstr(text, " notin ") && parse_set(text, " notin ", r)) {
        r->negate = true;
    } else if (!(strstr(text, " in ") && parse_set(text, " in ", r))) {
        r->negate = *text == '!';
        if (strchr(text, '='))
            parse_equality(text, r);
        else
            r->key = trimmed(text + r->negate, strlen(text) - r->negate);
    }
    if (!*r->key || strpbrk(r->key, " ()"))
        return err_set(e, ERR_INVALID, "unable to parse requirement \"%s\"", text);
    return 0;
}

static bool is_in_values(const char *values, const char *value)
{
    for (;;) {
        size_t len = strcspn(values, ",");
        auto_free char *one = trimmed(values, len);
        if (!strcmp(one, value))
            return true;
        if (!values[len])
            return false;
        values += len + 1;
    }
}

/* value NULL: the key is absent, which matches every negated requirement. */
static bool fits(const struct requirement *r, const char *value)
{
    bool is = value && (!r->values || is_in_values(r->values, value));
    return is != r->negate;
}

typedef int lookup_fn(const void *arg, const char *key, const char **ret_value, struct err *e);

static int match(const char *selector, lookup_fn *lookup, const void *arg, bool *ret, struct err *e)
{
    bool all = true;
    for (const char *s = selector ? selector : ""; *s;) {
        size_t len = requirement_length(s);
        auto_free char *text = trimmed(s, len);
        auto_requirement struct requirement r = {0};
        const char *value = NULL;
        TRY(parse_requirement(text, &r, e));
        TRY(lookup(arg, r.key, &value, e));
        all = all && fits(&r, value);
        s += len + (s[len] == ',');
    }
    *ret = all;
    return 0;
}

static int label_of(const void *arg, const char *key, const char **ret_value, struct err *e)
{
    (void)e;
    *ret_value = JX_STR_AT((const json_t *)arg, "metadata", "labels", key);
    return 0;
}

int fake_labels_match(const char *selector, const json_t *obj, bool *ret, struct err *e)
{
    return match(selector, label_of, obj, ret, e);
}

struct field_source {
    const char *plural;
    const json_t *obj;
};

/* A field that is not set is the empty string (apimachinery fields.Set). */
static int field_of(const void *arg, const char *key, const char **ret_value, struct err *e)
{
    const struct field_source *from = arg;
    const json_t *value = NULL;
    bool pod = !strcmp(from->plural, "pods");
    if (!strcmp(key, "metadata.name"))
        value = JX_AT(from->obj, "metadata", "name");
    else if (!strcmp(key, "metadata.namespace"))
        value = JX_AT(from->obj, "metadata", "namespace");
    else if (pod && !strcmp(key, "spec.nodeName"))
        value = JX_AT(from->obj, "spec", "nodeName");
    else if (pod && !strcmp(key, "status.phase"))
        value = JX_AT(from->obj, "status", "phase");
    /* kubernetes pkg/apis/events/v1/conversion.go, AddFieldLabelConversionsForEvent */
    else if (!strcmp(from->plural, "events") && !strcmp(key, "regarding.name"))
        value = JX_AT(from->obj, "regarding", "name");
    else
        return err_set(e, ERR_INVALID, "field label not supported: %s", key);
    *ret_value = json_is_string(value) ? json_string_value(value) : "";
    return 0;
}

int fake_fields_match(const char *selector, const char *plural, const json_t *obj, bool *ret,
                      struct err *e)
{
    struct field_source from = {.plural = plural, .obj = obj};
    return match(selector, field_of, &from, ret, e);
}
