# SPDX-License-Identifier: Apache-2.0
"""Both programs with exactly the rights of config/: these suffice, and what they do not use is known."""

import contextlib
import json
import os
import socket
import subprocess

import pytest
from conftest import ROOT, wait_for
from stack import GROUP, Api, listening_ports, rig, serve  # noqa: F401
from test_koordinator import install as install_koordinator
from test_koordinator import mirror, shown, wait_mirror
from test_koordinator import uninstall as uninstall_koordinator

CONTROLLER = "system:serviceaccount:cleave-system:cleave-controller"
AGENT = "system:serviceaccount:cleave-node:cleave-agent"
# Granted, and not used by what these tests do: lists are for API servers without WatchList, single
# reads for people who look with the account's eyes.
OWN = ("devices.gpu.cleave.dev", "gpuprofiles.gpu.cleave.dev", "migconfigs.gpu.cleave.dev", "nodes")
KOORDINATORS = ("customresourcedefinitions.apiextensions.k8s.io", "devices.scheduling.koordinator.sh")
UNUSED = {
    # The status of a Device is written where an agent has gone (test_serving.py).
    CONTROLLER: {(verb, what) for verb in ("get", "list") for what in OWN} | {("list", what) for what in KOORDINATORS} | {("patch", "devices/status.gpu.cleave.dev")},
    AGENT: {(verb, OWN[0]) for verb in ("get", "list")},
}
# The audit log of the tests does not tell of reads of these.
UNSEEN = {("get", "leases.coordination.k8s.io")}
# An Event that repeats is written as a series, which not every run comes to.
SERIES = {("patch", "events.events.k8s.io")}


def granted(rig, account):
    """(verb, resource) of all roles of config/rbac for the account; wildcards would show as such."""
    rules = []
    name = account.rsplit(":", 1)[1]
    rules += rig.api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}")["rules"]
    role = rig.api.find(f"/apis/rbac.authorization.k8s.io/v1/namespaces/cleave-system/roles/{name}")
    rules += role["rules"] if role else []
    return {(verb, f"{resource}.{group}" if group else resource) for r in rules for verb in r["verbs"] for resource in r["resources"] for group in r["apiGroups"]}


def used(rig, account, since=0):
    """What our program has asked for as this account, and what was forbidden."""
    done, forbidden = set(), []
    for event in rig.cluster.audit(since):
        if event["user"].get("username") != account or "objectRef" not in event or not event.get("userAgent", "").startswith("cleave-"):
            continue
        ref = event["objectRef"]
        resource = "/".join(filter(None, (ref["resource"], ref.get("subresource"))))
        group = ref.get("apiGroup")
        what = (event["verb"], f"{resource}.{group}" if group else resource)
        if event["responseStatus"]["code"] == 403 and "dryRun=All" not in event["requestURI"]:  # policy_check asks for refusals
            forbidden.append((*what, ref.get("name"), event["responseStatus"].get("message")))
        done.add(what)
    return done, forbidden


def everything(rig):
    """One of each thing that the programs do."""
    install_koordinator(rig)
    controller = rig.controller()
    node = rig.node()
    wait_mirror(node)
    node.ctl("recovery-action", "--gpu", 0, "reset")
    wait_for(lambda: False in shown(node).values(), 30, "Koordinator's Device to be changed")
    node.ctl("recovery-action", "--gpu", 0, "none")
    wait_for(lambda: False not in shown(node).values(), 30, "Koordinator's Device to be changed back")
    profile = rig.profile("p", {"mode": "mig", "mig": {"profiles": {"3g.40gb": 2}}}, rollout={"drain": "evict"})
    rig.config(f"{rig.id}-c", {"migEnabled": True, "migDevices": {"7g.80gb": 1}})
    rig.wait_ready(profile)
    node.run_pod(f"{rig.id}-pod", 0, node.cards()[0]["gpuInstances"][0]["id"], 901)
    rig.profile("p", {"mode": "mig", "mig": {"config": f"{rig.id}-c"}}, rollout={"drain": "evict"}, health={"taint": "NoSchedule"})
    pod = f"/api/v1/namespaces/default/pods/{rig.id}-pod"
    wait_for(lambda: rig.api.get(pod)["metadata"].get("deletionTimestamp"), 30, "the eviction")
    node.detach(901)
    rig.wait_ready(profile)
    for action, tainted in (("reset", True), ("none", False)):
        node.ctl("recovery-action", "--gpu", 0, action)
        wait_for(lambda t=tainted: bool(node.node_object()["spec"].get("taints")) == t, 30, "the taint to come and go")
    node.label(**{"nvidia.com/mig.config": "all-balanced"})
    wait_for(lambda: node.labels().get("nvidia.com/mig.config.state") == "success", 30, "the label")
    wait_for(lambda: mirror(node) is None, 30, "Koordinator's Device to be removed")
    for reason in ("Repartitioned", "MIGConfigApplied"):
        wait_for(lambda r=reason: rig.events(node.name, r), 30, f"the event {reason}")
    assert controller.stop() == 0  # gives the lease back
    heir = rig.controller("heir")
    named = f"{rig.id}-heir_"
    wait_for(lambda: rig.api.get(f"{GROUP}/leaders/cleave-controller")["spec"]["holder"].startswith(named), 10, "the next leader to be named")
    assert heir.stop() == 0
    uninstall_koordinator(rig)


def test_the_rights_of_both_accounts_suffice_and_no_more_are_used(rig):
    everything(rig)
    for account in (CONTROLLER, AGENT):
        done, _ = used(rig, account)  # in the whole run
        # Only now: an API server that has just started forbids what its caches do not show yet, and other tests give more rights.
        done_here, forbidden = used(rig, account, rig.mark)
        may = granted(rig, account)
        assert forbidden == []
        # A list with a field selector for one name is authorized as a read of that object by name.
        assert done_here - may == set(), account
        assert not any("*" in part for what in may for part in what)
        unused = may - done - UNSEEN
        assert unused <= UNUSED[account] | SERIES, f"{account} never needed {sorted(unused - UNUSED[account])}"


def test_a_stolen_agents_token_reaches_its_own_node_only(rig):
    mine, other = rig.node(), rig.node()
    mine.agent.stop()
    token = json.loads(mine.kubeconfig.read_text())["users"][0]["user"]["token"]
    thief = Api(rig.cluster, token)

    def refused(call, *args):
        try:
            call(*args)
        except Exception as error:
            return getattr(error, "code", None) in (403, 422) and str(error)
        return False

    def lie(path):
        return thief.request("PUT", f"{path}/status", {**thief.get(path), "status": {"summary": {"gpus": 0}}})

    # The policies of config/admission need a moment after they were applied.
    wait_for(lambda: refused(lie, other.path), 30, "the policy to be in force")
    assert lie(mine.path)["status"] == {"summary": {"gpus": 0}}
    assert refused(thief.merge, f"{mine.path}/status", {"status": {"bootID": "x"}})
    assert refused(thief.merge, mine.path, {"spec": {"devices": []}})
    assert refused(thief.delete, mine.path) and refused(thief.delete, other.path)
    assert refused(thief.create, f"{GROUP}/devices", {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "Device", "metadata": {"name": "elsewhere"}})
    for path in ("/api/v1/nodes", "/api/v1/pods", "/api/v1/secrets", "/api/v1/namespaces/cleave-system/secrets"):
        assert refused(thief.get, path), path
    assert refused(thief.merge, f"/api/v1/nodes/{mine.name}", {"metadata": {"labels": {"x": "y"}}})
    assert refused(thief.merge, f"/api/v1/nodes/{mine.name}/status", {"status": {"capacity": {"nvidia.com/gpu": "9"}}})
    assert refused(thief.create, "/apis/authentication.k8s.io/v1/tokenreviews", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "x"}})


def test_tokens_do_not_show_in_logs(rig):
    controller = rig.controller(log_level="debug")
    node = rig.node(log_level="debug")
    rig.wait_ready(rig.profile("p", {"mode": "mig", "mig": {"profiles": {"3g.40gb": 2}}}))
    token = json.loads(node.kubeconfig.read_text())["users"][0]["user"]["token"]
    for process in (controller, node.agent):
        assert "eyJ" not in process.text() and token not in process.text()
        assert token not in open(f"/proc/{process.pid}/cmdline", encoding="utf-8").read()


# --- who sends slowly ---

CROWD = 400  # more than a port takes at once


def test_a_crowd_of_slow_senders_holds_up_no_probe_and_takes_no_descriptors(rig):
    node = rig.node()
    for process in (rig.controller(), node.agent):
        before = len(os.listdir(f"/proc/{process.pid}/fd"))
        for port in listening_ports(process.pid):
            with contextlib.ExitStack() as crowd:
                for begun in (b"", b"G", b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: ") * (CROWD // 3):
                    slow = crowd.enter_context(socket.create_connection(("127.0.0.1", port), 30))
                    with contextlib.suppress(OSError):  # it may have been closed for who came after
                        slow.sendall(begun)
                    assert len(os.listdir(f"/proc/{process.pid}/fd")) < before + CROWD // 2
                assert serve(process, "/healthz")[0] == 200
                assert serve(process, "/metrics")[0] == 200
        assert process.stop() == 0


# --- the programs themselves ---


def readelf(program, *options):
    return subprocess.run(["readelf", "-W", *options, ROOT / "build" / "release" / program], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("program", ["cleave-agent", "cleave-controller"])
def test_the_programs_are_hardened(program):
    segments = readelf(program, "-l").splitlines()
    dynamic, symbols = readelf(program, "-d"), readelf(program, "--dyn-syms")
    assert "DYN (Position-Independent Executable file)" in readelf(program, "-h")
    assert "BIND_NOW" in dynamic and any("GNU_RELRO" in line for line in segments)
    assert "RPATH" not in dynamic and "RUNPATH" not in dynamic and "TEXTREL" not in dynamic
    assert not any("RWE" in line for line in segments), "memory that is written and run"
    assert any("GNU_STACK" in line and " RW " in line for line in segments)
    for guard in ("__stack_chk_fail", "__memcpy_chk", "printf_chk"):
        assert guard in symbols, f"{guard} is never called"
    for careless in ("gets", "strcpy", "strcat", "sprintf", "vsprintf", "tmpnam", "mktemp", "system", "popen"):
        assert not any(line.split()[-1].split("@")[0] == careless for line in symbols.splitlines() if "UND" in line), careless
