# SPDX-License-Identifier: Apache-2.0
"""Fleets for the parts of `make bench`: Nodes and Devices on a real API server, with what a real agent said of its cards."""

import json
import subprocess
import time

from rig import GROUP, NODES, Node, in_parallel, until


def template_status(stack, layout=None):
    """What an agent says of 8 H100, from a real one; with a layout: of cards that the controller had cut so."""
    stack.node("template")
    procs = [stack.agent("template", "h100x8.yaml")]
    path = f"{GROUP}/devices/template"

    def ready():
        try:
            return stack.api.call("GET", path).get("status", {}).get("summary", {}).get("gpus") == 8
        except RuntimeError:
            return False

    until(ready, 60, "the template's Device")
    if layout:
        procs.append(stack.controller())
        Node(stack.api, "template").set(layout)
    status = stack.api.call("GET", path)["status"]
    for proc in procs:
        proc.stop()
        stack.procs.remove(proc)
    stack.api.call("DELETE", path)
    stack.api.call("DELETE", "/api/v1/nodes/template")
    return status


def own_status(status, i):
    text = json.dumps(status)
    for card in status["devices"]:
        text = text.replace(card["uuid"], f"{card['uuid'][:28]}{i:012x}")
    return json.loads(text)


def kubelet_status():
    """What a kubelet says of its node, in the length that it has: 50 images, each by digest and tag (--node-status-max-images)."""
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    images = [{"names": [f"registry.example/team/app-{i}@sha256:{i:064x}", f"registry.example/team/app-{i}:v1.{i}"], "sizeBytes": 10**8 + i} for i in range(50)]
    amounts = {"cpu": "192", "memory": "2113487416Ki", "pods": "110", "ephemeral-storage": "3749652Mi", "hugepages-1Gi": "0", "hugepages-2Mi": "0"}
    now = "2026-01-01T00:00:00Z"
    return {
        "capacity": amounts, "allocatable": amounts, "images": images,
        "conditions": [{"type": k, "status": "True" if k == "Ready" else "False", "reason": f"KubeletHas{k}", "message": f"kubelet has {k} to tell of",
                        "lastHeartbeatTime": now, "lastTransitionTime": now} for k in kinds],
    }


def make_fleet(stack, status, of_node=None):
    """of_node: the status of each Node; without it they are bare."""
    def make(api, i):
        name = f"node-{i:05d}"
        api.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {
            "name": name, "labels": {"pool": "bench", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}}})
        if of_node:
            api.merge(f"/api/v1/nodes/{name}/status", {"status": of_node})
        api.call("POST", f"{GROUP}/devices", {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "Device", "metadata": {"name": name}})
        api.merge(f"{GROUP}/devices/{name}/status", {"status": own_status(status, i)})

    in_parallel(NODES, make)(stack.api)


METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def read_lists(stack, of_nodes="application/json"):
    """The same lists, read to nowhere by curl: what the API server itself takes. For agents named curl it indents its JSON, to twice the length."""
    begin = time.monotonic()
    for path, accept in (("/api/v1/nodes", of_nodes), (f"{GROUP}/devices", "application/json")):
        subprocess.run(["curl", "-sf", "-A", "bench", "--cacert", stack.dir / "kube/certs/apiserver.crt", "-H", f"Authorization: Bearer {stack.api.token}",
                        "-H", f"Accept: {accept}",
                        "-o", "/dev/null", f"https://{stack.api.host}:{stack.api.port}{path}?resourceVersion=0"], check=True)
    return time.monotonic() - begin
