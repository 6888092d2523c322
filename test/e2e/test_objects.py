# SPDX-License-Identifier: Apache-2.0
"""The resource definitions, the samples, the rights and the manifests, judged by a real API server."""

import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
INVALID = sorted((ROOT / "test" / "e2e" / "invalid").glob("*.yaml"))
SAMPLES = sorted(p for p in (ROOT / "config" / "samples").glob("*.yaml") if p.name != "kustomization.yaml")
DEVICES = "/apis/gpu.cleave.dev/v1alpha1/devices"
EVENTS = "/api/v1/namespaces/default/events"

FULL_STATUS = {
    "observedGeneration": 1,
    "agentVersion": "0.1.0",
    "bootID": "5f0c6a52-0000-4000-8000-000000000000",
    "summary": {"gpus": 1, "models": "1x NVIDIA A30", "layout": "1x2g.12gb", "partitions": 1, "inUse": 1},
    "drivers": [{"vendor": "nvidia", "version": "570.86.15", "libraryVersion": "12.570.86.15", "cudaVersion": "12.8"}],
    "models": [
        {
            "name": "NVIDIA A30",
            "migMemorySlices": 4,
            "migProfiles": [
                {
                    "name": "2g.12gb+me",
                    "id": 6,
                    "slices": 2,
                    "memoryMiB": 11968,
                    "maxCount": 1,
                    "multiprocessors": 28,
                    "engines": {"copy": 2, "decoder": 2, "jpeg": 1, "ofa": 1},
                    "size": 2,
                    "starts": [0, 2],
                }
            ],
        }
    ],
    "devices": [
        {
            "uuid": "GPU-5f0c6a52-1111-4000-8000-000000000000",
            "index": 0,
            "minor": 0,
            "vendor": "nvidia",
            "model": "NVIDIA A30",
            "pciBusID": "00000000:17:00.0",
            "pciDeviceID": "0x20B710DE",
            "pciSubsystemID": "0x153210DE",
            "numaNode": -1,
            "memoryMiB": 24576,
            "healthy": True,
            "migCapable": True,
            "mode": "mig",
            "pendingMode": "native",
            "partitions": [
                {
                    "uuid": "MIG-5f0c6a52-2222-4000-8000-000000000000",
                    "profile": "2g.12gb",
                    "giID": 1,
                    "ciID": 0,
                    "placement": "2:2",
                    "inUse": True,
                    "inUseBy": [{"pid": 77, "process": "python3", "namespace": "a", "name": "p", "uid": "u", "container": "c"}],
                },
                {"uuid": "GPU-5f0c6a52-1111-4000-8000-000000000000/2", "giID": 2},
            ],
            "drain": {
                "since": "2026-01-01T00:00:00Z",
                "deadline": "2026-01-01T00:10:00Z",
                "card": True,
                "partitions": ["MIG-5f0c6a52-2222-4000-8000-000000000000"],
            },
        },
        {
            "uuid": "GPU-5f0c6a52-3333-4000-8000-000000000000",
            "index": 1,
            "vendor": "nvidia",
            "model": "NVIDIA A30",
            "memoryMiB": 24576,
            "healthy": True,
            "mode": "native",
            "fractional": {"memoryMiB": 98304, "maxShares": 128, "computePercent": 400, "memory": "library", "compute": "none"},
            "partitions": [
                {
                    "uuid": "GPU-5f0c6a52-3333-4000-8000-000000000000/share-4",
                    "profile": "share",
                    "slice": {"id": 4, "alias": "share-4", "memoryMiB": 3000, "computePercent": 30},
                    "inUse": True,
                    "inUseBy": [{"namespace": "a", "name": "p", "uid": "u", "container": "c"}],
                }
            ],
        },
    ],
    "resources": [{"name": "nvidia.com/mig-2g.12gb", "count": 1, "publisher": "controller"}],
    "conditions": [
        {
            "type": "Ready",
            "status": "False",
            "reason": "InUse",
            "message": "waits",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
}


@pytest.fixture(scope="module")
def admin(cluster):
    """kubectl on a cluster with everything of config/ that no controller would act upon."""
    for folder in ("crds", "config/namespace", "config/rbac", "config/admission"):
        cluster.kubectl("apply", "--server-side", "-k", ROOT / folder)
    cluster.kubectl("wait", "--for=condition=Established", "crd", "-l", "app.kubernetes.io/part-of=cleave", "--timeout=30s")
    return cluster.kubectl


@pytest.fixture(scope="module")
def agent(cluster, admin, wait_for):
    """kubectl as the agent of node alpha, once the policies are in force."""
    cluster.node("alpha")
    cluster.node("beta")
    kubectl = cluster.kubectl_as(cluster.agent_kubeconfig("alpha"))
    for probe in (device("beta"), event("Node", "beta")):
        wait_for(lambda p=probe: "denied request" in create(kubectl, p, "--dry-run=server"), 30, "the policies to be in force")
    yield kubectl
    admin("delete", "devices.gpu.cleave.dev", "alpha", "beta", "--ignore-not-found")


def device(name, **fields):
    return {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "Device", "metadata": {"name": name}, **fields}


def event(kind, name, title="cleave-test"):
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": title, "namespace": "default"},
        "regarding": {"kind": kind, "name": name},
        "reason": "Test",
        "note": "a test",
        "type": "Normal",
        "action": "Test",
        "reportingController": "gpu.cleave.dev/agent",
        "reportingInstance": "test",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }


def create(kubectl, obj, *options):
    """What the API server said, "" where it agreed. Fields that are created belong to cleave-agent, as when the agent creates them."""
    create = ("create", "--validate=false", "--field-manager=cleave-agent", "-f", "-")
    return kubectl(*create, *options, input=json.dumps(obj), check=False).stderr


def write_status(kubectl, name, status):
    obj = json.dumps({**kubectl.json("get", "devices.gpu.cleave.dev", name), "status": status})
    return kubectl("replace", "--subresource=status", "--validate=false", "-f", "-", input=obj, check=False).stderr


def test_there_are_invalid_objects_and_samples():
    assert len(INVALID) > 40
    assert len(SAMPLES) >= 8


@pytest.mark.parametrize("path", INVALID, ids=lambda p: p.stem)
def test_an_invalid_object_is_refused_by_naming_the_field(admin, path):
    expected = re.findall(r"^# expect: (.*)$", path.read_text(), re.M)
    refused = admin("create", "--dry-run=server", "-f", path, check=False)
    assert expected
    assert refused.returncode != 0
    for fragment in expected:
        assert fragment in refused.stderr


@pytest.mark.parametrize(
    "sgpu",
    [
        {"slices": [{"alias": "a" * 22, "memoryMiB": 128}, {"alias": "b" * 20, "memoryMiB": 128, "count": 10}]},
        {"slices": [{"alias": "c" * 19, "memoryMiB": 128, "count": 11}, {"alias": "a-1b", "memoryMiB": 128, "count": 5}]},
        {"qosPolicy": "burst-share", "slices": [{"alias": "a", "memoryMiB": 128, "computePercent": 100}]},
        {"qosPolicy": "fixed-share", "slices": [{"alias": "1", "memoryMiB": 128, "computePercent": 6, "count": 16}]},
        {"qosPolicy": "best-effort", "slices": [{"alias": "a", "memoryMiB": 128, "computePercent": 100, "count": 16}]},
        {"qosPolicy": "fixed-share", "timesliceMilliseconds": 10000, "slices": []},
    ],
)
def test_slices_at_the_bounds_are_taken(admin, sgpu):
    spec = {"nodeSelector": {}, "devices": [{"mode": "sgpu", "sgpu": sgpu}]}
    profile = {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "GPUProfile", "metadata": {"name": "bounds"}, "spec": spec}
    admin("create", "--dry-run=server", "-f", "-", input=json.dumps(profile))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_a_sample_is_applied(admin, path):
    admin("apply", "-f", path)
    admin("delete", "-f", path)


def test_an_object_that_nobody_has_looked_at_is_not_taken_for_finished(admin):
    # kstatus, and with it Flux, takes an object without observedGeneration and conditions for current.
    for sample in ("inference.yaml", "per-model.yaml"):
        path = ROOT / "config" / "samples" / sample
        admin("apply", "-f", path)
        status = admin.json("get", "-f", path)["status"]
        admin("delete", "-f", path)
        assert status == {"observedGeneration": -1}


def test_what_a_profile_leaves_out_has_a_default(admin):
    spec = "{nodeSelector: {}, devices: [{mode: native}]}"
    text = f"apiVersion: gpu.cleave.dev/v1alpha1\nkind: GPUProfile\nmetadata: {{name: bare}}\nspec: {spec}\n"
    made = admin.json("create", "--dry-run=server", "-f", "-", input=text)["spec"]
    assert made == {
        "nodeSelector": {},
        "devices": [{"mode": "native"}],
        "priority": 0,
        "paused": False,
        "remainder": "unchanged",
        "migStrategy": "mixed",
        "failurePolicy": "rollback",
        "health": {"taint": "None"},
        "rollout": {"maxUnavailable": 1, "drain": "refuseIfInUse", "timeoutSeconds": 600},
        "health": {"taint": "None"},
    }


@pytest.mark.parametrize("name", ["1g.10gb", "1g.10gb+me", "1g.24gb+me.all", "1g.24gb-me", "1c.3g.40gb", "4g.96gb+gfx", "1g.99gb"])
def test_a_name_that_only_the_hardware_can_judge_is_accepted(admin, name):
    spec = {"nodeSelector": {}, "devices": [{"mode": "mig", "mig": {"profiles": {name: 7}}}]}
    obj = {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "GPUProfile", "metadata": {"name": "named"}, "spec": spec}
    assert create(admin, obj, "--dry-run=server") == ""


@pytest.mark.parametrize("value", [1, 1000, "1%", "25%", "100%"])
def test_a_budget_is_a_number_or_a_percentage(admin, value):
    spec = {"nodeSelector": {}, "devices": [{"mode": "native"}], "rollout": {"maxUnavailable": value}}
    obj = {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "GPUProfile", "metadata": {"name": "budget"}, "spec": spec}
    assert create(admin, obj, "--dry-run=server") == ""


@pytest.mark.parametrize("value", ["many", "0%", "101%", "1.5%", "50 %", "1"])
def test_a_budget_that_is_neither_is_told_what_it_may_be(admin, value):
    spec = {"nodeSelector": {}, "devices": [{"mode": "native"}], "rollout": {"maxUnavailable": value}}
    obj = {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "GPUProfile", "metadata": {"name": "budget"}, "spec": spec}
    allowed = 'it is a number of nodes from 1 to 100000, or a share of them from "1%" to "100%"'
    assert f'spec.rollout.maxUnavailable: Invalid value: "": {allowed}, not "{value}"' in create(admin, obj, "--dry-run=server")


def test_every_manifest_is_accepted(admin):
    said = admin("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", ROOT / "config")
    assert "violate" not in said.stderr
    assert "deployment.apps/cleave-controller" in said.stdout
    assert "daemonset.apps/cleave-agent" in said.stdout


def overlay(folder, *components):
    """A kustomization of the agent with these components of config/."""
    config = Path("/").joinpath(*[".."] * len(folder.resolve().parts)) / ROOT.relative_to("/") / "config"
    config = str(config).lstrip("/")
    listed = ", ".join(f"{config}/{component}" for component in components)
    (folder / "kustomization.yaml").write_text(f"kind: Kustomization\nresources: [{config}/agent]\ncomponents: [{listed}]\n")
    return folder


@pytest.mark.parametrize("component", ["nvidia-runtime", "host-driver", "mps", "koordlet"])
def test_a_component_changes_the_agent(admin, tmp_path, component):
    said = admin("apply", "--server-side", "--dry-run=server", "-k", overlay(tmp_path, f"agent/components/{component}"))
    assert "daemonset.apps/cleave-agent" in said.stdout


SLOTS = "gpu.cleave.dev.node-restriction.kubernetes.io/slots"


def test_nodes_with_slots_have_an_agent_of_their_own(admin, tmp_path):
    built = admin.out("kustomize", overlay(tmp_path, "slots", "agent/components/mps"))
    objects = [o for o in yaml.safe_load_all(built) if o]
    plain, slots = ({o["metadata"]["name"]: o for o in objects if o["kind"] == "DaemonSet"}[n] for n in ("cleave-agent", "cleave-agent-slots"))
    spec = slots["spec"]["template"]["spec"]
    assert (spec["serviceAccountName"], spec["nodeSelector"][SLOTS]) == ("cleave-agent-slots", "true")
    terms = plain["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [{"key": SLOTS, "operator": "NotIn", "values": ["true"]}]}]
    assert plain["spec"]["template"]["spec"]["serviceAccountName"] == "cleave-agent" and "affinity" not in spec
    assert plain["spec"]["selector"] != slots["spec"]["selector"], "one must not take the other's pods"
    assert len([o for o in objects if o["kind"] in ("Service", "NetworkPolicy")]) == 2
    for one in (plain, slots):  # a component is for both
        assert "/dev/shm" in [m["mountPath"] for m in one["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]]
    admin("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", tmp_path)


def parts(admin, kind):
    """The schemas of spec and status."""
    crd = admin.json("get", "crd", f"{kind}.gpu.cleave.dev")
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


def test_each_field_of_each_resource_is_explained(admin):
    for kind in ("devices", "gpuprofiles", "migconfigs"):
        text = admin.out("explain", f"{kind}.gpu.cleave.dev", "--recursive")
        assert "status" in text
        schema = parts(admin, kind)
        assert unexplained(schema["spec"], ".spec") == []
        assert unexplained(schema["status"], ".status") == []


def unexplained(schema, path):
    missing = [] if "description" in schema or path.endswith("]") else [path]
    for name, sub in schema.get("properties", {}).items():
        missing += unexplained(sub, f"{path}.{name}")
    if "items" in schema:
        missing += unexplained(schema["items"], f"{path}[]")
    return missing


def test_the_api_page_lists_each_field_and_its_values(admin):
    page = (ROOT / "docs" / "api.md").read_text()
    for kind, title in {"devices": "Device", "gpuprofiles": "GPUProfile", "migconfigs": "MIGConfig"}.items():
        section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
        for part in ("spec", "status"):
            schema = parts(admin, kind)[part]
            assert [f for f in fields(schema, part) if f"| `{f}` |" not in section] == []
            rows = {line.split("`")[1]: line for line in section.splitlines() if line.startswith("| `")}
            assert [(f, v) for f, v in values(schema, part) if v not in rows[f]] == []


def fields(schema, path):
    found = []
    for name, sub in schema.get("properties", {}).items():
        found.append(f"{path}.{name}")
        if name != "conditions":
            found += fields(sub, found[-1]) + fields(sub.get("items", {}), f"{found[-1]}[]")
    return found


def values(schema, path):
    """Each value that a field may have, where it is one of a few."""
    found = [(path, v) for v in schema.get("enum", [])]
    for name, sub in schema.get("properties", {}).items():
        if name != "conditions":
            found += values(sub, f"{path}.{name}") + values(sub.get("items", {}), f"{path}.{name}[]")
    return found


def test_every_length_and_number_is_bounded(admin):
    for kind in ("devices", "gpuprofiles", "migconfigs"):
        schema = parts(admin, kind)
        assert unbounded(schema["spec"], ".spec") == []
        assert unbounded(schema["status"], ".status") == []


BOUND = {"string": ("maxLength", "enum"), "array": ("maxItems",), "integer": ("minimum",)}


def unbounded(schema, path):
    wants = BOUND.get(schema.get("type"), ())
    missing = [path] if wants and not any(w in schema for w in wants) else []
    if isinstance(schema.get("additionalProperties"), dict):
        missing += [] if "maxProperties" in schema else [path]
        missing += unbounded(schema["additionalProperties"], f"{path}[*]")
    for name, sub in schema.get("properties", {}).items():
        missing += unbounded(sub, f"{path}.{name}")
    if "items" in schema:
        missing += unbounded(schema["items"], f"{path}[]")
    return missing


def test_an_agent_creates_its_own_device_and_writes_its_status(admin, agent):
    assert create(agent, device("alpha", spec={})) == ""
    assert write_status(agent, "alpha", FULL_STATUS) == ""
    assert admin.json("get", "devices.gpu.cleave.dev", "alpha")["status"] == FULL_STATUS
    columns = admin.out("get", "gpudev", "alpha").splitlines()
    assert columns[0].split() == ["NAME", "GPUS", "MODEL", "LAYOUT", "IN-USE", "READY", "REASON", "REFUSED", "AGE"]
    assert "1x2g.12gb" in columns[1] and "InUse" in columns[1]


def test_an_agent_cannot_write_another_nodes_device(admin, agent):
    assert create(admin, device("beta")) == ""
    assert "cleave-agent on node alpha may not write Device beta" in create(agent, device("beta"))
    assert "cleave-agent on node alpha may not write Device beta" in write_status(agent, "beta", {"bootID": "x"})
    assert "status" not in admin.json("get", "devices.gpu.cleave.dev", "beta")


def test_an_agent_cannot_say_what_should_be(agent):
    assert "empty spec only" in create(agent, device("alpha", spec={"migStrategy": "single"}), "--dry-run=server")
    refused = agent("patch", "devices.gpu.cleave.dev", "alpha", "--type=merge", "-p", '{"spec":{}}', check=False)
    assert 'cannot patch resource "devices"' in refused.stderr


def test_a_token_of_no_pod_writes_nothing(cluster, admin, agent):
    token = admin.out("create", "token", "-n", "cleave-node", "cleave-agent")
    unbound = cluster.kubectl_as(Path(cluster.script("kubeconfig.sh", cluster.rundir, "unbound", token)))
    for obj in (device("alpha"), event("Node", "alpha")):
        assert "is not bound to a pod" in create(unbound, obj, "--dry-run=server")
    assert "is not bound to a pod" in write_status(unbound, "alpha", {"bootID": "x"})


def test_an_agent_tells_of_its_own_node_only(admin, agent):
    assert create(agent, event("Node", "alpha", "told-1")) == ""
    assert create(agent, event("Device", "alpha", "told-2")) == ""
    for obj in (event("Node", "beta"), event("Pod", "alpha")):
        assert "may tell of this Node and its Device only" in create(agent, obj)
    old = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "old", "namespace": "default"}, "involvedObject": {"kind": "Node", "name": "alpha"}}
    assert 'cannot create resource "events" in API group ""' in create(agent, old)
    admin("delete", "events", "-n", "default", "told-1", "told-2")


@pytest.mark.parametrize("resource", ["nodes", "pods", "secrets", "configmaps"])
def test_an_agent_reads_nothing_but_devices(agent, resource):
    assert agent.out("auth", "can-i", "list", resource, check=False) == "no"
    assert agent.out("auth", "can-i", "list", "devices.gpu.cleave.dev") == "yes"


def test_the_controller_has_the_rights_that_it_needs_and_no_more(admin):
    def can(verb, resource, *options):
        account = "system:serviceaccount:cleave-system:cleave-controller"
        return admin.out("auth", "can-i", verb, resource, f"--as={account}", *options, check=False) == "yes"

    for verb, resource in [
        ("patch", "devices.gpu.cleave.dev"),
        ("watch", "gpuprofiles.gpu.cleave.dev"),
        ("watch", "nodes"),
        ("list", "pods"),
        ("create", "events.events.k8s.io"),
    ]:
        assert can(verb, resource), (verb, resource)
    assert can("patch", "nodes", "--subresource=status")
    assert can("patch", "nodes"), "one taint; test_health.py shows that it is good for nothing else"
    assert can("patch", "migconfigs.gpu.cleave.dev", "--subresource=status")
    assert can("create", "pods", "--subresource=eviction")
    assert can("update", "leases/cleave-controller", "-n", "cleave-system")
    for verb, resource in [
        ("create", "pods"),
        ("get", "pods"),
        ("delete", "pods"),
        ("create", "events"),
        ("get", "secrets"),
        ("get", "configmaps"),
        ("create", "devices.gpu.cleave.dev"),
        ("patch", "gpuprofiles.gpu.cleave.dev"),
        ("patch", "clusterroles"),
        ("delete", "nodes"),
        ("update", "nodes"),
    ]:
        assert not can(verb, resource), (verb, resource)
    assert not can("update", "devices.gpu.cleave.dev", "--subresource=status")


def test_wrong_types_in_a_status_are_refused(admin):
    bad = {"devices": [{"uuid": "GPU-1", "vendor": "nvidia", "partitions": {"a": 1}}]}
    assert create(admin, device("gamma")) == ""
    refused = admin(
        "patch", "devices.gpu.cleave.dev", "gamma", "--subresource=status", "--type=merge", "-p", json.dumps({"status": bad}), check=False
    )
    admin("delete", "devices.gpu.cleave.dev", "gamma")
    assert "status.devices[0].partitions" in refused.stderr
