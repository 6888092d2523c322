# SPDX-License-Identifier: Apache-2.0
"""Our programs as pods on real kubelets, installed by the commands of README.md and docs/operations.md.

Each pod has what the manifests give it: rights, capabilities, mounts, seccomp, Pod Security. What is changed for the
simulator, pods_rig.FOR_THE_SIMULATOR says. The tests go on from one another's cluster; each makes what it needs of it.
"""

import os
import signal

import pytest
from conftest import wait_for
from pods_rig import CRITICAL, pods, pods_cluster, section, steps  # noqa: F401
from stack import GROUP, ApiError, condition, fetch
from test_plugin_real import LOOK, SMALL, assert_sees_its_own, held

GPU = "nvidia.com/gpu"
HALF = "nvidia.com/mig-3g.40gb"
TAINT = "gpu.cleave.dev/unhealthy"
LEADER = f"{GROUP}/leaders/cleave-controller"


@pytest.fixture(scope="module")
def installed(pods):
    """Cleave on the cluster, by README's commands of kustomize: NVIDIA's runtime is the default one of the nodes with cards."""
    pods.new_cards()
    checkout = pods.checkout()
    commands = steps(section("README.md", "With kustomize"))
    pods.mark = pods.cluster.audit_mark()
    checkout.sh(commands[1])
    checkout.sh(commands[3])
    pods.wait_rolled_out()
    pods.wait_devices()
    yield checkout
    checkout.uninstall()


@pytest.fixture(autouse=True)
def emptied(pods):
    yield
    pods.clear()


def cut(pods, name, node, profiles, gpu=0, **spec):
    """A profile for one card of a node; returns its path."""
    path = f"{GROUP}/gpuprofiles/{name}"
    devices = [{"selector": {"vendor": "nvidia", "indices": [gpu]}, "mode": "mig", "mig": {"profiles": profiles}}]
    selector = {"matchLabels": {"kubernetes.io/hostname": node.name}}
    body = {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "GPUProfile", "metadata": {"name": name}}
    pods.api.apply(path, {**body, "spec": {"nodeSelector": selector, "devices": devices, **spec}})
    return path


def worker(node, limits):
    """A pod that says what it sees and runs on until the test's end."""
    return node.runner("worker", limits, LOOK)


# --- the first hour ---


def test_the_last_commands_of_the_readme_end_with_a_profile_that_is_ready(pods, installed):
    installed.sh(steps(section("README.md", "On a cluster"))[3])
    node = pods.node("n1")
    assert node.layouts() == [{"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}] * 2 + [{"1g.10gb": 7}, "native"]
    wait_for(lambda: node.offers().get(SMALL) == 11, 30, lambda: f"the node to offer the partitions: {node.offers()}")


def test_a_pod_gets_its_partition_and_keeps_it_while_the_rest_is_cut_anew(pods, installed):
    node = pods.node("n2")
    profile = cut(pods, "story", node, {"1g.10gb": 2, "3g.40gb": 1})
    pods.wait_ready(profile)
    node.wait_offers(**{SMALL: 2, HALF: 1, GPU: 1})
    pod = worker(node, {HALF: "1"})
    device = assert_sees_its_own(node, pod)
    cut(pods, "story", node, {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1})
    pods.wait_ready(profile)
    node.wait_offers(**{SMALL: 1, "nvidia.com/mig-2g.20gb": 1, HALF: 1, GPU: 1})
    assert held(node, pod) == [device] and node.container(pod)["restartCount"] == 0
    assert assert_sees_its_own(node, worker(node, {SMALL: "1"})) != device


def test_all_pods_are_ready_and_answer(pods, installed):
    assert pods.ended() == {}
    for pod in pods.ours():
        with pods.cluster.network():
            assert fetch_at(pod, 8081, "/readyz") == 200 and fetch_at(pod, 8081, "/healthz") == 200 and fetch_at(pod, 8080, "/metrics") == 200
    for namespace, service, count in (("cleave-system", "cleave-controller-metrics", 2), ("cleave-node", "cleave-agent-metrics", 3)):
        slices = pods.api.get(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io/service-name={service}")
        ready = [e for s in slices["items"] for e in s["endpoints"] or [] if e["conditions"]["ready"]]
        assert len(ready) == count


def fetch_at(pod, port, path):
    return fetch(port, path, pod["status"]["podIP"])[0]


def test_nothing_that_our_pods_asked_for_was_refused(pods, installed):
    """In normal running: no right is missing, and none of our own policies is in the way. The leader asks for refusals by dry runs."""
    asked = [e for e in pods.cluster.audit(pods.mark) if "cleave" in e["user"].get("username", "") and "dryRun=All" not in e["requestURI"]]
    assert [e for e in asked if e["responseStatus"]["code"] in (401, 403)] == []


def test_each_program_has_a_token_that_names_its_node_and_no_more_rights_than_written(pods, installed):
    for pod in pods.ours("cleave-node"):
        (container,) = pod["spec"]["containers"]
        assert not container["securityContext"].get("privileged") and container["securityContext"]["readOnlyRootFilesystem"]
    users = {e["user"]["extra"]["authentication.kubernetes.io/node-name"][0] for e in pods.cluster.writes(pods.mark, by=":cleave-agent$")}
    assert users == {n.name for n in pods.nodes}


def test_critical_pods_start_where_the_api_server_limits_them(pods, installed):
    """Ours do, by their quota; in a namespace without one such a pod is refused."""
    classes = {p["spec"]["priorityClassName"] for p in pods.ours()}
    assert classes == set(CRITICAL)
    with pytest.raises(ApiError, match="insufficient quota to match these scopes"):
        pods.pod("critical", None, priorityClassName=CRITICAL[0])


def test_a_node_without_cards_has_an_agent_and_says_so(pods, installed):
    node = pods.node("n3")
    assert node.agent_pod()["status"]["phase"] == "Running" and node.status().get("devices", []) == []
    assert node.offers() == {}


# --- what goes wrong on a node ---


def test_a_device_file_that_is_gone_is_made_again_with_the_owner_that_the_driver_names(pods, installed):
    node = pods.node("n1")
    params = node.folder / "proc/driver/nvidia/params"
    before = params.read_text()
    params.write_text(before.replace("DeviceFileGID: 0", "DeviceFileGID: 44").replace("DeviceFileMode: 438", "DeviceFileMode: 432"))
    file = node.sees("/dev/nvidia3")
    number = file.stat().st_rdev
    file.unlink()
    wait_for(file.exists, 30, "the file to be made again")
    made = wait_for(lambda: file.stat().st_gid == 44 and file.stat(), 10, lambda: f"its owner: {file.stat()}")
    assert (made.st_rdev, made.st_uid, oct(made.st_mode & 0o777)) == (number, 0, "0o660")
    params.write_text(before)


def is_in_the_way(file):
    """A folder takes the file's place, unless the agent has made the file again in between."""
    file.unlink(missing_ok=True)
    try:
        file.mkdir()
    except FileExistsError:
        return False
    return True


def test_a_card_whose_device_file_cannot_be_made_is_withheld_and_named(pods, installed):
    node = pods.node("n1")
    file, number = node.sees("/dev/nvidia3"), node.sees("/dev/nvidia3").stat().st_rdev
    shared = {name: n for name, n in node.offers().items() if "shared" in name or name == GPU}
    assert shared
    wait_for(lambda: is_in_the_way(file), 30, "a folder in the file's place")
    wait_for(lambda: not set(shared) & set(node.offers()), 30, lambda: f"the card to be withheld: {node.offers()}")
    wait_for(lambda: "/dev/nvidia3" in condition(node.device(), "ResourcesPublished").get("message", ""), 30, "the condition to name the file")
    file.rmdir()
    wait_for(lambda: shared.items() <= node.offers().items(), 30, lambda: f"the card to be back: {node.offers()}")
    assert file.stat().st_rdev == number


@pytest.fixture
def busy(pods, installed):
    """A node with a pod on a partition: (node, pod, what is offered)."""
    node = pods.node("n2")
    pods.wait_ready(cut(pods, "story", node, {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}))
    offers = {SMALL: 1, "nvidia.com/mig-2g.20gb": 1, HALF: 1, GPU: 1}
    node.wait_offers(**offers)
    pod = worker(node, {"nvidia.com/mig-2g.20gb": "1"})
    return node, pod, offers


def test_an_agent_that_is_killed_comes_back_and_pods_keep_their_partitions(pods, busy):
    node, pod, offers = busy
    agent, container, device = node.agent_pod(), node.container(pod)["containerID"], held(node, pod)
    os.kill(node.agent_pids()[0], signal.SIGKILL)
    wait_for(lambda: pods.ended().get(agent["metadata"]["name"]), 30, "the container to be started again")
    node.wait_offers(timeout=60, **offers)
    assert (node.container(pod)["containerID"], held(node, pod)) == (container, device)


def test_an_agent_whose_pod_is_replaced_serves_again_and_pods_keep_their_partitions(pods, busy):
    node, pod, offers = busy
    agent, container, device = node.agent_pod(), node.container(pod)["containerID"], held(node, pod)
    pods.api.delete(f"/api/v1/namespaces/cleave-node/pods/{agent['metadata']['name']}")
    pods.wait_rolled_out()
    node.wait_offers(timeout=60, **offers)
    assert node.agent_pod()["metadata"]["uid"] != agent["metadata"]["uid"]
    assert (node.container(pod)["containerID"], held(node, pod)) == (container, device)


@pytest.fixture
def tainted(pods, installed):
    """Nowhere is a node left that has no taint of ours, or takes pods."""
    profiles = [cut(pods, f"ill-{n}", pods.node(n), {"1g.10gb": 7}, priority=100, health={"taint": "NoSchedule"}) for n in ("n1", "n2")]
    for profile in profiles:
        pods.wait_ready(profile, timeout=60)
    pods.cluster.kubectl("cordon", "n3")
    for node in pods.nodes[:2]:
        node.ctl("lost", "--gpu", 0, "set")
    yield [pods.node(n) for n in ("n1", "n2")]
    for node in pods.nodes[:2]:
        node.ctl("lost", "--gpu", 0, "clear")
    pods.cluster.kubectl("uncordon", "n3")
    for profile in profiles:
        pods.api.delete(profile)


def has_taint(node):
    return TAINT in [t["key"] for t in node.node_object()["spec"].get("taints", [])]


def test_a_controller_is_replaced_where_all_nodes_have_its_own_taint(pods, tainted):
    for node in tainted:
        wait_for(lambda n=node: has_taint(n), 30, f"the taint of {node.name}")
    leader = pods.api.get(LEADER)["spec"]["holder"].partition("_")[0]
    pods.api.delete(f"/api/v1/namespaces/cleave-system/pods/{leader}")
    pods.wait_rolled_out()
    for node in tainted:
        node.ctl("lost", "--gpu", 0, "clear")
        wait_for(lambda n=node: not has_taint(n), 60, f"the taint of {node.name} to be taken off")


# --- the driver on the host, and no runtime of NVIDIA's ---


@pytest.fixture(scope="module")
def host_driver(pods, installed):
    """The same installation with the component host-driver instead, until the module's end."""
    installed.take("agent/components/host-driver")
    installed.apply()
    return installed


def test_with_the_driver_of_the_host_the_same_is_served(pods, host_driver):
    node = pods.node("n2")
    assert node.agent_pod()["spec"]["containers"][0]["securityContext"]["privileged"]
    pods.wait_ready(cut(pods, "story", node, {"1g.10gb": 4, "3g.40gb": 1}))
    node.wait_offers(**{SMALL: 4, HALF: 1, GPU: 1})
    assert_sees_its_own(node, worker(node, {SMALL: "1"}))


@pytest.mark.parametrize("name", ["n1", "n2"])
def test_somebody_looks_at_the_cards_from_within_the_agents_pod(pods, host_driver, name):
    node = pods.node(name)
    seen = host_driver.sh(f"kubectl -n cleave-node exec {node.agent_pod()['metadata']['name']} -- cleave-agent inspect")
    assert sum(line.startswith("GPU ") for line in seen.splitlines()) == len(node.cards()) and "3g.40gb" in seen


def test_a_card_that_needs_a_reset_is_cut_through_the_driver_of_the_host(pods, host_driver):
    """MIG of an A100 is switched on by a reset, which nvidia-smi does."""
    node = pods.node("n2")
    profile = cut(pods, "reset", node, {"1g.10gb": 7}, 1, priority=200)
    pods.wait_ready(profile, timeout=60)
    assert node.layout(1) == {"1g.10gb": 7}
    pods.api.delete(profile)


# --- again and again ---


def test_the_leader_is_known_after_the_policies_were_removed_and_applied_again(pods, installed):
    installed.sh("kubectl delete -k config/admission")
    wait_for(lambda: not pods.api.get("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings")["items"], 30, "the policies to be gone")
    installed.sh("kubectl apply --server-side -k config/admission")
    leader = pods.api.get(LEADER)["spec"]["holder"].partition("_")[0]
    pods.api.delete(f"/api/v1/namespaces/cleave-system/pods/{leader}")
    pods.wait_rolled_out()
    wait_for(lambda: not pods.api.get(LEADER)["spec"]["holder"].startswith(f"{leader}_"), 30, "another leader")
    assert_acts(pods, {"2g.20gb": 3})


def assert_acts(pods, profiles):
    """The controller carries a new wish out and says so."""
    node = pods.node("n1")
    pods.api.delete(f"{GROUP}/gpuprofiles/inference")
    pods.wait_ready(cut(pods, "again", node, profiles), timeout=60)
    assert node.layout() == profiles


def test_uninstalled_by_the_page_and_installed_again_it_works_as_before(pods, installed):
    """What an API server keeps of the first time shows then."""
    node = pods.node("n2")
    pod = node.runner("stays")
    installed.uninstall()
    assert pods.cluster.kubectl.out("get", "nodes", "-o", "yaml").count(TAINT) == 0
    assert [n.name for n in pods.nodes if any(k.startswith(("nvidia.com/", "gpu.cleave.dev/")) for k in n.labels())] == []
    installed.apply()
    assert_acts(pods, {"1g.10gb": 7})
    assert node.container(pod)["restartCount"] == 0
