/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/cri_config.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"

#include "nodeagent/container/toml_scan.h"

/* The CRI plugin's table, by versions of the file: 3, 2, 1. */
static const char *const plugins[] = {"io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri",
                                      "cri"};

/* True for a value at exactly these keys below the CRI plugin's table; "*" fits any key. */
static bool is_at(const struct toml_value *v, const char *const *keys, size_t n)
{
    bool of_cri = false;
    if (v->n_keys != n + 2 || strcmp(v->keys[0], "plugins") != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(plugins); i++)
        of_cri |= strcmp(v->keys[1], plugins[i]) == 0;
    for (size_t i = 0; i < n && of_cri; i++)
        of_cri = strcmp(keys[i], "*") == 0 || strcmp(keys[i], v->keys[i + 2]) == 0;
    return of_cri;
}

/* What takes a configuration in, and the first value that has no room in it. */
struct taking {
    struct cri_config *c;
    const char *no_room; /* static; NULL: all had */
};

static void keep(struct taking *t, char *to, size_t size, const char *text, const char *what)
{
    if (strlen(text) < size)
        (void)snprintf(to, size, "%s", text);
    else
        t->no_room = what;
}

/* The handler's place in the list; its end: it is not there. */
static unsigned place_of(const struct cri_handlers *h, const char *name)
{
    unsigned i = 0;
    while (i < h->n && strcmp(h->names[i], name) != 0)
        i++;
    return i;
}

static void add_handler(struct taking *t, struct cri_handlers *h, const char *name)
{
    if (h->n < CRI_MAX_HANDLERS)
        keep(t, h->names[h->n++], CRI_NAME_BYTES, name, "a runtime's name");
    else
        t->no_room = "one more runtime";
}

static void drop_handler(struct cri_handlers *h, const char *name)
{
    unsigned i = place_of(h, name);
    if (i < h->n)
        memmove(h->names[i], h->names[i + 1], (--h->n - i) * sizeof(h->names[0]));
}

static bool is_own(const char *program)
{
    const char *slash = strrchr(program, '/');
    return strcmp(slash ? slash + 1 : program, "cleave-runtime") == 0;
}

/* What a handler runs; what was said of it before counts no more. */
static void note_handler(struct taking *t, const char *name, const char *program)
{
    drop_handler(&t->c->nvidia, name);
    drop_handler(&t->c->own, name);
    if (strstr(program, "nvidia-container-runtime"))
        add_handler(t, &t->c->nvidia, name);
    else if (is_own(program))
        add_handler(t, &t->c->own, name);
}

static void note_import(struct taking *t, const char *path)
{
    struct cri_config *c = t->c;
    if (c->n_imports < CRI_MAX_IMPORTS)
        keep(t, c->imports[c->n_imports++], CRI_PATH_BYTES, path, "an import's path");
    else
        t->no_room = "one more import";
}

static void take_value(void *arg, const struct toml_value *v)
{
    static const char *const cdi[] = {"enable_cdi"};
    static const char *const default_name[] = {"containerd", "default_runtime_name"};
    static const char *const program[] = {"containerd", "runtimes", "*", "options", "BinaryName"};
    struct taking *t = arg;
    struct cri_config *c = t->c;
    assert(v->n_keys > 0);
    if (v->n_keys == 1 && strcmp(v->keys[0], "version") == 0)
        c->version = v->text[0] >= '1' && v->text[0] <= '9' ? v->text[0] - '0' : 0;
    else if (v->n_keys == 1 && strcmp(v->keys[0], "imports") == 0)
        note_import(t, v->text);
    else if (is_at(v, cdi, ARRAY_LEN(cdi)))
        c->cdi = strcmp(v->text, "true") == 0 ? CRI_ON : CRI_OFF;
    else if (is_at(v, default_name, ARRAY_LEN(default_name)))
        keep(t, c->default_handler, sizeof(c->default_handler), v->text, "default_runtime_name");
    else if (is_at(v, program, ARRAY_LEN(program)))
        note_handler(t, v->keys[4], v->text);
}

static int take_over(const struct taking *t, struct cri_config *c, struct err *e)
{
    if (t->no_room)
        return err_set(e, ERR_TOO_LARGE, "there is no room for %s", t->no_room);
    *c = *t->c;
    return 0;
}

int cri_config_take(struct cri_config *c, const char *text, size_t len, struct err *e)
{
    struct cri_config next = *c;
    memset(next.imports, 0, sizeof(next.imports));
    next.n_imports = 0;
    struct taking t = {.c = &next};
    TRY(toml_scan(text, len, take_value, &t, e));
    return take_over(&t, c, e);
}

int cri_config_take_docker(struct cri_config *c, const char *text, size_t len, struct err *e)
{
    auto_json json_t *json = NULL;
    struct cri_config next = *c;
    struct taking t = {.c = &next};
    const char *name;
    json_t *runtime;
    TRY(jx_parse(text, len, len, &json, e));
    const char *set = JX_STR_AT(json, "default-runtime");
    if (set)
        keep(&t, next.default_handler, sizeof(next.default_handler), set, "default-runtime");
    json_object_foreach(json_object_get(json, "runtimes"), name, runtime) {
        const char *program = JX_STR_AT(runtime, "path");
        note_handler(&t, name, program ? program : "");
    }
    return take_over(&t, c, e);
}

const char *cri_config_handler(const struct cri_config *c, const struct cri_handlers *among,
                               bool *ret_default)
{
    const char *set = *c->default_handler ? c->default_handler : "runc";
    unsigned i = place_of(among, set);
    *ret_default = i < among->n;
    if (*ret_default)
        return among->names[i];
    return among->n ? among->names[0] : NULL;
}
