/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/jx.h"
#include "base/yaml.h"

#include "api/gpuprofile.h"
#include "interop/hami_config.h"

/*
 * Input: HAMi's configuration, as one or several YAML documents. What is read must be GPUProfiles
 * that decode, within the bounds of their definition, and each notice a sentence of something.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_selector(const struct label_selector *s)
{
    assert(s->n_match_labels == 1 && s->n_expressions <= 32);
    for (size_t i = 0; i < s->n_expressions; i++)
        assert(s->expressions[i].n_values > 0 && s->expressions[i].n_values <= 256);
}

static void check_profile(const json_t *profile)
{
    auto_gpuprofile_spec struct gpuprofile_spec spec = {0};
    auto_err struct err e = {0};
    int rc = gpuprofile_spec_decode(profile, &spec, &e);
    assert(rc == 0 && spec.n_devices >= 1 && spec.n_devices <= 3);
    const struct gpuprofile_entry *last = &spec.devices[spec.n_devices - 1];
    assert(last->sharing.has_fractional && last->sharing.fractional.max_shares >= 1);
    assert(strncmp(JX_STR_AT(profile, "metadata", "name"), "hami", 4) == 0);
    check_selector(&spec.node_selector);
}

static void check(const struct hami_import *i)
{
    assert(json_array_size(i->profiles) > 0 && i->notices.n <= HAMI_MAX_NOTICES);
    for (size_t k = 0; k < json_array_size(i->profiles); k++)
        check_profile(json_array_get(i->profiles, k));
    for (size_t k = 0; k < i->notices.n; k++)
        assert(i->notices.items[k].where[0] && i->notices.items[k].why[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *docs = NULL;
    auto_err struct err e = {0};
    auto_hami_import struct hami_import import = {0};
    if (yaml_load_all((const char *)data, len, &docs, NULL) < 0)
        return 0;
    for (size_t i = 0; i < json_array_size(docs); i++)
        (void)hami_config_is(json_array_get(docs, i));
    int rc = hami_config_read(docs, &import, &e);
    assert((rc < 0) == (e.msg != NULL));
    if (rc == 0)
        check(&import);
    return 0;
}
