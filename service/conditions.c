/* SPDX-License-Identifier: Apache-2.0 */
#include "service/conditions.h"

#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "base/xalloc.h"

static struct condition *find_condition(const struct conditions *l, const char *type)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->items[i].type, type) == 0)
            return &l->items[i];
    return NULL;
}

static bool set_text(char **slot, const char *s)
{
    if (text_equal(*slot, s))
        return false;
    xstr_set(slot, s);
    return true;
}

/* metav1.Condition: ^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$ */
bool condition_is_reason(const char *reason)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    static const char inside[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_,:";
    size_t len = strlen(reason);
    return len && strspn(reason, letters) && strspn(reason, inside) == len &&
           !strchr(",:", reason[len - 1]);
}

static struct condition *append(struct conditions *l, const char *type)
{
    struct condition *c = XPUSH(l->items, l->count);
    *c = (struct condition){.type = xstrdup(type),
                            .status = -1,
                            .reason = xstrdup(""),
                            .message = xstrdup("")};
    return c;
}

/* Rounds as metav1.Time does in the API. */
static int64_t whole_seconds(int64_t ms)
{
    int64_t rest = ms % 1000;
    return ms - (rest < 0 ? rest + 1000 : rest);
}

bool condition_set(struct conditions *l, const char *type, enum condition_status status,
                   const char *reason, const char *msg, int64_t generation, int64_t now_ms)
{
    assert(type && reason && *reason && msg);
    struct condition *c = find_condition(l, type);
    if (!c)
        c = append(l, type);
    bool changed = c->status != (int)status || c->observed_generation != generation;
    if (c->status != (int)status)
        c->last_transition_ms = whole_seconds(now_ms);
    c->status = (int)status;
    c->observed_generation = generation;
    changed |= set_text(&c->reason, reason);
    changed |= set_text(&c->message, msg);
    return changed;
}

static void condition_done(struct condition *c)
{
    free(c->type);
    free(c->reason);
    free(c->message);
}

bool condition_remove(struct conditions *l, const char *type)
{
    struct condition *c = find_condition(l, type);
    if (!c)
        return false;
    condition_done(c);
    size_t behind = l->count - (size_t)(c - l->items) - 1;
    memmove(c, c + 1, behind * sizeof(*c));
    l->count--;
    return true;
}

const struct condition *condition_get(const struct conditions *l, const char *type)
{
    return find_condition(l, type);
}

bool condition_is_true(const struct conditions *l, const char *type)
{
    const struct condition *c = find_condition(l, type);
    return c && c->status == CONDITION_TRUE;
}

bool conditions_set_kstatus(struct conditions *l, enum kstatus state, const char *reason,
                            const char *msg, int64_t generation, int64_t now_ms)
{
    bool changed = false;
    if (state == KSTATUS_IN_PROGRESS)
        changed |= condition_set(l, "Reconciling", CONDITION_TRUE, reason, msg, generation, now_ms);
    else
        changed |= condition_remove(l, "Reconciling");
    if (state == KSTATUS_STALLED)
        changed |= condition_set(l, "Stalled", CONDITION_TRUE, reason, msg, generation, now_ms);
    else
        changed |= condition_remove(l, "Stalled");
    enum condition_status ready = state == KSTATUS_CURRENT ? CONDITION_TRUE : CONDITION_FALSE;
    changed |= condition_set(l, "Ready", ready, reason, msg, generation, now_ms);
    return changed;
}

void conditions_copy(struct conditions *dst, const struct conditions *src)
{
    struct conditions copy = {0};
    for (size_t i = 0; i < src->count; i++) {
        const struct condition *from = &src->items[i];
        struct condition *to = XPUSH(copy.items, copy.count);
        *to = *from;
        to->type = xstrdup(from->type);
        to->reason = xstrdup(from->reason);
        to->message = xstrdup(from->message);
    }
    conditions_done(dst);
    *dst = copy;
}

static bool condition_equal(const struct condition *a, const struct condition *b)
{
    return a->status == b->status && a->observed_generation == b->observed_generation &&
           a->last_transition_ms == b->last_transition_ms && text_equal(a->type, b->type) &&
           text_equal(a->reason, b->reason) && text_equal(a->message, b->message);
}

bool conditions_equal(const struct conditions *a, const struct conditions *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (!condition_equal(&a->items[i], &b->items[i]))
            return false;
    return true;
}

json_t *conditions_to_json(const struct conditions *l)
{
    json_t *array = json_array();
    for (size_t i = 0; i < l->count; i++) {
        json_t *c = jx_encode(condition_fields, &l->items[i]);
        /* Present even for generation 0, so that readers need not guess. */
        (void)json_object_set_new(c, "observedGeneration",
                                  json_integer(l->items[i].observed_generation));
        (void)json_array_append_new(array, c);
    }
    return array;
}

void conditions_from_json(const json_t *array, struct conditions *ret)
{
    struct conditions l = {0};
    size_t i;
    const json_t *value;
    json_array_foreach(array, i, value) {
        struct condition c = {0};
        if (jx_decode(value, condition_fields, &c, /* e= */ NULL) < 0) {
            jx_free(condition_fields, &c);
            continue;
        }
        c.last_transition_ms = whole_seconds(c.last_transition_ms);
        *XPUSH(l.items, l.count) = c;
    }
    *ret = l;
}

void conditions_done(struct conditions *l)
{
    for (size_t i = 0; i < l->count; i++)
        condition_done(&l->items[i]);
    free(l->items);
    *l = (struct conditions){0};
}
