/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/gpuprofile.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "reconcilers/node_ledger.h"
#include "reconcilers/survey.h"
#include "service/conditions.h"
#include "service/resources.h"

enum {
    WRITE_GAP_MS = 1000,      /* between two writes of a status while a rollout runs */
    NOTES_RECHECK_MS = 20,    /* until the ledger has this generation on every node */
    NODES_RECHECK_MS = 30000, /* Nodes without a Device trigger no reconcile of the profile */
    MESSAGE_BYTES = 1024,
    SELECTOR_BYTES = 512,
};

/* --- Pure --- */

struct conclusion {
    enum kstatus state;
    bool accepted;
    char *accepted_reason, *accepted_message; /* owned */
    char *reason, *message;                   /* owned */
};

static void conclusion_done(struct conclusion *v)
{
    free(v->accepted_reason);
    free(v->accepted_message);
    free(v->reason);
    free(v->message);
}

static void set_reason(char **reason, char **message, const char *r, char *message_take)
{
    xstr_set(reason, r);
    free(*message);
    *message = message_take;
}

static void reject(struct conclusion *v, const char *reason, char *message_take)
{
    v->accepted = false;
    set_reason(&v->accepted_reason, &v->accepted_message, reason, message_take);
}

static void conclude(struct conclusion *v, enum kstatus state, const char *reason,
                     char *message_take)
{
    v->state = state;
    set_reason(&v->reason, &v->message, reason, message_take);
}

/* The remedy for a reason, where the node cannot know which field of the profile to change. */
static const char *remedy(const char *reason)
{
    if (strcmp(reason, "InUse") == 0)
        return "; it waits for these users: end them, or set rollout.drain: evict";
    if (strcmp(reason, "DrainTimeout") == 0)
        return "; the layout before was kept: end these users, or raise rollout.timeoutSeconds";
    return "";
}

static char *sample_text(const struct gpuprofile_failure *f)
{
    assert(f->node && f->reason);
    return xasprintf("%s: %s%s", f->node, f->message ? f->message : f->reason, remedy(f->reason));
}

/* Decides the condition Accepted, as far as the nodes show it. */
static void judge_acceptance(const struct profile_facts *f, struct conclusion *v)
{
    const struct rollout_summary *s = f->summary;
    auto_err struct err e = {0};
    size_t max;
    v->accepted = true;
    set_reason(&v->accepted_reason, &v->accepted_message, "Accepted", xstrdup("the spec is valid"));
    if (f->record->spec_error)
        reject(v, "Invalid", xstrdup(f->record->spec_error));
    else if (f->matched && f->cardless == f->matched)
        reject(v, "DeviceNotFound",
               xasprintf("%zu matched %s no card of a vendor that Cleave knows; see kubectl get "
                         "devices",
                         f->matched, f->matched == 1 ? "node has" : "nodes have"));
    else if (gpuprofile_max_unavailable(f->record->spec.rollout.max_unavailable, 1, &max, &e) < 0)
        reject(v, "Invalid", xstrdup(err_msg(&e)));
    else if (s->misfit.node)
        reject(v, s->misfit.reason, sample_text(&s->misfit));
    else if (f->not_found)
        reject(v, "DeviceNotFound", xasprintf("no matched node has a card %s", f->not_found));
    else if (s->refused && s->refused == f->matched)
        reject(v, s->failures[0].reason, sample_text(&s->failures[0]));
}

static size_t max_unavailable(const struct profile_facts *f)
{
    size_t max = 0;
    if (gpuprofile_max_unavailable(f->record->spec.rollout.max_unavailable, f->matched, &max,
                                   NULL) < 0)
        return 0;
    return max;
}

static char *failed_text(const struct profile_facts *f, const char *tail)
{
    const struct rollout_summary *s = f->summary;
    assert(s->n_failures > 0 && s->n_failures <= s->count[PHASE_FAILED]);
    auto_free char *sample = sample_text(&s->failures[0]);
    return xasprintf("%zu of %zu nodes failed%s; %s", s->count[PHASE_FAILED], f->matched, tail,
                     sample);
}

static void judge_waiting(const struct profile_facts *f, struct conclusion *v)
{
    const struct rollout_summary *s = f->summary;
    size_t waiting = s->count[PHASE_WAITING];
    if (f->record->spec.paused) {
        conclude(v, KSTATUS_STALLED, "Paused",
                 xasprintf("spec.paused is true; %zu of %zu nodes wait", waiting, f->matched));
    } else if (s->tickets_of_failed && s->tickets_of_failed >= max_unavailable(f)) {
        auto_free char *tail =
            xasprintf(" and use up rollout.maxUnavailable, %zu wait for them", waiting);
        conclude(v, KSTATUS_STALLED, s->failures[0].reason, failed_text(f, tail));
    } else {
        conclude(v, KSTATUS_IN_PROGRESS, "Waiting",
                 xasprintf("%zu of %zu nodes wait for their turn (rollout.maxUnavailable)", waiting,
                           f->matched));
    }
}

static char *changing_text(const struct profile_facts *f)
{
    const struct rollout_summary *s = f->summary;
    auto_free char *sample = sample_text(&s->busy);
    auto_free char *silent =
        s->silent ? xasprintf(" (of %zu the agent does not answer)", s->silent) : xstrdup("");
    return xasprintf("%zu of %zu nodes are as wanted, %zu in change%s, %zu wait, %zu failed; %s",
                     s->count[PHASE_UP_TO_DATE], f->matched, s->count[PHASE_CHANGING], silent,
                     s->count[PHASE_WAITING], s->count[PHASE_FAILED], sample);
}

/* The text about selected cards that other sources govern. */
static char *ceded_text(const struct rollout_summary *s)
{
    if (!s->overridden)
        return xstrdup("");
    auto_free char *sample = sample_text(&s->ceded);
    return s->overridden == 1
               ? xasprintf("; %s", sample)
               : xasprintf("; other sources govern cards on %zu nodes, %s", s->overridden, sample);
}

/* The text about partitions that have another amount of memory than their names say. */
static char *rounded_text(const struct rollout_summary *s)
{
    if (!s->rounded)
        return xstrdup("");
    auto_free char *sample = sample_text(&s->first_rounded);
    return s->rounded == 1 ? xasprintf("; %s", sample)
                           : xasprintf("; names were rounded on %zu nodes, %s", s->rounded, sample);
}

/* The text of a profile that governs no card of any matched node. */
static char *overridden_text(const struct profile_facts *f)
{
    assert(f->summary->overridden == f->matched);
    auto_free char *sample = sample_text(&f->summary->ceded);
    return xasprintf("labels or profiles of higher priority govern all its cards on %zu %s; %s",
                     f->matched, f->matched == 1 ? "node" : "nodes", sample);
}

/* The text about matched nodes on which there is nothing to do. */
static char *cardless_text(const struct profile_facts *f)
{
    return f->cardless ? xasprintf("; %zu of them %s no card", f->cardless,
                                   f->cardless == 1 ? "has" : "have")
                       : xstrdup("");
}

static char *applied_text(const struct profile_facts *f)
{
    const struct rollout_summary *s = f->summary;
    auto_free char *cardless = cardless_text(f);
    auto_free char *ceded = ceded_text(s);
    auto_free char *rounded = rounded_text(s);
    return xasprintf("%zu %s as wanted%s%s%s", s->count[PHASE_UP_TO_DATE],
                     s->count[PHASE_UP_TO_DATE] == 1 ? "node is" : "nodes are", cardless, ceded,
                     rounded);
}

/* Appends the selector in kubectl's syntax: "pool=a,track in (canary)". */
static void add_selector(struct sb *out, const struct label_selector *s)
{
    static const char *const words[] = {[API_IN] = "in", [API_NOT_IN] = "notin"};
    const char *separator = "";
    for (size_t i = 0; i < s->n_match_labels; i++, separator = ",")
        sb_addf(out, "%s%s=%s", separator, s->match_labels[i].key, s->match_labels[i].str);
    for (size_t i = 0; i < s->n_expressions; i++, separator = ",") {
        const struct label_requirement *r = &s->expressions[i];
        sb_addf(out, "%s%s%s", separator, r->op == API_DOES_NOT_EXIST ? "!" : "", r->key);
        if (r->op != API_IN && r->op != API_NOT_IN)
            continue;
        sb_addf(out, " %s (", words[r->op]);
        for (size_t k = 0; k < r->n_values; k++)
            sb_addf(out, "%s%s", k ? ", " : "", r->values[k]);
        sb_add(out, ")");
    }
}

/* The message for a profile without nodes: its selector matches none, or no agent runs on those it
 * matches. */
static char *no_nodes_text(const struct profile_facts *f)
{
    auto_sb struct sb selector = SB_INIT(SELECTOR_BYTES);
    add_selector(&selector, &f->record->spec.node_selector);
    const char *text = selector.len ? sb_str(&selector) : "everything";
    if (f->selected)
        return xasprintf("%zu %s nodeSelector (%s), and none of them has a Device; is cleave-agent "
                         "running there (kubectl get pods -A -l app.kubernetes.io/name=cleave)?",
                         f->selected, f->selected == 1 ? "Node matches" : "Nodes match", text);
    return xasprintf("no Node matches nodeSelector (%s); compare with kubectl get nodes "
                     "--show-labels",
                     text);
}

static void judge_state(const struct profile_facts *f, struct conclusion *v)
{
    const struct rollout_summary *s = f->summary;
    if (strcmp(v->accepted_reason, "Invalid") == 0)
        conclude(v, KSTATUS_STALLED, "Invalid", xstrdup(v->accepted_message));
    else if (f->matched == 0)
        conclude(v, KSTATUS_STALLED, "NoNodes", no_nodes_text(f));
    else if (s->count[PHASE_CHANGING])
        conclude(v, KSTATUS_IN_PROGRESS, s->busy.reason, changing_text(f));
    else if (s->count[PHASE_WAITING])
        judge_waiting(f, v);
    else if (s->count[PHASE_FAILED])
        conclude(v, KSTATUS_STALLED, s->failures[0].reason, failed_text(f, ""));
    else if (!v->accepted)
        conclude(v, KSTATUS_STALLED, v->accepted_reason, xstrdup(v->accepted_message));
    else if (s->count[PHASE_OVERRIDDEN] == f->matched)
        conclude(v, KSTATUS_STALLED, "Overridden", overridden_text(f));
    else
        conclude(v, KSTATUS_CURRENT, "Applied", applied_text(f));
}

static char *cut(char *text_take)
{
    if (strlen(text_take) > MESSAGE_BYTES)
        text_take[MESSAGE_BYTES] = '\0';
    return text_take;
}

static void copy_failures(const struct rollout_summary *s, struct gpuprofile_status *ret)
{
    for (size_t i = 0; i < s->n_failures; i++) {
        struct gpuprofile_failure *f = XPUSH(ret->failures, ret->n_failures);
        f->node = xstrdup(s->failures[i].node);
        f->reason = xstrdup(s->failures[i].reason);
        f->message = s->failures[i].message ? cut(xstrdup(s->failures[i].message)) : NULL;
    }
}

void gpuprofile_plan(const struct profile_facts *f, const struct gpuprofile_status *old,
                     struct gpuprofile_status *ret)
{
    const struct rollout_summary *s = f->summary;
    struct conclusion v __attribute__((cleanup(conclusion_done))) = {0};
    judge_acceptance(f, &v);
    judge_state(f, &v);
    assert(v.accepted_reason && v.accepted_message && v.reason && v.message);
    *ret = (struct gpuprofile_status){.observed_generation = f->generation, .has_nodes = true};
    ret->nodes.matched = (int64_t)f->matched;
    ret->nodes.up_to_date = (int64_t)s->count[PHASE_UP_TO_DATE];
    ret->nodes.progressing = (int64_t)(s->count[PHASE_CHANGING] + s->count[PHASE_WAITING]);
    ret->nodes.failed = (int64_t)s->count[PHASE_FAILED];
    copy_failures(s, ret);
    conditions_copy(&ret->conditions, &old->conditions);
    (void)condition_set(&ret->conditions, "Accepted", v.accepted ? CONDITION_TRUE : CONDITION_FALSE,
                        v.accepted_reason, cut(v.accepted_message), f->generation, f->now_ms);
    (void)conditions_set_kstatus(&ret->conditions, v.state, v.reason, cut(v.message), f->generation,
                                 f->now_ms);
}

/* --- Observing --- */

static void survey_nodes(struct context *ctx, struct survey *ret)
{
    auto_object_list struct object_list devices = {0};
    store_list(ctx->caches.devices, &devices);
    for (size_t i = 0; i < devices.count; i++) {
        const struct object_key key = object_key(devices.items[i]);
        auto_object struct object *node = store_get(ctx->caches.nodes, &key);
        if (node)
            survey_add(ret, object_payload(node), object_payload(devices.items[i]));
    }
}

/* --- Reconciling --- */

static int patch_status(struct context *ctx, struct scope *s, const struct object *profile,
                        json_t *difference, struct err *e)
{
    const struct object_key key = object_key(profile);
    const struct kc_target target = {.res = &resource_gpuprofiles,
                                     .name = key.name,
                                     .subresource = "status"};
    auto_json json_t *body =
        json_pack("{s:{s:s, s:s}, s:O}", "metadata", "uid", object_uid(profile), "resourceVersion",
                  object_version(profile), "status", difference);
    const struct kc_write write = {.body = body, .how = KC_MERGE};
    auto_json json_t *written = NULL;
    if (kc_patch(ctx->kc, s, &target, &write, &written, e) < 0)
        return err_wrap(e, "writing the status of GPUProfile %s", key.name);
    expectations_wrote(ctx->profile_writes, &key, ctx->caches.profiles,
                       JX_STR_AT(written, "metadata", "resourceVersion"));
    return 0;
}

static bool flipped(const struct gpuprofile_status *old, const struct gpuprofile_status *new,
                    const char *type)
{
    const struct condition *was = condition_get(&old->conditions, type);
    const struct condition *is = condition_get(&new->conditions, type);
    return is && (!was || was->status != is->status);
}

/* True for a message that is a node's: its Event NodeFailed and status.failures have it. */
static bool is_of_node(const struct gpuprofile_status *status, const char *message)
{
    for (size_t i = 0; i < status->n_failures; i++) {
        size_t len = strlen(status->failures[i].node);
        if (strncmp(message, status->failures[i].node, len) == 0 && message[len] == ':')
            return true;
    }
    return false;
}

/* One text is told by one Event. */
static void report_acceptance(struct context *ctx, const struct object *profile,
                              const struct gpuprofile_status *status,
                              const struct condition *accepted)
{
    bool refused = accepted->status != CONDITION_TRUE;
    if (refused && is_of_node(status, accepted->message))
        recorder_event(ctx->recorder, profile, refused, accepted->reason,
                       "%lld of %lld nodes failed; status.failures says why",
                       (long long)status->nodes.failed, (long long)status->nodes.matched);
    else
        recorder_event(ctx->recorder, profile, refused, accepted->reason, "%s", accepted->message);
}

static void report_flips(struct context *ctx, const struct object *profile,
                         const struct gpuprofile_status *old, const struct gpuprofile_status *new)
{
    const struct condition *accepted = condition_get(&new->conditions, "Accepted");
    const struct condition *ready = condition_get(&new->conditions, "Ready");
    if (flipped(old, new, "Accepted"))
        report_acceptance(ctx, profile, new, accepted);
    if (flipped(old, new, "Ready") && ready->status == CONDITION_TRUE)
        recorder_event(ctx->recorder, profile, /* warning= */ false, "RolloutFinished", "%s",
                       ready->message);
}

/* True for a profile with many nodes: then the summary over all of them is rationed, not only the
 * write. */
static bool is_large(struct context *ctx, const char *profile)
{
    return rollout_matched(ctx->rollout, profile) > ctx->many_nodes;
}

static int64_t pace(struct context *ctx, const char *profile)
{
    return rollout_pace(ctx->rollout, profile, clock_mono_ms(ctx->clk), WRITE_GAP_MS);
}

static int publish(struct context *ctx, struct scope *s, const struct object *profile,
                   const struct gpuprofile_status *new, struct reconcile_result *result,
                   struct err *e)
{
    const struct profile_record *p = object_payload(profile);
    auto_json json_t *from = gpuprofile_status_encode(&p->status);
    auto_json json_t *to = gpuprofile_status_encode(new);
    auto_json json_t *difference = NULL;
    jx_merge_diff(from, to, &difference);
    if (!difference)
        return 0;
    bool begins = flipped(&p->status, new, "Ready");
    bool runs = condition_is_true(&new->conditions, "Reconciling");
    int64_t wait_ms = is_large(ctx, object_name(profile)) ? 0 : pace(ctx, object_name(profile));
    if (runs && !begins && wait_ms > 0) {
        result->requeue_after_ms = wait_ms;
        return 0;
    }
    TRY(patch_status(ctx, s, profile, difference, e));
    report_flips(ctx, profile, &p->status, new);
    return 0;
}

/* A node whose cards have just come stands in the ledger as it did without them, as wanted, until
 * its own reconciler has seen them. */
static bool is_ledger_current(const struct rollout_summary *s, const struct survey *nodes)
{
    return s->noted == nodes->matched && s->n_cards == nodes->n_cards;
}

static void wake(struct context *ctx, const struct object *profile, size_t matched)
{
    const struct profile_record *p = object_payload(profile);
    struct rollout_budget b = {.paused = p->spec.paused};
    if (gpuprofile_max_unavailable(p->spec.rollout.max_unavailable, matched, &b.max, NULL) == 0)
        rollout_wake(ctx->rollout, object_name(profile), &b, ctx->node_queue);
}

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *result, struct err *e)
{
    struct context *ctx = self;
    auto_object struct object *profile = store_get(ctx->caches.profiles, k);
    if (!profile) {
        rollout_forget_profile(ctx->rollout, k->name);
        expectations_forget(ctx->profile_writes, k);
        return 0;
    }
    if (object_is_deleting(profile))
        /* the profile is being deleted and no node follows it; a foreign finalizer keeps the
         * object */
        return 0;
    rollout_build(ctx->rollout, node_ledger_build, ctx);
    int64_t wait_ms = is_large(ctx, k->name) ? pace(ctx, k->name) : 0;
    if (wait_ms > 0) {
        result->requeue_after_ms = wait_ms;
        return 0;
    }
    const struct profile_record *p = object_payload(profile);
    auto_survey struct survey nodes = {0};
    if (!p->spec_error) {
        survey_begin(p, &nodes);
        survey_nodes(ctx, &nodes);
    }
    auto_free char *not_found = survey_not_found(&nodes);
    auto_rollout_summary struct rollout_summary summary = {0};
    rollout_summary(ctx->rollout, k->name, rollout_edition_of(profile), &summary);
    wake(ctx, profile, nodes.matched);
    if (!expectations_met(ctx->profile_writes, k) ||
        (!p->spec_error && !is_ledger_current(&summary, &nodes))) {
        result->requeue_after_ms = NOTES_RECHECK_MS;
        return 0;
    }
    auto_gpuprofile_status struct gpuprofile_status status = {0};
    gpuprofile_plan(
        &(struct profile_facts){
            .generation = object_generation(profile),
            .record = p,
            .matched = nodes.matched,
            .selected = nodes.matched || p->spec_error ? 0 : survey_selected(p, ctx->caches.nodes),
            .cardless = nodes.cardless,
            .summary = &summary,
            .not_found = not_found,
            .now_ms = clock_wall_ms(ctx->clk),
        },
        &p->status, &status);
    result->requeue_after_ms = nodes.matched ? 0 : NODES_RECHECK_MS;
    return publish(ctx, s, profile, &status, result, e);
}

/* --- Watches --- */

static bool same_cards(const struct device_record *a, const struct device_record *b)
{
    if (a->n_cards != b->n_cards || survey_is_cardless(a) != survey_is_cardless(b))
        return false;
    for (size_t i = 0; i < a->n_cards; i++)
        if (strcmp(a->cards[i].uuid, b->cards[i].uuid) != 0 ||
            a->cards[i].index != b->cards[i].index)
            return false;
    return true;
}

static bool cards_changed(const struct object *before, const struct object *after)
{
    return !before || !after || !same_cards(object_payload(before), object_payload(after));
}

static void map_device(void *self, const struct object *device, struct wq *out)
{
    const struct context *ctx = self;
    const struct object_key key = object_key(device);
    auto_object struct object *node = store_get(ctx->caches.nodes, &key);
    const struct node_record *n = node ? object_payload(node) : NULL;
    auto_object_list struct object_list profiles = {0};
    store_list(ctx->caches.profiles, &profiles);
    for (size_t i = 0; n && i < profiles.count; i++) {
        const struct profile_record *p = object_payload(profiles.items[i]);
        const struct object_key profile = object_key(profiles.items[i]);
        if (!p->spec_error &&
            label_selector_matches(&p->spec.node_selector, n->labels, n->n_labels))
            wq_add(out, &profile);
    }
}

struct controller *gpuprofile_controller_new(struct context *ctx)
{
    struct controller *c = controller_new("gpuprofile", reconcile, ctx, ctx->workers, ctx->clk);
    controller_watch(c, ctx->profiles, /* keep= */ NULL, /* map= */ NULL);
    controller_watch(c, ctx->devices, cards_changed, map_device);
    ctx->profile_queue = controller_queue(c);
    return c;
}
