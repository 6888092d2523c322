# SPDX-License-Identifier: Apache-2.0
"""What schedulers that choose cards expect of a vendor's device plugin on a node: that it releases their lock, and that it says
which cards there are. HAMi and Koordinator are played by the test, on a real API server."""

import datetime
import json
import re
import subprocess

import pytest
from conftest import wait_for
from kubelet_stub import kubelet  # noqa: F401
from replicas import accepted, replicas
from stack import FLEETS, GROUP, SIM, ApiError, is_current, rig  # noqa: F401
from test_plugin_stub import Host

LOCK = "hami.io/mutex.lock"
CARDS = "metax-tech.com/node-gpu-devices"
SGPU = "metax-tech.com/sgpu"
PODS = "/api/v1/namespaces/default/pods"
CONTROLLER = "system:serviceaccount:cleave-system:cleave-controller"
SLICED = {"selector": {"vendor": "metax"}, "mode": "sgpu", "sgpu": {"qosPolicy": "fixed-share"}}
TENTH = {SGPU: "1", "metax-tech.com/vcore": "10", "metax-tech.com/vmemory": "1"}
# As HAMi's struct has them (pkg/device/metax/protocol.go).
FIELDS = {
    **dict.fromkeys(("uuid", "bdf", "model", "qosPolicy"), str),
    **dict.fromkeys(("totalDevCount", "totalCompute", "totalVRam", "availableDevCount", "availableCompute", "availableVRam", "numa", "linkZone"), int),
    "healthy": bool,
}


def agent_of(rig, fleet="c500.yaml"):
    """A node of MetaX cards."""
    node = rig.node(FLEETS / fleet, start=False)
    node.ctl("sys-root", node.folder)
    node.start(mxsml_library=SIM / "libmxsml.so")
    wait_for(lambda: is_current(node.device()), 30, "the agent")
    return node


def started(rig, fleet="c500.yaml"):
    """The same, and a controller."""
    return rig.controller(), agent_of(rig, fleet)


def sliced(rig, fleet="c500.yaml"):
    controller, node = started(rig, fleet)
    rig.wait_ready(rig.profile("p", SLICED))
    return controller, node


def served(rig, kubelet):
    """One card, whose slices the kubelet's stub is offered, and a controller."""
    rig.controller()
    host = Host(rig, kubelet, {"c500": 1})
    host.node.ctl("sys-root", host.node.folder)
    host.start()
    rig.wait_ready(rig.profile("p", SLICED))
    kubelet.wait_offers(**{SGPU: 16})
    return host


def annotation(node, key):
    return node.node_object()["metadata"].get("annotations", {}).get(key)


def annotate(node, key, value):
    node.api.merge(f"/api/v1/nodes/{node.name}", {"metadata": {"annotations": {key: value}}})


def looks(node):
    return sum(map(int, re.findall(r"(\d+)\s+mxSmlGetDeviceCount", node.ctl("calls"))))


def wait_looks(node):
    """Until the agent has looked at the cards a few times more: time for the controller to do something."""
    target = looks(node) + 3
    wait_for(lambda: looks(node) >= target, 30, "more looks at the cards")


# --- the lock ---


def pod(rig, name, init=None, **asks):
    """A pod that asks for so many of these; it is bound to no node yet, as when schedulers lock one."""
    name = f"{rig.id}-{name}"
    container = {"name": "main", "image": "none", "resources": {"limits": asks}}
    first = [{"name": "first", "image": "none", "resources": {"limits": init}}] if init else []
    rig.objects.append(f"{PODS}/{name}")
    rig.api.create(PODS, {"metadata": {"name": name}, "spec": {"containers": [container], "initContainers": first, "schedulerName": "none"}})
    return name


def now(minutes=0):
    """As Go writes it, with an offset."""
    zone = datetime.timezone(datetime.timedelta(hours=8))
    return (datetime.datetime.now(zone) + datetime.timedelta(minutes=minutes)).isoformat(timespec="seconds")


def lock(node, pod_name, minutes=0):
    """As nodelock.SetNodeLock does it: by the version that it has read, only where there is none, and again where somebody wrote
    meanwhile."""
    for _ in range(5):
        meta = node.node_object()["metadata"]
        assert LOCK not in meta.get("annotations", {}), "the node is locked"
        value = f"{now(minutes)},default,{pod_name}"
        wish = {"metadata": {"annotations": {LOCK: value}, "resourceVersion": meta["resourceVersion"]}}
        try:
            node.api.merge(f"/api/v1/nodes/{node.name}", wish)
            return value
        except ApiError as e:
            if e.code != 409:
                raise
    pytest.fail("somebody else wrote the node each time")


def wait_released(node):
    wait_for(lambda: annotation(node, LOCK) is None, 30, lambda: f"the lock to be released: {annotation(node, LOCK)}")


def reads(rig, pod_name):
    """How often the controller has asked for the pod."""
    return sum(e["user"].get("username") == CONTROLLER and e.get("objectRef", {}).get("name") == pod_name for e in rig.cluster.audit(rig.mark))


def test_the_lock_is_released_for_each_pod_in_its_turn(rig):
    controller, node = sliced(rig)
    annotate(node, "site", "a")
    names = [pod(rig, "a", **{SGPU: "1"}), pod(rig, "b", init={SGPU: "1"}), pod(rig, "c", **{"metax-tech.com/gpu": "1"}), pod(rig, "d", **{SGPU: "1"})]
    for turn, name in enumerate([*names, names[0]], 1):
        lock(node, name)
        wait_released(node)
        # It says so after the Node is written.
        wait_for(lambda n=turn: controller.text().count("Released lock of Node") == n, 30, lambda: controller.text())
    assert annotation(node, "site") == "a"
    assert reads(rig, names[1]) <= 2, "one for each lock, and one more where the Node was written meanwhile"


def test_the_lock_of_another_vendors_pod_is_left_alone(rig):
    controller, node = sliced(rig)
    for name in (pod(rig, "a", **{"nvidia.com/gpu": "1"}), pod(rig, "b", **{SGPU: "1", "nvidia.com/gpu": "1"}), pod(rig, "c", cpu="1")):
        value = lock(node, name)
        wait_for(lambda n=name: reads(rig, n), 30, "the controller to look at the pod")
        wait_looks(node)
        assert annotation(node, LOCK) == value
        assert reads(rig, name) == 1
        annotate(node, LOCK, None)
    assert "Released lock of Node" not in controller.text()


def test_where_cleave_offers_nvidias_cards_too_the_lock_is_nobody_elses(rig):
    _, node = sliced(rig, "two-vendors.yaml")
    wait_for(lambda: node.node_object()["status"]["allocatable"].get("nvidia.com/gpu"), 30, "the other vendor's cards")
    lock(node, pod(rig, "a", **{SGPU: "1", "nvidia.com/gpu": "1"}))
    wait_released(node)


def test_a_lock_of_nobody_is_released_once_it_is_forgotten(rig):
    _, node = sliced(rig)
    fresh = lock(node, f"{rig.id}-gone")
    wait_for(lambda: reads(rig, f"{rig.id}-gone"), 30, "the controller to look for the pod")
    wait_looks(node)
    assert annotation(node, LOCK) == fresh
    annotate(node, LOCK, None)
    lock(node, f"{rig.id}-gone", minutes=-6)
    wait_released(node)


def test_a_lock_that_cannot_be_read_is_said_once_and_left(rig):
    controller, node = sliced(rig)
    values = ["yes", f"{now()},default", f"{now()},default,a,b", f"{now()},default,metadata.name=x", "x" * 5000]
    for number, value in enumerate(values, 1):
        annotate(node, LOCK, value)
        wait_for(lambda n=number: controller.text().count("Left a lock of Node that cannot be read") == n, 30, controller.tail)
    node.label(touched="yes")
    wait_looks(node)
    assert controller.text().count("Left a lock of Node that cannot be read") == len(values)
    assert annotation(node, LOCK) == values[-1]


def test_a_lock_that_is_taken_meanwhile_is_never_released_for_the_one_before(rig):
    _, node = sliced(rig)
    ours, theirs = pod(rig, "a", **{SGPU: "1"}), pod(rig, "b", **{"nvidia.com/gpu": "1"})
    for number in range(40):
        annotate(node, LOCK, f"{now()},default,{ours}")
        value = f"{now(number)},default,{theirs}"
        annotate(node, LOCK, value)
        assert annotation(node, LOCK) == value
    wait_looks(node)
    assert annotation(node, LOCK) == value


def test_a_lock_stays_where_no_slices_are_made_for_pods_and_goes_when_they_are(rig):
    _, node = started(rig)
    value = lock(node, pod(rig, "a", **{SGPU: "1"}))
    wait_looks(node)
    assert annotation(node, LOCK) == value
    rig.profile("p", SLICED)
    wait_released(node)


def test_a_lock_that_was_taken_while_the_controller_was_away_is_released(rig):
    controller, node = sliced(rig)
    controller.stop()
    lock(node, pod(rig, "a", **{SGPU: "1"}))
    rig.controller("again")
    wait_released(node)


def test_of_two_replicas_the_one_that_leads_releases_and_tells(rig):
    first, second = replicas(rig, "one", "two")
    mark = rig.cluster.audit_mark()
    node = agent_of(rig)
    rig.wait_ready(rig.profile("p", SLICED))
    wait_told(node, "healthy", [True] * 4)
    lock(node, pod(rig, "a", **{SGPU: "1"}))
    wait_released(node)
    assert accepted(rig, second, mark) == []
    first.stop()
    lock(node, pod(rig, "b", **{SGPU: "1"}))
    wait_released(node)
    assert ("patch", "nodes", node.name) in accepted(rig, second, mark)


def test_the_next_pod_waits_for_no_lock_when_a_slice_cannot_be_made(rig, kubelet):
    """Schedulers wait for the release on failure too: here it depends on nothing that could fail on the node."""
    host = served(rig, kubelet)
    for name, annotations in (("a", {"metax-tech.com/gpu-devices-allocated": "[[{"}), ("b", {})):
        name = f"{rig.id}-{name}"
        rig.objects.append(f"{PODS}/{name}")
        container = {"name": "main", "image": "none", "resources": {"limits": TENTH}}
        rig.scheduler.create(PODS, {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": [container], "schedulerName": "none"}})
        lock(host.node, name)
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": host.node.name}}
        rig.api.create(f"{PODS}/{name}/binding", binding)
        kubelet.admit("default", name, {SGPU: 1})
        wait_released(host.node)
    (event, *_) = wait_for(lambda: rig.events(host.node.name, "SliceNotMade"), 30, "the reason")
    assert f"{rig.id}-a" in event["note"]
    wait_for(lambda: [s["vramMiB"] for s in host.node.hardware()["metax"][0]["slices"]] == [1024], 30, "the second pod's slice")


# --- the cards ---


def told(node):
    """The cards as HAMi decodes them; None: it is told nothing."""
    text = annotation(node, CARDS)
    if text is None:
        return None
    cards = json.loads(text)
    for card in cards:
        assert {k: type(v) for k, v in card.items()} == FIELDS, card
        assert all(-(2**31) <= v < 2**31 for v in card.values() if isinstance(v, int)), card
    return cards


def wait_told(node, key, values):
    wait_for(lambda: [c[key] for c in told(node) or []] == values, 30, lambda: f"{key} to be {values}: {told(node)}")


def test_hami_is_told_of_the_cards_and_of_each_change(rig):
    _, node = started(rig)
    assert told(node) is None
    rig.wait_ready(rig.profile("p", SLICED))
    wait_told(node, "healthy", [True] * 4)
    for card, told_of in zip(node.cards_told(), told(node), strict=True):
        assert told_of == {
            "uuid": card["uuid"],
            "bdf": card["pciBusID"],
            "model": card["model"],
            **{f"{what}DevCount": 16 for what in ("total", "available")},
            **{f"{what}Compute": 100 for what in ("total", "available")},
            **{f"{what}VRam": 65536 for what in ("total", "available")},
            "numa": card["numaNode"],
            "healthy": True,
            "qosPolicy": "fixed-share",
            "linkZone": 1,
        }
    node.ctl("ecc", "--gpu", "metax:1", "dram-ue", 1)
    wait_told(node, "healthy", [True, False, True, True])
    node.ctl("ecc", "--gpu", "metax:1", "clear")
    wait_told(node, "healthy", [True] * 4)
    rig.wait_ready(rig.profile("p", {"selector": {"vendor": "metax", "indices": [0]}, "mode": "native"}, {**SLICED, "sgpu": {"qosPolicy": "burst-share"}}))
    wait_told(node, "uuid", [c["uuid"] for c in node.cards_told()[1:]])
    wait_told(node, "qosPolicy", ["burst-share"] * 3)
    rig.profile("p", {"selector": {"vendor": "metax"}, "mode": "native"})
    wait_for(lambda: told(node) is None, 30, "the annotation to go")


def test_hami_is_told_what_slices_take_and_of_nothing_in_the_quiet(rig, kubelet):
    host = served(rig, kubelet)
    wait_told(host.node, "availableVRam", [65536])
    name = f"{rig.id}-a"
    rig.objects.append(f"{PODS}/{name}")
    container = {"name": "main", "image": "none", "resources": {"limits": TENTH}}
    rig.api.create(PODS, {"metadata": {"name": name}, "spec": {"containers": [container], "nodeName": host.node.name, "terminationGracePeriodSeconds": 0}})
    admitted = kubelet.admit("default", name, {SGPU: 1})
    wait_told(host.node, "availableVRam", [65536 - 1024])
    wait_told(host.node, "availableCompute", [90])
    wait_told(host.node, "availableDevCount", [15])
    wait_told(host.node, "totalVRam", [65536])
    assert rig.writes_while(lambda: wait_looks(host.node), by="controller") == []
    rig.api.delete(f"{PODS}/{name}", now=True)
    kubelet.end(admitted)
    wait_told(host.node, "availableVRam", [65536])


def test_what_others_write_there_is_put_right_and_stays_where_it_is_theirs(rig):
    controller, node = started(rig)
    annotate(node, CARDS, '[{"uuid":"GPU-old"}]')
    rig.wait_ready(rig.profile("p", SLICED))
    wait_for(lambda: len(json.loads(annotation(node, CARDS))) == 4, 30, "what was left behind to be replaced")
    annotate(node, CARDS, None)
    wait_told(node, "healthy", [True] * 4)
    rig.profile("p", {"selector": {"vendor": "metax"}, "mode": "native"})
    wait_for(lambda: annotation(node, CARDS) is None, 30, "the annotation to go")
    annotate(node, CARDS, '[{"uuid":"GPU-old"}]')
    annotate(node, "site", "a")
    wait_looks(node)
    assert annotation(node, CARDS) == '[{"uuid":"GPU-old"}]' and annotation(node, "site") == "a"
    assert controller.stop() == 0


def test_turned_off_nothing_is_released_and_nothing_told(rig):
    rig.controller(hami="off")
    node = agent_of(rig)
    rig.wait_ready(rig.profile("p", SLICED))
    value = lock(node, pod(rig, "a", **{SGPU: "1"}))
    wait_looks(node)
    assert annotation(node, LOCK) == value and told(node) is None


@pytest.mark.parametrize("word", ["auto", "", "ON"])
def test_the_flag_takes_on_and_off_alone(rig, word):
    process = rig.controller(hami=word, wait=False)
    wait_for(lambda: not process.running(), 30, "it to end")
    assert process.popen.returncode == 2 and f'--hami is "{word}", neither on nor off' in process.text()


# --- the mode of cards, as MetaX's plugin is told it ---


def config_map(cluster, **nodes):
    """metax-device-config; what MetaX's plugin reads are texts."""
    data = {"version": "v1", "cluster-config": f'mode: "{cluster}" # cluster scope\n', "nodes-config": json.dumps([{"nodeName": n, "mode": m} for n, m in nodes.items()])}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "metax-device-config", "namespace": "metax-gpu"}, "data": data}


def imported(rig, text, code=0):
    done = subprocess.run([rig.release("cleave-agent"), "import"], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def test_metax_device_config_is_imported_and_takes_effect(rig):
    rig.controller()
    nodes = [agent_of(rig) for _ in range(2)]
    names = ["metax-device-config", "metax-device-config-native", "metax-device-config-sgpu"]
    rig.objects += [f"{GROUP}/gpuprofiles/{name}" for name in names]
    rig.cluster.kubectl.apply(imported(rig, json.dumps(config_map("native", **{nodes[0].name: "sgpu", nodes[1].name: "native"}))))

    def modes():
        return [[c["mode"] for c in node.cards_told()] for node in nodes]

    for name in names[1:]:
        rig.wait_ready(f"{GROUP}/gpuprofiles/{name}", 60)
    rig.wait_condition(f"{GROUP}/gpuprofiles/{names[0]}", "Stalled", "Overridden")
    assert modes() == [["sgpu"] * 4, ["native"] * 4]
    wait_told(nodes[0], "availableDevCount", [16] * 4)
    # The cluster's mode is for the nodes that have no entry.
    rig.api.delete(f"{GROUP}/gpuprofiles/{names[2]}")
    rig.cluster.kubectl.apply(imported(rig, json.dumps(config_map("sgpu", **{nodes[0].name: "native"}))))
    wait_for(lambda: modes() == [["native"] * 4, ["sgpu"] * 4], 60, lambda: f"the modes to change: {modes()}")
    # The plugin's "shared" is time-slicing for sixteen pods a card.
    rig.api.delete(f"{GROUP}/gpuprofiles/{names[1]}")
    rig.objects.append(f"{GROUP}/gpuprofiles/metax-device-config-shared")
    rig.cluster.kubectl.apply(imported(rig, json.dumps(config_map("sgpu", **{nodes[0].name: "shared"}))))
    wait_for(lambda: nodes[0].resources() == {"metax-tech.com/gpu": 64}, 60, lambda: f"64 shared devices: {nodes[0].resources()}")
    # What is written by hand goes before either.
    rig.wait_ready(rig.profile("p", SLICED))
    assert modes() == [["sgpu"] * 4] * 2


@pytest.mark.parametrize(
    "config, said",
    [
        (config_map("native", a="fast"), 'nodes-config[0]: node a: mode "fast"'),
        (config_map("fast"), 'cluster-config: mode "fast" is none of native, sgpu, shared, vgpu'),
        ({**config_map("native"), "data": {"cluster-config": "mode: ["}}, "cluster-config: "),
    ],
)
def test_a_metax_device_config_that_cannot_be_meant_is_refused_with_its_place(rig, config, said):
    assert said in imported(rig, json.dumps(config), code=2)


# --- HAMi's own configuration ---

SLOTS = "gpu.cleave.dev.node-restriction.kubernetes.io/slots"


def hami_list(section, *nodes):
    """Both ConfigMaps, as kubectl prints them together."""
    files = {"hami-scheduler-device": ("device-config.yaml", {"nvidia": section}), "hami-device-plugin": ("config.json", {"nodeconfig": list(nodes)})}
    maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {key: json.dumps(file)}} for name, (key, file) in files.items()]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": maps})


def test_hamis_configuration_is_imported_and_takes_effect_on_a_node_that_comes_over(rig, kubelet):  # noqa: F811
    rig.controller()
    host = Host(rig, kubelet, {"h100-80": 2}, slots=True).start()
    kubelet.wait_offers(**{"nvidia.com/gpu": 2})
    name = host.node.name
    rig.objects += [f"{GROUP}/gpuprofiles/hami", f"{GROUP}/gpuprofiles/hami-nodes-1"]
    section = {"deviceSplitCount": 8, "deviceMemoryScaling": 1.5, "defaultMemory": 4000}
    spared = {"name": name, "devicesplitcount": 4, "filterdevices": {"index": [1]}}
    done = subprocess.run([rig.release("cleave-agent"), "import"], input=hami_list(section, spared), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "nvidia.defaultMemory is" in done.stderr and "nodeconfig[0] has filterdevices" in done.stderr
    rig.cluster.kubectl.apply(done.stdout)
    rig.wait_condition(f"{GROUP}/gpuprofiles/hami", "Stalled", "NoNodes")
    host.node.label(**{SLOTS: "true"})

    def shares():
        return [(c.get("fractional", {}).get("maxShares"), c.get("fractional", {}).get("memoryMiB")) for c in host.node.cards_told()]

    wait_for(lambda: shares() == [(4, 122338), (None, None)], 60, lambda: f"the node's own entry, not {shares()}")
    rig.api.delete(f"{GROUP}/gpuprofiles/hami-nodes-1")
    wait_for(lambda: shares() == [(8, 122338)] * 2, 60, lambda: f"the cluster's, not {shares()}")


@pytest.mark.parametrize(
    "config, said",
    [
        (hami_list({"resourceMemoryName": "example.com/mem"}), 'device-config.yaml: nvidia: resourceMemoryName: is "example.com/mem": shares are asked for as nvidia.com/gpumem'),
        (hami_list({}, {"name": "n1", "devicesplitcount": "ten"}), "config.json: nodeconfig[0]: devicesplitcount: it must be a whole number"),
    ],
)
def test_a_configuration_of_hami_that_cannot_be_meant_is_refused_with_its_place(rig, config, said):
    assert said in imported(rig, config, code=2)
