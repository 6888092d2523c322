/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "kubeclient/kubeconfig.h"

/* Whatever a kubeconfig says, it is read or refused with a reason; what is read has a server. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_kc_config struct kc_config config = {0};
    auto_err struct err e = {0};
    int rc = kubeconfig_parse((const char *)data, len, "/folder", /* context= */ NULL, &config, &e);
    assert((rc < 0) == (e.msg != NULL));
    assert((rc == 0) == (config.server != NULL));
    if (rc == 0)
        assert(!strncmp(config.server, "http", 4));
    return 0;
}
