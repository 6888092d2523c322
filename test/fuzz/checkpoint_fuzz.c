/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "nodeagent/kubelet/checkpoint.h"

/* What is read is whole; what cannot be read leaves what was read before. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char good[] =
        "{\"Data\":{\"PodDeviceEntries\":[{\"PodUID\":\"u\",\"ContainerName\":\"c\","
        "\"ResourceName\":\"r/n\",\"DeviceIDs\":{\"0\":[\"GPU-1\"]}}]}}";
    auto_checkpoint struct checkpoint c = {0};
    int rc = checkpoint_parse(good, sizeof(good) - 1, &c, NULL);
    assert(rc == 0 && c.n == 1);
    rc = checkpoint_parse((const char *)data, len, &c, NULL);
    assert(rc == 0 || c.n == 1);
    for (size_t i = 0; i < c.n; i++)
        assert(c.devices[i].id && c.devices[i].resource && c.devices[i].uid);
    return 0;
}
