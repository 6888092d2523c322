/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"

#include "runtime/description.h"
#include "runtime/oci_config.h"

/*
 * A line with a container's configuration, and after it a description. Whatever they are: marks name
 * devices or nothing, and what is applied leaves a configuration that is JSON and has no mark left.
 */

enum { MAX_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int look(void *arg, const char *path, struct oci_node *ret, struct err *e)
{
    (void)arg;
    assert(path[0] == '/');
    if (strlen(path) > 64)
        return err_set(e, ERR_NOT_FOUND, "no such file");
    *ret = (struct oci_node){'c', 195, 1};
    return 0;
}

static void check_grants(const struct grant_mark *grants, size_t n)
{
    assert(n <= OCI_MAX_GRANTS);
    for (size_t i = 0; i < n; i++) {
        auto_free char *path = description_path("/f", &grants[i]);
        assert(strrchr(path, '/') == path + 2 && !strstr(path, "/.."));
    }
}

static void apply(json_t *config, const json_t *description, const struct grant_mark *m)
{
    const json_t *edits;
    struct grant_mark *left = NULL;
    size_t n = 0;
    if (description_device(description, m->name, &edits, NULL) < 0)
        return;
    oci_drop_others(config, description, &edits, 1);
    if (oci_apply(config, edits, look, NULL, NULL) < 0)
        return;
    oci_remove_marks(config);
    assert(oci_grants(config, &left, &n, NULL) == 0 && n == 0);
    free(left);
    auto_free char *text = json_dumps(config, JSON_COMPACT);
    assert(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *text = len ? (const char *)data : "";
    const char *line = memchr(text, '\n', len);
    size_t first = line ? (size_t)(line - text) : len;
    auto_json json_t *config = NULL;
    auto_json json_t *description = NULL;
    auto_free struct grant_mark *grants = NULL;
    size_t n = 0;
    if (jx_parse(text, first, MAX_BYTES, &config, NULL) < 0 ||
        oci_grants(config, &grants, &n, NULL) < 0)
        return 0;
    check_grants(grants, n);
    if (line && n &&
        description_parse(line + 1, len - first - 1, grants[0].vendor, &description, NULL) == 0)
        apply(config, description, &grants[0]);
    return 0;
}
