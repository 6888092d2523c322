/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/sb.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "golden_support.h"
#include "mig_tables_support.h"
#include "scenario_support.h"

#define MAX_BYTES (1UL << 20)

static json_t *cases_of(const char *name)
{
    auto_free char *path = xasprintf("test/golden/resolve/%s.yaml", name);
    auto_free char *text = NULL;
    size_t len = 0;
    auto_err struct err e = {0};
    json_t *docs = NULL;
    cr_assert_eq(file_read(path, MAX_BYTES, &text, &len, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(yaml_load_all(text, len, &docs, &e), 0, "%s: %s", path, err_msg(&e));
    return docs;
}

static json_t *spec_of(const struct resolve_input *in)
{
    auto_resolve_result struct resolve_result r;
    resolve_node(in, &r);
    return device_spec_encode(&r.spec);
}

/* The other order of the profiles must give the same wish. */
static void check_order(struct scenario *s, const char *name)
{
    auto_json json_t *forward = spec_of(&s->in);
    size_t n = s->in.n_profiles;
    for (size_t i = 0; i < n / 2; i++) {
        struct resolve_profile p = s->profiles[i];
        s->profiles[i] = s->profiles[n - 1 - i];
        s->profiles[n - 1 - i] = p;
    }
    auto_json json_t *backward = spec_of(&s->in);
    cr_expect(json_equal(forward, backward), "%s depends on the profiles' order", name);
}

/* What came out, in force, must be what comes out. */
static void check_settles(struct scenario *s, const char *name)
{
    auto_resolve_result struct resolve_result r;
    resolve_node(&s->in, &r);
    auto_json json_t *once = device_spec_encode(&r.spec);
    struct resolve_input in = s->in;
    in.current = &r.spec;
    auto_json json_t *twice = spec_of(&in);
    cr_expect(json_equal(once, twice), "%s does not settle", name);
}

static void check_golden(const char *name)
{
    auto_sb struct sb b = SB_INIT(MAX_BYTES);
    auto_json json_t *docs = cases_of(name);
    size_t i;
    json_t *doc;
    json_array_foreach(docs, i, doc) {
        const char *title = json_string_value(json_object_get(doc, "case"));
        auto_scenario struct scenario s;
        auto_resolve_result struct resolve_result r;
        scenario_from(doc, &s);
        resolve_node(&s.in, &r);
        auto_free char *text = scenario_text(&r);
        sb_addf(&b, "%s== %s\n%s", i ? "\n" : "", title, text);
        check_settles(&s, title);
        check_order(&s, title);
    }
    auto_free char *path = xasprintf("resolve/%s.txt", name);
    golden_check(path, sb_str(&b));
}

Test(resolve, label_priority_and_conflict_decide_who_governs_a_card)
{
    check_golden("precedence");
}

Test(resolve, entries_of_a_profile_take_cards_in_order)
{
    check_golden("entries");
}

Test(resolve, names_find_migconfigs_aliases_and_built_in_layouts)
{
    check_golden("configs");
}

Test(resolve, what_cannot_be_is_refused_with_reason_and_remedy)
{
    check_golden("refusals");
}

Test(resolve, profile_names_become_the_cards_own)
{
    check_golden("names");
}

Test(resolve, slices_with_quotas)
{
    check_golden("sgpu");
}

Test(resolve, virtual_functions_and_what_is_shared)
{
    check_golden("vgpu");
}

Test(resolve, shares_beside_other_cards)
{
    check_golden("shares");
}

/* --- Properties, over random nodes --- */

enum { ROUNDS = 3000, SHARED_ROUNDS = 600 };

static const char *pick(struct rng *r, const char *const words[], size_t n)
{
    return words[rng_below(r, n)];
}
#define PICK(r, ...)                                                                               \
    pick((r), (const char *const[]){__VA_ARGS__},                                                  \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static const char *random_profile_name(struct rng *r)
{
    return PICK(r, "1g.10gb", "1g.5gb", "2g.20gb", "3g.40gb", "7g.80gb", "1c.3g.40gb", "1g.10gb+me",
                "2g.12gb", "1g.24gb-me", "nonsense", "9g.999gb", "3g.47gb", "");
}

static const char *random_layout_name(struct rng *r)
{
    return PICK(r, "all-balanced", "all-disabled", "all-enabled", "all-1g.10gb", "config-0",
                "config-1", "Alias", "nowhere", "all-3g.20gb", "");
}

static json_t *random_profiles(struct rng *r)
{
    json_t *map = json_object();
    for (uint64_t i = rng_below(r, 4); i > 0; i--)
        (void)json_object_set_new(map, random_profile_name(r),
                                  json_integer((json_int_t)rng_below(r, 9) - 1));
    return map;
}

static json_t *random_selector(struct rng *r)
{
    json_t *s = json_object();
    if (rng_below(r, 3) == 0)
        (void)json_object_set_new(s, "indices",
                                  json_pack("[i, i]", (int)rng_below(r, 5), (int)rng_below(r, 5)));
    if (rng_below(r, 4) == 0)
        (void)json_object_set_new(s, "model", json_string(PICK(r, "H100*", "*", "a30", "?100-80")));
    if (rng_below(r, 4) == 0)
        (void)json_object_set_new(s, "count", json_integer(1 + (json_int_t)rng_below(r, 3)));
    if (rng_below(r, 6) == 0)
        (void)json_object_set_new(s, "uuids", json_pack("[s]", PICK(r, "GPU-a", "GPU-b", "GPU-?")));
    return s;
}

static json_t *random_entry(struct rng *r)
{
    json_t *entry = json_pack("{s:o, s:s}", "selector", random_selector(r), "mode",
                              PICK(r, "mig", "mig", "native"));
    const char *layout = random_layout_name(r);
    if (rng_below(r, 3) == 0 && *layout)
        (void)json_object_set_new(entry, "mig", json_pack("{s:s}", "config", layout));
    else if (rng_below(r, 8))
        (void)json_object_set_new(entry, "mig", json_pack("{s:o}", "profiles", random_profiles(r)));
    return entry;
}

static json_t *random_spec(struct rng *r)
{
    json_t *devices = json_array();
    for (uint64_t i = 1 + rng_below(r, 3); i > 0; i--)
        (void)json_array_append_new(devices, random_entry(r));
    return json_pack("{s:{}, s:i, s:s, s:s, s:o}", "nodeSelector", "priority", (int)rng_below(r, 3),
                     "remainder", PICK(r, "unchanged", "native"), "migStrategy",
                     PICK(r, "none", "single", "mixed"), "devices", devices);
}

static json_t *random_config(struct rng *r)
{
    json_t *devices = json_array();
    for (uint64_t i = 1 + rng_below(r, 2); i > 0; i--) {
        json_t *entry = json_pack("{s:b, s:o}", "migEnabled", (int)rng_below(r, 2), "migDevices",
                                  random_profiles(r));
        if (rng_below(r, 2))
            (void)json_object_set_new(entry, "filter",
                                      json_pack("[s]",
                                                PICK(r, "0x233010DE", "0x20B010DE:0x16C110DE",
                                                     "garbage", "")));
        if (rng_below(r, 3) == 0)
            (void)json_object_set_new(entry, "indices", json_pack("[i]", (int)rng_below(r, 6)));
        (void)json_array_append_new(devices, entry);
    }
    return json_pack("{s:[s], s:o}", "aliases", PICK(r, "Alias", "all-balanced", "config-0"),
                     "devices", devices);
}

static json_t *random_node(struct rng *r)
{
    json_t *cards = json_array();
    json_t *profiles = json_array();
    json_t *configs = json_array();
    for (uint64_t i = rng_below(r, 6); i > 0; i--)
        (void)json_array_append_new(cards, json_pack("{s:s}", "model",
                                                     PICK(r, "H100-80", "A100-40", "A30", "T4",
                                                          "RTX-PRO-6000")));
    for (uint64_t i = rng_below(r, 4); i > 0; i--) {
        auto_free char *name = xasprintf("profile-%d", (int)i);
        (void)json_array_append_new(profiles,
                                    json_pack("{s:s, s:i, s:o}", "name", name, "generation", (int)i,
                                              "spec", random_spec(r)));
    }
    for (uint64_t i = 0; i < rng_below(r, 3); i++) {
        auto_free char *name = xasprintf("config-%d", (int)i);
        (void)json_array_append_new(configs, json_pack("{s:s, s:o}", "name", name, "spec",
                                                       random_config(r)));
    }
    json_t *node =
        json_pack("{s:o, s:o, s:o}", "cards", cards, "profiles", profiles, "configs", configs);
    if (rng_below(r, 3) == 0)
        (void)json_object_set_new(node, "label", json_string(random_layout_name(r)));
    return node;
}

static const struct resolve_card *card_named(const struct resolve_input *in, const char *uuid)
{
    for (size_t i = 0; i < in->n_cards; i++)
        if (strcmp(in->cards[i].uuid, uuid) == 0)
            return &in->cards[i];
    return NULL;
}

/* Can the card be as it is wanted? Names must be the card's own. */
static void check_want(const struct resolve_input *in, const struct device_want *want)
{
    const struct resolve_card *card = card_named(in, want->uuid);
    cr_assert_not_null(card, "%s is no card of the node", want->uuid);
    if (want->mode != API_MODE_MIG) {
        cr_assert_eq(want->mig.n_profiles, 0);
        return;
    }
    cr_assert(card->mig_capable && card->table);
    struct mig_request requests[MIG_MAX_WANTS];
    for (size_t i = 0; i < want->mig.n_profiles; i++)
        requests[i] = (struct mig_request){want->mig.profiles[i].profile,
                                           (unsigned)want->mig.profiles[i].count};
    struct mig_wants wants;
    auto_err struct err e = {0};
    cr_assert_eq(mig_resolve(card->table, requests, want->mig.n_profiles, &wants, &e), 0, "%s",
                 err_msg(&e));
    cr_assert(mig_feasible(card->table, &wants));
}

static void check_result(const struct resolve_input *in, const struct resolve_result *r)
{
    size_t governed = 0;
    for (size_t i = 0; i < r->spec.n_devices; i++) {
        check_want(in, &r->spec.devices[i]);
        cr_assert(i == 0 || strcmp(r->spec.devices[i - 1].uuid, r->spec.devices[i].uuid) < 0);
    }
    for (size_t i = 0; i < r->n_outcomes; i++) {
        const struct resolve_outcome *o = &r->outcomes[i];
        governed += o->n_cards;
        cr_assert(o->verdict != RESOLVE_REFUSED || o->n_problems > 0, "refused without a word");
        cr_assert_eq(o->verdict == RESOLVE_GOVERNS, o->n_cards > 0, "%zu cards", o->n_cards);
        for (size_t k = 0; k < o->n_problems; k++)
            cr_assert(*o->problems[k].reason && *o->problems[k].message);
    }
    cr_assert_leq(governed, r->spec.n_devices);
}

Test(resolve, whatever_is_asked_only_what_the_cards_can_be_is_wanted)
{
    struct rng rng;
    rng_init(&rng, 20260);
    for (int i = 0; i < ROUNDS; i++) {
        auto_json json_t *node = random_node(&rng);
        auto_free char *text = json_dumps(node, 0);
        auto_scenario struct scenario s;
        auto_resolve_result struct resolve_result r;
        scenario_from(node, &s);
        resolve_node(&s.in, &r);
        check_result(&s.in, &r);
        check_settles(&s, text);
        check_order(&s, text);
    }
}

/* --- Cards that are shared, over random nodes --- */

static json_t *random_sharing(struct rng *r)
{
    int shares = (int)(rng_below(r, 3) ? 64 + rng_below(r, 65) : 1 + rng_below(r, 8));
    bool renamed = rng_below(r, 4);
    switch (rng_below(r, 10)) {
    case 0:
        return json_pack("{s:{s:i, s:b}}", "timeSlicing", "replicas", 2, "renameByDefault",
                         (int)renamed);
    case 1:
        return json_pack("{s:{s:i, s:b}}", "mps", "replicas", 2, "renameByDefault", (int)renamed);
    case 2:
        return NULL;
    default:
        return json_pack("{s:{s:i}}", "fractional", "maxShares", shares);
    }
}

static json_t *random_sharing_profile(struct rng *r, int number)
{
    auto_free char *name = xasprintf("profile-%d", number);
    json_t *entries = json_array();
    for (uint64_t i = 1 + rng_below(r, 3); i > 0; i--)
        (void)json_array_append_new(entries, json_pack("{s:{s:[i, i, i], s:s}, s:s, s:o*}",
                                                       "selector", "indices", (int)rng_below(r, 12),
                                                       (int)rng_below(r, 12), (int)rng_below(r, 12),
                                                       "vendor", "nvidia", "mode", "native",
                                                       "sharing", random_sharing(r)));
    if (rng_below(r, 3))
        (void)json_array_append_new(entries, json_pack("{s:s, s:o*}", "mode", "native", "sharing",
                                                       random_sharing(r)));
    return json_pack("{s:s, s:{s:{}, s:i, s:o}}", "name", name, "spec", "nodeSelector", "priority",
                     (int)rng_below(r, 4), "devices", entries);
}

static json_t *random_sharing_node(struct rng *r, json_t *current_take)
{
    json_t *cards = json_array();
    json_t *profiles = json_array();
    for (int i = 0; i < 12; i++)
        (void)json_array_append_new(cards, json_pack("{s:s}", "model", i < 11 ? "H100-80" : "T4"));
    for (int i = 1 + (int)rng_below(r, 4); i > 0; i--)
        (void)json_array_append_new(profiles, random_sharing_profile(r, i));
    return json_pack("{s:o, s:o, s:o*}", "cards", cards, "profiles", profiles, "current",
                     current_take);
}

/* One name for shares and replicas, or more shares than a node has, is never ordered. */
static void check_shares(const struct resolve_input *in, const struct device_spec *spec,
                         const char *name)
{
    int64_t shares = 0;
    size_t fractional = 0;
    size_t replicas = 0;
    for (size_t i = 0; i < in->n_cards; i++) {
        const struct device_want *want = device_spec_want(spec, in->cards[i].uuid);
        const struct device_replicas *terms = want ? device_sharing_terms(&want->sharing) : NULL;
        bool is_fractional = want && want->sharing.has_fractional;
        fractional += is_fractional;
        replicas += terms && !terms->rename_by_default;
        shares += is_fractional ? want->sharing.fractional.max_shares : !terms;
    }
    cr_assert(!fractional || !replicas, "%s: %zu cards of each other's name", name, replicas);
    cr_assert(!fractional || shares <= DEVICE_MAX_SHARES, "%s: %d shares", name, (int)shares);
}

static unsigned count_of_reason(const struct resolve_result *r, const char *reason)
{
    unsigned n = 0;
    for (size_t i = 0; i < r->n_outcomes; i++)
        for (size_t k = 0; k < r->outcomes[i].n_problems; k++)
            n += strcmp(r->outcomes[i].problems[k].reason, reason) == 0;
    return n;
}

/* Each node follows from the one before: what that ordered is in force. */
Test(resolve, whatever_is_shared_the_cards_of_a_node_go_together)
{
    struct rng rng;
    json_t *current = NULL;
    unsigned too_many = 0;
    unsigned taken = 0;
    rng_init(&rng, 20261);
    for (int i = 0; i < SHARED_ROUNDS; i++) {
        auto_json json_t *node = random_sharing_node(&rng, i % 8 ? current : NULL);
        if (i % 8 == 0)
            json_decref(current);
        auto_free char *text = json_dumps(node, 0);
        auto_scenario struct scenario s;
        auto_resolve_result struct resolve_result r;
        scenario_from(node, &s);
        resolve_node(&s.in, &r);
        check_shares(&s.in, &r.spec, text);
        check_settles(&s, text);
        check_order(&s, text);
        too_many += count_of_reason(&r, "TooManyShares");
        taken += count_of_reason(&r, "SharedNameTaken");
        current = device_spec_encode(&r.spec);
    }
    json_decref(current);
    cr_expect(too_many > SHARED_ROUNDS / 20 && taken > SHARED_ROUNDS / 20, "%u, %u", too_many,
              taken);
}

Test(resolve, a_card_matches_by_mode_and_number_of_each_kind)
{
    static const struct {
        const char *card, *want;
        bool matches;
    } cases[] = {
        {"{}", "{uuid: GPU-d, mode: native}", true},
        {"{mode: mig}", "{uuid: GPU-d, mode: native}", false},
        {"{mode: mig}", "{uuid: GPU-d, mode: mig, mig: {profiles: []}}", true},
        {"{mode: mig}", "{uuid: GPU-d, mode: mig}", true},
        {"{}", "{uuid: GPU-d, mode: mig}", false},
        {"{mode: mig, partitions: {1g.10gb: 2}}",
         "{uuid: GPU-d, mode: mig, mig: {profiles: [{profile: 1g.10gb, count: 2}]}}", true},
        {"{mode: mig, partitions: {1g.10gb: 2}}",
         "{uuid: GPU-d, mode: mig, mig: {profiles: [{profile: 1g.10gb, count: 1}]}}", false},
        {"{mode: mig, partitions: {1g.10gb: 2, 3g.40gb: 1}}",
         "{uuid: GPU-d, mode: mig, mig: {profiles: [{profile: 1g.10gb, count: 2}]}}", false},
        {"{mode: mig, partitions: {3g.40gb: 1}}",
         "{uuid: GPU-d, mode: mig, mig: {profiles: [{profile: 1g.10gb, count: 1}]}}", false},
        {"{mode: mig, partitions: {1g.10gb: 1}}", "{uuid: GPU-d, mode: mig}", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *text =
            xasprintf("cards: [%s]\ncurrent: {devices: [%s]}\n", cases[i].card, cases[i].want);
        auto_scenario struct scenario s;
        scenario_parse(text, &s);
        cr_expect_eq(resolve_card_matches(&s.cards[0], &s.current.devices[0]), cases[i].matches,
                     "%s", text);
    }
}

/* A rounding that was noted before it has no say in why a source is refused. */
Test(resolve, what_refused_a_source_is_no_rounding)
{
    struct resolve_problem problems[] = {{.reason = (char[]){RESOLVE_ROUNDED}},
                                         {.reason = (char[]){"UnknownProfile"}}};
    const struct resolve_outcome rounded = {.problems = problems, .n_problems = 1};
    const struct resolve_outcome refused = {.problems = problems, .n_problems = 2};
    cr_expect_null(resolve_outcome_refusal(&rounded));
    cr_expect_eq(resolve_outcome_refusal(&refused), &problems[1]);
}
