/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/koordinator.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"

#include "reconcilers/koordinator_cards.h"
#include "reconcilers/maps.h"
#include "service/resources.h"

/* Requeue delay until Koordinator's Devices are in the cache, which takes one list. */
enum { SYNC_RECHECK_MS = 100 };

/* --- Pure --- */

/* The Device is deleted with its Node, as koordlet sets it up (states_device_linux.go,
 * buildBasicDevice). */
static json_t *owners(const struct node_view *v)
{
    return json_pack("[{s:s, s:s, s:s, s:s, s:b, s:b}]", "apiVersion", "v1", "kind", "Node", "name",
                     object_name(v->node_object), "uid", object_uid(v->node_object), "controller",
                     true, "blockOwnerDeletion", true);
}

static json_t *creation(const struct node_view *v, const struct koordinator_mirror *m)
{
    return json_pack("{s:s, s:s, s:{s:s, s:O, s:O, s:o}, s:o}", "apiVersion",
                     KOORDINATOR_GROUP "/" KOORDINATOR_VERSION, "kind", "Device", "metadata",
                     "name", object_name(v->node_object), "labels", m->labels, "annotations",
                     m->annotations, "ownerReferences", owners(v), "spec",
                     koordinator_spec_encode(&m->spec));
}

/* The merge patch of one label or annotation; NULL: no change. New reference. */
static json_t *text_change(const struct koordinator_record *r, size_t at, json_t *want)
{
    const char *have = r->texts[at];
    if (have && !r->own[at] && (!want || koordinator_text_keys[at].yields))
        return NULL;
    if (!want)
        return have ? json_null() : NULL;
    return have && strcmp(have, json_string_value(want)) == 0 ? NULL : json_incref(want);
}

static void change_texts(const struct koordinator_record *r, const struct koordinator_mirror *m,
                         json_t *metadata)
{
    for (size_t i = 0; i < KOORDINATOR_TEXTS; i++) {
        const struct koordinator_text_key *key = &koordinator_text_keys[i];
        json_t *from = strcmp(key->map, "labels") == 0 ? m->labels : m->annotations;
        json_t *change = text_change(r, i, json_object_get(from, key->name));
        json_t *map = json_object_get(metadata, key->map);
        if (change && !map) {
            map = json_object();
            (void)json_object_set_new(metadata, key->map, map);
        }
        if (change)
            (void)json_object_set_new(map, key->name, change);
    }
}

/* NULL: nothing differs. */
static json_t *patch(const struct object *standing, const struct koordinator_mirror *m)
{
    const struct koordinator_record *r = object_payload(standing);
    auto_json json_t *stands = koordinator_spec_encode(&r->spec);
    auto_json json_t *spec = koordinator_spec_encode(&m->spec);
    auto_json json_t *metadata = json_object();
    change_texts(r, m, metadata);
    bool same = r->spec_known && json_equal(stands, spec);
    if (same && json_object_size(metadata) == 0)
        return NULL;
    (void)json_object_set_new(metadata, "uid", json_string(object_uid(standing)));
    (void)json_object_set_new(metadata, "resourceVersion", json_string(object_version(standing)));
    json_t *body = json_pack("{s:O}", "metadata", metadata);
    if (!same)
        (void)json_object_set(body, "spec", spec);
    return body;
}

static bool is_left_alone(const struct node_view *v, const struct object *standing)
{
    const struct koordinator_record *r = standing ? object_payload(standing) : NULL;
    if (r && (r->writer == KOORDINATOR_OTHERS || object_is_deleting(standing)))
        return true;
    return !v->node || (v->device && (!v->device->has_status || v->device->status_error));
}

static void plan_cards(const struct node_view *v, const struct object *standing,
                       const struct koordinator_cards *cards, int64_t now_ms,
                       struct koordinator_action *ret)
{
    auto_koordinator_mirror struct koordinator_mirror m = {0};
    const struct koordinator_record *r = standing ? object_payload(standing) : NULL;
    koordinator_mirror_build(&cards->node, r ? &r->spec : NULL, now_ms, &m);
    ret->body = standing ? patch(standing, &m) : creation(v, &m);
    if (ret->body)
        ret->verb = standing ? KOORDINATOR_PATCH : KOORDINATOR_CREATE;
}

void koordinator_plan(const struct node_view *v, const struct object *standing, int64_t now_ms,
                      struct koordinator_action *ret)
{
    *ret = (struct koordinator_action){.verb = KOORDINATOR_KEEP};
    if (is_left_alone(v, standing))
        return;
    auto_koordinator_cards struct koordinator_cards cards = {0};
    koordinator_cards_of(v, v->device ? &v->device->spec : NULL, &cards);
    const struct koordinator_record *r = standing ? object_payload(standing) : NULL;
    if (koordinator_mirror_has_cards(&cards.node))
        plan_cards(v, standing, &cards, now_ms, ret);
    else if (r && r->writer == KOORDINATOR_OURS)
        ret->verb = KOORDINATOR_REMOVE;
}

void koordinator_action_done(struct koordinator_action *a)
{
    json_decref(a->body);
    *a = (struct koordinator_action){0};
}

/* --- The reconciler --- */

static int create(struct context *ctx, struct scope *s, const struct object_key *k,
                  const json_t *body, json_t **ret_written, struct err *e)
{
    const struct kc_target target = {.res = &resource_koordinator_devices};
    const struct kc_write write = {.body = body, .manager = MANAGER_KOORDINATOR};
    if (kc_create(ctx->kc, s, &target, &write, ret_written, e) < 0)
        return err_wrap(e, "creating Koordinator's Device %s", k->name);
    log_info("Created Koordinator's Device", kv("node", k->name));
    return 0;
}

static int change(struct context *ctx, struct scope *s, const struct object_key *k,
                  const json_t *body, json_t **ret_written, struct err *e)
{
    const struct kc_target target = {.res = &resource_koordinator_devices, .name = k->name};
    const struct kc_write write = {.body = body, .how = KC_MERGE, .manager = MANAGER_KOORDINATOR};
    if (kc_patch(ctx->kc, s, &target, &write, ret_written, e) < 0)
        return err_wrap(e, "changing Koordinator's Device %s", k->name);
    log_info("Changed Koordinator's Device", kv("node", k->name));
    return 0;
}

static int withdraw(struct context *ctx, struct scope *s, const struct object_key *k,
                    const struct object *standing, struct err *e)
{
    assert(standing);
    const struct kc_target target = {.res = &resource_koordinator_devices, .name = k->name};
    const struct kc_remove_opts opts = {.if_uid = object_uid(standing),
                                        .if_resource_version = object_version(standing)};
    int rc = kc_remove_with(ctx->kc, s, &target, &opts, e);
    if (rc == -ERR_NOT_FOUND) {
        err_clear(e);
        return 0;
    }
    if (rc < 0)
        return err_wrap(e, "removing Koordinator's Device %s", k->name);
    log_info("Removed Koordinator's Device", kv("node", k->name));
    return 0;
}

static int act(struct context *ctx, struct scope *s, const struct object_key *k,
               const struct object *standing, const struct koordinator_action *todo, struct err *e)
{
    auto_json json_t *written = NULL;
    assert((todo->verb == KOORDINATOR_CREATE || todo->verb == KOORDINATOR_PATCH) == !!todo->body);
    switch (todo->verb) {
    case KOORDINATOR_KEEP:
        return 0;
    case KOORDINATOR_REMOVE:
        return withdraw(ctx, s, k, standing, e);
    case KOORDINATOR_CREATE:
        TRY(create(ctx, s, k, todo->body, &written, e));
        break;
    case KOORDINATOR_PATCH:
        TRY(change(ctx, s, k, todo->body, &written, e));
        break;
    }
    expectations_wrote(ctx->koordinator_writes, k,
                       informer_store(koordinator_link_devices(ctx->koordinator)),
                       JX_STR_AT(written, "metadata", "resourceVersion"));
    return 0;
}

static int reconcile(void *self, struct scope *s, const struct object_key *k,
                     struct reconcile_result *result, struct err *e)
{
    struct context *ctx = self;
    auto_node_view struct node_view v = {0};
    auto_koordinator_action struct koordinator_action todo = {0};
    if (koordinator_link_use(ctx->koordinator) != KOORDINATOR_THERE)
        return 0;
    if (!koordinator_link_has_synced(ctx->koordinator)) {
        result->requeue_after_ms = SYNC_RECHECK_MS;
        return 0;
    }
    if (!expectations_met(ctx->koordinator_writes, k)) {
        result->requeue_after_ms = EXPECTATIONS_RECHECK_MS;
        return 0;
    }
    node_view_look(&ctx->caches, k->name, &v);
    koordinator_plan(&v, v.koordinator_object, clock_wall_ms(ctx->clk), &todo);
    return act(ctx, s, k, v.koordinator_object, &todo, e);
}

struct controller *koordinator_controller_new(struct context *ctx)
{
    struct controller *c = controller_new("koordinator", reconcile, ctx, ctx->workers, ctx->clk);
    controller_watch(c, ctx->devices, /* keep= */ NULL, /* map= */ NULL);
    controller_watch(c, ctx->nodes, maps_node_changed, /* map= */ NULL);
    controller_watch(c, koordinator_link_devices(ctx->koordinator), /* keep= */ NULL,
                     /* map= */ NULL);
    controller_watch(c, koordinator_link_kinds(ctx->koordinator), /* keep= */ NULL,
                     maps_to_every_device);
    return c;
}
