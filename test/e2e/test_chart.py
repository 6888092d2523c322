# SPDX-License-Identifier: Apache-2.0
"""The Helm chart: the same objects as kustomize makes, values that are refused, and a real life on a real API server.

Installed are objects alone: no kubelet is here, so nothing waits for pods.
"""

import copy
import functools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from chart_rig import Helm, HelmError, maker
from conftest import HACK, ROOT, Cluster, KubectlError, wait_for

CONFIG = ROOT / "config"
KEEP = {"helm.sh/resource-policy": "keep"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return maker.make("1.2.3", tmp_path_factory.mktemp("chart"))


@pytest.fixture(scope="module")
def helm(tmp_path_factory):
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="module")
def render(helm, archive):
    """The objects that the chart makes of values; the same ones are rendered once."""

    @functools.cache
    def of(text):
        printed = helm("template", "cleave", archive, "--namespace", "default", values=json.loads(text))
        return [o for o in yaml.load_all(printed, maker.LOADER) if o]

    return lambda values: copy.deepcopy(of(json.dumps(values)))


# --- both renderings are equal ---


def patch(target, *operations):
    """A patch of a kustomization: operations are (path, value) to add, with "/" as "~1" in names."""
    return {"target": target, "patch": yaml.safe_dump([{"op": "add", "path": path, "value": value} for path, value in operations])}


CONTROLLER = {"kind": "Deployment", "name": "cleave-controller"}
SCHEDULER = {"kind": "Deployment", "name": "cleave-scheduler"}
KEEPER = {"kind": "Deployment", "name": "cleave-webhook-certificate"}
AGENTS = {"kind": "DaemonSet", "labelSelector": "app.kubernetes.io/part-of=cleave"}
POLICIES = {"kind": "NetworkPolicy", "labelSelector": "app.kubernetes.io/part-of=cleave"}
POD = "/spec/template/spec"
CONTAINER = f"{POD}/containers/0"
TOLERATION = {"key": "example.com/gpus", "operator": "Exists", "effect": "NoSchedule"}
AFFINITY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]}}
VARIABLES = [{"name": "CLEAVE_MXSML_LIBRARY", "value": "/host/opt/lib.so"}, {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}]


def images(name, **what):
    return [{"name": f"cleave-{program}", "newName": f"registry.example/gpu/cleave-{program}", **what} for program in name]


def workload(target, env=None):
    """The values that all of our programs have, as patches; env: how the variables are added to a container without any."""
    return patch(
        target,
        ("/metadata/labels/team", "gpu"),
        (f"{POD.removesuffix('/spec')}/metadata/labels/team", "gpu"),
        ("/metadata/annotations", {"example.com/a": "b"}),
        (f"{POD.removesuffix('/spec')}/metadata/annotations/example.com~1a", "b"),
        (f"{POD}/affinity", AFFINITY),
        (f"{CONTAINER}/resources/limits/memory", "1Gi"),
        (f"{CONTAINER}/resources/limits/cpu", 2),
        (f"{CONTAINER}/args/-", "--log-level=debug"),
        *(env or [(f"{CONTAINER}/env/-", variable) for variable in VARIABLES]),
    )


WORKLOAD = {
    "labels": {"team": "gpu"},
    "annotations": {"example.com/a": "b"},
    "affinity": AFFINITY,
    "resources": {"limits": {"memory": "1Gi", "cpu": 2}},
    "extraArgs": ["--log-level=debug"],
    "extraEnv": VARIABLES,
}

# What a value of the chart is in kustomize: its components, in their order, and what an overlay says besides.
CASES = {
    "default": ({}, [], {}),
    "slots": ({"slots": {"enabled": True}}, ["slots"], {}),
    "scheduler": ({"slots": {"enabled": True}, "scheduler": {"enabled": True}}, ["slots", "scheduler"], {}),
    "scheduler-as-wished": (
        {
            "slots": {"enabled": True},
            "scheduler": {
                **WORKLOAD,
                "enabled": True,
                "replicas": 1,
                "image": "one.example/s:v1",
                "nodeSelector": {"infra": "true"},
                "tolerations": [TOLERATION],
                "kubeScheduler": {
                    "image": "two.example:5000/kube-scheduler:v1.33.8",
                    "resources": {"requests": {"cpu": 2}, "limits": {"memory": "1Gi"}},
                    "extraArgs": ["--v=4"],
                },
            },
        },
        ["slots", "scheduler"],
        {
            "images": [
                {"name": "cleave-scheduler", "newName": "one.example/s", "newTag": "v1"},
                {"name": "registry.k8s.io/kube-scheduler", "newName": "two.example:5000/kube-scheduler", "newTag": "v1.33.8"},
                *({"name": f"cleave-{program}", "newTag": "1.2.3"} for program in ("controller", "agent")),
            ],
            "patches": [
                workload(SCHEDULER, [(f"{CONTAINER}/env", VARIABLES)]),
                patch(
                    SCHEDULER,
                    ("/spec/replicas", 1),
                    (f"{POD}/nodeSelector", {"infra": "true"}),
                    (f"{POD}/tolerations/-", TOLERATION),
                    (f"{POD}/containers/1/resources/requests/cpu", 2),
                    (f"{POD}/containers/1/resources/limits", {"memory": "1Gi"}),
                    (f"{POD}/containers/1/args/-", "--v=4"),
                ),
                patch({"kind": "PodDisruptionBudget", "name": "cleave-scheduler"}, ("/spec/minAvailable", 0)),
            ],
        },
    ),
    "hami-metrics": (
        {"slots": {"enabled": True}, "scheduler": {"enabled": True, "hamiMetrics": "both"}, "daemonsets": {"hamiMetrics": "legacy"}},
        ["slots", "scheduler"],
        {"patches": [patch(SCHEDULER, (f"{CONTAINER}/args/-", "--hami-metrics=both")), patch(AGENTS, (f"{CONTAINER}/args/-", "--hami-metrics=legacy"))]},
    ),
    "webhook": (
        {"slots": {"enabled": True}, "scheduler": {"enabled": True, "webhook": {"enabled": True}}},
        ["slots", "scheduler", "scheduler-webhook"],
        {},
    ),
    "webhook-as-wished": (
        {
            "slots": {"enabled": True},
            "metrics": {"auth": "token"},
            "openshift": {"enabled": True},
            "scheduler": {
                "enabled": True,
                "webhook": {"enabled": True},
                "replicas": 3,
                "image": "one.example/s:v1",
                "nodeSelector": {"infra": "true"},
                "tolerations": [TOLERATION],
                "extraArgs": ["--log-level=debug"],
            },
            "networkPolicy": {"monitoringNamespace": "prometheus"},
        },
        ["slots", "scheduler", "scheduler-webhook", "components/metrics-auth", "components/openshift"],
        {
            "images": [
                {"name": "cleave-scheduler", "newName": "one.example/s", "newTag": "v1"},
                *({"name": f"cleave-{program}", "newTag": "1.2.3"} for program in ("controller", "agent")),
            ],
            "patches": [
                *(patch(target, (f"{POD}/nodeSelector", {"infra": "true"}), (f"{POD}/tolerations/-", TOLERATION)) for target in (SCHEDULER, KEEPER)),
                patch(SCHEDULER, ("/spec/replicas", 3), (f"{CONTAINER}/args/-", "--log-level=debug")),
                patch(POLICIES, ("/spec/ingress/0/from/0/namespaceSelector/matchLabels", {"kubernetes.io/metadata.name": "prometheus"})),
            ],
        },
    ),
    "gpushare": ({"slots": {"enabled": True}, "scheduler": {"enabled": True}, "gpushare": {"enabled": True}}, ["slots", "scheduler", "gpushare"], {}),
    "gpushare-webhook": (
        {"slots": {"enabled": True}, "scheduler": {"enabled": True, "webhook": {"enabled": True}}, "gpushare": {"enabled": True, "numbers": True}},
        ["slots", "scheduler", "scheduler-webhook", "gpushare", "gpushare/numbers"],
        {},
    ),
    "koordinator-shares": ({"slots": {"enabled": True}, "koordinatorShares": {"enabled": True}}, ["slots", "koordinator-shares"], {}),
    "koordinator-shares-webhook": (
        {"slots": {"enabled": True}, "scheduler": {"enabled": True, "webhook": {"enabled": True}}, "koordinatorShares": {"enabled": True}},
        ["slots", "scheduler", "scheduler-webhook", "koordinator-shares"],
        {},
    ),
    "other-nodes": (
        {"otherNodes": {"enabled": True}, "driver": {"from": "runtimeClass"}},
        ["components/other-nodes", "agent/components/nvidia-runtime"],
        {},
    ),
    "koordlet": ({"koordlet": {"enabled": True}}, ["agent/components/koordlet"], {}),
    "mps": ({"mps": {"enabled": True}}, ["agent/components/mps"], {}),
    "metrics-auth": ({"metrics": {"auth": "token"}}, ["components/metrics-auth"], {}),
    "metrics-secret": (
        {"metrics": {"auth": "token", "tlsSecret": "mine"}},
        ["components/metrics-auth"],
        {"patches": [patch(target, (f"{POD}/volumes/{i}/secret/secretName", "mine")) for target, i in ((CONTROLLER, 0), (AGENTS, 6))]},
    ),
    "service-monitors": ({"metrics": {"serviceMonitors": True}}, ["monitoring/scrape", "monitoring/telemetry"], {}),
    "dcgm-exporter-stays": (
        {"metrics": {"serviceMonitors": True, "telemetry": False}},
        ["monitoring/scrape"],
        {"patches": [patch(AGENTS, (f"{CONTAINER}/args/-", "--telemetry-interval=0"))]},
    ),
    "service-monitors-token": (
        {"metrics": {"auth": "token", "tlsSecret": "mine", "serviceMonitors": True}},
        ["monitoring/scrape", "monitoring/telemetry", "components/metrics-auth"],
        {
            "patches": [
                *(patch(target, (f"{POD}/volumes/{i}/secret/secretName", "mine")) for target, i in ((CONTROLLER, 0), (AGENTS, 6))),
                patch({"kind": "ServiceMonitor"}, ("/spec/endpoints/0/tlsConfig/ca/secret/name", "mine")),
            ]
        },
    ),
    "rules": ({"metrics": {"rules": True}}, ["monitoring/rules"], {}),
    "dashboards": ({"metrics": {"dashboards": True}}, ["monitoring/dashboards"], {}),
    "monitoring-labels": (
        {"metrics": {"serviceMonitors": True, "rules": True, "dashboards": True, "labels": {"release": "prometheus"}}},
        ["monitoring/scrape", "monitoring/telemetry", "monitoring/rules", "monitoring/dashboards"],
        {"patches": [patch({"kind": "(ServiceMonitor|PrometheusRule)"}, ("/metadata/labels/release", "prometheus"))]},
    ),
    "openshift": ({"openshift": {"enabled": True}}, ["components/openshift"], {}),
    "cleave-runtime": ({"cleaveRuntime": {"install": True}}, ["agent/components/cleave-runtime"], {}),
    "selinux": ({"daemonsets": {"seLinuxOptions": {"type": "spc_t"}}}, ["agent/components/selinux"], {}),
    "k0s": ({"kubelet": {"rootDir": "/var/lib/k0s/kubelet"}}, ["agent/components/k0s"], {}),
    "microk8s": (
        {"kubelet": {"rootDir": "/var/snap/microk8s/common/var/lib/kubelet"}, "networkPolicy": {"apiServerPorts": [16443]}},
        ["agent/components/microk8s"],
        {},
    ),
    "runtime-class": ({"driver": {"from": "runtimeClass"}}, ["agent/components/nvidia-runtime"], {}),
    "host-driver": ({"driver": {"from": "host"}}, ["agent/components/host-driver"], {}),
    "host-driver-elsewhere": (
        {"driver": {"from": "host", "libraries": "/usr/lib64", "programs": "/opt/bin"}},
        ["agent/components/host-driver"],
        {"patches": [patch(AGENTS, (f"{POD}/volumes/6/hostPath/path", "/usr/lib64"), (f"{POD}/volumes/7/hostPath/path", "/opt/bin"))]},
    ),
    "agents-arguments": (
        {"devicePlugin": {"resources": "none"}, "cdi": {"enabled": False}, "mig": {"strategy": "single"}},
        [],
        {"patches": [patch(AGENTS, *((f"{CONTAINER}/args/-", f"--{a}") for a in ("resources=none", "device-list-strategy=envvar", "mig-strategy=single")))]},
    ),
    "controller-publishes": (
        {"devicePlugin": {"resources": "controller"}},
        [],
        {"patches": [patch(AGENTS, (f"{CONTAINER}/args/-", "--resources=controller"))]},
    ),
    "images": (
        {
            "images": {"registry": "registry.example/gpu", "tag": "v1", "pullPolicy": "Always", "pullSecrets": ["login"]},
            "slots": {"enabled": True},
            "scheduler": {"enabled": True},
        },
        ["slots", "scheduler"],
        {
            "images": images(("controller", "agent", "scheduler"), newTag="v1"),
            "patches": [patch(t, (f"{CONTAINER}/imagePullPolicy", "Always"), (f"{POD}/imagePullSecrets", [{"name": "login"}])) for t in (CONTROLLER, AGENTS, SCHEDULER)],
        },
    ),
    "digests": (
        {p: {"image": f"registry.example/gpu/cleave-{name}@sha256:{digit * 64}"} for p, name, digit in (("operator", "controller", "0"), ("daemonsets", "agent", "1"))},
        [],
        {"images": images(("controller",), digest=f"sha256:{'0' * 64}") + images(("agent",), digest=f"sha256:{'1' * 64}")},
    ),
    "each-image": (
        {"operator": {"image": "one.example/c:v1"}, "daemonsets": {"image": "two.example:5000/a:v2"}, "images": {"registry": "unused.example"}},
        [],
        {"images": [{"name": "cleave-controller", "newName": "one.example/c", "newTag": "v1"}, {"name": "cleave-agent", "newName": "two.example:5000/a", "newTag": "v2"}]},
    ),
    "network": (
        {"networkPolicy": {"monitoringNamespace": "prometheus", "apiServerPorts": [8443]}},
        [],
        {
            "patches": [
                patch(
                    POLICIES,
                    ("/spec/ingress/0/from/0/namespaceSelector/matchLabels", {"kubernetes.io/metadata.name": "prometheus"}),
                    ("/spec/egress/0/ports/-", {"port": 8443, "protocol": "TCP"}),
                )
            ]
        },
    ),
    "controller": (
        {"operator": {**WORKLOAD, "replicas": 3, "nodeSelector": {"infra": "true"}, "tolerations": [TOLERATION]}},
        [],
        {
            "patches": [
                workload(CONTROLLER),
                patch(CONTROLLER, ("/spec/replicas", 3), (f"{POD}/nodeSelector", {"infra": "true"}), (f"{POD}/tolerations/-", TOLERATION)),
            ]
        },
    ),
    "one-controller": (
        {"operator": {"replicas": 1}},
        [],
        {"patches": [patch(CONTROLLER, ("/spec/replicas", 1)), patch({"kind": "PodDisruptionBudget"}, ("/spec/minAvailable", 0))]},
    ),
    "agents": (
        {"daemonsets": {**WORKLOAD, "nodeSelector": {"gpu": "true"}, "tolerations": [TOLERATION]}},
        [],
        {"patches": [workload(AGENTS), patch(AGENTS, (f"{POD}/nodeSelector/gpu", "true"), (f"{POD}/tolerations", [TOLERATION]))]},
    ),
    "replaced-variable": (
        {"daemonsets": {"extraEnv": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "all"}]}, "slots": {"enabled": True}},
        ["slots"],
        {
            "patches": [
                {
                    "target": AGENTS,
                    "patch": yaml.safe_dump(
                        {
                            "kind": "DaemonSet",
                            "apiVersion": "apps/v1",
                            "metadata": {"name": "any"},
                            "spec": {"template": {"spec": {"containers": [{"name": "agent", "env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "all"}]}]}}},
                        }
                    ),
                }
            ]
        },
    ),
}
# What can be on or off, for combinations; the driver's ways exclude each other, and "scheduler" has slots in it.
SWITCHES = ["scheduler", "webhook", "koordlet", "service-monitors", "metrics-auth", "openshift", "k0s"]


def merged(*many):
    """Nested values, the later ones over the earlier ones."""
    result = {}
    for values in many:
        for key, value in values.items():
            result[key] = merged(result.get(key, {}), value) if isinstance(value, dict) else value
    return result


def combination(*names):
    chosen = [CASES[name] for name in names]
    components = {c for _, of, _ in chosen for c in of}
    return merged(*(values for values, _, _ in chosen)), [c for c in maker.component_names() if c in components], {}


def combinations():
    """All together with each way to the driver; and each pair of switches with both on, both off, and one of them on."""
    for driver in (["mps"], ["other-nodes", "mps"], ["host-driver"]):
        yield combination(*SWITCHES, *driver)
    for bit in range(len(SWITCHES).bit_length()):
        half = [name for i, name in enumerate(SWITCHES) if i >> bit & 1]
        yield combination(*half, "host-driver")
        yield combination(*(name for name in SWITCHES if name not in half), "other-nodes", "mps")


def normal(value):
    """Lists whose elements the API knows by name, in one order."""
    if isinstance(value, list):
        return [normal(element) for element in value]
    if not isinstance(value, dict):
        return value
    result = {key: normal(of) for key, of in value.items()}
    for key, member in maker.KEYS.items():
        if isinstance(result.get(key), list) and all(isinstance(e, dict) and member in e for e in result[key]):
            result[key].sort(key=lambda e: e[member])
    return result


def objects_of(objects):
    return {identity: normal(o) for identity, o in maker.by_identity(objects).items()}


def kustomized(components, more):
    """As kustomize has it, with the images' tag that the chart has by its version."""
    return maker.kustomize(components, {"images": [{"name": f"cleave-{program}", "newTag": "1.2.3"} for program in ("controller", "agent", "scheduler")], **more})


def expect_equal(charted, kustomized):
    """Object by object; what Helm is to keep says so, and nothing else does."""
    kept = [o for o in charted if o["kind"] == "CustomResourceDefinition"]
    for definition in kept:
        assert definition["metadata"].pop("annotations") == KEEP
    assert {o["metadata"]["name"] for o in kept} == {o["metadata"]["name"] for o in kustomized if o["kind"] == "CustomResourceDefinition"}
    one, other = objects_of(charted), objects_of(kustomized)
    assert len(one) == len(charted), "an object stands twice"
    assert one.keys() == other.keys()
    for identity, obj in other.items():
        assert one[identity] == obj, identity


@pytest.mark.parametrize("name", CASES)
def test_chart_and_kustomize_make_the_same_objects(name, render):
    values, components, more = CASES[name]
    expect_equal(render(values), kustomized(components, more))


@pytest.mark.parametrize(("values", "components", "more"), list(combinations()))
def test_combinations_are_the_same_objects(values, components, more, render):
    expect_equal(render(values), kustomized(components, more))


def test_the_programs_know_every_argument(render, release):
    argvs = {(c["name"], tuple(c["args"])) for values, _, _ in CASES.values() for o in render(values) for c in containers(o)}
    assert len(argvs) > 5
    kubernetes = Path(subprocess.run([HACK / "bin.sh"], capture_output=True, text=True, check=True).stdout.strip())
    for name, argv in argvs:
        ours = {"webhook-certificate": "cleave-scheduler"}.get(name, f"cleave-{name}")
        program = kubernetes / name if name == "kube-scheduler" else release(ours)
        done = subprocess.run([program, *argv, "--help"], capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 0, f"{name}: {argv}: {done.stderr}"


def containers(obj):
    return obj.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])


def leaves(values, path=""):
    """The paths of all values that are no sections."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{path}{key}.")
        else:
            yield path + key


def default_values():
    return yaml.safe_load((CONFIG / "chart" / "values.yaml").read_text(encoding="utf-8"))


def test_each_component_and_each_value_has_a_case():
    assert {c for _, components, _ in CASES.values() for c in components} == set(maker.component_names())
    said = {path for values, _, _ in CASES.values() for path in leaves(default_values()) if lookup(values, path) is not None}
    assert set(leaves(default_values())) - said == {"crds.install", "namespaces.create"}, "the test below has these"


def lookup(values, path):
    for key in path.split("."):
        values = values.get(key) if isinstance(values, dict) else None
    return values


def test_what_somebody_else_applies_is_left_out(render):
    everything = maker.by_identity(render({}))
    for values, kinds in (({"crds": {"install": False}}, {"CustomResourceDefinition"}), ({"namespaces": {"create": False}}, {"Namespace", "ResourceQuota"})):
        left_out = everything.keys() - maker.by_identity(render(values)).keys()
        assert left_out == {i for i in everything if i.split()[1] in kinds}


# --- values ---


def test_each_value_is_documented():
    documented = {path: text for path, _, text in maker.values()}
    assert list(documented) == list(leaves(default_values())), "hack/chart.py reads values.yaml as YAML has it"
    assert [path for path, text in documented.items() if not text] == []
    assert maker.table() in (ROOT / "docs" / "helm.md").read_text(encoding="utf-8"), "put the output of hack/chart.py --values there"


def schema_leaves(schema, path=""):
    for key, of in schema["properties"].items():
        if "properties" in of and key != "seLinuxOptions":
            assert of["additionalProperties"] is False, path + key
            yield from schema_leaves(of, f"{path}{key}.")
        elif key != "global":
            yield path + key


def test_the_schema_has_each_value():
    schema = json.loads((CONFIG / "chart" / "values.schema.json").read_text(encoding="utf-8"))
    assert sorted(schema_leaves(schema)) == sorted(leaves(default_values()))
    assert schema["additionalProperties"] is False


def nested(paths):
    return merged(*({path.split(".")[0]: nest(path.split(".")[1:], value)} for path, value in paths.items()))


def nest(keys, value):
    return {keys[0]: nest(keys[1:], value)} if keys else value


def refused(helm, archive, values):
    """What helm writes of values that it refuses, all of them at once."""
    with pytest.raises(HelmError) as caught:
        helm("template", "cleave", archive, values=values)
    return str(caught.value)


@pytest.mark.parametrize("wrong", [17, "nonsense", True, ["a"], {"a": "b"}], ids=lambda value: type(value).__name__)
def test_values_of_a_wrong_type_are_refused_by_name(wrong, helm, archive):
    """All at once: helm names every value that is of another type than its default."""
    paths = [path for path in leaves(default_values()) if type(lookup(default_values(), path)) is not type(wrong)]
    message = refused(helm, archive, nested(dict.fromkeys(paths, wrong)))
    assert [path for path in paths if f"'/{path.replace('.', '/')}'" not in message] == []


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"agent": {}}, "additional properties 'agent' not allowed"),
        ({"migManager": {"enabled": False}}, "additional properties 'migManager' not allowed"),
        ({"operator": {"replica": 2}}, "additional properties 'replica' not allowed"),
        ({"operator": {"replicas": 0}}, "minimum: got 0, want 1"),
        ({"operator": {"replicas": 1.5}}, "got number, want integer"),
        ({"driver": {"from": "toolkit"}}, "'runtime', 'runtimeClass', 'host'"),
        ({"kubelet": {"rootDir": "var/lib/kubelet"}}, "does not match pattern"),
        ({"kubelet": {"rootDir": "/var/lib/kubelet/"}}, "does not match pattern"),
        ({"images": {"tag": "v1 "}}, "does not match pattern"),
        ({"images": {"tag": f"sha256:{'0' * 64}"}}, "images.tag cannot be a digest"),
        ({"images": {"registry": "registry.example/"}}, "does not match pattern"),
        ({"networkPolicy": {"apiServerPorts": [0]}}, "/networkPolicy/apiServerPorts/0"),
        ({"daemonsets": {"labels": {"app.kubernetes.io/component": "x"}}}, "scheduler.labels cannot have app.kubernetes.io/component"),
        ({"scheduler": {"labels": {"app.kubernetes.io/name": "x"}}}, "scheduler.labels cannot have app.kubernetes.io/name"),
        ({"scheduler": {"enabled": True}}, "scheduler.enabled goes with slots.enabled alone"),
        ({"koordinatorShares": {"enabled": True}}, "koordinatorShares.enabled goes with slots.enabled alone"),
        ({"scheduler": {"hamiMetrics": True}}, "/scheduler/hamiMetrics"),
        ({"daemonsets": {"hamiMetrics": "old"}}, "'none', 'current', 'legacy', 'both'"),
        ({"daemonsets": {"hamiMetrics": "both"}, "metrics": {"telemetry": False}}, "daemonsets.hamiMetrics goes with metrics.telemetry alone"),
        ({"scheduler": {"kubeScheduler": {"image": ""}}}, "/scheduler/kubeScheduler/image"),
        ({"scheduler": {"webhook": {"enabled": True}}}, "scheduler.webhook.enabled goes with scheduler.enabled alone"),
        ({"scheduler": {"webhook": {"enabled": "yes"}}}, "/scheduler/webhook/enabled"),
        ({"daemonsets": {"labels": {"a": 1}}}, "/daemonsets/labels/a"),
        ({"metrics": {"labels": {"release": 1}}}, "/metrics/labels/release"),
        ({"metrics": {"serviceMonitor": True}}, "additional properties 'serviceMonitor' not allowed"),
        ({"daemonsets": {"tolerations": [{"keys": "a"}]}}, "additional properties 'keys' not allowed"),
        ({"daemonsets": {"resources": {"limit": {}}}}, "additional properties 'limit' not allowed"),
        ({"daemonsets": {"resources": {"limits": {"memory": "much"}}}}, "/daemonsets/resources/limits/memory"),
        ({"daemonsets": {"extraEnv": [{"value": "x"}]}}, "missing property 'name'"),
        ({"daemonsets": {"extraArgs": ["run"]}}, "/daemonsets/extraArgs/0"),
        ({"daemonsets": {"seLinuxOptions": {"typ": "spc_t"}}}, "additional properties 'typ' not allowed"),
        ({"otherNodes": {"enabled": True}}, "otherNodes.enabled goes with driver.from=runtimeClass alone"),
        ({"cdi": {"enabled": False}, "driver": {"from": "host"}}, "cdi.enabled=false needs NVIDIA's container runtime"),
        ({"mps": {"enabled": True}, "devicePlugin": {"resources": "none"}}, "mps.enabled needs devicePlugin.resources=kubelet"),
        ({"mps": {"enabled": True}, "driver": {"from": "host"}}, "mps.enabled needs NVIDIA's container runtime"),
        ({"daemonsets": {"affinity": AFFINITY}, "slots": {"enabled": True}}, "daemonsets.affinity goes neither with slots.enabled"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_with_a_reason(values, told, helm, archive):
    assert told in refused(helm, archive, values)


def test_lint_finds_nothing(helm, archive):
    found = helm("lint", "--strict", archive)
    assert "0 chart(s) failed" in found and "[WARNING]" not in found and "[ERROR]" not in found


def test_a_part_of_another_chart_is_as_good(helm, archive, tmp_path):
    """Helm puts "global" among its values."""
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / archive.name).write_bytes(archive.read_bytes())
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: whole\nversion: 1.0.0\n")
    printed = helm("template", "whole", tmp_path, values={"global": {"a": "b"}, "cleave": {"operator": {"replicas": 4}}})
    (controller,) = [o for o in yaml.load_all(printed, maker.LOADER) if o and o["kind"] == "Deployment"]
    assert controller["spec"]["replicas"] == 4


def test_the_archive_is_the_same_each_time(archive, tmp_path):
    script = "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import chart; chart.make('1.2.3', pathlib.Path(sys.argv[2]))"
    env = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(["/usr/bin/python3", "-c", f"import os; os.umask(0o077); {script}", ROOT / "hack", tmp_path], check=True, env=env, cwd=tmp_path, timeout=120)
    assert (tmp_path / archive.name).read_bytes() == archive.read_bytes()


@pytest.mark.parametrize(
    ("described", "version"),
    [
        ("v1.2.3", "1.2.3"),
        ("v1.2.3-rc.1", "1.2.3-rc.1"),
        ("v1", "1.0.0"),
        ("v1.20", "1.20.0"),
        ("1.2-rc.1", "1.2.0-rc.1"),
        ("1234567", "0.0.0-g1234567"),
        ("v01", "0.0.0-gv01"),
        ("v1.2.3-4-gabc-dirty", "1.2.3-4-gabc-dirty"),
    ],
)
def test_what_git_says_becomes_a_version(described, version):
    assert maker.chart_version(described) == version


def test_the_tag_in_the_chart_is_the_one_that_the_images_get():
    version = "feature/a+b v1.2_3~rc"
    line = re.search("^tag=.*$", (HACK.parent / "images" / "build.sh").read_text(encoding="utf-8"), re.M)[0]
    done = subprocess.run(["bash", "-c", f'VERSION=$1; {line}; printf %s "$tag"', "-", version], capture_output=True, text=True, check=True)
    assert maker.image_tag(version) == done.stdout


# --- on a real API server ---


@pytest.fixture(scope="module")
def control_plane(rundir):
    """One of its own: Cleave is installed in it and uninstalled, under which others would suffer."""
    it = Cluster(rundir / "lane-chart" / "kube")
    it.rundir.parent.mkdir(parents=True, exist_ok=True)
    it.start()
    yield it
    it.stop(purge=False)


@pytest.fixture(scope="module")
def live(control_plane, tmp_path_factory):
    return Helm(tmp_path_factory.mktemp("live"), control_plane)


MIG_MANAGER = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "nvidia-mig-manager", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"app": "m"}},
        "template": {
            "metadata": {"labels": {"app": "m"}},
            "spec": {
                "nodeSelector": {"none": "such"},
                "containers": [
                    {"name": "m", "image": "registry.example/nvidia/k8s-mig-manager:v0.15.0"},
                    {"name": "p", "image": "registry.example/nvidia/k8s-device-plugin:v0.17.0"},
                    {"name": "e", "image": "registry.example/nvidia/k8s/dcgm-exporter:4.2.3-4.1.3-ubuntu22.04"},
                ],
            },
        },
    },
}
PROFILE = CONFIG / "samples" / "all-1g.yaml"


class Story:
    """The life of a release, a chapter a method, in a cluster that holds nothing of Cleave before."""

    def __init__(self, live, control_plane, archive, folder):
        self.helm, self.kubectl, self.archive, self.folder = live, control_plane.kubectl, archive, folder

    def controller(self):
        return self.kubectl.json("get", "-n", "cleave-system", "deployment", "cleave-controller")

    def profiles(self):
        return self.kubectl.out("get", "gpuprofiles", "-o", "name")

    def is_gone(self, *what):
        return not self.kubectl.out("get", "--ignore-not-found", *what)

    def install(self, *more, name="cleave", namespace="default"):
        return self.helm("install", name, self.archive, "-n", namespace, *more)

    def refused_in_a_namespace_that_the_chart_makes(self):
        with pytest.raises(HelmError, match="the release cannot be in namespace cleave-system"):
            self.install("--create-namespace", namespace="cleave-system")
        assert self.is_gone("namespace", "cleave-system")

    def installed_beside_programs_of_nvidia(self):
        self.kubectl("apply", "-f", "-", input=json.dumps(MIG_MANAGER))
        notes = self.install()
        assert "WARNING: DaemonSet nvidia-mig-manager of namespace default is NVIDIA's mig-manager" in notes
        assert "WARNING: DaemonSet nvidia-mig-manager of namespace default is NVIDIA's device plugin" in notes
        assert "WARNING: DaemonSet nvidia-mig-manager of namespace default is dcgm-exporter" in notes
        self.kubectl("delete", "daemonset", "nvidia-mig-manager")
        assert self.controller()["spec"]["replicas"] == 2
        assert self.kubectl.json("get", "namespace", "cleave-node")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
        wait_for(lambda: self.kubectl("apply", "-f", PROFILE), message="the kinds to be served")

    def no_second_one(self):
        for name, namespace in (("other", "default"), ("cleave", "kube-system")):
            with pytest.raises(HelmError, match="Cleave is in this cluster already, as release cleave of namespace default"):
                self.install(name=name, namespace=namespace)

    def upgraded_and_back(self):
        """A value changes, and a definition gets a field."""
        newer = with_new_field(self.archive, self.folder)
        self.helm("upgrade", "cleave", newer, "-n", "default", values={"operator": {"replicas": 3}})
        assert self.controller()["spec"]["replicas"] == 3
        (version,) = self.kubectl.json("get", "crd", "gpuprofiles.gpu.cleave.dev")["spec"]["versions"]
        assert "newInTheTest" in version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        with pytest.raises(HelmError, match="/operator/replicas"):
            self.helm("upgrade", "cleave", newer, "-n", "default", values={"operator": {"replicas": "three"}})
        self.helm("rollback", "cleave", "1", "-n", "default")
        assert self.controller()["spec"]["replicas"] == 2

    def uninstalled(self):
        """People's objects stay."""
        self.helm("uninstall", "cleave", "-n", "default")
        wait_for(lambda: self.is_gone("namespace", "cleave-system", "cleave-node"), 60, "the namespaces to go")
        assert self.is_gone("validatingadmissionpolicies,clusterroles", "-l", "app.kubernetes.io/part-of=cleave")
        assert self.profiles() == "gpuprofile.gpu.cleave.dev/notebooks"

    def adopted_from_kubectl(self):
        self.kubectl("apply", "--server-side", "--force-conflicts", "-k", CONFIG)
        with pytest.raises(HelmError, match="cannot be imported into the current release"):
            self.install(name="again")
        self.install("--take-ownership", name="again")
        assert self.controller()["metadata"]["annotations"]["meta.helm.sh/release-name"] == "again"
        assert self.profiles() == "gpuprofile.gpu.cleave.dev/notebooks"


def test_a_release_from_install_to_uninstall_and_again(live, control_plane, archive, tmp_path):
    story = Story(live, control_plane, archive, tmp_path)
    story.refused_in_a_namespace_that_the_chart_makes()
    story.installed_beside_programs_of_nvidia()
    story.no_second_one()
    story.upgraded_and_back()
    story.uninstalled()
    story.install()
    story.uninstalled()
    story.adopted_from_kubectl()


def with_new_field(archive, folder):
    """The chart as a later release might be: a field more in a definition."""
    subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)
    path = folder / "cleave" / "files" / "objects.json"
    objects = json.loads(path.read_text(encoding="utf-8"))
    (definition,) = [o for o in objects if o["metadata"]["name"] == "gpuprofiles.gpu.cleave.dev"]
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["newInTheTest"] = {"type": "string"}
    path.write_text(json.dumps(objects), encoding="utf-8")
    return folder / "cleave"


@pytest.fixture(scope="module")
def namespaces(control_plane):
    """Both, for objects that only go in there; and the kinds of OpenShift and of Prometheus' operator."""
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-k", CONFIG / "namespace")
    tools = subprocess.run([HACK / "helm.sh"], capture_output=True, text=True, check=True).stdout.strip()
    control_plane.kubectl("apply", "--server-side", "-f", f"{tools}/crds/securitycontextconstraints.yaml")
    control_plane.kubectl("apply", "--server-side", "-f", Path(__file__).with_name("prometheus_operator.yaml"))
    for kind in ("securitycontextconstraints", "servicemonitors", "prometheusrules"):
        wait_for(lambda kind=kind: control_plane.kubectl("get", kind), message=f"{kind} to be served")


@pytest.fixture(scope="module")
def every_object(render):
    """Those that differ of all cases."""
    return list({json.dumps(o, sort_keys=True): o for values, _, _ in CASES.values() for o in render(values)}.values())


def with_a_typo(objects):
    return yaml.safe_dump_all(objects).replace("readOnlyRootFilesystem: true", "readOnlyRootFileSystem: true")


def test_a_real_api_server_takes_every_object_of_every_rendering(control_plane, namespaces, every_object):
    """Its own validation, unknown fields and the CEL of policies and definitions included, without keeping anything."""
    dry_run = functools.partial(control_plane.kubectl, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-")
    done = dry_run(input=yaml.safe_dump_all(every_object))
    assert len(done.stdout.splitlines()) == len(every_object)
    assert "Warning" not in done.stderr
    with pytest.raises(KubectlError, match="readOnlyRootFileSystem"):
        dry_run(input=with_a_typo(o for o in every_object if o["kind"] == "DaemonSet"))


def closed(schema):
    """The schema with no other members than those that it names."""
    if isinstance(schema, list):
        return [closed(of) for of in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(of) for key, of in schema.items()}
    return {"additionalProperties": False, **result} if isinstance(schema.get("properties"), dict) else result


def write_schemas(folder, kubectl, objects):
    """For kubeconform, the kinds of these objects as the API server publishes them."""
    wanted = {(o["apiVersion"], o["kind"]) for o in objects}
    for version in {v for v, _ in wanted}:
        published = json.loads(kubectl.out("get", "--raw", f"/openapi/v3/{'apis' if '/' in version else 'api'}/{version}"))
        parts = closed(published["components"])
        for name, schema in parts["schemas"].items():
            for kind in schema.get("x-kubernetes-group-version-kind", []):
                if (version, kind["kind"]) in wanted:
                    suffix = "-".join((version.split("/")[0].split(".")[0], *version.split("/")[1:]))
                    of = {"$ref": f"#/components/schemas/{name}", "components": parts}
                    (folder / f"{kind['kind'].lower()}-{suffix}.json").write_text(json.dumps(of))


def test_kubeconform_finds_nothing_with_the_types_of_the_api_server(control_plane, namespaces, every_object, helm, tmp_path):
    write_schemas(tmp_path, control_plane.kubectl, every_object)
    where = f"{tmp_path}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    argv = [os.path.join(os.path.dirname(helm.program), "kubeconform"), "-strict", "-summary", "-output=json", "-schema-location", where, "-"]
    done = subprocess.run(argv, input=yaml.safe_dump_all(every_object), capture_output=True, text=True, timeout=120, check=False)
    assert json.loads(done.stdout)["summary"] == {"valid": len(every_object), "invalid": 0, "errors": 0, "skipped": 0}, done.stdout
    daemonsets = [o for o in every_object if o["kind"] == "DaemonSet"]
    done = subprocess.run(argv, input=with_a_typo(daemonsets), capture_output=True, text=True, timeout=120, check=False)
    assert json.loads(done.stdout)["summary"]["valid"] == 0 and "readOnlyRootFileSystem" in done.stdout
