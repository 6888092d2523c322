# SPDX-License-Identifier: Apache-2.0
"""Symbols, struct versions, and what a wrong caller gets."""
import ctypes
import re
import subprocess

import pynvml as nv
import pytest
from conftest import OUT, ROOT, create_whole, mig_on, refuses

LIB = ctypes.CDLL("libnvidia-ml.so.1")
OLDER = """nvmlInit nvmlDeviceGetCount nvmlDeviceGetHandleByIndex nvmlDeviceGetHandleByPciBusId nvmlDeviceGetPciInfo
nvmlDeviceGetPciInfo_v2 nvmlDeviceGetAttributes nvmlComputeInstanceGetInfo nvmlEventSetWait nvmlDeviceRemoveGpu
nvmlDeviceGetGpuInstancePossiblePlacements nvmlDeviceGetComputeRunningProcesses
nvmlDeviceGetComputeRunningProcesses_v2 nvmlDeviceGetGraphicsRunningProcesses
nvmlDeviceGetGraphicsRunningProcesses_v2 nvmlDeviceGetMPSComputeRunningProcesses
nvmlDeviceGetMPSComputeRunningProcesses_v2 nvmlDeviceGetRetiredPages
nvmlDeviceGetCurrentClocksThrottleReasons nvmlDeviceGetNvLinkRemotePciInfo nvmlDeviceGetPowerState
nvmlDeviceGetSupportedClocksThrottleReasons nvmlDeviceGetDriverModel_v2""".split()


def exported():
    out = subprocess.run(
        ["nm", "-D", "--defined-only", str(OUT / "libnvidia-ml.so.1")], check=True, text=True, capture_output=True
    ).stdout
    return {line.split()[2] for line in out.splitlines() if line.split()[1] in "TW"}


def counted():
    return set(re.findall(r"^CALL\((\w+),", (ROOT / "sim/calls.def").read_text(), re.M))


def test_exactly_nvmls_names_are_exported():
    assert exported() == counted() | set(OLDER)


def test_the_soname_is_the_drivers():
    out = subprocess.run(["readelf", "-d", str(OUT / "libnvidia-ml.so.1")], check=True, text=True, capture_output=True)
    assert "soname: [libnvidia-ml.so.1]" in out.stdout


def test_every_call_before_init_is_uninitialized():
    for name in exported() - {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlErrorString"}:
        assert getattr(LIB, name)(None, None, None, None, None) == nv.NVML_ERROR_UNINITIALIZED, name


def takes_a_handle(name):
    of_machine = ("nvmlSystem", "nvmlInit", "nvmlShutdown", "nvmlError", "nvmlEventSetCreate", "nvmlDeviceGetHandleBy")
    return not name.startswith(of_machine) and name not in (
        "nvmlDeviceGetCount",
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceModifyDrainState",
        "nvmlDeviceRemoveGpu",
        "nvmlDeviceRemoveGpu_v2",
        "nvmlGpmSampleAlloc",
        "nvmlGpmMetricsGet",
    )


def test_garbage_for_a_handle_is_a_wrong_argument(h100):
    data = ctypes.create_string_buffer(4096)
    for name in filter(takes_a_handle, exported()):
        for garbage in (None, ctypes.c_void_p(0xDEAD0), ctypes.addressof(data)):
            rc = getattr(LIB, name)(ctypes.c_void_p(garbage) if isinstance(garbage, int) else garbage, None, None, None)
            assert rc == nv.NVML_ERROR_INVALID_ARGUMENT, name


def test_a_handle_of_another_kind_is_a_wrong_argument(h100):
    device = mig_on()
    gi, ci, info = create_whole(device, 9)
    for call, wrong in [
        (nv.nvmlDeviceGetUUID, gi),
        (nv.nvmlGpuInstanceGetInfo, device),
        (nv.nvmlGpuInstanceGetInfo, ci),
        (nv.nvmlComputeInstanceDestroy, gi),
        (nv.nvmlDeviceGetMigMode, info.device),
    ]:
        refuses(nv.NVML_ERROR_INVALID_ARGUMENT, call, wrong)


def test_no_room_for_the_answer_is_a_wrong_argument_and_never_a_crash(h100):
    device = mig_on()
    gi, ci, info = create_whole(device, 9)
    for name in filter(takes_a_handle, exported()):
        if name in ("cleaveSimDeviceReset", "nvmlGpuInstanceDestroy", "nvmlComputeInstanceDestroy"):
            continue
        for handle in (device, info.device, gi, ci):
            assert getattr(LIB, name)(handle, None, None, None, None) in (
                nv.NVML_SUCCESS,
                nv.NVML_ERROR_INVALID_ARGUMENT,
                nv.NVML_ERROR_NOT_SUPPORTED,
            ), name


@pytest.mark.parametrize(
    "name,before,version",
    [
        ("nvmlDeviceGetGpuInstanceProfileInfoV", [0], 0x02000098),
        ("nvmlDeviceGetGpuInstanceProfileInfoV", [0], 0x03000098),
        ("nvmlDeviceGetGpuInstanceProfileInfoByIdV", [19], 0x02000098),
        ("nvmlDeviceGetMemoryInfo_v2", [], 0x02000028),
        ("nvmlDeviceGetPciInfoExt", [], 0x01000040),
        ("nvmlDeviceGetGpuFabricInfoV", [], 0x02000024),
        ("nvmlDeviceGetGpuFabricInfoV", [], 0x03000028),
        ("nvmlDeviceGetSramEccErrorStatus", [], 0x01000068),
        ("nvmlDeviceGetTemperatureV", [], 0x0100000C),
        ("nvmlDeviceGetRunningProcessDetailList", [], 0x01000018),
        ("nvmlDeviceGetAddressingMode", [], 0x01000008),
    ],
)
def test_versioned_structs_take_their_own_version_only(h100, name, before, version):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    size = version & 0xFFFFFF

    def ask(word):
        buffer = (ctypes.c_uint * 64)(word)
        for i in range(size // 4, 64):
            buffer[i] = 0xAAAAAAAA
        rc = getattr(LIB, name)(device, *before, buffer)
        assert set(buffer[size // 4 :]) == {0xAAAAAAAA}, "written beyond the struct"
        return rc

    assert ask(version) == nv.NVML_SUCCESS
    for wrong in (0, version + 1, size | 9 << 24, version & 0xFF000000):
        assert ask(wrong) == nv.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


def test_compute_instance_profiles_are_versioned_too(h100):
    gi, _, _ = create_whole(mig_on(), 9)
    info = nv.c_nvmlComputeInstanceProfileInfo_v2_t()
    call = LIB.nvmlGpuInstanceGetComputeInstanceProfileInfoV
    assert call(gi, 2, 0, ctypes.byref(info)) == nv.NVML_SUCCESS and info.name == "MIG 3g.40gb"
    info.version = 1
    assert call(gi, 2, 0, ctypes.byref(info)) == nv.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


class ProfileV3(ctypes.Structure):
    _fields_ = (
        [("version", ctypes.c_uint)]
        + [(n, ctypes.c_uint) for n in "id slices instances sms copy decoder encoder jpeg ofa".split()]
        + [("memory", ctypes.c_ulonglong), ("name", ctypes.c_char * 96), ("capabilities", ctypes.c_uint)]
    )


def test_the_third_generation_says_which_profiles_draw(machine):
    machine("gpus: [{model: rtx-pro-6000}]")
    device = nv.nvmlDeviceGetHandleByIndex(0)
    draws = {}
    for e in (0, 10):
        info = ProfileV3(version=0x03000098)
        assert LIB.nvmlDeviceGetGpuInstanceProfileInfoV(device, e, ctypes.byref(info)) == nv.NVML_SUCCESS
        draws[info.name] = info.capabilities
    assert draws == {b"MIG 1g.24gb": 0, b"MIG 1g.24gb+gfx": 2}


def test_init_is_counted(machine):
    machine("gpus: [{model: a30}]")
    nv.nvmlInit()
    nv.nvmlShutdown()
    assert nv.nvmlDeviceGetCount() == 1
    nv.nvmlShutdown()
    refuses(nv.NVML_ERROR_UNINITIALIZED, nv.nvmlDeviceGetCount)
    refuses(nv.NVML_ERROR_UNINITIALIZED, nv.nvmlShutdown)


def test_init_takes_the_flags_it_knows(machine):
    machine("gpus: [{model: a30}]", init=False)
    assert LIB.nvmlInitWithFlags(8) == nv.NVML_ERROR_INVALID_ARGUMENT
    assert LIB.nvmlInitWithFlags(1) == nv.NVML_SUCCESS


def test_without_state_and_fleet_there_is_no_driver(monkeypatch):
    monkeypatch.delenv("CLEAVE_SIM_STATE", raising=False)
    monkeypatch.delenv("CLEAVE_SIM_FLEET", raising=False)
    refuses(nv.NVML_ERROR_DRIVER_NOT_LOADED, nv.nvmlInit)


def test_a_state_of_another_layout_is_a_version_mismatch(machine):
    m = machine("gpus: [{model: a30}]", init=False)
    m.state.write_bytes(b"something else")
    refuses(nv.NVML_ERROR_LIB_RM_VERSION_MISMATCH, nv.nvmlInit)
    m.state.write_bytes(bytes(8 << 20))
    refuses(nv.NVML_ERROR_LIB_RM_VERSION_MISMATCH, nv.nvmlInit)


def test_errors_have_their_texts():
    assert str(nv.NVMLError(nv.NVML_ERROR_IN_USE))
    LIB.nvmlErrorString.restype = ctypes.c_char_p
    assert LIB.nvmlErrorString(19) == b"In use by another client"
    assert LIB.nvmlErrorString(4711) == b"Unknown Error"
