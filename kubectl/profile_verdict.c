/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/profile_verdict.h"

#include "base/xalloc.h"

#include "reconcilers/gpuprofile.h"
#include "service/conditions.h"

void profile_judge_begin(struct object *profile_take, struct profile_judge *ret)
{
    *ret = (struct profile_judge){.profile = profile_take, .standings = rollout_new()};
    survey_begin(object_payload(profile_take), &ret->survey);
}

void profile_judge_add(struct profile_judge *j, const struct node_view *v)
{
    const char *name = object_name(j->profile);
    const struct resolve_outcome *o = node_view_profile(v, name);
    survey_add(&j->survey, v->node, v->device);
    if (!o)
        return;
    auto_standing struct standing s = {0};
    enum phase was;
    standing_of(v, o, &s);
    (void)rollout_note(j->standings, name, rollout_edition_of(j->profile),
                       object_name(v->device_object), &s, &was);
}

/* The objection to the profile as a whole. A node that failed says so in its own plan. */
static const struct condition *objection(const struct gpuprofile_status *st)
{
    if (!condition_is_true(&st->conditions, "Accepted"))
        return condition_get(&st->conditions, "Accepted");
    if (st->nodes.failed == 0 && condition_is_true(&st->conditions, "Stalled"))
        return condition_get(&st->conditions, "Stalled");
    return NULL;
}

void profile_judge_end(const struct profile_judge *j, struct store *nodes,
                       struct profile_verdict *ret)
{
    static const struct gpuprofile_status none;
    const struct profile_record *p = object_payload(j->profile);
    auto_rollout_summary struct rollout_summary summary = {0};
    auto_gpuprofile_status struct gpuprofile_status status = {0};
    auto_free char *not_found = survey_not_found(&j->survey);
    rollout_summary(j->standings, object_name(j->profile), rollout_edition_of(j->profile),
                    &summary);
    gpuprofile_plan(
        &(struct profile_facts){
            .record = p,
            .matched = j->survey.matched,
            .selected = j->survey.matched ? 0 : survey_selected(p, nodes),
            .cardless = j->survey.cardless,
            .summary = &summary,
            .not_found = not_found,
        },
        &none, &status);
    const struct condition *why = objection(&status);
    *ret = (struct profile_verdict){.refused = j->survey.matched == 0 ||
                                               !condition_is_true(&status.conditions, "Accepted")};
    xstr_set(&ret->reason, why ? why->reason : NULL);
    xstr_set(&ret->message, why ? why->message : NULL);
}

void profile_judge_done(struct profile_judge *j)
{
    survey_done(&j->survey);
    (void)rollout_free(j->standings);
    (void)object_unref(j->profile);
    *j = (struct profile_judge){0};
}

void profile_verdict_done(struct profile_verdict *v)
{
    free(v->reason);
    free(v->message);
    *v = (struct profile_verdict){0};
}
