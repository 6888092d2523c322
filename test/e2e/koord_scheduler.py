# SPDX-License-Identifier: Apache-2.0
"""Koordinator's scheduler, as its project builds and configures it, on a cluster of ours.

    koord_scheduler(rig)    context: it schedules. Its Device ends with it; its other kinds stay, nobody else reads them
    koord_scheduler(rig, DevicePluginAdaption=True)    with gates other than it has by itself
"""

import contextlib
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import HACK
from koordinator_kind import uninstall

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
    config = {**yaml.safe_load(installed), "leaderElection": {"leaderElect": False}, "clientConnection": {"kubeconfig": str(rig.cluster.kubeconfig)}}
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
        yield process
    finally:
        process.stop()
        uninstall(rig)
