/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/label_fix.h"

#include <ctype.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "api/kinds.h"

/* Of a label's value (kubernetes staging/src/k8s.io/apimachinery/pkg/util/validation). */
enum { MAX_VALUE_BYTES = 63 };

static char *name_for(const char *node)
{
    char *name = xstrndup(node, MAX_VALUE_BYTES);
    size_t n = strlen(name);
    while (n && !isalnum((unsigned char)name[n - 1]))
        name[--n] = '\0';
    return name;
}

static const struct card_fix *fix_of(const struct node_fix *fix, const char *uuid)
{
    for (size_t i = 0; i < fix->n; i++)
        if (fix->cards[i].by_label && strcmp(fix->cards[i].uuid, uuid) == 0)
            return &fix->cards[i];
    return NULL;
}

static json_t *partitions_of(const struct device_want *want)
{
    json_t *counts = json_object();
    for (size_t i = 0; i < want->mig.n_profiles; i++)
        (void)json_object_set_new(counts, want->mig.profiles[i].profile,
                                  json_integer(want->mig.profiles[i].count));
    return counts;
}

/* The layout is written as in a profile. NULL: the whole card. */
static json_t *partitions_of_fix(const struct card_fix *fix)
{
    json_t *counts = NULL;
    auto_free char *yaml = xasprintf("{%s}", fix->layout.layout);
    return yaml_load(yaml, strlen(yaml), &counts, NULL) < 0 ? NULL : counts;
}

static json_t *entry_of(const struct device_card *card, const struct device_want *want,
                        const struct card_fix *fix)
{
    bool cut = fix ? strcmp(fix->layout.layout, "native") != 0 : want->mode == API_MODE_MIG;
    json_t *entry =
        json_pack("{s:[I], s:b}", "indices", (json_int_t)card->index, "migEnabled", cut);
    if (cut)
        (void)json_object_set_new(entry, "migDevices",
                                  fix ? partitions_of_fix(fix) : partitions_of(want));
    return entry;
}

json_t *label_fix_config(const char *node, const struct device_status *st,
                         const struct device_spec *spec, const struct node_fix *fix)
{
    bool any = false;
    auto_free char *name = name_for(node);
    auto_json json_t *entries = json_array();
    for (size_t i = 0; i < st->n_devices; i++) {
        const struct device_card *card = &st->devices[i];
        const struct device_want *want = device_spec_want(spec, card->uuid);
        const struct card_fix *to = fix_of(fix, card->uuid);
        if (!want || !want->has_source || want->source.kind != API_SOURCE_NODE_LABEL)
            continue;
        any |= to != NULL;
        (void)json_array_append_new(entries, entry_of(card, want, to));
    }
    if (!any)
        return NULL;
    return json_pack("{s:s, s:s, s:{s:s}, s:{s:O}}", "apiVersion", API_GROUP_VERSION, "kind",
                     "MIGConfig", "metadata", "name", name, "spec", "devices", entries);
}

char *label_fix_commands(const char *node, const json_t *config)
{
    auto_free char *yaml = yaml_dump(config);
    return xasprintf("kubectl apply -f - <<'EOF'\n%sEOF\n"
                     "kubectl label node %s " LABEL_MIG_CONFIG "=%s --overwrite\n",
                     yaml, node, JX_STR_AT(config, "metadata", "name"));
}
