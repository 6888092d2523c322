# SPDX-License-Identifier: Apache-2.0
"""The admission policies of config/ hold our accounts in whatever namespace an overlay puts them, and the controller says when they do not."""

import shutil

import pytest
import yaml
from conftest import ROOT, wait_for
from stack import GROUP, Api, ApiError, files_of_components, rig, serve, wait_policies  # noqa: F401

MERGE = "application/merge-patch+json"
OVERLAYS = {
    "one namespace for all": ("gpu-system", "gpu-system", "cleave-controller", "namespace: gpu-system\ncomponents: [config/scheduler, config/components/one-namespace]\n"),
    "other names": ("cleave-system", "cleave-node", "gpu-cleave-controller-a", "namePrefix: gpu-\nnameSuffix: -a\ncomponents: [config/scheduler]\n"),
}
PARTS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def render(rig, folder, text):
    """What an overlay makes of config/: the objects that need no image."""
    for name in ("crds", "config"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "kustomization.yaml").write_text(f"resources: [config]\n{text}")
    made = yaml.safe_load_all(rig.cluster.kubectl.out("kustomize", folder))
    return [o for o in made if o["kind"] in PARTS]


class Installed:
    """An overlay's objects in place of config's, whose bindings and policies go meanwhile."""

    def __init__(self, rig, folder, name):
        self.rig, self.node = rig, rig.node(start=False)
        self.ns, self.agents_ns, self.account, text = OVERLAYS[name]
        self.agent, self.scheduler = (self.account.replace("controller", name) for name in ("agent", "scheduler"))
        self.text = yaml.safe_dump_all(render(rig, folder, text))
        rig.cluster.kubectl("delete", "-k", ROOT / "config/admission")
        rig.cluster.kubectl("delete", "--wait=false", *files_of_components()[-3:])
        rig.cluster.kubectl("apply", "--server-side", "-f", "-", input=self.text)

    def token(self, account, pod):
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/serviceaccounts/{account}/token"
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        spec = {"expirationSeconds": 3600, "boundObjectRef": bound}
        return self.rig.api.create(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})["status"]["token"]

    def api(self, account, name, node=None):
        """The API server with a token of a pod of this account."""
        more = {"schedulerName": "none", **self.rig.restricted()} if not node else {}
        pod = self.rig.pod(name, node, namespace=self.agents_ns if node else self.ns, account=account, **more)
        return Api(self.rig.cluster, self.token(account, pod))

    def remove(self):
        # Namespaces stay: the next test may want one, and nothing can be made in one that goes.
        gone = [o for o in yaml.safe_load_all(self.text) if o["kind"] != "Namespace"]
        self.rig.cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", input=yaml.safe_dump_all(gone))
        wait_no_policies(self.rig, self.node, "cleave-controller", "cleave-scheduler")
        for part in ("namespace", "rbac", "admission"):
            self.rig.cluster.kubectl("apply", "--server-side", "-k", ROOT / "config" / part)
        self.rig.cluster.kubectl("apply", "--server-side", *files_of_components())
        wait_policies(self.rig.cluster)


def wait_no_policies(rig, node, *accounts):
    """A policy that is gone is asked for a moment more, and would answer for ours."""
    for account in accounts:
        api = Api(rig.cluster, user=f"system:serviceaccount:cleave-system:{account}")
        request = (api, "PATCH", f"/api/v1/nodes/{node.name}?dryRun=All", {"metadata": {"labels": {"a": "b"}}}, MERGE)
        wait_for(lambda r=request: refusal(*r) is None, 30, lambda r=request: f"the policies to go: {refusal(*r)}")
        api.close()


@pytest.fixture(params=OVERLAYS)
def overlay(request, rig, tmp_path):
    made = Installed(rig, tmp_path, request.param)
    yield made
    made.remove()


def refusal(api, method, path, body, kind="application/json"):
    """The name of the policy that refuses it; None: it is taken."""
    try:
        api.request(method, path, body, kind)
        return None
    except ApiError as error:
        assert error.code == 403 and "ValidatingAdmissionPolicy '" in str(error), error
        return str(error).split("ValidatingAdmissionPolicy '")[1].split("'")[0]


def event(about, by):
    now = "2026-01-01T00:00:00.000000Z"
    who = {"reportingController": by, "reportingInstance": "x", "action": "X", "reason": "X", "type": "Normal", "note": "x"}
    return {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"generateName": "x-", "namespace": "default"}, "eventTime": now, "regarding": about, **who}


def expect(wanted, api, method, path, *body):
    """A policy takes effect a moment after it was applied; a dry run leaves nothing that it would find unchanged."""
    request = (api, method, f"{path}?dryRun=All", *body)
    wait_for(lambda: wanted in (refusal(*request) or ""), 30, lambda: f"{wanted} to refuse {request[1:]}, not {refusal(*request)}")


def test_every_policy_holds_in_an_overlay(rig, overlay):
    node, other = rig.node(start=False), rig.node(start=False)
    for n in (node, other):
        rig.api.create(f"{GROUP}/devices", {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "Device", "metadata": {"name": n.name}})
    agent = overlay.api(overlay.agent, f"{rig.id}-agent", node.name)
    leader, follower = (overlay.api(overlay.account, f"{rig.id}-{name}") for name in ("leader", "follower"))
    rig.give_lease("leader")
    status = {**rig.api.get(f"{GROUP}/devices/{other.name}"), "status": {"summary": {"gpus": 0}}}
    expect("cleave-agent-device", agent, "PUT", f"{GROUP}/devices/{other.name}/status", status)
    expect("cleave-agent-event", agent, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", event({"kind": "Node", "apiVersion": "v1", "name": other.name}, "gpu.cleave.dev/agent"))
    bad = {"metadata": {"labels": {"a": "b"}}}
    expect("cleave-controller-node", leader, "PATCH", f"/api/v1/nodes/{node.name}", bad, MERGE)
    expect("cleave-controller-node-status", leader, "PATCH", f"/api/v1/nodes/{node.name}/status", bad, MERGE)
    expect("cleave-controller-device", leader, "PATCH", f"{GROUP}/devices/{node.name}", bad, MERGE)
    expect("cleave-controller-device-status", leader, "PATCH", f"{GROUP}/devices/{node.name}/status", {"status": {"summary": {"layout": "x"}}}, MERGE)
    expect("cleave-controller-claim", leader, "PATCH", f"{GROUP}/leaders/cleave-controller", {"spec": {"holder": "x_1"}}, MERGE)
    expect("cleave-controller-event", leader, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", event({"kind": "Node", "apiVersion": "v1", "name": node.name}, "kubelet"))
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}, "spec": {"holderIdentity": "x"}}
    expect("cleave-controller-lease", leader, "POST", f"/apis/coordination.k8s.io/v1/namespaces/{overlay.ns}/leases", lease)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": f"{rig.id}-leader"}}
    expect("cleave-controller-eviction", leader, "POST", f"/api/v1/namespaces/{overlay.ns}/pods/{rig.id}-leader/eviction", eviction)
    expect("cleave-controller-leader", follower, "PATCH", f"/api/v1/nodes/{node.name}", {"metadata": {}}, MERGE)
    # And what they are there to do they may.
    own = {**rig.api.get(f"{GROUP}/devices/{node.name}"), "status": {"summary": {"gpus": 0}}}
    assert refusal(agent, "PUT", f"{GROUP}/devices/{node.name}/status", own) is None
    assert refusal(leader, "PATCH", f"{GROUP}/devices/{node.name}?fieldManager=cleave-controller", {"spec": {}}, MERGE) is None
    for api in (agent, leader, follower):
        api.close()


def test_the_schedulers_policies_hold_in_an_overlay(rig, overlay):
    node = rig.node(start=False)
    pod = rig.pod(f"{rig.id}-pod", None, schedulerName="none")["metadata"]["name"]
    scheduler = overlay.api(overlay.scheduler, f"{rig.id}-scheduler")
    path = f"{PODS}/{pod}"
    expect("cleave-scheduler-node", scheduler, "PATCH", f"/api/v1/nodes/{node.name}", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    expect("cleave-scheduler-pod", scheduler, "PATCH", f"{path}/status", {"metadata": {"annotations": {"a": "b"}}}, MERGE)
    expect("cleave-scheduler-lease", scheduler, "POST", LEASES.format("kube-system"), lease("kube-scheduler"))
    # And what it is there to do it may.
    assert refusal(scheduler, "PATCH", f"/api/v1/nodes/{node.name}?{BY_SCHEDULER}", room("1"), MERGE) is None
    assert refusal(scheduler, "POST", f"{LEASES.format(overlay.ns)}?dryRun=All", lease("cleave-scheduler")) is None
    scheduler.close()


# --- the scheduler's account, with whatever rights ---

RECORD = "gpu.cleave.dev/allocation"
PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
BY_SCHEDULER = "fieldManager=cleave-scheduler"
ROOM = "gpu.cleave.dev/room"


def lease(name, seconds=15):
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": seconds}}


def room(value):
    return {"metadata": {"annotations": {ROOM: value}}}


def binding(pod, node, **annotations):
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "annotations": annotations}, "target": {"kind": "Node", "name": node}}


@pytest.fixture
def scheduler(rig):
    """The account with an administrator's rights: policies alone hold it."""
    api = Api(rig.cluster, user="system:serviceaccount:cleave-system:cleave-scheduler")
    yield api
    api.close()


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": None, ROOM: "1"}}},
        {"metadata": {"finalizers": ["example.com/kept"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]}},
        {"metadata": {"managedFields": [{"manager": "kubelet", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {"f:test": {}}}}}]}},
        {"metadata": {"managedFields": [{"manager": "cleave-scheduler", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {"f:test": {}}}}}]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
        room("x" * 64),
        room("a b"),
    ],
    ids=str,
)
def test_of_a_node_the_scheduler_writes_one_annotation(rig, scheduler, body):
    node = rig.node(start=False, labels={"other": "label"})
    path = f"/api/v1/nodes/{node.name}"
    rig.api.merge(path, {"metadata": {"annotations": {"node.alpha.kubernetes.io/ttl": "0"}}})
    expect("cleave-scheduler-node", scheduler, "PATCH", path, body, MERGE)
    for value in ("2026-01-01T00:00:00.000000Z", "2", None):
        assert refusal(scheduler, "PATCH", f"{path}?{BY_SCHEDULER}", room(value), MERGE) is None
    applied = {"apiVersion": "v1", "kind": "Node", **room("3")}
    assert refusal(scheduler, "PATCH", f"{path}?{BY_SCHEDULER}&force=true", applied, "application/apply-patch+yaml") is None
    assert refusal(scheduler, "PATCH", f"{path}/status?dryRun=All", room("4"), MERGE) == "cleave-scheduler-node"


def test_the_scheduler_gives_a_pod_its_record_by_a_binding_alone(rig, scheduler):
    node, name = rig.node(start=False), f"{rig.id}-pod"
    rig.pod(name, None, schedulerName="none")
    path, note = f"{PODS}/{name}", {"metadata": {"annotations": {RECORD: "{}"}}}
    refused = "cleave-scheduler-pod"
    expect(refused, scheduler, "POST", PODS, {"metadata": {"name": f"{name}-2"}, "spec": {"containers": [{"name": "main", "image": "none"}]}})
    expect(refused, scheduler, "PATCH", path, note, MERGE)
    expect(refused, scheduler, "PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    expect(refused, scheduler, "PATCH", f"{path}/status", note, MERGE)
    expect(refused, scheduler, "PATCH", f"{path}/status", {"metadata": {"finalizers": ["example.com/kept"]}}, MERGE)
    for annotations in ({"metax-tech.com/gpu-devices-allocated": "x"}, {"scheduling.koordinator.sh/device-allocated": "x"}, {"a": "b"}):
        expect(refused, scheduler, "POST", f"{path}/binding", binding(name, node.name, **annotations))
    waits = {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}
    assert refusal(scheduler, "PATCH", f"{path}/status", waits, MERGE) is None
    told = {"hami.io/vgpu-devices-allocated": ";", "scheduler.framework.gpushare.allocation": "{}"}
    assert refusal(scheduler, "POST", f"{path}/binding", binding(name, node.name, **{RECORD: "{}"}, **told)) is None
    bound = rig.api.get(path)
    assert bound["spec"]["nodeName"] == node.name and bound["metadata"]["annotations"][RECORD] == "{}"


def test_the_scheduler_takes_its_own_lease_and_nobody_elses(rig, scheduler):
    refused = "cleave-scheduler-lease"
    expect(refused, scheduler, "POST", LEASES.format("kube-system"), lease("kube-scheduler"))
    expect(refused, scheduler, "POST", LEASES.format("kube-system"), lease("cleave-scheduler"))
    expect(refused, scheduler, "POST", LEASES.format("cleave-system"), lease("cleave-controller"))
    expect(refused, scheduler, "POST", LEASES.format("cleave-system"), lease("cleave-scheduler", 301))
    assert refusal(scheduler, "POST", f"{LEASES.format('cleave-system')}?dryRun=All", lease("cleave-scheduler")) is None


# --- the controller says when they do not hold it ---


def in_force(process):
    """By policy, what the gauge says."""
    lines = [line for line in serve(process, "/metrics")[1].splitlines() if line.startswith("cleave_controller_policy_in_force{")]
    return {line.split('"')[1]: int(line.split()[-1]) for line in lines}


def test_the_controller_says_when_policies_do_not_hold_it(rig):
    rig.node()
    rig.cluster.kubectl("wait", "--for=create", "validatingadmissionpolicybinding/cleave-controller-node-status", "--timeout=10s")
    controller = rig.controller()
    wait_for(lambda: len(in_force(controller)) >= 8, 30, lambda: f"the policies to be asked, not {in_force(controller)}")
    assert controller.stop() == 0
    rig.cluster.kubectl("delete", "-k", ROOT / "config/admission")
    wait_no_policies(rig, rig.nodes[0], "cleave-controller")  # it asks as it begins to lead, and then for a long time not
    try:
        controller = rig.controller("again")
        wait_for(lambda: set(in_force(controller).values()) == {0}, 60, lambda: f"all to be out of force, not {in_force(controller)}")
        (told,) = wait_for(lambda: [e for e in rig.events("cleave-controller", "PolicyNotInForce") if rig.id in e["reportingInstance"]], 60, "the Event")
        assert "cleave-controller-eviction" in told["note"] and "config/admission" in told["note"]
        assert serve(controller, "/readyz")[0] == 200, "it works on"
        rig.wait_ready(rig.profile("p", {"mode": "mig", "mig": {"profiles": {"3g.40gb": 2}}}))
    finally:
        rig.cluster.kubectl("apply", "--server-side", "-k", ROOT / "config/admission")
    wait_for(lambda: set(in_force(controller).values()) == {1}, 60, lambda: f"all to be in force again, not {in_force(controller)}")
    assert rig.api.find("/apis/coordination.k8s.io/v1/namespaces/cleave-system/leases/cleave-policy-check") is None
    assert "gpu.cleave.dev/policy-check" not in rig.nodes[0].labels()
