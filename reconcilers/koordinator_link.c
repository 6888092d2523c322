/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/koordinator_link.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/xalloc.h"

#include "service/resources.h"

/* --- The kind --- */

struct kind_record {
    bool established;
};

static int transform_kind(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    struct kind_record *r = xmalloc(sizeof(*r));
    size_t i;
    const json_t *c;
    json_array_foreach(JX_AT(obj, "status", "conditions"), i, c) {
        const char *type = JX_STR_AT(c, "type");
        const char *status = JX_STR_AT(c, "status");
        r->established |=
            type && status && strcmp(type, "Established") == 0 && strcmp(status, "True") == 0;
    }
    *ret = r;
    return 0;
}

static const struct object_type kind_type = {&resource_crds, transform_kind, free};

/* --- Its objects --- */

const struct koordinator_text_key koordinator_text_keys[KOORDINATOR_TEXTS] = {
    [KOORDINATOR_TEXT_VENDOR] = {"labels", KOORDINATOR_LABEL_VENDOR, .yields = false},
    [KOORDINATOR_TEXT_MODEL] = {"labels", KOORDINATOR_LABEL_MODEL, .yields = false},
    [KOORDINATOR_TEXT_DRIVER] = {"labels", KOORDINATOR_LABEL_DRIVER, .yields = false},
    [KOORDINATOR_TEXT_POLICY] = {"labels", KOORDINATOR_LABEL_POLICY, .yields = true},
    [KOORDINATOR_TEXT_PARTITIONS] = {"annotations", KOORDINATOR_PARTITIONS, .yields = false},
};

static bool owns_text(const json_t *fields, const struct koordinator_text_key *key)
{
    auto_free char *map = xasprintf("f:%s", key->map);
    auto_free char *name = xasprintf("f:%s", key->name);
    return JX_AT(fields, "f:metadata", map, name) != NULL;
}

/* Reads one entry of managedFields. koordlet replaces the whole object again and again
 * (states_device_linux.go, updateDevice), so an object that it has ever written is koordlet's. */
static void read_manager(const json_t *entry, struct koordinator_record *r, bool *written)
{
    const char *manager = JX_STR_AT(entry, "manager");
    const json_t *fields = JX_AT(entry, "fieldsV1");
    if (manager && strcmp(manager, MANAGER_KOORDINATOR) == 0) {
        if (r->writer == KOORDINATOR_NOBODY)
            r->writer = KOORDINATOR_OURS;
        for (size_t i = 0; i < KOORDINATOR_TEXTS; i++)
            r->own[i] |= owns_text(fields, &koordinator_text_keys[i]);
    } else if (manager && strcmp(manager, "koordlet") == 0) {
        r->writer = KOORDINATOR_OTHERS;
    } else {
        *written |= JX_AT(fields, "f:spec", "f:devices") != NULL;
    }
}

static void read_writer(const json_t *obj, struct koordinator_record *r)
{
    bool written = false;
    size_t i;
    const json_t *entry;
    json_array_foreach(JX_AT(obj, "metadata", "managedFields"), i, entry)
        read_manager(entry, r, &written);
    if (written && r->writer == KOORDINATOR_NOBODY)
        r->writer = KOORDINATOR_OTHERS;
}

static int transform_koordinator_device(const json_t *obj, void **ret, struct err *e)
{
    (void)e;
    struct koordinator_record *r = xmalloc(sizeof(*r));
    read_writer(obj, r);
    for (size_t i = 0; i < KOORDINATOR_TEXTS; i++)
        r->texts[i] = xstrdup(JX_STR_AT(obj, "metadata", koordinator_text_keys[i].map,
                                        koordinator_text_keys[i].name));
    r->spec_known = koordinator_spec_decode(obj, &r->spec, NULL) == 0;
    *ret = r;
    return 0;
}

static void free_koordinator_device(void *payload)
{
    struct koordinator_record *r = payload;
    koordinator_spec_done(&r->spec);
    for (size_t i = 0; i < KOORDINATOR_TEXTS; i++)
        free(r->texts[i]);
    free(r);
}

const struct object_type koordinator_device_type = {&resource_koordinator_devices,
                                                    transform_koordinator_device,
                                                    free_koordinator_device};

/* --- The link --- */

struct koordinator_link {
    struct informer *kinds, *devices;
    atomic_bool there;
    int changed_fd; /* readable when `there` may have changed */
    pthread_mutex_t mu;
    /* guarded by mu: the scope of the devices' informer while it runs, else NULL */
    struct scope *following;
};

static void on_kind(void *arg, const struct object *before, const struct object *after, bool stale)
{
    (void)before;
    (void)stale;
    struct koordinator_link *l = arg;
    const struct kind_record *r = after ? object_payload(after) : NULL;
    bool there = r && r->established && !object_is_deleting(after);
    if (atomic_exchange(&l->there, there) == there)
        return;
    log_info(there ? "Found Koordinator's Device" : "Koordinator's Device is gone");
    (void)eventfd_write(l->changed_fd, 1);
    HOLD(&l->mu);
    if (!there && l->following)
        scope_cancel(l->following);
}

struct koordinator_link *koordinator_link_new(struct kc *reader, const struct clock *clk,
                                              uint64_t seed)
{
    struct koordinator_link *l = xmalloc(sizeof(*l));
    l->kinds = informer_new(reader, &(struct informer_opts){.type = &kind_type,
                                                            .name = KOORDINATOR_CRD,
                                                            .clk = clk,
                                                            .seed = seed});
    l->devices = informer_new(reader, &(struct informer_opts){.type = &koordinator_device_type,
                                                              .clk = clk,
                                                              .seed = seed + 1});
    l->changed_fd = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    (void)pthread_mutex_init(&l->mu, NULL);
    informer_add_handler(l->kinds, on_kind, l);
    return l;
}

enum koordinator_use koordinator_link_use(const struct koordinator_link *l)
{
    if (!l)
        return KOORDINATOR_OFF;
    /* THERE comes first: handlers are called for the kind before the cache reports that it has
     * synced. */
    if (atomic_load(&l->there))
        return KOORDINATOR_THERE;
    return informer_has_synced(l->kinds) ? KOORDINATOR_ABSENT : KOORDINATOR_UNKNOWN;
}

bool koordinator_link_has_synced(const struct koordinator_link *l)
{
    return informer_has_synced(l->devices);
}

struct object *koordinator_link_device(const struct koordinator_link *l,
                                       const struct object_key *node)
{
    return store_get(informer_store(l->devices), node);
}

struct informer *koordinator_link_kinds(struct koordinator_link *l)
{
    return l->kinds;
}

struct informer *koordinator_link_devices(struct koordinator_link *l)
{
    return l->devices;
}

void koordinator_link_set_beats(struct koordinator_link *l, struct heartbeats *set)
{
    informer_set_beat(l->kinds, heartbeat_add(set, "koord-kinds", INFORMER_CALL_MS));
    informer_set_beat(l->devices, heartbeat_add(set, "koord-devices", INFORMER_CALL_MS));
}

int koordinator_link_run_kinds(void *arg, struct scope *s, struct err *e)
{
    const struct koordinator_link *l = arg;
    return informer_run(l->kinds, s, e);
}

static void set_following(struct koordinator_link *l, struct scope *s)
{
    HOLD(&l->mu);
    assert(!s || !l->following); /* one informer at a time */
    l->following = s;
    if (s && !atomic_load(&l->there))
        scope_cancel(s);
}

/* Runs the devices' informer until the kind is gone or the parent scope ends. */
static void follow(struct koordinator_link *l, struct scope *parent)
{
    auto_scope struct scope *s = scope_new(parent, -1);
    set_following(l, s);
    (void)!informer_run(l->devices, s, /* e= */ NULL);
    set_following(l, NULL);
}

int koordinator_link_run_devices(void *arg, struct scope *s, struct err *e)
{
    struct koordinator_link *l = arg;
    eventfd_t n;
    while (scope_check(s, /* e= */ NULL) == 0) {
        if (atomic_load(&l->there))
            follow(l, s);
        else if (scope_wait_readable(s, l->changed_fd, /* e= */ NULL) == 0)
            (void)eventfd_read(l->changed_fd, &n);
    }
    return scope_check(s, e);
}

void koordinator_link_step(struct koordinator_link *l, struct scope *s)
{
    (void)!informer_step(l->kinds, s, /* ret_wait_ms= */ NULL, /* e= */ NULL);
    if (atomic_load(&l->there))
        (void)!informer_step(l->devices, s, /* ret_wait_ms= */ NULL, /* e= */ NULL);
}

struct koordinator_link *koordinator_link_free(struct koordinator_link *l)
{
    if (!l)
        return NULL;
    (void)informer_free(l->kinds);
    (void)informer_free(l->devices);
    (void)close(l->changed_fd);
    (void)pthread_mutex_destroy(&l->mu);
    free(l);
    return NULL;
}
