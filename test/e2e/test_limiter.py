# SPDX-License-Identifier: Apache-2.0
"""HAMi's demonstration on a real kubelet and containerd, with simulated cards: a pod with `gpumem: 3000` sees 3000 MiB, what it asks for
past that is out of memory, and its neighbour on the card is untouched."""

import re
import shutil
import subprocess

import pytest
from conftest import HACK, ROOT, wait_for
from kubelet_rig import SAID_ALL, real_cluster, real_rig  # noqa: F401
from test_fractional import limits, sums

pytestmark = pytest.mark.second_cluster

OUT_OF_MEMORY = 2
IMAGE = "localhost/cuda:1"
BUILT = ROOT / "build/release"
# What a program that was linked with the C library and with CUDA needs of a distribution's files.
OF_THE_SYSTEM = ("lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/libc.so.6", "lib/x86_64-linux-gnu/libdl.so.2", "lib/x86_64-linux-gnu/libpthread.so.0", "lib/x86_64-linux-gnu/libm.so.6")


@pytest.fixture(scope="session")
def image(real_cluster, tmp_path_factory):
    """An image with the program on the node, and its name."""
    folder = tmp_path_factory.mktemp("cuda")
    root = folder / "root"
    (root / "usr/bin").mkdir(parents=True)
    for path in OF_THE_SYSTEM:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(f"/{path}", root / path)
    probe = ["gcc", "-O2", f"-I{ROOT}", "-o", root / "usr/bin/cuda_probe", ROOT / "test/e2e/cuda_probe.c", BUILT / "sim/libcuda.so.1"]
    subprocess.run(probe, check=True)
    subprocess.run([HACK / "image.sh", "--level", "1", IMAGE, folder / "cuda.tar", root, "/usr/bin/cuda_probe"], check=True, timeout=60)
    real_cluster.script("load.sh", real_cluster.rundir, folder / "cuda.tar")
    return IMAGE


@pytest.fixture
def node(real_rig, image):
    """One H100 that gives up to ten shares, on a node that has the limiter."""
    n = real_rig.node({"h100-80": 1}, slots=True)
    n.wait_offers()
    n.sees("/run/cleave/shares").mkdir(parents=True, exist_ok=True)
    n.start(limiter_folder=BUILT / "limiter")
    wait_for(lambda: n.agrees(), 30, "the agent")
    real_rig.controller()
    real_rig.profile("shares", {"selector": {"vendor": "nvidia"}, "mode": "native", "sharing": {"fractional": {}}})
    n.wait_offers(**sums(1))
    return n


def probe(node, name, *does, **ask):
    """A pod that does this with CUDA and stays. The simulated driver's files are those of the node."""
    folder = str(node.folder)
    container = {
        "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "args": [*map(str, does), "said", "stay"], "resources": {"limits": limits(**ask)},
        "env": [{"name": key, "value": str(value)} for key, value in node.env.items() if key.startswith("CLEAVE_SIM")],
        "volumeMounts": [{"name": "simulator", "mountPath": folder}],
    }
    return node.run(name, "", containers=[container], volumes=[{"name": "simulator", "hostPath": {"path": folder}}])


def said(node, pod):
    node.wait_phase(pod, "Running")
    return node.said(pod)



def test_a_pod_sees_its_share_and_its_neighbour_is_untouched(node):
    small = probe(node, "small", "info", "alloc", 3001, "info", "alloc", 2000, "alloc", 1001, "info", gpumem=3000)
    large = probe(node, "large", "info", "alloc", 20000, "info", gpumem=30000)
    assert said(node, small) == [
        "begin 0", "total 3000 free 3000", f"alloc 3001 {OUT_OF_MEMORY}", "total 3000 free 3000", "alloc 2000 0", f"alloc 1001 {OUT_OF_MEMORY}",
        "total 3000 free 1000",
    ]
    assert said(node, large) == ["begin 0", "total 30000 free 30000", "alloc 20000 0", "total 30000 free 10000"]


def test_a_whole_card_is_not_limited(node):
    whole = probe(node, "whole", "info", "alloc", 70000)
    (begin, info, alloc) = said(node, whole)
    assert (begin, alloc) == ("begin 0", "alloc 70000 0") and int(info.split()[1]) > 80000


def test_the_status_says_what_holds_a_share(node):
    pod = probe(node, "pod", gpumem=3000)
    said(node, pod)
    card = node.device()["status"]["devices"][0]
    assert (card["fractional"]["memory"], card["fractional"]["compute"]) == ("library", "library")


def spun(node, pod):
    """What the pod had done at which time: {ms: kernels}."""
    return {int(ms): int(n) for ms, n in re.findall(r"^spun (\d+) (\d+)$", node.log(pod), re.M)}


def done(counts, begin, end):
    """The kernels of a pod between two times, from its counts next to them."""
    at = sorted(counts)
    first, last = min(ms for ms in at if ms >= begin), max(ms for ms in at if ms <= end)
    return (counts[last] - counts[first]) * (end - begin) / (last - first)


def test_thirty_and_seventy_percent_are_thirty_and_seventy(node):
    """While both want the card; each has all of it before and after."""
    pods = [probe(node, f"of-{percent}", "spin", 20, 1000, gpumem=3000, gpucores=percent) for percent in (30, 70)]
    counts = []
    for pod in pods:
        said(node, pod)
        wait_for(lambda: "spin 0" in node.log(pod), 60, "the kernels")
    counts = [spun(node, pod) for pod in pods]
    begin, end = max(min(c) for c in counts) + 1000, min(max(c) for c in counts) - 500
    assert end - begin > 5000, "both ran at the same time"
    small, large = (done(c, begin, end) for c in counts)
    assert 25 < 100 * small / (small + large) < 35, (small, large)
