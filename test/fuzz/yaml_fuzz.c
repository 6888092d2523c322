/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/auto.h"
#include "base/yaml.h"

/* What loads must be written so that it loads equal again. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_document(const json_t *value)
{
    auto_free char *text = yaml_dump(value);
    if (strlen(text) > YAML_MAX_BYTES)
        return;
    auto_json json_t *again = NULL;
    int rc = yaml_load(text, strlen(text), &again, NULL);
    assert(rc == 0 && json_equal(value, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *all = NULL;
    auto_err struct err e = {0};
    int rc = yaml_load_all((const char *)data, len, &all, &e);
    assert((rc == 0) == (all != NULL) && (rc < 0) == (e.msg != NULL));
    for (size_t i = 0; i < json_array_size(all); i++)
        check_document(json_array_get(all, i));
    return 0;
}
