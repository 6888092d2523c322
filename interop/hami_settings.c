/* SPDX-License-Identifier: Apache-2.0 */
#include "interop/hami_settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/xalloc.h"

enum { MAX_SHARES = 128, WHOLE_PERCENT = 100, MAX_PERCENT = 400 }; /* crds/gpuprofiles.yaml */

/* --- Notices --- */

/* Keys of somebody's file are shown in an administrator's terminal, which control characters move. */
static char *shown(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0))
            *p = '?';
    return text;
}

void hami_notices_add(struct hami_notices *to, const char *where, const char *fmt, ...)
{
    if (to->n == HAMI_MAX_NOTICES) {
        to->more++;
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    *XPUSH(to->items, to->n) =
        (struct hami_notice){shown(xstrdup(where)), shown(xvasprintf(fmt, ap))};
    va_end(ap);
}

void hami_notices_done(struct hami_notices *n)
{
    for (size_t i = 0; i < n->n; i++) {
        free(n->items[i].where);
        free(n->items[i].why);
    }
    free(n->items);
    *n = (struct hami_notices){0};
}

/* --- The keys --- */

enum kind { TEXT, WHOLE, SWITCH, LIST, SHARES, MEMORY, COMPUTE, ELSEWHERE };

struct key {
    const char *name;
    enum kind kind;
    /* The values that ask for nothing that is not done here, and what is said of any other. */
    const char *quiet[2];
    const char *instead;
    bool is_refused; /* any other value is an error */
};

#define NAME(key, resource)                                                                        \
    {                                                                                              \
        key, TEXT, {resource},                                                                     \
            "shares are asked for as " resource ", and pods that say another name would get "      \
            "none. Have them say " resource ", write it here, and import again",                   \
            true                                                                                   \
    }
#define SIZES_OF_PODS                                                                              \
    "a pod that does not say a size has its card alone. Write the size into the pods"
#define NUMA_OF_PODS                                                                               \
    "the kubelet is told no NUMA node of a share. Pods that need cards of one node say "           \
    "nvidia.com/numa-bind: \"true\""
#define MEMORY_OF_CARDS "a card's memory is what its driver says"
#define NO_LIMITER      "there is no libvgpu.so in the containers"
#define MIG_IS_DECLARED                                                                            \
    "names partitions, and none are made for pods. Write a GPUProfile with mode mig for cards "    \
    "that are to be cut, and let pods ask for nvidia.com/mig-<profile>"

static const struct key section_keys[] = {
    NAME("resourceCountName", "nvidia.com/gpu"),
    NAME("resourceMemoryName", "nvidia.com/gpumem"),
    NAME("resourceMemoryPercentageName", "nvidia.com/gpumem-percentage"),
    NAME("resourceCoreName", "nvidia.com/gpucores"),
    NAME("resourcePriorityName", "nvidia.com/priority"),
    {"memoryFactor",
     WHOLE,
     {"0", "1"},
     "nvidia.com/gpumem counts MiB. Multiply it by the factor in the pods, write 1 here, and import "
     "again",
     true},
    {"deviceSplitCount", SHARES, {0}, NULL, false},
    {"deviceMemoryScaling", MEMORY, {0}, NULL, false},
    {"deviceCoreScaling", COMPUTE, {0}, NULL, false},
    {"defaultMemory", WHOLE, {"0"}, SIZES_OF_PODS " (nvidia.com/gpumem)", false},
    {"defaultCores", WHOLE, {"0"}, SIZES_OF_PODS " (nvidia.com/gpucores)", false},
    {"defaultGPUNum",
     WHOLE,
     {"1"},
     "a container that names a size and no number gets one share, where config/scheduler-webhook or "
     "config/scheduler-defaults is installed, and is refused elsewhere. Write nvidia.com/gpu into "
     "the pods",
     false},
    {"overwriteEnv",
     SWITCH,
     {"false"},
     "containers that ask for no card are not changed. Where NVIDIA's container runtime is the "
     "nodes' default, images with NVIDIA_VISIBLE_DEVICES=all see all cards: write none into these "
     "containers",
     false},
    {"preConfiguredDeviceMemory", WHOLE, {"0"}, MEMORY_OF_CARDS, false},
    {"enableNumaTopology", SWITCH, {"false"}, NUMA_OF_PODS, false},
    {"gpuCorePolicy",
     TEXT,
     {"", "default"},
     "compute is counted, and nothing holds a container to its part",
     false},
    {"libCudaLogLevel", WHOLE, {"0", "1"}, NO_LIMITER, false},
    {"runtimeClassName",
     TEXT,
     {""},
     "pods get no RuntimeClass by themselves, and need none for a card. Write it into pods that "
     "need it for something else",
     false},
    {"disableCoreLimit", SWITCH, {"true", "false"}, NULL, false},
    {"knownMigGeometries", LIST, {0}, MIG_IS_DECLARED, false},
    {"migProfileAllowlist", LIST, {0}, MIG_IS_DECLARED, false},
};

static const struct key node_keys[] = {
    {"name", ELSEWHERE, {0}, NULL, false},
    {"operatingmode", ELSEWHERE, {0}, NULL, false},
    {"filterdevices", ELSEWHERE, {0}, NULL, false},
    {"devicesplitcount", SHARES, {0}, NULL, false},
    {"devicememoryscaling", MEMORY, {0}, NULL, false},
    {"devicecorescaling", COMPUTE, {0}, NULL, false},
    {"preconfigureddevicememory", WHOLE, {"0"}, MEMORY_OF_CARDS, false},
    {"enablenumatopology", SWITCH, {"false"}, NUMA_OF_PODS, false},
    {"libcudaloglevel", WHOLE, {"0", "1"}, NO_LIMITER, false},
    {"migstrategy",
     TEXT,
     {"", "none"},
     "the profile makes the node's cards whole, so that there are no partitions to name. Write a "
     "GPUProfile with mode mig for those that are to stay cut",
     false},
    /* The kubelet's identifier says nothing of the card here, and the agent knows the pod. */
    {"enablegetpreferredallocation", SWITCH, {"true", "false"}, NULL, false},
};

/* --- Reading --- */

/* A value that is being read: its path for messages, the settings that it changes, and the notices. */
struct reading {
    const char *where;
    struct hami_settings *settings;
    struct hami_notices *notices;
};

/* A scalar as its text, cut at what a message takes. */
static void text_of(const json_t *v, char *buf, size_t room)
{
    if (json_is_string(v))
        (void)snprintf(buf, room, "%.60s", json_string_value(v));
    else if (json_is_integer(v))
        (void)snprintf(buf, room, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        (void)snprintf(buf, room, "%g", json_real_value(v));
    else
        (void)snprintf(buf, room, "%s", json_is_true(v) ? "true" : "false");
}

static int check_kind(enum kind kind, const json_t *v, struct err *e)
{
    switch (kind) {
    case TEXT:
        return json_is_string(v) ? 0 : err_set(e, ERR_INVALID, "it must be a text");
    case SWITCH:
        return json_is_boolean(v) ? 0 : err_set(e, ERR_INVALID, "it must be true or false");
    case LIST:
        return json_is_array(v) ? 0 : err_set(e, ERR_INVALID, "it must be a list");
    case WHOLE:
    case SHARES:
        if (json_is_integer(v) && json_integer_value(v) >= 0)
            return 0;
        return err_set(e, ERR_INVALID, "it must be a whole number from 0 on");
    case MEMORY:
    case COMPUTE:
        if (json_is_number(v) && json_number_value(v) >= 0)
            return 0;
        return err_set(e, ERR_INVALID, "it must be a number from 0 on");
    case ELSEWHERE:
        break;
    }
    return 0;
}

static void take_shares(const struct reading *r, int64_t n)
{
    if (n > MAX_SHARES)
        hami_notices_add(r->notices, r->where,
                         "is %lld, and a card has %d shares at most, which it gets", (long long)n,
                         MAX_SHARES);
    if (n > 0)
        r->settings->shares = n > MAX_SHARES ? MAX_SHARES : n;
}

/* To the nearest percent. */
static void take_scaling(const struct reading *r, double x, int64_t *ret)
{
    if (x == 0)
        return;
    int64_t percent = x > MAX_PERCENT ? INT32_MAX : (int64_t)(x * WHOLE_PERCENT + 0.5);
    if (percent < WHOLE_PERCENT)
        hami_notices_add(r->notices, r->where,
                         "is %g, and a card is given out as a whole at least: its shares have "
                         "%d %% together",
                         x, WHOLE_PERCENT);
    if (percent > MAX_PERCENT)
        hami_notices_add(r->notices, r->where,
                         "is %g, and the shares of a card have %d %% of it at most, which they get",
                         x, MAX_PERCENT);
    *ret = percent < WHOLE_PERCENT ? WHOLE_PERCENT : percent > MAX_PERCENT ? MAX_PERCENT : percent;
}

static bool is_quiet(const struct key *k, const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(k->quiet); i++)
        if (k->quiet[i] && strcmp(k->quiet[i], text) == 0)
            return true;
    return false;
}

/* A value that sets nothing: it is quiet, has a notice, or is refused. */
static int take_other(const struct reading *r, const struct key *k, const json_t *v, struct err *e)
{
    char text[80];
    text_of(v, text, sizeof(text));
    if (is_quiet(k, text))
        return 0;
    if (k->is_refused)
        return err_set(e, ERR_INVALID, "is \"%s\": %s", text, k->instead);
    hami_notices_add(r->notices, r->where, "is \"%s\": %s", text, k->instead);
    return 0;
}

static int take(const struct reading *r, const struct key *k, const json_t *v, struct err *e)
{
    TRY(check_kind(k->kind, v, e));
    switch (k->kind) {
    case ELSEWHERE:
        return 0;
    case SHARES:
        take_shares(r, json_integer_value(v));
        return 0;
    case MEMORY:
        take_scaling(r, json_number_value(v), &r->settings->memory_percent);
        return 0;
    case COMPUTE:
        take_scaling(r, json_number_value(v), &r->settings->compute_percent);
        return 0;
    case LIST:
        if (json_array_size(v))
            hami_notices_add(r->notices, r->where, "%s", k->instead);
        return 0;
    case TEXT:
    case WHOLE:
    case SWITCH:
        break;
    }
    return take_other(r, k, v, e);
}

static const struct key *find_key(const struct key *keys, size_t n, const char *name, bool any_case)
{
    for (size_t i = 0; i < n; i++)
        if ((any_case ? strcasecmp : strcmp)(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

static int read_all(const json_t *obj, const char *where, const struct key *keys, size_t n,
                    bool any_case, const struct reading *into, struct err *e)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)obj, name, value) {
        auto_free char *key = shown(xasprintf("%.60s", name));
        auto_free char *path = xasprintf("%s.%s", where, key);
        const struct reading r = {path, into->settings, into->notices};
        const struct key *k = find_key(keys, n, name, any_case);
        if (!k)
            hami_notices_add(r.notices, path, "is not known, and nothing is done by it");
        else if (!json_is_null(value) && take(&r, k, value, e) < 0)
            return err_wrap(e, "%s", key);
    }
    return 0;
}

int hami_settings_read(const json_t *section, struct hami_settings *s, struct hami_notices *to,
                       struct err *e)
{
    const struct reading r = {.settings = s, .notices = to};
    if (!json_is_object(section))
        return err_set(e, ERR_INVALID, "nvidia: it must be an object");
    if (read_all(section, "nvidia", section_keys, ARRAY_LEN(section_keys), /* any_case= */ false,
                 &r, e) < 0)
        return err_wrap(e, "nvidia");
    return 0;
}

int hami_settings_read_node(const json_t *entry, const char *where, struct hami_settings *s,
                            struct hami_notices *to, struct err *e)
{
    const struct reading r = {.settings = s, .notices = to};
    return read_all(entry, where, node_keys, ARRAY_LEN(node_keys), /* any_case= */ true, &r, e);
}

const json_t *hami_member(const json_t *obj, const char *name)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)obj, key, value) {
        if (strcasecmp(key, name) == 0)
            return json_is_null(value) ? NULL : value;
    }
    return NULL;
}
