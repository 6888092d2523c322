# SPDX-License-Identifier: Apache-2.0
"""The simulated CUDA driver: devices, contexts, memory, and what NVML shows of its processes."""
import ctypes as c
import random
import re
import subprocess

import pynvml as nv
import pytest
from conftest import OUT, ROOT, listed, used
from cuda import CONTEXT, DESTROYED, GRANULE, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, MIB, NO_DEVICE, NOT_FOUND, NOT_INITIALIZED
from cuda import OUT_OF_MEMORY, UNAVAILABLE, Cuda

RESERVED, TOTAL = 551, 81559  # MiB of an H100, as sim/model.c has them
ROOM = (TOTAL - RESERVED) * MIB


# --- The library ---


def table():
    found = re.findall(r"^CUDA\((\w+), \w+, (\w+), (\d+)\)", (ROOT / "sim/cuda_calls.def").read_text(), re.M)
    return [(symbol, name, int(version)) for symbol, name, version in found]


def is_per_thread(symbol):
    return symbol.endswith(("_ptsz", "_ptds"))


def test_exactly_cudas_names_are_exported_under_the_drivers_soname():
    path = str(OUT / "libcuda.so.1")
    names = subprocess.run(["nm", "-D", "--defined-only", path], check=True, text=True, capture_output=True).stdout
    assert {line.split()[2] for line in names.splitlines()} == {symbol for symbol, _, _ in table()}
    assert "soname: [libcuda.so.1]" in subprocess.run(["readelf", "-d", path], check=True, text=True, capture_output=True).stdout


@pytest.mark.parametrize(("symbol", "name", "version"), table())
def test_each_function_is_handed_out_from_its_version_on(symbol, name, version):
    cu = Cuda()
    own = is_per_thread(symbol)
    assert cu("cuGetProcAddress_v2", name.encode(), c.c_void_p, version, 2 * own, c.c_int) == (c.cast(getattr(cu.lib, symbol), c.c_void_p).value, 0)
    older = [v for s, n, v in table() if n == name and v < version and own >= is_per_thread(s)]
    assert cu("cuGetProcAddress_v2", name.encode(), c.c_void_p, version - 1, 2 * own, c.c_int)[1] == (0 if older else 2)


def test_who_wants_no_default_stream_of_each_thread_gets_the_legacy_one():
    cu = Cuda()
    for flags, symbol in ((0, "cuLaunchKernel"), (1, "cuLaunchKernel"), (2, "cuLaunchKernel_ptsz"), (3, "cuLaunchKernel_ptsz")):
        found = cu("cuGetProcAddress_v2", b"cuLaunchKernel", c.c_void_p, 12000, flags, c.c_int)
        assert found == (c.cast(getattr(cu.lib, symbol), c.c_void_p).value, 0)
    assert cu("cuGetProcAddress_v2", b"cuMemAlloc", c.c_void_p, 12000, 2, c.c_int)[1] == 0


def test_what_is_not_there_is_the_status_to_tell_and_once_was_an_error():
    cu = Cuda()
    assert cu("cuGetProcAddress_v2", b"cuNothing", c.c_void_p, 12000, 0, c.c_int) == (None, 1)
    assert cu.code("cuGetProcAddress", b"cuNothing", c.c_void_p, 12000, 0) == NOT_FOUND
    untouched = c.c_void_p(1)
    assert cu.code("cuGetProcAddress", b"cuNothing", c.byref(untouched), 12000, 0) == NOT_FOUND and untouched.value == 1
    assert cu.code("cuGetProcAddress_v2", b"cuInit", c.c_void_p, 12000, 9, None) == INVALID_VALUE
    assert cu.code("cuGetProcAddress_v2", None, c.c_void_p, 12000, 0, None) == INVALID_VALUE


def test_no_version_is_old_enough_for_anything_and_minus_one_is_the_newest():
    cu = Cuda()
    assert cu("cuGetProcAddress_v2", b"cuInit", c.c_void_p, 0, 0, c.c_int) == (None, 2)
    assert cu("cuGetProcAddress_v2", b"cuNothing", c.c_void_p, 0, 0, c.c_int) == (None, 1)
    newest = c.cast(cu.lib.cuStreamGetCaptureInfo_v3, c.c_void_p).value
    assert cu("cuGetProcAddress_v2", b"cuStreamGetCaptureInfo", c.c_void_p, c.c_int(-1), 0, c.c_int) == (newest, 0)
    assert cu("cuGetProcAddress", b"cuStreamGetCaptureInfo", c.c_void_p, c.c_int(-1), 0) == newest


@pytest.mark.parametrize(("name", "code"), re.findall(r"^ +(CUDA_ERROR_\w+) = (\d+),", (ROOT / "sim/cuda.h").read_text(), re.M))
def test_each_code_has_its_name(name, code):
    cu = Cuda()
    assert cu("cuGetErrorName", int(code), c.c_char_p) == name.encode() and cu("cuGetErrorString", int(code), c.c_char_p)


def test_codes_have_names():
    cu = Cuda()
    assert cu("cuGetErrorName", 2, c.c_char_p) == b"CUDA_ERROR_OUT_OF_MEMORY"
    assert cu("cuGetErrorString", 0, c.c_char_p) == b"no error"
    assert cu.code("cuGetErrorName", 12345, c.c_char_p) == INVALID_VALUE


# --- Devices ---


def test_nothing_is_answered_before_it_is_initialised(client):
    one = client()
    assert one.says("cu('cuDeviceGetCount', c.c_int)") == -NOT_INITIALIZED
    assert one.says("cu('cuMemAlloc_v2', c.c_uint64, 1)") == -NOT_INITIALIZED
    assert one.says("cu('cuInit', 1)") == -INVALID_VALUE
    assert one.says("cu('cuDriverGetVersion', c.c_int)") == 13000


def test_without_a_driver_there_is_no_device(client, tmp_path):
    one = client(CLEAVE_SIM_STATE=str(tmp_path / "none"), CLEAVE_SIM_FLEET="")
    assert one.says("cu('cuInit', 0)") == -NO_DEVICE


def test_devices_are_the_cards_as_nvml_has_them(worker):
    assert worker.says("cu('cuDeviceGetCount', c.c_int)") == 2
    for i in range(2):
        handle = nv.nvmlDeviceGetHandleByIndex(i)
        bus = worker.says(f"[b := c.create_string_buffer(20), cu('cuDeviceGetPCIBusId', b, 20, {i}), b.value][-1]").decode()
        assert nv.nvmlDeviceGetPciInfo(handle).busId.endswith(bus)
        assert worker.says(f"cu('cuDeviceGetByPCIBusId', c.c_int, {bus.encode()!r})") == i
        found = worker.says(f"[b := c.create_string_buffer(16), cu('cuDeviceGetUuid_v2', b, {i}), b.raw][-1]").hex()
        assert found == nv.nvmlDeviceGetUUID(handle).removeprefix("GPU-").replace("-", "")
        assert worker.says(f"[b := c.create_string_buffer(99), cu('cuDeviceGetName', b, 99, {i}), b.value][-1]").decode() == nv.nvmlDeviceGetName(handle)
        assert worker.says(f"cu('cuDeviceTotalMem_v2', c.c_size_t, {i})") == ROOM
        assert [worker.says(f"cu('cuDeviceGetAttribute', c.c_int, {a}, {i})") for a in (75, 76, 16)] == [9, 0, 132]
    assert worker.says("cu('cuDeviceGet', c.c_int, 2)") == -INVALID_DEVICE


OF_DEVICES = [
    "'cuDeviceGet', c.c_int, {}",
    "'cuDeviceTotalMem_v2', c.c_size_t, {}",
    "'cuDevicePrimaryCtxRetain', c.c_void_p, {}",
    "'cuDevicePrimaryCtxRelease_v2', {}",
    "'cuDevicePrimaryCtxReset_v2', {}",
    "'cuDevicePrimaryCtxGetState', {}, c.c_uint, c.c_int",
    "'cuDevicePrimaryCtxSetFlags_v2', {}, 0",
    "'cuCtxCreate_v2', c.c_void_p, 0, {}",
]


@pytest.mark.parametrize("call", OF_DEVICES)
def test_a_device_that_is_not_there_is_refused(worker, call):
    for device in (2, 16, -1, 2**31 - 1, -(2**31)):
        assert worker.says(f"cu({call.format(f'c.c_int({device})')})") == -INVALID_DEVICE


def test_who_asks_for_the_version_is_not_initialised(client):
    one = client()
    assert one.says("cu('cuDriverGetVersion', c.c_int)") == 13000
    assert one.says("cu('cuDeviceGetCount', c.c_int)") == -NOT_INITIALIZED
    child = "(os._exit(cu.code('cuInit', 0)) if not (pid := os.fork()) else os.waitpid(pid, 0)[1] >> 8)"
    assert one.says(child) == 0 and listed() == {}


VISIBLE = [("1,0", [1, 0]), ("1", [1]), ("0,7,1", [0]), ("{1}", [1]), ("{1:.12},0", [1, 0])]


@pytest.mark.parametrize(("wish", "cards"), VISIBLE)
def test_devices_are_those_that_are_asked_for(client, wish, cards):
    uuids = [nv.nvmlDeviceGetUUID(nv.nvmlDeviceGetHandleByIndex(i)) for i in range(2)]
    one = client(CUDA_VISIBLE_DEVICES=wish.format(*uuids))
    one.says("cu.init()")
    got = [one.says(f"[b := c.create_string_buffer(16), cu('cuDeviceGetUuid_v2', b, {i}), b.raw][-1]").hex() for i in range(len(cards))]
    assert got == [uuids[i].removeprefix("GPU-").replace("-", "") for i in cards]
    assert one.says("cu('cuDeviceGetCount', c.c_int)") == len(cards)


@pytest.mark.parametrize("wish", ["", "7", "none", "0,0", "GPU-", "GPU-ffffffff", "0x1", "-1"])
def test_a_wish_for_no_card_is_kept(client, wish):
    assert client(CUDA_VISIBLE_DEVICES=wish).says("cu('cuInit', 0)") == -NO_DEVICE


# --- Contexts ---


def test_the_primary_context_lives_as_long_as_it_is_retained(client):
    one = client()
    one.says("cu.init()")
    assert used() == 0 and listed() == {}
    one.says("cu('cuDevicePrimaryCtxRetain', c.c_void_p, 0)")
    one.says("cu('cuDevicePrimaryCtxRetain', c.c_void_p, 0)")
    assert listed() == {one.pid: CONTEXT} and used() == CONTEXT and listed(1) == {}
    one.says("cu('cuDevicePrimaryCtxRelease_v2', 0)")
    assert one.says("cu('cuDevicePrimaryCtxGetState', 0, c.c_uint, c.c_int)") == (0, 1)
    one.says("cu('cuDevicePrimaryCtxRelease_v2', 0)")
    assert listed() == {} and used() == 0
    assert one.says("cu('cuDevicePrimaryCtxRelease_v2', 0)") == -INVALID_CONTEXT


def test_a_thread_has_a_stack_of_contexts(client):
    one = client()
    one.says("cu.init()")
    assert one.says("cu('cuCtxGetCurrent', c.c_void_p)") is None
    assert one.says("cu('cuMemAlloc_v2', c.c_uint64, 1)") == -INVALID_CONTEXT
    first = one.says("cu('cuCtxCreate_v2', c.c_void_p, 0, 0)")
    second = one.says("cu('cuCtxCreate_v2', c.c_void_p, 0, 1)")
    assert one.says("cu('cuCtxGetDevice', c.c_int)") == 1
    assert one.says("cu('cuCtxPopCurrent_v2', c.c_void_p)") == second
    assert one.says("cu('cuCtxGetCurrent', c.c_void_p)") == first and one.says("cu('cuCtxGetDevice', c.c_int)") == 0
    one.says(f"cu('cuCtxPushCurrent_v2', {second})")
    one.says(f"cu('cuCtxDestroy_v2', {first})")
    one.says("cu('cuCtxPopCurrent_v2', None)")
    assert one.says("cu('cuCtxGetDevice', c.c_int)") == -DESTROYED
    assert one.says(f"cu('cuCtxSetCurrent', {first})") == -DESTROYED
    assert one.says("cu('cuCtxSetCurrent', 4096)") == -INVALID_CONTEXT
    assert one.says("cu('cuCtxCreate_v2', c.c_void_p, 0x10000, 0)") == -INVALID_VALUE


# --- Memory ---


def test_memory_is_taken_in_granules_and_all_of_it_comes_back(worker):
    before = worker.says("cu.free()")
    assert before == ROOM - CONTEXT
    large = worker.says(f"cu.alloc({GRANULE + 1})")
    assert worker.says("cu.free()") == before - 2 * GRANULE
    small = worker.says("[cu.alloc(1000) for i in range(1000)]")
    assert len({p % 512 for p in small}) == 1 and len(set(small)) == 1000
    assert worker.says("cu.free()") == before - 3 * GRANULE
    assert listed() == {worker.pid: CONTEXT + 3 * GRANULE}
    worker.says(f"[cu('cuMemFree_v2', p) for p in {small}]")
    worker.says(f"cu('cuMemFree_v2', {large})")
    assert worker.says("cu.free()") == before and used() == CONTEXT


def test_what_does_not_fit_is_refused_and_takes_nothing(h100, worker):
    h100.ctl("attach", "--gpu", 0, "--pid", 9, "--mem", 1000)
    left = worker.says("cu.free()")
    assert left == ROOM - CONTEXT - 1000 * MIB
    assert worker.says(f"cu.alloc({left + 1})") == -OUT_OF_MEMORY
    assert worker.says("cu.alloc(2**64 - 1)") == -OUT_OF_MEMORY and worker.says("cu.alloc(0)") == -INVALID_VALUE
    worker.says(f"cu.alloc({left})")
    assert worker.says("cu.free()") == 0 and worker.says("cu.alloc(1)") == -OUT_OF_MEMORY


def test_rows_have_a_pitch_and_sizes_that_overflow_are_refused(worker):
    pointer, pitch = worker.says("cu('cuMemAllocPitch_v2', c.c_uint64, c.c_size_t, 1000, 10, 4)")
    assert pitch == 1024
    assert worker.says(f"cu('cuMemGetAddressRange_v2', c.c_uint64, c.c_size_t, {pointer + 5000})") == (pointer, 10240)
    assert worker.says("cu('cuMemAllocPitch_v2', c.c_uint64, c.c_size_t, 2**40, 2**40, 4)") == -OUT_OF_MEMORY
    assert worker.says("cu('cuMemAllocPitch_v2', c.c_uint64, c.c_size_t, 1000, 10, 5)") == -INVALID_VALUE


def test_what_is_written_is_read_and_nothing_beyond_it(worker):
    pointer = worker.says("cu.alloc(16)")
    worker.says(f"cu('cuMemsetD32_v2', {pointer}, 0x04030201, 4)")
    worker.says(f"cu('cuMemcpyHtoD_v2', {pointer + 4}, b'abcd', 4)")
    worker.says(f"cu('cuMemcpyDtoD_v2', {pointer + 12}, {pointer + 4}, 4)")
    assert worker.says(f"[b := c.create_string_buffer(16), cu('cuMemcpyDtoH_v2', b, {pointer}, 16), b.raw][-1]") == b"\1\2\3\4abcd\1\2\3\4abcd"
    for call in (f"'cuMemsetD8_v2', {pointer + 1}, 0, 16", f"'cuMemcpyHtoD_v2', {pointer + 15}, b'ab', 2", "'cuMemcpyHtoD_v2', 4096, b'ab', 2"):
        assert worker.says(f"cu({call})") == -INVALID_VALUE
    worker.says(f"cu('cuMemFree_v2', {pointer})")
    assert worker.says(f"cu('cuMemFree_v2', {pointer})") == -INVALID_VALUE
    assert worker.says(f"cu('cuMemGetAddressRange_v2', c.c_uint64, c.c_size_t, {pointer})") == -NOT_FOUND


def test_memory_ends_with_its_context(worker):
    worker.says("cu.alloc(100 << 20)")
    worker.says("cu('cuDevicePrimaryCtxReset_v2', 0)")
    assert used() == 0 and worker.says("cu.alloc(1)") == -DESTROYED


def test_a_context_that_is_reset_stays_retained(worker):
    worker.says("cu('cuDevicePrimaryCtxReset_v2', 0)")
    worker.says("cu('cuDevicePrimaryCtxRetain', c.c_void_p, 0)")
    worker.says("cu('cuDevicePrimaryCtxRelease_v2', 0)")
    assert worker.says("cu('cuDevicePrimaryCtxGetState', 0, c.c_uint, c.c_int)") == (0, 1)
    worker.says("cu('cuDevicePrimaryCtxRelease_v2', 0)")
    assert worker.says("cu('cuDevicePrimaryCtxGetState', 0, c.c_uint, c.c_int)") == (0, 0)


# --- Processes ---


def test_a_process_that_is_killed_leaves_nothing(worker, client):
    worker.says("cu.alloc(1 << 30)")
    other = client()
    other.says("cu.init(0)")
    left = other.says("cu.free()")
    worker.kill()
    assert other.says("cu.free()") == left + (1 << 30) + CONTEXT
    assert listed() == {other.pid: CONTEXT} and used() == CONTEXT
    assert other.says(f"cu.alloc({ROOM - CONTEXT})") > 0


def test_a_fork_has_no_cuda_and_its_end_takes_nothing_from_its_parent(worker):
    worker.says("cu.alloc(1 << 30)")
    child = "(os._exit(cu.code('cuInit', 0) * 10 + cu.code('cuMemAlloc_v2', c.c_uint64, 1)) if not (pid := os.fork()) else os.waitpid(pid, 0)[1] >> 8)"
    assert worker.says(child) == NOT_INITIALIZED * 11
    assert listed() == {worker.pid: CONTEXT + (1 << 30)} and worker.says("cu.alloc(1)") > 0


def test_nvml_in_the_same_process_takes_nothing_from_it(worker):
    worker.says("cu.alloc(1 << 30)")
    worker.says(f"[n := c.CDLL({str(OUT / 'libnvidia-ml.so.1')!r}), n.nvmlInit_v2(), n.nvmlShutdown(), n.nvmlInit_v2()][-1]")
    assert listed() == {worker.pid: CONTEXT + (1 << 30)}


def test_a_process_of_another_pid_namespace_is_seen_by_the_pid_of_here(h100, client):
    probe = subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True)
    if probe.returncode != 0:
        pytest.skip("no PID namespace can be made here")
    inside, outside = client("unshare", "--pid", "--fork", "--kill-child"), client()
    assert inside.says("[cu.init(0), os.getpid()][-1]") == 1
    outside.says("cu.init(0)")
    (pid,) = set(listed()) - {outside.pid}
    with open(f"/proc/{pid}/status") as status:
        assert f"PPid:\t{inside.pid}\n" in status.read()
    # From within, the one outside has memory and no name.
    within = f"n.nvmlInit_v2(), n.nvmlDeviceGetHandleByIndex_v2(0, c.byref(h)), n.nvmlDeviceGetComputeRunningProcesses_v3(h, c.byref(k), b)"
    setup = f"n := c.CDLL({str(OUT / 'libnvidia-ml.so.1')!r}), h := c.c_void_p(), k := c.c_uint(8), b := (c.c_char * 4096)()"
    assert inside.says(f"[{setup}, {within}, k.value, int.from_bytes(b[:4], 'little')][-2:]") == [1, 1]
    assert used() == 2 * CONTEXT


def test_a_card_with_a_context_is_busy(worker):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlDeviceSetMigMode(device, 1) == nv.NVML_ERROR_IN_USE
    worker.kill()
    assert nv.nvmlDeviceSetMigMode(device, 1) == nv.NVML_SUCCESS


def test_simctl_ends_no_process_of_cudas(h100, worker):
    assert h100.ctl("detach", "--pid", worker.pid, ok=False).returncode != 0
    assert listed() == {worker.pid: CONTEXT}


def test_an_exclusive_card_is_the_first_process_own(worker, client):
    nv.nvmlDeviceSetComputeMode(nv.nvmlDeviceGetHandleByIndex(0), nv.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
    other = client()
    assert other.says("cu.init(0)") == -UNAVAILABLE
    assert worker.says("cu('cuCtxCreate_v2', c.c_void_p, 0, 0)") > 0
    worker.kill()
    assert other.says("cu.init(0)") is None


def test_a_card_that_is_lost_takes_no_more_work(h100, worker):
    h100.ctl("lost", "--gpu", 0, "set")
    assert worker.says("cu.alloc(1)") == -UNAVAILABLE


def test_faults_and_the_log_are_of_cudas_calls_too(h100, worker, client):
    h100.ctl("fault", "add", "--call", "cuMemAlloc", "--nth", 2, "--action", "fail:OUT_OF_MEMORY")
    assert worker.says("cu.alloc(1)") > 0 and worker.says("cu.alloc(7)") == -OUT_OF_MEMORY and worker.says("cu.alloc(1)") > 0
    h100.ctl("fault", "add", "--call", "cuInit", "--action", "fail:UNKNOWN")
    other = client()
    assert other.says("cu('cuInit', 0)") == -999 and other.says("cu('cuDeviceGetCount', c.c_int)") == -NOT_INITIALIZED
    assert other.says("cu.init(0)") is None
    record = [r for r in h100.log("--mutating") if r["call"] == "cuMemAlloc_v2"][1]
    assert (record["resultName"], record["gpu"], record["pid"]) == ("CUDA_ERROR_OUT_OF_MEMORY", 0, worker.pid)
    refused = h100.ctl("fault", "add", "--call", "cuInit", "--action", "fail:BusyDevice", ok=False)
    assert refused.returncode != 0 and "CUDA" in refused.stderr and "CUDA_ERROR_NO_DEVICE" in refused.stderr


def test_whoever_is_killed_in_a_storm_of_allocations_leaves_nothing(h100, client):
    dice = random.Random(1)
    for _ in range(2):
        crowd = [client() for _ in range(6)]
        for one in crowd:
            assert one.says("cu.init(0)") is None
            one.starts(f"[cu('cuMemFree_v2', cu.alloc({dice.randrange(1, 9)} << 20)) for i in range(10**9)]")
        assert used() <= ROOM
        for one in dice.sample(crowd, len(crowd)):
            one.kill()
            assert used() <= ROOM and one.pid not in listed()
    assert used() == 0 and listed() == {}
