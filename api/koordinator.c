/* SPDX-License-Identifier: Apache-2.0 */
#include "api/koordinator.h"

#include <ctype.h>
#include <string.h>

#include "base/xalloc.h"

#include "api/decode.h"

#define INT32 .min = INT32_MIN, .max = INT32_MAX
#define LIST(S, m, js, fields, type, ...)                                                          \
    JX_L(S, m, n_##m, js, JX_LIST, .sub = (fields), .elem_bytes = sizeof(type), ##__VA_ARGS__)

static const struct jx_field topology_fields[] = {
    JX_F(koordinator_topology, socket_id, "socketID", JX_INT, .required = true, INT32),
    JX_F(koordinator_topology, node_id, "nodeID", JX_INT, .required = true, INT32),
    JX_F(koordinator_topology, pcie_id, "pcieID", JX_STR, .required = true),
    JX_F(koordinator_topology, bus_id, "busID", JX_STR),
    {0},
};

static const struct jx_field vf_fields[] = {
    JX_F(koordinator_vf, minor, "minor", JX_INT, .required = true, INT32),
    JX_F(koordinator_vf, bus_id, "busID", JX_STR),
    {0},
};

static const struct jx_field vf_group_fields[] = {
    JX_L(koordinator_vf_group, labels, n_labels, "labels", JX_STR_MAP),
    LIST(koordinator_vf_group, vfs, "vfs", vf_fields, struct koordinator_vf),
    {0},
};

static const struct jx_field device_fields[] = {
    JX_F(koordinator_device, type, "type", JX_STR),
    JX_F(koordinator_device, id, "id", JX_STR),
    JX_P(koordinator_device, minor, has_minor, "minor", JX_INT, INT32),
    JX_P(koordinator_device, module_id, has_module_id, "moduleID", JX_INT, INT32),
    JX_F(koordinator_device, health, "health", JX_BOOL, .required = true),
    JX_L(koordinator_device, labels, n_labels, "labels", JX_STR_MAP),
    JX_L(koordinator_device, resources, n_resources, "resources", JX_STR_MAP),
    JX_P(koordinator_device, topology, has_topology, "topology", JX_OBJECT, .sub = topology_fields),
    LIST(koordinator_device, vf_groups, "vfGroups", vf_group_fields, struct koordinator_vf_group),
    JX_F(koordinator_device, conditions.items, "conditions", JX_LIST,
         .count_offset = offsetof(struct koordinator_device, conditions.count),
         .sub = condition_fields, .elem_bytes = sizeof(struct condition)),
    {0},
};

const struct jx_field koordinator_spec_fields[] = {
    LIST(koordinator_spec, devices, "devices", device_fields, struct koordinator_device),
    {0},
};

int koordinator_spec_decode(const json_t *device, struct koordinator_spec *ret, struct err *e)
{
    *ret = (struct koordinator_spec){0};
    return api_decode_part(device, "spec", koordinator_spec_fields, ret, sizeof(*ret), e);
}

json_t *koordinator_spec_encode(const struct koordinator_spec *s)
{
    return jx_encode(koordinator_spec_fields, s);
}

void koordinator_spec_done(struct koordinator_spec *s)
{
    jx_free(koordinator_spec_fields, s);
}

bool koordinator_is_resource(const char *name)
{
    static const char *const names[] = {KOORDINATOR_GPU, KOORDINATOR_CORE, KOORDINATOR_MEMORY,
                                        KOORDINATOR_RATIO, KOORDINATOR_SHARED};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* --- Reasons --- */

static bool is_ascii_alnum(char c)
{
    return (unsigned char)c < 0x80 && isalnum((unsigned char)c);
}

static bool is_inner(char c)
{
    return is_ascii_alnum(c) || c == '_' || c == ',' || c == ':';
}

/* Copies at most max bytes that a reason may contain, without separators at the ends. */
static size_t squeeze(const char *text, char *ret, size_t max)
{
    size_t len = 0;
    bool dropped = false;
    for (const char *c = text; *c && len < max; c++) {
        if (!is_inner(*c) || (len == 0 && !is_ascii_alnum(*c))) {
            dropped = len > 0;
            continue;
        }
        ret[len++] = dropped ? (char)toupper((unsigned char)*c) : *c;
        dropped = false;
    }
    while (len && (ret[len - 1] == ',' || ret[len - 1] == ':'))
        len--;
    return len;
}

char *koordinator_reason(const char *text)
{
    static const char prefix[] = "Error";
    char words[KOORDINATOR_REASON_MAX - sizeof(prefix) + 1];
    size_t len = text ? squeeze(text, words, sizeof(words)) : 0;
    if (len == 0)
        return xstrdup("Unknown");
    return xasprintf("%s%.*s", isalpha((unsigned char)words[0]) ? "" : prefix, (int)len, words);
}
