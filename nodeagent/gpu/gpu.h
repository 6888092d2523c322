/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

#include "partition/mig.h"
#include "partition/sgpu.h"

/*
 * One vendor's cards behind three-to-eight verbs. A struct gpu is used by one thread only (its
 * library's calls can take seconds, or hang); what others may read while it is busy is
 * struct gpu_activity. Cards are named by UUID everywhere: indices and minors change.
 */

#define GPU_UUID_BYTES    96
#define GPU_NAME_BYTES    96
#define GPU_BUS_ID_BYTES  32
#define GPU_FABRIC_BYTES  48
#define GPU_ROOT_BYTES    16
#define GPU_MAX_CARDS     64
#define GPU_MAX_PROCESSES 256
#define GPU_MAX_VFS       8
/* As Device.status lists them, GPU instances without any beside them. */
#define GPU_MAX_PARTITIONS 48

/* GPU_VGPU: it has virtual functions (SR-IOV), which an administrator made. No call of ours
 * switches that on or off. */
enum gpu_mode { GPU_NATIVE, GPU_MIG, GPU_SGPU, GPU_VGPU };

/* Who uses a card. */
struct gpu_process {
    unsigned pid;  /* the host's; 0: no process, but a pod that was given it */
    char name[64]; /* of a pod: "namespace/name", as much of it as fits */
    uint64_t memory_bytes;
    int gi_id, ci_id; /* GPU instance and compute instance, slice and -1, or number of a virtual
                          function and -1; -1: the whole card */
};

/* A MIG device: one compute instance of one GPU instance, as workloads see it. */
struct gpu_partition {
    char uuid[GPU_UUID_BYTES]; /* the driver's, new on every creation; "" when it gave none */
    unsigned gi_id, ci_id;
    unsigned instance, ci;    /* indices into card.state.items[].cis[] */
    int ci_start;             /* first compute slice inside the GPU instance; -1: not told */
    int mig_index;            /* the driver's index of the MIG device on its card; -1: not told */
    unsigned multiprocessors; /* of a compute instance that is a part; 0: as the profile says */
    bool healthy;             /* not so: it is ill itself, or its card is */
};

/* What a slice (card.sgpu.items[] of the same place) is beside its quotas. */
struct gpu_slice {
    char uuid[GPU_UUID_BYTES];
    char alias[36]; /* as the driver has it */
    unsigned minor; /* of its device node; UINT_MAX: unknown */
    bool healthy;
};

/* A virtual function of a card: to a container it is a card. */
struct gpu_vf {
    unsigned dev;    /* the library's number of the moment */
    unsigned number; /* how far behind the card's own function it lies, from 0: it stays the same */
    char uuid[GPU_UUID_BYTES]; /* the driver's, new whenever the functions are made */
    char pci_bus_id[GPU_BUS_ID_BYTES];
    uint64_t memory_mib; /* 0: not told */
    bool healthy;
    char unhealthy_message[96];
    bool in_use;
};

/* What the driver tells of a card's state of health; what it does not tell is not `known`. */
struct gpu_vitals {
    bool action_known, remap_known, ecc_known;
    unsigned action; /* the recovery action it asks for, as NVML numbers them; 0: none */
    bool remap_pending, remap_failed;
    bool retired_pending;               /* pages, before row remapping was there; false: unknown */
    unsigned long long ecc_uncorrected; /* since the last reset or load of the driver */
};

struct gpu_card {
    const char *vendor;         /* "nvidia"; static */
    char uuid[GPU_UUID_BYTES];  /* "" only when a lost card was never read before */
    char model[GPU_NAME_BYTES]; /* "NVIDIA H100 80GB HBM3" */
    char pci_bus_id[GPU_BUS_ID_BYTES];
    char pcie_root[GPU_ROOT_BYTES]; /* "pci0000:3a": the root complex that it is below; "": not told
                                     */
    char architecture[16];          /* "ampere", "hopper", "blackwell", … */
    unsigned index, minor;          /* minor UINT_MAX: unknown */
    uint32_t pci_device_id;         /* 0x233010DE: device, vendor */
    uint32_t pci_subsystem_id;
    uint32_t pci_class;               /* 0x030200: a 3D controller; 0: not told */
    int compute_major, compute_minor; /* CUDA compute capability; 0: not told */
    char fabric[GPU_FABRIC_BYTES]; /* "<cluster's UUID>.<clique>" while its NVLink fabric is up */
    int numa_node;                 /* -1: none */
    uint64_t memory_mib;
    bool healthy;
    char unhealthy_reason[64]; /* CamelCase: GPULost, ResetRequired, ReadFailed… */
    char unhealthy_message[256];
    struct gpu_vitals vitals;
    bool unread; /* it could not be read: what follows, but for the table, says nothing */
    bool mig_capable;
    enum gpu_mode mode, pending_mode;
    bool exclusive;         /* compute mode EXCLUSIVE_PROCESS */
    bool mode_needs_reset;  /* Ampere: a mode change takes effect at the next reset */
    struct mig_table mig;   /* mig.n_profiles == 0: none */
    struct mig_state state; /* instances that stand */
    unsigned n_partitions;
    struct gpu_partition partitions[GPU_MAX_PARTITIONS];
    bool sgpu_capable;      /* can be cut into slices with quotas */
    struct sgpu_state sgpu; /* slices that stand, and how they share the card */
    struct gpu_slice slices[SGPU_MAX_SLICES];
    unsigned n_vfs; /* that the driver shows; only with GPU_VGPU, and there none may be */
    struct gpu_vf vfs[GPU_MAX_VFS];
    bool no_events;     /* no watch of ours learns from its driver: readings tell of its health */
    bool users_unknown; /* the driver does not tell who computes on it: nothing is known to be free
                         */
    unsigned n_processes;
    struct gpu_process *processes; /* owned; n_processes of them */
    /* What the reading saw in use, also by processes that have no room in the list. */
    struct gpu_marks {
        bool in_use;
        uint8_t cis;            /* bit i: cis[i] */
    } marks[MIG_MAX_INSTANCES]; /* by place in state.items */
};

/* The nearest thing that two cards have in common on the way over PCIe, from near to far (NVML's
 * nvmlGpuTopologyLevel_t). */
enum gpu_level {
    GPU_LEVEL_UNKNOWN,
    GPU_LEVEL_BOARD,       /* one board */
    GPU_LEVEL_SWITCH,      /* one PCIe switch */
    GPU_LEVEL_SWITCHES,    /* several switches, no host bridge between */
    GPU_LEVEL_HOST_BRIDGE, /* one host bridge */
    GPU_LEVEL_NODE,        /* several host bridges of one NUMA node */
    GPU_LEVEL_SYSTEM,      /* nothing but the machine */
};

/* How two cards are joined. */
struct gpu_pair {
    uint8_t level; /* enum gpu_level */
    uint8_t
        links; /* active NVLinks, straight or through switches; what is not known is not there */
};

/* Every pair of a machine's cards, by their places in the inventory. Two bytes a pair. */
struct gpu_topology {
    size_t n_cards;
    struct gpu_pair *pairs; /* owned; NULL: nothing is known. Read with gpu_pair_between */
};

/* A vendor's driver. */
struct gpu_driver {
    const char *vendor; /* "nvidia"; static */
    char version[80];
    char cuda_version[16]; /* "12.8"; "": none */
};

#define GPU_MAX_VENDORS 4

/* Everything one reading of the hardware shows. Owned by the caller: gpu_inventory_done. */
struct gpu_inventory {
    size_t n_drivers;
    struct gpu_driver drivers[GPU_MAX_VENDORS]; /* that are there */
    char boot_id[40];
    size_t n_cards;
    struct gpu_card *cards; /* of one vendor after the other, ordered by index */
    struct gpu_topology topology;
};

/* What a mode switch answered. */
enum gpu_mode_result { GPU_MODE_DONE, GPU_MODE_NEEDS_RESET, GPU_MODE_NEEDS_REBOOT };

/* The vendor call in flight, for a watchdog on another thread. */
struct gpu_activity {
    _Atomic(const char *) call; /* NULL: none. Static string */
    _Atomic int64_t since_mono_ms;
};

struct gpu;
/* Verbs that no card of a back end knows are NULL there; what a card can, its reading says. */
struct gpu_ops {
    /* Reads all cards afresh. ERR_NOT_FOUND: no driver or library here; ERR_UNAVAILABLE; a single
     * card that cannot be read is in the result as unhealthy, not an error. */
    int (*read)(struct gpu *g, struct gpu_inventory *ret, struct err *e);
    /* One card afresh. ERR_NOT_FOUND when the uuid is not there. ret was zeroed; free with
     * gpu_card_done. */
    int (*read_card)(struct gpu *g, const char *uuid, struct gpu_card *ret, struct err *e);
    /* ERR_UNAVAILABLE: in use. ERR_INVALID: the card has no MIG. NEEDS_RESET: the mode is pending;
     * setting the current mode again takes that back. */
    int (*mode_set)(struct gpu *g, const char *uuid, enum gpu_mode mode, enum gpu_mode_result *ret,
                    struct err *e);
    /* Resets the card (NVML has no call for it: nvidia-smi is run). ERR_UNAVAILABLE: clients are
     * still there. ERR_INVALID: this machine cannot reset it (passthrough), a reboot is needed. */
    int (*reset)(struct gpu *g, const char *uuid, struct err *e);
    /* GPU instance of the driver's profile id at a placement, without compute instances. */
    int (*gi_create)(struct gpu *g, const char *uuid, unsigned profile_id, unsigned start,
                     unsigned size, unsigned *ret_gi_id, struct err *e);
    /* ERR_UNAVAILABLE: in use; ERR_NOT_FOUND: gone already. */
    int (*gi_destroy)(struct gpu *g, const char *uuid, unsigned gi_id, struct err *e);
    /* start: first compute slice, or -1 for wherever the driver puts it. A driver without the call
     * for it chooses by itself. */
    int (*ci_create)(struct gpu *g, const char *uuid, unsigned gi_id, unsigned slices, int start,
                     unsigned *ret_ci_id, struct err *e);
    int (*ci_destroy)(struct gpu *g, const char *uuid, unsigned gi_id, unsigned ci_id,
                      struct err *e);
    /* A slice with this alias and these quotas. ERR_INVALID: they do not fit, or off the steps. */
    int (*slice_create)(struct gpu *g, const char *uuid, const struct sgpu_want *want,
                        unsigned *ret_id, struct err *e);
    /* ERR_UNAVAILABLE: in use; ERR_NOT_FOUND: gone already. */
    int (*slice_destroy)(struct gpu *g, const char *uuid, unsigned id, struct err *e);
    /* How the card's slices share its compute (enum api_qos_policy). ERR_UNAVAILABLE: in use. */
    int (*qos_set)(struct gpu *g, const char *uuid, int qos, struct err *e);
    int (*timeslice_set)(struct gpu *g, const char *uuid, unsigned ms, struct err *e);
    /* Compute mode EXCLUSIVE_PROCESS, or DEFAULT. ERR_INVALID: the card has no such modes. */
    int (*exclusive_set)(struct gpu *g, const char *uuid, bool on, struct err *e);
    struct gpu *(*free)(struct gpu *g);
};
struct gpu {
    const struct gpu_ops *ops;     /* embedded first in each implementation */
    struct gpu_activity *activity; /* borrowed, may be NULL */
};

/* Around each call into a vendor's library: what g's watchdog sees. call is static. */
void gpu_call_begin(struct gpu *g, const char *call);
void gpu_call_end(struct gpu *g);

/* The driver of a vendor, NULL where there is none. Borrowed. */
const struct gpu_driver *gpu_inventory_driver(const struct gpu_inventory *inv, const char *vendor);

/* How the cards at two places are joined, in either order; nothing is known of a card and itself,
 * nor of places beyond the topology's. */
struct gpu_pair gpu_pair_between(const struct gpu_topology *t, size_t a, size_t b);
/* A topology of so many cards of which nothing is known. Free with gpu_topology_done. */
void gpu_topology_init(struct gpu_topology *t, size_t n_cards);
/* The pair of two different places below n_cards, for whoever fills the topology. Borrowed. */
struct gpu_pair *gpu_topology_at(struct gpu_topology *t, size_t a, size_t b);
/* A copy of its own. Free with gpu_topology_done. */
struct gpu_topology gpu_topology_copy(const struct gpu_topology *t);
void gpu_topology_done(struct gpu_topology *t);
AUTO_DEFINE(gpu_topology, struct gpu_topology, gpu_topology_done)
#define auto_gpu_topology AUTO(gpu_topology)

/* The in_use marks of card->state are those of the driver: gpu_card_set_holders only adds to them.
 * For whoever has just read them. */
void gpu_card_keep_marks(struct gpu_card *c);
/* What the driver cannot see: the pods that were given the card or parts of it (pid 0) take the
 * place of those that were named before, and what is in use is marked anew: what the driver saw in
 * use, what a listed process uses, what a pod holds. Copies. */
void gpu_card_set_holders(struct gpu_card *c, const struct gpu_process *holders, unsigned n);
/* The boot id of the machine whose /proc this is; "" when it is not told. */
void gpu_inventory_read_boot(struct gpu_inventory *inv, const char *proc_root);
void gpu_card_done(struct gpu_card *c);
void gpu_inventory_done(struct gpu_inventory *inv);
AUTO_DEFINE(gpu_card, struct gpu_card, gpu_card_done)
#define auto_gpu_card AUTO(gpu_card)
AUTO_DEFINE(gpu_inventory, struct gpu_inventory, gpu_inventory_done)
#define auto_gpu_inventory AUTO(gpu_inventory)

struct gpu *gpu_free(struct gpu *g); /* NULL allowed; returns NULL */
AUTO_DEFINE_PTR(gpu, struct gpu, gpu_free)
#define auto_gpu AUTO_PTR(gpu)

struct gpu_watch;
struct nvml_options {
    const char *library;     /* path for dlopen; NULL: libnvidia-ml.so.1 by the loader's rules */
    const char *nvidia_smi;  /* for the reset; NULL: nvidia-smi on PATH */
    const char *proc_root;   /* NULL: /proc. Source of boot_id and process names */
    const char *sys_root;    /* NULL: /sys. Source of NUMA nodes */
    struct gpu_watch *watch; /* suspended while a card is reset; outlives the gpu. NULL: none */
};
/* NVIDIA's cards. Neither the library nor the driver need be there yet: every call says so
 * (ERR_NOT_FOUND) and the next looks again. Options are copied. Returns 0. */
int gpu_nvml_open(const struct nvml_options *o, struct gpu **ret, struct err *e) MUST_CHECK;

struct mxsml_options {
    const char *library;   /* path for dlopen; NULL: libmxsml.so by the loader's rules or MetaX's */
    const char *proc_root; /* NULL: /proc. Source of boot_id */
    const char *sys_root;  /* NULL: /sys. Source of PCI ids and NUMA nodes */
};
/* MetaX's cards; as gpu_nvml_open. */
int gpu_mxsml_open(const struct mxsml_options *o, struct gpu **ret, struct err *e) MUST_CHECK;

/* The cards of several vendors behind one struct gpu; it takes them over. A vendor that is not on
 * this machine (ERR_NOT_FOUND) has no cards; one that was and cannot be read has those that it had,
 * ill and unread. Cards beyond GPU_MAX_CARDS are a failure (ERR_TOO_LARGE) of the vendor that comes
 * with them. Errors of read are those of the vendors when none can be read; of one among others
 * that can, the log tells. */
struct gpu *gpu_all_new(struct gpu *const *gpus, size_t n);
