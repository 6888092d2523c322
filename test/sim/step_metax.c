/* SPDX-License-Identifier: Apache-2.0 */
/* MetaX's changing calls, instruction by instruction (step.h). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/mxsml.h"
#include "test/sim/step.h"

static void must(unsigned int rc, const char *what)
{
    if (rc == MXSML_SUCCESS)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, mxSmlGetErrorString(rc));
    exit(1);
}

static void change(void)
{
    unsigned int id = 0;
    must(mxSmlInit(), "init");
    (void)raise(SIGSTOP);
    must(mxSmlSetSgpuToggle(0, 1), "toggle");
    (void)raise(SIGSTOP);
    must(mxSmlSetDeviceSchedClass(0, MXSML_FIXED_SHARE), "class");
    (void)raise(SIGSTOP);
    must(mxSmlCreateSgpu(0, 1024, 10, &id), "create a slice");
    (void)raise(SIGSTOP);
    must(mxSmlSetSgpuVramQuota(0, id, 2048), "quota");
    (void)raise(SIGSTOP);
    must(mxSmlRemoveSgpu(0, id), "remove the slice");
    (void)raise(SIGSTOP);
}

int main(void)
{
    return step_main(change, 5);
}
