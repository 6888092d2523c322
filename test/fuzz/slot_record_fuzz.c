/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/slots/slot_record.h"

/*
 * Input: a slot's record as a full disk, a crash, a person or another release left it. What can be
 * read can be written and is read equal; what cannot stays, is listed, and can be removed.
 */
#define SLOT      3
#define MAX_BYTES (1UL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static char folder[] = "/tmp/slot_record_fuzz.XXXXXX";

static void remove_folders(void)
{
    auto_free char *slots = xasprintf("%s/slots", folder);
    (void)rmdir(slots);
    (void)rmdir(folder);
}

static void make_folders(void)
{
    static bool made;
    if (made)
        return;
    made = mkdtemp(folder) != NULL;
    assert(made);
    auto_free char *slots = xasprintf("%s/slots", folder);
    int rc = file_make_dirs(slots, 0700, NULL);
    assert(rc == 0);
    (void)atexit(remove_folders);
}

/* The file as it is once this record was written. */
static char *written(const struct slot_record *r, const char *path)
{
    char *text = NULL;
    int rc = slot_record_write(folder, r, NULL);
    assert(rc == 0);
    rc = file_read(path, MAX_BYTES, &text, /* ret_len= */ NULL, NULL);
    assert(rc == 0);
    return text;
}

static void check_record(const struct slot_record *first, const char *path)
{
    auto_slot_record struct slot_record second = {0};
    assert(first->slot == SLOT && first->card[0] && first->nameless.n <= SGPU_MAX_SLICES);
    assert(first->ns && first->pod && first->uid && first->container);
    auto_free char *once = written(first, path);
    int rc = slot_record_read(folder, SLOT, &second, NULL);
    assert(rc == 0);
    auto_free char *twice = written(&second, path);
    assert(strcmp(once, twice) == 0);
}

static void check_listed(void)
{
    auto_free unsigned *slots = NULL;
    size_t n = 0;
    int rc = slot_records_list(folder, &slots, &n, NULL);
    assert(rc == 0 && n == 1 && slots[0] == SLOT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_err struct err e = {0};
    auto_slot_record struct slot_record r = {0};
    make_folders();
    auto_free char *path = xasprintf("%s/slots/slot.%d.json", folder, SLOT);
    int rc = file_replace(path, (const char *)data, len, 0600, NULL);
    assert(rc == 0);
    rc = slot_record_read(folder, SLOT, &r, &e);
    assert((rc < 0) == (e.msg != NULL));
    if (rc == 0)
        check_record(&r, path);
    check_listed();
    rc = slot_record_remove(folder, SLOT, NULL);
    assert(rc == 0 && access(path, F_OK) < 0);
    return 0;
}
