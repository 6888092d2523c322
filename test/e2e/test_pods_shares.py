# SPDX-License-Identifier: Apache-2.0
"""Shares of NVIDIA's cards where all of Cleave runs as pods: cleave-scheduler beside a stock kube-scheduler, its webhook behind a
Service, the keeper of the webhook's certificate, the agents and the controller, with the rights and policies of config/.

No kube-proxy runs here: the API server asks a webhook at the addresses of its Service's pods (hack/kube/up.sh).
"""

import json
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, wait_for
from pod_images import USERS, scheduler_images
from pods_rig import pods, pods_cluster  # noqa: F401
from stack import GROUP
from test_fractional import CARD_MIB, RUN, limits, seen, sums, told

RECORD = "gpu.cleave.dev/allocation"
OURS = "cleave-scheduler"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/cleave-system/leases/{OURS}"
SLOTS = "gpu.cleave.dev.node-restriction.kubernetes.io/slots"
CARDS = 4  # of n1


def upstreams_image():
    """The name under which config/ has kube-scheduler."""
    (deployment,) = yaml.safe_load_all((ROOT / "config/scheduler/deployment.yaml").read_text())
    return next(c["image"] for c in deployment["spec"]["template"]["spec"]["containers"] if c["name"] == "kube-scheduler")


def is_changed(pods):
    """Would a pod of shares be? The API server goes without the webhook's word where it waits for more than 5 s."""
    container = {"name": "main", "image": "none", "resources": {"limits": limits(gpumem=1)}}
    path = "/api/v1/namespaces/default/pods?dryRun=All"
    return pods.api.create(path, {"metadata": {"generateName": "asks-"}, "spec": {"containers": [container]}})["spec"]["schedulerName"] == OURS


@pytest.fixture(scope="module")
def installed(pods):
    pods.new_cards()
    program = Path((pods.cluster.rundir / "bin-dir").read_text().strip()) / "kube-scheduler"
    pods.cluster.load(scheduler_images(pods.cluster.rundir, upstreams_image(), program))
    checkout = pods.checkout()
    for component in ("slots", "scheduler", "scheduler-webhook"):
        checkout.take(component)
    checkout.name_images(programs=(*USERS, OURS))
    pods.cluster.kubectl("label", "node", "n1", f"{SLOTS}=true")
    pods.mark = pods.cluster.audit_mark()
    checkout.apply()
    pods.wait_devices()
    wait_for(lambda: is_changed(pods), 60, "the webhook to be asked")
    yield checkout
    checkout.uninstall()
    pods.cluster.kubectl("label", "node", "n1", f"{SLOTS}-")


@pytest.fixture
def node(pods, installed):
    """n1, whose four cards are given out in shares."""
    n = pods.node("n1")
    path = f"{GROUP}/gpuprofiles/shares"
    body = {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "GPUProfile", "metadata": {"name": "shares"}}
    devices = [{"selector": {"vendor": "nvidia"}, "mode": "native", "sharing": {"fractional": {}}}]
    selector = {"matchLabels": {"kubernetes.io/hostname": n.name}}
    pods.api.apply(path, {**body, "spec": {"nodeSelector": selector, "devices": devices}})
    pods.wait_ready(path, timeout=60)
    n.wait_offers(timeout=60, **sums(CARDS))
    yield n
    pods.clear()
    wait_for(lambda: not told(n), 60, "the shares to go")


def spec(node, pod):
    return node.api.get(node.pod_path(pod))["spec"]


def record(node, pod):
    return json.loads(node.api.get(node.pod_path(pod))["metadata"]["annotations"][RECORD])


def told_of(node):
    return {pod: sorted(shares) for pod, shares in node.shares_told().items()}


def test_the_pod_of_hamis_manual_is_changed_placed_and_started(node):
    pod = node.run("gpu-pod", RUN, limits(2, gpumem=3000, gpucores=30))
    assert spec(node, pod)["schedulerName"] == OURS  # the webhook's word
    node.wait_phase(pod, "Running", timeout=60)
    cards, env = seen(node, pod)
    assert len(cards) == 2 and env["CUDA_DEVICE_MEMORY_LIMIT_1"] == "3000m"
    (container,) = record(node, pod)["c"]
    shares = sorted((s["u"], s["m"], s["c"]) for s in container["s"])
    wait_for(lambda: told_of(node) == {pod: shares}, 30, lambda: f"the shares of the record, not {node.shares_told()}")


def test_a_size_alone_is_a_share(node):
    pod = node.run("size", RUN, {"nvidia.com/gpumem": "3000"})
    assert spec(node, pod)["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    node.wait_phase(pod, "Running", timeout=60)


def test_a_pod_for_which_no_card_has_the_room_waits_and_is_woken(node):
    first = [node.run(f"first-{i}", RUN, limits(gpumem=50000), schedulerName="hami-scheduler") for i in range(CARDS)]
    for pod in first:
        node.wait_phase(pod, "Running", timeout=60)
    late = node.run("late", RUN, limits(gpumem=40000))
    wait_for(lambda: f"the best of {CARDS} has {CARD_MIB - 50000} MiB" in node.why(late), 30, lambda: f"the reason: {node.why(late)}")
    node.delete(first[0])
    node.wait_phase(late, "Running", timeout=60)


def test_the_schedulers_leader_goes_and_the_other_one_goes_on(pods, node):
    leader = holder(pods)
    path = f"/api/v1/namespaces/cleave-system/pods/{leader.partition('_')[0]}"
    pods.api.delete(path)
    wait_for(lambda: holder(pods) not in ("", leader), 60, lambda: f"another leader than {leader}")
    pod = node.run("after", RUN, limits(gpumem=3000), schedulerName=OURS)
    node.wait_phase(pod, "Running", timeout=60)
    assert record(node, pod)["c"]
    wait_for(lambda: pods.api.find(path) is None, 60, "the old leader's pod to be gone")
    pods.wait_rolled_out()


def test_a_rollout_of_all_programs_leaves_shares_as_they_are(pods, node):
    first = node.run("first", RUN, limits(gpumem=50000))
    node.wait_phase(first, "Running", timeout=60)
    wait_for(lambda: first in told(node), 30, lambda: f"the share, not {node.shares_told()}")
    before = node.container(first)["containerID"], told(node)
    for namespace, kind in (("cleave-node", "daemonset"), ("cleave-system", "deployment")):
        pods.cluster.kubectl("-n", namespace, "rollout", "restart", kind)
    pods.wait_rolled_out()
    node.wait_settled()
    assert (node.container(first)["containerID"], told(node)) == before
    second = node.run("second", RUN, limits(gpumem=50000))
    node.wait_phase(second, "Running", timeout=60)
    wait_for(lambda: second in told(node), 30, lambda: f"both shares, not {node.shares_told()}")
    assert told(node)[first] == before[1][first]
    assert not {card for card, *_ in told(node)[second]} & {card for card, *_ in told(node)[first]}, "two of 50000 MiB are on two cards"


def holder(pods):
    return pods.api.get(LEASE)["spec"].get("holderIdentity") or ""


def test_nothing_that_our_pods_asked_for_was_refused_and_none_ended(pods, installed):
    """No right is missing, and none of our own policies is in the way. The controller's leader asks for refusals by dry runs."""
    asked = [e for e in pods.cluster.audit(pods.mark) if "cleave" in e["user"].get("username", "") and "dryRun=All" not in e["requestURI"]]
    assert [e for e in asked if e["responseStatus"]["code"] in (401, 403)] == []
    assert {e["user"]["username"].rpartition(":")[2] for e in asked} >= {OURS, "cleave-webhook-certificate"}
    assert pods.ended(besides="kube-scheduler") == {}  # that ends by itself when it cannot renew its Lease for 10 s
