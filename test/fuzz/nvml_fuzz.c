/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nodeagent/gpu/gpu_event.h"
#include "nodeagent/vendor/nvidia/nvml_open.h"
#include "nodeagent/vendor/vendor_backend.h"
#include "test/fuzz/inventory_support.h"
#include "test/unit/nvml_mad.h"

/*
 * Input: how NVIDIA's library differs from a sane one, answer by answer, through two readings, each
 * verb, and the child that waits for events.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void read_all(struct gpu *g)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    if (g->ops->read(g, &inv, NULL) == 0)
        check_inventory(&inv);
}

static void use(struct gpu *g, const char *uuid)
{
    auto_gpu_card struct gpu_card card = {0};
    enum gpu_mode_result mode;
    struct gpu_limit limit;
    unsigned id;
    if (g->ops->read_card(g, uuid, &card, NULL) == 0)
        check_card(&card);
    (void)g->ops->mode_set(g, uuid, GPU_MIG, &mode, NULL);
    (void)g->ops->gi_create(g, uuid, 19, 1, 1, &id, NULL);
    (void)g->ops->ci_create(g, uuid, 7, 1, 0, &id, NULL);
    (void)g->ops->ci_destroy(g, uuid, 7, 0, NULL);
    (void)g->ops->gi_destroy(g, uuid, 7, NULL);
    (void)g->ops->exclusive_set(g, uuid, true, NULL);
    (void)g->ops->limit_set(g, uuid, "/sys/fs/cgroup", 1 << 20, NULL);
    (void)g->ops->limit_get(g, uuid, "/sys/fs/cgroup", &limit, NULL);
    check_measure(g, uuid);
}

/* What the child writes is whole events that the agent can read. */
static void wait_for_events(void)
{
    auto_fd int out = memfd_create("events", MFD_CLOEXEC);
    struct gpu_event ev;
    assert(out >= 0);
    int rc = vendor_watch_events("", /* beat_ms= */ 1000, /* beat_fd= */ -1, out, NULL);
    assert(rc <= 0);
    (void)lseek(out, 0, SEEK_SET);
    ssize_t got;
    while ((got = read(out, &ev, sizeof(ev))) > 0) {
        assert(got == (ssize_t)sizeof(ev) && ev.kind <= GPU_EVENT_OTHER);
        assert(ev.gi_id >= -1 && ev.ci_id >= -1);
        ENDS(ev.uuid);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct nvml_options o = {.library = "",
                                          .nvidia_smi = "/nowhere",
                                          .proc_root = "/nowhere",
                                          .sys_root = "/nowhere"};
    struct gpu *g = NULL;
    if (len > 4096)
        return 0;
    nvml_mad_feed(data, len);
    int rc = gpu_nvml_open(&o, &g, NULL);
    assert(rc == 0);
    read_all(g);
    use(g, "GPU-1");
    read_all(g);
    (void)gpu_free(g);
    wait_for_events();
    return 0;
}
