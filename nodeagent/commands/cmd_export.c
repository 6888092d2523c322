/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/options.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/kinds.h"
#include "interop/hami_config.h"
#include "interop/metax_config.h"
#include "interop/migparted.h"
#include "nodeagent/commands/cmd.h"
#include "nodeagent/commands/host.h"
#include "partition/vendor.h"

/* `export` and `import`: between this host, Cleave's objects, and the files of mig-parted, MetaX
 * and HAMi. */

enum { MAX_FILE_BYTES = 4 << 20 };

static enum verb_exit fail(const char *verb, const struct err *e, enum verb_exit code)
{
    (void)fprintf(stderr, "cleave-agent %s: %s\n", verb, err_msg(e));
    return code;
}

static enum verb_exit print_yaml(json_t *doc)
{
    auto_free char *text = yaml_dump(doc);
    return fputs(text, stdout) < 0 ? VERB_COULD_NOT_LOOK : VERB_YES;
}

static bool entry_fits(const struct migconfig_entry *entry, const struct resolve_card *card)
{
    if (entry->mig_enabled != (card->mode == API_MODE_MIG) ||
        entry->n_mig_devices != card->n_partitions)
        return false;
    for (size_t i = 0; i < card->n_partitions; i++) {
        bool found = false;
        for (size_t k = 0; k < entry->n_mig_devices && !found; k++)
            found = strcmp(entry->mig_devices[k].key, card->partitions[i].profile) == 0 &&
                    entry->mig_devices[k].num == card->partitions[i].count;
        if (!found)
            return false;
    }
    return true;
}

/* One entry for each distinct layout; cards with the same layout share it. */
static void add_card(struct migconfig_spec *spec, const struct resolve_card *card)
{
    struct migconfig_entry *entry = NULL;
    for (size_t i = 0; i < spec->n_devices && !entry; i++)
        if (entry_fits(&spec->devices[i], card))
            entry = &spec->devices[i];
    if (!entry) {
        entry = XPUSH(spec->devices, spec->n_devices);
        entry->mig_enabled = card->mode == API_MODE_MIG;
        for (size_t i = 0; i < card->n_partitions; i++) {
            struct jx_pair *p = XPUSH(entry->mig_devices, entry->n_mig_devices);
            p->key = xstrdup(card->partitions[i].profile);
            p->num = card->partitions[i].count;
        }
    }
    *XPUSH(entry->indices, entry->n_indices) = card->index;
}

/* True for a card that a MIGConfig can describe; a MIGConfig counts only cards of such a vendor. */
static bool has_parts(const struct resolve_card *card)
{
    const struct vendor *v = vendor_find(card->vendor);
    return v && v->part;
}

/* A single layout for all cards needs no indices. */
static void simplify(struct migconfig_spec *spec)
{
    if (spec->n_devices != 1)
        return;
    free(TAKE(spec->devices[0].indices));
    spec->devices[0].n_indices = 0;
}

int cmd_export(int argc, char **argv)
{
    struct host_flags f = HOST_FLAGS_DEFAULT;
    const char *name = "current";
    bool migparted = false;
    bool help = false;
    const struct option_def defs[] = {
        {"name", 0, "MIG_PARTED_CONFIG_LABEL", "NAME", "name of the layout", &name, NULL},
        {"mig-parted", 0, NULL, NULL, "print a mig-parted v1 file instead of a MIGConfig", NULL,
         &migparted},
        HOST_OPTIONS(f),
        {"help", 'h', NULL, NULL, "show this", NULL, &help},
        {0},
    };
    auto_free struct option_def *all = host_options(&f, defs);
    auto_err struct err e = {0};
    size_t n;
    if (options_parse(all, argc, argv, NULL, 0, &n, &e) < 0)
        return fail("export", &e, VERB_COULD_NOT_LOOK);
    if (help) {
        options_help("cleave-agent export [flags]",
                     "Prints the present layout of this host's cards.", all);
        return 0;
    }
    auto_host struct host h = {0};
    if (host_open(&f, &h, &e) < 0)
        return fail("export", &e, VERB_COULD_NOT_LOOK);
    if (h.inventory.n_cards == 0) {
        (void)err_set(&e, ERR_NOT_FOUND, "this host has no cards");
        return fail("export", &e, VERB_NO);
    }
    auto_migconfig_spec struct migconfig_spec spec = {0};
    for (size_t i = 0; i < h.inventory.n_cards; i++)
        if (has_parts(&h.cards[i]))
            add_card(&spec, &h.cards[i]);
    if (spec.n_devices == 0) {
        (void)err_set(&e, ERR_NOT_FOUND, "this host has no cards of a vendor with MIG");
        return fail("export", &e, VERB_NO);
    }
    simplify(&spec);
    auto_json json_t *doc = NULL;
    if (migparted) {
        doc = migparted_write(name, &spec);
    } else {
        const struct migparted_entry entry = {.object_name = xstrdup(name), .spec = spec};
        doc = migparted_object(&entry);
        free(entry.object_name);
    }
    return print_yaml(doc);
}

/* Makes one MIGConfig for each entry. *ret is a new reference. */
static int import_migparted(const json_t *doc, json_t **ret, struct err *e)
{
    auto_migparted_file struct migparted_file file = {0};
    TRY(migparted_read(doc, &file, e));
    *ret = json_array();
    for (size_t i = 0; i < file.n; i++)
        (void)json_array_append_new(*ret, migparted_object(&file.entries[i]));
    return 0;
}

/* Refuses an object of the API other than a ConfigMap. */
static int refuse_objects(const json_t *doc, struct err *e)
{
    const char *version = JX_STR_AT(doc, "apiVersion");
    const char *kind = JX_STR_AT(doc, "kind");
    if (!version || !kind || strcmp(kind, "ConfigMap") == 0)
        return 0;
    if (strcmp(version, API_GROUP_VERSION) == 0)
        return err_set(e, ERR_INVALID, "is a %s already; kubectl apply it", kind);
    return err_set(e, ERR_INVALID,
                   "is a %s; wanted is a mig-parted file, or a ConfigMap with one or with MetaX's "
                   "or HAMi's configuration",
                   kind);
}

static bool is_hamis(const json_t *docs)
{
    for (size_t i = 0; i < json_array_size(docs); i++)
        if (hami_config_is(json_array_get(docs, i)))
            return true;
    return false;
}

/* Notices of what is not done here go to stderr: the profiles on stdout are for another program. */
static int import_hami(const json_t *docs, json_t **ret, struct err *e)
{
    auto_hami_import struct hami_import import = {0};
    TRY(hami_config_read(docs, &import, e));
    const struct hami_notices *told = &import.notices;
    for (size_t i = 0; i < told->n; i++)
        (void)fprintf(stderr, "cleave-agent import: %s %s\n", told->items[i].where,
                      told->items[i].why);
    if (told->more)
        (void)fprintf(stderr, "cleave-agent import: and %zu more of the kind\n", told->more);
    *ret = json_incref(import.profiles);
    return 0;
}

/* HAMi's configuration is two ConfigMaps; the others are one document. */
static int check_docs(const char *path, const json_t *docs, struct err *e)
{
    if (is_hamis(docs))
        return 0;
    if (json_array_size(docs) != 1)
        return err_set(e, ERR_INVALID, "%s: one YAML document expected, found %zu",
                       file_title(path), json_array_size(docs));
    if (refuse_objects(json_array_get(docs, 0), e) < 0)
        return err_set(e, ERR_INVALID, "%s %s", file_title(path), err_msg(e));
    return 0;
}

static int import_docs(const json_t *docs, json_t **ret, struct err *e)
{
    const json_t *doc = json_array_get(docs, 0);
    if (is_hamis(docs))
        return import_hami(docs, ret, e);
    return metax_config_is(doc) ? metax_config_read(doc, ret, e) : import_migparted(doc, ret, e);
}

static int import_file(const char *path, struct err *e)
{
    auto_free char *text = NULL;
    size_t len;
    TRY(file_read(path, MAX_FILE_BYTES, &text, &len, e));
    auto_json json_t *docs = NULL;
    auto_json json_t *objects = NULL;
    if (yaml_load_all(text, len, &docs, e) < 0)
        return err_wrap(e, "%s", file_title(path));
    TRY(check_docs(path, docs, e));
    if (import_docs(docs, &objects, e) < 0)
        return err_wrap(e, "%s", file_title(path));
    for (size_t i = 0; i < json_array_size(objects); i++) {
        if (i)
            (void)puts("---");
        (void)print_yaml(json_array_get(objects, i));
    }
    return 0;
}

int cmd_import(int argc, char **argv)
{
    bool help = false;
    const struct option_def defs[] = {{"help", 'h', NULL, NULL, "show this", NULL, &help}, {0}};
    auto_err struct err e = {0};
    const char *path = "-";
    size_t n;
    if (options_parse(defs, argc, argv, &path, 1, &n, &e) < 0)
        return fail("import", &e, VERB_COULD_NOT_LOOK);
    if (help) {
        options_help(
            "cleave-agent import [FILE]",
            "Prints the entries of a mig-parted v1 file, or of the ConfigMap that holds one,\n"
            "as MIGConfigs, and as GPUProfiles MetaX's ConfigMap metax-device-config, and HAMi's\n"
            "hami-scheduler-device and hami-device-plugin, together:\n"
            "cleave-agent import config.yaml | kubectl apply -f -",
            defs);
        return 0;
    }
    return import_file(path, &e) < 0 ? fail("import", &e, VERB_COULD_NOT_LOOK) : VERB_YES;
}
