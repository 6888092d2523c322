/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/known_names.h"

#include <string.h>

#include "base/jx.h"
#include "base/quantity.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "partition/mig_name.h"
#include "partition/vendor.h"

/* MAX_FAR: mig-9g.99gb is 3 from mig-1g.10gb. */
enum { MAX_NAMES = 256, MAX_BYTES = 100, MAX_FAR = 4, MAX_NEAR = 3, WORDS_BYTES = 1000 };

void known_names_init(struct known_names *k)
{
    *k = (struct known_names){.all = json_object()};
}

void known_names_done(struct known_names *k)
{
    json_decref(k->all);
    *k = (struct known_names){0};
}

static void add(struct known_names *k, const char *name)
{
    if (strlen(name) < MAX_BYTES && json_object_size(k->all) < MAX_NAMES)
        (void)json_object_set_new(k->all, name, json_true());
}

void known_names_add_node(struct known_names *k, const json_t *node)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)JX_AT(node, "status", "allocatable"), name, value) {
        int64_t n = 0;
        const char *text = json_string_value(value);
        if (vendor_owns(name) && text && quantity_parse(text, &n, NULL) == 0 && n > 0)
            add(k, name);
    }
}

/* "nvidia.com/mig-1g.10gb.me" of "1g.10gb+me" */
static void add_partition(struct known_names *k, const struct vendor *v, const char *profile)
{
    struct mig_name name;
    char label[MIG_NAME_BYTES];
    if (!v->part || !profile || mig_name_parse(profile, &name, NULL) < 0)
        return;
    auto_free char *resource = xasprintf("%s%s", v->part, mig_name_format_label(&name, label));
    add(k, resource);
}

void known_names_add_device(struct known_names *k, const struct device_status *st)
{
    k->n_cards += st->n_devices;
    for (size_t i = 0; i < st->n_devices; i++) {
        const struct device_card *card = &st->devices[i];
        const struct vendor *v = card->vendor ? vendor_find(card->vendor) : NULL;
        const struct device_model *m = card->model ? device_status_model(st, card->model) : NULL;
        if (!v || (i && card->model && st->devices[i - 1].model &&
                   strcmp(card->model, st->devices[i - 1].model) == 0))
            continue; /* as the card before */
        add(k, v->card);
        for (size_t p = 0; m && card->mig_capable && p < m->n_mig_profiles; p++)
            add_partition(k, v, m->mig_profiles[p].name);
    }
}

/* --- A name that there is not --- */

/* The vendor of whose partitions this would be one. */
static const struct vendor *vendor_of_part(const char *resource)
{
    for (const struct vendor *v = vendors; v->name; v++)
        if (v->part && strncmp(resource, v->part, strlen(v->part)) == 0)
            return v;
    return NULL;
}

static bool is_card(const char *resource)
{
    for (const struct vendor *v = vendors; v->name; v++)
        if (strcmp(resource, v->card) == 0)
            return true;
    return false;
}

/* A part of a GPU instance ("1c.3g.40gb") can be where the instance can. */
static bool has_instance(const struct known_names *k, const struct vendor *v, struct mig_name name)
{
    char label[MIG_NAME_BYTES];
    name.ci_slices = 0;
    auto_free char *whole = xasprintf("%s%s", v->part, mig_name_format_label(&name, label));
    return json_object_get(k->all, whole);
}

char *known_names_refusal(const struct known_names *k, const char *resource)
{
    static const char shared[] = ".shared"; /* behind the name of what several have */
    struct mig_name name;
    size_t len = strlen(resource);
    bool is_shared = len >= strlen(shared) && strcmp(resource + len - strlen(shared), shared) == 0;
    const struct vendor *v = vendor_of_part(resource);
    if (k->n_cards == 0 || json_object_get(k->all, resource) || is_shared)
        return NULL;
    if (v && mig_name_parse_label(resource + strlen(v->part), &name, NULL) == 0)
        return has_instance(k, v, name)
                   ? NULL
                   : xasprintf("no card here has the profile %s", resource + strlen(v->part));
    if (!v && !is_card(resource) && vendor_offers(resource))
        return NULL;
    return xstrdup("no card here gives anything of that name");
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* How many letters differ (Levenshtein). */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[MAX_BYTES];
    size_t n = strlen(b);
    for (size_t k = 0; k <= n; k++)
        row[k] = (unsigned)k;
    for (size_t i = 0; a[i]; i++) {
        unsigned corner = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t k = 0; k < n; k++) {
            unsigned changed = corner + (a[i] != b[k]);
            corner = row[k + 1];
            row[k + 1] = least(changed, least(row[k], row[k + 1]) + 1);
        }
    }
    return row[n];
}

char *known_names_near(const struct known_names *k, const char *resource)
{
    unsigned n = 0;
    const char *name;
    json_t *value;
    auto_sb struct sb b = SB_INIT(WORDS_BYTES);
    for (unsigned far = 1; far <= MAX_FAR && strlen(resource) < MAX_BYTES; far++)
        json_object_foreach(k->all, name, value) {
            if (n < MAX_NEAR && distance(resource, name) == far)
                sb_addf(&b, "%s%s", n++ ? ", " : "", name);
        }
    return n ? sb_take(&b) : NULL;
}
