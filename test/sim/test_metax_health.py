# SPDX-License-Identifier: Apache-2.0
"""MetaX cards: ECC, state, processes, topology, events, resets, virtual functions, files."""
import ctypes as c
import os
import stat
import subprocess
import sys

import metax as mx
import pytest
from conftest import OUT


@pytest.fixture
def c500(machine):
    m = machine("{seed: 7, gpus: [{model: c500, count: 4}]}", init=False)
    mx.start()
    return m


def ecc(dev=0):
    e = mx.get("GetTotalEccErrors", mx.Ecc, dev)
    return e.sram_ce, e.sram_ue, e.dram_ce, e.dram_ue, e.retired


def test_ecc_errors_are_counted_by_kind_and_recover(c500):
    assert mx.get("GetEccState", c.c_uint, 0) == 1 and ecc() == (0, 0, 0, 0, 0)
    for n, kind in enumerate(("sram-ce", "sram-ue", "dram-ce", "dram-ue", "retired"), start=1):
        c500.ctl("ecc", "--gpu", "metax:0", kind, n)
    assert ecc() == (1, 2, 3, 4, 5) and ecc(1) == (0, 0, 0, 0, 0)
    c500.ctl("ecc", "--gpu", "metax:0", "clear")
    assert ecc() == (0, 0, 0, 0, 0)
    c500.ctl("ecc", "--gpu", "metax:0", "dram-ue", 4)
    mx.call("Reset", 0)
    assert ecc() == (0, 0, 0, 0, 0)


def test_without_ecc_nothing_is_counted(machine):
    machine("{ecc: false, gpus: [{model: c500}]}", init=False)
    mx.start()
    assert mx.get("GetEccState", c.c_uint, 0) == 0
    assert mx.refused("GetTotalEccErrors", 0, c.byref(mx.Ecc()))[0] == mx.NOT_SUPPORT


def test_a_card_goes_and_says_why_and_comes_back(c500):
    mx.toggle()
    id = mx.create(128, 1)
    c500.ctl("unavailable", "--gpu", "metax:0", 17, "die lost")
    reason = mx.get("GetDeviceUnavailableReason", mx.Reason, 0)
    assert (mx.get("GetDeviceState", c.c_int, 0), reason.code, reason.reason) == (0, 17, b"die lost")
    assert mx.get("GetDeviceState", c.c_int, 1) == 1
    assert mx.get("GetSgpuState", c.c_int, 0, id) == 0
    for change in (("CreateSgpu", 0, 128, 1, c.byref(c.c_uint())), ("RemoveSgpu", 0, id), ("SetSgpuToggle", 0, 0)):
        assert mx.refused(*change)[0] == mx.SYSFS_WRITE
    c500.ctl("unavailable", "--gpu", "metax:0", "clear")
    reason = mx.get("GetDeviceUnavailableReason", mx.Reason, 0)
    assert (mx.get("GetDeviceState", c.c_int, 0), reason.code, reason.reason) == (1, 0, b"")
    c500.ctl("slice", "--gpu", "metax:0", "--slice", id, "--available", 0)
    assert mx.get("GetSgpuState", c.c_int, 0, id) == 0


def processes(room):
    out = (mx.Process * max(room, 1))()
    mx.call("GetProcessInfo_v3", room, out)
    return [p for p in out if p.pid]


def test_a_process_is_one_entry_with_all_its_cards(c500):
    mx.toggle()
    id = mx.create(1024, 10)
    c500.ctl("attach", "--gpu", "metax:0", "--slice", id, "--pid", 31, "--mem", 100, "--name", "train.py")
    c500.ctl("attach", "--gpu", "metax:2", "--pid", 31, "--mem", 7)
    c500.ctl("attach", "--gpu", "metax:2", "--pid", 32)
    assert mx.get("GetNumberOfProcess", c.c_uint) == 2
    first, second = processes(2)
    assert (first.pid, first.name, first.gpus) == (31, b"train.py", 2)
    assert [(g.bdf, g.gpu, g.memory, g.slice) for g in first.gpu[:2]] == [
        (mx.info(0).bdf, mx.info(0).gpu, 100 << 20, id),
        (mx.info(2).bdf, mx.info(2).gpu, 7 << 20, -1),
    ]
    assert (second.pid, second.gpus) == (32, 1)
    assert len(processes(1)) == 1 and len(processes(9)) == 2


def test_the_room_for_a_cards_processes_is_asked_first(c500):
    for pid in (1, 2, 3):
        c500.ctl("attach", "--gpu", "metax:1", "--pid", pid)
    n = c.c_uint(2)
    out = (mx.Process * 3)()
    assert mx.code_of("GetSingleGpuProcess_v3", 1, c.byref(n), out) == mx.TOO_SMALL and n.value == 3
    mx.call("GetSingleGpuProcess_v3", 1, c.byref(n), out)
    assert [p.pid for p in out] == [1, 2, 3] and {p.gpu[0].slice for p in out} == {-1}
    assert mx.get("GetDeviceIpUsage", c.c_int, 1, 4) > 0 == mx.get("GetDeviceIpUsage", c.c_int, 0, 4)
    assert mx.get("GetMemoryInfo", mx.Memory, 1).use - mx.get("GetMemoryInfo", mx.Memory, 0).use == 3 * 512 * 1024


def level(a, b):
    return mx.get("GetDeviceTopology", c.c_uint, a, b)


def test_groups_are_joined_by_metaxlink(machine):
    machine("gpus: [{model: c500, count: 4, linked: 2}, {model: c500, linked: 0}]", init=False)
    mx.start()
    joined = {(a, b) for a in range(5) for b in range(5) if a != b and level(a, b) == 5}
    assert joined == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert level(0, 0) == 0 and level(0, 4) == 6
    assert mx.get("GetDeviceDistance", c.c_uint, 0, 0) == 0
    assert mx.get("GetDeviceDistance", c.c_uint, 0, 1) < mx.get("GetDeviceDistance", c.c_uint, 0, 4)
    topo = [mx.get("GetMetaXLinkTopo", mx.LinkTopo, i) for i in range(5)]
    assert [(t.topology, t.socket) for t in topo] == [(1, 0), (1, 1), (2, 0), (2, 1), (0, 0)]
    assert mx.refused("GetDeviceTopology", 0, 9, c.byref(c.c_uint()))[0] == mx.BAD_DEVICE


@pytest.mark.parametrize("count,up", [(1, 0), (2, 7), (4, 6), (8, 7)])
def test_links_lead_to_the_others_of_the_group_and_back(machine, count, up):
    machine(f"gpus: [{{model: c500, count: {count}}}]", init=False)
    mx.start()

    def remotes(dev):
        ends = []
        for link in range(1, 8):
            remote = mx.Remote()
            code = mx.code_of("GetMetaXLinkRemoteInfo", dev, link, c.byref(remote))
            assert code in (mx.SUCCESS, mx.NO_DEVICE)
            ends += [remote.device] if code == mx.SUCCESS else []
        return ends

    n, links = c.c_uint(7), (mx.Link * 7)()
    mx.call("GetMetaXLinkInfo_v2", 0, c.byref(n), links)
    assert n.value == 7 and [bool(link.lanes) for link in links] == [True] * up + [False] * (7 - up)
    for dev in range(count):
        ends = remotes(dev)
        assert len(ends) == up and set(ends) == (set(range(count)) - {dev})
        assert all(remotes(peer).count(dev) == ends.count(peer) for peer in set(ends))


def test_affinities_are_bit_masks(machine):
    machine("{numaNodes: 2, cpus: 96, gpus: [{model: c500, count: 2}]}", init=False)
    mx.start()

    def mask(name, dev, words):
        out = (c.c_uint * words)()
        mx.call(name, dev, words, out)
        return sum(word << 32 * i for i, word in enumerate(out))

    assert [mask("GetNodeAffinity", i, 1) for i in (0, 1)] == [1, 2]
    assert [mask("GetCpuAffinity", i, 3) for i in (0, 1)] == [(1 << 48) - 1, ((1 << 48) - 1) << 48]
    assert mask("GetCpuAffinity", 1, 1) == 0


def test_power_and_temperature_are_a_cards(c500):
    n, way = c.c_uint(0), mx.Power()
    assert mx.code_of("GetBoardPowerInfo", 0, c.byref(n), c.byref(way)) == mx.TOO_SMALL and n.value == 1
    mx.call("GetBoardPowerInfo", 0, c.byref(n), c.byref(way))
    assert 0 < way.power < mx.get("GetBoardPowerLimit", c.c_uint, 0)
    assert abs(way.voltage * way.current // 1000 - way.power) < 1000
    assert 2000 < mx.get("GetTemperatureInfo", c.c_int, 0, 0) < 9000


# --- events ---


def waiter(m, dev):
    """A process that waits for an event of a card and prints it."""
    code = f"""
import metax as mx, ctypes as c
mx.call("Init")
s = mx.get("EventSetCreate", c.c_void_p)
mx.call("DeviceRegisterEvents", {dev}, 1, s)
print("ready", flush=True)
e = mx.Event()
mx.call("EventSetWait", s, c.byref(e))
print(e.device, e.type, e.data.decode(), flush=True)
"""
    env = dict(m.env, PYTHONPATH=os.pathsep.join([os.path.dirname(__file__), *sys.path]))
    p = subprocess.Popen([sys.executable, "-c", code], env=env, text=True, stdout=subprocess.PIPE)
    assert p.stdout.readline() == "ready\n"
    return p


def test_who_waits_is_woken_by_an_event_of_its_card_alone(c500):
    waiting = waiter(c500, 1)
    c500.ctl("event", "--gpu", "metax:0", "not yours")
    c500.ctl("ecc", "--gpu", "metax:1", "dram-ce", 3)
    c500.ctl("event", "--gpu", "metax:1", "eid 0x42")
    assert waiting.communicate(timeout=60)[0] == "1 1 eid 0x42\n"


def next_event(set):
    event = mx.Event()
    mx.call("EventSetWait", set, c.byref(event))
    return event.device, event.data.decode()


def test_bad_errors_and_lost_cards_are_events(c500):
    set = mx.get("EventSetCreate", c.c_void_p)
    for dev in (0, 3):
        mx.call("DeviceRegisterEvents", dev, 1, set)
    c500.ctl("ecc", "--gpu", "metax:0", "sram-ue", 1)
    c500.ctl("unavailable", "--gpu", "metax:3", 1, "gone")
    assert next_event(set) == (0, "SRAM uncorrectable ECC error")
    assert next_event(set) == (3, "gone")
    mx.call("EventSetFree", set)
    assert mx.refused("EventSetFree", set)[0] == mx.BAD_INPUT
    assert mx.refused("EventSetWait", set, c.byref(mx.Event()))[0] == mx.BAD_INPUT
    assert mx.refused("DeviceRegisterEvents", 0, 1, 0xDEAD0)[0] == mx.BAD_INPUT


def test_only_known_events_can_be_registered(c500):
    set = mx.get("EventSetCreate", c.c_void_p)
    assert mx.refused("DeviceRegisterEvents", 0, 2, set)[0] == mx.BAD_INPUT
    assert mx.refused("DeviceRegisterEvents", 9, 1, set)[0] == mx.BAD_DEVICE


# --- resets ---


def test_a_warm_reset_is_of_the_whole_group(machine):
    m = machine("gpus: [{model: c500, count: 4, linked: 2}]", init=False)
    mx.start()
    m.ctl("ecc", "--gpu", "metax:1", "dram-ue", 1)
    m.ctl("unavailable", "--gpu", "metax:2", 1, "gone")
    m.ctl("attach", "--gpu", "metax:1", "--pid", 7)
    assert mx.refused("Reset", 0)[0] == mx.BUSY
    mx.call("Reset", 3)
    assert mx.get("GetDeviceState", c.c_int, 2) == 1 and ecc(1)[3] == 1
    m.ctl("detach", "--pid", 7)
    mx.call("Reset", 0)
    assert ecc(1)[3] == 0


def test_a_function_level_reset_is_of_one_card(c500):
    c500.ctl("attach", "--gpu", "metax:1", "--pid", 7)
    assert mx.refused("FunctionLevelReset", 1)[0] == mx.BUSY
    mx.call("FunctionLevelReset", 0)
    mx.toggle()
    mx.create(128, 1)
    assert mx.refused("FunctionLevelReset", 0)[0] == mx.BUSY
    assert mx.LIB.mxSmlGetSgpuCount(0) == 1


# --- virtual functions ---


def test_a_virtualised_card_shows_its_functions_and_is_one_no_more(c500):
    c500.ctl("vfs", "--gpu", "metax:1", 4)
    assert mx.LIB.mxSmlGetDeviceCount() == 4, "nothing is read anew unasked"
    assert mx.info(1).mode == mx.PF
    mx.call("Init")
    assert mx.LIB.mxSmlGetDeviceCount() == 4
    mx.start()
    assert (mx.LIB.mxSmlGetDeviceCount(), mx.LIB.mxSmlGetPfDeviceCount()) == (7, 1)
    assert [mx.info(i).mode for i in range(7)] == [mx.NATIVE] + [mx.VF] * 4 + [mx.NATIVE] * 2
    assert mx.info(100).mode == mx.PF and mx.info(100).uuid.decode() == c500.show()["metax"][1]["uuid"]
    ids = mx.get("GetVirtualDevicesByPhysicalId", mx.Ids, 100)
    assert ids.device[: ids.number] == [1, 2, 3, 4]
    assert mx.get("GetVirtualDevicesByPhysicalId", mx.Ids, 0).number == 0
    assert mx.refused("GetVirtualDevicesByPhysicalId", 1, c.byref(ids))[0] == mx.BAD_DEVICE
    assert mx.get("GetMemoryInfo", mx.Memory, 1).total == 16384 * 1024
    assert len({mx.info(i).bdf for i in range(7)} | {mx.info(100).bdf}) == 8
    assert len({mx.info(i).uuid for i in range(7)} | {mx.info(100).uuid}) == 8
    assert mx.refused("GetDeviceInfo", 7, c.byref(mx.Info()))[0] == mx.BAD_DEVICE
    assert mx.refused("GetDeviceInfo", 101, c.byref(mx.Info()))[0] == mx.BAD_DEVICE
    assert [mx.get("GetSriovState", c.c_uint, i) for i in (0, 1, 100)] == [1, 0, 1]


@pytest.mark.parametrize("dev", [0, 100])
def test_no_slices_on_a_card_with_virtual_functions(machine, dev):
    machine("gpus: [{model: c500, vfs: 2}]", init=False)
    mx.start()
    out = c.create_string_buffer(256)
    for call in (("SetSgpuToggle", dev, 1), ("CreateSgpu", dev, 128, 1, out), ("GetSgpuToggle", dev, out)):
        assert mx.refused(*call)[0] == mx.NOT_SUPPORT
    assert mx.LIB.mxSmlGetSgpuCount(dev) == 0


def test_virtual_functions_come_and_go_with_an_idle_card_alone(c500):
    mx.toggle()
    assert c500.ctl("vfs", "--gpu", "metax:0", 2, ok=False).returncode == 2
    mx.toggle(on=0)
    assert c500.ctl("vfs", "--gpu", "metax:0", 3, ok=False).returncode == 2
    c500.ctl("vfs", "--gpu", "metax:0", 2)
    assert c500.ctl("attach", "--gpu", "metax:0", "--pid", 5, ok=False).returncode == 2
    c500.ctl("attach", "--gpu", "metax:0", "--vf", 1, "--pid", 5)
    assert c500.ctl("vfs", "--gpu", "metax:0", 0, ok=False).returncode == 2
    mx.start()
    assert mx.refused("FunctionLevelReset", 1)[0] == mx.BUSY
    mx.call("FunctionLevelReset", 0)
    c500.ctl("detach", "--pid", 5)
    c500.ctl("vfs", "--gpu", "metax:0", 0)
    assert mx.refused("GetDeviceInfo", 1, c.byref(mx.Info()))[0] == mx.VF_GONE


def test_a_card_that_another_driver_has_is_only_named(c500):
    c500.ctl("limited", "--gpu", "metax:3", "set")
    mx.start()
    ids = mx.get("GetAllLimitedDevices", mx.Ids)
    assert mx.LIB.mxSmlGetDeviceCount() == 3 and ids.number == 1
    info = mx.get("GetLimitedDeviceInfo", mx.Info, ids.device[0])
    assert info.bdf.decode() == c500.show()["metax"][3]["bdf"] and info.uuid == b""
    assert mx.refused("GetLimitedDeviceInfo", 0, c.byref(info))[0] == mx.BAD_DEVICE
    assert mx.refused("GetDeviceInfo", ids.device[0], c.byref(info))[0] == mx.BAD_DEVICE
    assert mx.refused("GetDeviceTopology", 0, ids.device[0], c.byref(c.c_uint()))[0] == mx.BAD_DEVICE


# --- files ---


def test_a_dev_root_has_the_devices_of_the_cards(c500, tmp_path):
    c500.ctl("vfs", "--gpu", "metax:3", 2)
    c500.ctl("dev-root", tmp_path)
    assert {p.name for p in (tmp_path / "dev").iterdir()} == {"mxcd", "mxnd", "mxgd", "dri"}
    dri = {p.name for p in (tmp_path / "dev/dri").iterdir()}
    assert {"card1", "card4", "renderD128", "renderD131"} < dri and len(dri) == 2 * (4 + 2)
    node = (tmp_path / "dev/dri/renderD128").stat()
    if stat.S_ISCHR(node.st_mode):
        assert (os.major(node.st_rdev), os.minor(node.st_rdev)) == (226, 128)


def test_a_driver_root_has_the_library_of_the_vendors_that_are_there(machine, tmp_path):
    m = machine("gpus: [{model: c500}]", init=False)
    m.ctl("driver-root", tmp_path)
    assert [p.name for p in tmp_path.iterdir() if p.name in ("opt", "usr", "lib", "run")] == ["opt"]
    library = tmp_path / "opt/mxdriver/lib/libmxsml.so"
    assert library.read_bytes() == (OUT / "libmxsml.so").read_bytes()
    assert os.access(tmp_path / "opt/mxdriver/bin/mx-smi", os.X_OK)


def test_a_sys_root_has_the_cards_functions_of_both_vendors(machine, tmp_path):
    m = machine("{numaNodes: 2, gpus: [{model: c500, count: 2}, {model: h100-80}]}", init=False)
    mx.start()
    m.ctl("sys-root", tmp_path)
    m.ctl("sys-root", tmp_path)
    devices = tmp_path / "sys/bus/pci/devices"
    assert len(list(devices.iterdir())) == 3
    seen = devices / mx.info(1).bdf.decode()
    assert (seen / "vendor").read_text() == "0x9999\n" and (seen / "numa_node").read_text() == "1\n"
    assert seen.resolve() == (tmp_path / mx.text("GetDeviceRealPath", 1)[1:]).resolve()
    assert (seen / "drm/renderD129/dev").read_text() == "226:129\n" and (seen / "drm/card2/dev").exists()
    nvidia = devices / "0000:07:00.0"
    said = [(nvidia / name).read_text() for name in ("vendor", "device", "subsystem_vendor", "class", "numa_node")]
    assert said == ["0x10de\n", "0x2330\n", "0x10de\n", "0x030200\n", "0\n"]
    config = (nvidia / "config").read_bytes()
    assert len(config) == 256 and config[:4] == b"\xde\x10\x30\x23" and config[9:12] == b"\x00\x02\x03"
    assert config[6] & 0x10 and config[config[0x34]] == 0x10 and config[config[0x34] + 1] == 0
    windows = [[int(word, 16) for word in line.split()] for line in (nvidia / "resource").read_text().splitlines()]
    assert len(windows) == 13 and all(len(w) == 3 for w in windows)
    assert windows[1][1] - windows[1][0] + 1 == 131072 << 20 and windows[2] == [0, 0, 0]


def test_the_kernel_lists_the_drivers_of_the_vendors_that_are_there(c500):
    listed = (c500.proc / "devices").read_text()
    assert "226 drm\n" in listed and "nvidia" not in listed


def test_a_card_goes_by_index_uuid_and_bus_id(c500):
    card = c500.show()["metax"][2]
    for n, name in enumerate(("metax:2", card["uuid"], card["bdf"], card["bdf"].upper()), start=1):
        c500.ctl("ecc", "--gpu", name, "dram-ce", 1)
        assert ecc(2) == (0, 0, n, 0, 0)


def test_show_names_cards_slices_and_work(c500):
    mx.toggle()
    mx.call("SetSgpuAlias", 0, mx.create(1024, 10), b"first")
    c500.ctl("attach", "--gpu", "metax:0", "--slice", 0, "--pid", 3)
    c500.ctl("unavailable", "--gpu", "metax:1", 1, "gone")
    c500.ctl("vfs", "--gpu", "metax:2", 2)
    text = c500.ctl("show").stdout
    for part in ("sGPU, best-effort", "slice 0", "1024 MiB", "first", "pid 3", "NOT AVAILABLE: gone", "2 virtual functions"):
        assert part in text
    card = c500.show()["metax"][0]
    assert card["sgpu"] and card["slices"][0]["vramMiB"] == 1024 and card["slices"][0]["alias"] == "first"
    assert card["processes"] == [{"pid": 3, "name": "python3", "memoryMiB": 512, "slice": 0}]


@pytest.mark.parametrize(
    "words",
    [
        ["ecc", "--gpu", "metax:0", "corrected", "1"],
        ["ecc", "--gpu", "metax:0"],
        ["unavailable", "--gpu", "metax:0", "1"],
        ["unavailable", "--gpu", "metax:9", "clear"],
        ["xid", "--gpu", "metax:0", "--code", "1"],
        ["vfs", "--gpu", "metax:0"],
        ["event", "--gpu", "metax:0"],
        ["limited", "--gpu", "metax:0", "perhaps"],
        ["slice", "--gpu", "metax:0", "--slice", "3"],
        ["fault", "add", "--call", "mxSmlCreateSgpu", "--action", "fail:IN_USE"],
        ["fault", "add", "--call", "nvmlDeviceGetName", "--action", "fail:BusyDevice"],
        ["fault", "add", "--call", "mxSmlCreateSgpu", "--action", "fail:SysfsWriteError:ENOTHING"],
    ],
)
def test_simctl_says_what_it_does_not_understand_of_these_cards(c500, words):
    before = c500.show()
    result = c500.ctl(*words, ok=False)
    assert result.returncode == 2 and result.stderr.startswith("cleave-simctl: ")
    assert c500.show() == before
