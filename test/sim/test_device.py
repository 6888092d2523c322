# SPDX-License-Identifier: Apache-2.0
"""Discovery, memory, health, topology: what GFD, the device plugin and an agent read."""
import ctypes

import pynvml as nv
import pytest
from conftest import create_whole, mig_on, refuses

LIB = ctypes.CDLL("libnvidia-ml.so.1")

FACTS = {
    # name, PCI id, MiB, compute capability, architecture
    "a100-40": ("NVIDIA A100-SXM4-40GB", 0x20B010DE, 40960, (8, 0), 7),
    "a100-80": ("NVIDIA A100-SXM4-80GB", 0x20B210DE, 81920, (8, 0), 7),
    "a30": ("NVIDIA A30", 0x20B710DE, 24576, (8, 0), 7),
    "h100-80": ("NVIDIA H100 80GB HBM3", 0x233010DE, 81559, (9, 0), 9),
    "h100-nvl": ("NVIDIA H100 NVL", 0x232110DE, 95830, (9, 0), 9),
    "h200": ("NVIDIA H200", 0x233510DE, 143771, (9, 0), 9),
    "b200": ("NVIDIA B200", 0x290110DE, 183359, (10, 0), 10),
    "rtx-pro-6000": ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 0x2BB510DE, 97887, (12, 0), 10),
    "l4": ("NVIDIA L4", 0x27B810DE, 23034, (8, 9), 8),
    "t4": ("Tesla T4", 0x1EB810DE, 15360, (7, 5), 6),
}


@pytest.mark.parametrize("model", FACTS)
def test_each_model_is_what_it_says(machine, model):
    machine(f"gpus: [{{model: {model}}}]")
    name, pci_id, mib, capability, arch = FACTS[model]
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceGetName(device) == name
    assert nv.nvmlDeviceGetPciInfo(device).pciDeviceId == pci_id
    assert nv.nvmlDeviceGetMemoryInfo(device).total == mib << 20
    assert tuple(nv.nvmlDeviceGetCudaComputeCapability(device)) == capability
    assert nv.nvmlDeviceGetArchitecture(device) == arch
    assert nv.nvmlDeviceGetVbiosVersion(device) and nv.nvmlDeviceGetBoardPartNumber(device)
    assert nv.nvmlDeviceGetNumGpuCores(device) > 0 and nv.nvmlDeviceGetBrand(device) in (2, 13, 14)


@pytest.mark.parametrize("model", FACTS)
def test_memory_adds_up(machine, model):
    m = machine(f"gpus: [{{model: {model}}}]")
    device = nv.nvmlDeviceGetHandleByIndex(0)
    m.ctl("attach", "--gpu", 0, "--pid", 5, "--mem", 1000)
    old = nv.nvmlDeviceGetMemoryInfo(device)
    new = nv.nvmlDeviceGetMemoryInfo(device, version=nv.nvmlMemory_v2)
    assert old.free + old.used == old.total == new.total
    assert new.free + new.used + new.reserved == new.total
    assert new.used == 1000 << 20 and old.used == new.used + new.reserved


def test_a_card_is_found_by_each_of_its_names(h100):
    first = nv.nvmlDeviceGetHandleByIndex(0)
    device = nv.nvmlDeviceGetHandleByIndex(1)
    uuid = nv.nvmlDeviceGetUUID(device)
    bus = nv.nvmlDeviceGetPciInfo(device).busId
    assert uuid.startswith("GPU-") and bus == "00000000:0F:00.0"
    same = [
        nv.nvmlDeviceGetHandleByUUID(uuid),
        nv.nvmlDeviceGetHandleByPciBusId(bus),
        nv.nvmlDeviceGetHandleByPciBusId("0000:0f:00.0"),
        nv.nvmlDeviceGetHandleBySerial(nv.nvmlDeviceGetSerial(device)),
    ]
    assert {ctypes.addressof(d.contents) for d in same} == {ctypes.addressof(device.contents)}
    assert nv.nvmlDeviceGetIndex(device) == nv.nvmlDeviceGetMinorNumber(device) == 1
    assert nv.nvmlDeviceGetSerial(first) != nv.nvmlDeviceGetSerial(device)
    refuses(nv.NVML_ERROR_NOT_FOUND, nv.nvmlDeviceGetHandleByUUID, "GPU-none")
    refuses(nv.NVML_ERROR_NOT_FOUND, nv.nvmlDeviceGetHandleByPciBusId, "00000000:99:00.0")
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlDeviceGetHandleByIndex, 2)


class Uuid(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("type", ctypes.c_uint), ("value", ctypes.c_ubyte * 44)]


def by_uuid_struct(kind, value, version=0x01000034):
    asked = Uuid(version, kind)
    ctypes.memmove(asked.value, value, len(value))
    found = nv.c_nvmlDevice_t()
    return LIB.nvmlDeviceGetHandleByUUIDV(ctypes.byref(asked), ctypes.byref(found)), found


def test_a_card_is_found_by_text_and_binary_uuid_struct(h100):
    uuid = nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetHandleByIndex(1))
    for kind, value in ((1, uuid.encode()), (2, bytes.fromhex(uuid[4:].replace("-", "")))):
        rc, found = by_uuid_struct(kind, value)
        assert rc == nv.NVML_SUCCESS and nv.nvmlDeviceGetUUID(found) == uuid
    assert by_uuid_struct(1, uuid.encode(), version=7)[0] == nv.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
    assert by_uuid_struct(3, uuid.encode())[0] == nv.NVML_ERROR_INVALID_ARGUMENT


def test_names_need_room(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    buffer = ctypes.create_string_buffer(8)
    for name in ("nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetSerial", "nvmlDeviceGetVbiosVersion"):
        assert getattr(LIB, name)(device, buffer, 8) == nv.NVML_ERROR_INSUFFICIENT_SIZE
    assert LIB.nvmlSystemGetDriverVersion(buffer, 8) == nv.NVML_ERROR_INSUFFICIENT_SIZE


def test_older_pci_and_instance_structs_are_not_overrun(h100):
    device = mig_on()
    _, ci, _ = create_whole(device, 9)
    for name, handle, size in [
        ("nvmlDeviceGetPciInfo_v2", device, 36),
        ("nvmlComputeInstanceGetInfo", ci, 24),
    ]:
        buffer = (ctypes.c_ubyte * 128)(*[0xAA] * 128)
        assert getattr(LIB, name)(handle, buffer) == nv.NVML_SUCCESS
        assert set(buffer[size:]) == {0xAA} and set(buffer[:size]) != {0xAA}


def test_versions_are_the_fleets(machine):
    machine('{driverVersion: 570.86.15, cudaVersion: "12.8", gpus: [{model: a30}]}')
    assert nv.nvmlSystemGetDriverVersion() == "570.86.15"
    assert nv.nvmlSystemGetNVMLVersion().endswith("570.86.15")
    assert nv.nvmlSystemGetCudaDriverVersion() == 12080


@pytest.mark.parametrize(
    "fleet,complaint",
    [
        ("gpus: [{model: h9000}]", 'unknown model "h9000"'),
        ("gpus: [{model: a30, colour: red}]", 'unknown key "colour"'),
        ("gpus: [{model: a30, count: 17}]", "a number up to 16"),
        ("gpus: [{count: 1}]", "needs a model"),
        ("gpus: {a: b}", "gpus is a list"),
        ("gpus: [{model: a30}]\nlatency: {nvmlNothing: 3ms}", "no call is named"),
        ("gpus: [{model: a30}]\nlatency: {nvmlShutdown: soon}", "a latency looks like"),
        ("gpus: [{model: a30}]\ndriverLock: {nvmlShutdown: 101}", "from 0 to 100"),
        ("gpus: [{model: a30}]\ndriverLock: {nvmlNothing: 1}", "no call is named"),
        ("gpus: [{model: a30}]\ndriverLock: 1", "is a mapping"),
        ("gpus: [", "did not find expected"),
        ("", "the fleet is empty"),
    ],
)
def test_a_wrong_fleet_is_refused_with_its_line(machine, fleet, complaint):
    m = machine(fleet, init=False)
    refuses(nv.NVML_ERROR_DRIVER_NOT_LOADED, nv.nvmlInit)
    result = m.ctl("init", ok=False)
    assert result.returncode == 2 and complaint in result.stderr
    assert not m.state.exists()


def test_a_seed_repeats_the_uuids(machine):
    fleet = "{seed: 7, gpus: [{model: a30, count: 2}]}"
    m = machine(fleet, init=False)
    seen = []
    for _ in range(2):
        m.ctl("init", "--force")
        seen.append([g["uuid"] for g in m.show()["gpus"]])
    assert seen[0] == seen[1] and len(set(seen[0])) == 2


def test_ecc_counters_and_remapped_rows(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceGetEccMode(device) == [1, 1]
    assert nv.nvmlDeviceGetRemappedRows(device) == (0, 0, 0, 0)
    h100.ctl("ecc", "--gpu", 0, "uncorrected", 3)
    h100.ctl("ecc", "--gpu", 0, "sram", 2)
    h100.ctl("remap", "--gpu", 0, "--uncorrected", 1, "--pending", 1)
    assert nv.nvmlDeviceGetTotalEccErrors(device, 1, 0) == 5
    assert nv.nvmlDeviceGetMemoryErrorCounter(device, 1, 0, 7) == 2
    assert nv.nvmlDeviceGetMemoryErrorCounter(device, 1, 0, 2) == 3
    assert nv.nvmlDeviceGetRemappedRows(device) == (0, 1, 1, 0)
    nv.nvmlShutdown()
    h100.smi("-r", "-i", 0)
    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceGetTotalEccErrors(device, 1, 0) == 0
    assert nv.nvmlDeviceGetTotalEccErrors(device, 1, 1) == 5
    assert nv.nvmlDeviceGetRemappedRows(device) == (0, 1, 0, 0)


def test_without_ecc_there_are_no_counters(machine):
    machine("{ecc: false, gpus: [{model: h100-80}]}")
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceGetEccMode(device) == [0, 0]
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetTotalEccErrors, device, 0, 0)


def test_pages_retire_where_rows_are_not_remapped(machine):
    machine("gpus: [{model: t4}, {model: h100-80}]")
    t4, h100 = (nv.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    assert list(nv.nvmlDeviceGetRetiredPages(t4, 0)) == []
    assert nv.nvmlDeviceGetRetiredPagesPendingStatus(t4) == 0
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetRemappedRows, t4)
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetRetiredPagesPendingStatus, h100)


def test_field_values_answer_one_by_one(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    h100.ctl("recovery-action", "--gpu", 0, "drain-and-reset")
    action, reset, drain, unknown, sbe = nv.nvmlDeviceGetFieldValues(device, [230, 226, 227, 9999, 3])
    assert (action.nvmlReturn, action.value.uiVal) == (0, 4)
    assert (reset.value.uiVal, drain.value.uiVal) == (0, 1)
    assert unknown.nvmlReturn == nv.NVML_ERROR_NOT_SUPPORTED
    assert (sbe.valueType, sbe.value.ullVal) == (nv.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, 0)
    h100.ctl("recovery-action", "--gpu", 0, "none")
    assert nv.nvmlDeviceGetFieldValues(device, [230])[0].value.uiVal == 0


def test_a_lost_card_is_lost_to_every_call_but_the_count(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    uuid = nv.nvmlDeviceGetUUID(device)
    h100.ctl("lost", "--gpu", 0, "set")
    assert nv.nvmlDeviceGetCount() == 2
    for call, args in [
        (nv.nvmlDeviceGetUUID, (device,)),
        (nv.nvmlDeviceGetMigMode, (device,)),
        (nv.nvmlDeviceGetHandleByIndex, (0,)),
        (nv.nvmlDeviceGetHandleByUUID, (uuid,)),
    ]:
        refuses(nv.NVML_ERROR_GPU_IS_LOST, call, *args)
    nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetHandleByIndex(1))
    h100.ctl("lost", "--gpu", 0, "clear")
    assert nv.nvmlDeviceGetUUID(device) == uuid


def test_utilisation_does_not_exist_under_mig(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceGetUtilizationRates(device).gpu == 0
    mig_on()
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetUtilizationRates, device)


def test_telemetry_of_a_whole_card(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert 20 < nv.nvmlDeviceGetTemperature(device, 0) < 60
    assert nv.nvmlDeviceGetPowerUsage(device) == 70000
    assert nv.nvmlDeviceGetEnforcedPowerLimit(device) == 700000
    assert nv.nvmlDeviceGetTotalEnergyConsumption(device) > 0
    assert nv.nvmlDeviceGetClockInfo(device, nv.NVML_CLOCK_SM) == 210
    assert nv.nvmlDeviceGetMaxClockInfo(device, nv.NVML_CLOCK_SM) == 1980
    assert nv.nvmlDeviceGetMaxClockInfo(device, nv.NVML_CLOCK_MEM) == 2619
    assert nv.nvmlDeviceGetPcieThroughput(device, 0) == 0
    assert nv.nvmlDeviceGetPcieReplayCounter(device) == 0
    assert nv.nvmlDeviceGetMaxPcieLinkGeneration(device) == 5
    assert nv.nvmlDeviceGetBAR1MemoryInfo(device).bar1Total == 131072 << 20
    assert nv.nvmlDeviceGetEncoderUtilization(device)[0] == 0


def test_what_monitors_ask_for_besides(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceGetPerformanceState(device) == nv.nvmlDeviceGetPowerState(device) == 0
    assert nv.nvmlDeviceGetPowerManagementMode(device) == 1
    assert nv.nvmlDeviceGetPowerManagementLimit(device) == nv.nvmlDeviceGetPowerManagementDefaultLimit(device) == 700000
    assert nv.nvmlDeviceGetPowerManagementLimitConstraints(device) == [175000, 700000]
    assert nv.nvmlDeviceGetCurrPcieLinkGeneration(device) == nv.nvmlDeviceGetGpuMaxPcieLinkGeneration(device) == 5
    assert nv.nvmlDeviceGetCurrPcieLinkWidth(device) == 16
    threshold = nv.nvmlDeviceGetTemperatureThreshold
    assert threshold(device, nv.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN) > nv.nvmlDeviceGetTemperature(device, 0)
    assert nv.nvmlDeviceGetApplicationsClock(device, nv.NVML_CLOCK_SM) == 1980
    assert nv.nvmlDeviceGetDefaultApplicationsClock(device, nv.NVML_CLOCK_MEM) == 2619
    assert nv.nvmlDeviceGetMaxCustomerBoostClock(device, nv.NVML_CLOCK_SM) == 1980
    reasons = nv.nvmlDeviceGetSupportedClocksThrottleReasons(device)
    assert reasons == nv.nvmlDeviceGetSupportedClocksEventReasons(device) and reasons & 1
    assert nv.nvmlDeviceGetViolationStatus(device, nv.NVML_PERF_POLICY_POWER).violationTime == 0
    assert nv.nvmlDeviceGetDisplayActive(device) == nv.nvmlDeviceGetMultiGpuBoard(device) == 0
    assert nv.nvmlDeviceGetAccountingMode(device) == 0
    assert nv.nvmlDeviceGetJpgUtilization(device)[0] == nv.nvmlDeviceGetOfaUtilization(device)[0] == 0
    assert list(nv.nvmlDeviceGetEncoderStats(device)) == [0, 0, 0]
    assert nv.nvmlDeviceGetNvLinkErrorCounter(device, 0, nv.NVML_NVLINK_ERROR_DL_REPLAY) == 0
    version = ctypes.create_string_buffer(64)
    assert LIB.nvmlDeviceGetGspFirmwareVersion(device, version) == 0
    assert version.value.decode() == nv.nvmlSystemGetDriverVersion()


def test_what_no_simulated_board_has_is_not_supported(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetFanSpeed, device)
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetFanSpeed_v2, device, 0)
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetNumFans, device)
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetCurrentGpuOperationMode, device)
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetCurrentDriverModel, device)
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetNvLinkErrorCounter, device, 18, 0)
    mig_on()
    create_whole(device, 19)
    part = nv.nvmlDeviceGetMigDeviceHandleByIndex(device, 0)
    for call in (nv.nvmlDeviceGetPerformanceState, nv.nvmlDeviceGetPowerManagementLimit, nv.nvmlDeviceGetFanSpeed):
        refuses(nv.NVML_ERROR_NOT_SUPPORTED, call, part)
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetJpgUtilization, device)


@pytest.mark.parametrize("model, profile, mib", [("a100-40", 19, 8191), ("a100-40", 9, 32767), ("h100-80", 19, 16383)])
def test_an_instance_has_its_part_of_the_window(machine, model, profile, mib):
    machine(f"gpus: [{{model: {model}, mig: true}}]")
    device = nv.nvmlDeviceGetHandleByIndex(0)
    create_whole(device, profile)
    bar1 = nv.nvmlDeviceGetBAR1MemoryInfo(nv.nvmlDeviceGetMigDeviceHandleByIndex(device, 0))
    assert (bar1.bar1Total >> 20, bar1.bar1Used) == (mib, 0) and bar1.bar1Free == bar1.bar1Total


def test_topology_of_two_sockets(machine):
    machine("{numaNodes: 2, cpus: 32, gpus: [{model: h100-80, count: 8}]}")
    cards = [nv.nvmlDeviceGetHandleByIndex(i) for i in range(8)]
    for card in cards:  # of cards that are a node themselves, as on Grace Hopper
        refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetNumaNodeId, card)
    level = nv.nvmlDeviceGetTopologyCommonAncestor
    assert [level(cards[0], c) for c in (cards[0], cards[1], cards[2], cards[7])] == [0, 10, 40, 50]
    near = nv.nvmlDeviceGetTopologyNearestGpus(cards[4], nv.NVML_TOPOLOGY_NODE)
    assert [nv.nvmlDeviceGetIndex(c) for c in near] == [6, 7]
    assert list(nv.nvmlDeviceGetCpuAffinity(cards[7], 1)) == [0xFFFF0000]
    assert list(nv.nvmlDeviceGetMemoryAffinity(cards[7], 1, 0)) == [2]


def test_nvlinks_end_in_switches(h100):
    a, b = (nv.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    assert nv.nvmlDeviceGetNvLinkState(a, 17) == 1
    assert nv.nvmlDeviceGetNvLinkRemoteDeviceType(a, 0) == nv.NVML_NVLINK_DEVICE_TYPE_SWITCH
    assert nv.nvmlDeviceGetNvLinkCapability(a, 0, nv.NVML_NVLINK_CAP_P2P_SUPPORTED) == 1
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceGetNvLinkState, a, 18)
    assert nv.nvmlDeviceGetP2PStatus(a, b, 0) == nv.NVML_P2P_STATUS_OK
    mig_on()
    assert nv.nvmlDeviceGetNvLinkState(a, 0) == 0
    assert nv.nvmlDeviceGetP2PStatus(a, b, 0) != nv.NVML_P2P_STATUS_OK


def test_nvlinks_of_a_mesh_end_in_the_other_cards(machine):
    machine("{links: mesh, gpus: [{model: h100-nvl, count: 3}]}")
    device = nv.nvmlDeviceGetHandleByIndex(1)
    ends = [nv.nvmlDeviceGetNvLinkRemotePciInfo(device, link).busId for link in range(12)]
    others = [nv.nvmlDeviceGetPciInfo(nv.nvmlDeviceGetHandleByIndex(i)).busId for i in (0, 2)]
    assert ends == others * 6
    assert nv.nvmlDeviceGetNvLinkRemoteDeviceType(device, 0) == nv.NVML_NVLINK_DEVICE_TYPE_GPU


def test_the_fabric_says_its_cluster_and_clique(machine):
    machine(
        "{fabric: {clusterUUID: 0e0f1011-1213-1415-1617-18191a1b1c1d, clique: 9},"
        " gpus: [{model: h100-80}, {model: a30}]}"
    )
    info = nv.c_nvmlGpuFabricInfo_v2_t()
    nv.nvmlDeviceGetGpuFabricInfoV(nv.nvmlDeviceGetHandleByIndex(0), ctypes.byref(info))
    assert (info.state, info.cliqueId) == (nv.NVML_GPU_FABRIC_STATE_COMPLETED, 9)
    assert bytes(info.clusterUuid) == bytes(range(0x0E, 0x1E))
    old = nv.c_nvmlGpuFabricInfo_t()
    nv.nvmlDeviceGetGpuFabricInfo(nv.nvmlDeviceGetHandleByIndex(1), ctypes.byref(old))
    assert old.state == nv.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED


def test_modes_are_kept(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    nv.nvmlDeviceSetPersistenceMode(device, 1)
    nv.nvmlDeviceSetComputeMode(device, nv.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
    assert nv.nvmlDeviceGetPersistenceMode(device) == 1
    assert nv.nvmlDeviceGetComputeMode(device) == nv.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlDeviceSetComputeMode, device, 4)
    assert nv.nvmlDeviceGetVirtualizationMode(device) == nv.NVML_GPU_VIRTUALIZATION_MODE_NONE


def test_a_drained_card_can_be_taken_away(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    second = nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetHandleByIndex(1))
    pci = nv.nvmlDeviceGetPciInfo(device)
    assert LIB.nvmlDeviceRemoveGpu_v2(ctypes.byref(pci), 1, 0) == nv.NVML_ERROR_IN_USE
    assert LIB.nvmlDeviceModifyDrainState(ctypes.byref(pci), 1) == nv.NVML_SUCCESS
    assert LIB.nvmlDeviceRemoveGpu_v2(ctypes.byref(pci), 1, 0) == nv.NVML_SUCCESS
    assert nv.nvmlDeviceGetCount() == 1
    assert nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetHandleByIndex(0)) == second
    refuses(nv.NVML_ERROR_GPU_IS_LOST, nv.nvmlDeviceGetUUID, device)
    h100.ctl("reboot")
    assert nv.nvmlDeviceGetCount() == 2
