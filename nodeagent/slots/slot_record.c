/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/slot_record.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "api/device.h"
#include "nodeagent/change/record_version.h"
#include "nodeagent/container/slot_pool.h"

enum { MAX_BYTES = 16384, MAX_NAME = 253, DIR_MODE = 0700, FILE_MODE = 0600 };

#define FOLDER "slots"
#define SUFFIX ".json"

static_assert(SLOT_RECORD_OLDEST >= 1 && SLOT_RECORD_OLDEST <= SLOT_RECORD_VERSION, "a range");
static const struct record_versions versions = {SLOT_RECORD_OLDEST, SLOT_RECORD_VERSION};

struct doc {
    int64_t version, slot, memory_mib, compute_percent;
    bool has_memory_level, has_compute_level;
    int memory_level, compute_level;
    bool is_capped, is_low;
    char *card, *ns, *pod, *uid, *container;
    int64_t *nameless;
    size_t n_nameless;
};

static const struct jx_field doc_fields[] =
    {JX_F(doc, version, "version", JX_INT, .required = true, .min = 1, .max = INT32_MAX),
     JX_F(doc, slot, "slot", JX_INT, .required = true, .keep_zero = true, .min = 0,
          .max = SLOT_POOL_SIZE - 1),
     JX_F(doc, card, "card", JX_STR, .required = true, .min = 1, .max = GPU_UUID_BYTES - 1),
     JX_F(doc, ns, "namespace", JX_STR, .required = true, .max = MAX_NAME),
     JX_F(doc, pod, "pod", JX_STR, .required = true, .max = MAX_NAME),
     JX_F(doc, uid, "uid", JX_STR, .required = true, .max = MAX_NAME),
     JX_F(doc, container, "container", JX_STR, .required = true, .max = MAX_NAME),
     JX_F(doc, memory_mib, "memoryMiB", JX_INT, .required = true, .keep_zero = true, .min = 0,
          .max = INT32_MAX),
     JX_F(doc, compute_percent, "computePercent", JX_INT, .required = true, .keep_zero = true,
          .min = 0, .max = 100),
     JX_P(doc, memory_level, has_memory_level, "memoryLevel", JX_ENUM,
          .choices = api_memory_level_names),
     JX_P(doc, compute_level, has_compute_level, "computeLevel", JX_ENUM,
          .choices = api_compute_level_names),
     JX_F(doc, is_capped, "computeCapped", JX_BOOL),
     JX_F(doc, is_low, "lowPriority", JX_BOOL),
     JX_L(doc, nameless, n_nameless, "nameless", JX_INT_LIST, .max = SGPU_MAX_SLICES),
     {0}};

static void doc_done(struct doc *d)
{
    jx_free(doc_fields, d);
}
AUTO_DEFINE(doc, struct doc, doc_done)
#define auto_doc AUTO(doc)

static char *path_of(const char *state_dir, unsigned slot)
{
    char name[SLOT_WORD_BYTES];
    return xasprintf("%s/" FOLDER "/%s" SUFFIX, state_dir, slot_name(slot, name));
}

static char *encode(const struct slot_record *r)
{
    assert(r->slot < SLOT_MAX && *r->card && r->nameless.n <= SGPU_MAX_SLICES);
    assert(r->ns && r->pod && r->uid && r->container); /* else it could not be read again */
    auto_doc struct doc d = {
        .version = SLOT_RECORD_VERSION,
        .slot = slot_number(r->slot),
        .card = xstrdup(r->card),
        .ns = xstrdup(r->ns),
        .pod = xstrdup(r->pod),
        .uid = xstrdup(r->uid),
        .container = xstrdup(r->container),
        .memory_mib = r->quota.memory_mib,
        .compute_percent = r->quota.compute_percent,
        .has_memory_level = r->memory_level != API_LEVEL_NONE,
        .memory_level = r->memory_level,
        .has_compute_level = r->compute_level != API_LEVEL_NONE,
        .compute_level = r->compute_level,
        .is_capped = r->is_capped,
        .is_low = r->is_low,
    };
    for (unsigned i = 0; i < r->nameless.n; i++)
        *XPUSH(d.nameless, d.n_nameless) = r->nameless.ids[i];
    auto_json json_t *json = jx_encode(doc_fields, &d);
    return record_version_dump(json, SLOT_RECORD_VERSION);
}

int slot_record_write(const char *state_dir, const struct slot_record *r, struct err *e)
{
    auto_free char *folder = xasprintf("%s/" FOLDER, state_dir);
    auto_free char *path = path_of(state_dir, r->slot);
    auto_free char *text = encode(r);
    TRY(file_make_dirs(folder, DIR_MODE, e));
    return file_write_atomic(path, text, strlen(text), FILE_MODE, e);
}

static int decode(const char *path, const char *text, size_t len, unsigned slot,
                  struct slot_record *ret, struct err *e)
{
    auto_json json_t *json = NULL;
    auto_doc struct doc d = {0};
    TRY(jx_parse(text, len, MAX_BYTES, &json, e));
    TRY(record_version_check(path, json, &versions, e));
    TRY(jx_decode(json, doc_fields, &d, e));
    if (d.slot != slot_number(slot))
        return err_set(e, ERR_INVALID, "it is about slot %lld", (long long)d.slot);
    struct slot_record r = {.slot = slot,
                            .ns = TAKE(d.ns),
                            .pod = TAKE(d.pod),
                            .uid = TAKE(d.uid),
                            .container = TAKE(d.container),
                            .quota = {(unsigned)d.memory_mib, (unsigned)d.compute_percent},
                            .memory_level = d.memory_level,
                            .compute_level = d.compute_level,
                            .is_capped = d.is_capped,
                            .is_low = d.is_low};
    (void)snprintf(r.card, sizeof(r.card), "%s", d.card);
    assert(d.n_nameless <= SGPU_MAX_SLICES); /* doc_fields has the bound */
    for (size_t i = 0; i < d.n_nameless; i++)
        r.nameless.ids[r.nameless.n++] = (unsigned)d.nameless[i];
    *ret = r;
    return 0;
}

int slot_record_read(const char *state_dir, unsigned slot, struct slot_record *ret, struct err *e)
{
    auto_free char *path = path_of(state_dir, slot);
    auto_free char *text = NULL;
    auto_err struct err why = {0};
    size_t len = 0;
    TRY(record_version_peek(path, &versions, e));
    int rc = file_read(path, MAX_BYTES, &text, &len, &why);
    if (rc < 0 && why.kind != ERR_TOO_LARGE)
        return err_move(e, &why);
    if (rc == 0)
        rc = decode(path, text, len, slot, ret, &why);
    if (rc == -ERR_CONFLICT)
        return err_move(e, &why);
    if (rc < 0)
        return err_set(e, ERR_PROTOCOL, "%s cannot be used: %s", path, err_msg(&why));
    return 0;
}

int slot_record_take(const char *state_dir, unsigned slot, struct slot_record *ret, struct err *e)
{
    auto_err struct err why = {0};
    char name[SLOT_WORD_BYTES];
    int rc = slot_record_read(state_dir, slot, ret, &why);
    if (rc == -ERR_CONFLICT)
        return err_move(e, &why);
    if (rc < 0 && rc != -ERR_NOT_FOUND)
        log_warn("A record of a slot is lost", kv("slot", slot_name(slot, name)), kv_err(&why));
    return 0;
}

int slot_record_remove(const char *state_dir, unsigned slot, struct err *e)
{
    auto_free char *path = path_of(state_dir, slot);
    return file_remove(path, e);
}

/* The slot of a file name; -1: not a record's. */
static int slot_in(const char *file)
{
    size_t len = strlen(file);
    if (len <= strlen(SUFFIX) || strcmp(file + len - strlen(SUFFIX), SUFFIX) != 0)
        return -1;
    auto_free char *name = xstrndup(file, len - strlen(SUFFIX));
    return slot_of_name(name);
}

int slot_records_list(const char *state_dir, unsigned **ret, size_t *ret_n, struct err *e)
{
    auto_free char *folder = xasprintf("%s/" FOLDER, state_dir);
    auto_dir DIR *dir = opendir(folder);
    if (!dir && errno != ENOENT)
        return err_set_errno(e, errno, "read %s", folder);
    *ret = NULL;
    *ret_n = 0;
    const struct dirent *entry;
    while (dir && *ret_n < SLOT_MAX && (entry = readdir(dir)) != NULL) {
        int slot = slot_in(entry->d_name);
        if (slot >= 0)
            *XPUSH(*ret, *ret_n) = (unsigned)slot;
    }
    return 0;
}

void slot_records_sweep(const char *state_dir)
{
    auto_err struct err e = {0};
    auto_free char *folder = xasprintf("%s/" FOLDER, state_dir);
    if (file_sweep(folder, SUFFIX, /* ret_n= */ NULL, &e) < 0)
        log_warn("Could not remove the drafts of records", kv("folder", folder), kv_err(&e));
}

void slot_record_done(struct slot_record *r)
{
    free(r->ns);
    free(r->pod);
    free(r->uid);
    free(r->container);
    *r = (struct slot_record){0};
}
