# SPDX-License-Identifier: Apache-2.0
"""The real node itself, without our agent: what the other tests of the kubelet's side build on."""

import os
import subprocess

import pytest
from conftest import HACK, wait_for
from kubelet_rig import real_cluster, real_node, real_rig  # noqa: F401


def test_a_plain_pod_runs_to_its_end(real_node):
    log = real_node.result("echo hello from $HOSTNAME; ls /sys/class/net")
    assert log.splitlines()[0].startswith("hello from ") and log.split()[-2:] == ["eth0", "lo"]


def test_kubelet_and_api_server_are_of_the_version_that_was_asked_for(real_node):
    asked = os.environ.get("KUBE_VERSION", "")
    kubelet = real_node.node_object()["status"]["nodeInfo"]["kubeletVersion"]
    assert kubelet == real_node.api.get("/version")["gitVersion"]
    assert kubelet.startswith(f"v{asked}")


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
    wait_for(lambda: real_node.node_object()["status"]["nodeInfo"]["bootID"] != before, 30, "the new boot to be told")


@pytest.mark.parametrize("there", [[], ["kubelet"], ["cni"], ["kubelet", "cni"]])
def test_a_node_has_folders_of_its_own_whichever_the_machine_has(tmp_path, there):
    """node-inside.sh, as the first process of namespaces in which the machine's /var/lib has these folders."""
    check = tmp_path / "check"
    check.write_text("#!/bin/sh\ntouch /var/lib/kubelet/mark /var/lib/cni/mark\nls /var/lib\n")
    check.chmod(0o755)
    machine = f"mount -t tmpfs machine /var/lib; cd /var/lib; mkdir other {' '.join(there)}; cd /"
    script = f"mount --make-rprivate /; {machine}; exec {HACK}/node-inside.sh {tmp_path}/node {check}"
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-ec", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["cni", "kubelet", "other"]
    assert os.listdir(tmp_path / "node" / "kubelet") == ["mark"]
