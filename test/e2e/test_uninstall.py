# SPDX-License-Identifier: Apache-2.0
"""hack/uninstall.sh on a cluster of a hundred nodes: nothing of Cleave stays on them, and it can be installed again.

CLEAVE_REINSTALLS=20 does so twenty times in a row.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import ROOT, made, wait_for
from stack import GROUP, MERGE, Api, ApiServer, Rig, install

sys.path.append(str(ROOT / "test" / "fleet"))
from fleet import Hollow  # noqa: E402

NODES = 100
FEW_NODES = 25  # where it is not their number that is tried
TTL = "node.alpha.kubernetes.io/ttl"  # the controller manager's, by the number of nodes
ROUNDS = int(os.environ.get("CLEAVE_REINSTALLS", "2"))
AGENT = {"app.kubernetes.io/part-of": "cleave", "app.kubernetes.io/component": "agent"}
# The workloads are there to be deleted: their programs run beside the cluster.
OVERLAY = """
resources: [config]
components: [config/scheduler, config/scheduler-webhook]
patches:
- target: {kind: DaemonSet}
  patch: |-
    - {op: add, path: /spec/template/spec/nodeSelector/nowhere, value: "true"}
- target: {kind: Deployment}
  patch: |-
    - {op: replace, path: /spec/replicas, value: 0}
"""


def look(node):
    """What of a Node somebody could have changed."""
    meta, status = node["metadata"], node["status"]
    annotations = {k: v for k, v in meta.get("annotations", {}).items() if k != TTL}
    return meta.get("labels"), annotations, node["spec"].get("taints"), status["capacity"], status["allocatable"]


class Installation:
    def __init__(self, cluster, processes, release, folder, nodes):
        self.cluster, self.folder = cluster, folder
        made("release", "test/fleet/hollow")
        install(cluster)
        self.rig = Rig(cluster, processes, release)
        self.names = [f"{self.rig.id}-n{i}" for i in range(nodes)]
        for name in self.names:
            self.rig.add_node_object(name)
        wait_for(lambda: not any(n[2] for n in self.nodes().values()), 60, "the Nodes' first taint, not-ready, to be gone")
        self.before = self.nodes()
        self.hollow = self.controller = self.round = None
        for name in ("crds", "config"):
            shutil.copytree(ROOT / name, folder / name)
        (folder / "kustomization.yaml").write_text(OVERLAY)

    def nodes(self):
        return {n["metadata"]["name"]: look(n) for n in self.rig.api.get("/api/v1/nodes")["items"] if n["metadata"]["name"] in self.names}

    def agent_token(self, name):
        api = Api(self.cluster)
        spec = {"nodeName": name, "serviceAccountName": "cleave-agent", "automountServiceAccountToken": False, "tolerations": [{"operator": "Exists"}]}
        pod = api.create("/api/v1/namespaces/cleave-node/pods", {"metadata": {"name": f"agent-{name}", "labels": AGENT}, "spec": {**spec, "containers": [{"name": "main", "image": "x"}]}})
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        ask = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200, "boundObjectRef": bound}}
        token = api.create("/api/v1/namespaces/cleave-node/serviceaccounts/cleave-agent/token", ask)["status"]["token"]
        api.close()
        return name, token

    def install(self, number):
        self.round = number
        self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", self.folder)
        self.cluster.kubectl("wait", "--for=condition=Established", "crd", "-l", "app.kubernetes.io/part-of=cleave", "--timeout=30s")
        with ThreadPoolExecutor(8) as pool:
            tokens = list(pool.map(self.agent_token, self.names))
        self.hollow = Hollow(self.cluster, self.folder / f"hollow-{number}", tokens, 1)
        self.hollow.wait_running()
        self.controller = self.rig.controller(f"round-{number}")
        wait_for(lambda: all("nvidia.com/gpu" in n[-1] for n in self.nodes().values()), 120, "every Node to have resources of ours")
        for name in self.names[::10]:  # as the scheduler does it
            self.rig.api.request("PATCH", f"/api/v1/nodes/{name}?fieldManager=cleave-scheduler", {"metadata": {"annotations": {"gpu.cleave.dev/room": "x"}}}, MERGE)

    def end_agents(self):
        """As kubelets do once the DaemonSet is gone."""
        api = Api(self.cluster)
        wait_for(lambda: not api.get("/apis/apps/v1/daemonsets")["items"], 120, "the DaemonSet to be deleted")
        self.hollow.end()
        for name in self.names:
            api.delete(f"/api/v1/namespaces/cleave-node/pods/agent-{name}", now=True)
        api.close()

    def uninstall(self, *args):
        """What the script says."""
        kubelets = threading.Thread(target=self.end_agents)
        kubelets.start()
        said = self.script("--yes", *args)
        kubelets.join()
        self.controller.kill()
        return said

    def script(self, *args):
        env = {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig), "PATH": f"{self.cluster.kubectl.program.parent}:{os.environ['PATH']}"}
        done = subprocess.run([ROOT / "hack" / "uninstall.sh", *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=580)
        print(done.stdout, done.stderr)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def expect_clean(self):
        assert self.nodes() == self.before
        kinds = "namespaces,deployments,daemonsets,serviceaccounts,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingwebhookconfigurations,secrets"
        assert not self.cluster.kubectl.out("get", kinds, "-A", "-l", "app.kubernetes.io/part-of=cleave", "-o", "name")
        for name in ("cleave-controller", "cleave-scheduler"):
            assert not self.cluster.kubectl.out("get", "leases", "-A", "--field-selector", f"metadata.name={name}", "-o", "name")

    def close(self):
        self.cluster.installed = False
        install(self.cluster)
        for name in self.names:
            self.rig.api.delete(f"/api/v1/nodes/{name}")
        self.rig.end()


@pytest.fixture
def installation(cluster, processes, release, tmp_path, request):
    built = Installation(cluster, processes, release, tmp_path, request.param)
    yield built
    built.close()


@pytest.mark.long
@pytest.mark.parametrize("installation", [NODES], indirect=True, ids="{} nodes".format)
def test_nothing_stays_on_a_hundred_nodes_and_it_can_be_installed_again(installation):
    for number in range(ROUNDS):
        installation.install(number)
        said = installation.uninstall()
        assert "kubectl" not in said.split("Cleave is gone")[0], f"the controller did its part: {said}"
        installation.expect_clean()
        assert installation.cluster.kubectl.out("get", "crd", "-l", "app.kubernetes.io/part-of=cleave", "-o", "name"), "people's kinds stay"


def mislead(installation, node, other):
    """What a node's kubelet, and somebody with a namespace, can put in the script's way."""
    api = installation.rig.api
    key = f'f:a\n{other} label x":null}}}},"spec":{{"unschedulable":true}},"metadata2":{{"labels":{{"y'
    entry = {"manager": "cleave-controller-node", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1"}
    fields = {"f:metadata": {"f:labels": {key: {}, "f:not-there": {}}}}
    owners = api.get(f"/api/v1/nodes/{node}")["metadata"]["managedFields"]
    api.merge(f"/api/v1/nodes/{node}", {"metadata": {"managedFields": [*owners, {**entry, "fieldsV1": fields}]}})
    api.create("/api/v1/namespaces/default/pods", {"metadata": {"name": f"{installation.rig.id}-mine", "labels": AGENT}, "spec": {"nodeName": other, "containers": [{"name": "main", "image": "x"}]}})
    labels = {"app.kubernetes.io/part-of": "cleave", "app.kubernetes.io/managed-by": "Helm"}
    api.create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", {"metadata": {"name": 'r"}\n\x1b[31mForged', "labels": labels}, "rules": []})
    helm = {"meta.helm.sh/release-name": "x; echo words-of-a-stranger #", "meta.helm.sh/release-namespace": "default"}
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": pod}
    api.create("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": f"{installation.rig.id}-mine", "labels": labels, "annotations": helm}, "spec": spec})


MONITORING = "monitoring.coreos.com"


@pytest.fixture
def service_monitor(cluster):
    """The path of an object of Prometheus' operator, of whose kinds this cluster has two, that is labelled as Cleave's."""
    api = Api(cluster)
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    for kind in ("ServiceMonitor", "PodMonitor"):
        plural = f"{kind.lower()}s"
        names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        spec = {"group": MONITORING, "scope": "Namespaced", "names": names, "versions": [version]}
        api.create(crds, {"metadata": {"name": f"{plural}.{MONITORING}"}, "spec": spec})
    path = f"/apis/{MONITORING}/v1/namespaces/default/servicemonitors"
    obj = {"apiVersion": f"{MONITORING}/v1", "kind": "ServiceMonitor", "metadata": {"name": "cleave", "labels": {"app.kubernetes.io/part-of": "cleave"}}}
    wait_for(lambda: api.find(path), 30, "the kind to be served")
    api.create(path, obj)
    yield f"{path}/cleave"
    for plural in ("servicemonitors", "podmonitors"):
        api.delete(f"{crds}/{plural}.{MONITORING}")
    api.close()


def leave_unestablished(cluster, name):
    """As an API server leaves a definition that ends between the acceptance of its names and the condition Established."""
    etcd = f"http://127.0.0.1:{(cluster.rundir / 'ports').read_text().split()[0]}/v3/kv"

    def call(what, body):
        with urllib.request.urlopen(urllib.request.Request(f"{etcd}/{what}", json.dumps(body).encode()), timeout=30) as answer:
            return json.load(answer)

    key = base64.b64encode(f"/registry/apiextensions.k8s.io/customresourcedefinitions/{name}".encode()).decode()
    with ApiServer(cluster).gone():
        crd = json.loads(base64.b64decode(call("range", {"key": key})["kvs"][0]["value"]))
        (established,) = [c for c in crd["status"]["conditions"] if c["type"] == "Established"]
        established.update(status="False", reason="NotAccepted", message="not all names are accepted")
        call("put", {"key": key, "value": base64.b64encode(json.dumps(crd).encode()).decode()})


@pytest.mark.long
@pytest.mark.parametrize("installation", [FEW_NODES], indirect=True, ids="{} nodes".format)
def test_a_dead_controller_and_what_people_wrote(installation, service_monitor):
    installation.install(0)
    profile = installation.rig.profile("p", {"mode": "native"})
    installation.controller.kill()
    tainted = {"spec": {"taints": [{"key": "gpu.cleave.dev/unhealthy", "effect": "NoSchedule"}, {"key": "theirs", "effect": "NoSchedule"}]}}
    some = installation.names[:3]
    for name in some:
        installation.rig.api.merge(f"/api/v1/nodes/{name}", tainted)
        installation.before[name] = (*installation.before[name][:2], tainted["spec"]["taints"][1:], *installation.before[name][3:])
    stranger, other = installation.names[4:6]
    mislead(installation, stranger, other)
    said = installation.uninstall()
    assert "words-of-a-stranger" not in said
    (counted,) = [line for line in said.splitlines() if "of the same label" in line]
    assert "Roles" in counted and "Forged" not in counted
    assert not installation.rig.api.get("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles")["items"]
    assert "unschedulable" not in installation.rig.api.get(f"/api/v1/nodes/{other}")["spec"]
    installation.rig.api.delete(f"/api/v1/namespaces/default/pods/{installation.rig.id}-mine", now=True)
    assert "no controller works here" in said and f"off {FEW_NODES} Nodes with kubectl" in said
    installation.expect_clean()
    assert installation.rig.api.find(service_monitor) is None
    assert installation.rig.api.find(profile), "without --purge"
    leave_unestablished(installation.cluster, "devices.gpu.cleave.dev")
    assert "Cleave is gone. So is what people wrote for it." in installation.script("--yes", "--purge")
    assert not installation.cluster.kubectl.out("get", "crd", "-l", "app.kubernetes.io/part-of=cleave", "-o", "name")
    assert installation.rig.api.find(f"{GROUP}/gpuprofiles") is None
    assert installation.script("--yes") == installation.script("--purge") == "nothing of Cleave is here\n"


def test_nothing_is_deleted_unless_somebody_says_so(cluster):
    install(cluster)
    env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": f"{cluster.kubectl.program.parent}:{os.environ['PATH']}"}
    done = subprocess.run([ROOT / "hack" / "uninstall.sh"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "--yes goes on without asking" in done.stderr
    assert cluster.kubectl.out("get", "namespace", "cleave-system", "-o", "name") == "namespace/cleave-system"
    for bad in (["--timeout"], ["--timeout", "soon"], ["--what"]):
        done = subprocess.run([ROOT / "hack" / "uninstall.sh", *bad], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        assert done.returncode == 1 and "see --help" in done.stderr.lower() or "not a number" in done.stderr
