/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"

#include "nodeagent/container/go_version.h"

/* A program of the host's, whose headers may say anything: what is read is within it, and where
 * there is no version nothing is said of one. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct go_version v = {-7, -7};
    auto_fd int fd = memfd_create("program", MFD_CLOEXEC);
    assert(fd >= 0);
    for (size_t done = 0; done < len;) {
        ssize_t n = write(fd, data + done, len - done);
        assert(n > 0);
        done += (size_t)n;
    }
    if (go_version_read(fd, "github.com/containerd/containerd", &v, NULL) == 0)
        assert(v.major >= 1 && v.minor >= -1);
    else
        assert(v.major == -7 && v.minor == -7);
    return 0;
}
