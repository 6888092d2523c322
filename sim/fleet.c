/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/fleet.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <yaml.h>

#include "sim/metax.h"
#include "sim/nvml.h"

/* One file being read: the document and the file name for error messages. One thread. */
struct reader {
    const char *path;
    yaml_document_t doc;
    struct state_file *file;
    struct hw *hw;
    uint32_t links;    /* groups of linked cards so far */
    bool ecc, ecc_set; /* for the groups that do not have the key */
    bool failed;
};

__attribute__((format(printf, 3, 4))) static void complain(struct reader *r, const yaml_node_t *at,
                                                           const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fprintf(stderr, "cleave-sim: %s:%zu: ", r->path,
                  at != NULL ? at->start_mark.line + 1 : 0);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    r->failed = true;
}

static const char *text_of(struct reader *r, const yaml_node_t *node)
{
    if (node->type == YAML_SCALAR_NODE)
        return (const char *)node->data.scalar.value;
    complain(r, node, "a plain value is expected");
    return "";
}

static uint32_t number_of(struct reader *r, const yaml_node_t *node, uint32_t max)
{
    const char *text = text_of(r, node);
    char *end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 0);
    if (end == text || *end != '\0' || errno != 0 || value > max)
        complain(r, node, "a number up to %u is expected, not \"%s\"", max, text);
    return (uint32_t)value;
}

static bool flag_of(struct reader *r, const yaml_node_t *node)
{
    const char *text = text_of(r, node);
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        complain(r, node, "true or false is expected, not \"%s\"", text);
    return strcmp(text, "true") == 0;
}

static void copy_value(struct reader *r, const yaml_node_t *node, char *out, size_t size)
{
    const char *text = text_of(r, node);
    if (strlen(text) >= size)
        complain(r, node, "longer than %zu characters", size - 1);
    else
        memcpy(out, text, strlen(text) + 1);
}

/* A table of keys walks each mapping, so that an unknown key is always an error. */
typedef void key_fn(struct reader *r, const yaml_node_t *value, void *into);
struct key {
    const char *name;
    key_fn *read;
};

static key_fn *key_find(const struct key *keys, const char *name)
{
    for (; keys->name != NULL; keys++) {
        if (strcmp(keys->name, name) == 0)
            return keys->read;
    }
    return NULL;
}

static void read_mapping(struct reader *r, const yaml_node_t *node, const struct key *keys,
                         void *into)
{
    if (node->type != YAML_MAPPING_NODE) {
        complain(r, node, "a mapping is expected");
        return;
    }
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key = yaml_document_get_node(&r->doc, p->key);
        const char *name = text_of(r, key);
        key_fn *read = key_find(keys, name);
        if (read == NULL)
            complain(r, key, "unknown key \"%s\"", name);
        else
            read(r, yaml_document_get_node(&r->doc, p->value), into);
    }
}

/* One entry of `gpus`: of a model of either vendor. */
struct group {
    const struct model *model;
    const struct mx_model *metax;
    uint32_t count, vfs, linked;
    bool mig, sgpu, vfs_set, linked_set;
};

static void read_group_model(struct reader *r, const yaml_node_t *value, void *into)
{
    struct group *g = into;
    const char *key = text_of(r, value);
    g->model = model_find(key);
    g->metax = mx_model_find(key);
    if (g->model == NULL && g->metax == NULL)
        complain(r, value, "unknown model \"%s\"", key);
}

static void read_group_count(struct reader *r, const yaml_node_t *value, void *into)
{
    ((struct group *)into)->count = number_of(r, value, HW_MAX_GPUS);
}

static void read_group_mig(struct reader *r, const yaml_node_t *value, void *into)
{
    ((struct group *)into)->mig = flag_of(r, value);
}

static void read_group_sgpu(struct reader *r, const yaml_node_t *value, void *into)
{
    ((struct group *)into)->sgpu = flag_of(r, value);
}

static void read_group_vfs(struct reader *r, const yaml_node_t *value, void *into)
{
    struct group *g = into;
    g->vfs = number_of(r, value, MX_MAX_VFS);
    g->vfs_set = true;
}

static void read_group_linked(struct reader *r, const yaml_node_t *value, void *into)
{
    struct group *g = into;
    g->linked = number_of(r, value, MX_MAX_LINKED);
    g->linked_set = true;
}

static void add_gpu(struct hw *hw, const struct group *g)
{
    struct hw_gpu *gpu = &hw->gpus[hw->gpu_count];
    *gpu = (struct hw_gpu){.minor = hw->gpu_count, .bus = 0x07 + 0x08 * hw->gpu_count};
    gpu->temperature_c = 34;
    (void)snprintf(gpu->model, sizeof(gpu->model), "%s", g->model->key);
    gpu->ecc_current = gpu->ecc_pending = g->model->ecc_default;
    gpu->mig_current = gpu->mig_pending = g->mig && g->model->mig != MIG_NONE;
    hw->gpu_count++;
}

/* Cards of an entry are joined in order, `linked` at a time; the default is the most that is
 * possible. */
static void add_metax(struct reader *r, const yaml_node_t *node, const struct group *g)
{
    struct hw *hw = r->hw;
    uint32_t linked = g->linked_set ? g->linked : MX_MAX_LINKED;
    for (uint32_t i = 0; i < g->count; i++) {
        struct mx_card *card = mx_add(hw, g->metax);
        bool alone = linked < 2 || (i % linked == 0 && i + 1 == g->count);
        card->place = alone ? 0 : i % linked;
        r->links += !alone && card->place == 0;
        card->group = alone ? 0 : r->links;
        card->toggle = g->sgpu;
        if (g->vfs > 0 && mx_set_vfs(hw, hw->mx_count - 1, g->vfs) != 0)
            complain(r, node, "vfs is 0, 1, 2, 4 or 8, and no card has both sgpu and vfs");
    }
}

/* Keys of the other vendor's cards would have no effect, so they are errors. */
static void check_keys(struct reader *r, const yaml_node_t *node, const struct group *g)
{
    if (g->metax != NULL && g->mig)
        complain(r, node, "%s has no mig", g->metax->name);
    if (g->model != NULL && (g->sgpu || g->vfs_set || g->linked_set))
        complain(r, node, "%s has no sgpu, vfs or linked", g->model->name);
}

static void read_group(struct reader *r, const yaml_node_t *node)
{
    static const struct key keys[] = {{"model", read_group_model},
                                      {"count", read_group_count},
                                      {"mig", read_group_mig},
                                      {"sgpu", read_group_sgpu},
                                      {"vfs", read_group_vfs},
                                      {"linked", read_group_linked},
                                      {NULL, NULL}};
    struct group g = {.count = 1};
    read_mapping(r, node, keys, &g);
    check_keys(r, node, &g);
    uint32_t there = g.metax != NULL ? r->hw->mx_count : r->hw->gpu_count;
    if (g.model == NULL && g.metax == NULL)
        complain(r, node, "an entry of gpus needs a model");
    else if (there + g.count > HW_MAX_GPUS)
        complain(r, node, "more than %d gpus of one vendor", HW_MAX_GPUS);
    else if (g.metax != NULL)
        add_metax(r, node, &g);
    else
        for (uint32_t i = 0; i < g.count; i++)
            add_gpu(r->hw, &g);
}

static void read_gpus(struct reader *r, const yaml_node_t *value, void *into)
{
    (void)into;
    if (value->type != YAML_SEQUENCE_NODE) {
        complain(r, value, "gpus is a list");
        return;
    }
    for (yaml_node_item_t *i = value->data.sequence.items.start; i < value->data.sequence.items.top;
         i++)
        read_group(r, yaml_document_get_node(&r->doc, *i));
}

static void read_driver(struct reader *r, const yaml_node_t *value, void *into)
{
    struct hw *hw = into;
    copy_value(r, value, hw->driver_version, sizeof(hw->driver_version));
}

static void read_mx_driver(struct reader *r, const yaml_node_t *value, void *into)
{
    struct hw *hw = into;
    copy_value(r, value, hw->mx_driver_version, sizeof(hw->mx_driver_version));
}

static void read_maca(struct reader *r, const yaml_node_t *value, void *into)
{
    struct hw *hw = into;
    copy_value(r, value, hw->maca_version, sizeof(hw->maca_version));
}

/* "12.8" is 12080, as in NVML. */
static void read_cuda(struct reader *r, const yaml_node_t *value, void *into)
{
    char *dot = NULL;
    char *end = NULL;
    const char *text = text_of(r, value);
    unsigned long major = strtoul(text, &dot, 10);
    unsigned long minor = *dot == '.' ? strtoul(dot + 1, &end, 10) : 0;
    if (dot == text || end == NULL || end == dot + 1 || *end != '\0' || major > 99 || minor > 99)
        complain(r, value, "cudaVersion looks like \"12.8\"");
    ((struct hw *)into)->cuda_version = (int32_t)(major * 1000 + minor * 10);
}

static void read_numa(struct reader *r, const yaml_node_t *value, void *into)
{
    ((struct hw *)into)->numa_nodes = number_of(r, value, 64);
}

static void read_cpus(struct reader *r, const yaml_node_t *value, void *into)
{
    ((struct hw *)into)->cpus = number_of(r, value, 4096);
}

static void read_links(struct reader *r, const yaml_node_t *value, void *into)
{
    static const char *const names[] = {"none", "nvswitch", "mesh"};
    for (uint32_t i = 0; i < 3; i++) {
        if (strcmp(names[i], text_of(r, value)) == 0) {
            ((struct hw *)into)->links = i;
            return;
        }
    }
    complain(r, value, "links is none, nvswitch or mesh");
}

static void read_limits(struct reader *r, const yaml_node_t *value, void *into)
{
    static const char *const names[] = {"none", "off", "misc", "dmem"};
    for (uint32_t i = 0; i < 4; i++) {
        if (strcmp(names[i], text_of(r, value)) == 0) {
            ((struct hw *)into)->memory_limits = i;
            return;
        }
    }
    complain(r, value, "memoryLimits is none, off, misc or dmem");
}

static void read_seed(struct reader *r, const yaml_node_t *value, void *into)
{
    ((struct hw *)into)->random = number_of(r, value, UINT32_MAX);
}

static void read_clique(struct reader *r, const yaml_node_t *value, void *into)
{
    ((struct hw *)into)->fabric.clique = number_of(r, value, UINT32_MAX);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void read_cluster(struct reader *r, const yaml_node_t *value, void *into)
{
    struct hw_fabric *fabric = &((struct hw *)into)->fabric;
    size_t nibbles = 0;
    for (const char *c = text_of(r, value); *c != '\0' && nibbles <= 32; c++) {
        int digit = hex_digit(*c);
        if (*c == '-')
            continue;
        if (digit < 0 || nibbles == 32) {
            nibbles = 33;
            break;
        }
        fabric->cluster_uuid[nibbles / 2] =
            (unsigned char)(fabric->cluster_uuid[nibbles / 2] << 4 | digit);
        nibbles++;
    }
    if (nibbles != 32)
        complain(r, value, "clusterUUID is a UUID");
}

static void read_fabric_state(struct reader *r, const yaml_node_t *value, void *into)
{
    static const char *const names[] = {"notSupported", "notStarted", "inProgress", "completed"};
    for (uint32_t i = 0; i < 4; i++) {
        if (strcmp(names[i], text_of(r, value)) == 0) {
            ((struct hw *)into)->fabric.state = i;
            return;
        }
    }
    complain(r, value, "state is notSupported, notStarted, inProgress or completed");
}

static void read_fabric(struct reader *r, const yaml_node_t *value, void *into)
{
    static const struct key keys[] = {{"clusterUUID", read_cluster},
                                      {"clique", read_clique},
                                      {"state", read_fabric_state},
                                      {NULL, NULL}};
    read_mapping(r, value, keys, into);
}

/* Sets the value of one call, or of all. */
static bool set_of_calls(_Atomic uint32_t *values, const char *name, uint32_t value)
{
    unsigned int id = call_find(name);
    if (strcmp(name, "*") == 0) {
        for (id = 0; id < CALL_COUNT; id++)
            atomic_store(&values[id], value);
        return true;
    }
    if (id == CALL_COUNT)
        return false;
    atomic_store(&values[id], value);
    return true;
}

bool latency_set(struct state_file *file, const char *name, uint32_t us)
{
    return set_of_calls(file->latency_us, name, us);
}

bool driver_lock_set(struct state_file *file, const char *name, uint32_t percent)
{
    return set_of_calls(file->driver_lock_percent, name, percent);
}

bool driver_lock_parse(const char *text, uint32_t *ret_percent)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || value > 100)
        return false;
    *ret_percent = (uint32_t)value;
    return true;
}

/*
 * GI destroy takes a second and creation less (NVIDIA's DRA driver notes and its tests); a Hopper
 * mode switch and an Ampere reset take seconds. The rest takes about as long as a driver call.
 */
bool latency_preset(struct state_file *file, const char *name)
{
    static const struct {
        const char *call;
        uint32_t us;
    } realistic[] = {
        {"DeviceCreateGpuInstance", 150000},
        {"DeviceCreateGpuInstanceWithPlacement", 150000},
        {"GpuInstanceDestroy", 1000000},
        {"GpuInstanceCreateComputeInstance", 20000},
        {"GpuInstanceCreateComputeInstanceWithPlacement", 20000},
        {"ComputeInstanceDestroy", 50000},
        {"DeviceSetMigMode", 2000000},
        {"cleaveSimDeviceReset", 4000000},
        /* Assumed: a slice is an entry in a table; a switch or a reset involves the driver. */
        {"mxSmlCreateSgpu", 20000},
        {"mxSmlRemoveSgpu", 20000},
        {"mxSmlSetSgpuToggle", 500000},
        {"mxSmlFunctionLevelReset", 1000000},
        {"mxSmlReset", 4000000},
        {"mxSmlInit", 50000},
        {"mxSmlInitWithFlags", 50000},
        {"Init_v2", 50000},
        {"InitWithFlags", 50000},
    };
    bool none = strcmp(name, "none") == 0;
    if (!none && strcmp(name, "realistic") != 0)
        return false;
    (void)latency_set(file, "*", 0);
    for (size_t i = 0; !none && i < sizeof(realistic) / sizeof(realistic[0]); i++)
        (void)latency_set(file, realistic[i].call, realistic[i].us);
    return true;
}

bool latency_parse(const char *text, uint32_t *ret_us)
{
    char *unit = NULL;
    errno = 0;
    double value = strtod(text, &unit);
    double scale = strcmp(unit, "us") == 0                            ? 1
                   : strcmp(unit, "ms") == 0 || strcmp(unit, "") == 0 ? 1e3
                   : strcmp(unit, "s") == 0                           ? 1e6
                                                                      : 0;
    if (unit == text || errno != 0 || scale == 0 || !(value >= 0 && value * scale <= 3.6e9))
        return false;
    *ret_us = (uint32_t)(value * scale);
    return true;
}

static void read_latency_pair(struct reader *r, const yaml_node_t *key, const yaml_node_t *value)
{
    uint32_t us = 0;
    if (!latency_parse(text_of(r, value), &us))
        complain(r, value, "a latency looks like 150ms, 20us or 1s");
    else if (!latency_set(r->file, text_of(r, key), us))
        complain(r, key, "no call is named \"%s\"", text_of(r, key));
}

static void read_latency(struct reader *r, const yaml_node_t *value, void *into)
{
    (void)into;
    if (value->type == YAML_SCALAR_NODE) {
        if (!latency_preset(r->file, text_of(r, value)))
            complain(r, value, "latency is none, realistic or a mapping from calls to times");
        return;
    }
    if (value->type != YAML_MAPPING_NODE) {
        complain(r, value, "latency is none, realistic or a mapping from calls to times");
        return;
    }
    for (yaml_node_pair_t *p = value->data.mapping.pairs.start; p < value->data.mapping.pairs.top;
         p++)
        read_latency_pair(r, yaml_document_get_node(&r->doc, p->key),
                          yaml_document_get_node(&r->doc, p->value));
}

static void read_driver_lock(struct reader *r, const yaml_node_t *value, void *into)
{
    (void)into;
    if (value->type != YAML_MAPPING_NODE) {
        complain(r, value, "driverLock is a mapping from calls to percent of their latency");
        return;
    }
    for (yaml_node_pair_t *p = value->data.mapping.pairs.start; p < value->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key = yaml_document_get_node(&r->doc, p->key);
        uint32_t percent = 0;
        if (!driver_lock_parse(text_of(r, yaml_document_get_node(&r->doc, p->value)), &percent))
            complain(r, key, "a share is a number of percent, from 0 to 100");
        else if (!driver_lock_set(r->file, text_of(r, key), percent))
            complain(r, key, "no call is named \"%s\"", text_of(r, key));
    }
}

static void read_ecc(struct reader *r, const yaml_node_t *value, void *into)
{
    (void)into;
    r->ecc = flag_of(r, value);
    r->ecc_set = true;
}

static void read_root(struct reader *r)
{
    static const struct key keys[] = {{"gpus", read_gpus},
                                      {"driverVersion", read_driver},
                                      {"cudaVersion", read_cuda},
                                      {"metaxDriverVersion", read_mx_driver},
                                      {"macaVersion", read_maca},
                                      {"ecc", read_ecc},
                                      {"numaNodes", read_numa},
                                      {"cpus", read_cpus},
                                      {"links", read_links},
                                      {"fabric", read_fabric},
                                      {"latency", read_latency},
                                      {"driverLock", read_driver_lock},
                                      {"seed", read_seed},
                                      {"memoryLimits", read_limits},
                                      {NULL, NULL}};
    const yaml_node_t *root = yaml_document_get_root_node(&r->doc);
    if (root == NULL)
        complain(r, NULL, "the fleet is empty");
    else
        read_mapping(r, root, keys, r->hw);
}

static void defaults(struct hw *hw)
{
    (void)snprintf(hw->driver_version, sizeof(hw->driver_version), "580.95.05");
    hw->cuda_version = 13000;
    (void)snprintf(hw->mx_driver_version, sizeof(hw->mx_driver_version), "2.32.0.6");
    (void)snprintf(hw->maca_version, sizeof(hw->maca_version), "2.32.0.6");
    hw->numa_nodes = 2;
    hw->cpus = 64;
    hw->links = LINKS_NVSWITCH;
    hw->fabric.state = FABRIC_COMPLETED;
    if (getrandom(&hw->random, sizeof(hw->random), 0) != (ssize_t)sizeof(hw->random))
        hw->random = (uint64_t)(uintptr_t)hw;
}

/* Settings that depend on the whole file. */
static void finish_fleet(const struct reader *r)
{
    struct hw *hw = r->hw;
    (void)snprintf(hw->nvml_version, sizeof(hw->nvml_version), "13.%.24s", hw->driver_version);
    hw->boot = 1;
    hw_new_uuid(hw, "", hw->boot_id, sizeof(hw->boot_id));
    for (uint32_t i = 0; i < hw->gpu_count; i++) {
        struct hw_gpu *gpu = &hw->gpus[i];
        hw_new_uuid(hw, "GPU-", gpu->uuid, sizeof(gpu->uuid));
        if (r->ecc_set)
            gpu->ecc_current = gpu->ecc_pending = r->ecc;
        (void)snprintf(gpu->serial_number, sizeof(gpu->serial_number), "1%012llu",
                       (unsigned long long)(hw->random >> 24) % 1000000000000ULL);
        gpu->numa = hw->numa_nodes == 0 ? 0 : i * hw->numa_nodes / hw->gpu_count;
    }
}

static void finish_metax(const struct reader *r)
{
    struct hw *hw = r->hw;
    for (uint32_t i = 0; i < hw->mx_count; i++) {
        struct mx_card *card = &hw->mx_cards[i];
        hw_new_uuid(hw, "GPU-", card->uuid, sizeof(card->uuid));
        /* Again, now that the seed is known. */
        if (card->vf_count > 0)
            (void)mx_set_vfs(hw, i, card->vf_count);
        if (r->ecc_set)
            card->ecc_on = r->ecc;
        card->numa = i * hw->numa_nodes / hw->mx_count;
    }
}

static bool load(struct reader *r)
{
    FILE *in = fopen(r->path, "re");
    if (in == NULL) {
        (void)fprintf(stderr, "cleave-sim: %s: %s\n", r->path, strerror(errno));
        return false;
    }
    yaml_parser_t parser;
    bool loaded = yaml_parser_initialize(&parser) == 1;
    if (loaded) {
        yaml_parser_set_input_file(&parser, in);
        loaded = yaml_parser_load(&parser, &r->doc) == 1;
        if (!loaded)
            (void)fprintf(stderr, "cleave-sim: %s:%zu: %s\n", r->path, parser.problem_mark.line + 1,
                          parser.problem != NULL ? parser.problem : "not YAML");
        yaml_parser_delete(&parser);
    }
    (void)fclose(in);
    return loaded;
}

int fleet_fill(void *arg, struct state_file *file)
{
    struct reader r = {.path = arg, .file = file, .hw = &file->copies[0].hw};
    if (!load(&r))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    defaults(r.hw);
    read_root(&r);
    yaml_document_delete(&r.doc);
    finish_fleet(&r);
    finish_metax(&r);
    return r.failed ? NVML_ERROR_DRIVER_NOT_LOADED : NVML_SUCCESS;
}
