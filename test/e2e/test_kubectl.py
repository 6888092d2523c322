# SPDX-License-Identifier: Apache-2.0
"""kubectl cleave, found by kubectl in PATH, on a real API server: what it shows, and that what it foretells comes true."""

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import ROOT, wait_for
from forecast import layout_of, named_layout, wait_true
from stack import rig  # noqa: F401


@pytest.fixture
def cleave(kubectl, release, cluster):
    """cleave("plan", "-f", "-", input=...): how it ended, with what it printed."""
    folder = release("kubectl-cleave").parent
    env = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    def command(words, kubeconfig):
        return [kubectl.program, "cleave", *map(str, words), "--kubeconfig", kubeconfig]

    def run(*words, input="", kubeconfig=kubectl.kubeconfig):
        return subprocess.run(command(words, kubeconfig), input=input, capture_output=True, text=True, timeout=60, env=env)

    @contextlib.contextmanager
    def start(*words):
        # A shell without job control starts programs in the background, such as this test, with SIGINT ignored.
        as_in_front = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with subprocess.Popen(command(words, kubectl.kubeconfig), stdout=subprocess.PIPE, text=True, env=env, preexec_fn=as_in_front) as started:
            try:
                yield started
            finally:
                started.kill()

    run.start = start
    return run


def profile_of(rig, profiles, **spec):
    return json.dumps(
        {
            "apiVersion": "gpu.cleave.dev/v1alpha1",
            "kind": "GPUProfile",
            "metadata": {"name": f"{rig.id}-p"},
            "spec": {"nodeSelector": {"matchLabels": {"test": rig.id}}, "devices": [{"mode": "mig", "mig": {"profiles": profiles}}], **spec},
        }
    )


def test_a_plan_comes_true_and_then_nothing_is_left_to_do(rig, kubectl, cleave):
    rig.controller()
    nodes = [rig.node({"h100-80": 2}) for _ in range(2)]
    durations = []
    for wish in ({"1g.10gb": 2, "3g.40gb": 1}, {"1g.10gb": 1, "2g.20gb": 3}):
        text = profile_of(rig, wish)
        foretold = cleave("plan", "-f", "-", "-o", "json", input=text)
        assert foretold.returncode == 2, foretold.stderr
        plan = json.loads(foretold.stdout)
        assert plan["order"][0]["waiting"] == [n.name for n in nodes]
        durations.append(plan["order"][0]["duration"])
        kubectl.apply(text)
        rig.objects.append(f"/apis/gpu.cleave.dev/v1alpha1/gpuprofiles/{rig.id}-p")
        for node, will in zip(nodes, plan["nodes"], strict=True):
            assert [layout_of(card) for card in will["cards"]] == [wish, wish]
            wait_true(node, will)
        wait_for(lambda t=text: cleave("plan", "-f", "-", input=t).returncode == 0, 30, lambda t=text: cleave("plan", "-f", "-", input=t).stdout)
    # Of nodes that were never changed nothing is known, and then both tell how long they took.
    assert durations[0]["samples"] == 0 and "seconds" not in durations[0]
    assert durations[1]["samples"] == 2 and 2 <= durations[1]["seconds"] <= 120, durations


def test_a_plan_of_a_label_comes_true_on_and_off(rig, kubectl, cleave):
    rig.controller()
    nodes = [rig.node({"h100-80": 2}) for _ in range(2)]
    for change, code in (("nvidia.com/mig.config=all-balanced", 2), ("nvidia.com/mig.config=all-1g.10gb", 2), ("nvidia.com/mig.config-", 2)):
        label = ("label", "node", "--overwrite", "-l", f"test={rig.id}", change)

        def plan(label=label):
            return cleave("plan", "-f", "-", "-o", "json", input=kubectl(*label, "--dry-run=client", "-o", "json").stdout)

        foretold = plan()
        assert foretold.returncode == code, foretold.stderr
        will = json.loads(foretold.stdout)
        assert [n["name"] for n in will["nodes"]] == [n.name for n in nodes]
        before = [n.layouts() for n in nodes]
        kubectl(*label)
        wait_for(lambda p=plan: p().returncode == 0, 60, lambda p=plan: p().stdout)
        for node, was, foretold in zip(nodes, before, will["nodes"], strict=True):
            if foretold["cards"]:
                wait_true(node, foretold)
            else:
                assert node.layouts() == was, "without its label a node keeps its layout"


def test_a_plan_rejects_a_profile_in_the_words_that_the_controller_then_has(rig, kubectl, cleave):
    rig.controller()
    rig.node({"h100-80": 1})
    cut = {"mode": "mig", "mig": {"profiles": {"7g.80gb": 1}}}
    profile = f"{rig.id}-p"
    rig.objects.append(f"/apis/gpu.cleave.dev/v1alpha1/gpuprofiles/{profile}")
    for spec in (
        {"devices": [{"selector": {"indices": [9]}, **cut}]},
        {"nodeSelector": {"matchLabels": {"test": "misspelt"}}},
    ):
        text = profile_of(rig, {"7g.80gb": 1}, **spec)
        foretold = cleave("plan", "-f", "-", "-o", "json", input=text)
        assert foretold.returncode == 1, foretold.stderr
        (verdict,) = json.loads(foretold.stdout)["profiles"]
        kubectl.apply(text)

        def stalled():
            status = kubectl.json("get", "gpuprofile", profile).get("status", {})
            return [(c["reason"], c["message"]) for c in status.get("conditions", []) if c["type"] == "Stalled" and c["status"] == "True"]

        wait_for(lambda v=verdict: stalled() == [(v["reason"], v["message"])], 30, lambda v=verdict: f"{stalled()}, foretold was {v}")


def test_cards_are_shown_as_they_stand(rig, kubectl, cleave):
    rig.controller()
    node = rig.node({"h100-80": 1})
    text = profile_of(rig, {"1g.10gb": 2, "3g.40gb": 1})
    kubectl.apply(text)
    rig.objects.append(f"/apis/gpu.cleave.dev/v1alpha1/gpuprofiles/{rig.id}-p")
    node.wait_layout({"1g.10gb": 2, "3g.40gb": 1})
    wait_for(lambda: "3g.40gb" in cleave("--node", node.name).stdout, 30, lambda: cleave("--node", node.name).stdout)
    shown = cleave("--node", node.name)
    assert shown.returncode == 0 and "\x1b" not in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "free  2x 1g.10gb, 1x 3g.40gb" in shown.stdout


def test_cards_are_drawn_anew_as_they_change_until_ctrl_c(rig, kubectl, cleave):
    rig.controller()
    node = rig.node({"h100-80": 1})
    wait_for(lambda: "NVIDIA GPU 0" in cleave("--node", node.name).stdout, 30, lambda: cleave("--node", node.name).stdout)
    with cleave.start("--node", node.name, "-w") as watching:
        assert watching.stdout.readline().startswith(node.name)
        kubectl.apply(profile_of(rig, {"7g.80gb": 1}))
        rig.objects.append(f"/apis/gpu.cleave.dev/v1alpha1/gpuprofiles/{rig.id}-p")
        # Ends with the output, if the picture never comes.
        killer = threading.Timer(60, watching.kill)
        killer.start()
        assert any("free  1x 7g.80gb" in line for line in watching.stdout)
        killer.cancel()
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == -signal.SIGINT


def test_the_change_that_why_names_gives_the_pod_its_partition(rig, kubectl, cleave):
    rig.controller()
    node = rig.node({"h100-80": 1})
    kubectl.apply(profile_of(rig, {"1g.10gb": 2, "3g.40gb": 1}))
    rig.objects.append(f"/apis/gpu.cleave.dev/v1alpha1/gpuprofiles/{rig.id}-p")
    wait_for(lambda: node.offers().get("nvidia.com/mig-3g.40gb"), 30, node.offers)
    wanted = "nvidia.com/mig-2g.20gb"
    pod = f"{rig.id}-waits"
    rig.pod(pod, None, container={"resources": {"limits": {wanted: "1"}}}, nodeSelector={"test": rig.id})
    told = json.loads(cleave("why", pod, "-o", "json").stdout)["resources"][0]
    change = told["change"]
    assert told["verdict"] == f"No node offers {wanted}."
    [card] = change["cards"]
    assert (change["node"], card["source"], card["goes"]) == (node.name, f"{rig.id}-p", 0)
    kubectl.apply(profile_of(rig, named_layout(card)))
    wait_for(lambda: node.offers().get(wanted) == 1, 30, node.offers)
    assert f"{wanted} is free" in cleave("why", pod).stdout


def test_where_a_label_governs_the_card_the_commands_of_why_work(rig, kubectl, cleave):
    rig.controller()
    node = rig.node({"h100-80": 2})
    node.label(**{"nvidia.com/mig.config": "all-balanced"})
    wait_for(lambda: node.offers().get("nvidia.com/mig-1g.10gb") == 4, 30, node.offers)
    wanted = "nvidia.com/mig-4g.40gb"
    pod = f"{rig.id}-waits"
    rig.pod(pod, None, container={"resources": {"limits": {wanted: "1"}}}, nodeSelector={"test": rig.id})
    told = cleave("why", pod).stdout
    assert "the label nvidia.com/mig.config=all-balanced governs" in told, told
    rig.objects.append(f"/apis/gpu.cleave.dev/v1alpha1/migconfigs/{node.name}")
    commands = told[told.index("kubectl apply") :]
    path = f"{Path(kubectl.program).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-e"], input=commands, text=True, timeout=60, check=True, env={**os.environ, "PATH": path, "KUBECONFIG": str(kubectl.kubeconfig)})
    wait_for(lambda: node.offers().get(wanted) == 1, 30, node.offers)
    assert f"{wanted} is free" in cleave("why", pod).stdout
    assert node.offers().get("nvidia.com/mig-1g.10gb") == 2, "the other card is as it was"


def test_the_change_for_several_partitions_gives_the_pod_all_of_them(rig, kubectl, cleave):
    rig.controller()
    node = rig.node({"h100-80": 2})
    kubectl.apply(profile_of(rig, {"3g.40gb": 1}))
    rig.objects.append(f"/apis/gpu.cleave.dev/v1alpha1/gpuprofiles/{rig.id}-p")
    wanted = "nvidia.com/mig-3g.40gb"
    wait_for(lambda: node.offers().get(wanted) == 2, 30, node.offers)
    pod = f"{rig.id}-waits"
    rig.pod(pod, None, container={"resources": {"limits": {wanted: "4"}}}, nodeSelector={"test": rig.id})
    told = json.loads(cleave("why", pod, "-o", "json").stdout)["resources"][0]
    assert told["verdict"] == f"No node that the pod may have has 4 free of {wanted}."
    layouts = [named_layout(card) for card in told["change"]["cards"]]
    assert layouts == [{"3g.40gb": 2}, {"3g.40gb": 2}] and "incomplete" not in told
    kubectl.apply(profile_of(rig, layouts[0]))
    wait_for(lambda: node.offers().get(wanted) == 4, 30, node.offers)
    assert f"{wanted} is free" in cleave("why", pod).stdout


def test_the_change_that_why_names_gives_the_pod_room_for_its_slice(rig, kubectl, cleave):
    rig.controller()
    node = rig.node({"c500": 2}, slots=True)
    slot = "metax-tech.com/sgpu"
    pod = f"{rig.id}-waits"
    asks = {slot: "1", "metax-tech.com/vmemory": "40", "metax-tech.com/vcore": "20"}
    wait_for(lambda: node.offers().get("metax-tech.com/gpu") == 2, 30, node.offers)
    rig.pod(pod, None, container={"resources": {"limits": asks}}, nodeSelector={"test": rig.id})
    [told] = json.loads(cleave("why", pod, "-o", "json").stdout)["resources"]
    assert (told["verdict"], told["asks"]) == (f"No node offers {slot}.", "main 40960 MiB, 20 % of its compute")
    [card] = told["change"]["cards"]
    assert (told["change"]["node"], card["card"], card["layout"], card["modeChanges"]) == (node.name, "MetaX GPU 0", "sgpu, slices made for pods", True)
    rig.profile("p", {"selector": {"vendor": "metax", "indices": [0]}, "mode": "sgpu"})
    wait_for(lambda: node.offers().get(slot) == 16, 30, node.offers)
    assert f"{slot} is free" in cleave("why", pod).stdout


def test_the_doctor_finds_what_is_wrong_and_not_what_was_mended(rig, kubectl, cleave):
    def findings():
        """Of this test's objects: others stand in the same cluster."""
        told = cleave("doctor", "-o", "json")
        assert told.returncode in (0, 2), told.stderr
        return [(f["kind"], f["name"], f["reason"]) for f in json.loads(told.stdout)["findings"] if f.get("name", "").startswith(rig.id)]

    rig.controller()
    node = rig.node({"h100-80": 1})
    profile = f"{rig.id}-p"
    kubectl.apply(profile_of(rig, {"7g.80gb": 2}))
    rig.objects.append(f"/apis/gpu.cleave.dev/v1alpha1/gpuprofiles/{profile}")
    wait_for(lambda: ("GPUProfile", profile, "Infeasible") in findings(), 30, findings)
    shown = cleave("doctor").stdout
    assert f"GPUProfile {profile}: Infeasible" in shown and "do    write the layout that the message names" in shown
    kubectl.apply(profile_of(rig, {"7g.80gb": 1}))
    node.wait_layout({"7g.80gb": 1})
    wait_for(lambda: ("GPUProfile", profile, "Infeasible") not in findings(), 30, findings)


def test_the_doctor_tells_of_a_scheduler_while_it_is_installed(rig, cleave):
    """In a namespace where no other test has one; with no replicas, so that no pods are made of it here."""

    def findings():
        told = cleave("doctor", "-o", "json")
        assert told.returncode in (0, 2), told.stderr
        return [(f["severity"], f["reason"]) for f in json.loads(told.stdout)["findings"] if "default/cleave-scheduler" in f.get("seen", "")]

    assert findings() == []
    labels = {"test": rig.id}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "scheduler", "image": "none"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    path = "/apis/apps/v1/namespaces/default/deployments"
    rig.objects.append(f"{path}/cleave-scheduler")
    rig.api.create(path, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cleave-scheduler"}, "spec": spec})
    wait_for(lambda: findings() == [("Warning", "SchedulerNotReady")], 30, findings)
    rig.api.delete(f"{path}/cleave-scheduler")
    wait_for(lambda: findings() == [], 30, findings)


def test_a_nodes_history_has_its_conditions_and_events(rig, kubectl, cleave):
    rig.controller()
    node = rig.node({"h100-80": 1})
    kubectl.apply(profile_of(rig, {"7g.80gb": 1}))
    rig.objects.append(f"/apis/gpu.cleave.dev/v1alpha1/gpuprofiles/{rig.id}-p")
    node.wait_layout({"7g.80gb": 1})

    def entries():
        told = cleave("history", node.name, "-o", "json")
        assert told.returncode == 0, told.stderr
        return json.loads(told.stdout)["entries"]

    wanted = {("Device", "Ready is True", "Applied"), ("NVIDIA GPU 0", "Applied is True", "Applied"), ("Node", "Event", "Repartitioned")}
    wait_for(lambda: wanted <= {(e["about"], e["what"], e["reason"]) for e in entries()}, 30, entries)
    times = [e["at"] for e in entries()]
    assert times == sorted(times, reverse=True)
    assert "Node  Event: Repartitioned" in cleave("history", node.name).stdout


def test_kubectl_completes_its_words(kubectl, release):
    path = os.pathsep.join([str(release("kubectl-cleave").parent), str(ROOT / "kubectl"), os.environ["PATH"]])
    done = subprocess.run([kubectl.program, "__complete", "cleave", "p"], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": path})
    assert done.stdout.splitlines() == ["plan", ":4"], done


def test_names_of_the_cluster_complete(rig, kubectl, release):
    node = rig.node({"h100-80": 1})
    wait_for(lambda: kubectl.json("get", "devices")["items"], 30)

    def completes(*words):
        command = [release("kubectl-cleave"), "__complete", "--kubeconfig", kubectl.kubeconfig, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()

    assert completes("history", node.name) == completes("--node", node.name) == [node.name, ":4"]
    assert completes("why", "-n", "kube-sys") == ["kube-system", ":4"]
    assert completes("why", "-n", "kube-system", "") == [":4"]


def test_the_verbs_of_the_help_are_those_that_complete(release):
    def said(*words):
        return subprocess.run([release("kubectl-cleave"), *words], capture_output=True, text=True, timeout=60, check=True).stdout

    assert said("__complete", "").splitlines() == [*sorted(re.findall(r"kubectl cleave ([a-z]+)", said("--help"))), ":4"]


def test_who_has_no_rights_reads_why(rig, cleave):
    rig.node({"h100-80": 1})
    nobody = rig.write_kubeconfig("nobody", rig.token("cleave-controller", rig.controller_pod("nobody")))
    assert cleave(kubeconfig=nobody).returncode == 0  # the controller's account may read Devices
    bad = rig.write_kubeconfig("bad", "no-such-token")
    refused = cleave(kubeconfig=bad)
    assert refused.returncode == 1 and "You must be logged in to the server" in refused.stderr
    for words in (["doctor"], ["history", "n1"]):  # which go on without a kind that may not be read
        refused = cleave(*words, kubeconfig=bad)
        assert (refused.returncode, refused.stdout) == (1, "") and "You must be logged in to the server" in refused.stderr
    away = json.loads(bad.read_text())
    away["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    bad.write_text(json.dumps(away))
    unreachable = cleave(kubeconfig=bad)
    assert unreachable.returncode == 1 and unreachable.stderr.startswith("Unable to connect to the server: "), unreachable.stderr
