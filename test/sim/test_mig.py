# SPDX-License-Identifier: Apache-2.0
"""The MIG life cycle on every model."""
import ctypes
import math

import pynvml as nv
import pytest
from conftest import create, create_whole, mig_on, placements, profiles, refuses

SEVEN = {
    19: ([0, 1, 2, 3, 4, 5, 6], 1),
    20: ([0, 1, 2, 3, 4, 5, 6], 1),
    15: ([0, 2, 4, 6], 2),
    14: ([0, 2, 4], 2),
    9: ([0, 4], 4),
    5: ([0], 4),
    0: ([0], 8),
}
A30 = {14: ([0, 1, 2, 3], 1), 21: ([0, 1, 2, 3], 1), 5: ([0, 2], 2), 6: ([0, 2], 2), 0: ([0], 4)}
RTX = {id: ([0, 3, 6, 9], 3) for id in (14, 21, 47, 65, 67)} | {id: ([0, 6], 6) for id in (5, 35, 64, 66)}
RTX |= {0: ([0], 12), 32: ([0], 12)}

MODELS = {
    "a100-40": ("1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb", SEVEN),
    "a100-80": ("1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb", SEVEN),
    "h100-80": ("1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb", SEVEN),
    "h100-nvl": ("1g.12gb 1g.12gb+me 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb", SEVEN),
    "h200": ("1g.18gb 1g.18gb+me 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb", SEVEN),
    "b200": ("1g.23gb 1g.23gb+me 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb", SEVEN),
    "a30": ("1g.6gb 1g.6gb+me 2g.12gb 2g.12gb+me 4g.24gb", A30),
    "rtx-pro-6000": (
        "1g.24gb 1g.24gb+me 1g.24gb+gfx 1g.24gb+me.all 1g.24gb-me 2g.48gb 2g.48gb+gfx 2g.48gb+me.all 2g.48gb-me "
        "4g.96gb 4g.96gb+gfx",
        RTX,
    ),
}
every_model = pytest.mark.parametrize("model", MODELS)


@every_model
def test_profiles_have_the_drivers_names_and_placements_even_with_mig_off(machine, model):
    machine(f"gpus: [{{model: {model}}}]")
    device = nv.nvmlDeviceGetHandleByIndex(0)
    names, places = MODELS[model]
    assert sorted(p.name for p in profiles(device)) == sorted("MIG " + n for n in names.split())
    assert {p.id: placements(device, p.id) for p in profiles(device)} == {
        id: [(s, size) for s in starts] for id, (starts, size) in places.items()
    }


@every_model
def test_the_gb_that_clients_compute_is_the_gb_of_the_name(machine, model):
    machine(f"gpus: [{{model: {model}}}]")
    device = nv.nvmlDeviceGetHandleByIndex(0)
    total = nv.nvmlDeviceGetMemoryInfo(device).total
    for p in profiles(device):
        eighths = math.ceil(8 * p.memorySizeMB * 2**20 / total)
        gb = math.floor(eighths / 8 * math.ceil(total / 2**30) + 0.5)
        assert f".{gb}gb" in p.name


@every_model
def test_each_profile_fits_its_maximum_count_and_no_more(machine, model):
    machine(f"gpus: [{{model: {model}}}]")
    device = mig_on()
    for p in profiles(device):
        made = []
        while nv.nvmlDeviceGetGpuInstanceRemainingCapacity(device, p.id) > 0:
            made.append(create_whole(device, p.id))
        assert len(made) == p.instanceCount, p.name
        refuses(nv.NVML_ERROR_INSUFFICIENT_RESOURCES, nv.nvmlDeviceCreateGpuInstance, device, p.id)
        for gi, ci, info in made:
            attributes = nv.nvmlDeviceGetAttributes(info.device)
            assert attributes.memorySizeMB == p.memorySizeMB
            assert attributes.multiprocessorCount == p.multiprocessorCount
            assert attributes.gpuInstanceSliceCount == attributes.computeInstanceSliceCount == p.sliceCount
            assert nv.nvmlDeviceGetMemoryInfo(info.device).total == p.memorySizeMB << 20
            refuses(nv.NVML_ERROR_IN_USE, nv.nvmlGpuInstanceDestroy, gi)
            nv.nvmlComputeInstanceDestroy(ci)
            nv.nvmlGpuInstanceDestroy(gi)


def test_the_driver_places_where_it_blocks_least(h100):
    device = mig_on()
    assert [create(device, 19)[1].placement.start for _ in range(7)] == [6, 4, 5, 0, 1, 2, 3]


@pytest.mark.parametrize("profile,start", [(14, 4), (9, 4), (5, 0), (0, 0), (15, 6)])
def test_the_drivers_first_choice_on_an_empty_card(h100, profile, start):
    assert create(mig_on(), profile)[1].placement.start == start


def test_ids_are_those_of_the_memory_tree(h100):
    device = mig_on()
    assert create(device, 9, 4)[1].id == 2
    assert create(device, 14, 0)[1].id == 3
    assert create(device, 19, 2)[1].id == 9
    assert create(device, 19, 3)[1].id == 10


def test_an_occupied_placement_is_insufficient_resources_and_an_unknown_one_a_wrong_argument(h100):
    device = mig_on()
    create(device, 14, 2)
    refuses(nv.NVML_ERROR_INSUFFICIENT_RESOURCES, create, device, 9, 0)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, create, device, 9, 2)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, create, device, 14, 6)


def test_ids_come_again_and_uuids_do_not(h100):
    device = mig_on()
    gi, ci, info = create_whole(device, 9, 0)
    first = (nv.nvmlGpuInstanceGetInfo(gi).id, info.id, nv.nvmlDeviceGetUUID(info.device))
    nv.nvmlComputeInstanceDestroy(ci)
    nv.nvmlGpuInstanceDestroy(gi)
    gi, ci, info = create_whole(device, 9, 0)
    second = (nv.nvmlGpuInstanceGetInfo(gi).id, info.id, nv.nvmlDeviceGetUUID(info.device))
    assert first[:2] == second[:2]
    assert first[2] != second[2]


def test_a_handle_of_a_dead_instance_stays_dead(h100):
    device = mig_on()
    gi, ci, info = create_whole(device, 9, 0)
    nv.nvmlComputeInstanceDestroy(ci)
    nv.nvmlGpuInstanceDestroy(gi)
    create_whole(device, 9, 0)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlGpuInstanceGetInfo, gi)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlComputeInstanceGetInfo, ci)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlDeviceGetUUID, info.device)


def test_media_extensions_are_had_once(h100):
    device = mig_on()
    create(device, 20)
    refuses(nv.NVML_ERROR_INSUFFICIENT_RESOURCES, nv.nvmlDeviceCreateGpuInstance, device, 20)
    assert nv.nvmlDeviceGetGpuInstanceRemainingCapacity(device, 19) == 6


def test_all_media_leaves_room_only_for_none(machine):
    machine("gpus: [{model: rtx-pro-6000}]")
    device = mig_on()
    create(device, 65)
    left = {p.name: nv.nvmlDeviceGetGpuInstanceRemainingCapacity(device, p.id) for p in profiles(device)}
    assert {name for name, n in left.items() if n > 0} == {"MIG 1g.24gb-me", "MIG 2g.48gb-me"}


def test_two_3g_strand_a_slice_and_4g_with_3g_uses_all(h100):
    device = mig_on()
    create(device, 9, 0), create(device, 9, 4)
    assert nv.nvmlDeviceGetGpuInstanceRemainingCapacity(device, 19) == 0
    other = mig_on(1)
    create(other, 5), create(other, 9)
    assert nv.nvmlDeviceGetGpuInstanceRemainingCapacity(other, 19) == 0


def test_possible_placements_need_room_in_the_buffer(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    count = ctypes.c_uint(2)
    buffer = (nv.c_nvmlGpuInstancePlacement_t * 2)()
    refuses(
        nv.NVML_ERROR_INSUFFICIENT_SIZE,
        nv.nvmlDeviceGetGpuInstancePossiblePlacements,
        device,
        19,
        buffer,
        ctypes.byref(count),
    )
    assert count.value == 7


def test_instances_are_listed_by_profile(h100):
    device = mig_on()
    create(device, 19, 0), create(device, 19, 5), create(device, 14, 2)
    array = (nv.c_nvmlGpuInstance_t * 7)()
    count = ctypes.c_uint()
    nv.nvmlDeviceGetGpuInstances(device, 19, array, ctypes.byref(count))
    starts = [nv.nvmlGpuInstanceGetInfo(array[i]).placement.start for i in range(count.value)]
    assert starts == [0, 5]
    assert nv.nvmlGpuInstanceGetInfo(nv.nvmlDeviceGetGpuInstanceById(device, 4)).profileId == 14
    refuses(nv.NVML_ERROR_NOT_FOUND, nv.nvmlDeviceGetGpuInstanceById, device, 0)


def test_the_profile_walk_ends_with_invalid_argument(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlDeviceGetGpuInstanceProfileInfo, device, 0x12)
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetGpuInstanceProfileInfo, device, 0x5)


def test_compute_instances_of_each_size(h100):
    device = mig_on()
    wanted = {19: {0: 1}, 14: {0: 2, 1: 1}, 9: {0: 3, 1: 1, 2: 1}, 5: {0: 4, 1: 2, 3: 1}, 0: {0: 7, 1: 3, 2: 2, 3: 1, 4: 1}}
    for profile, counts in wanted.items():
        gi, _ = create(device, profile)
        got = {}
        for e in range(nv.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            try:
                p = nv.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, e, 0)
            except nv.NVMLError_NotSupported:
                continue
            if e != nv.NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1:
                got[p.id] = nv.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi, p.id)
        assert got == counts
        nv.nvmlGpuInstanceDestroy(gi)


def test_a_split_instance_shares_memory_and_divides_compute(h100):
    device = mig_on()
    gi, _ = create(device, 9)
    infos = [nv.nvmlComputeInstanceGetInfo(nv.nvmlGpuInstanceCreateComputeInstance(gi, 0)) for _ in range(3)]
    assert [(i.id, i.placement.start, i.placement.size) for i in infos] == [(0, 0, 1), (1, 1, 1), (2, 2, 1)]
    assert nv.nvmlDeviceGetName(infos[0].device) == "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb"
    attributes = nv.nvmlDeviceGetAttributes(infos[0].device)
    assert (attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount) == (3, 1)
    refuses(nv.NVML_ERROR_INSUFFICIENT_RESOURCES, nv.nvmlGpuInstanceCreateComputeInstance, gi, 0)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlGpuInstanceCreateComputeInstance, gi, 4)


def test_a_compute_instance_is_placed_where_it_is_asked_to(h100):
    gi, _ = create(mig_on(), 0)
    where = nv.c_nvmlComputeInstancePlacement_t(4, 2)
    ci = nv.nvmlGpuInstanceCreateComputeInstanceWithPlacement(gi, 1, ctypes.byref(where))
    assert nv.nvmlComputeInstanceGetInfo(ci).placement.start == 4
    refuses(
        nv.NVML_ERROR_INSUFFICIENT_RESOURCES,
        nv.nvmlGpuInstanceCreateComputeInstanceWithPlacement,
        gi,
        1,
        ctypes.byref(where),
    )
    where.start = 1
    refuses(
        nv.NVML_ERROR_INVALID_ARGUMENT,
        nv.nvmlGpuInstanceCreateComputeInstanceWithPlacement,
        gi,
        1,
        ctypes.byref(where),
    )


def test_mig_devices_are_found_by_index_uuid_and_parent(h100):
    device = mig_on()
    made = [create_whole(device, 19)[2].device for _ in range(3)]
    assert nv.nvmlDeviceGetMaxMigDeviceCount(device) == 7
    found = [nv.nvmlDeviceGetMigDeviceHandleByIndex(device, i) for i in range(3)]
    assert {nv.nvmlDeviceGetUUID(d) for d in found} == {nv.nvmlDeviceGetUUID(d) for d in made}
    refuses(nv.NVML_ERROR_NOT_FOUND, nv.nvmlDeviceGetMigDeviceHandleByIndex, device, 3)
    again = nv.nvmlDeviceGetHandleByUUID(nv.nvmlDeviceGetUUID(made[1]))
    assert nv.nvmlDeviceIsMigDeviceHandle(again).value == 1
    assert nv.nvmlDeviceGetGpuInstanceId(again) == nv.nvmlDeviceGetGpuInstanceId(made[1])
    assert nv.nvmlDeviceGetComputeInstanceId(again) == 0
    parent = nv.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(again)
    assert nv.nvmlDeviceGetUUID(parent) == nv.nvmlDeviceGetUUID(device)
    assert nv.nvmlDeviceIsMigDeviceHandle(device).value == 0


def test_hopper_changes_mode_at_once_and_not_over_instances(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceSetMigMode(device, 1) == nv.NVML_SUCCESS
    assert nv.nvmlDeviceGetMigMode(device) == [1, 1]
    gi, _ = create(device, 0)
    assert nv.nvmlDeviceSetMigMode(device, 0) == nv.NVML_ERROR_IN_USE
    assert nv.nvmlDeviceGetMigMode(device) == [1, 0]
    nv.nvmlGpuInstanceDestroy(gi)
    assert nv.nvmlDeviceSetMigMode(device, 0) == nv.NVML_SUCCESS
    assert nv.nvmlDeviceGetMigMode(device) == [0, 0]


def test_ampere_needs_a_reset_that_nobody_stands_in_the_way_of(machine):
    m = machine("gpus: [{model: a100-80}]")
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceSetMigMode(device, 1) == nv.NVML_ERROR_RESET_REQUIRED
    assert nv.nvmlDeviceGetMigMode(device) == [0, 1]
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceCreateGpuInstance, device, 19)
    refused = m.smi("--gpu-reset", "-i", "0", ok=False)
    assert refused.returncode == nv.NVML_ERROR_IN_USE and "In use by another client" in refused.stdout
    nv.nvmlShutdown()
    assert "successfully reset" in m.smi("-r", "-i", "0").stdout
    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceGetMigMode(device) == [1, 1]
    create(device, 19)


def test_a_process_stands_in_the_way_of_a_mode_and_of_a_reset(machine):
    m = machine("gpus: [{model: a100-40}, {model: h100-80}]")
    for i in (0, 1):
        m.ctl("attach", "--gpu", i, "--pid", 100 + i)
        device = nv.nvmlDeviceGetHandleByIndex(i)
        assert nv.nvmlDeviceSetMigMode(device, 1) == nv.NVML_ERROR_IN_USE
        assert nv.nvmlDeviceGetMigMode(device) == [0, 1]
    nv.nvmlShutdown()
    assert m.smi("-r", "-i", 0, ok=False).returncode == nv.NVML_ERROR_IN_USE
    m.ctl("detach", "--pid", 100)
    m.smi("-r", "-i", 0)


@pytest.mark.parametrize("model,stays", [("a100-80", 1), ("a30", 1), ("h100-80", 0), ("rtx-pro-6000", 0)])
def test_a_reboot_takes_instances_and_processes_and_from_hopper_on_the_mode(machine, model, stays):
    m = machine(f"gpus: [{{model: {model}}}]")
    device = mig_on()
    gi, ci, _ = create_whole(device, 14)
    m.ctl("attach", "--gpu", 0, "--gi", nv.nvmlGpuInstanceGetInfo(gi).id, "--ci", 0, "--pid", 77)
    boot = m.show()["bootId"]
    m.ctl("reboot")
    after = m.show()
    assert nv.nvmlDeviceGetMigMode(device) == [stays, stays]
    assert after["gpus"][0]["gpuInstances"] == [] and after["processes"] == []
    assert after["bootId"] != boot and after["boot"] == 2
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlComputeInstanceDestroy, ci)


def test_cards_without_mig_say_so(machine):
    machine("gpus: [{model: l4}, {model: t4}]")
    for i in (0, 1):
        device = nv.nvmlDeviceGetHandleByIndex(i)
        for call, args in [
            (nv.nvmlDeviceGetMigMode, ()),
            (nv.nvmlDeviceSetMigMode, (1,)),
            (nv.nvmlDeviceGetGpuInstanceProfileInfo, (0,)),
            (nv.nvmlDeviceCreateGpuInstance, (19,)),
            (nv.nvmlDeviceGetMigDeviceHandleByIndex, (0,)),
        ]:
            refuses(nv.NVML_ERROR_NOT_SUPPORTED, call, device, *args)
        assert nv.nvmlDeviceGetMaxMigDeviceCount(device) == 0


def test_with_mig_off_there_is_nothing_to_create_or_list(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceCreateGpuInstance, device, 19)
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetGpuInstanceRemainingCapacity, device, 19)
    assert nv.nvmlDeviceGetMaxMigDeviceCount(device) == 0


def test_older_drivers_offer_less_and_nothing_while_mig_is_off(machine):
    machine("{driverVersion: 470.57.02, gpus: [{model: a100-40}]}")
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert profiles(device) == []
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, placements, device, 19)
    mig_on()
    assert [p.name for p in profiles(device)] == [
        "MIG 1g.5gb",
        "MIG 2g.10gb",
        "MIG 3g.20gb",
        "MIG 4g.20gb",
        "MIG 7g.40gb",
        "MIG 1g.5gb+me",
    ]
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, create, device, 15, None)


def test_media_on_a30_is_had_by_one_of_its_sizes(machine):
    machine("gpus: [{model: a30}]")
    device = mig_on()
    create(device, 6)
    refuses(nv.NVML_ERROR_INSUFFICIENT_RESOURCES, nv.nvmlDeviceCreateGpuInstance, device, 21)
    create(device, 14), create(device, 14)
    assert nv.nvmlDeviceGetGpuInstanceRemainingCapacity(device, 14) == 0


def test_split_media_is_had_once_in_an_instance(h100):
    gi, _ = create(mig_on(), 9)
    media = nv.NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1
    assert nv.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, media, 0).name == "MIG 1c.3g.40gb+me"
    nv.nvmlGpuInstanceCreateComputeInstance(gi, media)
    refuses(nv.NVML_ERROR_INSUFFICIENT_RESOURCES, nv.nvmlGpuInstanceCreateComputeInstance, gi, media)
    assert nv.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi, 0) == 2
