/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/jx.h"

#include "api/gpuprofile.h"
#include "partition/resolve.h"

/*
 * Input: a GPUProfile as JSON. What decodes is resolved against two cards: only cards of the node
 * may come out, and with MIG only what the card can be.
 */
#define MAX_BYTES (1UL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const struct mig_table table = {
    .memory_slices = 8,
    .slices = 7,
    .n_profiles = 3,
    .profiles = {{"1g.10gb", 19, 1, 1, 7, 16, 9984, {1, 1, 0, 1, 0}, 7, {0, 1, 2, 3, 4, 5, 6}},
                 {"3g.40gb", 9, 3, 4, 2, 60, 40448, {3, 3, 0, 3, 0}, 2, {0, 4}},
                 {"7g.80gb", 0, 7, 8, 1, 132, 81152, {8, 7, 0, 7, 1}, 1, {0}}},
};

static void check_wants(const struct device_want *want)
{
    assert(strcmp(want->uuid, "GPU-0") == 0 || strcmp(want->uuid, "GPU-1") == 0);
    if (want->mode != API_MODE_MIG)
        return;
    assert(strcmp(want->uuid, "GPU-0") == 0);
    struct mig_request requests[MIG_MAX_WANTS];
    struct mig_wants wants;
    assert(want->mig.n_profiles <= MIG_MAX_WANTS);
    for (size_t i = 0; i < want->mig.n_profiles; i++)
        requests[i] = (struct mig_request){want->mig.profiles[i].profile,
                                           (unsigned)want->mig.profiles[i].count};
    int rc = mig_resolve(&table, requests, want->mig.n_profiles, &wants, NULL);
    assert(rc == 0 && mig_feasible(&table, &wants));
}

static void check_resolve(const struct gpuprofile_spec *spec)
{
    static const struct resolve_card cards[] = {
        {.uuid = "GPU-0",
         .vendor = "nvidia",
         .model = "NVIDIA H100 80GB HBM3",
         .pci_bus_id = "00000000:17:00.0",
         .pci_device_id = 0x233010DE,
         .mig_capable = true,
         .healthy = true,
         .table = &table},
        {.uuid = "GPU-1",
         .vendor = "nvidia",
         .model = "Tesla T4",
         .pci_bus_id = "00000000:65:00.0",
         .index = 1,
         .healthy = true},
    };
    const struct resolve_profile profile = {"p", 1, spec};
    const struct resolve_input in = {.cards = cards,
                                     .n_cards = ARRAY_LEN(cards),
                                     .profiles = &profile,
                                     .n_profiles = 1};
    auto_resolve_result struct resolve_result r;
    resolve_node(&in, &r);
    assert(r.n_outcomes == 1 && r.spec.n_devices <= ARRAY_LEN(cards));
    for (size_t i = 0; i < r.spec.n_devices; i++)
        check_wants(&r.spec.devices[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *obj = NULL;
    if (jx_parse((const char *)data, len, MAX_BYTES, &obj, NULL) < 0)
        return 0;
    auto_err struct err e = {0};
    auto_gpuprofile_spec struct gpuprofile_spec spec;
    int rc = gpuprofile_spec_decode(obj, &spec, &e);
    assert((rc < 0) == (e.msg != NULL));
    if (rc < 0)
        return 0;
    struct jx_pair labels[] = {{.key = (char[]){"pool"}, .str = (char[]){"a"}}};
    (void)label_selector_matches(&spec.node_selector, labels, ARRAY_LEN(labels));
    size_t n = 0;
    rc = gpuprofile_max_unavailable(spec.rollout.max_unavailable, 10, &n, NULL);
    assert(rc < 0 || n >= 1);
    check_resolve(&spec);
    return 0;
}
