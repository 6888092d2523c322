/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/journal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/change/record_version.h"
#include "nodeagent/gpu/sound.h"

#define MAX_BYTES  ((size_t)64 * 1024)
#define SUFFIX     ".json"
#define LOCK_NAME  "lock"
#define MAX_ASIDE  1000
#define FILE_MODE  0600
#define DIR_MODE   0700
#define MAX_NUMBER UINT32_MAX
/* An invalid UTF-8 byte of a note becomes three bytes in the file. */
#define MAX_NOTE (3 * JOURNAL_NOTE_BYTES)

static_assert(JOURNAL_OLDEST >= 1 && JOURNAL_OLDEST <= JOURNAL_VERSION, "a range");
static const struct record_versions versions = {JOURNAL_OLDEST, JOURNAL_VERSION};

/* The file's shape, with wide numbers and growing lists. They are copied into the fixed structs
 * after the bounds are checked. */
struct doc_ci {
    int64_t slices, start;
};
struct doc_instance {
    int64_t profile_id, start, size;
    struct doc_ci *cis;
    size_t n_cis;
};
struct doc_slice {
    char *alias;
    int64_t memory_mib, compute_percent;
};
struct doc_layout {
    int mode;
    struct doc_instance *instances;
    size_t n_instances;
    int qos;
    int64_t timeslice_ms;
    bool dynamic;
    struct doc_slice *slices;
    size_t n_slices;
};
struct doc {
    int64_t version, step;
    char *uuid, *boot_id, *note;
    int phase;
    struct doc_layout old, target;
    int64_t *nameless;
    size_t n_nameless;
};

static const char *const phases[] =
    {[JOURNAL_FORWARD] = "forward", [JOURNAL_BACK] = "back", [JOURNAL_HELD] = "held", NULL};

static const struct jx_field ci_fields[] = {JX_F(doc_ci, slices, "slices", JX_INT, .required = true,
                                                 .min = 1, .max = MIG_MAX_MEMORY_SLICES),
                                            JX_F(doc_ci, start, "start", JX_INT, .required = true,
                                                 .min = -1, .max = MIG_MAX_MEMORY_SLICES),
                                            {0}};
static const struct jx_field instance_fields[] =
    {JX_F(doc_instance, profile_id, "profileID", JX_INT, .required = true, .min = 0,
          .max = MAX_NUMBER),
     JX_F(doc_instance, start, "start", JX_INT, .required = true, .min = 0,
          .max = MIG_MAX_MEMORY_SLICES - 1),
     JX_F(doc_instance, size, "size", JX_INT, .required = true, .min = 1,
          .max = MIG_MAX_MEMORY_SLICES),
     JX_L(doc_instance, cis, n_cis, "computeInstances", JX_LIST,
          .elem_bytes = sizeof(struct doc_ci), .max = MIG_MAX_CIS, .sub = ci_fields),
     {0}};
static const struct jx_field slice_fields[] = {JX_F(doc_slice, alias, "alias", JX_STR,
                                                    .required = true, .max = SGPU_ALIAS_MAX),
                                               JX_F(doc_slice, memory_mib, "memoryMiB", JX_INT,
                                                    .required = true, .min = 0, .max = MAX_NUMBER),
                                               JX_F(doc_slice, compute_percent, "computePercent",
                                                    JX_INT, .required = true, .min = 0,
                                                    .max = MAX_NUMBER),
                                               {0}};
static const struct jx_field layout_fields[] =
    {JX_F(doc_layout, mode, "mode", JX_ENUM, .required = true, .choices = api_mode_names),
     JX_L(doc_layout, instances, n_instances, "instances", JX_LIST,
          .elem_bytes = sizeof(struct doc_instance), .max = MIG_MAX_INSTANCES,
          .sub = instance_fields),
     JX_F(doc_layout, qos, "qosPolicy", JX_ENUM, .choices = api_qos_policy_names),
     JX_F(doc_layout, timeslice_ms, "timesliceMilliseconds", JX_INT, .min = 0, .max = MAX_NUMBER),
     JX_F(doc_layout, dynamic, "dynamic", JX_BOOL),
     JX_L(doc_layout, slices, n_slices, "slices", JX_LIST, .elem_bytes = sizeof(struct doc_slice),
          .max = SGPU_MAX_SLICES, .sub = slice_fields),
     {0}};
static const struct jx_field doc_fields[] =
    {JX_F(doc, version, "version", JX_INT, .required = true, .min = 1, .max = INT32_MAX),
     JX_F(doc, uuid, "uuid", JX_STR, .required = true, .max = GPU_UUID_BYTES - 1),
     JX_F(doc, boot_id, "bootID", JX_STR, .required = true, .max = JOURNAL_BOOT_ID_LEN - 1),
     JX_F(doc, phase, "phase", JX_ENUM, .required = true, .choices = phases),
     JX_F(doc, step, "step", JX_INT, .required = true, .min = 0, .max = CARD_MAX_STEPS),
     JX_F(doc, note, "note", JX_STR, .max = MAX_NOTE),
     JX_F(doc, old, "old", JX_OBJECT, .required = true, .sub = layout_fields),
     JX_F(doc, target, "target", JX_OBJECT, .required = true, .sub = layout_fields),
     JX_L(doc, nameless, n_nameless, "nameless", JX_INT_LIST, .max = SGPU_MAX_SLICES),
     {0}};

static void doc_done(struct doc *d)
{
    jx_free(doc_fields, d);
}
AUTO_DEFINE(doc, struct doc, doc_done)
#define auto_doc AUTO(doc)

/* --- to and from the file's shape --- */

static void slices_to_doc(const struct sgpu_wants *w, struct doc_layout *ret)
{
    assert(w->n <= SGPU_MAX_SLICES && w->qos >= 0 && w->qos <= API_BURST_SHARE);
    ret->qos = w->qos;
    ret->timeslice_ms = w->timeslice_ms;
    ret->dynamic = w->dynamic;
    for (unsigned i = 0; i < w->n; i++)
        *XPUSH(ret->slices, ret->n_slices) =
            (struct doc_slice){xstrdup(w->items[i].alias), w->items[i].quota.memory_mib,
                               w->items[i].quota.compute_percent};
}

static void slices_from_doc(const struct doc_layout *d, struct sgpu_wants *ret)
{
    ret->qos = d->qos;
    ret->timeslice_ms = (unsigned)d->timeslice_ms;
    ret->dynamic = d->dynamic;
    assert(d->n_slices <= SGPU_MAX_SLICES); /* layout_fields has the bound */
    ret->n = (unsigned)d->n_slices;
    for (size_t i = 0; i < d->n_slices; i++) {
        struct sgpu_want *w = &ret->items[i];
        (void)snprintf(w->alias, sizeof(w->alias), "%s", d->slices[i].alias);
        w->quota = (struct sgpu_quota){(unsigned)d->slices[i].memory_mib,
                                       (unsigned)d->slices[i].compute_percent};
    }
}

static void layout_to_doc(const struct card_layout *l, struct doc_layout *ret)
{
    assert(l->n <= MIG_MAX_INSTANCES); /* more could not be read again */
    ret->mode = (int)l->mode;
    for (unsigned i = 0; i < l->n; i++) {
        const struct card_instance *in = &l->items[i];
        assert(in->n_cis <= MIG_MAX_CIS);
        struct doc_instance *d = XPUSH(ret->instances, ret->n_instances);
        *d = (struct doc_instance){.profile_id = in->profile_id,
                                   .start = in->start,
                                   .size = in->size};
        for (unsigned c = 0; c < in->n_cis; c++)
            *XPUSH(d->cis, d->n_cis) =
                (struct doc_ci){.slices = in->ci_slices[c], .start = in->ci_starts[c]};
    }
    slices_to_doc(&l->sgpu, ret);
}

static void layout_from_doc(const struct doc_layout *d, struct card_layout *ret)
{
    assert(d->n_instances <= MIG_MAX_INSTANCES);
    *ret = (struct card_layout){.mode = (enum gpu_mode)d->mode, .n = (unsigned)d->n_instances};
    for (size_t i = 0; i < d->n_instances; i++) {
        const struct doc_instance *from = &d->instances[i];
        struct card_instance *in = &ret->items[i];
        assert(from->n_cis <= MIG_MAX_CIS);
        in->profile_id = (unsigned)from->profile_id;
        in->start = (unsigned)from->start;
        in->size = (unsigned)from->size;
        in->n_cis = (unsigned)from->n_cis;
        for (size_t c = 0; c < from->n_cis; c++) {
            in->ci_slices[c] = (unsigned)from->cis[c].slices;
            in->ci_starts[c] = (int)from->cis[c].start;
        }
    }
    slices_from_doc(d, &ret->sgpu);
}

static char *encode(const struct journal *j)
{
    assert(j->step <= CARD_MAX_STEPS && j->nameless.n <= SGPU_MAX_SLICES);
    auto_doc struct doc d = {.version = JOURNAL_VERSION,
                             .step = j->step,
                             .phase = (int)j->phase,
                             .uuid = xstrdup(j->uuid),
                             .boot_id = xstrdup(j->boot_id),
                             .note = xstrdup(j->note)};
    layout_to_doc(&j->old, &d.old);
    layout_to_doc(&j->target, &d.target);
    for (unsigned i = 0; i < j->nameless.n; i++)
        *XPUSH(d.nameless, d.n_nameless) = j->nameless.ids[i];
    auto_json json_t *json = jx_encode(doc_fields, &d);
    return record_version_dump(json, JOURNAL_VERSION);
}

static int decode(const char *path, const char *text, size_t len, const char *uuid,
                  struct journal *ret, struct err *e)
{
    auto_json json_t *json = NULL;
    auto_doc struct doc d = {0};
    TRY(jx_parse(text, len, MAX_BYTES, &json, e));
    TRY(record_version_check(path, json, &versions, e));
    TRY(jx_decode(json, doc_fields, &d, e));
    if (strcmp(d.uuid, uuid) != 0)
        return err_set(e, ERR_INVALID, "it is about %s", d.uuid);
    *ret = (struct journal){.phase = (enum journal_phase)d.phase, .step = (unsigned)d.step};
    (void)snprintf(ret->uuid, sizeof(ret->uuid), "%s", d.uuid);
    (void)snprintf(ret->boot_id, sizeof(ret->boot_id), "%s", d.boot_id);
    (void)snprintf(ret->note, sizeof(ret->note), "%s", d.note ? d.note : "");
    layout_from_doc(&d.old, &ret->old);
    layout_from_doc(&d.target, &ret->target);
    assert(d.n_nameless <= SGPU_MAX_SLICES);
    for (size_t i = 0; i < d.n_nameless; i++)
        ret->nameless.ids[ret->nameless.n++] = (unsigned)d.nameless[i];
    return 0;
}

/* --- files --- */

/* A UUID becomes a file name, so it must not lead anywhere else. */
static int path_of(const char *state_dir, const char *uuid, char **ret, struct err *e)
{
    if (!uuid[0])
        return err_set(e, ERR_INVALID, "a card without UUID has no journal");
    if (!sound_is_name(uuid))
        return err_set(e, ERR_INVALID, "card UUID %s has characters it should not", uuid);
    *ret = xasprintf("%s/%s" SUFFIX, state_dir, uuid);
    return 0;
}

int journal_write(const char *state_dir, const struct journal *j, struct err *e)
{
    auto_free char *path = NULL;
    TRY(path_of(state_dir, j->uuid, &path, e));
    TRY(file_make_dirs(state_dir, DIR_MODE, e));
    auto_free char *text = encode(j);
    return file_write_atomic(path, text, strlen(text), FILE_MODE, e);
}

/* Moves an unusable journal aside, because it is evidence, and reports where it is. */
static int set_aside(const char *path, const struct err *why, struct err *e)
{
    for (int n = 1; n <= MAX_ASIDE; n++) {
        auto_free char *aside = xasprintf("%s.bad-%d", path, n);
        if (renameat2(AT_FDCWD, path, AT_FDCWD, aside, RENAME_NOREPLACE) == 0)
            return err_set(e, ERR_PROTOCOL, "journal %s cannot be used (%s); moved to %s", path,
                           err_msg(why), aside);
        if (errno != EEXIST)
            break;
    }
    return err_set_errno(e, errno, "journal %s cannot be used (%s) nor moved aside", path,
                         err_msg(why));
}

int journal_read(const char *state_dir, const char *uuid, struct journal *ret, struct err *e)
{
    auto_free char *path = NULL;
    auto_free char *text = NULL;
    auto_err struct err why = {0};
    size_t len = 0;
    TRY(path_of(state_dir, uuid, &path, e));
    TRY(record_version_peek(path, &versions, e));
    int rc = file_read(path, MAX_BYTES, &text, &len, &why);
    if (rc < 0 && why.kind != ERR_TOO_LARGE)
        return err_move(e, &why);
    if (rc == 0)
        rc = decode(path, text, len, uuid, ret, &why);
    if (rc == -ERR_CONFLICT)
        return err_move(e, &why);
    return rc < 0 ? set_aside(path, &why, e) : 0;
}

int journal_remove(const char *state_dir, const char *uuid, struct err *e)
{
    auto_free char *path = NULL;
    TRY(path_of(state_dir, uuid, &path, e));
    return file_remove(path, e);
}

static void free_list(char **uuids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(uuids[i]);
    free(uuids);
}

int journal_list(const char *state_dir, char ***ret_uuids, size_t *ret_n, struct err *e)
{
    auto_dir DIR *dir = opendir(state_dir);
    if (!dir && errno != ENOENT)
        return err_set_errno(e, errno, "read %s", state_dir);
    char **uuids = NULL;
    size_t n = 0;
    const struct dirent *entry;
    errno = 0;
    while (dir && (entry = readdir(dir)) != NULL) {
        size_t len = strlen(entry->d_name);
        size_t tail = strlen(SUFFIX);
        if (len > tail && strcmp(entry->d_name + len - tail, SUFFIX) == 0)
            *XPUSH(uuids, n) = xstrndup(entry->d_name, len - tail);
        errno = 0;
    }
    if (dir && errno) {
        int why = errno;
        free_list(uuids, n);
        return err_set_errno(e, why, "read %s", state_dir);
    }
    *ret_uuids = uuids;
    *ret_n = n;
    return 0;
}

static void sweep_drafts(const char *state_dir)
{
    auto_err struct err e = {0};
    if (file_sweep(state_dir, SUFFIX, NULL, &e) < 0)
        log_warn("Could not remove what a crash left behind", kv_err(&e));
}

/* operation as flock(2). */
static int lock(const char *state_dir, int operation, int *ret_fd, struct err *e)
{
    TRY(file_make_dirs(state_dir, DIR_MODE, e));
    auto_free char *path = xasprintf("%s/" LOCK_NAME, state_dir);
    auto_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
    if (fd < 0)
        return err_set_errno(e, errno, "open %s", path);
    int rc;
    do
        rc = flock(fd, operation);
    while (rc < 0 && errno == EINTR);
    if (rc < 0)
        return errno == EWOULDBLOCK
                   ? err_set(e, ERR_CONFLICT, "another process is changing this machine's cards")
                   : err_set_errno(e, errno, "lock %s", path);
    sweep_drafts(state_dir);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int journal_lock(const char *state_dir, int *ret_fd, struct err *e)
{
    return lock(state_dir, LOCK_EX | LOCK_NB, ret_fd, e);
}

int journal_await_lock(const char *state_dir, int *ret_fd, struct err *e)
{
    return lock(state_dir, LOCK_EX, ret_fd, e);
}
