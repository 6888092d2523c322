# SPDX-License-Identifier: Apache-2.0
"""What the shipped manifests let our pods do to the host, against a written list. Needs no server."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config"

# Each folder of the host that a container of ours may write, with what for. config/agent/daemonset.yaml says more.
WRITTEN = {
    "/var/lib/cleave": "journals and records",
    "/var/lib/kubelet/device-plugins": "the device plugin's sockets",
    "/var/run/cdi": "CDI files",
    "/dev": "device files that nobody made yet",
}
WRITTEN_BY_COMPONENT = {
    "cleave-runtime": {"/usr/local/lib/cleave": "the OCI runtime that containerd or Docker is told of"},
    "host-driver": {},
    "k0s": {},
    "koordlet": {"/var/run/koordlet/xpu-device-infos": "what koordlet reads"},
    "mps": {"/run/cleave/mps": "pipes and logs of the daemons", "/dev/shm": "the daemons' memory, which their clients share"},
    "microk8s": {},
    "nvidia-runtime": {},
    "selinux": {},
}
# By the agents of nodes that give slices or shares, besides.
WRITTEN_FOR_SLOTS = {
    "/run/cleave/shares": "what containers with limited shares have in common with the agent",
    "/sys/fs/cgroup": "limits of memory for pods, which the driver keeps",
}
# Where the kubelet of a component has its folder.
KUBELET_OF_COMPONENT = {"k0s": "/var/lib/k0s/kubelet", "microk8s": "/var/snap/microk8s/common/var/lib/kubelet"}
# Each that is read. Everything else that a manifest mounts from the host is a surprise.
READ = {"/", "/var/lib/kubelet/pod-resources"}
READ_BY_COMPONENT = {"host-driver": {"/usr/lib/x86_64-linux-gnu", "/usr/bin"}}


def render(folder):
    """The objects that a folder's kustomization makes."""
    programs = Path(subprocess.run([ROOT / "hack" / "kube" / "bin.sh"], check=True, capture_output=True, text=True).stdout.strip())
    text = subprocess.run([programs / "kubectl", "kustomize", folder], check=True, capture_output=True, text=True, timeout=60).stdout
    return [obj for obj in yaml.safe_load_all(text) if obj]


def pods(objects):
    """The pod specs of all workloads."""
    return [o["spec"]["template"]["spec"] for o in objects if "template" in o.get("spec", {})]


def host_mounts(objects):
    """(path on the host, the mount), of each container."""
    for pod in pods(objects):
        on_host = {v["name"]: v["hostPath"]["path"] for v in pod.get("volumes", []) if "hostPath" in v}
        for container in pod["containers"] + pod.get("initContainers", []):
            for mount in container.get("volumeMounts", []):
                if mount["name"] in on_host:
                    yield on_host.pop(mount["name"]), mount
        assert not on_host, f"mounted nowhere: {on_host}"


def with_component(folder, name):
    """The agent with one component, as an overlay has it; kustomize reads nothing outside of an overlay's folder."""
    shutil.copytree(CONFIG / "agent", folder / "agent")
    (folder / "kustomization.yaml").write_text(f"resources: [agent]\ncomponents: [agent/components/{name}]\n")
    return render(folder)


def check(objects, written, read):
    mounts = list(host_mounts(objects))
    assert {path for path, m in mounts if not m.get("readOnly")} == set(written)
    assert {path for path, m in mounts if m.get("readOnly")} == set(read)
    for path, mount in mounts:
        if mount.get("readOnly"):
            assert mount.get("recursiveReadOnly") == "IfPossible", f"{path}: what is mounted below it can be written"
        assert mount.get("mountPropagation", "None") == "None", path


def test_agent_writes_to_the_listed_folders_of_the_host_alone():
    check(render(CONFIG / "agent"), WRITTEN, READ)


def test_agents_that_make_shares_write_to_two_folders_more(tmp_path):
    shutil.copytree(CONFIG, tmp_path / "config")
    objects = render(tmp_path / "config" / "slots" / "agent")
    check(objects, {**WRITTEN, **WRITTEN_FOR_SLOTS}, READ)
    for path, mount in host_mounts(objects):
        assert path not in WRITTEN_FOR_SLOTS or mount["mountPath"] == path, "containers, and the driver, get it by the path that the agent says"


@pytest.mark.parametrize("name", sorted(p.name for p in (CONFIG / "agent" / "components").iterdir()))
def test_component_adds_no_folder_but_the_listed(name, tmp_path):
    objects = with_component(tmp_path, name)
    kubelet = KUBELET_OF_COMPONENT.get(name, "/var/lib/kubelet")
    written, read = ({path.replace("/var/lib/kubelet", kubelet) for path in paths} for paths in (WRITTEN, READ))
    check(objects, {*written, *WRITTEN_BY_COMPONENT[name]}, read | READ_BY_COMPONENT.get(name, set()))


def test_each_component_is_named_where_people_look_for_them():
    """As a line of config/kustomization.yaml that works once its "#" is taken out."""
    lines = [line.removeprefix("# - ").split()[0] for line in (CONFIG / "kustomization.yaml").read_text().splitlines() if line.startswith("# - ")]
    files = (p for p in CONFIG.rglob("kustomization.yaml") if yaml.safe_load(p.read_text())["kind"] == "Component")
    assert sorted(lines) == sorted(str(p.parent.relative_to(CONFIG)) for p in files)


@pytest.mark.parametrize("name", sorted(p.name for p in (CONFIG / "agent" / "components").iterdir()))
def test_what_finds_the_driver_is_in_the_environment(name, tmp_path):
    """`kubectl exec … cleave-agent inspect` has the container's environment, and none of its arguments."""
    for pod in pods(with_component(tmp_path, name)):
        for container in pod["containers"]:
            assert not [a for a in container["args"] if re.match(r"--(nvml-library|nvidia-smi|mxsml-library|dev-root)\b", a)]
    if name == "host-driver":
        mounted = {m["mountPath"] for m in container["volumeMounts"]}
        env = {e["name"]: e.get("value") for e in container["env"]}
        assert {str(Path(env[v]).parent) for v in ("CLEAVE_NVML_LIBRARY", "CLEAVE_NVIDIA_SMI")} <= mounted


def test_an_agent_that_hands_over_ends_before_its_kubelet_kills_it():
    phases = {"nodeagent/loop/handover.h": ("HANDOVER_ENDING_MS", "HANDOVER_RELEASED_MS"), "nodeagent/kubelet/plugin_parting.h": ("PLUGIN_PARTING_MS",), "nodeagent/commands/cmd_run.c": ("WORKER_GRACE_MS", "TELEMETRY_GRACE_MS")}
    times = [int(re.search(rf"{name}(?: =)? +(\d+)", (ROOT / file).read_text())[1]) for file, names in phases.items() for name in names]
    daemons = [o for o in render(CONFIG) if o["kind"] == "DaemonSet"]
    assert daemons and all(sum(times) < o["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] * 1000 for o in daemons), times


def test_the_controller_runs_where_its_own_taint_is():
    (pod,) = pods(render(CONFIG / "controller"))
    tolerated = {t["key"]: t for t in pod["tolerations"]}
    for key in ("gpu.cleave.dev/unhealthy", "nvidia.com/gpu", "node-role.kubernetes.io/control-plane"):
        assert tolerated[key]["operator"] == "Exists" and tolerated[key].get("effect", "NoSchedule") == "NoSchedule"


NVIDIA_CARD = "feature.node.kubernetes.io/pci-10de.present"


def test_the_runtime_of_nvidia_is_asked_for_on_nodes_with_a_label_that_somebody_writes(tmp_path):
    """NFD as NVIDIA's operator sets it up, or an agent of ours (api/feature_label.c lets it)."""
    (agent,) = [o for o in with_component(tmp_path, "nvidia-runtime") if o["kind"] == "DaemonSet"]
    pod = agent["spec"]["template"]["spec"]
    assert pod["runtimeClassName"] == "nvidia" and set(pod["nodeSelector"]) == {"kubernetes.io/os", NVIDIA_CARD}
    reported = (ROOT / "test" / "golden" / "labels" / "h100-80-whole.txt").read_text().splitlines()
    assert f"{NVIDIA_CARD}={pod['nodeSelector'][NVIDIA_CARD]}" in reported


def test_each_node_has_one_agent_whatever_its_cards(tmp_path):
    """With slots, the runtime of NVIDIA and the agent for other nodes, in the order of the list."""
    objects = with_components(tmp_path, "slots", "components/other-nodes", "agent/components/mps", "components/metrics-auth", "agent/components/nvidia-runtime")
    pods = {o["metadata"]["name"]: o["spec"]["template"]["spec"] for o in objects if o["kind"] == "DaemonSet"}
    assert set(pods) == {"cleave-agent", "cleave-agent-other", "cleave-agent-slots"}
    for card in ({}, {NVIDIA_CARD: "true"}):
        for slots in ({}, {SLOTS: "true"}):
            labels = {"kubernetes.io/os": "linux", **card, **slots}
            wanted = "cleave-agent-slots" if slots else "cleave-agent" if card else "cleave-agent-other"
            assert [name for name, pod in pods.items() if fits(pod, labels)] == [wanted], labels
    assert [name for name, pod in pods.items() if pod.get("runtimeClassName")] == ["cleave-agent"]
    for name, pod in pods.items():
        assert {"/dev/shm", "/etc/cleave/metrics-tls"} <= {m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}, name
    selectors = [o["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"] for o in objects if o["kind"] == "DaemonSet"]
    assert len(set(selectors)) == len(selectors), "none must take another's pods"


def fits(pod, labels):
    """May the pod run on a node with these labels?"""
    terms = pod.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    rules = [rule for term in terms for rule in term["matchExpressions"]]
    assert len(terms) < 2 and all(rule["operator"] == "NotIn" for rule in rules)
    return pod["nodeSelector"].items() <= labels.items() and not [r for r in rules if labels.get(r["key"]) in r["values"]]


@pytest.mark.parametrize(("page", "start", "end"), [("README.md", "<<END\n", "\nEND\n"), ("docs/operations.md", "```yaml\nimages:", "\n```\n")])
def test_images_are_taken_from_the_registry_as_the_pages_say(page, start, end, tmp_path):
    block = (ROOT / page).read_text().split(start)[1].split(end)[0]
    block = block if block.startswith("images:") else f"images:{block}"
    plain = {c["image"] for pod in pods(with_components(tmp_path / "plain", "slots")) for c in pod["containers"]}
    images = {c["image"] for pod in pods(with_components(tmp_path / "said", "slots", more=block)) for c in pod["containers"]}
    assert {i.rsplit("/")[-1].split(":")[0] for i in images} == {i.split(":")[0] for i in plain} == {"cleave-agent", "cleave-controller"}
    assert all(i.startswith("registry.example/") and i.endswith(":v1") for i in images)


def test_the_sample_of_the_readme_selects_the_node_that_it_labels():
    readme = (ROOT / "README.md").read_text()
    sample = yaml.safe_load((CONFIG / "samples" / "inference.yaml").read_text())
    ((key, value),) = sample["spec"]["nodeSelector"]["matchLabels"].items()
    for page in (readme, (ROOT / "docs" / "operations.md").read_text()):
        assert re.search(rf"kubectl label node \w+ {key}={value}\n", page)
    assert yaml.safe_load(readme.split("```yaml\n")[1].split("```")[0])["spec"] == sample["spec"]


def test_openshift_lets_the_agents_have_what_they_ask_for_and_nothing_else(tmp_path):
    """What its admission of pods compares, member by member."""
    objects = with_components(tmp_path, "slots", "scheduler", "scheduler-webhook", "components/metrics-auth", "components/openshift")
    (scc,) = [o for o in objects if o["kind"] == "SecurityContextConstraints"]
    agents = [o["spec"]["template"]["spec"] for o in objects if o["kind"] == "DaemonSet"]
    assert {tuple(pod["containers"][0]["securityContext"]["capabilities"]["add"]) for pod in agents} == {tuple(scc["allowedCapabilities"])}
    volumes = {key for pod in agents for volume in pod["volumes"] for key in volume if key != "name"}
    assert set(scc["volumes"]) == volumes | {"projected"}, "the token is in a projected one"
    assert [scc[f"allowHost{what}"] for what in ("PID", "IPC", "Network", "Ports")] == [True, False, False, False]
    assert all(pod["securityContext"] == {"seLinuxOptions": {"type": "spc_t"}, "seccompProfile": {"type": "RuntimeDefault"}} for pod in agents)
    users = [o for o in objects if o["kind"] == "RoleBinding" and o["metadata"]["name"].endswith("-scc")]
    may_use = {(s["name"], s["namespace"]) for o in users for s in o["subjects"]}
    assert may_use == {(pod["serviceAccountName"], o["metadata"]["namespace"]) for o in objects for pod in pods([o])} | {("cleave-agent", "cleave-node")}


def test_whole_installation_has_no_other_pod_on_the_host():
    objects = render(CONFIG)
    check(objects, WRITTEN, READ)
    assert len([p for p in pods(objects) if p.get("hostPID")]) == 1, "the agent's"
    for pod in pods(objects):
        assert not pod.get("hostNetwork") and not pod.get("hostIPC")


def test_only_the_monitoring_namespace_reaches_our_pods_and_only_their_metrics():
    objects = render(CONFIG)
    policies = {o["metadata"]["namespace"]: o["spec"] for o in objects if o["kind"] == "NetworkPolicy"}
    assert set(policies) == {o["metadata"]["name"] for o in objects if o["kind"] == "Namespace"}
    monitoring = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    for spec in policies.values():
        assert spec["podSelector"] == {} and sorted(spec["policyTypes"]) == ["Egress", "Ingress"]
        assert spec["ingress"] == [{"from": monitoring, "ports": [{"port": 8080, "protocol": "TCP"}]}]
        assert {p["port"] for rule in spec["egress"] for p in rule["ports"]} == {443, 6443}


SLOTS = "gpu.cleave.dev.node-restriction.kubernetes.io/slots"


def with_components(folder, *names, more=""):
    """All of config/, with the "#" taken out before these components, and more below."""
    for name in ("crds", "config"):
        shutil.copytree(ROOT / name, folder / name)
    path = folder / "config" / "kustomization.yaml"
    text = path.read_text()
    for line in ("components:", *(f"- {name}  " for name in names)):
        assert f"# {line}" in text, line
        text = text.replace(f"# {line}", line)
    path.write_text(f"{text}\n{more}\n")
    return render(folder / "config")


def test_metrics_behind_a_token_are_so_for_every_program_and_take_nothing_else(tmp_path):
    plain = {(o["kind"], o["metadata"]["name"]) for o in render(CONFIG)}
    objects = with_components(tmp_path, "slots", "scheduler", "components/metrics-auth")
    workloads = [o for o in objects if o["kind"] in ("Deployment", "DaemonSet")]
    assert {o["metadata"]["name"] for o in workloads} == {"cleave-controller", "cleave-scheduler", "cleave-agent", "cleave-agent-slots"}
    for template in (o["spec"]["template"] for o in workloads):
        pod = template["spec"]
        (container,) = (c for c in pod["containers"] if c["name"] != "kube-scheduler")
        assert {"--metrics-auth=token", "--metrics-tls-cert-file=/etc/cleave/metrics-tls/tls.crt", "--metrics-tls-key-file=/etc/cleave/metrics-tls/tls.key"} <= set(container["args"])
        assert [m["readOnly"] for m in container["volumeMounts"] if m["name"] == "metrics-tls"] == [True]
        assert [v["secret"] for v in pod["volumes"] if v["name"] == "metrics-tls"] == [{"secretName": "cleave-metrics-tls"}]
        assert template["metadata"]["annotations"]["prometheus.io/scheme"] == "https"
        assert {p["httpGet"].get("scheme", "HTTP") for p in (container["livenessProbe"], container["readinessProbe"])} == {"HTTP"}
    rules = {o["metadata"]["name"]: o["rules"] for o in objects if o["kind"] == "ClusterRole" and ("ClusterRole", o["metadata"]["name"]) not in plain}
    del rules["cleave-agent-slots"], rules["cleave-scheduler"]
    assert rules == {
        "cleave-metrics-auth": [
            {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
        ],
        "cleave-metrics-reader": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
    readers = [o for o in objects if o["kind"].endswith("Binding") and o.get("roleRef", {}).get("name") == "cleave-metrics-reader"]
    assert [o["subjects"] for o in readers] == [[{"kind": "ServiceAccount", "name": "cleave-top", "namespace": "cleave-node"}]], "the account of `kubectl cleave top`"
    assert all(o["spec"]["template"]["spec"].get("serviceAccountName") != "cleave-top" for o in workloads)
    asks = next(o for o in objects if o["kind"] == "ClusterRoleBinding" and o["metadata"]["name"] == "cleave-metrics-auth")
    accounts = {(pod["serviceAccountName"], o["metadata"]["namespace"]) for o in workloads for pod in [o["spec"]["template"]["spec"]]}
    assert {(s["name"], s["namespace"]) for s in asks["subjects"]} == accounts
    policies = [[o for o in all_of if o["kind"].startswith("ValidatingAdmission") and o["metadata"]["name"] not in OF_COMPONENTS] for all_of in (render(CONFIG), objects)]
    assert policies[0] == policies[1]


def test_each_page_that_is_scraped_is_asked_for_over_tls_with_a_token(tmp_path):
    objects = with_components(tmp_path, "slots", "scheduler", "monitoring/scrape", "monitoring/telemetry", "components/metrics-auth")
    services = {(o["metadata"]["namespace"], o["metadata"]["labels"]["app.kubernetes.io/component"]): o["metadata"]["name"] for o in objects if o["kind"] == "Service"}
    monitors = [o for o in objects if o["kind"] == "ServiceMonitor"]
    assert len(monitors) == 4
    for monitor in monitors:
        namespace, of = monitor["metadata"]["namespace"], monitor["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"]
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["scheme"] == "https" and endpoint["bearerTokenFile"], monitor["metadata"]["name"]
        assert endpoint["tlsConfig"]["serverName"] == f"{services[namespace, of]}.{namespace}.svc"


OF_COMPONENTS = ("cleave-pod-slots", "cleave-pod-shares", "cleave-pod-shares-warning", "cleave-scheduler-lease", "cleave-scheduler-node", "cleave-scheduler-pod")


# --- the scheduler ---


@pytest.fixture(scope="module")
def scheduler():
    """Its objects by kind and name, as `kubectl apply -k config/scheduler` makes them."""
    return {(o["kind"], o["metadata"]["name"]): o for o in render(CONFIG / "scheduler")}


def test_the_scheduler_is_applied_by_itself_or_as_a_component_and_is_the_same(scheduler, tmp_path):
    whole = {(o["kind"], o["metadata"]["name"]): o for o in with_components(tmp_path, "slots", "scheduler")}
    assert {key: whole[key] for key in scheduler} == scheduler
    assert not [key for key in scheduler if key[0] == "Namespace"], "config/namespace has it"


def test_the_scheduler_has_no_more_of_the_host_and_of_rights_than_the_controller(scheduler):
    ours, controllers = (next(iter(pods(objects))) for objects in (scheduler.values(), render(CONFIG / "controller")))
    for what in ("securityContext", "tolerations", "priorityClassName", "enableServiceLinks"):
        assert ours[what] == controllers[what], what
    assert [set(volume) - {"name"} for volume in ours["volumes"]] == [{"configMap"}]
    assert not ours.get("hostNetwork") and not ours.get("hostPID")
    for container in ours["containers"]:
        assert container["securityContext"] == controllers["containers"][0]["securityContext"], container["name"]
        assert container["livenessProbe"] and container["readinessProbe"] and container["resources"]["requests"]


def test_kube_scheduler_asks_where_cleave_scheduler_listens_and_nobody_else_reaches_it(scheduler):
    (pod,) = pods(scheduler.values())
    by_name = {c["name"]: c for c in pod["containers"]}
    flags = dict(arg.split("=", 1) for arg in by_name["scheduler"]["args"])
    config = yaml.safe_load(scheduler["ConfigMap", "cleave-scheduler"]["data"]["configuration.yaml"])
    (extender,) = config["extenders"]
    assert extender["urlPrefix"] == f"http://{flags['--listen']}" and flags["--listen"].startswith("127.0.0.1:")
    assert {p["name"]: f":{p['containerPort']}" for p in by_name["scheduler"]["ports"]} == {"metrics": flags["--metrics-addr"], "health": flags["--health-addr"]}
    (mount,) = by_name["kube-scheduler"]["volumeMounts"]
    assert f"--config={mount['mountPath']}/configuration.yaml" in by_name["kube-scheduler"]["args"] and mount["readOnly"]
    (role,) = (o for o in scheduler.values() if o["kind"] == "Role")
    assert [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule] == [[config["leaderElection"]["resourceName"]]]


# --- its webhook ---


@pytest.fixture
def webhook(tmp_path):
    """All objects by kind and name, with the webhook and what might get into its way."""
    return {(o["kind"], o["metadata"]["name"]): o for o in with_components(tmp_path, "slots", "scheduler", "scheduler-webhook", "components/metrics-auth")}


def test_the_webhook_is_asked_about_the_pods_that_the_policy_changes(webhook):
    (hook,) = webhook["MutatingWebhookConfiguration", "cleave-pod-defaults"]["webhooks"]
    (policy,) = (o["spec"] for o in render(CONFIG / "scheduler-defaults") if o["kind"] == "MutatingAdmissionPolicy")
    ignored = "object.metadata.?labels.orValue({})[?'hami.io/webhook'].orValue('') != 'ignore'"
    assert hook["matchConditions"] == [c for c in policy["matchConditions"] if c["expression"] != ignored]
    assert hook["objectSelector"] == hook["namespaceSelector"] == {"matchExpressions": [{"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}]}
    assert [{k: v for k, v in rule.items() if k != "scope"} for rule in hook["rules"]] == policy["matchConstraints"]["resourceRules"]
    assert all(hook[what] == policy[what] for what in ("failurePolicy", "reinvocationPolicy"))
    assert "caBundle" not in hook["clientConfig"], "whoever applies it again would take out what the keeper wrote"


OTHERS_WORDS = ["aliyun.com/gpu-mem", "koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio"]


@pytest.mark.parametrize(
    "more, flag, programs",
    [
        (["gpushare", "gpushare/numbers"], "--gpushare=on", [("Deployment", "cleave-controller"), ("Deployment", "cleave-scheduler")]),
        (["koordinator-shares"], "--koordinator-shares=on", [("DaemonSet", "cleave-agent-slots"), ("Deployment", "cleave-scheduler")]),
    ],
    ids=["gpushare", "koordinator"],
)
def test_with_others_words_the_webhook_is_asked_about_their_pods_too(tmp_path, more, flag, programs):
    objects = {(o["kind"], o["metadata"]["name"]): o for o in with_components(tmp_path, "slots", "scheduler", "scheduler-webhook", *more)}
    (hook,) = objects["MutatingWebhookConfiguration", "cleave-pod-defaults"]["webhooks"]
    (policy,) = (o["spec"] for o in render(CONFIG / "scheduler-defaults") if o["kind"] == "MutatingAdmissionPolicy")
    (asked,) = (c["expression"] for c in hook["matchConditions"])
    assert asked.replace("".join(f", '{word}'" for word in OTHERS_WORDS), "") == policy["matchConditions"][0]["expression"]
    for program in programs:
        assert flag in objects[program]["spec"]["template"]["spec"]["containers"][0]["args"]


def test_what_the_webhook_is_called_is_the_same_everywhere(webhook):
    (hook,) = webhook["MutatingWebhookConfiguration", "cleave-pod-defaults"]["webhooks"]
    named = hook["clientConfig"]["service"]
    service = webhook["Service", named["name"]]
    assert service["metadata"]["namespace"] == named["namespace"] == "cleave-system"
    (port,) = service["spec"]["ports"]
    assert port["port"] == named["port"] and not service["spec"].get("publishNotReadyAddresses")
    (scheduler,) = pods([webhook["Deployment", "cleave-scheduler"]])
    container = scheduler["containers"][0]
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    flags = dict(arg.split("=", 1) for arg in container["args"])
    assert flags["--webhook-addr"] == f":{ports[port['targetPort']]}"
    (mount,) = (m for m in container["volumeMounts"] if m["name"] == "webhook-tls")
    (secret,) = (v["secret"] for v in scheduler["volumes"] if v["name"] == "webhook-tls")
    assert [flags[f"--webhook-tls-{what}"] for what in ("cert", "key")] == [f"{mount['mountPath']}/{item['path']}" for item in secret["items"]]
    assert secret["optional"] and ("Secret", secret["secretName"]) in webhook
    assert "data" not in webhook["Secret", secret["secretName"]] and "stringData" not in webhook["Secret", secret["secretName"]]
    policy = webhook["NetworkPolicy", "cleave-scheduler"]["spec"]
    assert [rule["ports"] for rule in policy["ingress"] if "from" not in rule] == [[{"port": ports["webhook"], "protocol": "TCP"}]]
    help_text = (ROOT / "scheduler" / "certificate_command.c").read_text()
    for name in (secret["secretName"], "cleave-pod-defaults"):
        assert f'= "{name}"' in help_text, "the keeper's defaults"
    assert f'"{named["name"]}.%s.svc"' in help_text


def test_the_keeper_of_the_certificate_may_write_two_objects_and_be_asked_for_its_health_alone(webhook):
    name = "cleave-webhook-certificate"
    (keeper,), (scheduler,) = pods([webhook["Deployment", name]]), pods([webhook["Deployment", "cleave-scheduler"]])
    assert webhook["Deployment", name]["spec"]["replicas"] == 1 and keeper["serviceAccountName"] == name != scheduler["serviceAccountName"]
    for what in ("securityContext", "tolerations", "priorityClassName", "enableServiceLinks"):
        assert keeper[what] == scheduler[what], what
    (container,) = keeper["containers"]
    assert container["securityContext"] == scheduler["containers"][0]["securityContext"] and "volumes" not in keeper
    assert container["ports"] == [{"name": "health", "containerPort": 8083}] and not any("metrics" in arg for arg in container["args"])
    verbs = ["get", "list", "watch", "update"]
    assert webhook["Role", name]["rules"] == [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name], "verbs": verbs}]
    (rule,) = webhook["ClusterRole", name]["rules"]
    assert rule == {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"], "resourceNames": ["cleave-pod-defaults"], "verbs": verbs}
    bound = [o for (kind, _), o in webhook.items() if kind.endswith("Binding") and any(s.get("name") == name for s in o.get("subjects", []))]
    assert sorted((o["kind"], o["roleRef"]["name"]) for o in bound) == [("ClusterRoleBinding", name), ("RoleBinding", name)]


def test_the_version_of_kube_scheduler_is_the_one_that_is_tested(scheduler):
    (pod,) = pods(scheduler.values())
    tested = re.search(r"^\s*k8s.io/kubernetes (v\S+)", (ROOT / "hack" / "kube" / "program" / "go.mod").read_text(), re.M)[1]
    assert [c["image"] for c in pod["containers"]] == ["cleave-scheduler:latest", f"registry.k8s.io/kube-scheduler:{tested}"]
