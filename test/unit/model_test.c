/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "mig_tables_support.h"
#include "partition/model.h"

/* Through the status as the API server keeps it, and back. */
static void check_round_trip(const struct mig_model *m)
{
    auto_device_status struct device_status sent = {0};
    auto_device_status struct device_status got;
    model_from_table(m->name, &m->table, XPUSH(sent.models, sent.n_models));
    auto_json json_t *obj = json_pack("{s:o}", "status", device_status_encode(&sent));
    auto_err struct err e = {0};
    cr_assert_eq(device_status_decode(obj, &got, &e), 0, "%s: %s", m->name, err_msg(&e));
    struct mig_table t;
    cr_assert_eq(model_to_table(&got.models[0], &t, &e), 0, "%s: %s", m->name, err_msg(&e));
    cr_expect_eq(t.memory_slices, m->table.memory_slices);
    cr_expect_eq(t.slices, m->table.slices, "%s", m->name);
    cr_assert_eq(t.n_profiles, m->table.n_profiles);
    for (unsigned i = 0; i < t.n_profiles; i++) {
        const struct mig_profile *a = &t.profiles[i];
        const struct mig_profile *b = &m->table.profiles[i];
        cr_expect_str_eq(a->name, b->name);
        cr_expect(a->id == b->id && a->slices == b->slices && a->size == b->size, "%s", a->name);
        cr_expect(a->max_count == b->max_count && a->multiprocessors == b->multiprocessors);
        cr_expect_eq(a->memory_mib, b->memory_mib);
        cr_expect_arr_eq(&a->engines, &b->engines, sizeof(a->engines));
        cr_expect_eq(a->n_starts, b->n_starts);
        cr_expect_arr_eq(a->starts, b->starts, sizeof(a->starts));
    }
}

Test(model, every_model_survives_the_way_through_the_status)
{
    for (const struct mig_model *m = mig_models; m->name; m++)
        check_round_trip(m);
}

static int read_model(const char *text, struct mig_table *t, struct err *e)
{
    auto_json json_t *obj = NULL;
    auto_device_status struct device_status s = {0};
    cr_assert_eq(yaml_load(text, strlen(text), &obj, NULL), 0, "%s", text);
    TRY(device_status_decode(obj, &s, e));
    return model_to_table(&s.models[0], t, e);
}

#define PROFILE(name, placements) "{name: " name ", id: 1, slices: 1, maxCount: 1, " placements "}"
#define MODEL(memory_slices, profiles)                                                             \
    "status: {models: [{name: X, migMemorySlices: " memory_slices ", migProfiles: [" profiles "]}]}"

Test(model, a_model_without_profiles_is_an_empty_table)
{
    struct mig_table t;
    cr_expect_eq(read_model("status: {models: [{name: T4}]}", &t, NULL), 0);
    cr_expect_eq(t.n_profiles, 0);
    cr_expect_eq(t.memory_slices, 0);
}

Test(model, what_the_planner_cannot_hold_is_refused_by_name)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {MODEL("8", PROFILE("1g.10gb", "size: 1, starts: [8]")), "placement 8:1"},
        {MODEL("8", PROFILE("1g.10gb", "size: 4, starts: [5]")), "placement 5:4"},
        {MODEL("8", PROFILE("1g.10gb", "size: 2, starts: [0, 7]")), "placement 7:2"},
        {MODEL("8", PROFILE("1g.10gb", "size: 0, starts: [3]")), "placement 3:0"},
        {MODEL("8", PROFILE("1g.10gb", "size: 1, starts: [-1]")), "placement -1:1"},
        {MODEL("33", PROFILE("1g.10gb", "size: 1")), "migMemorySlices: must be between 0 and 32"},
        {MODEL("8", PROFILE("tiny", "size: 1")), "tiny"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct mig_table t = {.memory_slices = 77};
        auto_err struct err e = {0};
        cr_expect_eq(read_model(cases[i].text, &t, &e), -(int)ERR_INVALID, "%s", cases[i].text);
        cr_expect_not_null(strstr(err_msg(&e), cases[i].part), "%s", err_msg(&e));
        cr_expect_eq(t.memory_slices, 77, "outs are untouched");
    }
}

Test(model, more_profiles_or_placements_than_fit_are_refused)
{
    int64_t starts[MIG_MAX_PLACEMENTS + 1];
    for (size_t i = 0; i < ARRAY_LEN(starts); i++)
        starts[i] = (int64_t)i;
    char name[] = "1g.10gb";
    char model[] = "X";
    struct device_mig_profile profiles[MIG_MAX_PROFILES + 1];
    for (size_t i = 0; i < ARRAY_LEN(profiles); i++)
        profiles[i] = (struct device_mig_profile){.name = name, .slices = 1, .id = (int64_t)i};
    struct device_model m = {model, 32, profiles, ARRAY_LEN(profiles)};
    struct mig_table t;
    cr_expect_eq(model_to_table(&m, &t, NULL), -(int)ERR_INVALID);
    m.n_mig_profiles = 1;
    profiles[0].size = 1;
    profiles[0].starts = starts;
    profiles[0].n_starts = ARRAY_LEN(starts);
    cr_expect_eq(model_to_table(&m, &t, NULL), -(int)ERR_INVALID);
    profiles[0].n_starts--;
    cr_expect_eq(model_to_table(&m, &t, NULL), 0);
}

/* An agent says it, so the controller does not plan with it. */
Test(model, a_table_that_no_card_can_have_is_refused)
{
    struct mig_table t = {.memory_slices = 77};
    auto_err struct err e = {0};
    char model[] = "X";
    char name[] = "3g.40gb";
    int64_t start = 0;
    struct device_mig_profile profile = {.name = name,
                                         .slices = 32,
                                         .size = 4,
                                         .starts = &start,
                                         .n_starts = 1};
    const struct device_model m = {model, 8, &profile, 1};
    cr_expect_eq(model_to_table(&m, &t, &e), -(int)ERR_INVALID);
    cr_expect_str_eq(err_msg(&e),
                     "X: MIG profile 3g.40gb: compute slices 32, only 1 to 8 can be handled");
    cr_expect_eq(t.memory_slices, 77);
}
