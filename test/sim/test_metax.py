# SPDX-License-Identifier: Apache-2.0
"""MetaX cards: symbols and layouts, inventory, slices, and what they share of a card."""
import ctypes as c
import errno
import subprocess

import metax as mx
import pytest
from conftest import OUT


@pytest.fixture
def c500(machine):
    m = machine("{seed: 7, gpus: [{model: c500, count: 4}]}", init=False)
    mx.start()
    return m


@pytest.fixture
def card(c500):
    mx.toggle()
    return c500


# --- the ABI ---


def test_exactly_the_librarys_names_are_exported():
    out = subprocess.run(["nm", "-D", "--defined-only", str(OUT / "libmxsml.so")], check=True, text=True, capture_output=True)
    assert sorted(line.split()[2] for line in out.stdout.splitlines()) == sorted(mx.SYMBOLS)


def test_the_soname_is_the_librarys():
    out = subprocess.run(["readelf", "-d", str(OUT / "libmxsml.so")], check=True, text=True, capture_output=True)
    assert "soname: [libmxsml.so]" in out.stdout


@pytest.mark.parametrize(
    "kind,size",
    [
        (mx.Ids, 516),
        (mx.Info, 184),
        (mx.Memory, 48),
        (mx.Reason, 68),
        (mx.Slice, 124),
        (mx.Quota, 12),
        (mx.SliceMemory, 24),
        (mx.Ecc, 20),
        (mx.OnGpu, 56),
        (mx.Process, 3656),
        (mx.Event, 1032),
    ],
)
def test_layouts_are_the_descriptions(kind, size):
    assert c.sizeof(kind) == size


@pytest.mark.parametrize(
    "call,args,kind",
    [
        ("GetDeviceInfo", [0], mx.Info),
        ("GetMemoryInfo", [0], mx.Memory),
        ("GetAllLimitedDevices", [], mx.Ids),
        ("GetDeviceUnavailableReason", [0], mx.Reason),
        ("GetSgpuAvailableQuota", [0], mx.Quota),
        ("GetSgpuInfo", [0, 0], mx.Slice),
        ("GetSgpuMemory", [0, 0], mx.SliceMemory),
        ("GetTotalEccErrors", [0], mx.Ecc),
        ("GetMetaXLinkTopo", [0], mx.LinkTopo),
        ("GetMetaXLinkRemoteInfo", [0, 1], mx.Remote),
    ],
)
def test_nothing_is_written_beyond_the_struct(card, call, args, kind):
    mx.create(128, 1)
    room = c.create_string_buffer(b"\xaa" * 4096, 4096)
    mx.call(call, *args, room)
    assert room.raw[c.sizeof(kind) :] == b"\xaa" * (4096 - c.sizeof(kind))


def test_no_room_for_the_answer_is_a_wrong_input_and_never_a_crash(card):
    mx.create(128, 1)
    answers = [n for n in mx.SYMBOLS if "Get" in n and "Error" not in n and "Limited" not in n and not n.endswith("Count")]
    for name in answers:
        rc = getattr(mx.LIB, name)(0, 0, None, None)
        assert rc in (mx.SUCCESS, mx.BAD_INPUT, mx.NO_DEVICE) or name.endswith("BoardId"), name


def test_errors_have_texts():
    texts = {mx.LIB.mxSmlGetErrorString(code) for code in range(27)}
    assert len(texts) > 20 and None not in texts
    assert mx.LIB.mxSmlGetErrorString(12345) == b"unknown error"


# --- life and inventory ---


def fresh(m, code, env=None):
    """What a process of its own prints that has the library as `lib`, uninitialised."""
    prelude = f"import ctypes as c; lib = c.CDLL({str(OUT / 'libmxsml.so')!r})\n"
    out = subprocess.run(["python3", "-c", prelude + code], env=dict(m.env, **(env or {})), text=True, capture_output=True)
    assert out.returncode == 0, out.stderr
    return out.stdout.split()


def test_every_call_before_init_fails(c500):
    quiet = [n for n in mx.SYMBOLS if "Init" not in n and "ErrorString" not in n and not n.endswith(("Count", "BoardId"))]
    code = f"print({{getattr(lib, n)(0, 0, None, None) for n in {quiet!r}}}, lib.mxSmlGetDeviceCount(), lib.mxSmlGetDeviceBoardId(0))"
    assert fresh(c500, code) == ["{1}", "0", "-1"]


def test_a_machine_without_such_cards_has_no_device(machine):
    m = machine("gpus: [{model: a30}]", init=False)
    assert fresh(m, "print(lib.mxSmlInit(), lib.mxSmlGetDeviceCount())") == ["2", "0"]
    assert fresh(m, "print(lib.mxSmlInit())", {"CLEAVE_SIM_STATE": "", "CLEAVE_SIM_FLEET": ""}) == ["2"]


def test_a_c500_is_what_it_is(c500):
    seen = [mx.info(i) for i in range(mx.LIB.mxSmlGetDeviceCount())]
    assert [i.device for i in seen] == [0, 1, 2, 3]
    assert {(i.name, i.brand, i.mode) for i in seen} == {(b"MXC500", 2, mx.NATIVE)}
    assert len({i.uuid for i in seen} | {i.bdf for i in seen}) == 8
    assert len({i.gpu for i in seen}) == 4 and 0 not in {i.gpu for i in seen}
    assert seen[0].bdf == b"0000:09:00.0" and seen[0].uuid.startswith(b"GPU-")
    assert [i.uuid.decode() for i in seen] == [g["uuid"] for g in c500.show()["metax"]]
    memory = mx.get("GetMemoryInfo", mx.Memory, 0)
    assert memory.total == 65536 * 1024 and 0 < memory.use < memory.total // 50
    assert mx.text("GetDeviceRealPath", 0).endswith("/0000:09:00.0")
    assert mx.get("GetSriovState", c.c_uint, 0) == 1
    assert [mx.get("GetDeviceSlot", c.c_uint, i) for i in range(4)] == [1, 2, 3, 4]
    assert [mx.LIB.mxSmlGetDeviceBoardId(i) for i in (0, 3, 4)] == [0, 3, -1]


def test_versions_are_the_fleets(machine):
    machine("{metaxDriverVersion: 2.31.0.4, macaVersion: 2.31.0.9, gpus: [{model: c500}]}", init=False)
    mx.start()
    assert mx.text("GetDeviceVersion", 0, 1) == "2.31.0.4" and mx.text("GetMacaVersion") == "2.31.0.9"
    assert mx.text("GetDeviceVersion", 0, 0) and mx.text("GetDeviceVersion", 0, 2)
    size = c.c_uint(64)
    assert mx.code_of("GetDeviceVersion", 0, 99, c.create_string_buffer(64), c.byref(size)) == mx.BAD_INPUT


def test_a_text_without_room_says_what_it_needs(c500):
    size = c.c_uint(3)
    assert mx.code_of("GetMacaVersion", c.create_string_buffer(3), c.byref(size)) == mx.TOO_SMALL
    assert size.value == len(mx.text("GetMacaVersion")) + 1


def test_each_library_shows_its_own_cards_alone(machine):
    import pynvml as nv

    m = machine("gpus: [{model: h100-80, count: 2}, {model: c500}]")
    mx.start()
    assert nv.nvmlDeviceGetCount() == 2 and mx.LIB.mxSmlGetDeviceCount() == 1
    m.ctl("attach", "--gpu", "metax:0", "--pid", 5)
    assert nv.nvmlDeviceGetComputeRunningProcesses(nv.nvmlDeviceGetHandleByIndex(0)) == []
    with pytest.raises(nv.NVMLError_NotFound):
        nv.nvmlSystemGetProcessName(5)
    m.ctl("attach", "--gpu", 1, "--pid", 6)
    assert mx.get("GetNumberOfProcess", c.c_uint) == 1
    assert [p["pid"] for p in m.show()["processes"]] == [6]
    assert [p["pid"] for p in m.show()["metax"][0]["processes"]] == [5]


def test_a_machine_of_metax_cards_alone_has_no_nvidia_driver(machine, tmp_path):
    import pynvml as nv

    m = machine("gpus: [{model: c500}]", init=False)
    with pytest.raises(nv.NVMLError_DriverNotLoaded):
        nv.nvmlInit()
    m.ctl("dev-root", tmp_path)
    assert not (m.proc / "driver").exists() and not list(tmp_path.glob("dev/nvidia*"))


@pytest.mark.parametrize(
    "gpus",
    [
        "[{model: c500, mig: true}]",
        "[{model: h100-80, sgpu: true}]",
        "[{model: h100-80, vfs: 2}]",
        "[{model: c500, vfs: 3}]",
        "[{model: c500, vfs: 2, sgpu: true}]",
        "[{model: c500, linked: 9}]",
        "[{model: c500, count: 16}, {model: c500}]",
    ],
)
def test_a_fleet_that_makes_no_sense_is_refused(machine, gpus):
    m = machine(f"gpus: {gpus}", init=False)
    assert m.ctl("init", ok=False).returncode == 2
    assert not m.state.exists()


# --- sGPU ---


def test_a_fleets_card_may_come_with_slicing_on(machine):
    machine("gpus: [{model: c500, sgpu: true}, {model: c500}]", init=False)
    mx.start()
    assert [mx.get("GetSgpuToggle", c.c_uint, dev) for dev in (0, 1)] == [1, 0]


def test_the_toggle_is_off_at_first_and_a_cards_own(c500):
    assert [mx.get("GetSgpuToggle", c.c_uint, i) for i in range(4)] == [0, 0, 0, 0]
    mx.toggle(2)
    assert [mx.get("GetSgpuToggle", c.c_uint, i) for i in range(4)] == [0, 0, 1, 0]
    mx.toggle(2)
    assert mx.refused("SetSgpuToggle", 2, 2)[0] == mx.BAD_INPUT
    assert mx.refused("CreateSgpu", 0, 128, 1, c.byref(c.c_uint()))[0] == mx.NOT_SUPPORT


def test_the_toggle_is_refused_under_slices_and_work(c500):
    c500.ctl("attach", "--gpu", "metax:0", "--pid", 9)
    assert mx.refused("SetSgpuToggle", 0, 1)[0] == mx.BUSY
    c500.ctl("detach", "--pid", 9)
    mx.toggle()
    mx.create(1024, 10)
    assert mx.refused("SetSgpuToggle", 0, 0)[0] == mx.BUSY
    mx.call("RemoveSgpu", 0, 0)
    mx.toggle(on=0)


def test_a_slice_is_what_was_asked(card):
    id = mx.create(1024, 10)
    s = mx.slice_info(id)
    assert (s.parent, s.id, s.vram, s.compute, s.sw_priority, s.priority) == (0, id, 1024, 10, 1, 0)
    assert mx.LIB.mxSmlGetSgpuCount(0) == 1 and mx.LIB.mxSmlGetSgpuCount(1) == 0 and mx.LIB.mxSmlGetSgpuCount(99) == 0
    memory = mx.get("GetSgpuMemory", mx.SliceMemory, 0, id)
    assert (memory.total, memory.used, memory.free) == (1 << 30, 0, 1 << 30)
    assert mx.get("GetSgpuState", c.c_int, 0, id) == 1
    left = mx.get("GetSgpuAvailableQuota", mx.Quota, 0)
    assert (left.total, left.vram, left.compute) == (65536, 65536 - 1024, 90)
    mx.call("RemoveSgpu", 0, id)
    assert mx.LIB.mxSmlGetSgpuCount(0) == 0
    for gone in ("GetSgpuInfo", "GetSgpuState", "GetSgpuMemory", "GetSgpuUsage"):
        assert mx.refused(gone, 0, id, c.create_string_buffer(256))[0] == mx.NOT_SUPPORT
    assert mx.refused("RemoveSgpu", 0, id)[0] == mx.NOT_SUPPORT


@pytest.mark.parametrize("vram", [0, 1, 127, 129, 1000, 65536 + 128, 0xFFFFFF80, 0xFFFFFFFF])
def test_memory_off_the_step_or_beyond_the_card_is_einval(card, vram):
    assert mx.refused("CreateSgpu", 0, vram, 1, c.byref(c.c_uint())) == (mx.SYSFS_WRITE, errno.EINVAL)
    id = mx.create(128, 1)
    assert mx.refused("SetSgpuVramQuota", 0, id, vram) == (mx.SYSFS_WRITE, errno.EINVAL)
    assert mx.slice_info(id).vram == 128


def test_the_card_can_be_given_out_to_the_last_step_and_no_further(card):
    mx.create(65536 - 128, 0)
    assert mx.refused("CreateSgpu", 0, 256, 0, c.byref(c.c_uint())) == (mx.SYSFS_WRITE, errno.EINVAL)
    id = mx.create(128, 0)
    assert mx.get("GetSgpuAvailableQuota", mx.Quota, 0).vram == 0
    assert mx.refused("SetSgpuVramQuota", 0, id, 256) == (mx.SYSFS_WRITE, errno.EINVAL)


def test_a_slice_grows_into_what_is_left_beside_it(card):
    mx.call("SetDeviceSchedClass", 0, mx.FIXED_SHARE)
    id = mx.create(40960, 60)
    mx.create(128, 10)
    mx.call("SetSgpuVramQuota", 0, id, 65536 - 128)
    mx.call("SetSgpuComputeQuota", 0, id, 90)
    assert mx.slice_info(id).vram == 65536 - 128


def test_sixteen_slices_and_no_more(card):
    assert [mx.create(128, 1) for _ in range(16)] == list(range(16))
    assert mx.refused("CreateSgpu", 0, 128, 1, c.byref(c.c_uint())) == (mx.SYSFS_WRITE, errno.ENOSPC)
    seen = mx.slices()
    assert len({s.uuid for s in seen}) == 16 and len({s.minor for s in seen}) == 16
    mx.toggle(1)
    other = mx.slice_info(mx.create(128, 1, dev=1), dev=1)
    assert other.minor not in {s.minor for s in seen}


def test_the_library_picks_an_id_and_each_slice_is_a_new_one(card):
    for _ in range(3):
        mx.create(128, 1)
    old = mx.slice_info(1).uuid
    mx.call("RemoveSgpu", 0, 1)
    assert mx.create(256, 2) == 1
    assert mx.slice_info(1).uuid != old and mx.slice_info(1).vram == 256


@pytest.mark.parametrize("kind", [mx.FIXED_SHARE, mx.BURST_SHARE])
def test_compute_adds_up_to_a_card_where_it_is_a_quota(card, kind):
    mx.call("SetDeviceSchedClass", 0, kind)
    mx.create(128, 60)
    assert mx.refused("CreateSgpu", 0, 128, 41, c.byref(c.c_uint())) == (mx.SYSFS_WRITE, errno.EINVAL)
    id = mx.create(128, 40)
    assert mx.refused("SetSgpuComputeQuota", 0, id, 41) == (mx.SYSFS_WRITE, errno.EINVAL)
    assert mx.refused("SetSgpuComputeQuota", 0, id, 101)[0] == mx.BAD_INPUT
    mx.call("SetSgpuComputeQuota", 0, id, 5)
    assert mx.get("GetSgpuAvailableQuota", mx.Quota, 0).compute == 35


def test_best_effort_has_no_quota_to_add_up(card):
    mx.create(128, 100), mx.create(128, 100)
    assert mx.get("GetSgpuAvailableQuota", mx.Quota, 0).compute == 0
    assert mx.refused("CreateSgpu", 0, 128, 101, c.byref(c.c_uint()))[0] == mx.BAD_INPUT


def test_class_and_timeslice_are_the_cards(card):
    mx.call("SetDeviceSchedClass", 0, mx.BURST_SHARE)
    mx.call("SetDeviceTimeslice", 0, 5)
    mx.toggle(1)
    assert [mx.get("GetDeviceSchedClass", c.c_uint, i) for i in (0, 1)] == [mx.BURST_SHARE, mx.BEST_EFFORT]
    assert [mx.get("GetDeviceTimeslice", c.c_uint, i) for i in (0, 1)] == [5, 20]
    assert mx.refused("SetDeviceSchedClass", 0, 3)[0] == mx.BAD_INPUT
    assert mx.refused("SetDeviceTimeslice", 0, 0) == (mx.SYSFS_WRITE, errno.EINVAL)


def test_the_class_stays_under_live_slices(card):
    mx.create(128, 1)
    assert mx.refused("SetDeviceSchedClass", 0, mx.FIXED_SHARE)[0] == mx.BUSY
    mx.call("SetDeviceSchedClass", 0, mx.BEST_EFFORT)
    mx.call("SetDeviceTimeslice", 0, 10)
    mx.call("RemoveSgpu", 0, 0)
    mx.call("SetDeviceSchedClass", 0, mx.FIXED_SHARE)


def test_quotas_alias_and_priority_can_be_changed(card):
    id = mx.create(128, 1)
    mx.call("SetSgpuVramQuota", 0, id, 4096)
    mx.call("SetSgpuComputeQuota", 0, id, 33)
    mx.call("SetSgpuDeviceQueuePriority", 0, id, 1)
    mx.call("SetSgpuAlias", 0, id, b"a" * 32)
    s = mx.slice_info(id)
    assert (s.vram, s.compute, s.priority, mx.text("GetSgpuAlias", 0, id)) == (4096, 33, 1, "a" * 32)
    assert mx.refused("SetSgpuAlias", 0, id, b"a" * 33)[0] == mx.BAD_INPUT
    assert mx.refused("SetSgpuDeviceQueuePriority", 0, id, 2)[0] == mx.BAD_INPUT
    assert mx.refused("SetSgpuAlias", 0, 9, b"x")[0] == mx.NOT_SUPPORT
    assert mx.text("GetSgpuAnnotationsId", 0, id) == ""
    card.ctl("slice", "--gpu", "metax:0", "--slice", id, "--annotations-id", "GPU-1-12:2")
    assert mx.text("GetSgpuAnnotationsId", 0, id) == "GPU-1-12:2"


def test_a_slice_in_use_stays(card):
    id = mx.create(1024, 25)
    card.ctl("attach", "--gpu", "metax:0", "--slice", id, "--pid", 12, "--mem", 512)
    assert mx.refused("RemoveSgpu", 0, id)[0] == mx.BUSY
    assert mx.refused("SetSgpuVramQuota", 0, id, 384)[0] == mx.BUSY
    assert mx.get("GetSgpuUsage", c.c_int, 0, id) == 2500
    assert mx.get("GetSgpuMemory", mx.SliceMemory, 0, id).used == 512 << 20
    mx.call("SetSgpuVramQuota", 0, id, 512)
    card.ctl("detach", "--pid", 12)
    assert mx.get("GetSgpuUsage", c.c_int, 0, id) == 0
    mx.call("RemoveSgpu", 0, id)


def test_work_fits_into_its_slice_and_runs_nowhere_else(card):
    id = mx.create(256, 5)
    for words in (["--slice", 9], ["--slice", id, "--mem", 257], ["--vf", 0], ["--gi", 0], ["--mem", 65537]):
        assert card.ctl("attach", "--gpu", "metax:0", "--pid", 3, *words, ok=False).returncode == 2
    card.ctl("attach", "--gpu", "metax:0", "--slice", id, "--pid", 3, "--mem", 200)
    assert card.ctl("attach", "--gpu", "metax:0", "--slice", id, "--pid", 4, "--mem", 57, ok=False).returncode == 2


def test_a_reboot_takes_slices_and_switches_along(card):
    mx.call("SetDeviceSchedClass", 0, mx.FIXED_SHARE)
    mx.create(128, 1)
    card.ctl("attach", "--gpu", "metax:0", "--slice", 0, "--pid", 3, "--mem", 1)
    card.ctl("reboot")
    assert mx.get("GetSgpuToggle", c.c_uint, 0) == 0 and mx.LIB.mxSmlGetSgpuCount(0) == 0
    assert mx.get("GetDeviceSchedClass", c.c_uint, 0) == mx.BEST_EFFORT
    assert card.show()["metax"][0]["processes"] == []
