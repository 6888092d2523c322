/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "golden_support.h"
#include "mig_tables_support.h"
#include "partition/mig.h"

#define MAX_BYTES (1 << 20)

static void add_layout(const struct mig_table *t, const char *name, struct sb *b)
{
    struct mig_wants w;
    bool enabled;
    auto_err struct err e = {0};
    if (mig_named_layout(t, name, &enabled, &w, &e) < 0) {
        sb_addf(b, "  %-22s %s\n", name, err_msg(&e));
        return;
    }
    auto_free char *text = mig_wants_text(t, &w);
    sb_addf(b, "  %-22s %s%s\n", name, enabled ? "" : "MIG off, ", text);
    cr_assert(mig_feasible(t, &w), "%s", name);
}

Test(mig_golden, named_layouts_of_every_model)
{
    auto_sb struct sb b = SB_INIT(MAX_BYTES);
    for (const struct mig_model *m = mig_models; m->name; m++) {
        sb_addf(&b, "%s\n", m->name);
        add_layout(&m->table, "all-disabled", &b);
        add_layout(&m->table, "all-enabled", &b);
        add_layout(&m->table, "all-balanced", &b);
        for (unsigned p = 0; p < m->table.n_profiles; p++) {
            struct mig_name n;
            char label[MIG_NAME_BYTES];
            cr_assert_eq(mig_name_parse(m->table.profiles[p].name, &n, NULL), 0);
            auto_free char *name = xasprintf("all-%s", mig_name_format_label(&n, label));
            add_layout(&m->table, name, &b);
        }
    }
    golden_check("partition/named_layouts.txt", sb_str(&b));
}

/* "3g.40gb=1 1c.2g.20gb=2" as wants. */
static void parse_wants(const struct mig_table *t, const char *text, struct mig_wants *ret)
{
    struct mig_request r[MIG_MAX_WANTS];
    auto_free char *copy = xstrdup(text);
    char *rest = copy;
    size_t n = 0;
    for (char *word; (word = strsep(&rest, " ")) != NULL;) {
        char *count = strchr(word, '=');
        *count = '\0';
        r[n++] = (struct mig_request){word, (unsigned)strtoul(count + 1, NULL, 10)};
    }
    auto_err struct err e = {0};
    cr_assert_eq(mig_resolve(t, r, n, ret, &e), 0, "%s", err_msg(&e));
}

Test(mig_golden, reasons_and_nearest_layouts)
{
    static const struct {
        const char *model, *wants;
    } cases[] = {
        {"H100-80", "3g.40gb=3"},
        {"H100-80", "3g.40gb=2 1g.10gb=1"},
        {"H100-80", "1g.10gb=8"},
        {"H100-80", "1g.10gb=1000000"},
        {"H100-80", "1g.10gb=4294967295 7g.80gb=4294967295"},
        {"H100-80", "1g.10gb+me=2"},
        {"H100-80", "1g.10gb+me=2 3g.40gb=1 1g.10gb=1"},
        {"H100-80", "4g.40gb=2"},
        {"H100-80", "7g.80gb=1 1g.10gb=1"},
        {"H100-80", "2g.20gb=4"},
        {"H100-80", "2g.20gb=3 1g.10gb=2"},
        {"H100-80", "1g.20gb=4 1g.10gb=1"},
        {"H100-80", "3g.40gb=1 1g.20gb=2 2g.20gb=1"},
        {"H100-80", "4g.40gb=1 3g.40gb=1 1g.10gb=1"},
        {"H100-80", "1c.3g.40gb=7"},
        {"H100-80", "2c.3g.40gb=3"},
        {"H100-80", "1c.4g.40gb=5"},
        {"H100-80", "1c.7g.80gb=3 1g.10gb=1"},
        {"A100-40", "3g.20gb=2 1g.10gb=1"},
        {"A30", "1g.6gb+me=1 2g.12gb+me=1"},
        {"A30", "1g.6gb=3 2g.12gb=1"},
        {"A30", "2g.12gb+me=2"},
        {"RTX-PRO-6000", "1g.24gb+me.all=1 1g.24gb=1"},
        {"RTX-PRO-6000", "1g.24gb+me.all=1 2g.48gb+me.all=1"},
        {"RTX-PRO-6000", "1g.24gb+me.all=1 1g.24gb-me=4"},
        {"RTX-PRO-6000", "1g.24gb+me=2"},
        {"RTX-PRO-6000", "2g.48gb+gfx=2 1g.24gb=1"},
        {"RTX-PRO-6000", "4g.96gb=1 4g.96gb+gfx=1"},
        {"RTX-PRO-6000",
         "1g.24gb=1 1g.24gb+me=1 1g.24gb+gfx=1 1g.24gb+me.all=1 1g.24gb-me=1 2g.48gb=1 "
         "2g.48gb+gfx=1 2g.48gb+me.all=1 2g.48gb-me=1 4g.96gb=1 4g.96gb+gfx=1"},
    };
    auto_sb struct sb b = SB_INIT(MAX_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct mig_table *t = mig_model(cases[i].model);
        struct mig_wants w;
        struct mig_plan plan;
        parse_wants(t, cases[i].wants, &w);
        mig_plan(t, &(struct mig_state){.n = 0}, &w, &plan);
        cr_assert_eq(plan.verdict, MIG_PLAN_INFEASIBLE, "%s", cases[i].wants);
        cr_assert(mig_feasible(t, &plan.nearest));
        auto_free char *nearest = mig_wants_text(t, &plan.nearest);
        sb_addf(&b, "%s: %s\n  %s\n  nearest: %s\n", cases[i].model, cases[i].wants, plan.reason,
                nearest);
    }
    golden_check("partition/infeasible.txt", sb_str(&b));
}

/* "3g.40gb@4 1g.10gb@6!" as a state; '!' marks one in use. */
static void parse_state(const struct mig_table *t, const char *text, struct mig_state *ret)
{
    auto_free char *copy = xstrdup(text);
    char *rest = copy;
    ret->n = 0;
    for (char *word; *text && (word = strsep(&rest, " ")) != NULL;) {
        char *at = strchr(word, '@');
        *at = '\0';
        unsigned p = mig_profile_index(t, word);
        bool in_use = strchr(at + 1, '!') != NULL;
        ret->items[ret->n++] = (struct mig_instance){
            .profile = p,
            .start = (unsigned)strtoul(at + 1, NULL, 10),
            .size = t->profiles[p].size,
            .in_use = in_use,
            .n_cis = 1,
            .cis = {{.slices = t->profiles[p].slices, .in_use = in_use}},
        };
    }
}

static void add_standing(const struct mig_table *t, const struct mig_state *s, uint32_t which,
                         const char *word, struct sb *b)
{
    for (unsigned i = 0; i < s->n; i++) {
        if (which >> i & 1)
            sb_addf(b, "    %-7s %s@%u\n", word, t->profiles[s->items[i].profile].name,
                    s->items[i].start);
    }
}

static void add_plan(const struct mig_table *t, const struct mig_state *now,
                     const struct mig_plan *plan, struct sb *b)
{
    static const char *const verdicts[] = {
        [MIG_PLAN_NOTHING] = "nothing to do",
        [MIG_PLAN_CHANGE] = "can be done now",
        [MIG_PLAN_DRAIN] = "waits for what is in use",
        [MIG_PLAN_INFEASIBLE] = "impossible",
    };
    sb_addf(b, "  %s\n", verdicts[plan->verdict]);
    add_standing(t, now, plan->blocking, "blocks", b);
    add_standing(t, now, plan->keep, "keep", b);
    add_standing(t, now, plan->destroy, "destroy", b);
    for (unsigned i = 0; i < plan->n_create; i++)
        sb_addf(b, "    create  %s@%u\n", t->profiles[plan->create[i].profile].name,
                plan->create[i].start);
}

Test(mig_golden, plans)
{
    static const struct {
        const char *model, *now, *wants;
    } cases[] = {
        {"H100-80", "", "1g.10gb=1"},
        {"H100-80", "", "1g.10gb=2 2g.20gb=1 3g.40gb=1"},
        {"H100-80", "", "1g.10gb=7"},
        {"H100-80", "", "1g.10gb+me=1 1g.10gb=2 1g.20gb=1"},
        {"H100-80", "", "4g.40gb=1 3g.40gb=1"},
        {"H100-80", "3g.40gb@4 2g.20gb@0 1g.10gb@2 1g.10gb@3", "1g.10gb=2 2g.20gb=1 3g.40gb=1"},
        {"H100-80", "1g.10gb@6", "1g.10gb=3"},
        {"H100-80", "1g.10gb@0! 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6",
         "1g.10gb=2 3g.40gb=1"},
        {"H100-80", "1g.10gb@0! 1g.10gb@4! 1g.10gb@6", "1g.10gb=2 3g.40gb=1"},
        {"H100-80", "3g.40gb@0! 2g.20gb@4", "4g.40gb=1 3g.40gb=1"},
        {"H100-80", "7g.80gb@0!", "1g.10gb=7"},
        {"H100-80", "7g.80gb@0", "1g.10gb=7"},
        {"A30", "1g.6gb@1!", "1g.6gb=2 2g.12gb=1"},
        {"RTX-PRO-6000", "1g.24gb@3!", "1g.24gb=1 1g.24gb+gfx=1 2g.48gb=1"},
        {"RTX-PRO-6000", "2g.48gb@0 2g.48gb@6!", "1g.24gb-me=2 2g.48gb=1"},
    };
    auto_sb struct sb b = SB_INIT(MAX_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct mig_table *t = mig_model(cases[i].model);
        struct mig_state now;
        struct mig_wants w;
        struct mig_plan plan;
        parse_state(t, cases[i].now, &now);
        parse_wants(t, cases[i].wants, &w);
        mig_plan(t, &now, &w, &plan);
        sb_addf(&b, "%s: %s -> %s\n", cases[i].model, now.n ? cases[i].now : "empty",
                cases[i].wants);
        add_plan(t, &now, &plan, &b);
    }
    golden_check("partition/plans.txt", sb_str(&b));
}
