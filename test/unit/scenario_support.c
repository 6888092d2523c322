/* SPDX-License-Identifier: Apache-2.0 */
#include "scenario_support.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "mig_tables_support.h"

/* PCI ids of the models (pci-ids.ucw.cz); an id of the same vendor stands for those not listed. */
static uint32_t pci_id_of(const char *model)
{
    static const struct {
        const char *model;
        uint32_t id;
    } ids[] = {
        {"A100-40", 0x20B010DE}, {"A100-80", 0x20B210DE}, {"A30", 0x20B710DE},
        {"H100-80", 0x233010DE}, {"T4", 0x1EB810DE},
    };
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        if (strcmp(ids[i].model, model) == 0)
            return ids[i].id;
    return 0x2FFF10DE;
}

static const char *text_at(const json_t *obj, const char *key, const char *fallback)
{
    const char *s = json_string_value(json_object_get(obj, key));
    return s ? s : fallback;
}

static void put_partitions(const json_t *card, struct resolve_card *ret)
{
    struct profile_count *list = NULL;
    size_t n = 0;
    const char *profile;
    json_t *count;
    json_object_foreach(json_object_get(card, "partitions"), profile, count) {
        struct profile_count *pc = XPUSH(list, n);
        pc->profile = xstrdup(profile);
        pc->count = json_integer_value(count);
    }
    ret->partitions = list;
    ret->n_partitions = n;
}

static int choice_of(const json_t *obj, const char *key, const char *const *choices)
{
    const char *word = text_at(obj, key, choices[0]);
    int i = 0;
    while (choices[i] && strcmp(choices[i], word) != 0)
        i++;
    cr_assert(choices[i], "%s: %s", key, word);
    return i;
}

static unsigned number_at(const json_t *obj, const char *key)
{
    return (unsigned)json_integer_value(json_object_get(obj, key));
}

static void put_sgpu(const json_t *card, struct sgpu_state *ret)
{
    *ret = (struct sgpu_state){.memory_mib = 65536,
                               .qos = choice_of(card, "qosPolicy", api_qos_policy_names),
                               .timeslice_ms = number_at(card, "timesliceMilliseconds")};
    size_t i;
    const json_t *slice;
    json_array_foreach(json_object_get(card, "slices"), i, slice) {
        struct sgpu_slice *s = &ret->items[ret->n++];
        (void)snprintf(s->alias, sizeof(s->alias), "%s", text_at(slice, "alias", ""));
        s->quota =
            (struct sgpu_quota){number_at(slice, "memoryMiB"), number_at(slice, "computePercent")};
        s->foreign = json_is_true(json_object_get(slice, "foreign"));
    }
}

static void put_card(const json_t *card, unsigned index, struct resolve_card *ret,
                     struct sgpu_state *sgpu)
{
    static const char *const uuids[] = {"GPU-d", "GPU-b", "GPU-a", "GPU-c", "GPU-h", "GPU-f",
                                        "GPU-e", "GPU-g", "GPU-l", "GPU-i", "GPU-k", "GPU-j"};
    cr_assert_lt(index, ARRAY_LEN(uuids));
    const char *model = text_at(card, "model", "H100-80");
    bool metax = strcmp(model, "C500") == 0;
    bool capable = !metax && strcmp(model, "T4") != 0 && strcmp(model, "L4") != 0;
    *ret = (struct resolve_card){
        .uuid = text_at(card, "uuid", uuids[index]),
        .vendor = metax ? "metax" : "nvidia",
        .model = model,
        .pci_bus_id = text_at(card, "pciBusID", "00000000:17:00.0"),
        .pci_device_id = pci_id_of(model),
        .pci_subsystem_id = 0x16C110DE,
        .index = index,
        .mig_capable = capable,
        .healthy = !json_is_false(json_object_get(card, "healthy")),
        .mode = choice_of(card, "mode", api_mode_names),
        .table = capable ? mig_model(model) : NULL,
        .sgpu = metax ? sgpu : NULL,
    };
    if (ret->mode == API_MODE_VGPU)
        ret->sgpu = NULL; /* the two exclude each other */
    put_sgpu(card, sgpu);
    put_partitions(card, ret);
}

static void put_profiles(struct scenario *s)
{
    const json_t *list = json_object_get(s->doc, "profiles");
    size_t n = json_array_size(list);
    s->profiles = xcalloc(n, sizeof(*s->profiles));
    s->profile_specs = xcalloc(n, sizeof(*s->profile_specs));
    for (size_t i = 0; i < n; i++) {
        const json_t *p = json_array_get(list, i);
        auto_err struct err e = {0};
        cr_assert_eq(gpuprofile_spec_decode(p, &s->profile_specs[i], &e), 0, "%s", err_msg(&e));
        s->profiles[i] =
            (struct resolve_profile){text_at(p, "name", "profile"),
                                     json_integer_value(json_object_get(p, "generation")),
                                     &s->profile_specs[i]};
    }
    s->in.profiles = s->profiles;
    s->in.n_profiles = n;
}

static void put_configs(struct scenario *s)
{
    const json_t *list = json_object_get(s->doc, "configs");
    size_t n = json_array_size(list);
    s->configs = xcalloc(n, sizeof(*s->configs));
    s->config_specs = xcalloc(n, sizeof(*s->config_specs));
    for (size_t i = 0; i < n; i++) {
        const json_t *c = json_array_get(list, i);
        auto_err struct err e = {0};
        cr_assert_eq(migconfig_spec_decode(c, &s->config_specs[i], &e), 0, "%s", err_msg(&e));
        s->configs[i] =
            (struct resolve_config){text_at(c, "name", "config"), 1, &s->config_specs[i]};
    }
    s->in.configs = s->configs;
    s->in.n_configs = n;
}

static void put_current(struct scenario *s)
{
    json_t *current = json_object_get(s->doc, "current");
    if (!current)
        return;
    auto_json json_t *holder = json_pack("{s:O}", "spec", current);
    auto_err struct err e = {0};
    cr_assert_eq(device_spec_decode(holder, &s->current, &e), 0, "%s", err_msg(&e));
    s->in.current = &s->current;
}

void scenario_from(const json_t *doc, struct scenario *ret)
{
    *ret = (struct scenario){.doc = json_deep_copy(doc)};
    const json_t *cards = json_object_get(ret->doc, "cards");
    size_t n = json_array_size(cards);
    ret->cards = xcalloc(n, sizeof(*ret->cards));
    ret->sgpu = xcalloc(n, sizeof(*ret->sgpu));
    for (size_t i = 0; i < n; i++)
        put_card(json_array_get(cards, i), (unsigned)i, &ret->cards[i], &ret->sgpu[i]);
    ret->in = (struct resolve_input){
        .cards = ret->cards,
        .n_cards = n,
        .label = json_string_value(json_object_get(ret->doc, "label")),
    };
    put_profiles(ret);
    put_configs(ret);
    put_current(ret);
}

void scenario_parse(const char *text, struct scenario *ret)
{
    auto_err struct err e = {0};
    auto_json json_t *doc = NULL;
    cr_assert_eq(yaml_load(text, strlen(text), &doc, &e), 0, "%s", err_msg(&e));
    scenario_from(doc, ret);
}

static void free_partitions(const struct resolve_card *card)
{
    struct profile_count *list = (struct profile_count *)(uintptr_t)card->partitions;
    for (size_t i = 0; i < card->n_partitions; i++)
        free(list[i].profile);
    free(list);
}

void scenario_done(struct scenario *s)
{
    for (size_t i = 0; i < s->in.n_cards; i++)
        free_partitions(&s->cards[i]);
    for (size_t i = 0; i < s->in.n_profiles; i++)
        gpuprofile_spec_done(&s->profile_specs[i]);
    for (size_t i = 0; i < s->in.n_configs; i++)
        migconfig_spec_done(&s->config_specs[i]);
    device_spec_done(&s->current);
    free(s->cards);
    free(s->sgpu);
    free(s->profiles);
    free(s->profile_specs);
    free(s->configs);
    free(s->config_specs);
    json_decref(s->doc);
}

static const char *verdict_name(enum resolve_verdict v)
{
    static const char *const names[] = {[RESOLVE_NOT_CONCERNED] = "not concerned",
                                        [RESOLVE_GOVERNS] = "governs",
                                        [RESOLVE_REFUSED] = "refused",
                                        [RESOLVE_OVERRIDDEN] = "overridden"};
    return names[v];
}

char *scenario_text(const struct resolve_result *r)
{
    auto_sb struct sb b = SB_INIT(1 << 20);
    auto_json json_t *spec = device_spec_encode(&r->spec);
    auto_free char *yaml = yaml_dump(spec);
    sb_add(&b, yaml);
    for (size_t i = 0; i < r->n_outcomes; i++) {
        const struct resolve_outcome *o = &r->outcomes[i];
        sb_addf(&b, "\n%s %s: %s, %zu cards\n",
                o->source.kind == API_SOURCE_PROFILE ? "profile" : "label", o->source.name,
                verdict_name(o->verdict), o->n_cards);
        for (size_t k = 0; k < o->n_problems; k++)
            sb_addf(&b, "  %s%s%s: %s\n", o->problems[k].reason, o->problems[k].uuid ? " " : "",
                    o->problems[k].uuid ? o->problems[k].uuid : "", o->problems[k].message);
    }
    cr_assert_eq(sb_check(&b, NULL), 0);
    return sb_take(&b);
}
