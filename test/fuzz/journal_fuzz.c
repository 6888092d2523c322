/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/change/journal.h"

/*
 * Input: a journal's file as a full disk, a crash, a person or another release left it. What can be
 * read can be written and is read equal; what is of another version stays; what cannot be read is
 * moved out of the way.
 */
#define CARD      "GPU-1"
#define MAX_BYTES (1UL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static char folder[] = "/tmp/journal_fuzz.XXXXXX";

static void remove_folder(void)
{
    (void)rmdir(folder);
}

static void remove_in_folder(const char *name)
{
    auto_free char *path = xasprintf("%s/%s", folder, name);
    (void)unlink(path);
}

static void make_folder(void)
{
    static bool made;
    if (made)
        return;
    made = mkdtemp(folder) != NULL;
    assert(made);
    (void)atexit(remove_folder);
}

/* The file as it is once this journal was written. */
static char *written(const struct journal *j, const char *path)
{
    char *text = NULL;
    int rc = journal_write(folder, j, NULL);
    assert(rc == 0);
    rc = file_read(path, MAX_BYTES, &text, /* ret_len= */ NULL, NULL);
    assert(rc == 0);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_err struct err e = {0};
    struct journal first, second;
    make_folder();
    auto_free char *path = xasprintf("%s/" CARD ".json", folder);
    int rc = file_replace(path, (const char *)data, len, 0600, NULL);
    assert(rc == 0);
    rc = journal_read(folder, CARD, &first, &e);
    assert((rc < 0) == (e.msg != NULL));
    assert((rc < 0 && rc != -ERR_CONFLICT) == (access(path, F_OK) < 0));
    assert((rc == -ERR_CONFLICT) == (e.reason && strcmp(e.reason, "OtherVersion") == 0));
    if (rc == 0) {
        auto_free char *once = written(&first, path);
        rc = journal_read(folder, CARD, &second, NULL);
        assert(rc == 0);
        auto_free char *twice = written(&second, path);
        assert(strcmp(once, twice) == 0);
    }
    remove_in_folder(CARD ".json");
    remove_in_folder(CARD ".json.bad-1");
    return 0;
}
