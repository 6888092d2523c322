/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/jx.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/feature_label.h"
#include "api/kinds.h"
#include "api/koordinator.h"
#include "interop/gpushare.h"
#include "interop/koordinator_pod.h"
#include "interop/metax_cards.h"
#include "interop/node_lock.h"
#include "nodeagent/slots/slot_wish.h"
#include "partition/vendor.h"
#include "reconcilers/records/node_taint.h"

/*
 * The policies of config/ name what the program writes. Here their lists are held against the
 * program's own tables: a key that is added to one and not to the other fails.
 */
#define MAX_POLICY_BYTES (256 * 1024)

struct words {
    char **items;
    size_t n;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_word(struct words *w, const char *text, size_t len)
{
    *XPUSH(w->items, w->n) = xstrndup(text, len);
}

static void words_done(struct words *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->items[i]);
    free(w->items);
}
AUTO_DEFINE(words, struct words, words_done)
#define auto_words AUTO(words)

static void add_table(struct words *w, const char *const *table)
{
    for (; *table; table++)
        add_word(w, *table, strlen(*table));
}

/* The string literals of a CEL expression. */
static struct words literals_of(const char *expression)
{
    struct words ret = {0};
    for (const char *open = strchr(expression, '\''); open; open = strchr(open, '\'')) {
        const char *end = strchr(open + 1, '\'');
        cr_assert_not_null(end, "%s", expression);
        add_word(&ret, open + 1, (size_t)(end - open - 1));
        open = end + 1;
    }
    return ret;
}

static void expect_same(struct words *policy, struct words *program, const char *what)
{
    qsort(policy->items, policy->n, sizeof(*policy->items), by_text);
    qsort(program->items, program->n, sizeof(*program->items), by_text);
    cr_assert_eq(policy->n, program->n, "%s: %zu in the policy, %zu in the program", what,
                 policy->n, program->n);
    for (size_t i = 0; i < policy->n; i++)
        cr_expect_str_eq(policy->items[i], program->items[i], "%s", what);
}

/* All documents of a file. New reference. */
static json_t *load(const char *path)
{
    auto_err struct err e = {0};
    auto_free char *text = NULL;
    size_t len = 0;
    json_t *docs = NULL;
    cr_assert_eq(file_read(path, MAX_POLICY_BYTES, &text, &len, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(yaml_load_all(text, len, &docs, &e), 0, "%s: %s", path, err_msg(&e));
    return docs;
}

/* The expression of a variable of a policy of this file. Borrowed. */
static const char *variable(const json_t *docs, const char *policy, const char *name)
{
    size_t i;
    size_t k;
    const json_t *doc;
    const json_t *v;
    json_array_foreach(docs, i, doc) {
        if (strcmp(JX_STR_AT(doc, "metadata", "name"), policy) != 0)
            continue;
        json_array_foreach(JX_AT(doc, "spec", "variables"), k, v)
            if (strcmp(JX_STR_AT(v, "name"), name) == 0)
                return JX_STR_AT(v, "expression");
    }
    cr_assert_fail("%s has no variable %s", policy, name);
    return NULL;
}

/* Do all its literals of this family, and no others of it, stand in the text? */
static void expect_literals(const char *expression, const char *prefix, struct words *program,
                            const char *what)
{
    auto_words struct words all = literals_of(expression);
    auto_words struct words found = {0};
    for (size_t i = 0; i < all.n; i++)
        if (strncmp(all.items[i], prefix, strlen(prefix)) == 0)
            add_word(&found, all.items[i], strlen(all.items[i]));
    expect_same(&found, program, what);
}

static const char node_status[] = "config/admission/controller-node-status.yaml";
static const char node_status_name[] = "cleave-controller-node-status";

static void expect_list(const char *name, const char *const *table, const char *more)
{
    auto_json json_t *docs = load(node_status);
    auto_words struct words policy = literals_of(variable(docs, node_status_name, name));
    auto_words struct words program = {0};
    add_table(&program, table);
    if (more)
        add_word(&program, more, strlen(more));
    expect_same(&policy, &program, name);
}

Test(admission, a_node_gets_the_labels_that_the_program_writes)
{
    expect_list("nvidia", feature_label_nvidia, &LABEL_MIG_CONFIG_STATE[strlen(FEATURE_NVIDIA)]);
    expect_list("ofResource", feature_label_resource, NULL);
    expect_list("metax", feature_label_metax, NULL);
    expect_list("ofModel", feature_label_model, NULL);
}

/* The one regular expression of the labels' rule that begins so. Caller frees with regfree. */
static void pattern(const char *begin, regex_t *ret)
{
    auto_json json_t *docs = load(node_status);
    auto_words struct words all = literals_of(variable(docs, node_status_name, "badLabels"));
    for (size_t i = 0; i < all.n; i++)
        if (strncmp(all.items[i], begin, strlen(begin)) == 0) {
            cr_assert_eq(regcomp(ret, all.items[i], REG_EXTENDED | REG_NOSUB), 0);
            return;
        }
    cr_assert_fail("the policy has no pattern %s…", begin);
}

Test(admission, a_profiles_name_is_one_to_policy_and_program_alike)
{
    static const char *const profiles[] = {
        "1g.10gb",   "7g.80gb",  "1c.3g.40gb", "1g.24gb.me.all", "1g.24gb-me", "12g.1gb",
        "g.10gb",    "1g10gb",   "1c3g.40gb",  "1c.1c.3g.40gb",  "1g.10gB",    "1g.10gb+me",
        "1g.10gb.1", "x",        "1g.gb",      "c.3g.40gb",      "1g.10gb ",   "1g.10gb/x",
        "",          "1g.10gbA",
    };
    regex_t re;
    pattern("^nvidia", &re);
    for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
        auto_free char *resource = xasprintf("%s%s", FEATURE_MIG, profiles[i]);
        auto_free char *key = xasprintf("%s.count", resource);
        cr_expect_eq(regexec(&re, resource, 0, NULL, 0) == 0, feature_label_allowed(key, "1"), "%s",
                     key);
    }
    regfree(&re);
}

Test(admission, a_pci_label_is_one_to_policy_and_program_alike)
{
    static const char *const names[] = {
        "10de.present",       "0302_10de.present", "0302_10de.sriov.capable",
        "10de.sriov.capable", "10DE.present",      "10de",
        "10de.absent",        "0302-10de.present", "0302_10de_1.present",
        "10d.present",        "10de.present.x",    "30302_10de.present",
    };
    regex_t re;
    pattern("^feature", &re);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_free char *key = xasprintf("%s%s", FEATURE_PCI, names[i]);
        cr_expect_eq(regexec(&re, key, 0, NULL, 0) == 0, feature_label_allowed(key, "true"), "%s",
                     key);
    }
    regfree(&re);
}

/* Every key of the lists, in all families, is one that the program takes from an agent. */
Test(admission, the_lists_stand_behind_the_programs_prefixes)
{
    auto_json json_t *docs = load(node_status);
    const char *rule = variable(docs, node_status_name, "badLabels");
    static const char *const prefixes[] = {FEATURE_NVIDIA, FEATURE_METAX, FEATURE_MODEL,
                                           "nvidia.com/gpu"};
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        auto_free char *quoted = xasprintf("'%s'", prefixes[i]);
        cr_expect_not_null(strstr(rule, quoted), "%s", quoted);
    }
    auto_free char *nvidia =
        xasprintf("k.startsWith('%s') && k.substring(%zu)", FEATURE_NVIDIA, strlen(FEATURE_NVIDIA));
    auto_free char *metax =
        xasprintf("k.startsWith('%s') && k.substring(%zu)", FEATURE_METAX, strlen(FEATURE_METAX));
    cr_expect_not_null(strstr(rule, nvidia), "%s", nvidia);
    cr_expect_not_null(strstr(rule, metax), "%s", metax);
}

Test(admission, a_node_gets_resources_of_the_vendors_koordinators_and_gpushares)
{
    auto_json json_t *docs = load(node_status);
    auto_words struct words domains = {0};
    auto_words struct words koordinator = {0};
    auto_words struct words gpushare = {0};
    static const char *const names[] = {KOORDINATOR_GPU,   KOORDINATOR_CORE,   KOORDINATOR_MEMORY,
                                        KOORDINATOR_RATIO, KOORDINATOR_SHARED, NULL};
    static const char *const others[] = {GPUSHARE_COUNT, GPUSHARE_MEMORY, NULL};
    static const char *const ours[] = {SHARE_SLOT, NULL};
    auto_words struct words slots = {0};
    add_table(&slots, ours);
    for (const struct vendor *v = vendors; v->name; v++)
        add_word(&domains, v->domain, strlen(v->domain));
    add_table(&koordinator, names);
    add_table(&gpushare, others);
    auto_words struct words policy = literals_of(variable(docs, node_status_name, "vendors"));
    expect_same(&policy, &domains, "vendors");
    expect_literals(variable(docs, node_status_name, "koordinator"), "", &koordinator,
                    "koordinator");
    expect_literals(variable(docs, node_status_name, "gpushare"), "", &gpushare, "gpushare");
    expect_literals(variable(docs, node_status_name, "ours"), "", &slots, "ours");
}

Test(admission, words_beside_which_koordinators_are_left_alone_are_those_of_the_webhook)
{
    auto_json json_t *adds = load("config/koordinator-defaults/pod-koordinator-defaults.yaml");
    auto_json json_t *refuses = load("config/koordinator-shares/pod-koordinator.yaml");
    auto_words struct words program = {0};
    add_table(&program, koordinator_pod_others);
    expect_literals(variable(adds, "cleave-pod-koordinator-defaults", "others"), "", &program,
                    "others");
    expect_literals(variable(refuses, "cleave-pod-koordinator", "others"), "", &program, "others");
}

Test(admission, a_node_gets_the_annotations_of_the_schedulers)
{
    auto_json json_t *docs = load(node_status);
    auto_words struct words program = {0};
    static const char *const names[] = {METAX_CARDS_ANNOTATION, NODE_LOCK_ANNOTATION, NULL};
    add_table(&program, names);
    expect_literals(variable(docs, node_status_name, "badAnnotations"), "", &program,
                    "annotations");
}

/* All that the file says, as one text. */
static char *text_of(const char *path)
{
    auto_err struct err e = {0};
    char *text = NULL;
    size_t len = 0;
    cr_assert_eq(file_read(path, MAX_POLICY_BYTES, &text, &len, &e), 0, "%s", err_msg(&e));
    return text;
}

/* Does the file quote each of them? */
static void expect_quoted(const char *path, const char *const *names)
{
    auto_free char *text = text_of(path);
    for (; *names; names++) {
        auto_free char *quoted = xasprintf("'%s'", *names);
        cr_expect_not_null(strstr(text, quoted), "%s does not name %s", path, quoted);
    }
}

Test(admission, other_policies_name_what_the_program_does)
{
    static const char *const taint[] = {NODE_TAINT_KEY, NULL};
    static const char *const device[] = {KOORDINATOR_LABEL_VENDOR, KOORDINATOR_LABEL_MODEL,
                                         KOORDINATOR_LABEL_DRIVER, KOORDINATOR_LABEL_POLICY,
                                         KOORDINATOR_PARTITIONS,   NULL};
    static const char *const pod[] = {SLOT_ALLOCATED, KOORDINATOR_ALLOCATED, NULL};
    expect_quoted("config/admission/controller-node.yaml", taint);
    expect_quoted("config/admission/controller-device.yaml", device);
    expect_quoted("config/slots/pod-slots.yaml", pod);
}
