# SPDX-License-Identifier: Apache-2.0
"""Koordinator's kind Device on a cluster: it comes and goes."""

from conftest import ROOT, wait_for

KIND = "devices.scheduling.koordinator.sh"
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{KIND}"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"


def install(rig):
    rig.cluster.kubectl("apply", "--server-side", "-k", ROOT / "config" / "koordinator")
    rig.cluster.kubectl("wait", "--for=condition=Established", "crd", KIND, "--timeout=30s")


def uninstall(rig):
    rig.api.delete(CRD)
    # The API server looks for objects that are left every five seconds, for a minute, before it tries again.
    wait_for(lambda: rig.api.find(CRD) is None, 120, "the kind to be gone")
