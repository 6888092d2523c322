/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/vendor/nvidia/nvidia_nodes.h"

/* What is read is within bounds, and each capability is found again. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_minors(const char *text)
{
    auto_nvidia_nodes struct nvidia_nodes n = {0};
    if (nvidia_nodes_parse_mig_minors(text, &n, NULL) < 0)
        return;
    for (size_t i = 0; i < n.n_caps; i++) {
        const struct nvidia_nodes_cap *c = &n.caps[i];
        assert(c->ci_id >= -1 && c->minor < 1U << 20);
        assert(nvidia_nodes_cap_minor(&n, c->card_minor, c->gi_id, c->ci_id) >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_free char *text = xstrndup((const char *)data, len);
    int major = nvidia_nodes_parse_major(text, "nvidia-caps");
    assert(major >= -1 && major < 1 << 20);
    struct nvidia_nodes_file f = nvidia_nodes_parse_file(text);
    assert(f.minor >= -1 && f.mode <= 0777);
    check_minors(text);
    return 0;
}
