# SPDX-License-Identifier: Apache-2.0
"""The demo, in a folder of its own and with cards that answer at once (make demo has realistic ones)."""

import os
import subprocess

import pytest
from conftest import ROOT


@pytest.fixture
def demo(tmp_path):
    folder = tmp_path / "demo"

    def run(verb, **more):
        env = {**os.environ, **more, "CLEAVE_DEMO_DIR": str(folder), "CLEAVE_DEMO_LATENCY": "none"}
        return subprocess.run([ROOT / "hack" / "demo.sh", verb], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)

    run.folder = folder
    yield run
    run("stop")


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


@pytest.mark.long
def test_the_demo_runs_through_stays_up_and_ends(demo, cluster):
    done = demo("start")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert done.stderr == ""
    for told in (
        "11x1g.10gb 2x2g.20gb 2x3g.40gb 5xgpu",
        "16x1g.10gb 8x2g.20gb 8x3g.40gb",
        "2x1g.24gb 2x1g.24gb+gfx 1x1g.24gb+me 1x1g.24gb-me 1x2g.48gb 1xgpu",
        "metax-tech.com/sgpu 16, metax-tech.com/sgpu-large 1, metax-tech.com/sgpu-small 4",
        "1xonDemand",
        "the nearest layout that fits is 3g.40gb x2",
        "All 15 partitions of the node are the ones that stood before",
        "3g.40gb at memory slice 4 is in use by train.py (pid 4242)",
        "Everything keeps running",
    ):
        assert told in done.stdout
    left = cluster.kubectl_as(demo.folder / "kubeconfig")
    devices = left.json("get", "devices")["items"]
    assert len(devices) == 4
    assert all(c["status"] == "True" for d in devices for c in d["status"]["conditions"] if c["type"] == "Ready")
    stopped = demo("stop", KUBECONFIG=str(demo.folder / "kubeconfig"))
    assert stopped.returncode == 0, stopped.stderr
    assert "Stopped 5 programs of Cleave and the control plane." in stopped.stdout and "unset KUBECONFIG" in stopped.stdout
    assert "No demo was running" in demo("stop").stdout
    assert processes_of(demo.folder) == []
