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
 * The cards behind one vendor's library: struct gpu, the verbs of a back end. Cards are named by
 * UUID everywhere, since indices and minors change.
 *
 * Threads: several may use a struct gpu at the same time, as long as a card is in one thread's
 * hands at a time; the caller sees to that. `read` may run at any time beside the verbs of single
 * cards. It never waits for a card that another thread has in hand, nor for resets: such cards are
 * `busy` in its result. A verb waits for resets of other cards of its library, and for the opening
 * of a session, but not for a call of another card. Each wait is bounded: ERR_UNAVAILABLE, with the
 * name of the call that does not return. gpu_free: no other thread uses it.
 */

#define GPU_UUID_BYTES    96
#define GPU_NAME_BYTES    96
#define GPU_BUS_ID_BYTES  32
#define GPU_FABRIC_BYTES  48
#define GPU_ROOT_BYTES    16
#define GPU_MAX_CARDS     64
#define GPU_MAX_PROCESSES 256
#define GPU_MAX_VFS       8
/* The bound of the list in Device.status, where a GPU instance without compute instances also has
 * an entry. */
#define GPU_MAX_PARTITIONS 48

/* The same numbers as enum api_mode. GPU_VGPU: the card has virtual functions (SR-IOV). An
 * administrator makes them; no call of Cleave switches that mode on or off. */
#define MODE(name, word) GPU_##name,
enum gpu_mode {
#include "api/modes.def"
};
#undef MODE

/* A user of a card: a process on it, or a pod that holds it. */
struct gpu_user {
    bool is_pod;   /* a pod, by the kubelet's list; it may have no process yet */
    unsigned pid;  /* of a process: the host's */
    char name[64]; /* of a pod: "namespace/name", cut to what fits */
    uint64_t memory_bytes;
    int part; /* the number of the part that it uses (card_part.number); -1: the whole card */
    int ci;   /* the compute instance of a part that has several; -1: all of the part */
};

/* A partition (MIG device): one compute instance of one GPU instance, as workloads see it. */
struct gpu_partition {
    char uuid[GPU_UUID_BYTES]; /* the driver's, new on every creation; "" when it reports none */
    unsigned gi_id, ci_id;
    unsigned instance, ci; /* indices into card.state.items[].cis[] */
    int ci_start;          /* first compute slice inside the GPU instance; -1: not reported */
    int mig_index;         /* the driver's index of the MIG device on its card; -1: not reported */
    unsigned multiprocessors; /* of a compute instance smaller than its GPU instance; 0: as the
                                 profile says */
    bool healthy;             /* false: it is ill itself, or its card is */
};

/* The properties of a slice besides its quotas, which are in card.sgpu.items[] at the same
 * index. */
struct gpu_slice {
    char uuid[GPU_UUID_BYTES];
    char alias[36]; /* the driver's */
    unsigned minor; /* its device node's; UINT_MAX: unknown */
    bool healthy;
};

/* A virtual function of a card. In a container it appears as a card. */
struct gpu_vf {
    unsigned dev;              /* the library's current number */
    unsigned number;           /* distance from the card's own function, from 0; it never changes */
    char uuid[GPU_UUID_BYTES]; /* the driver's, new whenever the functions are made */
    char pci_bus_id[GPU_BUS_ID_BYTES];
    uint64_t memory_mib; /* 0: not reported */
    bool healthy;
    char unhealthy_message[96];
    bool in_use;
};

/* The driver's report on a card's health. A value without its `known` flag was not reported. */
struct gpu_vitals {
    bool action_known, remap_known, ecc_known;
    unsigned action; /* the recovery action that the driver asks for, by its number; 0: none */
    bool remap_pending, remap_failed;
    bool retired_pending; /* pages, on cards without row remapping; false: or unknown */
    unsigned long long ecc_uncorrected; /* since the last reset or load of the driver */
};

struct gpu_card {
    const char *vendor;         /* "nvidia"; static */
    char uuid[GPU_UUID_BYTES];  /* "" only for a lost card that was never read */
    char model[GPU_NAME_BYTES]; /* "NVIDIA H100 80GB HBM3" */
    char pci_bus_id[GPU_BUS_ID_BYTES];
    char pcie_root[GPU_ROOT_BYTES]; /* "pci0000:3a": its PCIe root complex; "": not reported */
    char architecture[16];          /* "ampere", "hopper", "blackwell", … */
    unsigned index, minor;          /* minor UINT_MAX: unknown */
    uint32_t pci_device_id;         /* 0x233010DE: device, vendor */
    uint32_t pci_subsystem_id;
    uint32_t pci_class;               /* 0x030200: a 3D controller; 0: not reported */
    int compute_major, compute_minor; /* CUDA compute capability; 0: not reported */
    char fabric[GPU_FABRIC_BYTES]; /* "<cluster's UUID>.<clique>" while its NVLink fabric is up */
    int numa_node;                 /* -1: none */
    uint64_t memory_mib;
    bool healthy;
    char unhealthy_reason[64]; /* CamelCase: GPULost, ResetRequired, ReadFailed… */
    char unhealthy_message[256];
    struct gpu_vitals vitals;
    struct mig_table mig; /* mig.n_profiles == 0: none */
    bool unread; /* it could not be read: the members below are invalid (struct gpu_known) */
    bool busy; /* unread, and not ill: another thread works on it now, or resets a card of the same
                    library. The members above are as last known */
    bool mig_capable;
    enum gpu_mode mode, pending_mode;
    bool exclusive;         /* compute mode EXCLUSIVE_PROCESS */
    bool mode_needs_reset;  /* Ampere: a mode change takes effect at the next reset */
    struct mig_state state; /* the existing instances */
    unsigned n_partitions;
    struct gpu_partition partitions[GPU_MAX_PARTITIONS];
    bool sgpu_capable;      /* can be cut into slices with quotas */
    struct sgpu_state sgpu; /* the existing slices, and how they share the card */
    struct gpu_slice slices[SGPU_MAX_SLICES];
    unsigned n_vfs; /* that the driver shows; only with GPU_VGPU, where it may be 0 */
    struct gpu_vf vfs[GPU_MAX_VFS];
    bool persistence_known, persistence; /* its driver stays loaded while nothing uses it */
    bool no_events;     /* its driver reports no events: only readings tell its health */
    bool users_unknown; /* the driver does not report the card's users, so nothing counts as free */
    unsigned n_users;
    struct gpu_user *users; /* owned; n_users of them */
    /* Everything that the reading found in use, also by processes for which the list has no
     * room. */
    struct gpu_marks {
        bool in_use;
        uint8_t cis;            /* bit i: cis[i] */
    } marks[MIG_MAX_INSTANCES]; /* by index in state.items */
};

/* What stays known of a card that cannot be read: the members of struct gpu_card before `unread`. A
 * third of its size, for those that remember cards. */
struct gpu_known {
    _Alignas(struct gpu_card) unsigned char bytes[offsetof(struct gpu_card, unread)];
};

/* The closest thing that two cards have in common on the path over PCIe, from near to far (NVML's
 * nvmlGpuTopologyLevel_t). */
enum gpu_level {
    GPU_LEVEL_UNKNOWN,
    GPU_LEVEL_BOARD,       /* one board */
    GPU_LEVEL_SWITCH,      /* one PCIe switch */
    GPU_LEVEL_SWITCHES,    /* several switches, no host bridge between */
    GPU_LEVEL_HOST_BRIDGE, /* one host bridge */
    GPU_LEVEL_NODE,        /* several host bridges of one NUMA node */
    GPU_LEVEL_SYSTEM,      /* only the machine */
};

/* How two cards are connected. */
struct gpu_pair {
    uint8_t level; /* enum gpu_level */
    uint8_t links; /* active NVLinks, direct or through switches; unknown ones are not counted */
};

/* Every pair of a machine's cards, by their positions in the inventory. Two bytes a pair. */
struct gpu_topology {
    size_t n_cards;
    struct gpu_pair *pairs; /* owned; NULL: nothing is known. Use gpu_pair_between */
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
    struct gpu_driver drivers[GPU_MAX_VENDORS]; /* the ones that are loaded */
    char boot_id[40];
    size_t n_cards;
    struct gpu_card *cards; /* by vendor, then by index */
    struct gpu_topology topology;
};

/* The result of a mode switch. */
enum gpu_mode_result { GPU_MODE_DONE, GPU_MODE_NEEDS_RESET, GPU_MODE_NEEDS_REBOOT };

/* A thread's vendor call in flight, for a watchdog on another thread. */
struct gpu_activity {
    _Atomic(const char *) call;    /* NULL: none. Static string */
    _Atomic int64_t since_mono_ms; /* when it began; without one: when the last one ended */
};

/* A limit of a cgroup's memory on a card that is none. */
#define GPU_NO_LIMIT UINT64_MAX
/* Reasons of limit_set and limit_get. */
#define GPU_LIMITS_UNSUPPORTED "LimitsUnsupported"
#define GPU_CGROUP_NOT_FOUND   "CgroupNotFound"

/* What the driver says of a cgroup's memory on a card. */
struct gpu_limit {
    uint64_t soft_bytes; /* nobody else is given it: 0, none */
    uint64_t hard_bytes; /* it never has more; GPU_NO_LIMIT */
};

struct gpu;
struct telemetry_card;
/* The verbs of a back end. One is NULL where no card of the back end supports it; the reading of a
 * card says what the card supports. */
struct gpu_ops {
    /* Reads all cards. A card that cannot be read is in the result as unhealthy and is no error.
     * ERR_NOT_FOUND: no driver or library here; ERR_UNAVAILABLE. */
    int (*read)(struct gpu *g, struct gpu_inventory *ret, struct err *e);
    /* Reads one card. ret is zeroed before; free it with gpu_card_done. ERR_NOT_FOUND: no card has
     * this uuid. */
    int (*read_card)(struct gpu *g, const char *uuid, struct gpu_card *ret, struct err *e);
    /* Switches the mode. NEEDS_RESET: the mode is pending; setting the current mode again withdraws
     * that. ERR_UNAVAILABLE: in use. ERR_INVALID: the card has no such mode; a back end refuses
     * each mode that it does not know. */
    int (*mode_set)(struct gpu *g, const char *uuid, enum gpu_mode mode, enum gpu_mode_result *ret,
                    struct err *e);
    /* Resets the card. NVML has no call for it, so nvidia-smi is run. ERR_UNAVAILABLE: clients
     * still use the card. ERR_INVALID: this machine cannot reset it (passthrough); a reboot is
     * needed. */
    int (*reset)(struct gpu *g, const char *uuid, struct err *e);
    /* Creates a GPU instance of the driver's profile id at a placement, without compute
     * instances. */
    int (*gi_create)(struct gpu *g, const char *uuid, unsigned profile_id, unsigned start,
                     unsigned size, unsigned *ret_gi_id, struct err *e);
    /* ERR_UNAVAILABLE: in use; ERR_NOT_FOUND: gone already. */
    int (*gi_destroy)(struct gpu *g, const char *uuid, unsigned gi_id, struct err *e);
    /* start: first compute slice; -1: the driver chooses. A driver without the call for it always
     * chooses. */
    int (*ci_create)(struct gpu *g, const char *uuid, unsigned gi_id, unsigned slices, int start,
                     unsigned *ret_ci_id, struct err *e);
    int (*ci_destroy)(struct gpu *g, const char *uuid, unsigned gi_id, unsigned ci_id,
                      struct err *e);
    /* Creates a slice with this alias and these quotas. ERR_INVALID: they do not fit, or are not
     * whole steps. */
    int (*slice_create)(struct gpu *g, const char *uuid, const struct sgpu_want *want,
                        unsigned *ret_id, struct err *e);
    /* ERR_UNAVAILABLE: in use; ERR_NOT_FOUND: gone already. */
    int (*slice_destroy)(struct gpu *g, const char *uuid, unsigned id, struct err *e);
    /* Sets how the card's slices share its compute (enum api_qos_policy). ERR_UNAVAILABLE: in
     * use. */
    int (*qos_set)(struct gpu *g, const char *uuid, int qos, struct err *e);
    int (*timeslice_set)(struct gpu *g, const char *uuid, unsigned ms, struct err *e);
    /* Sets compute mode EXCLUSIVE_PROCESS, or DEFAULT. ERR_INVALID: the card has no such modes. */
    int (*exclusive_set)(struct gpu *g, const char *uuid, bool on, struct err *e);
    /* Sets how much of the card's memory the processes of a cgroup, and of those below it, may have
     * together. cgroup: its folder. GPU_NO_LIMIT removes the limit. ERR_INVALID, reason
     * GPU_LIMITS_UNSUPPORTED: this driver, or this card, has no limits. ERR_NOT_FOUND, reason
     * GPU_CGROUP_NOT_FOUND: there is no such cgroup, or it lacks the kernel's controller. */
    int (*limit_set)(struct gpu *g, const char *uuid, const char *cgroup, uint64_t hard_bytes,
                     struct err *e);
    /* Asks for the limit that counts for a cgroup, which may be one that was set further up. Errors
     * as limit_set; the first also where no limit was ever set. */
    int (*limit_get)(struct gpu *g, const char *uuid, const char *cgroup, struct gpu_limit *ret,
                     struct err *e);
    /* Reads what a card measures of itself (nodeagent/gpu/telemetry.h), at any time beside other
     * verbs: it takes no card in hand and waits for nothing. A value that is not in the set
     * `wanted` may be left out: NAN. Means are those since the measure before. ERR_NOT_FOUND: no
     * reading showed this card. ERR_UNAVAILABLE: also while the driver's session is not open or
     * cards are reset, for a card that was not read in this session, and while another thread
     * measures the card, whose call may not return. */
    int (*measure)(struct gpu *g, const char *uuid, uint64_t wanted, struct telemetry_card *ret,
                   struct err *e);
    struct gpu *(*free)(struct gpu *g);
};
struct gpu {
    const struct gpu_ops *ops; /* embedded first in each implementation */
};

/* Sets where the calling thread's vendor calls are noted from now on. Borrowed: it outlives the
 * thread, or is set back before. NULL: a record of the thread's own, which no watchdog reads. */
void gpu_activity_of_thread(struct gpu_activity *a);
/* The calling thread's; never NULL. Borrowed until the thread sets another, or ends. */
struct gpu_activity *gpu_activity_mine(void);

/* Called around each call into a vendor's library, on the thread that makes it. They note the call
 * in that thread's activity. call is static. */
void gpu_call_begin(const char *call);
void gpu_call_end(void);

/* The driver of a vendor, NULL where there is none. Borrowed. */
const struct gpu_driver *gpu_inventory_driver(const struct gpu_inventory *inv, const char *vendor);

/* How the cards at two indices are connected, in either order. Unknown for a card and itself, and
 * for indices beyond the topology's. */
struct gpu_pair gpu_pair_between(const struct gpu_topology *t, size_t a, size_t b);
/* A topology of so many cards, with all pairs unknown. Free with gpu_topology_done. */
void gpu_topology_init(struct gpu_topology *t, size_t n_cards);
/* The pair of two different indices below n_cards, to be filled in. Borrowed. */
struct gpu_pair *gpu_topology_at(struct gpu_topology *t, size_t a, size_t b);
/* A deep copy. Free with gpu_topology_done. */
struct gpu_topology gpu_topology_copy(const struct gpu_topology *t);
void gpu_topology_done(struct gpu_topology *t);
AUTO_DEFINE(gpu_topology, struct gpu_topology, gpu_topology_done)
#define auto_gpu_topology AUTO(gpu_topology)

struct gpu_known gpu_card_known(const struct gpu_card *c);
/* The card with only these members. */
struct gpu_card gpu_known_card(const struct gpu_known *k);

/* Remembers the in_use marks of card->state as the driver's, so that gpu_card_set_holders only adds
 * to them. To be called right after reading them. */
void gpu_card_keep_marks(struct gpu_card *c);
/* Replaces the pods among the card's users, which the driver cannot see, and computes the in_use
 * marks anew. Each holder becomes one that is_pod. Marked is what the driver found in use, what a
 * listed process uses, and what a pod holds. Copies. */
void gpu_card_set_holders(struct gpu_card *c, const struct gpu_user *holders, unsigned n);
/* The boot id of the machine that this /proc belongs to; "" when it cannot be read. */
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

/* Puts the cards of several vendors behind one struct gpu, which takes them over.
 *  - A vendor that is not on this machine (ERR_NOT_FOUND) has no cards.
 *  - A vendor that was there and cannot be read keeps its cards, as ill and unread; the log says
 *    why.
 *  - A vendor in whose library two earlier readings hang keeps its cards, as busy: nobody waits
 *    behind it. A hanging reading is not counted once a later one has ended: then one card hangs,
 *    and not the library.
 *  - When no vendor can be read, read returns their errors.
 *  - A vendor whose cards exceed GPU_MAX_CARDS fails (ERR_TOO_LARGE). */
struct gpu *gpu_all_new(struct gpu *const *gpus, size_t n);
