# SPDX-License-Identifier: Apache-2.0
"""MetaX cards: faults on order, kills in the middle, several processes, nonsense, both vendors at once."""
import ctypes as c
import errno
import os
import random
import signal
import subprocess
import sys

import metax as mx
import pytest


@pytest.fixture
def c500(machine):
    m = machine("{seed: 7, gpus: [{model: c500, count: 2}]}", init=False)
    mx.start()
    return m


def recut():
    mx.toggle()
    mx.call("SetDeviceSchedClass", 0, mx.FIXED_SHARE)
    id = mx.create(1024, 10)
    mx.call("SetSgpuVramQuota", 0, id, 2048)
    mx.call("RemoveSgpu", 0, id)
    mx.toggle(on=0)


# What the card is after 0, 1, ... 6 of the changes above: toggle, class, memory of its slices.
STAGES = [
    (False, "best-effort", []),
    (True, "best-effort", []),
    (True, "fixed-share", []),
    (True, "fixed-share", [1024]),
    (True, "fixed-share", [2048]),
    (True, "fixed-share", []),
    (False, "fixed-share", []),
]


def stage(m):
    card = m.show()["metax"][0]
    return card["sgpu"], card["schedClass"], [s["vramMiB"] for s in card["slices"]]


@pytest.mark.parametrize("how", ["state", "environment"])
@pytest.mark.parametrize("action,done", [("kill", 0), ("kill-after", 1), ("fail:BusyDevice", 0)])
def test_a_caller_that_dies_leaves_the_old_card_or_the_new(machine, monkeypatch, how, action, done):
    m = machine("gpus: [{model: c500}]", init=False)
    for nth in range(1, len(STAGES)):
        m.ctl("init", "--force")
        if how == "state":
            m.ctl("fault", "add", "--call", "mutating", "--nth", nth, "--action", action)
        else:
            monkeypatch.setenv("CLEAVE_SIM_FAULT", f"mutating:{nth}:{action}")
        assert mx.child(recut) == (-signal.SIGKILL if "kill" in action else 1)
        assert stage(m) == STAGES[nth - 1 + done]


def test_killed_at_any_call_at_all_the_next_client_finds_a_whole_card(machine, monkeypatch):
    m = machine("gpus: [{model: c500}]", init=False)
    for nth in range(1, 7):
        m.ctl("init", "--force")
        monkeypatch.setenv("CLEAVE_SIM_FAULT", f"*:{nth}:kill-after")
        assert mx.child(recut) == -signal.SIGKILL
        assert stage(m) == STAGES[nth]
    monkeypatch.setenv("CLEAVE_SIM_FAULT", "*:7:kill-after")
    m.ctl("init", "--force")
    assert mx.child(recut) == 0 and stage(m) == STAGES[-1]


def storm(m, code):
    """A client process that goes on until it is killed."""
    env = dict(m.env, PYTHONPATH=os.pathsep.join([os.path.dirname(__file__), *sys.path]))
    prelude = 'import metax as mx, ctypes as c\nmx.call("Init")\n'
    return subprocess.Popen([sys.executable, "-c", prelude + code], env=env, text=True, stdout=subprocess.PIPE)


def test_a_client_killed_anywhere_leaves_no_lock_behind(c500):
    mx.toggle()
    code = """
while True:
    ids = [mx.create(128 * (i + 1), 1) for i in range(8)]
    print(1, flush=True)
    for i in ids:
        mx.call("RemoveSgpu", 0, i)
"""
    for _ in range(5):
        p = storm(c500, code)
        for _ in range(3):
            p.stdout.readline()
        p.kill()
        p.communicate()
        left = c500.show()["metax"][0]["slices"]
        assert [s["vramMiB"] for s in left] == [128 * (s["id"] + 1) for s in left]
        for s in left:
            mx.call("RemoveSgpu", 0, s["id"])


@pytest.mark.parametrize(
    "action,code,err",
    [
        ("fail:BusyDevice", mx.BUSY, 0),
        ("fail:23", mx.BUSY, 0),
        ("fail:SysfsWriteError:EINVAL", mx.SYSFS_WRITE, errno.EINVAL),
        ("fail:SysfsWriteError:EROFS", mx.SYSFS_WRITE, errno.EROFS),
        ("fail:SysfsError", mx.SYSFS, errno.EIO),
        ("fail:PermissionDenied", mx.PERMISSION, 0),
    ],
)
def test_a_failure_has_its_code_and_errno_and_changes_nothing(c500, action, code, err):
    mx.toggle()
    before = c500.show()
    c500.ctl("fault", "add", "--call", "mxSmlCreateSgpu", "--nth", 1, "--action", action)
    assert (action if action != "fail:23" else "fail:BusyDevice") in c500.ctl("fault", "list").stdout
    assert mx.refused("CreateSgpu", 0, 128, 1, c.byref(c.c_uint())) == (code, err)
    assert c500.show() == before
    mx.create(128, 1)


def test_a_read_only_sys_refuses_every_change_of_one_card(c500):
    for i in (0, 1):
        mx.toggle(i)
    c500.ctl("fault", "add", "--call", "mutating", "--nth", 0, "--action", "fail:SysfsWriteError:EROFS", "--gpu", "metax:0")
    assert "seen=0 gpu=metax:0" in c500.ctl("fault", "list").stdout
    out = c.byref(c.c_uint())
    for change in (("CreateSgpu", 0, 128, 1, out), ("SetSgpuToggle", 0, 0), ("SetDeviceTimeslice", 0, 5)):
        assert mx.refused(*change) == (mx.SYSFS_WRITE, errno.EROFS)
    mx.create(128, 1, dev=1)
    c500.ctl("fault", "clear")
    mx.create(128, 1)


def test_counts_are_zero_when_they_cannot_be_told(c500):
    mx.toggle()
    mx.create(128, 1)
    for name in ("mxSmlGetSgpuCount", "mxSmlGetDeviceCount", "mxSmlGetPfDeviceCount"):
        c500.ctl("fault", "add", "--call", name, "--nth", 1, "--action", "fail:SysfsError")
    assert (mx.LIB.mxSmlGetSgpuCount(0), mx.LIB.mxSmlGetDeviceCount()) == (0, 0)
    assert (mx.LIB.mxSmlGetSgpuCount(0), mx.LIB.mxSmlGetDeviceCount()) == (1, 2)


def test_init_fails_by_name_and_is_undone(machine):
    m = machine("gpus: [{model: c500}]", init=False)
    m.ctl("fault", "add", "--call", "mxSmlInit", "--nth", 1, "--action", "fail:LoadDllFailure")
    code = "import metax as mx; print([mx.code_of('Init'), mx.LIB.mxSmlGetDeviceCount(), mx.code_of('Init'), mx.LIB.mxSmlGetDeviceCount()])"
    env = dict(m.env, PYTHONPATH=os.pathsep.join([os.path.dirname(__file__), *sys.path]))
    out = subprocess.run([sys.executable, "-c", code], env=env, text=True, capture_output=True)
    assert out.stdout == "[26, 0, 0, 1]\n", out.stderr


def test_who_initialises_beside_another_finds_the_cards(machine):
    m = machine("gpus: [{model: c500, count: 3}]", init=False)
    m.ctl("latency", "set", "mxSmlInit", "20ms")
    code = """
import metax as mx, threading
seen = []
threads = [threading.Thread(target=lambda: seen.append((mx.code_of("Init"), mx.LIB.mxSmlGetDeviceCount()))) for _ in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
print(set(seen))
"""
    env = dict(m.env, PYTHONPATH=os.pathsep.join([os.path.dirname(__file__), *sys.path]))
    out = subprocess.run([sys.executable, "-c", code], env=env, text=True, capture_output=True)
    assert out.stdout == "{(0, 3)}\n", out.stderr


def test_a_hanging_call_holds_nobody_else_up(c500):
    mx.toggle(0), mx.toggle(1)
    c500.ctl("fault", "add", "--call", "mxSmlCreateSgpu", "--nth", 1, "--action", "hang:100000", "--gpu", "metax:0")
    stuck = storm(c500, "mx.create(128, 1)")
    while "seen=1" not in c500.ctl("fault", "list").stdout:
        assert stuck.poll() is None
    mx.create(256, 1, dev=1)
    mx.create(256, 1)
    stuck.kill()
    stuck.communicate()
    assert [[s["vramMiB"] for s in g["slices"]] for g in c500.show()["metax"]] == [[256], [256]]


def test_several_processes_slice_one_card_and_never_too_much(c500):
    mx.toggle()
    mx.call("SetDeviceSchedClass", 0, mx.FIXED_SHARE)
    code = """
made = 0
while made < 60:
    try:
        id = mx.create((20480, 4096, 128)[made % 3], (40, 10, 5)[made % 3])
    except mx.Refused as e:
        assert e.code == mx.SYSFS_WRITE
        continue
    mx.call("RemoveSgpu", 0, id)
    made += 1
"""
    clients = [storm(c500, code) for _ in range(3)]
    while any(p.poll() is None for p in clients):
        check(c500)
    assert [p.wait() for p in clients] == [0, 0, 0]
    assert c500.show()["metax"][0]["slices"] == []
    for p in clients:
        p.communicate()


def test_another_process_sees_the_same_card(c500):
    mx.toggle()
    id = mx.create(1024, 10)
    uuid = mx.slice_info(id).uuid

    def work():
        assert mx.slice_info(id).uuid == uuid
        mx.call("SetSgpuComputeQuota", 0, id, 20)

    assert mx.child(work) == 0
    assert mx.slice_info(id).compute == 20


def test_one_list_of_faults_and_one_log_for_both_vendors(machine):
    import pynvml as nv

    m = machine("{latency: {mxSmlSetSgpuToggle: 5ms}, gpus: [{model: h100-80}, {model: c500}]}")
    mx.start()
    m.ctl("log", "--clear"), m.ctl("calls", "--clear")
    m.ctl("fault", "add", "--call", "mutating", "--nth", 2, "--action", "fail:BusyDevice")
    m.ctl("fault", "add", "--call", "mutating", "--nth", 3, "--action", "fail:3")
    device = nv.nvmlDeviceGetHandleByIndex(0)
    nv.nvmlDeviceSetPersistenceMode(device, 1)
    mx.toggle()
    with pytest.raises(nv.NVMLError_NotSupported):
        nv.nvmlDeviceSetPersistenceMode(device, 0)
    assert mx.refused("CreateSgpu", 0, 128, 1, c.byref(c.c_uint()))[0] == mx.BUSY
    mx.create(128, 1)
    log = m.log("--mutating")
    assert [(r["call"], r.get("vendor"), r["gpu"], r["resultName"]) for r in log] == [
        ("nvmlDeviceSetPersistenceMode", None, 0, "SUCCESS"),
        ("mxSmlSetSgpuToggle", "metax", 0, "Success"),
        ("nvmlDeviceSetPersistenceMode", None, 0, "NOT_SUPPORTED"),
        ("mxSmlCreateSgpu", "metax", 0, "BusyDevice"),
        ("mxSmlCreateSgpu", "metax", 0, "Success"),
    ]
    assert log[1]["endNs"] - log[1]["startNs"] >= 5_000_000
    assert log[4]["args"] == "id=0 vram=128 compute=1"
    assert ["2", "mxSmlCreateSgpu"] in [line.split() for line in m.ctl("calls").stdout.splitlines()]


def test_a_fault_of_one_vendors_card_is_not_the_others_of_that_number(machine):
    import pynvml as nv

    m = machine("gpus: [{model: h100-80}, {model: c500}]")
    mx.start()
    m.ctl("fault", "add", "--call", "*", "--nth", 0, "--action", "fail:1", "--gpu", "metax:0")
    nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetHandleByIndex(0))
    assert mx.refused("GetDeviceInfo", 0, c.byref(mx.Info()))[0] == mx.FAILURE


def test_nvidias_reset_does_not_mind_a_client_of_metax(machine):
    m = machine("gpus: [{model: a100-80}, {model: c500}]", init=False)
    mx.start()
    m.smi("-r", "-i", 0)


# --- nonsense ---


def check(m):
    """What no card may ever show."""
    for card in m.show()["metax"]:
        slices = card["slices"]
        assert len(slices) <= 16 and len({s["id"] for s in slices}) == len(slices)
        assert len({s["uuid"] for s in slices}) == len(slices)
        assert sum(s["vramMiB"] for s in slices) <= 65536
        assert all(s["vramMiB"] > 0 and s["vramMiB"] % 128 == 0 for s in slices)
        assert all(s["computePct"] <= 100 for s in slices)
        assert card["schedClass"] == "best-effort" or sum(s["computePct"] for s in slices) <= 100
        assert card["sgpu"] or not slices
        assert not (card["virtualFunctions"] and card["sgpu"])


NUMBERS = [0, 1, 2, 3, 15, 16, 17, 99, 100, 101, 127, 128, 200, 256, 1024, 32768, 65408, 65536, 65664, 1 << 31, (1 << 32) - 1]
NAMES = [n for n in mx.SYMBOLS if n not in ("mxSmlEventSetWait", "mxSmlInit", "mxSmlInitWithFlags", "mxSmlGetErrorString")]
OF_SETS = ("mxSmlEventSetFree", "mxSmlDeviceRegisterEvents")


@pytest.mark.parametrize("seed", range(6))
def test_random_calls_with_nonsense_never_crash_and_never_break_a_card(c500, seed):
    rng = random.Random(seed)
    room = c.create_string_buffer(1 << 20)
    mx.toggle(0), mx.toggle(1)
    for step in range(3000):
        name = rng.choice(NAMES if rng.random() < 0.5 else mx.SLICES)
        numbers = [rng.choice(NUMBERS) if rng.random() < 0.5 else rng.randrange(18) for _ in range(3)]
        if name == "mxSmlCreateSgpu":
            args = [*numbers, room if rng.random() < 0.9 else None]
        elif name == "mxSmlSetSgpuAlias":
            args = [*numbers[:2], rng.choice([None, b"", b"x", b"y" * 33, b"z" * 5000])]
        elif name in OF_SETS:
            args = [*numbers[:2], rng.choice([None, 0xDEAD0])][-1 if name == OF_SETS[0] else 0 :]
        elif name.startswith("mxSmlSet") or "Reset" in name:
            args = numbers
        else:
            args = answers(name, numbers, room, rng)
        getattr(mx.LIB, name)(*args)
        if step % 500 == 0:
            check(c500)
        if step % 700 == 0:
            c500.ctl("vfs", "--gpu", f"metax:{rng.randrange(2)}", rng.choice([0, 2, 8]), ok=False)
    check(c500)


# How many numbers stand before what is written to; all others have one.
NUMBERS_BEFORE = {"mxSmlGetNumberOfProcess": 0, "mxSmlGetAllLimitedDevices": 0, "mxSmlGetMacaVersion": 0, "mxSmlEventSetCreate": 0}
TWO_BEFORE = ("Sgpu", "Topology", "Distance", "Remote", "Affinity", "IpUsage", "Temperature", "DeviceVersion")
NO_SLICE = ("Toggle", "Count", "AvailableQuota")


def answers(name, numbers, room, rng):
    two = any(part in name for part in TWO_BEFORE) and not any(part in name for part in NO_SLICE)
    before = NUMBERS_BEFORE.get(name, 2 if two else 1)
    size = c.c_uint(rng.choice([0, 1, 16, 64, 200]))
    asked = [rng.choice([None, room]), rng.choice([None, c.byref(size)])]
    if any(part in name for part in ("LinkInfo", "SingleGpu", "BoardPowerInfo")):
        asked.reverse()
    if any(part in name for part in ("Version", "RealPath", "Alias", "AnnotationsId", "LinkInfo", "SingleGpu", "BoardPowerInfo")):
        return numbers[:before] + asked
    if "Affinity" in name:
        return [numbers[0], rng.choice([0, 1, 3, 1024, 1025]), asked[0]]
    if "ProcessInfo" in name:
        return [rng.choice([0, 1, 256, 257, (1 << 32) - 1]), asked[0]]
    return numbers[:before] + asked[:1]
