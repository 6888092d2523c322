/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "kubeclient/object.h"
#include "partition/resolve.h"
#include "reconcilers/records/card_record.h"
#include "reconcilers/records/condition_record.h"

/*
 * The record of a Device: a small typed copy, made when the object arrives, after which its JSON is
 * dropped. Immutable. A part that cannot be read (written by hand, outside the schema) is replaced
 * by a text that says why; it never hides the object.
 */

/* One model of card with what it can be partitioned into; the table is shared by all Devices with
 * it. */
struct model_record {
    char *name;
    const struct mig_table *table; /* NULL: no MIG */
};

struct device_record {
    struct device_spec spec;
    char *spec_error;   /* why the spec cannot be read; NULL: it can */
    char *status_error; /* the same for the status: then cards, models and resources are empty */
    bool has_status;    /* an agent has reported */
    int64_t observed_generation;
    char *withdrawal;              /* what the agent waits for (api/device.h); NULL: nothing */
    char *vendor, *driver_version; /* NULL: no driver */
    struct jx_pair *drivers;       /* vendor → version */
    size_t n_drivers;
    struct model_record *models;
    size_t n_models;
    struct card_record *cards; /* by index */
    size_t n_cards;
    /* Resources under vendors' names that Cleave offers and the API server accepts. */
    struct device_resource *resources;
    size_t n_resources;
    size_t n_refused_resources; /* number of other resources that the agent reported */
    char *refused_resource;     /* the first of them; NULL: none */
    struct condition_record ready, stalled;
    /* The agent's labels for the Node: only keys that an agent may set. */
    struct jx_pair *features; /* sorted */
    size_t n_features;
    size_t n_refused;       /* number of other labels that it reported */
    char *refused;          /* the first of them; NULL: none */
    char *owner_uid;        /* uid of the Node that owns it; NULL: none */
    struct jx_pair *labels; /* sorted */
    size_t n_labels;
};

/* For informers: the payload is a struct device_record. */
extern const struct object_type records_device_type;
/* The record of a Device whose status the caller has decoded; NULL: it cannot be, as why says. The
 * caller owns it (object_of). */
void *records_device_of(const json_t *obj, const struct device_status *st, const char *why);

/* The card of this uuid, or NULL. Borrowed. */
const struct card_record *records_card(const struct device_record *device, const char *uuid);
