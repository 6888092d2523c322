/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/entry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

static struct entry_pair *find_env(struct entry *en, const char *key)
{
    for (size_t i = 0; i < en->n_envs; i++) {
        if (strcmp(en->envs[i].key, key) == 0)
            return &en->envs[i];
    }
    return NULL;
}

void entry_add_env(struct entry *en, const char *key, const char *value)
{
    assert(key && *key && value);
    struct entry_pair *env = find_env(en, key);
    if (!env) {
        env = XPUSH(en->envs, en->n_envs);
        env->key = xstrdup(key);
    }
    xstr_set(&env->value, value);
}

void entry_add_mount(struct entry *en, const char *container_path, const char *host_path,
                     bool read_only)
{
    assert(container_path && host_path);
    struct entry_mount *m = XPUSH(en->mounts, en->n_mounts);
    m->container_path = xstrdup(container_path);
    m->host_path = xstrdup(host_path);
    m->read_only = read_only;
}

/* Control files, and cards with several partitions, are added more than once. */
void entry_add_node(struct entry *en, const char *host_root, const char *path)
{
    assert(path[0] == '/');
    for (size_t i = 0; i < en->n_nodes; i++) {
        if (strcmp(en->nodes[i].container_path, path) == 0)
            return;
    }
    struct entry_node *node = XPUSH(en->nodes, en->n_nodes);
    node->host_path = xasprintf("%s%s", host_root, path);
    node->container_path = xstrdup(path);
    static_assert(sizeof(node->permissions) >= sizeof("rwm"), "the longest permissions fit");
    memcpy(node->permissions, "rw", sizeof("rw"));
}

char *entry_cdi_name(const char *card_uuid, const char *profile, unsigned start, int ci_start)
{
    assert(card_uuid && (profile || ci_start < 0));
    if (!profile)
        return xstrdup(card_uuid);
    char *name = ci_start < 0 ? xasprintf("%s-%s-%u", card_uuid, profile, start)
                              : xasprintf("%s-%s-%u-%d", card_uuid, profile, start, ci_start);
    for (char *c = name; (c = strchr(c, '+')) != NULL;)
        *c = '.';
    return name;
}

char *entry_cdi_slice_name(const char *card_uuid, const char *alias)
{
    return xasprintf("%s-slice-%s", card_uuid, alias);
}

char *entry_cdi_vf_name(const char *card_uuid, unsigned number)
{
    return xasprintf("%s-vf-%u", card_uuid, number);
}

void entry_device_copy(const struct entry_device *from, struct entry_device *ret)
{
    *ret = *from;
    ret->cdi_name = xstrdup(from->cdi_name);
    ret->uuid = xstrdup(from->uuid);
    ret->card_uuid = xstrdup(from->card_uuid);
    ret->pci_bus_id = xstrdup(from->pci_bus_id);
}

void entry_device_done(struct entry_device *d)
{
    free(d->cdi_name);
    free(d->uuid);
    free(d->card_uuid);
    free(d->pci_bus_id);
    *d = (struct entry_device){0};
}

static void pairs_done(struct entry_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(pairs[i].key);
        free(pairs[i].value);
    }
    free(pairs);
}

void entry_done(struct entry *en)
{
    pairs_done(en->envs, en->n_envs);
    pairs_done(en->annotations, en->n_annotations);
    for (size_t i = 0; i < en->n_mounts; i++) {
        free(en->mounts[i].container_path);
        free(en->mounts[i].host_path);
    }
    free(en->mounts);
    for (size_t i = 0; i < en->n_nodes; i++) {
        free(en->nodes[i].container_path);
        free(en->nodes[i].host_path);
    }
    free(en->nodes);
    for (size_t i = 0; i < en->n_cdi_names; i++)
        free(en->cdi_names[i]);
    free(en->cdi_names);
    *en = (struct entry){0};
}
