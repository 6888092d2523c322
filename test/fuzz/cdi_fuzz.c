/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/cdi.h"
#include "nodeagent/kubelet/cdi_common.h"

/* Whatever files and devices are called, the parts of the spec are JSON, and a name that is said to
 * be legal comes back as it was. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_device(char *name)
{
    const struct device_nodes nodes = {0};
    const struct entry_device d = {.cdi_name = name, .minor = 1};
    auto_free char *text = NULL;
    if (!cdi_is_name(name))
        return;
    int rc = cdi_device_render(&nodes, &d, &text, NULL);
    assert(rc == 0);
    auto_json json_t *parsed = json_loads(text, 0, NULL);
    assert(parsed && strcmp(json_string_value(json_object_get(parsed, "name")), name) == 0);
}

static void check_common(char *path)
{
    struct device_nodes nodes = {.ctl = true, .host_dev_root = path};
    struct driver_file file = {DRIVER_LIBRARY, path, path};
    struct driver_link link = {path, path, path};
    const struct driver_files files = {&file, 1, &link, 1, &path, 1};
    const struct cdi_common_options ways[] = {
        {.hook = NULL, .second_folder = path, .set_library_path = true},
        {.hook = path, .second_folder = "", .newer_hooks = true},
    };
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        auto_free char *text = cdi_common_render(&ways[i], &nodes, &files);
        auto_json json_t *parsed = json_loads(text, 0, NULL);
        assert(parsed);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_free char *text = xstrndup((const char *)data, len);
    check_device(text);
    check_common(text);
    return 0;
}
