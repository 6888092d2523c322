/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/last_spec.h"

#include <string.h>

#include "base/file.h"
#include "base/jx.h"
#include "base/xalloc.h"

#include "nodeagent/change/record_version.h"

enum { MAX_BYTES = 2 * 1024 * 1024, DIR_MODE = 0700, FILE_MODE = 0600 };

/* A folder of its own: a file beside the journals would be taken for one. */
#define FOLDER "spec"

static const struct record_versions versions = {LAST_SPEC_VERSION, LAST_SPEC_VERSION};

static char *path_of(const char *state_dir)
{
    return xasprintf("%s/" FOLDER "/last.json", state_dir);
}

int last_spec_write(const char *state_dir, const struct device_spec *spec, struct err *e)
{
    auto_free char *path = path_of(state_dir);
    auto_json json_t *content =
        json_pack("{s:i, s:o}", "version", LAST_SPEC_VERSION, "spec", device_spec_encode(spec));
    auto_free char *folder = xasprintf("%s/" FOLDER, state_dir);
    auto_free char *text = record_version_dump(content, LAST_SPEC_VERSION);
    TRY(file_make_dirs(folder, DIR_MODE, e));
    return file_replace(path, text, strlen(text), FILE_MODE, e);
}

int last_spec_read(const char *state_dir, struct device_spec *ret, struct err *e)
{
    auto_free char *path = path_of(state_dir);
    auto_free char *text = NULL;
    auto_json json_t *content = NULL;
    size_t len;
    TRY(record_version_peek(path, &versions, e));
    TRY(file_read(path, MAX_BYTES, &text, &len, e));
    TRY(jx_parse(text, len, MAX_BYTES, &content, e));
    TRY(record_version_check(path, content, &versions, e));
    return device_spec_decode(content, ret, e);
}
