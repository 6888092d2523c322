/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/scope.h"

#include "api/koordinator.h"
#include "kubeclient/informer.h"

/*
 * Whether Koordinator is in use on this cluster, and a cache of its Devices. Its Device kind may
 * come and go at any time. The link watches the one CustomResourceDefinition by name, and the
 * objects only while the kind is established, so a cluster without Koordinator costs one idle
 * watch.
 */
struct koordinator_link;

enum koordinator_use {
    KOORDINATOR_OFF,     /* switched off: nothing is done for Koordinator */
    KOORDINATOR_UNKNOWN, /* the API server has not answered yet: objects stay as they are */
    KOORDINATOR_ABSENT,  /* the cluster has no such kind */
    KOORDINATOR_THERE,
};

/* Requeue delay of keys that wait for KOORDINATOR_UNKNOWN to end, which takes one list. */
enum { KOORDINATOR_RECHECK_MS = 1000 };

/* The writer that keeps the device list of Koordinator's Device up to date, read from its managed
 * fields. */
enum koordinator_writer {
    KOORDINATOR_NOBODY, /* the object exists and has no device list */
    KOORDINATOR_OURS,
    KOORDINATOR_OTHERS, /* koordlet, or whoever created it: left alone */
};

/* Labels and annotations that the controller may write in addition to the device list. */
enum koordinator_text {
    KOORDINATOR_TEXT_VENDOR,
    KOORDINATOR_TEXT_MODEL,
    KOORDINATOR_TEXT_DRIVER,
    KOORDINATOR_TEXT_POLICY,
    KOORDINATOR_TEXT_PARTITIONS,
    KOORDINATOR_TEXTS
};

/* Payload of Koordinator's Device in the cache. Immutable. */
struct koordinator_record {
    enum koordinator_writer writer;
    struct koordinator_spec spec;
    bool spec_known; /* false: the spec cannot be read, and is empty here */
    /* In the order of koordinator_text_keys: the present text (NULL: none), and whether we applied
     * it. */
    char *texts[KOORDINATOR_TEXTS];
    bool own[KOORDINATOR_TEXTS];
};

/* One label or annotation of Koordinator's Device. */
struct koordinator_text_key {
    const char *map; /* "labels" or "annotations" */
    const char *name;
    bool yields; /* another writer's value stays */
};
extern const struct koordinator_text_key koordinator_text_keys[KOORDINATOR_TEXTS];

/* Field manager of our writes to Koordinator's Devices. */
#define MANAGER_KOORDINATOR "cleave-controller-koordinator"

/* Type for informers: the payload is a struct koordinator_record. */
extern const struct object_type koordinator_device_type;

/* Borrows both. */
struct koordinator_link *koordinator_link_new(struct kc *reader, const struct clock *clk,
                                              uint64_t seed);
/* NULL gives KOORDINATOR_OFF. Any thread. */
enum koordinator_use koordinator_link_use(const struct koordinator_link *l);
/* True when all Devices are in the cache. Any thread. */
bool koordinator_link_has_synced(const struct koordinator_link *l);
/* The Device of a node in the cache: a reference, or NULL. Any thread. */
struct object *koordinator_link_device(const struct koordinator_link *l,
                                       const struct object_key *node);
/* The informers of the kind and of its Devices, to attach handlers to. Borrowed. */
struct informer *koordinator_link_kinds(struct koordinator_link *l);
struct informer *koordinator_link_devices(struct koordinator_link *l);

/* The bodies of two threads of a manager (service_fn); arg is the link. Both end with the scope. */
int koordinator_link_run_kinds(void *arg, struct scope *s, struct err *e) MUST_CHECK;
int koordinator_link_run_devices(void *arg, struct scope *s, struct err *e) MUST_CHECK;
/* Gives each of the two threads a heartbeat in the set, which outlives l. Call before they run. */
void koordinator_link_set_beats(struct koordinator_link *l, struct heartbeats *set);
/* For tests, in place of the two threads: one call of each reflector that has work. */
void koordinator_link_step(struct koordinator_link *l, struct scope *s);

/* Call after both threads have ended. NULL allowed; returns NULL. */
struct koordinator_link *koordinator_link_free(struct koordinator_link *l);
