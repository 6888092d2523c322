/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/change/card_plan.h"
#include "nodeagent/change/card_view.h"
#include "nodeagent/change/journal.h"
#include "nodeagent/change/transaction.h"
#include "nodeagent/commands/cmd.h"
#include "nodeagent/commands/host.h"
#include "nodeagent/commands/layout_file.h"
#include "nodeagent/mode/card_mode.h"

/* `plan`, `apply` and `assert`: one file, or a built-in name, against this host's cards. */

enum { MAX_WANT_BYTES = 1000 };

struct flags {
    struct host_flags host;
    const char *file, *config;
    bool help;
};

struct session {
    struct flags f;
    struct host host;
    struct layout_file file;
    struct resolve_result want;
};

static void session_done(struct session *s)
{
    resolve_result_done(&s->want);
    layout_file_done(&s->file);
    host_done(&s->host);
}

AUTO_DEFINE(session, struct session, session_done)
#define auto_session AUTO(session)

static enum verb_exit fail(const char *verb, const struct err *e)
{
    (void)fprintf(stderr, "cleave-agent %s: %s\n", verb, err_msg(e));
    return VERB_COULD_NOT_LOOK;
}

/* True: continue; otherwise *ret_code is the exit code. */
static bool parse(struct flags *f, int argc, char **argv, const char *usage, const char *what,
                  int *ret_code)
{
    f->host = HOST_FLAGS_DEFAULT;
    const struct option_def defs[] = {
        {"file", 'f', "MIG_PARTED_CONFIG_FILE", "PATH",
         "GPUProfile, MIGConfig or mig-parted file; - is stdin", &f->file, NULL},
        {"config", 'c', "MIG_PARTED_SELECTED_CONFIG", "NAME",
         "a config of the file, or a built-in (all-balanced)", &f->config, NULL},
        HOST_OPTIONS(f->host),
        {"help", 'h', NULL, NULL, "show this", NULL, &f->help},
        {0},
    };
    auto_free struct option_def *all = host_options(&f->host, defs);
    auto_err struct err e = {0};
    size_t n;
    *ret_code = 0;
    if (options_parse(all, argc, argv, NULL, 0, &n, &e) < 0) {
        *ret_code = fail(argv[0], &e);
        return false;
    }
    if (f->help)
        options_help(usage, what, all);
    return !f->help;
}

static int open_session(struct session *s, struct err *e)
{
    if (s->f.file)
        TRY(layout_file_read(s->f.file, &s->file, e));
    TRY(host_open(&s->f.host, &s->host, e));
    return layout_file_resolve(&s->file, s->f.config, s->host.cards, s->host.inventory.n_cards,
                               &s->want, e);
}

/* Prints the problems of the file; true when there is one. */
static bool report_problems(const struct resolve_result *r)
{
    bool refused = false;
    for (size_t i = 0; i < r->n_outcomes; i++) {
        const struct resolve_outcome *o = &r->outcomes[i];
        refused = refused || o->verdict == RESOLVE_REFUSED;
        if (o->verdict == RESOLVE_NOT_CONCERNED)
            (void)fprintf(stderr, "%s: selects no card of this host\n", o->source.name);
        for (size_t k = 0; k < o->n_problems; k++) {
            refused = refused || strcmp(o->problems[k].reason, "Conflict") == 0;
            (void)fprintf(stderr, "%s: %s: %s\n", o->source.name, o->problems[k].reason,
                          o->problems[k].message);
        }
    }
    return refused;
}

/* The built-in all-disabled means cards with MIG; where no card has MIG, it is already true. */
static bool is_all_disabled(const struct session *s)
{
    bool built_in = s->f.config && strcmp(s->f.config, "all-disabled") == 0;
    for (size_t i = 0; i < s->file.n_configs && built_in; i++)
        built_in = strcmp(s->file.configs[i].name, s->f.config) != 0;
    return built_in;
}

/* Also reports a layout that selects no card at all: a file named on a host is meant for some card
 * of it, and a wrong filter must not pass for "as wanted". mig-parted's assert fails there, too. */
static bool report_faults(const char *verb, const struct session *s)
{
    if (report_problems(&s->want))
        return true;
    if (s->want.spec.n_devices || is_all_disabled(s))
        return false;
    (void)fprintf(stderr,
                  "cleave-agent %s: the layout selects none of this host's %zu cards; look at its "
                  "selectors, device filters and indices\n",
                  verb, s->host.inventory.n_cards);
    return true;
}

static void print_steps(const struct gpu_card *card, const struct card_plan *plan)
{
    for (unsigned i = 0; i < plan->steps.n; i++) {
        auto_free char *text = card_step_text(&plan->steps.items[i], &card->mig);
        (void)printf("  %s\n", text);
    }
}

static void print_plan(const struct gpu_card *card, const struct card_plan *plan)
{
    static const char *const verdicts[] = {
        [CARD_NOTHING] = "as wanted",
        [CARD_CHANGE] = "changes",
        [CARD_DRAIN] = "must drain first",
        [CARD_INFEASIBLE] = "cannot be",
    };
    static_assert(ARRAY_LEN(verdicts) == CARD_INFEASIBLE + 1, "a word for each verdict");
    (void)printf("GPU %u  %s  %s%s%s\n", card->index, card->model, verdicts[plan->verdict],
                 *plan->message ? ": " : "", plan->message);
    print_steps(card, plan);
}

/* A want in the words that card_layout_words uses for a layout: "2x1g.10gb 1x3g.40gb". Caller
 * frees. */
static char *want_words(const struct device_want *want)
{
    auto_sb struct sb text = SB_INIT(MAX_WANT_BYTES);
    for (size_t i = 0; i < want->mig.n_profiles; i++)
        sb_addf(&text, "%s%lldx%s", i ? " " : "", (long long)want->mig.profiles[i].count,
                want->mig.profiles[i].profile);
    for (size_t i = 0; i < want->sgpu.n_slices; i++)
        sb_addf(&text, "%s%lldx%s", i ? " " : "", (long long)want->sgpu.slices[i].count,
                want->sgpu.slices[i].alias);
    if (text.len)
        return sb_take(&text);
    const struct card_mode *m = card_mode_of((enum gpu_mode)want->mode);
    return xstrdup(m->fixed ? m->word : m->bare);
}

/* Prints both sides and the steps, because another sharing policy or an unusable partition shows in
 * the steps alone. */
static void print_difference(const struct gpu_card *card, const struct device_want *want,
                             const struct card_plan *plan)
{
    auto_free char *is = card_layout_words(card);
    auto_free char *wanted = want_words(want);
    (void)printf("GPU %u  %s  is not as wanted: it has %s, wanted is %s%s%s\n", card->index,
                 card->model, is, wanted, *plan->message ? ": " : "", plan->message);
    print_steps(card, plan);
}

/* Plans one card. Returns the verdict; CARD_INFEASIBLE for a want that has no meaning on the
 * card. */
static enum card_verdict plan_card(const char *verb, const struct gpu_card *card,
                                   const struct device_want *want, struct card_plan *plan)
{
    auto_err struct err e = {0};
    struct card_wish wish;
    *plan = (struct card_plan){.verdict = CARD_INFEASIBLE};
    if (card_wish_of(card, want, &wish, &e) < 0)
        (void)fail(verb, &e);
    else
        card_plan(card, &wish, plan);
    return plan->verdict;
}

int cmd_plan(int argc, char **argv)
{
    auto_session struct session s = {0};
    auto_err struct err e = {0};
    int code;
    if (!parse(&s.f, argc, argv, "cleave-agent plan [--file PATH] [--config NAME] [flags]",
               "Shows, card by card, the steps that apply would take. Changes nothing.\n"
               "Exits with 0 if apply could take them now, with 1 if something must drain first\n"
               "or the layout cannot be. " VERB_COULD_NOT_LOOK_HELP,
               &code))
        return code;
    if (open_session(&s, &e) < 0)
        return fail("plan", &e);
    code = report_faults("plan", &s) ? VERB_NO : VERB_YES;
    auto_free struct card_plan *plan = xmalloc(sizeof(*plan));
    for (size_t i = 0; i < s.host.inventory.n_cards; i++) {
        const struct gpu_card *card = &s.host.inventory.cards[i];
        const struct device_want *want = device_spec_want(&s.want.spec, card->uuid);
        if (!want)
            continue;
        enum card_verdict verdict = plan_card("plan", card, want, plan);
        print_plan(card, plan);
        if (verdict == CARD_DRAIN || verdict == CARD_INFEASIBLE)
            code = VERB_NO;
    }
    return code;
}

static int recover_all(const struct txn_deps *d, struct err *e)
{
    char **uuids = NULL;
    size_t n = 0;
    TRY(journal_list(d->state_dir, &uuids, &n, e));
    for (size_t i = 0; i < n; i++) {
        struct txn_result r;
        txn_recover(d, uuids[i], &r);
        (void)printf("%s: an interrupted change: %s\n", uuids[i], r.message);
        free(uuids[i]);
    }
    free(uuids);
    return 0;
}

static enum verb_exit apply_card(const struct txn_deps *d, const struct gpu_card *card,
                                 const struct device_want *want)
{
    auto_err struct err e = {0};
    struct card_wish wish;
    if (card_wish_of(card, want, &wish, &e) < 0) {
        (void)fail("apply", &e);
        return VERB_NO;
    }
    struct txn_result r;
    txn_apply(d, want->uuid, &wish, want->failure_policy == API_HOLD ? TXN_HOLD : TXN_ROLLBACK, &r);
    (void)printf("GPU %u  %s  %s: %s\n", card->index, card->model, txn_outcome_name(r.outcome),
                 r.message);
    return r.outcome == TXN_APPLIED || r.outcome == TXN_NOTHING_TO_DO ? VERB_YES : VERB_NO;
}

int cmd_apply(int argc, char **argv)
{
    auto_session struct session s = {0};
    auto_err struct err e = {0};
    int code;
    if (!parse(
            &s.f, argc, argv, "cleave-agent apply [--file PATH] [--config NAME] [flags]",
            "Brings this host's cards to a layout: the smallest change, nothing in use touched,\n"
            "read back, and rolled back when a step fails. Not for a host whose agent runs.\n"
            "Exits with 0 if every card that the layout selects is as it wants now, else with 1;\n"
            "with 1 also, and nothing is changed, if it selects no card of this host.\n" VERB_COULD_NOT_LOOK_HELP,
            &code))
        return code;
    auto_fd int lock = -1;
    if (journal_lock(s.f.host.state_dir, &lock, &e) < 0 || open_session(&s, &e) < 0)
        return fail("apply", &e);
    if (report_faults("apply", &s))
        return VERB_NO;
    const struct txn_deps d = {.gpu = s.host.gpu,
                               .state_dir = s.f.host.state_dir,
                               .boot_id = s.host.inventory.boot_id};
    if (recover_all(&d, &e) < 0)
        return fail("apply", &e);
    for (size_t i = 0; i < s.host.inventory.n_cards; i++) {
        const struct gpu_card *card = &s.host.inventory.cards[i];
        const struct device_want *want = device_spec_want(&s.want.spec, card->uuid);
        if (want && apply_card(&d, card, want) != VERB_YES)
            code = VERB_NO;
    }
    return code;
}

int cmd_assert(int argc, char **argv)
{
    auto_session struct session s = {0};
    auto_err struct err e = {0};
    int code;
    if (!parse(
            &s.f, argc, argv, "cleave-agent assert [--file PATH] [--config NAME] [flags]",
            "Exits with 0 if every card that the layout selects is as it wants, else says which\n"
            "is not and exits with 1; with 1 also if it selects no card of this host.\n" VERB_COULD_NOT_LOOK_HELP,
            &code))
        return code;
    if (open_session(&s, &e) < 0)
        return fail("assert", &e);
    code = report_faults("assert", &s) ? VERB_NO : VERB_YES;
    auto_free struct card_plan *plan = xmalloc(sizeof(*plan));
    for (size_t i = 0; i < s.host.inventory.n_cards; i++) {
        const struct gpu_card *card = &s.host.inventory.cards[i];
        const struct device_want *want = device_spec_want(&s.want.spec, card->uuid);
        if (!want || plan_card("assert", card, want, plan) == CARD_NOTHING)
            continue;
        print_difference(card, want, plan);
        code = VERB_NO;
    }
    return code;
}
