/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/kubelet/plugin_messages.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/container/grant_mark.h"
#include "nodeagent/kubelet/proto/deviceplugin.pb-c.h"
#include "nodeagent/kubelet/proto_arena.h"

enum {
    MAX_CONTAINERS = 256,
    MAX_FILES = 1024,       /* of one answer; an empty one takes two bytes of it */
    MAX_UNPACKED = 8 << 20, /* bound on an unpacked request; the transport accepts 1 MiB */
};

/* protobuf-c's strings are not const; packing does not write to them. */
static char *lent(const char *s)
{
    return (char *)(uintptr_t)s;
}

static struct plugin_bytes packed(const ProtobufCMessage *m)
{
    struct plugin_bytes b = {.len = protobuf_c_message_get_packed_size(m)};
    b.data = xmalloc(b.len + 1);
    (void)protobuf_c_message_pack(m, b.data);
    return b;
}

/* --- Messages sent --- */

struct plugin_bytes plugin_encode_register(const char *endpoint, const char *resource)
{
    V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
    options.get_preferred_allocation_available = 1;
    V1beta1__RegisterRequest m = V1BETA1__REGISTER_REQUEST__INIT;
    m.version = lent("v1beta1");
    m.endpoint = lent(endpoint);
    m.resource_name = lent(resource);
    m.options = &options;
    return packed(&m.base);
}

struct plugin_bytes plugin_encode_options(void)
{
    V1beta1__DevicePluginOptions m = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
    m.get_preferred_allocation_available = 1;
    return packed(&m.base);
}

/* A device with its topology in one value, so that its members can point at each other. */
struct listed {
    V1beta1__Device device;
    V1beta1__TopologyInfo topology;
    V1beta1__NUMANode node;
    V1beta1__NUMANode *nodes[1];
};

static void list_device(const struct plugin_device *from, struct listed *to)
{
    assert(from->id);
    v1beta1__device__init(&to->device);
    to->device.id = lent(from->id);
    to->device.health = lent(from->healthy ? "Healthy" : "Unhealthy");
    if (from->numa < 0)
        return;
    v1beta1__topology_info__init(&to->topology);
    v1beta1__numanode__init(&to->node);
    to->node.id = from->numa;
    to->nodes[0] = &to->node;
    to->topology.n_nodes = 1;
    to->topology.nodes = to->nodes;
    to->device.topology = &to->topology;
}

struct plugin_bytes plugin_encode_list(const struct plugin_resource *r)
{
    auto_free struct listed *listed = xcalloc(r->n_devices, sizeof(*listed));
    auto_free V1beta1__Device **devices = xcalloc(r->n_devices, sizeof(V1beta1__Device *));
    for (size_t i = 0; i < r->n_devices; i++) {
        list_device(&r->devices[i], &listed[i]);
        devices[i] = &listed[i].device;
    }
    V1beta1__ListAndWatchResponse m = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;
    m.n_devices = r->n_devices;
    m.devices = devices;
    return packed(&m.base);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool lacks(char *const *known, size_t n_known, const struct plugin_granted *g)
{
    for (size_t i = 0; i < g->n_ids; i++)
        if (!bsearch(&g->ids[i], known, n_known, sizeof(*known), by_id))
            return true;
    return false;
}

enum plugin_look plugin_list_look(const struct plugin_bytes *list, const char *resource,
                                  const struct plugin_granted *all, size_t n)
{
    enum plugin_look found = PLUGIN_LOOK_NOTHING;
    auto_proto_arena struct proto_arena arena;
    proto_arena_init(&arena, MAX_UNPACKED);
    const V1beta1__ListAndWatchResponse *m =
        v1beta1__list_and_watch_response__unpack(&arena.allocator, list->len, list->data);
    size_t n_known = m ? m->n_devices : 0;
    auto_free char **known = xcalloc(n_known, sizeof(*known));
    for (size_t i = 0; i < n_known; i++)
        known[i] = m->devices[i]->id;
    qsort(known, n_known, sizeof(*known), by_id);
    for (size_t i = 0; i < n && found != PLUGIN_LOOK_STRANGE; i++)
        if (strcmp(all[i].resource, resource) == 0)
            found = m && lacks(known, n_known, &all[i]) ? PLUGIN_LOOK_STRANGE : PLUGIN_LOOK_LISTED;
    return found;
}

/* --- Allocate --- */

/* One container's part of the answer: the entry, and the messages that point into it. */
struct answer {
    struct entry entry;
    V1beta1__ContainerAllocateResponse message;
    V1beta1__ContainerAllocateResponse__EnvsEntry *envs, **env_list;
    V1beta1__ContainerAllocateResponse__AnnotationsEntry *annotations, **annotation_list;
    V1beta1__Mount *mounts, **mount_list;
    V1beta1__DeviceSpec *nodes, **node_list;
    V1beta1__CDIDevice *names, **name_list;
};

static void fill_maps(struct answer *a)
{
    const struct entry *e = &a->entry;
    a->envs = xcalloc(e->n_envs, sizeof(*a->envs));
    a->env_list = xcalloc(e->n_envs, sizeof(*a->env_list));
    for (size_t i = 0; i < e->n_envs; i++) {
        v1beta1__container_allocate_response__envs_entry__init(&a->envs[i]);
        a->envs[i].key = e->envs[i].key;
        a->envs[i].value = e->envs[i].value;
        a->env_list[i] = &a->envs[i];
    }
    a->annotations = xcalloc(e->n_annotations, sizeof(*a->annotations));
    a->annotation_list = xcalloc(e->n_annotations, sizeof(*a->annotation_list));
    for (size_t i = 0; i < e->n_annotations; i++) {
        v1beta1__container_allocate_response__annotations_entry__init(&a->annotations[i]);
        a->annotations[i].key = e->annotations[i].key;
        a->annotations[i].value = e->annotations[i].value;
        a->annotation_list[i] = &a->annotations[i];
    }
}

static void fill_files(struct answer *a)
{
    const struct entry *e = &a->entry;
    a->mounts = xcalloc(e->n_mounts, sizeof(*a->mounts));
    a->mount_list = xcalloc(e->n_mounts, sizeof(*a->mount_list));
    for (size_t i = 0; i < e->n_mounts; i++) {
        v1beta1__mount__init(&a->mounts[i]);
        a->mounts[i].container_path = e->mounts[i].container_path;
        a->mounts[i].host_path = e->mounts[i].host_path;
        a->mounts[i].read_only = e->mounts[i].read_only;
        a->mount_list[i] = &a->mounts[i];
    }
    a->nodes = xcalloc(e->n_nodes, sizeof(*a->nodes));
    a->node_list = xcalloc(e->n_nodes, sizeof(*a->node_list));
    for (size_t i = 0; i < e->n_nodes; i++) {
        v1beta1__device_spec__init(&a->nodes[i]);
        a->nodes[i].container_path = e->nodes[i].container_path;
        a->nodes[i].host_path = e->nodes[i].host_path;
        a->nodes[i].permissions = e->nodes[i].permissions;
        a->node_list[i] = &a->nodes[i];
    }
    a->names = xcalloc(e->n_cdi_names, sizeof(*a->names));
    a->name_list = xcalloc(e->n_cdi_names, sizeof(*a->name_list));
    for (size_t i = 0; i < e->n_cdi_names; i++) {
        v1beta1__cdidevice__init(&a->names[i]);
        a->names[i].name = e->cdi_names[i];
        a->name_list[i] = &a->names[i];
    }
}

static void fill(struct answer *a)
{
    const struct entry *e = &a->entry;
    fill_maps(a);
    fill_files(a);
    v1beta1__container_allocate_response__init(&a->message);
    a->message.n_envs = e->n_envs;
    a->message.envs = a->env_list;
    a->message.n_annotations = e->n_annotations;
    a->message.annotations = a->annotation_list;
    a->message.n_mounts = e->n_mounts;
    a->message.mounts = a->mount_list;
    a->message.n_devices = e->n_nodes;
    a->message.devices = a->node_list;
    a->message.n_cdi_devices = e->n_cdi_names;
    a->message.cdi_devices = a->name_list;
}

static void answer_done(struct answer *a)
{
    entry_done(&a->entry);
    free(a->envs);
    free(a->env_list);
    free(a->annotations);
    free(a->annotation_list);
    free(a->mounts);
    free(a->mount_list);
    free(a->nodes);
    free(a->node_list);
    free(a->names);
    free(a->name_list);
}

/* The kubelet asks for one container at a time. */
static int check_containers(size_t n, struct err *e)
{
    if (n <= MAX_CONTAINERS)
        return 0;
    return err_set(e, ERR_INVALID, "%zu containers in one request; at most %d are answered", n,
                   MAX_CONTAINERS);
}

static int answer_containers(const V1beta1__AllocateRequest *request, plugin_allocate_fn *fn,
                             void *arg, struct answer *answers, struct err *e)
{
    for (size_t i = 0; i < request->n_container_requests; i++) {
        const V1beta1__ContainerAllocateRequest *c = request->container_requests[i];
        TRY(fn(arg, (const char *const *)c->devices_ids, c->n_devices_ids, &answers[i].entry, e));
        fill(&answers[i]);
    }
    return 0;
}

static struct plugin_bytes pack_answers(struct answer *answers, size_t n)
{
    assert(n <= MAX_CONTAINERS);
    auto_free V1beta1__ContainerAllocateResponse **list =
        xcalloc(n, sizeof(V1beta1__ContainerAllocateResponse *));
    for (size_t i = 0; i < n; i++)
        list[i] = &answers[i].message;
    V1beta1__AllocateResponse m = V1BETA1__ALLOCATE_RESPONSE__INIT;
    m.n_container_responses = n;
    m.container_responses = list;
    return packed(&m.base);
}

int plugin_answer_allocate(const uint8_t *request, size_t len, plugin_allocate_fn *fn, void *arg,
                           struct plugin_bytes *ret, struct err *e)
{
    auto_proto_arena struct proto_arena arena;
    proto_arena_init(&arena, MAX_UNPACKED);
    V1beta1__AllocateRequest *m = v1beta1__allocate_request__unpack(&arena.allocator, len, request);
    if (!m)
        return err_set(e, ERR_INVALID, "not an AllocateRequest, or too large a one");
    size_t n = m->n_container_requests;
    int rc = check_containers(n, e);
    n = rc < 0 ? 0 : n;
    struct answer *answers = xcalloc(n, sizeof(*answers));
    if (rc == 0)
        rc = answer_containers(m, fn, arg, answers, e);
    if (rc == 0)
        *ret = pack_answers(answers, n);
    for (size_t i = 0; i < n; i++)
        answer_done(&answers[i]);
    free(answers);
    return rc;
}

static bool has_mark(const V1beta1__ContainerAllocateResponse *m)
{
    for (size_t i = 0; i < m->n_mounts; i++)
        if (strcmp(m->mounts[i]->host_path, GRANT_SOURCE) == 0)
            return true;
    return false;
}

int plugin_answer_files(const char *base64, char ***ret, size_t *ret_n, bool *ret_marked,
                        struct err *e)
{
    size_t len = strlen(base64);
    if (len > MAX_UNPACKED)
        return err_set(e, ERR_TOO_LARGE, "an answer of %zu bytes is not read", len);
    auto_free uint8_t *bytes = xmalloc(len + 1);
    int n = EVP_DecodeBlock(bytes, (const unsigned char *)base64, (int)len);
    for (size_t i = len; n > 0 && i > 0 && base64[i - 1] == '='; i--)
        n--; /* EVP_DecodeBlock counts the padding */
    auto_proto_arena struct proto_arena arena;
    proto_arena_init(&arena, MAX_UNPACKED);
    const V1beta1__ContainerAllocateResponse *m =
        n < 0 ? NULL
              : v1beta1__container_allocate_response__unpack(&arena.allocator, (size_t)n, bytes);
    if (!m)
        return err_set(e, ERR_INVALID, "not base64 of a ContainerAllocateResponse");
    if (m->n_devices > MAX_FILES)
        return err_set(e, ERR_TOO_LARGE, "an answer with %zu device files is not read",
                       m->n_devices);
    char **files = xcalloc(m->n_devices, sizeof(*files));
    for (size_t i = 0; i < m->n_devices; i++)
        files[i] = xstrdup(m->devices[i]->host_path);
    *ret = files;
    *ret_n = m->n_devices;
    *ret_marked = has_mark(m);
    return 0;
}

/* --- GetPreferredAllocation --- */

struct preferred {
    V1beta1__ContainerPreferredAllocationResponse message;
    const char **ids;
};

static int prefer_one(const V1beta1__ContainerPreferredAllocationRequest *c, plugin_prefer_fn *fn,
                      void *arg, struct preferred *ret, struct err *e)
{
    v1beta1__container_preferred_allocation_response__init(&ret->message);
    if (c->allocation_size < 0 || (size_t)c->allocation_size > c->n_available_deviceids)
        return err_set(e, ERR_INVALID, "%d devices are asked for, %zu are available",
                       c->allocation_size, c->n_available_deviceids);
    const struct plugin_preference p = {
        .available = (const char *const *)c->available_deviceids,
        .n_available = c->n_available_deviceids,
        .must_include = (const char *const *)c->must_include_deviceids,
        .n_must_include = c->n_must_include_deviceids,
        .size = (size_t)c->allocation_size,
    };
    ret->ids = xcalloc(p.size, sizeof(*ret->ids));
    TRY(fn(arg, &p, ret->ids, e));
    ret->message.n_deviceids = p.size;
    ret->message.deviceids = (char **)(uintptr_t)ret->ids;
    return 0;
}

static struct plugin_bytes pack_preferred(struct preferred *items, size_t n)
{
    auto_free V1beta1__ContainerPreferredAllocationResponse **list =
        xcalloc(n, sizeof(V1beta1__ContainerPreferredAllocationResponse *));
    for (size_t i = 0; i < n; i++)
        list[i] = &items[i].message;
    V1beta1__PreferredAllocationResponse m = V1BETA1__PREFERRED_ALLOCATION_RESPONSE__INIT;
    m.n_container_responses = n;
    m.container_responses = list;
    return packed(&m.base);
}

int plugin_answer_prefer(const uint8_t *request, size_t len, plugin_prefer_fn *fn, void *arg,
                         struct plugin_bytes *ret, struct err *e)
{
    auto_proto_arena struct proto_arena arena;
    proto_arena_init(&arena, MAX_UNPACKED);
    V1beta1__PreferredAllocationRequest *m =
        v1beta1__preferred_allocation_request__unpack(&arena.allocator, len, request);
    if (!m)
        return err_set(e, ERR_INVALID, "not a PreferredAllocationRequest, or too large a one");
    size_t n = m->n_container_requests;
    int rc = check_containers(n, e);
    n = rc < 0 ? 0 : n;
    struct preferred *items = xcalloc(n, sizeof(*items));
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = prefer_one(m->container_requests[i], fn, arg, &items[i], e);
    if (rc == 0)
        *ret = pack_preferred(items, n);
    for (size_t i = 0; i < n; i++)
        free(items[i].ids);
    free(items);
    return rc;
}
