# SPDX-License-Identifier: Apache-2.0
"""An agent hands its node over to the next one, on a stub of the kubelet: at no moment is a resource
without its devices (the stub keeps every change), whoever dies on the way the node ends well, and
what an agent had under way ends right. On a real kubelet: test_handover_real.py."""

import os
import signal
import threading

import pytest
from conftest import wait_for
from handover import hand_over, readiness, stand_by, stands_by, works
from kubelet_stub import kubelet  # noqa: F401
from stack import mig, rig, serve  # noqa: F401
from test_plugin_stub import GPU, HALF, SMALL, Host

HANDOVERS = int(os.environ.get("CLEAVE_HANDOVERS", "5"))


@pytest.fixture
def host(rig, kubelet):
    """One H100 with a 3g.40gb and three 1g.10gb."""
    host = Host(rig, kubelet, {"h100-80": 1}).start()
    kubelet.wait_offers(**{GPU: 1})
    host.cut({"3g.40gb": 1, "1g.10gb": 3})
    kubelet.wait_offers(**{HALF: 1, SMALL: 3})
    return host


def next_agent(host):
    """Another agent of the node, as a standby."""
    return stand_by(lambda: host.start(name=f"agent{len(host.node.rig.processes.all)}").node.agent)


def watch(host):
    """From here on the stub remembers what it is told."""
    with host.kubelet.lock:
        host.kubelet.history.clear()


def assert_never_absent(host):
    assert host.kubelet.went_to_zero() == set()
    host.kubelet.wait_offers(**{HALF: 1, SMALL: 3})


def assert_well(host):
    """What any end must be: the node offers all that it has, and pods get it."""
    host.kubelet.wait_offers(60, **{HALF: 1, SMALL: 3})
    wait_for(lambda: host.kubelet.plugin(SMALL).is_reachable(), 30, "the kubelet to have the agent that works")
    pods = [host.kubelet.admit("default", f"after-{i}", {SMALL: 1}) for i in range(3)]
    assert len({i for pod in pods for i in pod.devices[SMALL]}) == 3
    for pod in pods:
        host.kubelet.end(pod)
    host.node.wait_ready()


def test_resources_are_never_absent_in_many_hand_overs(host, capsys):
    pod = host.kubelet.admit("default", "runs", {SMALL: 1})
    watch(host)
    old = host.node.agent
    for i in range(HANDOVERS):
        new = next_agent(host)
        hand_over(old, new)
        assert host.kubelet.went_to_zero() == set(), f"hand-over {i}"
        host.kubelet.readmit(pod)
        old = new
    assert_never_absent(host)
    with capsys.disabled():
        print(f"\n{HANDOVERS} hand-overs, {len(host.kubelet.history)} lists, none without devices")


def test_standby_is_ready_and_does_nothing(host):
    wait_for(lambda: host.node.agrees(), 30, "the agent to be at rest")
    watch(host)
    registered = len(host.kubelet.registrations)
    new = next_agent(host)
    assert 'cleave_agent_standby 1' in serve(new, "/metrics")[1]
    assert serve(new, "/healthz")[0] == 200
    assert host.node.rig.writes_while(lambda: host.node.wait_reads(4)) == []
    assert len(host.kubelet.registrations) == registered and not any(before or after for _, before, after in host.kubelet.history)
    assert not any("agent" in name for name in host.spec())


def test_standby_that_cannot_read_the_cards_is_not_ready(host):
    broken = host.start(name="broken", nvml_library="/nowhere/libnvidia-ml.so.1").node.agent
    wait_for(lambda: "Could not read the node" in broken.text(), 30, broken.tail)
    code, lines = readiness(broken)
    assert code == 503 and lines[0].startswith("standby:")
    host.kubelet.wait_offers(**{HALF: 1, SMALL: 3})


def test_pod_that_comes_during_the_hand_over_gets_its_device(host):
    """Pods come at every registration of it, by whichever agent the kubelet has then."""
    old, new = host.node.agent, next_agent(host)
    admitted, failed = [], []

    def admit(request):
        try:
            pod = host.kubelet.admit("default", f"p{len(admitted)}", {SMALL: 1})
            admitted.append(pod)
            host.kubelet.end(pod)
        except Exception as error:  # pylint: disable=broad-except
            failed.append(error)

    host.kubelet.before_register = admit
    hand_over(old, new)
    host.kubelet.before_register = lambda request: None
    assert failed == [] and len(admitted) >= 4


def test_what_the_old_agent_granted_last_is_in_use_for_the_new_one(host):
    old, new = host.node.agent, next_agent(host)
    held = []

    def grant(request):
        """Before the new agent is the one that is asked."""
        if request.resource_name == HALF and not held:
            held.append(host.kubelet.admit("default", "late", {HALF: 1}))

    host.kubelet.before_register = grant
    old.signal(signal.SIGTERM)
    host.node.want(mig(host.node.uuid(), {"1g.10gb": 7}))
    wait_for(lambda: works(new), 60, new.tail)
    assert host.node.wait_applied("InUse")
    assert host.node.layout()["3g.40gb"] == 1
    host.kubelet.before_register = lambda request: None
    host.kubelet.end(held[0])
    host.node.wait_layout({"1g.10gb": 7})


def test_change_under_way_ends_before_the_cards_are_released(host):
    old, new = host.node.agent, next_agent(host)
    host.node.ctl("fault", "add", "--call", "nvmlDeviceCreateGpuInstanceWithPlacement", "--nth", 1, "--action", "hang:3")
    host.node.want(mig(host.node.uuid(), {"1g.10gb": 7}))
    wait_for(lambda: host.node.layout().get("3g.40gb") is None, 30, "the change to begin")
    old.signal(signal.SIGTERM)
    assert old.popen.wait(60) == 0
    host.node.wait_layout({"1g.10gb": 7})
    wait_for(lambda: works(new), 60, new.tail)
    assert "Recovered an interrupted change" not in new.text()
    host.kubelet.wait_offers(**{SMALL: 7})
    host.node.wait_ready()


def test_without_a_standby_an_agent_ends_at_once_and_the_kubelet_knows(host):
    host.node.agent.stop()
    host.kubelet.wait_offers()


# --- somebody dies ---

POINTS = ["standby", "asked", "registers", "listed", "parting", "renews"]


def at_point(host, point, old, new, action):
    """Runs action once when the hand-over is there."""
    once_only, done = threading.Lock(), threading.Event()

    def once(*_):
        if once_only.acquire(blocking=False):
            action()
            done.set()

    def on_register(request):
        seen = {"registers": "parting" not in request.endpoint, "parting": "parting" in request.endpoint}
        seen["renews"] = seen["registers"] and not old.running()
        if seen.get(point):
            once()

    host.kubelet.before_register = on_register
    if point == "listed":
        host.kubelet.after_list = once
    if point != "standby":
        old.signal(signal.SIGTERM)
    if point in ("standby", "asked"):
        once()
    assert done.wait(60), f"the hand-over did not come to {point}"
    host.kubelet.before_register, host.kubelet.after_list = lambda request: None, lambda plugin: None


@pytest.mark.parametrize("point", POINTS[:-1])
def test_the_old_agent_dies(host, point):
    old, new = host.node.agent, next_agent(host)
    at_point(host, point, old, new, old.kill)
    wait_for(lambda: works(new), 60, new.tail)
    assert_well(host)


@pytest.mark.parametrize("point", POINTS)
def test_the_new_agent_dies(host, point):
    old, new = host.node.agent, next_agent(host)
    watch(host)
    at_point(host, point, old, new, new.kill)
    if point == "standby":
        assert_never_absent(host)
        return
    old.popen.wait(60)
    new.start()
    wait_for(lambda: works(new), 60, new.tail)
    assert_well(host)


def test_both_die(host):
    old, new = host.node.agent, next_agent(host)

    def kill():
        old.kill()
        new.kill()

    at_point(host, "parting", old, new, kill)
    new.start()
    wait_for(lambda: works(new), 60, new.tail)
    assert_well(host)


def test_the_kubelet_restarts_in_the_middle(host):
    old, new = host.node.agent, next_agent(host)
    restart = threading.Thread(target=host.kubelet.restart)
    at_point(host, "registers", old, new, restart.start)
    restart.join()
    wait_for(lambda: works(new), 90, new.tail)
    assert_well(host)


def test_interrupted_change_is_ended_by_the_agent_that_takes_over(host):
    """The old agent is killed in the middle of a change; the standby ends it before it offers anything."""
    old, new = host.node.agent, next_agent(host)
    host.node.ctl("fault", "add", "--call", "nvmlDeviceCreateGpuInstanceWithPlacement", "--nth", 2, "--action", "kill")
    host.node.want(mig(host.node.uuid(), {"1g.10gb": 7}))
    old.popen.wait(60)
    wait_for(lambda: works(new), 60, new.tail)
    host.node.wait_layout({"1g.10gb": 7})
    host.kubelet.wait_offers(60, **{SMALL: 7})
    host.node.wait_ready()


def test_two_agents_that_start_at_once_share_nothing(rig, kubelet):
    host = Host(rig, kubelet, {"h100-80": 1})
    first = host.start(name="first").node.agent
    second = host.start(name="second").node.agent
    wait_for(lambda: {works(first), works(second)} == {True, False}, 60, lambda: f"{first.tail()}\n{second.tail()}")
    wait_for(lambda: stands_by(first) or stands_by(second), 60, "the other to stand by")
    kubelet.wait_offers(**{GPU: 1})
