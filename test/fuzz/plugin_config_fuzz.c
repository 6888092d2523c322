/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "nodeagent/offer/plugin_config_build.h"

/*
 * Input: a configuration file of NVIDIA's device plugin, as YAML or JSON. What is understood must
 * be whole and within its bounds; what is not must say why, and leave nothing behind.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(const struct plugin_config *c)
{
    assert(c->ways && c->driver_root && c->dev_root && c->container_driver_root && c->mps_root);
    assert(c->driver_root[0] == '/' || !*c->driver_root);
    assert(c->n_shared <= PLUGIN_CONFIG_MAX_SHARED && c->n_notices <= PLUGIN_CONFIG_MAX_NOTICES);
    assert((c->sharing == PLUGIN_UNSHARED) == (c->n_shared == 0));
    for (size_t i = 0; i < c->n_shared; i++) {
        const struct plugin_shared *s = &c->shared[i];
        assert(strncmp(s->name, "nvidia.com/", 11) == 0 && strlen(s->offered_as) <= 63);
        assert(s->replicas >= 2 && s->replicas <= PLUGIN_CONFIG_MAX_REPLICAS);
    }
    for (size_t i = 0; i < c->n_notices; i++)
        assert(c->notices[i].where && *c->notices[i].why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct plugin_config c = {0};
    auto_err struct err e = {0};
    const struct plugin_config_source src = {.file_text = (const char *)data, .file_bytes = len};
    int rc = plugin_config_build(&src, &c, &e);
    assert((rc < 0) == (e.msg != NULL));
    if (rc == 0)
        check(&c);
    plugin_config_done(&c);
    return 0;
}
