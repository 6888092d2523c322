/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/extender_words.h"

#include <string.h>
#include <strings.h>

#include "base/xalloc.h"

#include "scheduler/node_names.h"

/* --- Questions --- */

json_t *extender_member(json_t *object, const char *key)
{
    const char *is;
    json_t *value;
    json_t *found = json_object_get(object, key);
    if (found)
        return found;
    json_object_foreach(object, is, value)
        if (strcasecmp(is, key) == 0)
            return value;
    return NULL;
}

int extender_load(const char *body, size_t len, json_t **ret, struct err *e)
{
    json_error_t why;
    *ret = json_loadb(body, len, 0, &why);
    if (!*ret)
        return err_set(e, ERR_PROTOCOL, "the request is no JSON: %s", why.text);
    return json_is_object(*ret) ? 0 : err_set(e, ERR_PROTOCOL, "the request is no JSON object");
}

static int read_names(json_t *list, struct filter_args *a, struct err *e)
{
    size_t n = json_array_size(list);
    a->names = xcalloc(n + 1, sizeof(*a->names));
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name || !*name)
            return err_set(e, ERR_PROTOCOL, "item %zu of NodeNames is no name", i);
        a->names[a->n_names++] = name;
    }
    return 0;
}

/* The names are read apart, where they can be: there are many. */
static int load_question(const char *body, size_t len, struct filter_args *a, struct err *e)
{
    auto_sb struct sb rest = SB_INIT(len);
    a->text = xmalloc(len + 1);
    memcpy(a->text, body, len);
    if (!node_names_take(a->text, len, &rest, &a->names, &a->n_names))
        return extender_load(body, len, &a->body, e);
    return extender_load(rest.data, rest.len, &a->body, e);
}

int filter_args_parse(const char *body, size_t len, struct filter_args *ret, struct err *e)
{
    *ret = (struct filter_args){0};
    TRY(load_question(body, len, ret, e));
    ret->pod = extender_member(ret->body, "Pod");
    if (!json_is_object(ret->pod))
        return err_set(e, ERR_PROTOCOL, "the request has no Pod");
    json_t *names = extender_member(ret->body, "NodeNames");
    if (ret->names)
        return 0;
    if (json_is_array(names))
        return read_names(names, ret, e);
    if (!names || json_is_null(names))
        return err_set(
            e, ERR_INVALID,
            "the request has no NodeNames: set nodeCacheCapable: true for this extender");
    return err_set(e, ERR_PROTOCOL, "NodeNames is no list");
}

void filter_args_done(struct filter_args *a)
{
    free(a->names);
    free(a->text);
    json_decref(a->body);
    *a = (struct filter_args){0};
}

static int take_text(json_t *args, const char *key, char **ret, struct err *e)
{
    const char *text = json_string_value(extender_member(args, key));
    if (!text || !*text)
        return err_set(e, ERR_PROTOCOL, "the request has no %s", key);
    *ret = xstrdup(text);
    return 0;
}

int bind_args_parse(const char *body, size_t len, struct bind_args *ret, struct err *e)
{
    auto_json json_t *args = NULL;
    *ret = (struct bind_args){0};
    TRY(extender_load(body, len, &args, e));
    TRY(take_text(args, "PodNamespace", &ret->ns, e));
    TRY(take_text(args, "PodName", &ret->name, e));
    TRY(take_text(args, "PodUID", &ret->uid, e));
    return take_text(args, "Node", &ret->node, e);
}

void bind_args_done(struct bind_args *a)
{
    free(a->ns);
    free(a->name);
    free(a->uid);
    free(a->node);
    *a = (struct bind_args){0};
}

/* --- Answers --- */

/* A message may have been cut within a character. */
static json_t *string(const char *text)
{
    json_t *s = json_string(text);
    if (s)
        return s;
    auto_sb struct sb clean = SB_INIT(4 * strlen(text));
    sb_add_utf8(&clean, text, strlen(text));
    return json_string(sb_str(&clean));
}

static void write_json(const json_t *answer, struct sb *out)
{
    auto_free char *text = json_dumps(answer, JSON_COMPACT);
    sb_add(out, text);
}

void error_result_write(const char *error, struct sb *out)
{
    auto_json json_t *answer = json_object();
    (void)json_object_set_new(answer, "Error", string(error ? error : ""));
    write_json(answer, out);
}

static json_t *kept(const struct choice *c)
{
    json_t *names = json_array();
    for (size_t i = 0; i < c->n_kept; i++)
        (void)json_array_append_new(names, string(c->kept[i]));
    return names;
}

static json_t *refused(const struct choice *c, bool never)
{
    json_t *nodes = json_object();
    for (size_t i = 0; i < c->n_refused; i++)
        if (c->refused[i].never == never)
            (void)json_object_set_new(nodes, c->refused[i].node, string(c->refused[i].why));
    return nodes;
}

void filter_result_write(const struct choice *c, struct sb *out)
{
    auto_json json_t *answer = json_object();
    (void)json_object_set_new(answer, "NodeNames", kept(c));
    (void)json_object_set_new(answer, "FailedNodes", refused(c, /* never= */ false));
    (void)json_object_set_new(answer, "FailedAndUnresolvableNodes", refused(c, /* never= */ true));
    (void)json_object_set_new(answer, "Error", json_string(""));
    write_json(answer, out);
}
