# SPDX-License-Identifier: Apache-2.0
"""GPUProfiles and MIGConfigs, from kubectl apply to the hardware: two processes of ours and a real API server."""

import json
import signal
from collections import Counter

import pytest
from conftest import ROOT, wait_for
from stack import GROUP, ApiServer, condition, is_current, is_true, rig, sanitized, serve  # noqa: F401

SAMPLES = ROOT / "config" / "samples"
CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"


def cut(profiles, **selector):
    """An entry of a profile: these partitions on the cards that the selector takes."""
    return {**({"selector": selector} if selector else {}), "mode": "mig", "mig": {"profiles": profiles}}


def named(config, **selector):
    return {**({"selector": selector} if selector else {}), "mode": "mig", "mig": {"config": config}}


def whole(**selector):
    return {**({"selector": selector} if selector else {}), "mode": "native"}


def nodes_of(rig, path):
    return rig.api.get(path)["status"]["nodes"]


# --- every sample, on nodes that it is meant for ---

BALANCED_80 = {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}
# sample: (label of the node, its cards, what they become, what the node then offers)
MEANT = {
    "all-1g.yaml": [
        ({"pool": "notebooks"}, {"h100-80": 1, "a100-80": 1}, [{"1g.10gb": 7}, {"1g.10gb": 7}], {"nvidia.com/mig-1g.10gb": 14}),
        ({"pool": "notebooks"}, {"a100-40": 1}, [{"1g.10gb": 4}], {"nvidia.com/mig-1g.10gb": 4}),
    ],
    "balanced.yaml": [({"pool": "shared"}, {"h100-80": 2}, [{"1g.10gb": 2, "3g.40gb": 1}] * 2, {"nvidia.com/mig-1g.10gb": 4, "nvidia.com/mig-3g.40gb": 2})],
    "graphics.yaml": [
        (
            {"pool": "graphics"},
            {"rtx-pro-6000": 2, "l4": 1},
            [{"1g.24gb+gfx": 2, "1g.24gb": 2}, {"2g.48gb": 1, "1g.24gb+me": 1, "1g.24gb-me": 1}, "native"],
            None,
        )
    ],
    "inference.yaml": [
        (
            {"pool": "inference"},
            {"h100-80": 4},
            [BALANCED_80, BALANCED_80, {"1g.10gb": 7}, "native"],
            {"nvidia.com/mig-1g.10gb": 11, "nvidia.com/mig-2g.20gb": 2, "nvidia.com/mig-3g.40gb": 2, "nvidia.com/gpu": 4},
        )
    ],
    "metax.yaml": [
        (
            {"pool": "metax"},
            {"c500": 2},
            [{"small": 4, "large": 1}, {}],
            {"metax-tech.com/sgpu-small": 4, "metax-tech.com/sgpu-large": 1, "metax-tech.com/sgpu": 16},
        )
    ],
    "per-model.yaml": [
        ({"nvidia.com/mig.config": "halves"}, {"a100-40": 1, "h100-80": 1}, [{"3g.20gb": 2}, {"3g.40gb": 2}], {"nvidia.com/mig-3g.20gb": 2, "nvidia.com/mig-3g.40gb": 2}),
        ({"nvidia.com/mig.config": "halves"}, {"a30": 1, "rtx-pro-6000": 1}, [{"2g.12gb": 2}, {"2g.48gb": 2}], None),
    ],
    "priority-override.yaml": [({"pool": "inference", "track": "canary"}, {"h100-80": 1}, [{"1g.20gb": 2, "3g.40gb": 1}], None)],
    "time-slicing.yaml": [({"pool": "development"}, {"h100-80": 2}, ["native", "native"], {"nvidia.com/gpu": 8})],
    "training.yaml": [({"pool": "training"}, {"a100-80": 8}, ["native"] * 6 + [BALANCED_80] * 2, None)],
}


def test_every_sample_is_tried():
    """Here, or where an agent serves a kubelet, which MPS and shares need (test_mps, test_fractional)."""
    assert sorted([*MEANT, "fractional.yaml", "mps.yaml"]) == sorted(p.name for p in SAMPLES.glob("*.yaml") if p.name != "kustomization.yaml")


@pytest.mark.parametrize("sample", sorted(MEANT))
def test_a_sample_reaches_the_hardware_the_resources_and_the_labels(rig, kubectl, sample):
    rig.controller()
    nodes = [rig.node(fleet, labels) for labels, fleet, _, _ in MEANT[sample]]
    kubectl("apply", "-f", SAMPLES / sample)
    try:
        kubectl("wait", "-f", SAMPLES / sample, "--for=condition=Ready", "--timeout=60s")
        for node, (_, _, layouts, offers) in zip(nodes, MEANT[sample], strict=True):
            wait_for(lambda n=node, w=layouts: n.layouts() == w, 30, lambda n=node, w=layouts: f"{w}; the cards are {n.layouts()}")
            node.wait_ready()
            wait_for(lambda n=node: n.offers() == n.resources(), 30, lambda n=node: f"{n.resources()} to be offered, not {n.offers()}")
            assert offers is None or node.offers() == offers
            assert [key for key in node.labels() if key.startswith("gpu.cleave.dev/") and key.endswith(".count")]
    finally:
        kubectl("delete", "-f", SAMPLES / sample, "--wait=false")


# --- from apply to the node ---


def test_a_profile_is_ready_when_the_hardware_is(rig):
    rig.controller()
    node = rig.node({"h100-80": 2})
    profile = rig.profile("p", cut(BALANCED_80, indices=[0]), whole())
    done = rig.wait_ready(profile)
    assert node.layouts() == [BALANCED_80, "native"]
    assert done["status"]["nodes"] == {"matched": 1, "upToDate": 1, "progressing": 0, "failed": 0}
    assert is_true(done, "Accepted") and not is_true(done, "Reconciling") and not is_true(done, "Stalled")
    source = node.device()["spec"]["source"]
    assert source == {"kind": "GPUProfile", "name": f"{rig.id}-p", "generation": 1}
    wait_for(lambda: node.offers() == {"nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-2g.20gb": 1, "nvidia.com/mig-3g.40gb": 1, "nvidia.com/gpu": 1}, 30, node.offers)
    labels = node.labels()
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3" and labels["nvidia.com/gpu.count"] == "2"
    assert labels["nvidia.com/mig.strategy"] == "mixed"
    owner = node.device()["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("Node", node.node_object()["metadata"]["uid"])


def test_kubectl_shows_and_waits(rig, kubectl):
    rig.controller()
    rig.node()
    rig.profile("p", cut({"1g.10gb": 7}))
    kubectl("wait", f"gpuprofile/{rig.id}-p", "--for=condition=Ready", "--timeout=30s")
    head, line = kubectl.out("get", "gpuprofiles", f"{rig.id}-p").splitlines()
    assert {"NAME", "READY"} <= set(head.split())
    assert "True" in line
    assert "Repartitioned" in wait_for(lambda: kubectl.out("events", "--for", f"node/{rig.nodes[0].name}", "-n", "default"), 30, "the events")


def test_once_all_is_done_nothing_more_is_written(rig):
    rig.controller()
    nodes = [rig.node({"h100-80": 2}) for _ in range(2)]
    profile = rig.profile("p", cut(BALANCED_80), rollout={"maxUnavailable": 2})
    rig.wait_ready(profile)
    for node in nodes:
        wait_for(lambda n=node: n.offers() == n.resources(), 30, "the resources")
        node.wait_reads(2)
    assert rig.writes_while(lambda: [node.wait_reads(3) for node in nodes]) == []


def test_a_profile_edited_is_ready_again_only_after_the_hardware(rig):
    rig.controller()
    node = rig.node()
    profile = rig.profile("p", cut({"1g.10gb": 7}))
    rig.wait_ready(profile)
    node.ctl("latency", "set", CREATE, "150ms")
    rig.profile("p", cut({"2g.20gb": 3}))

    def ready_and_not_there():
        obj = rig.api.get(profile)
        if not is_current(obj):
            return False
        assert node.layout() == {"2g.20gb": 3}
        return True

    wait_for(ready_and_not_there, 30, "the edited profile")
    for event in rig.writes(resource="gpuprofiles"):
        told = event["responseObject"]
        assert told["status"]["observedGeneration"] <= told["metadata"]["generation"]


def test_a_deleted_profile_leaves_the_hardware(rig):
    rig.controller()
    node = rig.node()
    profile = rig.profile("p", cut(BALANCED_80))
    rig.wait_ready(profile)
    before, changes = node.card()["partitions"], len(node.changes())
    rig.api.delete(profile)
    wait_for(lambda: not node.device().get("spec", {}).get("devices"), 30, "the spec to be given up")
    node.wait_ready()
    assert node.card()["partitions"] == before and len(node.changes()) == changes
    assert node.offers() == node.resources() != {}


def test_remainder_native_takes_the_rest(rig):
    rig.controller()
    node = rig.node({"h100-80": 2})
    node.smi("-i", 1, "-mig", 1)
    rig.wait_ready(rig.profile("p", cut({"3g.40gb": 1}, indices=[0]), remainder="native"))
    assert node.layouts() == [{"3g.40gb": 1}, "native"]


def test_a_node_that_comes_later_is_cut_too(rig):
    rig.controller()
    profile = rig.profile("p", cut({"1g.10gb": 7}))
    rig.wait_condition(profile, "Stalled", "NoNodes")
    node = rig.node()
    rig.wait_ready(profile)
    assert node.layout() == {"1g.10gb": 7}


def test_a_label_that_makes_a_node_match_is_enough(rig):
    rig.controller()
    node = rig.node()
    rig.make("gpuprofiles", f"{rig.id}-p", {"nodeSelector": {"matchLabels": {"late": rig.id}}, "devices": [cut({"7g.80gb": 1})]})
    node.label(late=rig.id)
    node.wait_layout({"7g.80gb": 1})
    rig.wait_ready(f"{GROUP}/gpuprofiles/{rig.id}-p")


# --- several profiles ---


def test_the_higher_priority_wins_and_gives_back(rig):
    rig.controller()
    node = rig.node({"h100-80": 2})
    base = rig.profile("base", cut({"1g.10gb": 7}))
    rig.wait_ready(base)
    over = rig.profile("over", cut({"3g.40gb": 2}, indices=[0]), priority=10)
    rig.wait_ready(over)
    assert node.layouts() == [{"3g.40gb": 2}, {"1g.10gb": 7}]
    rig.wait_ready(base)
    both = rig.profile("over", cut({"3g.40gb": 2}), priority=10)
    rig.wait_ready(both)
    said = condition(rig.wait_condition(base, "Stalled", "Overridden"), "Stalled")["message"]
    assert said.endswith(f"; {node.name}: NVIDIA GPU 0 is governed by GPUProfile {rig.id}-over, NVIDIA GPU 1 is governed by GPUProfile {rig.id}-over"), said
    rig.api.delete(over)
    rig.wait_ready(base)
    wait_for(lambda: node.layouts() == [{"1g.10gb": 7}] * 2, 30, "the lower profile to have its cards back")


def test_equal_priorities_on_a_card_are_a_conflict_and_the_card_stays(rig):
    rig.controller()
    node = rig.node()
    first = rig.profile("a", cut({"1g.10gb": 7}))
    rig.wait_ready(first)
    second = rig.profile("b", cut({"3g.40gb": 2}))
    for path, other in ((first, "b"), (second, "a")):
        said = wait_for(lambda p=path: (c := condition(rig.api.get(p), "Accepted")).get("reason") == "Conflict" and c, 30, f"the conflict on {path}")
        assert f"{rig.id}-{other}" in said["message"]
        assert is_true(rig.api.get(path), "Stalled")
    assert node.layout() == {"1g.10gb": 7}
    rig.api.delete(second)
    rig.wait_ready(first)
    assert [c["call"] for c in node.changes()].count(CREATE) == 7


# --- what only the hardware can judge ---


@pytest.mark.parametrize(
    "fleet,entry,reason,words",
    [
        ({"h100-80": 1}, cut({"3g.40gb": 3}), "Infeasible", ["nearest", "3g.40gb"]),
        ({"h100-80": 1}, cut({"9g.90gb": 1}), "UnknownProfile", ["9g.90gb", "1g.10gb"]),
        ({"h100-80": 1}, cut({"1g.10gb+me": 2}), "Infeasible", ["1g.10gb+me"]),
        ({"l4": 1}, cut({"1g.10gb": 1}), "MIGUnsupported", ["L4"]),
        ({"h100-80": 1}, cut({"1g.10gb": 1}, uuids=["GPU-00000000-0000-4000-8000-000000000000"]), "DeviceNotFound", ["GPU-00000000"]),
        ({"h100-80": 1}, cut({"1g.10gb": 1}, indices=[5]), "DeviceNotFound", ["5"]),
        ({"h100-80": 1}, {"selector": {"vendor": "metax"}, "mode": "native"}, "DeviceNotFound", ["spec.devices", "NVIDIA H100"]),
        ({"h100-80": 1}, named("no-such-config"), "UnknownConfig", ["no-such-config"]),
    ],
    ids=["infeasible", "unknown-profile", "media-twice", "no-mig", "uuid-nowhere", "index-nowhere", "vendor-nowhere", "unknown-config"],
)
def test_what_cannot_be_is_a_condition_and_nothing_changes(rig, fleet, entry, reason, words):
    rig.controller()
    node = rig.node(fleet)
    profile = rig.profile("p", entry)
    said = rig.wait_condition(profile, "Stalled")
    accepted = condition(said, "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", reason)
    for word in words:
        assert word in accepted["message"]
    node.wait_reads(1)
    assert node.changes() == [] and node.layouts() == ["native"]
    assert not node.device().get("spec", {}).get("devices")
    assert node.offers() == node.resources()
    assert wait_for(lambda: rig.events(f"{rig.id}-p", reason), 30, "a warning event")[0]["type"] == "Warning"


@pytest.mark.parametrize(
    "fleet,memory_mib,reason,words",
    [
        ("h100-80", 1024, "SGPUUnsupported", "this card has no sGPU"),
        ("c500", 16384, "Infeasible", "the slices take 81920 MiB of memory and the card has 65536"),
    ],
)
def test_slices_that_cannot_be_are_a_condition_and_nothing_changes(rig, fleet, memory_mib, reason, words):
    rig.controller()
    node = rig.node({fleet: 1})
    slices = [{"alias": "a", "memoryMiB": memory_mib, "count": 5}]
    profile = rig.profile("p", {"mode": "sgpu", "sgpu": {"slices": slices}})
    accepted = condition(rig.wait_condition(profile, "Stalled"), "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", reason) and words in accepted["message"]
    assert node.changes() == [] and not node.device().get("spec", {}).get("devices")


def test_one_impossible_card_keeps_the_whole_node_as_it_is(rig):
    rig.controller()
    node = rig.node({"h100-80": 2})
    rig.wait_condition(rig.profile("p", cut({"1g.10gb": 7}, indices=[0]), cut({"3g.40gb": 3}, indices=[1])), "Stalled", "Infeasible")
    assert node.changes() == []
    rig.wait_ready(rig.profile("p", cut({"1g.10gb": 7}, indices=[0]), cut({"3g.40gb": 2}, indices=[1])) and f"{GROUP}/gpuprofiles/{rig.id}-p")
    assert node.layouts() == [{"1g.10gb": 7}, {"3g.40gb": 2}]


# --- the rollout ---


def story(rig):
    """Every accepted write of Devices in the server's order: (name, generation, observed, ready, wanted cards)."""
    told = []
    for event in rig.writes(resource="devices"):
        obj = event.get("responseObject", {})
        if event["responseStatus"]["code"] < 300 and obj.get("kind") == "Device":
            told.append(obj)
    told.sort(key=lambda o: int(o["metadata"]["resourceVersion"]))
    return told


def most_in_change(rig):
    """How many nodes were in change at once: from a spec's write until the agent's Ready for it."""
    busy, most = set(), 0
    for obj in story(rig):
        name = obj["metadata"]["name"]
        if not obj.get("spec", {}).get("devices"):
            continue
        (busy.discard if is_current(obj) else busy.add)(name)
        most = max(most, len(busy))
    return most


@pytest.mark.parametrize("budget,most", [(1, 1), ("50%", 2)])
def test_no_more_nodes_are_in_change_than_the_budget_says(rig, budget, most):
    rig.controller()
    nodes = [rig.node() for _ in range(3)]
    for node in nodes:
        node.ctl("latency", "set", CREATE, "500ms")
    profile = rig.profile("p", cut({"1g.10gb": 3}), rollout={"maxUnavailable": budget})
    rig.wait_ready(profile)
    assert [n.layout() for n in nodes] == [{"1g.10gb": 3}] * 3
    assert most_in_change(rig) == most


def test_a_node_that_fails_stops_the_rollout_and_heals(rig):
    rig.controller()
    nodes = [rig.node() for _ in range(3)]
    for node in nodes:
        node.ctl("fault", "add", "--call", CREATE, "--nth", 0, "--action", "fail:UNKNOWN")
    profile = rig.profile("p", cut({"1g.10gb": 3}))
    said = rig.wait_condition(profile, "Stalled", "RolledBack")
    assert said["status"]["nodes"] == {"matched": 3, "upToDate": 0, "progressing": 2, "failed": 1}
    (failure,) = said["status"]["failures"]
    assert failure["reason"] == "RolledBack" and CREATE in failure["message"]
    assert [n.layout() for n in nodes] == ["native"] * 3
    begun = [n for n in nodes if n.device().get("spec", {}).get("devices")]
    assert [n.name for n in begun] == [failure["node"]]
    for node in nodes:
        node.ctl("fault", "clear")
    rig.wait_ready(profile, 60)
    assert [n.layout() for n in nodes] == [{"1g.10gb": 3}] * 3


def test_a_failed_change_leaves_the_placements_that_stood(rig):
    rig.controller()
    node = rig.node()
    profile = rig.profile("p", cut({"1g.10gb": 3, "3g.40gb": 1}))
    rig.wait_ready(profile)
    before = node.placements()
    node.ctl("fault", "add", "--call", CREATE, "--nth", 1, "--action", "fail:UNKNOWN")
    rig.profile("p", cut({"2g.20gb": 3}))
    node.wait_applied("RolledBack")
    node.agent.signal(signal.SIGSTOP)  # it tries again two seconds later
    assert node.placements() == before
    node.agent.signal(signal.SIGCONT)
    rig.wait_ready(profile, 60)
    assert node.layout() == {"2g.20gb": 3}


def test_a_paused_profile_begins_nothing(rig):
    rig.controller()
    node = rig.node()
    profile = rig.profile("p", cut({"1g.10gb": 7}), paused=True)
    said = rig.wait_condition(profile, "Stalled", "Paused")
    assert said["status"]["nodes"]["progressing"] == 1
    node.wait_reads(2)
    assert node.changes() == [] and not node.device().get("spec", {}).get("devices")
    rig.api.merge(profile, {"spec": {"paused": False}})
    rig.wait_ready(profile)
    assert node.layout() == {"1g.10gb": 7}


# --- MIGConfigs ---


def test_an_edited_config_cuts_anew_what_uses_it(rig):
    rig.controller()
    node = rig.node()
    name = f"{rig.id}-geometry"
    config = rig.config(name, {"migEnabled": True, "migDevices": {"1g.10gb": 7}})
    profile = rig.profile("p", named(name))
    rig.wait_ready(profile)
    assert node.layout() == {"1g.10gb": 7}
    wait_for(lambda: rig.api.get(config)["status"].get("usedBy", {}).get("gpuProfiles") == 1, 30, "usedBy")
    rig.config(name, {"migEnabled": True, "migDevices": {"3g.40gb": 2}})
    node.wait_layout({"3g.40gb": 2})
    rig.wait_ready(profile)
    rig.wait_ready(config)


def test_a_config_is_found_by_its_alias_and_beats_a_built_in_name(rig):
    rig.controller()
    node = rig.node({"h100-80": 2})
    rig.config(f"{rig.id}-c", {"migEnabled": True, "migDevices": {"3g.40gb": 1}}, aliases=[f"{rig.id}_Odd_Name"])
    profile = rig.profile("p", named(f"{rig.id}_Odd_Name", indices=[0]), named("all-balanced", indices=[1]))
    rig.wait_ready(profile)
    assert node.layouts() == [{"3g.40gb": 1}, BALANCED_80]
    rig.config("all-balanced", {"migEnabled": True, "migDevices": {"7g.80gb": 1}})
    node.wait_layout({"7g.80gb": 1}, 1)
    rig.wait_ready(profile)


def test_a_deleted_config_changes_nothing_and_is_told(rig):
    rig.controller()
    node = rig.node()
    config = rig.config(f"{rig.id}-c", {"migEnabled": True, "migDevices": {"3g.40gb": 1}})
    profile = rig.profile("p", named(f"{rig.id}-c"))
    rig.wait_ready(profile)
    rig.api.delete(config)
    rig.wait_condition(profile, "Stalled", "UnknownConfig")
    assert node.layout() == {"3g.40gb": 1}
    node.wait_ready()


# --- workloads in the way ---


def test_what_is_in_use_waits_and_says_so(rig):
    rig.controller()
    node = rig.node()
    profile = rig.profile("p", cut({"3g.40gb": 2}))
    rig.wait_ready(profile)
    for i, instance in enumerate(node.cards()[0]["gpuInstances"]):
        node.attach(0, instance["id"], 700 + i, "--name", f"train{i}")
    rig.profile("p", cut({"1g.10gb": 7}))
    said = wait_for(lambda: (c := condition(rig.api.get(profile), "Reconciling")).get("reason") == "InUse" and c, 30, lambda: json.dumps(rig.api.get(profile)["status"]))
    assert "train" in said["message"]
    assert node.layout() == {"3g.40gb": 2}
    for i in range(2):
        node.detach(700 + i)
    rig.wait_ready(profile)
    assert node.layout() == {"1g.10gb": 7}


def evictions(rig):
    return [e for e in rig.cluster.writes(rig.mark, "cleave-controller") if e["objectRef"].get("subresource") == "eviction"]


def test_drain_evict_evicts_with_the_pods_uid_and_nothing_else(rig):
    rig.controller()
    node = rig.node()
    profile = rig.profile("p", cut({"3g.40gb": 2}), rollout={"drain": "evict"})
    rig.wait_ready(profile)
    keep, go = (i["id"] for i in sorted(node.cards()[0]["gpuInstances"], key=lambda i: i["placement"]["start"]))
    uid = node.run_pod(f"{rig.id}-goes", 0, go, 801)
    node.run_pod(f"{rig.id}-goes-too", 0, keep, 802)
    bystander = rig.pod(f"{rig.id}-bystander", node.name)
    rig.profile("p", cut({"1g.10gb": 7}), rollout={"drain": "evict"})
    path = f"/api/v1/namespaces/default/pods/{rig.id}-"
    wait_for(lambda: all((rig.api.find(path + n) or {"metadata": {"deletionTimestamp": 1}})["metadata"].get("deletionTimestamp") for n in ("goes", "goes-too")), 30, "both pods to be evicted")
    assert node.layout() == {"3g.40gb": 2}
    for pid, name in ((801, "goes"), (802, "goes-too")):
        node.detach(pid)
        rig.api.delete(path + name, now=True)
    rig.wait_ready(profile)
    assert node.layout() == {"1g.10gb": 7}
    asked = {e["objectRef"]["name"]: e["requestObject"]["deleteOptions"]["preconditions"]["uid"] for e in evictions(rig)}
    assert asked.keys() == {f"{rig.id}-goes", f"{rig.id}-goes-too"} and asked[f"{rig.id}-goes"] == uid
    assert "deletionTimestamp" not in rig.api.get(path + "bystander")["metadata"]
    assert bystander["metadata"]["uid"] not in asked.values()


def budget(rig, name):
    rig.objects.append(f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{name}")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
    rig.api.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", {"metadata": {"name": name}, "spec": spec})
    path = rig.objects[-1]
    wait_for(lambda: rig.api.get(path).get("status", {}).get("currentHealthy") == 1, 30, "the budget to count its pod")
    return path


def guarded(rig, node, pid):
    """A running pod on card 0 that a PodDisruptionBudget guards."""
    name = f"{rig.id}-guarded"
    node.run_pod(name, 0, node.cards()[0]["gpuInstances"][0]["id"], pid, {"app": name})
    rig.api.merge(f"/api/v1/namespaces/default/pods/{name}/status", {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
    return f"/api/v1/namespaces/default/pods/{name}", budget(rig, name)


def test_a_disruption_budget_holds_an_eviction_up_until_it_allows_it(rig):
    rig.controller()
    node = rig.node()
    profile = rig.profile("p", cut({"7g.80gb": 1}), rollout={"drain": "evict"})
    rig.wait_ready(profile)
    pod, pdb = guarded(rig, node, 811)
    rig.profile("p", cut({"1g.10gb": 7}), rollout={"drain": "evict"})
    wait_for(lambda: any(e["responseStatus"]["code"] == 429 for e in evictions(rig)), 30, "the budget to refuse")
    node.wait_applied("Draining")
    assert "deletionTimestamp" not in rig.api.get(pod)["metadata"]
    assert wait_for(lambda: rig.events(node.name, "EvictionBlocked"), 30, "an event that says so")
    rig.api.delete(pdb)
    wait_for(lambda: rig.api.get(pod)["metadata"].get("deletionTimestamp"), 30, "the eviction")
    node.detach(811)
    rig.api.delete(pod, now=True)
    rig.wait_ready(profile)
    assert node.layout() == {"1g.10gb": 7}


def test_a_drain_that_takes_too_long_fails_and_the_old_layout_is_offered(rig):
    rig.controller()
    node = rig.node()
    profile = rig.profile("p", cut({"7g.80gb": 1}))
    rig.wait_ready(profile)
    guarded(rig, node, 821)
    rig.profile("p", cut({"1g.10gb": 7}), rollout={"drain": "evict", "timeoutSeconds": 1})
    node.wait_applied("DrainTimeout")
    rig.wait_condition(profile, "Stalled", "DrainTimeout")
    wait_for(lambda: node.offers() == {"nvidia.com/mig-7g.80gb": 1}, 30, "the old layout to be offered")
    assert node.layout() == {"7g.80gb": 1}
    node.detach(821)
    rig.wait_ready(profile, 60)
    assert node.layout() == {"1g.10gb": 7}


# --- what others write, and restarts ---


def test_resources_that_a_kubelet_resets_are_applied_again(rig):
    rig.controller()
    node = rig.node()
    rig.wait_ready(rig.profile("p", cut({"1g.10gb": 7})))
    wait_for(lambda: node.offers() == {"nvidia.com/mig-1g.10gb": 7}, 30, "the resources")
    zero = {"nvidia.com/mig-1g.10gb": "0"}
    rig.api.merge(f"/api/v1/nodes/{node.name}/status", {"status": {"capacity": zero, "allocatable": zero}})
    wait_for(lambda: node.offers() == {"nvidia.com/mig-1g.10gb": 7}, 30, "the resources again")


def test_a_node_that_offers_nothing_any_more_keeps_the_rest_of_its_resources(rig):
    # Nobody owns what a kubelet has registered its Node with; server-side apply would take it along.
    rig.controller()
    node = rig.node()
    wait_for(lambda: node.offers() == {"nvidia.com/gpu": 1}, 30, "the resources")
    rig.wait_ready(rig.profile("p", cut({})))
    wait_for(lambda: node.offers() == {}, 30, "nothing to be offered")
    status = node.node_object()["status"]
    assert status["capacity"] == status["allocatable"] == {"cpu": "64", "memory": "512Gi", "pods": "110"}


def test_a_spec_edited_by_hand_is_put_right(rig):
    rig.controller()
    node = rig.node()
    rig.wait_ready(rig.profile("p", cut({"1g.10gb": 7})))
    node.api.merge(node.path, {"spec": {"devices": [{"uuid": node.uuid(), "mode": "mig", "mig": {"profiles": [{"profile": "7g.80gb", "count": 1}]}}]}})
    right = [{"profile": "1g.10gb", "count": 7}]
    wait_for(lambda: [d["mig"]["profiles"] for d in node.device().get("spec", {}).get("devices", [])] == [right], 30, "the spec to be right")
    node.wait_ready()
    assert node.layout() == {"1g.10gb": 7}


def test_a_controller_killed_in_a_rollout_goes_on_where_it_was(rig):
    first = rig.controller()
    nodes = [rig.node() for _ in range(3)]
    for node in nodes:
        node.ctl("latency", "set", CREATE, "100ms")
    profile = rig.profile("p", cut({"1g.10gb": 4}))
    wait_for(lambda: sum(bool(n.device().get("spec", {}).get("devices")) for n in nodes) >= 1, 30, "the rollout to begin")
    first.kill()
    lease = "/apis/coordination.k8s.io/v1/namespaces/cleave-system/leases/cleave-controller"
    rig.api.delete(lease)  # instead of waiting until it ends
    rig.controller("second")
    rig.wait_ready(profile)
    assert [n.layout() for n in nodes] == [{"1g.10gb": 4}] * 3
    assert most_in_change(rig) == 1
    assert all(Counter(c["call"] for c in n.changes())[CREATE] == 4 for n in nodes)


def test_a_rollout_survives_an_api_server_that_goes_away(rig):
    controller = rig.controller()
    nodes = [rig.node() for _ in range(3)]
    for node in nodes:
        node.ctl("latency", "set", CREATE, "100ms")
    profile = rig.profile("p", cut({"1g.10gb": 4}))
    wait_for(lambda: any(n.device().get("spec", {}).get("devices") for n in nodes), 30, "the rollout to begin")
    with ApiServer(rig.cluster).gone():
        assert serve(controller, "/healthz")[0] == 200
    wait_for(lambda: is_current(rig.api.get(profile)) or not controller.running(), 60, lambda: json.dumps(rig.api.get(profile).get("status")))
    if not controller.running():  # as a Deployment does it, where the lease was lost meanwhile
        rig.controller("again")
        rig.wait_ready(profile, 60)
    assert [n.layout() for n in nodes] == [{"1g.10gb": 4}] * 3
    assert most_in_change(rig) == 1
    assert all(n.agent.running() for n in nodes)


def test_a_controller_under_the_sanitizers_leaks_nothing(rig):
    program, env = sanitized("cleave-controller")
    controller = rig.controller(program=program, env=env)
    node = rig.node()
    name = f"{rig.id}-c"
    rig.config(name, {"migEnabled": True, "migDevices": {"3g.40gb": 2}}, aliases=[f"{rig.id}_Alias"])
    profile = rig.profile("p", named(f"{rig.id}_Alias"), rollout={"drain": "evict"})
    rig.wait_ready(profile, 60)
    node.run_pod(f"{rig.id}-pod", 0, node.cards()[0]["gpuInstances"][0]["id"], 831)
    rig.profile("p", cut({"7g.80gb": 1}), rollout={"drain": "evict"})
    pod = f"/api/v1/namespaces/default/pods/{rig.id}-pod"
    wait_for(lambda: rig.api.get(pod)["metadata"].get("deletionTimestamp"), 60, "the eviction")
    node.detach(831)
    rig.wait_ready(profile, 60)
    rig.profile("q", cut({"1g.10gb": 1}))
    rig.wait_condition(profile, "Stalled", "Conflict", 60)
    node.label(**{"nvidia.com/mig.config": "no-such-thing"})
    wait_for(lambda: node.labels().get("nvidia.com/mig.config.state") == "failed", 60, "the label's state")
    rig.api.delete(profile)
    rig.api.delete(node.path)
    wait_for(lambda: rig.api.find(node.path) and node.status(), 60, "the Device again")
    assert serve(controller, "/metrics")[0] == 200
    assert controller.stop(30) == 0
    assert "ERROR: " not in controller.text() and "runtime error" not in controller.text()


def test_a_controller_that_starts_again_writes_nothing(rig):
    first = rig.controller()
    node = rig.node()
    rig.wait_ready(rig.profile("p", cut({"1g.10gb": 7})))
    wait_for(lambda: node.offers() == node.resources(), 30, "the resources")
    node.wait_reads(1)
    assert first.stop() == 0

    def a_second():
        rig.controller("second")
        node.wait_reads(3)

    assert rig.writes_while(a_second) == []
