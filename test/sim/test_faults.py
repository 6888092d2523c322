# SPDX-License-Identifier: Apache-2.0
"""Faults on order, kills in the middle, several processes at once, latency, the log."""
import ctypes
import os
import signal
import threading

import pynvml as nv
import pytest
from conftest import create, create_whole, mig_on, refuses


def recut():
    device = nv.nvmlDeviceGetHandleByIndex(0)
    nv.nvmlDeviceSetMigMode(device, 1)
    gi = nv.nvmlDeviceCreateGpuInstance(device, 9)
    ci = nv.nvmlGpuInstanceCreateComputeInstance(gi, 2)
    nv.nvmlComputeInstanceDestroy(ci)
    nv.nvmlGpuInstanceDestroy(gi)
    nv.nvmlDeviceSetMigMode(device, 0)


# What the hardware is after 0, 1, ... 6 of the changes above: mode, GPU instances, compute instances.
STAGES = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 1, 0), (1, 0, 0), (0, 0, 0)]


def stage(machine):
    gpu = machine.show()["gpus"][0]
    gis = gpu["gpuInstances"]
    return int(gpu["migCurrent"]), len(gis), sum(len(g["computeInstances"]) for g in gis)


def end_of_a_child(work):
    """Runs `work` as an NVML client in a forked process; its exit code, or minus its signal."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            nv.nvmlInit()
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("how", ["state", "environment"])
@pytest.mark.parametrize("action,done", [("kill", 0), ("kill-after", 1), ("fail:999", 0)])
def test_a_caller_that_dies_leaves_the_old_hardware_or_the_new(machine, monkeypatch, how, action, done):
    m = machine("gpus: [{model: h100-80}]", init=False)
    for nth in range(1, len(STAGES)):
        m.ctl("init", "--force")
        if how == "state":
            m.ctl("fault", "add", "--call", "mutating", "--nth", nth, "--action", action)
        else:
            monkeypatch.setenv("CLEAVE_SIM_FAULT", f"mutating:{nth}:{action}")
        assert end_of_a_child(recut) == (-signal.SIGKILL if "kill" in action else 1)
        assert stage(m) == STAGES[nth - 1 + done]


def test_killed_at_any_call_at_all_the_next_client_finds_a_whole_machine(machine, monkeypatch):
    m = machine("gpus: [{model: h100-80}]", init=False)
    nth = 0
    code = -signal.SIGKILL
    while code != 0:
        nth += 1
        m.ctl("init", "--force")
        monkeypatch.setenv("CLEAVE_SIM_FAULT", f"*:{nth}:kill-after")
        code = end_of_a_child(recut)
        assert code in (0, -signal.SIGKILL)
        assert stage(m) in STAGES
    assert nth == 8  # seven calls, and one more that never came


def test_the_nth_call_of_any_name_counts_all_but_life(h100):
    h100.ctl("fault", "add", "--call", "*", "--nth", 3, "--action", "fail:GPU_IS_LOST")
    nv.nvmlInit()
    device = nv.nvmlDeviceGetHandleByIndex(0)
    nv.nvmlDeviceGetUUID(device)
    nv.nvmlShutdown()
    refuses(nv.NVML_ERROR_GPU_IS_LOST, nv.nvmlDeviceGetUUID, device)
    nv.nvmlDeviceGetUUID(device)


def test_a_fault_can_be_for_one_card_and_one_name_or_each_time(h100):
    a, b = (nv.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    h100.ctl("fault", "add", "--call", "nvmlDeviceGetUUID", "--nth", 0, "--action", "fail:15", "--gpu", 1)
    for _ in range(3):
        refuses(nv.NVML_ERROR_GPU_IS_LOST, nv.nvmlDeviceGetUUID, b)
        nv.nvmlDeviceGetUUID(a)
        nv.nvmlDeviceGetName(b)
    assert "nvmlDeviceGetUUID nth=0 fail:GPU_IS_LOST seen=3 gpu=1" in h100.ctl("fault", "list").stdout
    h100.ctl("fault", "clear")
    nv.nvmlDeviceGetUUID(b)


def test_of_two_processes_one_gets_the_nth_call(h100):
    h100.ctl("fault", "add", "--call", "nvmlDeviceGetCount", "--nth", 150, "--action", "fail:999")
    code = (
        "bad = 0\n"
        "for _ in range(100):\n"
        "    try: nv.nvmlDeviceGetCount()\n"
        "    except nv.NVMLError: bad += 1\n"
        "print(bad)\n"
    )
    two = [h100.client(code) for _ in range(2)]
    assert sorted(p.communicate(timeout=60)[0] for p in two) == ["0\n", "1\n"]


def test_init_fails_by_name_and_is_undone(machine):
    m = machine("gpus: [{model: a30}]", init=False)
    m.ctl("fault", "add", "--call", "nvmlInit", "--nth", 1, "--action", "fail:DRIVER_NOT_LOADED")
    lib = ctypes.CDLL("libnvidia-ml.so.1")
    assert lib.nvmlInit_v2() == nv.NVML_ERROR_DRIVER_NOT_LOADED
    assert lib.nvmlDeviceGetCount_v2(None) == nv.NVML_ERROR_UNINITIALIZED
    nv.nvmlInit()


def test_a_failed_change_changes_nothing(h100):
    device = mig_on()
    h100.ctl("fault", "add", "--call", "nvmlDeviceCreateGpuInstance", "--nth", 1, "--action", "fail:INSUFFICIENT_RESOURCES")
    before = h100.show()
    refuses(nv.NVML_ERROR_INSUFFICIENT_RESOURCES, nv.nvmlDeviceCreateGpuInstance, device, 19)
    assert h100.show() == before
    create(device, 19)


def test_a_hanging_call_holds_nobody_else_up(h100):
    mig_on(0), mig_on(1)
    h100.ctl("fault", "add", "--call", "nvmlDeviceCreateGpuInstance", "--nth", 1, "--action", "hang:100000", "--gpu", 0)
    stuck = h100.client("nv.nvmlDeviceCreateGpuInstance(nv.nvmlDeviceGetHandleByIndex(0), 19)\n")
    while "seen=1" not in h100.ctl("fault", "list").stdout:
        assert stuck.poll() is None
    create(nv.nvmlDeviceGetHandleByIndex(1), 19)
    create(nv.nvmlDeviceGetHandleByIndex(0), 19)
    stuck.kill()
    stuck.communicate()
    assert [len(g["gpuInstances"]) for g in h100.show()["gpus"]] == [1, 1]


def test_a_killed_client_leaves_no_lock_and_no_session_behind(machine):
    m = machine("gpus: [{model: a100-80}]", init=False)
    for _ in range(8):
        # Killed wherever it happens to be in a storm of changes.
        storm = m.client(
            "d = nv.nvmlDeviceGetHandleByIndex(0)\n"
            "while True:\n"
            "    nv.nvmlDeviceSetMigMode(d, 1); print(1, flush=True); nv.nvmlDeviceSetMigMode(d, 0)\n"
        )
        for _ in range(20):
            storm.stdout.readline()
        assert m.smi("-r", "-i", 0, ok=False).returncode == nv.NVML_ERROR_IN_USE
        storm.kill()
        storm.communicate()
        m.smi("-r", "-i", 0)


def test_several_processes_cut_one_card_and_never_overlap(h100):
    mig_on()
    code = """
d = nv.nvmlDeviceGetHandleByIndex(0)
made = 0
while made < 60:
    try:
        g = nv.nvmlDeviceCreateGpuInstance(d, (19, 14, 9)[made % 3])
    except nv.NVMLError_InsufficientResources:
        continue
    nv.nvmlComputeInstanceDestroy(nv.nvmlGpuInstanceCreateComputeInstance(g, 0))
    nv.nvmlGpuInstanceDestroy(g)
    made += 1
"""
    clients = [h100.client(code) for _ in range(3)]
    while any(c.poll() is None for c in clients):
        taken = set()
        for gi in h100.show()["gpus"][0]["gpuInstances"]:
            start, size = gi["placement"]["start"], gi["placement"]["size"]
            assert taken.isdisjoint(range(start, start + size))
            taken |= set(range(start, start + size))
    assert [c.wait() for c in clients] == [0, 0, 0]
    assert h100.show()["gpus"][0]["gpuInstances"] == []
    for c in clients:
        c.communicate()


def test_several_first_users_make_one_machine(machine):
    m = machine("gpus: [{model: a30, count: 4}]", init=False)
    clients = [m.client("print(nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetHandleByIndex(3)))\n") for _ in range(4)]
    assert len({c.communicate(timeout=60)[0] for c in clients}) == 1
    assert [p.name for p in m.state.parent.glob("state*")] == ["state"]


def test_a_forked_child_has_to_initialise_for_itself(h100):
    seen = nv.nvmlDeviceGetCount()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        lib = ctypes.CDLL("libnvidia-ml.so.1")
        os.write(write, bytes([lib.nvmlDeviceGetCount_v2(None), lib.nvmlInit_v2(), lib.nvmlShutdown()]))
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 3) == bytes([nv.NVML_ERROR_UNINITIALIZED, 0, 0])
    os.close(read), os.close(write)
    assert nv.nvmlDeviceGetCount() == seen


def test_latency_is_taken_and_logged(machine):
    m = machine("{latency: {nvmlDeviceGetCount: 20ms}, gpus: [{model: a30}]}")
    nv.nvmlDeviceGetCount()
    (call,) = [r for r in m.log() if r["call"] == "nvmlDeviceGetCount_v2"]
    assert call["endNs"] - call["startNs"] >= 20_000_000
    m.ctl("latency", "set", "nvmlDeviceGetCount", "0")
    assert m.ctl("latency", "list").stdout == ""
    m.ctl("latency", "preset", "realistic")
    assert "nvmlGpuInstanceDestroy" in m.ctl("latency", "list").stdout


def test_the_log_tells_who_did_what(h100):
    device = mig_on()
    h100.ctl("log", "--clear")
    gi, ci, _ = create_whole(device, 9, 4)
    refuses(nv.NVML_ERROR_IN_USE, nv.nvmlGpuInstanceDestroy, gi)
    log = h100.log("--mutating")
    assert [(r["call"], r["args"], r["resultName"]) for r in log] == [
        ("nvmlDeviceCreateGpuInstanceWithPlacement", "profile=9 gi=2 start=4 size=4", "SUCCESS"),
        ("nvmlGpuInstanceCreateComputeInstance", "gi=2 profile=2 ci=0 start=0 size=3", "SUCCESS"),
        ("nvmlGpuInstanceDestroy", "gi=2 start=4 size=4", "IN_USE"),
    ]
    assert all(r["gpu"] == 0 and r["startNs"] <= r["endNs"] for r in log)
    assert [r["sequence"] for r in h100.log()] == sorted(r["sequence"] for r in h100.log())


def test_a_flood_of_queries_does_not_push_changes_out_of_the_log(h100):
    mig_on()
    for _ in range(5000):
        nv.nvmlDeviceGetCount()
    assert [r["call"] for r in h100.log("--mutating")] == ["nvmlDeviceSetMigMode"]


def test_calls_are_counted(h100):
    h100.ctl("calls", "--clear")
    nv.nvmlDeviceGetCount(), nv.nvmlDeviceGetCount()
    nv.nvmlInit(), nv.nvmlShutdown()
    lines = [line.split() for line in h100.ctl("calls").stdout.splitlines()]
    assert ["2", "nvmlDeviceGetCount_v2"] in lines and ["1", "nvmlInitWithFlags"] in lines and lines[-1] == ["2", "total"]


def test_simctl_says_which_codes_a_call_can_be_answered(h100):
    refused = h100.ctl("fault", "add", "--call", "mxSmlInit", "--action", "fail:UNKNOWN", ok=False).stderr
    assert 'mxSmlInit is of MXSML, which has no code "UNKNOWN"' in refused and "Failure, NoDevice, " in refused
    refused = h100.ctl("fault", "add", "--call", "*", "--action", "fail:NOTHING", ok=False).stderr
    assert 'no library has a code "NOTHING"' in refused
    lines = h100.ctl("fault", "names").stdout.splitlines()
    assert {"NVML code UNKNOWN", "MXSML code BusyDevice", "NVML call nvmlInit_v2 life", "MXSML call mxSmlCreateSgpu mutating"} <= set(lines)
    assert not any(line.lower().endswith("success") for line in lines)
    for line in lines:
        library, kind, name, *_ = line.split()
        if kind == "code":
            call = {"NVML": "nvmlDeviceGetUUID", "MXSML": "mxSmlGetDeviceInfo", "CUDA": "cuDeviceGetUuid"}[library]
            h100.ctl("fault", "clear")
            h100.ctl("fault", "add", "--call", call, "--action", f"fail:{name}")


@pytest.mark.parametrize(
    "words",
    [
        ["fault", "add", "--call", "nvmlNothing", "--action", "kill"],
        ["fault", "add", "--call", "*", "--action", "explode"],
        ["fault", "add", "--call", "*", "--action", "fail:NOTHING"],
        ["fault", "add", "--call", "mxSmlInit", "--action", "fail:UNKNOWN"],
        ["fault", "add", "--call", "nvmlInit", "--action", "fail:BusyDevice"],
        ["latency", "set", "nvmlNothing", "1"],
        ["latency", "set", "*", "-1"],
        ["driver-lock", "nvmlNothing", "1"],
        ["driver-lock", "*", "101"],
        ["xid", "--gpu", "9", "--code", "1"],
        ["xid", "--gpu", "0"],
        ["lost", "--gpu", "0", "maybe"],
        ["show", "extra"],
        ["nothing"],
        ["attach", "--gpu", "0", "--pid", "-3"],
    ],
)
def test_simctl_says_what_it_does_not_understand(h100, words):
    before = h100.show()
    result = h100.ctl(*words, ok=False)
    assert result.returncode == 2 and result.stderr.startswith("cleave-simctl: ")
    assert h100.show() == before



@pytest.mark.parametrize("percent", [0, 100])
def test_cards_wait_for_each_other_only_in_the_share_that_the_drivers_lock_covers(machine, percent):
    """Two threads of one process and a second process call for a card each; at 100 % no two calls overlap."""
    m = machine("{latency: {nvmlDeviceSetPersistenceMode: 1s}, gpus: [{model: h100-80, count: 3}]}")
    m.ctl("driver-lock", "nvmlDeviceSetPersistenceMode", str(percent))
    call = "nv.nvmlDeviceSetPersistenceMode(nv.nvmlDeviceGetHandleByIndex({}), 1)"
    other = m.client(f"print('ready', flush=True); input(); {call.format(2)}")
    assert other.stdout.readline() == "ready\n"
    threads = [threading.Thread(target=eval, args=(call.format(i), {"nv": nv})) for i in range(2)]
    for t in threads:
        t.start()
    other.communicate("go\n")
    for t in threads:
        t.join()
    calls = [r for r in m.log() if r["call"] == "nvmlDeviceSetPersistenceMode"]
    ends = sorted(r["endNs"] for r in calls)
    if percent == 0:
        assert max(r["startNs"] for r in calls) < ends[0]
    else:
        assert ends[-1] - min(r["startNs"] for r in calls) >= 3_000_000_000
    assert ("100 % with the driver's lock" in m.ctl("latency", "list").stdout) == (percent == 100)
