/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/scope.h"

#include "api/koordinator.h"
#include "kubeclient/informer.h"

/*
 * Is Koordinator in use here, and what of it is seen. Its Device kind may come and go at any time:
 * the one CustomResourceDefinition is watched by name, and its objects only while it is
 * established, so that a cluster without Koordinator costs one idle watch.
 */
struct koordinator_link;

enum koordinator_use {
    KOORDINATOR_OFF,     /* nothing is to be done for it */
    KOORDINATOR_UNKNOWN, /* the cluster was not asked yet: what stands stays */
    KOORDINATOR_ABSENT,  /* its Device is no kind of this cluster */
    KOORDINATOR_THERE,
};

/* Of what waits until it is known, which takes one list. */
enum { KOORDINATOR_RECHECK_MS = 1000 };

/* Who brings a Device of Koordinator's up to date, as its managed fields tell. */
enum koordinator_writer {
    KOORDINATOR_NOBODY, /* it is there and says nothing of devices */
    KOORDINATOR_OURS,
    KOORDINATOR_OTHERS, /* koordlet, or whoever made it: left alone */
};

/* Labels and annotations that the controller may write besides the list of devices. */
enum koordinator_text {
    KOORDINATOR_TEXT_VENDOR,
    KOORDINATOR_TEXT_MODEL,
    KOORDINATOR_TEXT_DRIVER,
    KOORDINATOR_TEXT_POLICY,
    KOORDINATOR_TEXT_PARTITIONS,
    KOORDINATOR_TEXTS
};

/* Payload of a Device of Koordinator's in the cache. Immutable. */
struct koordinator_record {
    enum koordinator_writer writer;
    struct koordinator_spec spec;
    bool spec_known; /* not so: it cannot be read, and is empty here */
    /* In the order of koordinator_text_keys: what stands (NULL: nothing), and is it ours? */
    char *texts[KOORDINATOR_TEXTS];
    bool own[KOORDINATOR_TEXTS];
};

/* A label, or an annotation, of Koordinator's Device. */
struct koordinator_text_key {
    const char *map; /* "labels" or "annotations" */
    const char *name;
    bool yields; /* what others say there stays */
};
extern const struct koordinator_text_key koordinator_text_keys[KOORDINATOR_TEXTS];

/* Field manager of what is written to Koordinator's Devices. */
#define MANAGER_KOORDINATOR "cleave-controller-koordinator"

/* For informers: payload struct koordinator_record. */
extern const struct object_type koordinator_device_type;

/* Borrows both. */
struct koordinator_link *koordinator_link_new(struct kc *reader, const struct clock *clk,
                                              uint64_t seed);
/* NULL: KOORDINATOR_OFF. Any thread. */
enum koordinator_use koordinator_link_use(const struct koordinator_link *l);
/* Are its Devices in the cache? Any thread. */
bool koordinator_link_has_synced(const struct koordinator_link *l);
/* The Device of a node, as the cache has it: a reference, or NULL. Any thread. */
struct object *koordinator_link_device(const struct koordinator_link *l,
                                       const struct object_key *node);
/* What changes when it comes or goes, and its Devices; for handlers. Borrowed. */
struct informer *koordinator_link_kinds(struct koordinator_link *l);
struct informer *koordinator_link_devices(struct koordinator_link *l);

/* Two threads of a manager (service_fn); the argument is the link. Both end with the scope. */
int koordinator_link_run_kinds(void *arg, struct scope *s, struct err *e) MUST_CHECK;
int koordinator_link_run_devices(void *arg, struct scope *s, struct err *e) MUST_CHECK;
/* Gives each of the two a heartbeat in the set, which outlives l. Before they run. */
void koordinator_link_set_beats(struct koordinator_link *l, struct heartbeats *set);
/* For tests, in place of the two: one call of each reflector that has work. */
void koordinator_link_step(struct koordinator_link *l, struct scope *s);

/* Not while running. NULL allowed; returns NULL. */
struct koordinator_link *koordinator_link_free(struct koordinator_link *l);
