/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/auto.h"

#include "nodeagent/container/cri_config.h"
#include "nodeagent/container/go_version.h"
#include "nodeagent/container/toml_scan.h"

/* A container runtime's configuration, and the record in its program: what is read is within
 * bounds, and a configuration that is refused changes nothing. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_value(void *arg, const struct toml_value *v)
{
    size_t *n = arg;
    assert(v->n_keys > 0 && v->n_keys <= TOML_MAX_DEPTH);
    for (size_t i = 0; i < v->n_keys; i++)
        assert(strlen(v->keys[i]) <= TOML_MAX_TEXT);
    assert(strlen(v->text) <= TOML_MAX_TEXT);
    ++*n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *text = (const char *)data;
    struct cri_config c = {.cdi = CRI_ON};
    struct go_version v;
    bool is_default;
    size_t n = 0;
    int rc = toml_scan(len ? text : "", len, check_value, &n, NULL);
    assert(n <= len);
    assert((cri_config_take(&c, len ? text : "", len, NULL) < 0) == (rc < 0));
    assert(rc == 0 || (c.cdi == CRI_ON && c.n_imports == 0));
    assert(c.nvidia.n <= CRI_MAX_HANDLERS && c.own.n <= CRI_MAX_HANDLERS &&
           c.n_imports <= CRI_MAX_IMPORTS);
    const char *handler = cri_config_handler(&c, &c.nvidia, &is_default);
    assert(!is_default || handler);
    struct cri_config docker = {0};
    if (cri_config_take_docker(&docker, len ? text : "", len, NULL) == 0)
        assert(docker.nvidia.n <= CRI_MAX_HANDLERS && docker.own.n <= CRI_MAX_HANDLERS);
    if (go_version_parse(len ? text : "", len, "github.com/containerd/containerd", &v, NULL) == 0)
        assert(v.major >= 1 && v.minor >= -1);
    return 0;
}
