# SPDX-License-Identifier: Apache-2.0
"""NVML and nvidia-smi in a container show its share of a card, and its own processes."""
import re
import shutil
import subprocess

from cuda import MIB

from conftest import OUT

ASK = """
import pynvml as nv
nv.nvmlInit()
d = nv.nvmlDeviceGetHandleByIndex({card})
"""


def asks(container, code, card=0):
    """What a program with NVIDIA's own client prints."""
    done = subprocess.run([*container.enter, "python3", "-c", ASK.format(card=card) + code], env=container.machine.env, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return eval(done.stdout)


def test_memory_is_the_shares(h100, container):
    one, other = container(h100, 3000), container(h100, 5000)
    assert one.worker().says(f"cu.alloc({1000 * MIB}) > 0")
    assert other.worker().says(f"cu.alloc({4000 * MIB}) > 0")
    code = "m = nv.nvmlDeviceGetMemoryInfo(d{version}); print((m.total >> 20, m.used >> 20, m.free >> 20))"
    for version in ("", ", version=nv.nvmlMemory_v2"):
        assert asks(one, code.format(version=version)) == (3000, 1000, 2000)
        assert asks(other, code.format(version=version)) == (5000, 4000, 1000)


def test_processes_are_the_containers_own(h100, container):
    one, other = container(h100, 3000), container(h100, 5000)
    worker = one.worker()
    assert worker.says(f"cu.alloc({1000 * MIB}) > 0")
    assert other.worker().says(f"cu.alloc({4000 * MIB}) > 0")
    code = "print([(p.pid, p.usedGpuMemory >> 20) for p in nv.nvmlDeviceGet{kind}RunningProcesses(d)])"
    assert asks(one, code.format(kind="Compute")) == [(worker.pid, 1000)]
    assert asks(one, code.format(kind="Graphics")) == []
    worker.kill()
    assert asks(one, code.format(kind="Compute")) == []


def test_a_card_that_is_no_share_is_shown_as_it_is(h100, container):
    one = container(h100, 3000)
    assert asks(one, "print(nv.nvmlDeviceGetMemoryInfo(d).total >> 20)", card=1) > 80000


def test_without_terms_nothing_is_told_of_memory(h100, container):
    one = container(h100, 3000)
    (one.share / "terms").unlink()
    code = """
try:
    nv.nvmlDeviceGetMemoryInfo(d)
except nv.NVMLError as error:
    print(error.value)
"""
    assert asks(one, code) == 4  # NO_PERMISSION


def test_who_looks_is_no_process_of_the_share(h100, container):
    one = container(h100, 3000)
    asks(one, "print(nv.nvmlDeviceGetMemoryInfo(d).total)")
    assert one.taken() == {} and not any((one.share / "usage").read_bytes()[128:192])


def test_nvidia_smi_shows_the_share(h100, container):
    one = container(h100, 3000)
    worker = one.worker()
    assert worker.says(f"cu.alloc({1000 * MIB}) > 0")
    smi = shutil.copy(OUT / "nvidia-smi", one.path)  # where it finds no library beside itself
    shown = subprocess.run([*one.enter, smi], env=h100.env, check=True, text=True, capture_output=True).stdout
    assert re.search(r"1000MiB / +3000MiB", shown), shown
