/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/device.h"
#include "api/gpuprofile.h"
#include "api/koordinator.h"
#include "api/migconfig.h"
#include "partition/vendor.h"

/*
 * The typed views of api/ beside the schemas of crds/: both are walked at once, and every
 * difference is collected with its path.
 */
#define MAX_REPORT_BYTES (64 * 1024)
#define MAX_CRD_BYTES    (1024 * 1024)

struct walk {
    struct sb report;
    const char *const *excepted; /* paths, NULL-terminated */
    size_t fields, exceptions;
};

static bool is_excepted(struct walk *w, const char *path)
{
    for (size_t i = 0; w->excepted[i]; i++) {
        if (strcmp(w->excepted[i], path) != 0)
            continue;
        w->exceptions++;
        return true;
    }
    return false;
}

static void differ(struct walk *w, const char *path, const char *what)
{
    sb_addf(&w->report, "%s: %s\n", path, what);
}

static void expect_word(struct walk *w, const char *path, const json_t *schema, const char *key,
                        const char *word)
{
    const char *have = json_string_value(json_object_get(schema, key));
    if (have && strcmp(have, word) == 0)
        return;
    sb_addf(&w->report, "%s: %s is %s in the schema, %s in the table\n", path, key,
            have ? have : "absent", word);
}

static void expect_number(struct walk *w, const char *path, const json_t *schema, const char *key,
                          int64_t fallback, int64_t number)
{
    const json_t *v = json_object_get(schema, key);
    int64_t have = v ? json_integer_value(v) : fallback;
    if (have != number)
        sb_addf(&w->report, "%s: %s is %lld in the schema, %lld in the table\n", path, key,
                (long long)have, (long long)number);
}

static bool has_word(const json_t *words, const char *word)
{
    size_t i;
    const json_t *have;
    json_array_foreach(words, i, have) {
        if (strcmp(json_string_value(have), word) == 0)
            return true;
    }
    return false;
}

/* The order in the table is the C enum's, so only the sets are compared. */
static void compare_enum(struct walk *w, const char *path, const json_t *schema,
                         const struct jx_field *f)
{
    const json_t *words = json_object_get(schema, "enum");
    size_t n = 0;
    for (; f->choices[n]; n++)
        if (!has_word(words, f->choices[n]))
            sb_addf(&w->report, "%s: %s is no word of the schema\n", path, f->choices[n]);
    if (json_array_size(words) != n)
        differ(w, path, "the schema has other words");
}

/* No bounds in the table mean any 64-bit number, those of 32 bits a format without bounds. */
static void compare_int(struct walk *w, const char *path, const json_t *schema,
                        const struct jx_field *f)
{
    const char *format = json_string_value(json_object_get(schema, "format"));
    bool wide = format && strcmp(format, "int64") == 0;
    bool bounded = f->min < f->max;
    expect_word(w, path, schema, "type", "integer");
    expect_number(w, path, schema, "minimum", wide || !bounded ? INT64_MIN : INT32_MIN,
                  bounded ? f->min : INT64_MIN);
    expect_number(w, path, schema, "maximum", wide ? INT64_MAX : INT32_MAX,
                  bounded ? f->max : INT64_MAX);
}

static void compare_list(struct walk *w, const char *path, const json_t *schema,
                         const struct jx_field *f, const char *item_type)
{
    expect_word(w, path, schema, "type", "array");
    expect_number(w, path, schema, "minItems", 0, f->min);
    expect_number(w, path, schema, "maxItems", -1, f->max ? f->max : -1);
    expect_word(w, path, json_object_get(schema, "items"), "type", item_type);
}

static void compare_map(struct walk *w, const char *path, const json_t *schema,
                        const struct jx_field *f, const char *value_type)
{
    expect_word(w, path, schema, "type", "object");
    expect_number(w, path, schema, "minProperties", 0, f->min);
    expect_number(w, path, schema, "maxProperties", -1, f->max ? f->max : -1);
    expect_word(w, path, json_object_get(schema, "additionalProperties"), "type", value_type);
}

static void compare_scalar(struct walk *w, const char *path, const json_t *schema,
                           const struct jx_field *f)
{
    if (f->type == JX_INT) {
        compare_int(w, path, schema, f);
    } else if (f->type == JX_INT_OR_STR) {
        if (!json_is_true(json_object_get(schema, "x-kubernetes-int-or-string")))
            differ(w, path, "the schema does not take number or string");
    } else if (f->type == JX_BOOL) {
        expect_word(w, path, schema, "type", "boolean");
    } else {
        expect_word(w, path, schema, "type", "string");
    }
    if (f->type == JX_ENUM)
        compare_enum(w, path, schema, f);
    else if (json_object_get(schema, "enum"))
        differ(w, path, "the schema has an enum");
    if (f->type == JX_TIME)
        expect_word(w, path, schema, "format", "date-time");
    if (f->type == JX_STR) {
        expect_number(w, path, schema, "minLength", 0, f->min);
        expect_number(w, path, schema, "maxLength", 0, f->max);
    }
}

static void compare_object(struct walk *w, const char *path, const json_t *schema,
                           const struct jx_field *fields);

static void compare_field(struct walk *w, const char *path, const json_t *schema,
                          const struct jx_field *f)
{
    w->fields++;
    if (is_excepted(w, path))
        return;
    auto_free char *item = xasprintf("%s[]", path);
    if (f->type == JX_LIST) {
        compare_list(w, path, schema, f, "object");
        compare_object(w, item, json_object_get(schema, "items"), f->sub);
    } else if (f->type == JX_STR_LIST) {
        compare_list(w, path, schema, f, "string");
    } else if (f->type == JX_INT_LIST) {
        compare_list(w, path, schema, f, "integer");
    } else if (f->type == JX_STR_MAP) {
        compare_map(w, path, schema, f, "string");
    } else if (f->type == JX_INT_MAP) {
        compare_map(w, path, schema, f, "integer");
    } else if (f->type == JX_OBJECT) {
        compare_object(w, path, schema, f->sub);
    } else {
        compare_scalar(w, path, schema, f);
    }
}

static const struct jx_field *field_named(const struct jx_field *fields, const char *name)
{
    for (const struct jx_field *f = fields; f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

static bool is_required(const json_t *schema, const char *name)
{
    size_t i;
    const json_t *word;
    const json_t *list = json_object_get(schema, "required");
    json_array_foreach(list, i, word) {
        if (strcmp(json_string_value(word), name) == 0)
            return true;
    }
    return false;
}

static void compare_object(struct walk *w, const char *path, const json_t *schema,
                           const struct jx_field *fields)
{
    json_t *properties = json_object_get(schema, "properties");
    expect_word(w, path, schema, "type", "object");
    for (const struct jx_field *f = fields; f->name; f++) {
        auto_free char *at = xasprintf("%s.%s", path, f->name);
        const json_t *property = json_object_get(properties, f->name);
        if (!property) {
            differ(w, at, "is not in the schema");
            continue;
        }
        if (is_required(schema, f->name) != f->required)
            differ(w, at,
                   f->required ? "is required by the table alone"
                               : "is required by the schema alone");
        compare_field(w, at, property, f);
    }
    const char *name;
    json_t *property;
    json_object_foreach(properties, name, property) {
        auto_free char *at = xasprintf("%s.%s", path, name);
        if (!field_named(fields, name))
            differ(w, at, "is not in the table");
    }
}

static json_t *schema_of(const char *path)
{
    auto_err struct err e = {0};
    auto_free char *text = NULL;
    size_t len = 0;
    cr_assert_eq(file_read(path, MAX_CRD_BYTES, &text, &len, &e), 0, "%s", err_msg(&e));
    auto_json json_t *crd = NULL;
    cr_assert_eq(yaml_load(text, len, &crd, &e), 0, "%s: %s", path, err_msg(&e));
    const json_t *versions = JX_AT(crd, "spec", "versions");
    cr_assert_eq(json_array_size(versions), 1);
    const json_t *schema =
        JX_AT(json_array_get(versions, 0), "schema", "openAPIV3Schema", "properties");
    cr_assert_not_null(schema, "%s", path);
    return json_incref((json_t *)(uintptr_t)schema);
}

/* status NULL: we have nothing to do with it. */
static void check_kind(const char *crd, const struct jx_field *spec, const struct jx_field *status,
                       const char *const excepted[], size_t min_fields)
{
    auto_json json_t *schema = schema_of(crd);
    struct walk w = {.report = SB_INIT(MAX_REPORT_BYTES), .excepted = excepted};
    compare_object(&w, "spec", json_object_get(schema, "spec"), spec);
    if (status)
        compare_object(&w, "status", json_object_get(schema, "status"), status);
    size_t n = 0;
    while (excepted[n])
        n++;
    cr_expect_eq(w.exceptions, n, "%s: an exception is not needed any more", crd);
    cr_expect_geq(w.fields, min_fields, "%s: %zu fields walked", crd, w.fields);
    cr_expect_str_eq(sb_str(&w.report), "", "%s:\n%s", crd, sb_str(&w.report));
    sb_done(&w.report);
}

Test(api_tables, device_reads_and_writes_what_its_schema_says)
{
    static const char *const none[] = {NULL};
    check_kind("crds/devices.yaml", device_spec_fields, device_status_fields, none, 100);
}

Test(api_tables, gpuprofile_reads_and_writes_what_its_schema_says)
{
    /* Vendors are words to the schema, so that a typing mistake is refused, but a string to the
     * program: a vendor that it does not know selects no card. */
    static const char *const excepted[] = {"spec.devices[].selector.vendor", NULL};
    check_kind("crds/gpuprofiles.yaml", gpuprofile_spec_fields, gpuprofile_status_fields, excepted,
               30);
}

Test(api_tables, a_profile_may_name_the_vendors_that_there_are)
{
    auto_json json_t *schema = schema_of("crds/gpuprofiles.yaml");
    const json_t *words = JX_AT(schema, "spec", "properties", "devices", "items", "properties",
                                "selector", "properties", "vendor", "enum");
    size_t n = 0;
    for (; vendors[n].name; n++)
        cr_expect(has_word(words, vendors[n].name), "%s", vendors[n].name);
    cr_expect_eq(json_array_size(words), n, "the schema has other words");
}

/* The pattern of a resource's name begins with ours and the vendors' domains, and with no other. */
Test(api_tables, a_device_offers_under_the_vendors_domains)
{
    auto_json json_t *schema = schema_of("crds/devices.yaml");
    const char *pattern = JX_STR_AT(schema, "status", "properties", "resources", "items",
                                    "properties", "name", "pattern");
    auto_sb struct sb expected = SB_INIT(1024);
    for (const struct vendor *v = vendors; v->name; v++) {
        sb_add(&expected, v == vendors ? "^(gpu[.]cleave[.]dev|" : "|");
        for (const char *c = v->domain; *c != '/'; c++)
            sb_addf(&expected, *c == '.' ? "[%c]" : "%c", *c);
    }
    sb_add(&expected, ")/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$");
    cr_expect_str_eq(pattern, sb_str(&expected));
}

Test(api_tables, migconfig_reads_and_writes_what_its_schema_says)
{
    static const char *const none[] = {NULL};
    check_kind("crds/migconfigs.yaml", migconfig_spec_fields, migconfig_status_fields, none, 12);
}

Test(api_tables, koordinators_device_reads_and_writes_what_its_schema_says)
{
    /* Quantities may be numbers to the schema; we read those that are texts. Conditions have room
     * for more than any of ours says. */
    static const char *const excepted[] = {"spec.devices[].resources",
                                           "spec.devices[].conditions[].reason",
                                           "spec.devices[].conditions[].message", NULL};
    check_kind("config/koordinator/devices.yaml", koordinator_spec_fields, /* status= */ NULL,
               excepted, 20);
}
