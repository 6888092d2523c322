# SPDX-License-Identifier: Apache-2.0
"""The real node itself, without our agent: what the other tests of the kubelet's side build on."""

from conftest import wait_for
from kubelet_rig import real_cluster, real_node, real_rig  # noqa: F401


def test_a_plain_pod_runs_to_its_end(real_node):
    log = real_node.result("echo hello from $HOSTNAME; ls /sys/class/net")
    assert log.splitlines()[0].startswith("hello from ") and log.split()[-2:] == ["eth0", "lo"]


def test_a_pod_outlives_its_kubelet_and_containerd(real_node):
    pod = real_node.runner()
    started = real_node.container(pod)["containerID"]
    for part in ("kubelet", "containerd"):
        real_node.kill(part)
    real_node.up()
    assert real_node.result("echo again") == "again\n"
    assert real_node.container(pod)["containerID"] == started and real_node.container(pod)["ready"]


def test_a_reboot_restarts_the_pods_and_tells_a_new_boot(real_node):
    pod = real_node.runner(greeting="echo up")
    before = real_node.node_object()["status"]["nodeInfo"]["bootID"]
    real_node.reboot()
    wait_for(lambda: real_node.container(pod)["restartCount"] == 1 and real_node.container(pod)["ready"], 60, "the pod to run again")
    assert real_node.node_object()["status"]["nodeInfo"]["bootID"] != before
