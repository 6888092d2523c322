# SPDX-License-Identifier: Apache-2.0
"""A MetaX card that falls ill is not offered, its neighbours are, and it is back when its driver counts no errors any more:
without a restart of anything, and with the slices that it had."""

import subprocess
import sys

import pytest
from conftest import wait_for
from stack import condition, rig  # noqa: F401
from test_standalone import SIM

GPU, SGPU, SMALL = "metax-tech.com/gpu", "metax-tech.com/sgpu", "metax-tech.com/sgpu-small"
SLICES = {"mode": "sgpu", "sgpu": {"slices": [{"alias": "small", "memoryMiB": 1024, "count": 4}]}}
RESET = "import ctypes, sys; mx = ctypes.CDLL(sys.argv[1]); assert mx.mxSmlInit() == 0; assert mx.mxSmlReset(0) == 0"


@pytest.fixture
def node(rig):
    n = rig.node({"c500": 2})
    n.pid = n.agent.pid
    wait_resources(n, {GPU: 2})
    yield n
    assert n.agent.running() and n.agent.pid == n.pid, "nothing was started again"


def uuid(node, gpu=0):
    return node.hardware()["metax"][gpu]["uuid"]


def wait_resources(node, resources, timeout=30):
    wait_for(lambda: node.resources() == resources, timeout, lambda: f"{resources}, not {node.resources()}")


def health(node, gpu=0):
    return condition(node.card(gpu), "Healthy")


def test_uncorrectable_errors_take_the_card_away_until_they_are_gone(rig, node):
    node.ctl("ecc", "--gpu", "metax:0", "dram-ue", 2)
    wait_resources(node, {GPU: 1})
    said = health(node)
    assert (said["status"], said["reason"]) == ("False", "UncorrectableECC") and "mx-smi -r" in said["message"]
    assert not node.card(0)["healthy"] and node.card(1)["healthy"]
    node.ctl("ecc", "--gpu", "metax:0", "clear")
    wait_resources(node, {GPU: 2})
    assert node.card(0)["healthy"] and health(node).get("status") != "False"
    assert node.changes() == [], "nobody touched the hardware"


def test_a_reset_by_somebody_else_makes_it_well(node):
    node.ctl("ecc", "--gpu", "metax:0", "sram-ue", 1)
    wait_resources(node, {GPU: 1})
    subprocess.run([sys.executable, "-c", RESET, SIM / "libmxsml.so"], env={**node.env}, check=True, timeout=60)
    wait_resources(node, {GPU: 2})
    assert node.card(0)["healthy"] and health(node).get("status") != "False"


def test_corrected_errors_are_none(node):
    node.ctl("ecc", "--gpu", "metax:0", "dram-ce", 1000)
    node.ctl("ecc", "--gpu", "metax:1", "dram-ue", 1)  # seen in the same reading, or a later one
    wait_resources(node, {GPU: 1})
    assert node.card(0)["healthy"] and not node.card(1)["healthy"]


def test_slices_come_back_with_their_card_and_are_the_same(node):
    node.want({"uuid": uuid(node), **SLICES})
    wait_resources(node, {GPU: 1, SMALL: 4})
    before, made = node.hardware()["metax"][0]["slices"], len(node.changes())
    node.ctl("ecc", "--gpu", "metax:0", "dram-ue", 1)
    wait_resources(node, {GPU: 1})
    node.ctl("ecc", "--gpu", "metax:0", "clear")
    wait_resources(node, {GPU: 1, SMALL: 4})
    assert node.hardware()["metax"][0]["slices"] == before and len(node.changes()) == made


def test_slots_for_pods_come_back_with_their_card(node):
    node.want({"uuid": uuid(node), "mode": "sgpu"}, {"uuid": uuid(node, 1), "mode": "sgpu"})
    wait_resources(node, {SGPU: 32})
    node.ctl("unavailable", "--gpu", "metax:1", 17, "die lost")
    wait_resources(node, {SGPU: 16})
    assert health(node, 1)["reason"] == "NotAvailable" and "die lost (17)" in health(node, 1)["message"]
    node.ctl("unavailable", "--gpu", "metax:1", "clear")
    wait_resources(node, {SGPU: 32})


def test_what_is_wanted_of_an_ill_card_is_done_when_it_is_well(node):
    node.ctl("ecc", "--gpu", "metax:0", "dram-ue", 1)
    wait_resources(node, {GPU: 1})
    node.want({"uuid": uuid(node), **SLICES})
    node.wait_applied("Unhealthy")
    assert node.changes() == []
    node.ctl("ecc", "--gpu", "metax:0", "clear")
    wait_resources(node, {GPU: 1, SMALL: 4})
    node.wait_ready()
