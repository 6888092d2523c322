/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "api/gpuprofile.h"
#include "api/migconfig.h"
#include "kubeclient/object.h"
#include "partition/resolve.h"

/*
 * The controller's records: a small typed record for each object, made when the object arrives,
 * after which its JSON is dropped. Immutable; texts that many nodes have in common are shared
 * (reconcilers/records/intern.h). A part that cannot be read (written by hand, outside the schema) is
 * replaced by a text that says why; it never hides the object.
 */

/* A resource in the Node's maps. -1: the map has no such name. */
struct node_resource {
    char *name;
    int64_t capacity, allocatable;
};

struct string_list {
    char **items;
    size_t n;
};

struct node_record {
    struct jx_pair *labels; /* sorted by key */
    size_t n_labels;
    struct string_list owned_labels; /* keys that our field manager applied, sorted */
    /* Keys of GPU and PCI labels that a feature discovery wrote here, sorted. They stay its own. */
    struct string_list discovered_labels;
    struct node_resource *resources; /* of vendors' domains, sorted by name */
    size_t n_resources;
    struct string_list owned_resources; /* names that our field manager applied, sorted */
    bool tainted;                       /* it has our taint (node_taint.h) */
    /* The annotation of interop/node_lock.h, cut one byte beyond the longest legal value; NULL:
     * none. */
    char *lock;
    char *cards;     /* the annotation of interop/metax_cards.h, cut likewise */
    bool owns_cards; /* our field manager applied it */
};

/* One model of card with what it can be partitioned into; the table is shared by all Devices with
 * it. */
struct model_record {
    char *name;
    const struct mig_table *table; /* NULL: no MIG */
};

/* A pod that a card waits for: known by uid (from its process) or by namespace and name (from the
 * kubelet). Unknown parts are NULL. */
struct drain_pod {
    char *uid, *ns, *name;
    int64_t since_ms; /* wall clock: no grant of what it holds since; 0: unknown */
};

/* The fields of a condition that the reconcilers read. */
struct condition_record {
    bool present;
    int status;             /* enum condition_status */
    char *reason, *message; /* NULL when absent */
};

struct card_record {
    char *uuid, *vendor, *model, *pci_bus_id;
    uint32_t pci_device_id, pci_subsystem_id;
    unsigned index;
    bool mig_capable, healthy;
    int mode;
    bool pending;              /* a mode change takes effect at the next reset */
    int64_t memory_mib, minor; /* minor -1: unknown */
    int numa_node;
    char *pcie_root;                  /* NULL: unknown */
    uint64_t linked;                  /* bit set: indexes of the cards linked to it */
    char *ill_reason, *ill_message;   /* NULL while healthy, or when not reported */
    int64_t ill_since_ms;             /* wall clock; 0 in the same cases */
    struct sgpu_state *sgpu;          /* owned; NULL: no sGPU */
    struct profile_count *partitions; /* the existing ones, by profile */
    size_t n_partitions;
    struct condition_record applied;
    bool draining;
    int64_t drain_deadline_ms; /* wall clock; 0: none */
    struct drain_pod *drain_pods;
    size_t n_drain_pods;
};

struct device_record {
    struct device_spec spec;
    char *spec_error;   /* why the spec cannot be read; NULL: it can */
    char *status_error; /* the same for the status: then cards, models and resources are empty */
    bool has_status;    /* an agent has reported */
    int64_t observed_generation;
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

struct profile_record {
    struct gpuprofile_spec spec;
    char *spec_error;                /* why the spec cannot be read; NULL: it can */
    struct gpuprofile_status status; /* empty when it cannot be read */
};

struct config_record {
    struct migconfig_spec spec;
    char *spec_error;
    struct migconfig_status status;
    int64_t created_ms; /* wall clock */
};

/* Types for informers: the payload is the record of the same name. */
extern const struct object_type records_node_type;
extern const struct object_type records_device_type;
extern const struct object_type records_profile_type;
extern const struct object_type records_config_type;

/* Field manager of what we apply to Nodes. */
#define MANAGER_NODE "cleave-controller-node"

/* Field manager of the annotation from which HAMi's scheduler learns cards. It is separate, so that
 * Nodes without such cards carry nothing of it. */
#define MANAGER_NODE_CARDS "cleave-controller-node-cards"

/* The value of a label, or NULL. Borrowed. */
const char *records_label(const struct jx_pair *labels, size_t n, const char *key);
/* The Node's label nvidia.com/mig.config; NULL when absent or empty. Borrowed. */
const char *records_mig_label(const struct node_record *node);
/* The card of this uuid, or NULL. Borrowed. */
const struct card_record *records_card(const struct device_record *device, const char *uuid);

/* The card in the resolver's shape, without its MIG table. Borrows everything. */
void records_card_view(const struct card_record *card, struct resolve_card *ret);

/* True when two records of a Node agree in labels and in who applied them; in resources
 * likewise. */
bool records_same_labels(const struct node_record *a, const struct node_record *b);
bool records_same_resources(const struct node_record *a, const struct node_record *b);

/* True when `name` is the MIGConfig's name or one of its aliases. */
bool records_config_named(const struct object *config, const char *name);
/* True when an entry of the profile names the configuration (by name or alias). */
bool records_profile_names(const struct profile_record *profile, const struct object *config);
