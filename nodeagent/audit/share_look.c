/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/audit/share_look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/audit/folder_mount.h"
#include "nodeagent/audit/usage_file.h"
#include "nodeagent/slots/share_folder.h"

#define BYTES_OF_MIB ((uint64_t)1 << 20)

/* A container with host mounts may have thousands. */
enum { MAX_MOUNTINFO_BYTES = 1 << 20 };

static void sight_done(struct share_sight *s)
{
    free(s->uid);
    free(s->container);
    free(s->processes);
}

void share_sights_done(struct share_sights *s)
{
    for (size_t i = 0; i < s->n; i++)
        sight_done(&s->items[i]);
    free(s->items);
    *s = (struct share_sights){0};
}

/* --- Shares --- */

static bool is_limited(const struct share *s)
{
    return s->memory_level == API_LEVEL_LIBRARY || s->memory_level == API_LEVEL_DRIVER;
}

/* A container's folder has the name of the lowest of its slots of one pool. */
static unsigned folder_of(const struct shares *all, const struct share *s)
{
    unsigned lowest = s->slot;
    for (size_t i = 0; i < all->n; i++) {
        const struct share *other = &all->items[i];
        if (other->slot < lowest && slot_pool_of(other->slot) == slot_pool_of(s->slot) &&
            share_is_of(other, s->uid, s->container))
            lowest = other->slot;
    }
    return lowest;
}

static bool is_limited_on(const struct share *s, const char *card)
{
    return is_limited(s) && strcmp(s->card, card) == 0;
}

/* --- Which container a process is of --- */

/* A process of a card whose pod has a limited share there. */
struct suspect {
    const struct gpu_user *user;
    const struct consumer *of;
    struct process_id id;
    unsigned own_pid;
    int folder; /* the slot of its container's folder; -1: it shows none */
};

struct look {
    const struct share_look_where *where;
    struct folder_mount root;
    struct suspect *suspects; /* of one card; owned */
    size_t n;
};

static int folder_shown(const struct look *l, unsigned pid)
{
    const char *proc_root = l->where->proc_root ? l->where->proc_root : "/proc";
    auto_free char *path = xasprintf("%s/%u/mountinfo", proc_root, pid);
    auto_free char *text = NULL;
    if (file_read(path, MAX_MOUNTINFO_BYTES, &text, NULL, /* e= */ NULL) < 0)
        return -1;
    return folder_mount_slot(&l->root, text);
}

/* One that ended meanwhile is left out, and so is one of which the agent could not read who it is. A
 * kernel before 4.1 has no number but the host's. */
static void add_suspect(struct look *l, const struct gpu_user *user, const struct consumer *of)
{
    struct suspect s = {.user = user,
                        .of = of,
                        .id = {.pid = user->pid, .of = *of},
                        .own_pid = user->pid};
    if (process_started(l->where->proc_root, user->pid, &s.id.started, /* e= */ NULL) < 0)
        return;
    int rc = process_own_pid(l->where->proc_root, user->pid, &s.own_pid, /* e= */ NULL);
    if (rc < 0 && rc != -(int)ERR_PROTOCOL)
        return;
    s.folder = folder_shown(l, user->pid);
    *XPUSH(l->suspects, l->n) = s;
}

static bool has_share(const struct shares *all, const char *card, const char *uid)
{
    for (size_t i = 0; i < all->n; i++)
        if (is_limited_on(&all->items[i], card) && strcmp(all->items[i].uid, uid) == 0)
            return true;
    return false;
}

static bool is_same_container(const struct consumer *a, const struct consumer *b)
{
    return *a->container_id && strcmp(a->container_id, b->container_id) == 0 &&
           strcmp(a->pod_uid, b->pod_uid) == 0;
}

/* A process that does not see the folder any more, as after chroot, is of the container of those
 * that do. */
static void join_containers(struct look *l)
{
    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0; k < l->n && l->suspects[i].folder < 0; k++)
            if (is_same_container(l->suspects[i].of, l->suspects[k].of))
                l->suspects[i].folder = l->suspects[k].folder;
}

static void find_suspects(struct look *l, const struct shares *shares, const struct card_view *v)
{
    l->n = 0;
    for (unsigned i = 0; v->pods && i < v->card.n_users; i++)
        if (!v->card.users[i].is_pod && has_share(shares, v->card.uuid, v->pods[i].pod_uid))
            add_suspect(l, &v->card.users[i], &v->pods[i]);
    join_containers(l);
}

/* --- What the container says --- */

/* A container may have done anything to its usage; what lacks then is what it has not said. */
static bool is_containers_doing(const struct err *e)
{
    return e->kind == ERR_NOT_FOUND || e->kind == ERR_PROTOCOL ||
           (e->kind == ERR_SYSTEM &&
            (e->sys_errno == EACCES || e->sys_errno == EPERM || e->sys_errno == ELOOP ||
             e->sys_errno == EAGAIN)); /* it has a lease of it */
}

static int hear_usage(int folder, unsigned card, struct usage_file *ret, struct err *e)
{
    int rc = usage_file_read(folder, card, ret, e);
    if (rc < 0 && is_containers_doing(e)) {
        err_clear(e);
        rc = 0;
    }
    return rc;
}

/* Its terms, and its usage of the card. Fails where the agent could not read them: nothing follows
 * from that about the container. */
static int hear(const struct look *l, struct share_sight *s, struct usage_file *ret, struct err *e)
{
    auto_fd int folder = -1;
    auto_terms struct terms *terms = NULL;
    TRY(share_folders_open(l->where->folders, s->folder, &folder, e));
    TRY(share_terms_map(folder, &terms, e));
    int card = share_terms_card(terms, s->card);
    if (card < 0)
        return 0;
    s->context_bytes = share_terms_context(terms, (unsigned)card);
    s->percent = terms->cards[card].percent;
    s->takes_turns = share_folders_turns(l->where->folders, s->folder, (unsigned)card, &s->turns);
    return hear_usage(folder, (unsigned)card, ret, e);
}

static struct audit_process process_of(const struct suspect *s, const struct usage_file *usage)
{
    struct audit_process p = {.id = s->id, .bytes = s->user->memory_bytes};
    const struct usage_process_taken *said = usage_file_find(usage, s->own_pid, s->id.started);
    (void)snprintf(p.name, sizeof(p.name), "%s", s->user->name);
    p.is_limited = said;
    if (said) {
        p.own_bytes = said->taken - said->taken_by_contexts;
        p.contexts = said->contexts;
    }
    return p;
}

static struct share_sight sight_of(const struct shares *shares, const struct share *share)
{
    struct share_sight s = {.slot = share->slot,
                            .folder = folder_of(shares, share),
                            .uid = xstrdup(share->uid),
                            .container = xstrdup(share->container),
                            .is_driven = share->memory_level == API_LEVEL_DRIVER,
                            .limit_bytes = share->memory_mib * BYTES_OF_MIB};
    memcpy(s.card, share->card, sizeof(s.card));
    return s;
}

static void look_at(const struct look *l, const struct shares *shares, const struct share *share,
                    struct share_sights *ret)
{
    auto_err struct err why = {0};
    auto_usage_file struct usage_file usage = {0};
    struct share_sight s = sight_of(shares, share);
    if (hear(l, &s, &usage, &why) < 0) {
        char name[SLOT_WORD_BYTES];
        log_debug("Could not read what a container says to use",
                  kv("slot", slot_name(s.folder, name)), kv_err(&why));
        sight_done(&s);
        return;
    }
    for (size_t i = 0; i < l->n; i++)
        if (l->suspects[i].folder == (int)s.folder &&
            strcmp(l->suspects[i].of->pod_uid, share->uid) == 0)
            *XPUSH(s.processes, s.n) = process_of(&l->suspects[i], &usage);
    *XPUSH(ret->items, ret->n) = s;
}

/* Of a card whose users are known. */
static void look_at_card(struct look *l, const struct shares *shares, const struct card_view *v,
                         struct share_sights *ret)
{
    find_suspects(l, shares, v);
    for (size_t i = 0; i < shares->n; i++)
        if (is_limited_on(&shares->items[i], v->card.uuid))
            look_at(l, shares, &shares->items[i], ret);
}

static bool find_root(const struct share_folders *f, struct folder_mount *ret)
{
    auto_err struct err e = {0};
    if (folder_mount_find(share_folders_root(f), ret, &e) == 0)
        return true;
    log_warn("Could not find where the folders of shares lie: their use is not measured",
             kv_err(&e));
    return false;
}

static bool is_any_limited(const struct shares *shares)
{
    for (size_t i = 0; i < shares->n; i++)
        if (is_limited(&shares->items[i]))
            return true;
    return false;
}

void share_look(const struct share_look_where *where, const struct shares *shares,
                const struct card_view *views, size_t n_views, struct share_sights *ret)
{
    struct look l = {.where = where};
    if (!where->folders || !is_any_limited(shares) || !find_root(where->folders, &l.root))
        return;
    for (size_t i = 0; i < n_views; i++)
        if (!views[i].card.unread && !views[i].card.users_unknown)
            look_at_card(&l, shares, &views[i], ret);
    free(l.suspects);
    folder_mount_done(&l.root);
}
