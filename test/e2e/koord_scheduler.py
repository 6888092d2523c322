# SPDX-License-Identifier: Apache-2.0
"""Koordinator's scheduler, as its project builds and configures it, on a cluster of ours.

    koord_scheduler(rig)    context: it schedules. Its Device ends with it; its other kinds stay, nobody else reads them
    koord_scheduler(rig, DevicePluginAdaption=True)    with gates other than it has by itself
    scheduler.free(node)    what its own books have left, by resource: they follow what is deleted and what falls ill a moment later
"""

import contextlib
import http.client
import json
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import HACK
from koordinator_kind import uninstall

SERVICES_PORT = 10251  # --insecure-port by default: what its plugins tell of themselves


class KoordScheduler:
    def __init__(self, rig, process):
        self.rig, self.process = rig, process

    def free(self, node):
        connection = http.client.HTTPConnection("127.0.0.1", SERVICES_PORT, timeout=10)
        try:
            with self.rig.cluster.network():
                connection.connect()
            connection.request("GET", f"/apis/v1/plugins/DeviceShare/nodeDeviceSummaries/{node.name}")
            answer = connection.getresponse()
            return json.load(answer)["deviceFree"] if answer.status == 200 else {}
        except ConnectionRefusedError:
            return {}
        finally:
            connection.close()


def built():
    """The folder of what hack/kube/build.sh built; the test is skipped where that was not done."""
    found = subprocess.run([HACK / "koordinator.sh"], capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip("koord-scheduler is not built; hack/kube/build.sh koordinator does it")
    return found.stdout.strip()


@contextlib.contextmanager
def koord_scheduler(rig, **gates):
    folder = built()
    kubectl = rig.cluster.kubectl
    kubectl("apply", "--server-side", "-f", f"{folder}/crds")
    kubectl("wait", "--for=condition=Established", "-f", f"{folder}/crds", "--timeout=30s")
    place = rig.cluster.rundir / "koord-scheduler"
    place.mkdir(exist_ok=True)
    installed = yaml.safe_load(Path(folder, "scheduler-config.yaml").read_text())["data"]["koord-scheduler-config"]
    # Under the name that Koordinator installs it with, which config/slots knows, and with the rights of an admin.
    kubeconfig = yaml.safe_load(Path(rig.cluster.kubeconfig).read_text())
    kubeconfig["users"][0]["user"] |= {"as": "system:serviceaccount:koordinator-system:koord-scheduler", "as-groups": ["system:masters"]}
    (place / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    config = {**yaml.safe_load(installed), "leaderElection": {"leaderElect": False}, "clientConnection": {"kubeconfig": str(place / "kubeconfig")}}
    (place / "config.yaml").write_text(yaml.safe_dump(config))
    flags = {
        "config": place / "config.yaml",
        "authentication-kubeconfig": rig.cluster.kubeconfig,
        "authorization-kubeconfig": rig.cluster.kubeconfig,
        "feature-gates": ",".join(f"{gate}={str(on).lower()}" for gate, on in gates.items()),
        "bind-address": "127.0.0.1",
        "secure-port": 10259,
        "cert-dir": place,
        "v": 4,
    }
    words = [f"--{name}={value}" for name, value in flags.items()]
    process = rig.processes("koord-scheduler", f"{folder}/bin/koord-scheduler", *words, where=rig.where)
    try:
        yield KoordScheduler(rig, process)
    finally:
        process.stop()
        uninstall(rig)
