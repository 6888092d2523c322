# SPDX-License-Identifier: Apache-2.0
"""The ground the other end-to-end tests stand on: is this control plane a real one?"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HACK, wait_for

WIDGET_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.cleave.dev}
spec:
  group: test.cleave.dev
  scope: Cluster
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, required: [size], properties: {size: {type: integer, minimum: 1}}}
"""

WIDGET = """
apiVersion: test.cleave.dev/v1
kind: Widget
metadata: {name: NAME}
spec: {size: SIZE}
"""

# Nobody may make a widget that does not bear the name of the node in its token.
OWN_NODE_POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: widget-own-node}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [test.cleave.dev], apiVersions: [v1], operations: [CREATE], resources: [widgets]}
  matchConditions:
  - {name: agents, expression: "request.userInfo.username.startsWith('system:serviceaccount:agents:')"}
  validations:
  - expression: >-
      object.metadata.name in request.userInfo.extra[?'authentication.kubernetes.io/node-name'].orValue([])
    message: not your node
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: widget-own-node}
spec: {policyName: widget-own-node, validationActions: [Deny]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: widget-maker}
rules:
- {apiGroups: [test.cleave.dev], resources: [widgets], verbs: [get, create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: widget-maker}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: widget-maker}
subjects:
- {kind: ServiceAccount, name: maker, namespace: agents}
"""


def widget(name, size=1):
    return WIDGET.replace("NAME", name).replace("SIZE", str(size))


def define_widgets(kubectl):
    kubectl.apply(WIDGET_CRD)
    kubectl("wait", "--for=condition=Established", "crd/widgets.test.cleave.dev", "--timeout=30s")
    wait_for(lambda: kubectl.out("get", "widgets", "-A", "-o", "name") is not None, 30, "kubectl to know them")


def executables(folder, *names):
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def in_an_empty_cache(tmp_path):
    """run(KUBE_VERSION, command...): with nothing built yet, and a complete control plane in KUBEBUILDER_ASSETS."""
    assets = executables(tmp_path / "assets", "etcd", "kube-apiserver", "kubectl")

    def run(version, *command):
        env = {**os.environ, "KUBE_VERSION": version, "KUBEBUILDER_ASSETS": str(assets), "CLEAVE_CACHE": str(tmp_path / "cache")}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30)
        return done.returncode, done.stdout.strip(), done.stderr

    run.assets = assets
    return run


def built_folder(run, version):
    """Where hack/kube/build.sh puts this version."""
    return run(version, "bash", "-c", f". {HACK}/lib.sh; kube_cache_dir")[1]


def test_a_second_kubernetes_lies_apart_and_is_found_only_when_asked_for(in_an_empty_cache, tmp_path):
    run = in_an_empty_cache
    assert run("", HACK / "bin.sh")[:2] == (0, str(run.assets))
    assert run("1.36", HACK / "bin.sh")[:2] == (1, ""), "what is in KUBEBUILDER_ASSETS is of some version"

    second = built_folder(run, "1.36")
    assert second.startswith(f"{tmp_path}/cache/kube-") and second != built_folder(run, "")
    executables(tmp_path / "cache" / os.path.basename(second) / "bin", "etcd", "kube-apiserver", "kubectl")
    assert run("1.36", HACK / "bin.sh")[:2] == (0, f"{second}/bin")
    assert run("", HACK / "bin.sh")[:2] == (0, str(run.assets))


def test_a_version_without_a_module_file_is_refused(in_an_empty_cache):
    code, printed, said = in_an_empty_cache("1.99", HACK / "bin.sh")
    assert (code, printed) == (1, "") and "KUBE_VERSION=1.99: there is no" in said


def test_the_api_server_answers(kubectl):
    assert kubectl.out("get", "--raw", "/readyz") == "ok"
    assert kubectl.json("version")["serverVersion"]["gitVersion"].startswith("v1.")


def test_a_crd_is_served_and_its_schema_is_enforced(kubectl):
    define_widgets(kubectl)
    kubectl.apply(widget("right", 3))
    refused = kubectl("apply", "-f", "-", input=widget("wrong", 0), check=False)
    assert kubectl.json("get", "widget", "right")["spec"] == {"size": 3}
    assert refused.returncode != 0
    assert "spec.size" in refused.stderr


def test_a_node_without_a_kubelet_is_ready_and_schedulable(cluster, kubectl):
    cluster.node("plain", {"pool": "inference"})
    node = kubectl.json("get", "node", "plain")
    conditions = {c["type"]: c["status"] for c in node["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    assert node["metadata"]["labels"]["pool"] == "inference"
    assert node["status"]["allocatable"]["pods"] == "110"
    assert "taints" not in node["spec"]


def test_an_agent_token_is_bound_to_its_node(cluster, kubectl, wait_for):
    define_widgets(kubectl)
    cluster.node("node-a")
    kubectl.apply(OWN_NODE_POLICY)
    agent = cluster.kubectl_as(cluster.agent_kubeconfig("node-a", "agents", "maker"))

    def refusal():
        answer = agent("create", "-f", "-", "--dry-run=server", input=widget("node-b"), check=False)
        return answer.stderr if "not your node" in answer.stderr else None

    # A policy takes effect when the API server's own informer has seen it.
    wait_for(refusal, 30, "the policy to refuse another node's name")
    agent("create", "-f", "-", input=widget("node-a"))
    assert agent("get", "nodes", check=False).returncode != 0


def test_a_client_certificate_carries_user_and_groups(cluster):
    path = cluster.script("client-cert.sh", cluster.rundir, "system:node:node-a", "system:nodes")
    whoami = cluster.kubectl_as(path).json("auth", "whoami")["status"]["userInfo"]
    assert whoami["username"] == "system:node:node-a"
    assert "system:nodes" in whoami["groups"]


def test_the_audit_log_tells_who_wrote(cluster, kubectl, wait_for):
    mark = cluster.audit_mark()
    kubectl("create", "configmap", "written", "--from-literal=a=b")
    wrote = wait_for(lambda: cluster.writes(mark, by="^admin$"), 10, "the write in the server's log")
    assert [(e["verb"], e["objectRef"]["name"]) for e in wrote] == [("create", "written")]


def test_a_process_is_ended_and_its_log_kept(processes, wait_for):
    process = processes("talker", "/bin/sh", "-c", "echo started; exec cat /dev/zero >/dev/null")
    wait_for(lambda: "started" in process.text(), 10, "the program to speak")
    assert process.stop() == -signal.SIGTERM
    assert not process.running()


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from conftest import Process, wait_for
started = Process("sleep", ["sleep", "600"], Path(sys.argv[2]))
wait_for(lambda: Path(f"/proc/{started.pid}/comm").read_text() == "sleep\\n", 20, "the program to run")
print(started.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_that_is_killed_leaves_no_program_behind(tmp_path, wait_for):
    done = subprocess.run([sys.executable, "-c", KILLED, Path(__file__).parent, tmp_path / "log"], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_for(lambda: not Path(f"/proc/{int(done.stdout)}").exists(), 20, "the program to be gone")
