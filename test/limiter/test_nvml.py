# SPDX-License-Identifier: Apache-2.0
"""NVML in a container: NVIDIA's Python client and nvidia-smi see the share, and the container's own processes."""
import ctypes
import re
import shutil

import pynvml as nv
import pytest
from compiled import ROOT, program
from conftest import OUT
from cuda import CONTEXT, MIB
from monitor import Monitor

TOTAL, NONE = 81559, 0xFFFFFFFF  # MiB of an H100; no instance
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 1, 2, 3, 4, 6
INSUFFICIENT_SIZE, FUNCTION_NOT_FOUND, LOST, MISMATCH = 7, 13, 15, 25
SHARE = {"mib": 3000, "context": CONTEXT}

CALLS = (ROOT / "limiter/nvml_calls.def").read_text()
LISTS = re.findall(r"^LIST\((\w+)\)", CALLS, re.M)
NAMES = LISTS + re.findall(r"^NVML\((\w+),", CALLS, re.M)


@pytest.fixture
def shared(h100, container):
    """A container with 3000 MiB of the first card."""
    return container(h100, SHARE)


@pytest.fixture
def monitor(shared):
    return Monitor(shared)


# --- Memory ---


def test_a_card_has_as_much_as_the_share_and_what_the_containers_processes_took_is_used(h100, shared, monitor):
    h100.ctl("attach", "--gpu", 0, "--pid", 9, "--mem", 5000)
    assert monitor.memory() == [3000, 0, 3000]
    first, second = shared.worker(), shared.worker()
    first.says(f"cu.alloc({1000 * MIB})")
    second.says(f"cu.alloc({100 * MIB})")
    assert monitor.memory() == [3000, 1100 + 2 * 448, 1900 - 2 * 448]
    v2 = monitor.says("(lambda m: (m.total, m.reserved, m.used, m.free))(nv.nvmlDeviceGetMemoryInfo(h, version=nv.nvmlMemory_v2))")
    assert v2 == (3000 * MIB, 0, 1996 * MIB, 1004 * MIB)


def test_free_is_no_more_than_the_card_has_left(h100, monitor):
    h100.ctl("attach", "--gpu", 0, "--pid", 9, "--mem", TOTAL - 551 - 100)
    assert monitor.memory() == [3000, 0, 100]
    assert monitor.says("nv.nvmlDeviceGetMemoryInfo(h, version=nv.nvmlMemory_v2).free") == 100 * MIB


def test_a_limit_that_changes_is_seen_and_so_is_one_below_what_is_taken(shared, monitor):
    shared.worker().says(f"cu.alloc({2000 * MIB})")
    shared.change(0, mib=5000)
    assert monitor.memory() == [5000, 2448, 2552]
    shared.change(0, mib=1000)
    assert monitor.memory() == [1000, 1000, 0]
    shared.change(0, mib=200000)
    assert monitor.memory()[0] == TOTAL, "no more than the card"


def test_what_is_none_of_the_shares_is_shown_as_it_is(h100, monitor):
    h100.ctl("attach", "--gpu", 1, "--pid", 9, "--mem", 5000)
    assert monitor.says("nv.nvmlDeviceGetMemoryInfo(nv.nvmlDeviceGetHandleByIndex(1)).total") == TOTAL * MIB
    assert monitor.says("[p.pid for p in nv.nvmlDeviceGetComputeRunningProcesses(nv.nvmlDeviceGetHandleByIndex(1))]") == [9]
    for call in ("nvmlDeviceGetBAR1MemoryInfo", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetName"):
        handle = nv.nvmlDeviceGetHandleByIndex(0)
        assert monitor.says(f"str(nv.{call}(h))") == str(getattr(nv, call)(handle))


# --- Processes ---


def test_the_list_has_the_containers_processes_with_their_own_pids_and_nobody_elses(h100, container, shared, monitor):
    h100.ctl("attach", "--gpu", 0, "--pid", 9, "--mem", 5000)
    neighbour, first, second = container(h100, SHARE).worker(), shared.worker(), shared.worker()
    first.says(f"cu.alloc({1000 * MIB})")
    assert monitor.processes() == {first.pid: CONTEXT + 1000 * MIB, second.pid: CONTEXT}
    seen = {p.pid for p in nv.nvmlDeviceGetComputeRunningProcesses(nv.nvmlDeviceGetHandleByIndex(0))}
    assert seen == {9, neighbour.pid, first.pid, second.pid}, "as the host sees it"


def test_who_has_ended_is_not_in_the_list(shared, monitor):
    first, second = shared.worker(), shared.worker()
    first.kill()
    assert monitor.processes() == {second.pid: CONTEXT} and monitor.memory()[1] == 448
    second.kill()
    assert monitor.processes() == {} and monitor.memory() == [3000, 0, 3000]


def ask(monitor, name, room, buffer=True):
    """(code, count, bytes written) of a call that lists processes."""
    call = f"nv._nvmlGetFunctionPointer({name!r})(h, c.byref(n), {'b' if buffer else None})"
    return monitor.says(f"[b := (c.c_char * 4096)(), n := c.c_uint({room}), {call}, n.value, b.raw][2:]")


@pytest.mark.parametrize("name", LISTS)
def test_every_list_keeps_to_nvmls_protocol(h100, shared, monitor, name):
    h100.ctl("attach", "--gpu", 0, "--pid", 9, "--mem", 5000, "--graphics")
    workers = [shared.worker() for _ in range(3)]
    if "ComputeRunningProcesses" not in name or "MPS" in name:
        assert ask(monitor, name, 0, buffer=False)[:2] == [0, 0] and ask(monitor, name, 4)[:2] == [0, 0]
        return
    for room in (0, 1, 2):
        code, count, data = ask(monitor, name, room, buffer=room > 0)
        assert (code, count) == (INSUFFICIENT_SIZE, 3) and not data.strip(b"\0")
    code, count, data = ask(monitor, name, 5)
    size = 24 if name.endswith(("2", "3")) else 16
    found = [(int.from_bytes(data[at : at + 4], "little"), int.from_bytes(data[at + 8 : at + 16], "little")) for at in range(0, 3 * size, size)]
    assert (code, count) == (0, 3) and sorted(found) == sorted((w.pid, CONTEXT) for w in workers)
    assert size == 16 or data[16:24] == b"\xff" * 8, "in no instance"
    assert not data[3 * size :].strip(b"\0")
    assert ask(monitor, name, 5, buffer=False)[0] == INVALID_ARGUMENT
    assert monitor.says(f"nv._nvmlGetFunctionPointer({name!r})(h, None, None)") == INVALID_ARGUMENT


def test_the_list_of_details_has_the_same(h100, shared, monitor):
    h100.ctl("attach", "--gpu", 0, "--pid", 9, "--mem", 5000)
    worker = shared.worker()
    version = (1 << 24) | ctypes.sizeof(nv.c_nvmlProcessDetailList_v1_t)
    found = "[(p.pid, p.usedGpuMemory, p.gpuInstanceId) for p in nv.nvmlDeviceGetRunningProcessDetailList(h, {}, {})]"
    assert monitor.says(found.format(version, 0)) == [(worker.pid, CONTEXT, NONE)]
    assert monitor.says(found.format(version, 1)) == [] and monitor.says(found.format(version, 2)) == []
    assert monitor.says(found.format(version + 1, 0)) == -MISMATCH
    assert monitor.says(found.format(version, 3)) == -INVALID_ARGUMENT


def test_samples_are_of_the_containers_processes(h100, shared, monitor):
    h100.ctl("attach", "--gpu", 0, "--pid", 9, "--mem", 5000)
    samples = "[s.pid for s in nv.nvmlDeviceGetProcessUtilization(h, 0)]"
    assert monitor.says(samples) == -NOT_FOUND
    worker = shared.worker()
    assert monitor.says(samples) == [worker.pid]


# --- A reader ---


def test_a_monitor_is_no_user_of_the_card_and_writes_nothing(shared):
    worker = shared.worker()
    before = (shared.share / "usage").read_bytes()
    monitor = Monitor(shared)
    assert monitor.processes() == {worker.pid: CONTEXT} and monitor.memory() == [3000, 448, 2552]
    assert (shared.share / "usage").read_bytes() == before


def test_a_process_with_cuda_may_look_as_well(shared):
    worker = shared.worker()
    memory = "(lambda b: [n.nvmlInit_v2(), n.nvmlDeviceGetHandleByIndex_v2(0, c.byref(h)), n.nvmlDeviceGetMemoryInfo(h, b), list(b)])((c.c_uint64 * 3)())"
    assert worker.says(f"[n := c.CDLL('libnvidia-ml.so.1'), h := c.c_void_p(), {memory}][-1]") == [0, 0, 0, [3000 * MIB, 2552 * MIB, 448 * MIB]]


def test_the_child_of_a_monitors_fork_sees_the_same(shared, monitor):
    shared.worker()
    assert monitor.memory()[1] == 448
    assert monitor.says("forked('[start(), nv.nvmlDeviceGetMemoryInfo(h).used >> 20][1]')") == 448


def test_usage_may_be_read_only_for_who_only_looks(shared):
    shared.worker()
    code = "import pynvml as nv; nv.nvmlInit(); print(nv.nvmlDeviceGetMemoryInfo(nv.nvmlDeviceGetHandleByIndex(0)).used >> 20)"
    result = shared.run("sh", "-c", 'mount -o remount,bind,ro /run/cleave/usage && exec python3 -c "$0"', code)
    assert result.stdout.split() == ["448"], result.stderr


# --- Errors ---


def test_errors_are_the_real_librarys(h100, shared, monitor):
    other = Monitor(shared, init=False)
    uninitialised = "nv._nvmlGetFunctionPointer({!r})(None, None)"
    other.says("setattr(nv, 'nvmlLib', c.CDLL('libnvidia-ml.so.1'))")
    for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetRunningProcessDetailList"):
        assert other.says(uninitialised.format(name)) == UNINITIALIZED
        assert monitor.says(uninitialised.format(name)) == INVALID_ARGUMENT, "no such device"
        assert monitor.says(f"nv._nvmlGetFunctionPointer({name!r})(h, None, None)") == INVALID_ARGUMENT
    assert monitor.says("nv.nvmlDeviceGetMemoryInfo(h, version=1)") == -MISMATCH
    h100.ctl("lost", "--gpu", 0, "set")
    assert monitor.says("nv.nvmlDeviceGetMemoryInfo(h)") == -LOST and monitor.says("nv.nvmlDeviceGetComputeRunningProcesses(h)") == -LOST


BROKEN = {
    "no terms": ("terms", lambda b: None),
    "short terms": ("terms", lambda b: b[:-1]),
    "terms of another version": ("terms", lambda b: b[:8] + b"\2" + b[9:]),
    "no usage": ("usage", lambda b: None),
    "empty usage": ("usage", lambda b: b""),
}


@pytest.mark.parametrize("how", BROKEN)
def test_without_its_share_a_container_sees_no_memory_and_no_processes(h100, container, how):
    name, change = BROKEN[how]
    one = container(h100, SHARE)
    data = change((one.share / name).read_bytes())
    (one.share / name).unlink() if data is None else (one.share / name).write_bytes(data)
    monitor = Monitor(one)
    assert monitor.says("nv.nvmlDeviceGetName(h)") == "NVIDIA H100 80GB HBM3"
    for call in ("MemoryInfo(h)", "MemoryInfo(h, version=nv.nvmlMemory_v2)", "ComputeRunningProcesses(h)", "ProcessUtilization(h, 0)", "AccountingMode(h)"):
        assert monitor.says(f"nv.nvmlDeviceGet{call}") == -NO_PERMISSION
    lines = monitor.kill().splitlines()
    assert len(lines) == 1 and f"/run/cleave/{name}: " in lines[0]


# --- Functions ---


def test_what_it_does_not_stand_in_for_is_the_real_function(monitor):
    address = "c.cast(getattr(c.CDLL({!r}), {!r}), c.c_void_p).value"
    ours, real = "libnvidia-ml.so.1", "/usr/lib/cleave/real/libnvidia-ml.so.1"
    same = {name for name in [*NAMES, "nvmlInit_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetFieldValues"]
            if monitor.says(f"{address.format(ours, name)} == {address.format(real, name)}") is True}
    assert same == {"nvmlInit_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetFieldValues"}


@pytest.fixture
def odd(h100, container, tmp_path):
    """odd(pids): a monitor before a real library that has little (odd_nvml.c), with samples of these processes."""
    drivers = tmp_path / "drivers"
    drivers.mkdir()
    (drivers / "libcuda.so.1").symlink_to(OUT / "libcuda.so.1")
    program(drivers / "libnvidia-ml.so.1", "test/limiter/odd_nvml.c", flags=["-shared", "-fPIC", "-fvisibility=hidden"])
    one = container(h100, SHARE)
    one.drivers = drivers
    h100.env["ODD_UUID"] = one.cards[0][0]

    def start(pids):
        h100.env["ODD_PIDS"] = ",".join(map(str, pids))
        return Monitor(one)

    start.container = one
    return start


SAMPLES = (
    "[a := (nv.c_nvmlProcessUtilizationInfo_v1_t * 8)(), s := nv.c_nvmlProcessesUtilizationInfo_v1_t(nv.ProcessesUtilizationInfo_v1, {}, 0, a),"
    " nv._nvmlGetFunctionPointer('nvmlDeviceGetProcessesUtilizationInfo')(h, c.byref(s)), s.processSamplesCount, [(x.pid, x.smUtil) for x in a[:4]]][2:]"
)


def test_samples_of_all_engines_are_of_the_containers_processes(odd):
    first, second = odd.container.worker(), odd.container.worker()
    monitor = odd([9, second.pid, 10, first.pid])
    assert monitor.says(SAMPLES.format(8)) == [0, 2, [(second.pid, second.pid), (first.pid, first.pid), (0, 0), (0, 0)]]
    assert monitor.says(SAMPLES.format(3))[:2] == [INSUFFICIENT_SIZE, 4]
    assert odd([9, 10]).says(SAMPLES.format(8)) == [NOT_FOUND, 0, [(0, 0)] * 4]


def test_accounting_is_off(odd):
    monitor = odd([9])
    assert monitor.says("nv.nvmlDeviceGetAccountingMode(h)") == 0
    assert monitor.says("nv.nvmlDeviceGetAccountingStats(h, 9)") == -NOT_SUPPORTED
    pids = "nv._nvmlGetFunctionPointer('nvmlDeviceGetAccountingPids')(h, c.byref(c.c_uint(4)), b), list(b)"
    assert monitor.says(f"[b := (c.c_uint * 4)(), {pids}][1:]") == [NOT_SUPPORTED, [0] * 4]


def test_what_an_older_driver_lacks_is_not_there(odd):
    monitor = odd([])
    for name in LISTS + ["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetProcessUtilization"]:
        assert monitor.says(f"nv._nvmlGetFunctionPointer({name!r})(h, None, None, 0)") == FUNCTION_NOT_FOUND


# --- nvidia-smi ---


@pytest.fixture
def smi(shared, tmp_path):
    """nvidia-smi in the container. Where it is built it would find the library beside itself."""
    tool = shutil.copy(OUT / "nvidia-smi", tmp_path)
    return lambda *words: shared.run(tool, *words)


def test_nvidia_smi_shows_the_share(h100, shared, smi):
    h100.ctl("attach", "--gpu", 0, "--pid", 9, "--mem", 5000)
    assert "No running processes found" in smi().stdout
    worker = shared.worker()
    worker.says(f"cu.alloc({1000 * MIB})")
    table = smi().stdout
    assert re.search(r"\b1448MiB / +3000MiB", table) and len(re.findall(r"MiB / +\d+MiB", table)) == 2
    rows = [line.split() for line in table.splitlines() if re.search(r" C +", line) and "MiB" in line and "/ " not in line]
    assert [(row[1], row[4], row[-2]) for row in rows] == [("0", str(worker.pid), "1448MiB")]


def test_nvidia_smi_without_terms_runs_and_shows_no_memory(shared, smi):
    (shared.share / "terms").unlink()
    result = smi()
    assert result.returncode == 0 and "0MiB /      0MiB" in result.stdout
    assert result.stderr.count("\n") == 1
