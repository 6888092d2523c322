# SPDX-License-Identifier: Apache-2.0
"""The demos, each in a folder of its own; that of partitions with cards that answer at once (make demo has realistic ones)."""

import contextlib
import os
import re
import subprocess

import pytest
from conftest import PATIENCE, ROOT
from kubelet_rig import why_not


@contextlib.contextmanager
def running(script, folder):
    """run("start"), run("stop")"""

    def run(verb, **more):
        env = {**os.environ, **more, "CLEAVE_DEMO_DIR": str(folder), "CLEAVE_DEMO_LATENCY": "none"}
        command = [ROOT / "hack" / script, verb]
        return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300 * PATIENCE)

    run.folder = folder
    try:
        yield run
    finally:
        run("stop")


@pytest.fixture
def demo(tmp_path):
    with running("demo.sh", tmp_path / "demo") as run:
        yield run


@pytest.fixture
def demo_of_shares(tmp_path):
    if reason := why_not(tmp_path):
        pytest.skip(reason)
    with running("demo-shares.sh", tmp_path / "demo") as run:
        yield run


def processes_of(folder):
    """Programs that run with a file of the folder on their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", encoding="utf-8").read().split("\0")
        except OSError:
            continue
        if any(str(folder) in word for word in words):
            found.append(words[0])
    return found


PICTURES = ROOT / "docs" / "pictures"


def drawn(folder):
    return {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.svg")}


@pytest.mark.long
def test_the_demo_runs_through_stays_up_and_ends(demo, cluster):
    pictures = demo.folder.with_name("pictures")
    pictures.mkdir()
    done = demo("start", CLEAVE_DEMO_PICTURES=str(pictures))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert done.stderr == ""
    for told in (
        "Plan: 1 of 1 nodes changes, 3 parts go, 15 parts come",
        "11x1g.10gb 2x2g.20gb 2x3g.40gb 5xgpu",
        "16x1g.10gb 8x2g.20gb 8x3g.40gb",
        "2x1g.24gb 2x1g.24gb+gfx 1x1g.24gb+me 1x1g.24gb-me 1x2g.48gb 1xgpu",
        "metax-tech.com/sgpu 16, metax-tech.com/sgpu-large 1, metax-tech.com/sgpu-small 4",
        "1xonDemand",
        "the nearest layout that fits is 3g.40gb x2",
        "All 15 partitions of the node are the ones that stood before",
        "3g.40gb at memory slice 4 is in use by train.py (pid 4242)",
        "No node offers nvidia.com/mig-4g.40gb",
        "Everything keeps running",
    ):
        assert told in done.stdout
    assert drawn(pictures) == drawn(PICTURES), "what people see is another thing than the docs show: make pictures"
    left = cluster.kubectl_as(demo.folder / "kubeconfig")
    devices = left.json("get", "devices")["items"]
    assert len(devices) == 4
    assert all(c["status"] == "True" for d in devices for c in d["status"]["conditions"] if c["type"] == "Ready")
    stopped = demo("stop", KUBECONFIG=str(demo.folder / "kubeconfig"))
    assert stopped.returncode == 0, stopped.stderr
    assert "Stopped 5 programs of Cleave and the control plane." in stopped.stdout and "unset KUBECONFIG" in stopped.stdout
    assert "No demo was running" in demo("stop").stdout
    assert processes_of(demo.folder) == []


@pytest.mark.skipif("KUBE_VERSION" not in os.environ, reason="make nightly runs it")
@pytest.mark.real_kubelet
def test_the_demo_of_shares_puts_ten_pods_on_one_card(demo_of_shares):
    done = demo_of_shares("start")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    for told in (
        "nvidia.com/gpu 20, nvidia.com/gpucores 200, nvidia.com/gpumem 163118, nvidia.com/gpumem-percentage 200",
        "CUDA_DEVICE_MEMORY_LIMIT_0=7000m\nCUDA_DEVICE_SM_LIMIT=7\n",
        "container ubuntu-container needs 2 cards with 3000 MiB and 30 % of compute each; 1 of 2 fit",
        "     3000 MiB 30 %  default/gpu-pod ubuntu-container\n",
        "/dev/nvidia0\n/dev/nvidia1\nCUDA_DEVICE_MEMORY_LIMIT_0=3000m\nCUDA_DEVICE_MEMORY_LIMIT_1=3000m\nCUDA_DEVICE_SM_LIMIT=30\n",
        "Everything keeps running",
    ):
        assert told in done.stdout, done.stdout
    ten, after = done.stdout.split("The pod of HAMi's manual")
    cards = re.findall(r"^ten-\d +Running +(GPU-[0-9a-f-]+),NVIDIA,7000,7:; *$", ten, re.MULTILINE)
    assert len(cards) == 10 and len(set(cards)) == 1, ten
    inspected = re.findall(r"^ +share\.\d+ +(\d+) MiB +(\d+) %", after.partition("cleave-agent inspect")[2], re.MULTILINE)
    assert sorted(inspected) == [("3000", "30")] * 2 + [("7000", "7")] * 9, after
    stopped = demo_of_shares("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert processes_of(demo_of_shares.folder) == []
