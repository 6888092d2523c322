/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "base/jx.h"
#include "base/yaml.h"

#include "interop/migparted.h"

/*
 * Input: a mig-parted file, or a ConfigMap with one, as YAML. What is read must be written and read
 * back equal, decode as a MIGConfig, and have a name that an API server takes.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* RFC 1123 subdomain of at most 63 bytes. */
static bool is_object_name(const char *s)
{
    size_t len = strlen(s);
    for (size_t i = 0; i < len; i++) {
        bool plain = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= '0' && s[i] <= '9');
        bool inner = i > 0 && i + 1 < len;
        if (!plain && !(inner && s[i] == '-') && !(inner && s[i] == '.'))
            return false;
        if (s[i] == '.' && (s[i - 1] == '-' || s[i - 1] == '.' || s[i + 1] == '-'))
            return false;
    }
    return len > 0 && len <= 63;
}

static void check_entry(const struct migparted_entry *entry)
{
    assert(is_object_name(entry->object_name));
    auto_json json_t *written = migparted_write(entry->name, &entry->spec);
    auto_migparted_file struct migparted_file again = {0};
    int rc = migparted_read(written, &again, NULL);
    assert(rc == 0 && again.n == 1);
    auto_json json_t *before = migparted_object(entry);
    auto_json json_t *after = migparted_object(&again.entries[0]);
    assert(json_equal(before, after));
    auto_migconfig_spec struct migconfig_spec spec;
    rc = migconfig_spec_decode(before, &spec, NULL);
    assert(rc == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *doc = NULL;
    if (yaml_load((const char *)data, len, &doc, NULL) < 0)
        return 0;
    auto_err struct err e = {0};
    auto_migparted_file struct migparted_file f = {0};
    int rc = migparted_read(doc, &f, &e);
    assert((rc < 0) == (e.msg != NULL));
    for (size_t i = 0; i < f.n; i++)
        check_entry(&f.entries[i]);
    return 0;
}
