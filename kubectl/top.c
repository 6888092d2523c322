/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/top.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "kubectl/exposition.h"

#define MIB 1048576.0

static const struct top_values nothing = {
    .use = TOP_NOT_TOLD,
    .memory = TOP_NOT_TOLD,
    .total = TOP_NOT_TOLD,
    .celsius = TOP_NOT_TOLD,
    .watts = TOP_NOT_TOLD,
    .engine = TOP_NOT_TOLD,
    .unused = TOP_NOT_TOLD,
    .reserved = TOP_NOT_TOLD,
};

/* --- Who a sample is about --- */

/* A label in one of dcgm-exporter's spellings; "": it is not there. */
static const char *label(const struct exposition_sample *s, const char *now, const char *oldest)
{
    const char *found = exposition_label(s, now);
    if (!found && oldest)
        found = exposition_label(s, oldest);
    return found ? found : "";
}

static int too_many(struct err *e, const char *what, size_t most)
{
    return err_set(e, ERR_TOO_LARGE, "the metrics name more than %zu %s", most, what);
}

static int card_of(struct top_node *n, const struct exposition_sample *s, struct top_card **ret,
                   struct err *e)
{
    const char *uuid = label(s, "UUID", "uuid");
    for (size_t i = 0; i < n->n; i++)
        if (strcmp(n->cards[i].uuid, uuid) == 0) {
            *ret = &n->cards[i];
            return 0;
        }
    if (n->n == TOP_MAX_CARDS)
        return too_many(e, "cards", TOP_MAX_CARDS);
    *ret = XPUSH(n->cards, n->n);
    (*ret)->uuid = xstrdup(uuid);
    (*ret)->index = xstrdup(label(s, "gpu", NULL));
    (*ret)->model = xstrdup("");
    (*ret)->v = nothing;
    (*ret)->age_s = TOP_NOT_TOLD;
    return 0;
}

static int part_of(struct top_card *c, const struct exposition_sample *s, struct top_part **ret,
                   struct err *e)
{
    const char *id = label(s, "GPU_I_ID", NULL);
    for (size_t i = 0; i < c->n_parts; i++)
        if (strcmp(c->parts[i].id, id) == 0) {
            *ret = &c->parts[i];
            return 0;
        }
    if (c->n_parts == TOP_MAX_PARTS)
        return too_many(e, "GPU instances of a card", TOP_MAX_PARTS);
    *ret = XPUSH(c->parts, c->n_parts);
    (*ret)->id = xstrdup(id);
    (*ret)->profile = xstrdup(label(s, "GPU_I_PROFILE", NULL));
    (*ret)->v = nothing;
    return 0;
}

/* XPUSH writes the count. NOLINTNEXTLINE(readability-non-const-parameter) */
static int user_of(struct top_user **users, size_t *n, const struct exposition_sample *s,
                   struct top_user **ret, struct err *e)
{
    const char *ns = label(s, "namespace", "pod_namespace");
    const char *pod = label(s, "pod", "pod_name");
    for (size_t i = 0; i < *n; i++)
        if (strcmp((*users)[i].pod, pod) == 0 && strcmp((*users)[i].ns, ns) == 0) {
            *ret = &(*users)[i];
            return 0;
        }
    if (*n == TOP_MAX_USERS)
        return too_many(e, "pods of a card", TOP_MAX_USERS);
    *ret = XPUSH(*users, *n);
    (*ret)->ns = xstrdup(ns);
    (*ret)->pod = xstrdup(pod);
    (*ret)->container = xstrdup(label(s, "container", "container_name"));
    (*ret)->v = nothing;
    return 0;
}

/* --- What it says --- */

/* The metrics that are read, in units of ours. */
static const struct measure {
    const char *metric;
    size_t at; /* in struct top_values */
    double unit;
} measures[] = {
    {"DCGM_FI_DEV_GPU_UTIL", offsetof(struct top_values, use), 0.01},
    {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", offsetof(struct top_values, engine), 1},
    {"DCGM_FI_DEV_FB_USED", offsetof(struct top_values, memory), MIB},
    {"DCGM_FI_DEV_FB_FREE", offsetof(struct top_values, unused), MIB},
    {"DCGM_FI_DEV_FB_RESERVED", offsetof(struct top_values, reserved), MIB},
    {"DCGM_FI_DEV_FB_TOTAL", offsetof(struct top_values, total), MIB},
    {"DCGM_FI_DEV_GPU_TEMP", offsetof(struct top_values, celsius), 1},
    {"DCGM_FI_DEV_POWER_USAGE", offsetof(struct top_values, watts), 1},
    {"cleave_gpu_utilization_ratio", offsetof(struct top_values, use), 1},
    {"cleave_gpu_memory_used_bytes", offsetof(struct top_values, memory), 1},
    {"cleave_gpu_memory_total_bytes", offsetof(struct top_values, total), 1},
    {"cleave_gpu_temperature_celsius", offsetof(struct top_values, celsius), 1},
    {"cleave_gpu_power_watts", offsetof(struct top_values, watts), 1},
};

static const struct measure *measure_of(const char *metric)
{
    for (size_t i = 0; i < ARRAY_LEN(measures); i++)
        if (strcmp(measures[i].metric, metric) == 0)
            return &measures[i];
    return NULL;
}

/* Adds a series to a number: that of a card that pods share is the sum of the pods' series. */
static void add_value(struct top_values *v, const struct measure *m, double value)
{
    double *at = (double *)(void *)((char *)v + m->at);
    *at = isnan(*at) ? value : *at + value;
}

/* True for a number that some card can have: of bytes, watts, seconds and shares alike. */
static bool can_be(double value)
{
    static const double most = 1e15;
    return value >= 0 && value <= most;
}

static int take_measure(struct top_card *c, const struct measure *m,
                        const struct exposition_sample *s, struct err *e)
{
    struct top_part *part = NULL;
    struct top_user *user = NULL;
    double value = s->value * m->unit;
    if (*label(s, "GPU_I_ID", NULL))
        TRY(part_of(c, s, &part, e));
    if (*label(s, "pod", "pod_name"))
        TRY(user_of(part ? &part->users : &c->users, part ? &part->n : &c->n, s, &user, e));
    if (!can_be(value))
        return 0;
    add_value(part ? &part->v : &c->v, m, value);
    if (user)
        add_value(&user->v, m, value);
    return 0;
}

static int take_sample(void *arg, const struct exposition_sample *s, struct err *e)
{
    struct top_card *c = NULL;
    const struct measure *m = measure_of(s->name);
    bool is_stale = strcmp(s->name, "cleave_agent_telemetry_stale") == 0;
    bool is_age = strcmp(s->name, "cleave_agent_telemetry_age_seconds") == 0;
    if (!m && !is_stale && !is_age)
        return 0;
    TRY(card_of(arg, s, &c, e));
    if (is_stale)
        c->is_stale = s->value != 0;
    if (is_age && can_be(s->value))
        c->age_s = s->value;
    if (!m)
        return 0;
    if (!*c->model)
        xstr_set(&c->model, label(s, "modelName", NULL));
    return take_measure(c, m, s, e);
}

/* --- The whole --- */

static double least(double a, double b)
{
    return b < a ? b : a;
}

static void conclude(struct top_values *v)
{
    if (isnan(v->use))
        v->use = v->engine;
    if (!isnan(v->use))
        v->use = least(v->use, 1);
    if (isnan(v->total))
        v->total = v->memory + v->unused + (isnan(v->reserved) ? 0 : v->reserved);
}

static void conclude_users(struct top_user *users, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        conclude(&users[i].v);
        users[i].v.total = TOP_NOT_TOLD;
    }
}

static void conclude_card(struct top_card *c)
{
    conclude(&c->v);
    conclude_users(c->users, c->n);
    for (size_t i = 0; i < c->n_parts; i++) {
        conclude(&c->parts[i].v);
        conclude_users(c->parts[i].users, c->parts[i].n);
    }
}

static int by_index(const void *a, const void *b)
{
    const struct top_card *x = a, *y = b;
    int d = (int)(strlen(x->index) > strlen(y->index)) - (int)(strlen(x->index) < strlen(y->index));
    d = d ? d : strcmp(x->index, y->index);
    return d ? d : strcmp(x->uuid, y->uuid);
}

int top_read(char *page, struct top_node *ret, struct err *e)
{
    *ret = (struct top_node){0};
    TRY(exposition_each(page, take_sample, ret, e));
    for (size_t i = 0; i < ret->n; i++)
        conclude_card(&ret->cards[i]);
    if (ret->n)
        qsort(ret->cards, ret->n, sizeof(*ret->cards), by_index);
    return 0;
}

static void users_free(struct top_user *users, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(users[i].ns);
        free(users[i].pod);
        free(users[i].container);
    }
    free(users);
}

static void card_done(struct top_card *c)
{
    for (size_t i = 0; i < c->n_parts; i++) {
        free(c->parts[i].profile);
        free(c->parts[i].id);
        users_free(c->parts[i].users, c->parts[i].n);
    }
    users_free(c->users, c->n);
    free(c->parts);
    free(c->uuid);
    free(c->index);
    free(c->model);
}

void top_node_done(struct top_node *n)
{
    for (size_t i = 0; i < n->n; i++)
        card_done(&n->cards[i]);
    free(n->cards);
    *n = (struct top_node){0};
}
