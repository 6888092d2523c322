# SPDX-License-Identifier: Apache-2.0
"""Processes on cards and instances; events."""
import ctypes

import pynvml as nv
from conftest import create, create_whole, mig_on, refuses

LIB = ctypes.CDLL("libnvidia-ml.so.1")
NONE = 0xFFFFFFFF


class Info(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]


class InfoV1(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong)]


def running(device, room, name="nvmlDeviceGetComputeRunningProcesses_v3", entry=Info):
    """The return code, the count, and the entries that were written."""
    buffer = (entry * max(room, 1))()
    count = ctypes.c_uint(room)
    rc = getattr(LIB, name)(device, ctypes.byref(count), buffer if room else None)
    return rc, count.value, list(buffer)[: count.value if rc == 0 else 0]


def test_processes_of_a_card_without_mig_are_in_no_instance(h100):
    h100.ctl("attach", "--gpu", 0, "--pid", 10, "--mem", 64, "--name", "train.py")
    device = nv.nvmlDeviceGetHandleByIndex(0)
    (p,) = running(device, 4)[2]
    assert (p.pid, p.memory, p.gi, p.ci) == (10, 64 << 20, NONE, NONE)
    assert nv.nvmlSystemGetProcessName(10) == "train.py"
    assert running(nv.nvmlDeviceGetHandleByIndex(1), 4)[:2] == (0, 0)
    refuses(nv.NVML_ERROR_NOT_FOUND, nv.nvmlSystemGetProcessName, 11)


def test_the_room_for_processes_is_asked_first(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert running(device, 0)[:2] == (nv.NVML_SUCCESS, 0)
    for pid in (1, 2, 3):
        h100.ctl("attach", "--gpu", 0, "--pid", pid)
    assert running(device, 0)[:2] == (nv.NVML_ERROR_INSUFFICIENT_SIZE, 3)
    assert running(device, 2)[:2] == (nv.NVML_ERROR_INSUFFICIENT_SIZE, 3)
    assert [p.pid for p in running(device, 3)[2]] == [1, 2, 3]
    count = ctypes.c_uint(3)
    rc = LIB.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), None)
    assert rc == nv.NVML_ERROR_INVALID_ARGUMENT


def test_a_process_in_an_instance_is_seen_from_card_and_instance(h100):
    device = mig_on()
    gi, ci, info = create_whole(device, 9, 4)
    _, _, other = create_whole(device, 14, 0)
    h100.ctl("attach", "--gpu", 0, "--gi", 2, "--ci", 0, "--pid", 5, "--mem", 100)
    for seen in (device, info.device):
        (p,) = running(seen, 8)[2]
        assert (p.pid, p.gi, p.ci) == (5, 2, 0)
    assert running(other.device, 8)[1] == 0
    assert nv.nvmlDeviceGetMemoryInfo(info.device).used == 100 << 20
    refuses(nv.NVML_ERROR_IN_USE, nv.nvmlComputeInstanceDestroy, ci)
    h100.ctl("detach", "--pid", 5)
    nv.nvmlComputeInstanceDestroy(ci)
    nv.nvmlGpuInstanceDestroy(gi)


def test_kinds_of_processes_are_listed_apart(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    h100.ctl("attach", "--gpu", 0, "--pid", 1)
    h100.ctl("attach", "--gpu", 0, "--pid", 2, "--graphics")
    h100.ctl("attach", "--gpu", 0, "--pid", 3, "--mps")
    for name, pid in (("Compute", 1), ("Graphics", 2), ("MPSCompute", 3)):
        for version in ("_v3", "_v2"):
            assert [p.pid for p in running(device, 8, f"nvmlDeviceGet{name}RunningProcesses{version}")[2]] == [pid]
        old = running(device, 8, f"nvmlDeviceGet{name}RunningProcesses", InfoV1)[2]
        assert [(p.pid, p.memory) for p in old] == [(pid, 512 << 20)]


def test_the_detail_list_speaks_of_one_kind(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    h100.ctl("attach", "--gpu", 0, "--pid", 1)
    h100.ctl("attach", "--gpu", 0, "--pid", 3, "--mps")
    for mode, pids in ((0, [1]), (1, []), (2, [3])):
        found = nv.nvmlDeviceGetRunningProcessDetailList(device, 0x01000018, mode)
        assert [p.pid for p in found] == pids


def test_process_utilisation_needs_processes(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    refuses(nv.NVML_ERROR_NOT_FOUND, nv.nvmlDeviceGetProcessUtilization, device, 0)
    h100.ctl("attach", "--gpu", 0, "--pid", 1)
    assert [s.pid for s in nv.nvmlDeviceGetProcessUtilization(device, 0)] == [1]


def test_work_runs_only_where_there_is_something_to_run_on(h100):
    assert "Not Found" in h100.ctl("attach", "--gpu", 0, "--gi", 1, "--pid", 1, ok=False).stderr
    device = mig_on()
    assert h100.ctl("attach", "--gpu", 0, "--pid", 1, ok=False).returncode == 2
    create(device, 9)
    assert h100.ctl("attach", "--gpu", 0, "--gi", 2, "--ci", 0, "--pid", 1, ok=False).returncode == 2


def test_attach_shows_in_the_fake_proc_and_detach_ends_it(h100):
    uid = "0b6f7a3c-aaaa-bbbb-cccc-123456789abc"
    h100.ctl("attach", "--gpu", 0, "--pid", 31, "--name", "worker", "--pod-uid", uid, "--container", "abc123")
    h100.ctl("attach", "--gpu", 1, "--pid", 31)
    cgroup = (h100.proc / "31/cgroup").read_text()
    assert uid.replace("-", "_") in cgroup and "abc123" in cgroup and "kubepods" in cgroup
    h100.ctl("detach", "--pid", 31, "--gpu", 1)
    assert (h100.proc / "31/comm").exists()
    h100.ctl("detach", "--pid", 31)
    assert not (h100.proc / "31").exists()
    assert h100.ctl("detach", "--pid", 31, ok=False).returncode == 2


def test_a_reboot_gives_the_fake_proc_a_new_boot_id(h100):
    boots = []
    for _ in range(2):
        h100.ctl("attach", "--gpu", 0, "--pid", 8)
        h100.ctl("reboot")
        assert not (h100.proc / "8").exists()
        boots.append((h100.proc / "sys/kernel/random/boot_id").read_text().strip())
        assert boots[-1] == h100.show()["bootId"]
    assert boots[0] != boots[1]


def test_who_makes_a_machine_writes_its_boot_id(h100):
    written = (h100.proc / "sys/kernel/random/boot_id").read_text().strip()
    assert written == h100.show()["bootId"]


def registered(*devices, types=nv.nvmlEventTypeXidCriticalError):
    events = nv.nvmlEventSetCreate()
    for device in devices:
        nv.nvmlDeviceRegisterEvents(device, types, events)
    return events


def test_an_xid_reaches_who_registered_for_it(h100):
    a, b = (nv.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    both, only_b = registered(a, b), registered(b)
    h100.ctl("xid", "--gpu", 0, "--code", 48)
    h100.ctl("xid", "--gpu", 1, "--code", 79, "--gi", 3, "--ci", 0)
    first, second = nv.nvmlEventSetWait_v2(both, 0), nv.nvmlEventSetWait_v2(both, 0)
    assert (first.eventData, first.gpuInstanceId) == (48, NONE)
    assert (second.eventData, second.gpuInstanceId, second.computeInstanceId) == (79, 3, 0)
    assert nv.nvmlDeviceGetUUID(first.device) == nv.nvmlDeviceGetUUID(a)
    assert nv.nvmlEventSetWait_v2(only_b, 0).eventData == 79
    refuses(nv.NVML_ERROR_TIMEOUT, nv.nvmlEventSetWait_v2, both, 0)
    refuses(nv.NVML_ERROR_TIMEOUT, nv.nvmlEventSetWait_v2, only_b, 0)


def test_events_before_the_set_do_not_count(h100):
    h100.ctl("xid", "--gpu", 0, "--code", 48)
    events = registered(nv.nvmlDeviceGetHandleByIndex(0))
    refuses(nv.NVML_ERROR_TIMEOUT, nv.nvmlEventSetWait_v2, events, 0)


def test_a_waiting_client_is_woken(h100):
    waiting = h100.client(
        "e = nv.nvmlEventSetCreate()\n"
        "nv.nvmlDeviceRegisterEvents(nv.nvmlDeviceGetHandleByIndex(1), nv.nvmlEventTypeXidCriticalError, e)\n"
        "print('ready', flush=True)\n"
        "print(nv.nvmlEventSetWait_v2(e, 600000).eventData)\n"
    )
    assert waiting.stdout.readline() == "ready\n"
    h100.ctl("xid", "--gpu", 1, "--code", 94)
    assert waiting.communicate(timeout=60)[0] == "94\n"


def test_only_supported_events_can_be_registered(machine):
    machine("gpus: [{model: t4}, {model: h100-80}]")
    t4, h100 = (nv.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    events = nv.nvmlEventSetCreate()
    assert nv.nvmlDeviceGetSupportedEventTypes(h100) & 0x100
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlDeviceRegisterEvents, t4, 0x100, events)
    nv.nvmlEventSetFree(events)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlDeviceRegisterEvents, h100, 8, events)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlEventSetFree, events)


def test_mig_changes_are_events(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    events = registered(device, types=0x100)
    mig_on()
    _, info = create(device, 9)
    assert nv.nvmlEventSetWait_v2(events, 0).gpuInstanceId == NONE
    assert nv.nvmlEventSetWait_v2(events, 0).gpuInstanceId == info.id


def test_a_lost_card_ends_the_wait(h100):
    events = registered(nv.nvmlDeviceGetHandleByIndex(0))
    h100.ctl("lost", "--gpu", 0, "set")
    assert nv.nvmlEventSetWait_v2(events, 0).eventData == 79
    refuses(nv.NVML_ERROR_GPU_IS_LOST, nv.nvmlEventSetWait_v2, events, 0)


def test_ecc_and_recovery_are_events(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    events = registered(device, types=0x8003)
    h100.ctl("ecc", "--gpu", 0, "corrected", 4)
    h100.ctl("recovery-action", "--gpu", 0, "reset")
    assert nv.nvmlEventSetWait_v2(events, 0).eventType == nv.nvmlEventTypeSingleBitEccError
    assert nv.nvmlEventSetWait_v2(events, 0).eventData == nv.NVML_GPU_RECOVERY_ACTION_GPU_RESET
