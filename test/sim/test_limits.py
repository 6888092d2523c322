# SPDX-License-Identifier: Apache-2.0
"""Limits of a card's memory for cgroups, as NVIDIA's driver has them from 615 on."""
import ctypes
import shutil

import pynvml as nv
import pytest
from conftest import create_whole, mig_on

LIB = ctypes.CDLL("libnvidia-ml.so.1")
MAX = (1 << 64) - 1
MIB = 1 << 20
NOT_THERE, WRONG, OFF = nv.NVML_ERROR_NOT_FOUND, nv.NVML_ERROR_INVALID_ARGUMENT, nv.NVML_ERROR_NOT_SUPPORTED


class SetLimits(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("soft", ctypes.c_ulonglong), ("hard", ctypes.c_ulonglong)]


class GetLimits(ctypes.Structure):
    _fields_ = SetLimits._fields_ + [("used", ctypes.c_ulonglong)]


def limit(device, path, soft=0, hard=MAX):
    return LIB.nvmlDeviceSetMemoryLimits_v1(device, ctypes.byref(SetLimits(str(path).encode(), soft, hard)))


def limits(device, path):
    """The limits and the use of a cgroup; a return code where there is no such answer."""
    ask = GetLimits(str(path).encode(), 7, 7, 7)
    rc = LIB.nvmlDeviceGetMemoryLimits_v1(device, ctypes.byref(ask))
    return rc or (ask.soft, ask.hard, ask.used)


def cgroup(path, dmem=False):
    path.mkdir()
    for name in ["cgroup.controllers", "cgroup.procs"] + ["dmem.max"] * dmem:
        (path / name).touch()
    return path


@pytest.fixture
def with_limits(machine, tmp_path):
    """make(backend): a machine whose driver has limits, its first card, and the root of cgroups."""

    def make(backend, cards="{model: h100-80, count: 2}"):
        m = machine(f"gpus: [{cards}]\nmemoryLimits: {backend}")
        return m, nv.nvmlDeviceGetHandleByIndex(0), cgroup(tmp_path / "cgroup", dmem=False)

    return make


def test_an_older_driver_has_no_such_functions(h100, tmp_path):
    device, pod = nv.nvmlDeviceGetHandleByIndex(0), cgroup(tmp_path / "pod")
    assert limit(device, pod, hard=MIB) == nv.NVML_ERROR_FUNCTION_NOT_FOUND
    assert limits(device, pod) == nv.NVML_ERROR_FUNCTION_NOT_FOUND


def test_a_driver_that_keeps_no_account_supports_no_limits(with_limits):
    _, device, root = with_limits("off")
    assert limit(device, root, hard=MIB) == OFF and limits(device, root) == OFF


@pytest.mark.parametrize("backend,unset", [("misc", OFF), ("dmem", (0, MAX, 0))])
def test_a_limit_is_set_read_and_cleared_per_card(with_limits, backend, unset):
    m, device, root = with_limits(backend)
    pod = cgroup(root / "pod", dmem=True)
    other = nv.nvmlDeviceGetHandleByIndex(1)
    assert limits(device, pod) == unset
    assert limit(device, pod, hard=3000 * MIB) == 0
    assert limit(other, pod, soft=MIB, hard=2 * MIB) == 0
    assert limits(device, pod) == (0, 3000 * MIB, 0) and limits(other, pod) == (MIB, 2 * MIB, 0)
    assert [(e["gpu"], e["hardBytes"], e["cgroup"]) for e in m.show()["memoryLimits"]] == [
        (0, 3000 * MIB, str(pod)),
        (1, 2 * MIB, str(pod)),
    ]
    assert f"limit gpu 0  soft 0 hard {3000 * MIB}  {pod}\n" in m.ctl("show").stdout
    assert limit(device, pod, hard=4000 * MIB) == 0 and limits(device, pod)[1] == 4000 * MIB
    assert limit(device, pod) == 0 and limits(device, pod) == unset
    assert limit(device, pod) == 0, "what has none may be cleared"
    assert len(m.show()["memoryLimits"]) == 1


def test_with_misc_the_nearest_limit_upwards_counts(with_limits):
    _, device, root = with_limits("misc")
    pod = cgroup(root / "pod")
    leaf = cgroup(pod / "leaf")
    assert limit(device, pod, hard=10 * MIB) == 0
    assert limits(device, leaf)[1] == 10 * MIB
    assert limit(device, leaf, hard=20 * MIB) == 0 and limits(device, leaf)[1] == 20 * MIB


def test_with_dmem_a_cgroup_has_the_controller_or_is_not_found(with_limits):
    _, device, root = with_limits("dmem")
    bare = cgroup(root / "bare")
    pod = cgroup(root / "pod", dmem=True)
    inside = cgroup(pod / "inside")
    leaf = cgroup(pod / "leaf", dmem=True)
    assert limit(device, bare, hard=MIB) == NOT_THERE and limits(device, bare) == NOT_THERE
    assert limit(device, pod, hard=MIB) == 0
    assert limit(device, inside, hard=MIB) == NOT_THERE and limits(device, inside)[1] == MIB
    assert limits(device, leaf)[1] == MAX, "its own is the one that is read, and the card's capacity"


def test_a_limit_goes_with_its_cgroup(with_limits):
    m, device, root = with_limits("misc")
    pod = cgroup(root / "pod")
    assert limit(device, pod, hard=MIB) == 0
    shutil.rmtree(pod)
    assert limits(device, pod) == NOT_THERE and limit(device, pod) == NOT_THERE
    assert m.show()["memoryLimits"] == []
    cgroup(pod)
    assert limits(device, pod) == OFF, "another cgroup of the same name"


def test_a_reboot_ends_limits(with_limits):
    m, device, root = with_limits("misc")
    assert limit(device, root, hard=MIB) == 0
    m.ctl("reboot")
    assert m.show()["memoryLimits"] == []


def test_what_is_used_is_counted_from_the_cgroup_downwards(with_limits):
    m, device, root = with_limits("misc")
    kubepods = cgroup(root / "kubepods.slice")
    burstable = cgroup(kubepods / "kubepods-burstable.slice")
    pods = [cgroup(burstable / f"kubepods-burstable-pod{uid}.slice") for uid in ("a_1", "b_2")]
    for pod in pods:
        assert limit(device, pod, hard=MIB) == 0
    m.ctl("attach", "--gpu", 0, "--pid", 11, "--mem", 300, "--pod-uid", "a-1")
    m.ctl("attach", "--gpu", 0, "--pid", 12, "--mem", 20, "--pod-uid", "b-2")
    m.ctl("attach", "--gpu", 1, "--pid", 12, "--mem", 500, "--pod-uid", "b-2")
    m.ctl("attach", "--gpu", 0, "--pid", 13, "--mem", 7)
    assert [limits(device, pod)[2] for pod in pods] == [300 * MIB, 20 * MIB]
    assert limit(device, kubepods, hard=MIB) == 0 and limits(device, kubepods)[2] == 320 * MIB


def test_wrong_arguments_are_refused(with_limits, tmp_path):
    _, device, root = with_limits("misc")
    no_cgroup = tmp_path / "hybrid"
    no_cgroup.mkdir()
    assert limit(device, "/" + "x" * 4096, hard=MIB) == WRONG and limits(device, "/" + "x" * 4096) == WRONG
    assert limit(device, "relative", hard=MIB) == WRONG and limit(device, "", hard=MIB) == WRONG
    assert limit(device, root, soft=2, hard=1) == WRONG
    assert limit(device, root / "none", hard=MIB) == NOT_THERE
    assert limit(device, root / "cgroup.procs", hard=MIB) == NOT_THERE
    assert limit(device, no_cgroup, hard=MIB) == OFF, "cgroups of version 1"
    assert LIB.nvmlDeviceSetMemoryLimits_v1(device, ctypes.byref(SetLimits(None, 0, 1))) == WRONG
    assert LIB.nvmlDeviceGetMemoryLimits_v1(device, ctypes.byref(GetLimits(None, 0, 1, 0))) == WRONG


def test_mig_has_no_limits(with_limits):
    _, device, root = with_limits("misc")
    device = mig_on()
    _, _, info = create_whole(device, 9)
    for handle in (device, info.device):
        assert limit(handle, root, hard=MIB) == OFF and limits(handle, root) == OFF


def test_there_is_room_for_limits_of_cgroups_that_come_and_go(with_limits):
    m, device, root = with_limits("misc")
    for i in range(300):
        pod = cgroup(root / f"pod{i}")
        assert limit(device, pod, hard=MIB) == 0
        if i >= 100:
            shutil.rmtree(pod)
    assert len(m.show()["memoryLimits"]) == 100
    for i in range(28):
        assert limit(device, cgroup(root / f"more{i}"), hard=MIB) == 0
    assert limit(device, cgroup(root / "last"), hard=MIB) == nv.NVML_ERROR_INSUFFICIENT_RESOURCES
