/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"
#include "api/gpuprofile.h"
#include "api/migconfig.h"
#include "kubeclient/object.h"
#include "partition/resolve.h"

/*
 * What the controller keeps of each object: small typed records, made when an object arrives, after
 * which its JSON is dropped. Immutable; texts that many nodes have in common are shared
 * (reconcilers/intern.h). A part that cannot be read (written by hand, past the
 * schema) leaves a note of why in place of its contents; it never hides the object.
 */

/* A resource that a node reports. -1: the map has no such name. */
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
    /* Keys of GPU and PCI labels that a feature discovery wrote here, sorted: theirs. */
    struct string_list discovered_labels;
    struct node_resource *resources; /* of vendors' domains, sorted by name */
    size_t n_resources;
    struct string_list owned_resources; /* names that our field manager applied, sorted */
    bool tainted;                       /* it carries our taint (node_taint.h) */
    char *lock;      /* the annotation of partition/node_lock.h, cut at a byte beyond what may be
                        there; NULL: none */
    char *cards;     /* the same of partition/metax_cards.h */
    bool owns_cards; /* our field manager applied it */
};

/* What one model can be cut into; the table is shared among all Devices that show it. */
struct model_record {
    char *name;
    const struct mig_table *table; /* NULL: no MIG */
};

/* A pod that a card waits for, as its process showed it (uid) or as the kubelet named it (ns and
 * name). What is not told is NULL. */
struct drain_pod {
    char *uid, *ns, *name;
    int64_t since_ms; /* wall clock: what it holds has not been granted since; 0: not told */
};

/* One condition, as far as it matters here. */
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
    bool pending;              /* another mode, with its next reset */
    int64_t memory_mib, minor; /* minor -1: not told */
    int numa_node;
    char *pcie_root;                  /* NULL: not told */
    uint64_t linked;                  /* bits: indexes of the cards that links join it to */
    char *ill_reason, *ill_message;   /* NULL while it is healthy, and when it is not told */
    int64_t ill_since_ms;             /* wall clock; 0: the same */
    struct sgpu_state *sgpu;          /* owned; NULL: no sGPU */
    struct profile_count *partitions; /* that stand, by profile */
    size_t n_partitions;
    struct condition_record applied;
    bool draining;
    int64_t drain_deadline_ms; /* wall clock; 0: none */
    struct drain_pod *drain_pods;
    size_t n_drain_pods;
};

struct device_record {
    struct device_spec spec;
    char *spec_error;   /* the spec cannot be read: NULL: it can */
    char *status_error; /* the same of the status: cards, models and resources are empty then */
    bool has_status;    /* an agent has reported */
    int64_t observed_generation;
    char *vendor, *driver_version; /* NULL: no driver */
    struct jx_pair *drivers;       /* of all vendors: vendor → version */
    size_t n_drivers;
    struct model_record *models;
    size_t n_models;
    struct card_record *cards; /* by index */
    size_t n_cards;
    /* Under names of vendors' that Cleave offers, each one that the API server takes. */
    struct device_resource *resources;
    size_t n_resources;
    size_t n_refused_resources; /* others that the agent reported */
    char *refused_resource;     /* the first of them; NULL: none */
    struct condition_record ready, stalled;
    /* What its agent says about the GPUs, for the Node: those keys alone that an agent may set. */
    struct jx_pair *features; /* sorted */
    size_t n_features;
    size_t n_refused;       /* others that it said */
    char *refused;          /* the first of them; NULL: none */
    char *owner_uid;        /* of the Node that owns it; NULL: none */
    struct jx_pair *labels; /* all, sorted */
    size_t n_labels;
};

struct profile_record {
    struct gpuprofile_spec spec;
    char *spec_error;                /* NULL: it can be read */
    struct gpuprofile_status status; /* empty when it cannot be read */
};

struct config_record {
    struct migconfig_spec spec;
    char *spec_error;
    struct migconfig_status status;
    int64_t created_ms; /* wall clock */
};

/* For informers: each object's payload is the record of the same name. */
extern const struct object_type records_node_type;
extern const struct object_type records_device_type;
extern const struct object_type records_profile_type;
extern const struct object_type records_config_type;

/* Field manager of what we apply to Nodes. */
#define MANAGER_NODE "cleave-controller-node"

/* Field manager of the annotation by which HAMi's scheduler knows cards: one of its own, so that
 * Nodes without such cards have nothing of it. */
#define MANAGER_NODE_CARDS "cleave-controller-node-cards"

/* The value of a label, or NULL. Borrowed. */
const char *records_label(const struct jx_pair *labels, size_t n, const char *key);
/* The Node's label nvidia.com/mig.config; NULL when absent or empty. Borrowed. */
const char *records_mig_label(const struct node_record *node);
/* The card of this uuid, or NULL. Borrowed. */
const struct card_record *records_card(const struct device_record *device, const char *uuid);

/* The card as the resolver sees it, without its MIG table. Borrows everything. */
void records_card_view(const struct card_record *card, struct resolve_card *ret);

/* Do two records of a Node agree in labels (and in who applied them), in resources? */
bool records_same_labels(const struct node_record *a, const struct node_record *b);
bool records_same_resources(const struct node_record *a, const struct node_record *b);

/* Does this MIGConfig go by that name, or by that alias? */
bool records_config_named(const struct object *config, const char *name);
/* Does an entry of the profile name the configuration (by name or alias)? */
bool records_profile_names(const struct profile_record *profile, const struct object *config);
