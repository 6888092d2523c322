# SPDX-License-Identifier: Apache-2.0
"""The stub of a kubelet is held against the real one: each test runs on both."""

import pytest
from conftest import wait_for
from kubelet_rig import real_cluster, real_node, real_rig  # noqa: F401
from kubelet_stub import kubelet  # noqa: F401
from toy_plugin import ToyPlugin


class Stub:
    """What the tests ask of either."""

    def __init__(self, stub):
        self.stub, self.plugins = stub, stub.plugins

    def offer(self, resource):
        return self.stub.offers().get(resource)

    def restart(self):
        self.stub.restart()

    def ended(self, resource):
        return self.stub.ended[resource]


class Real:
    def __init__(self, node):
        self.node, self.plugins = node, node.plugins

    def offer(self, resource):
        status = self.node.node_object()["status"]
        found = [status[m].get(resource) for m in ("allocatable", "capacity")]
        return None if None in found else tuple(int(n) for n in found)

    def restart(self):
        self.node.restart_kubelet()

    def ended(self, resource):
        log = self.node.cluster.rundir / "nodes" / self.node.name / "kubelet.log"
        return log.read_text(errors="replace").count(f'"ListAndWatch ended unexpectedly for device plugin" err="EOF" resource="{resource}"')



@pytest.fixture(params=[Stub, pytest.param(Real, marks=pytest.mark.real_kubelet)])
def host(request):
    kind = request.param
    return kind(request.getfixturevalue("kubelet" if kind is Stub else "real_node"))


@pytest.fixture
def toys(host, request):
    """Makes toys of one resource, whose name is this test's alone."""
    made = []
    resource = f"toy.dev/{request.node.originalname.replace('_', '-')[:50].rstrip('-')}"

    def make(resource=resource, refuses=False):
        made.append(ToyPlugin(host.plugins, resource, f"toy{len(made)}.sock", refuses))
        return made[-1]

    yield make
    for toy in made:
        toy.stop()


def wait_offer(host, toy, allocatable, capacity):
    wait_for(lambda: host.offer(toy.resource) == (allocatable, capacity), 30, lambda: f"{(allocatable, capacity)}, not {host.offer(toy.resource)}")


def test_registration_asks_for_the_options_before_it_answers(host, toys):
    toy = toys()
    toy.show(a=True, b=True)
    assert toy.register() is None
    assert toy.calls.index("options") < toy.calls.index("registered")
    wait_offer(host, toy, 2, 2)


def test_a_sick_device_stays_in_capacity(host, toys):
    toy = toys()
    toy.show(a=True, b=True)
    toy.register()
    wait_offer(host, toy, 2, 2)
    toy.show(a=True, b=False)
    wait_offer(host, toy, 1, 2)
    toy.show(a=True)
    wait_offer(host, toy, 1, 1)


def test_the_end_of_a_stream_makes_all_devices_sick_until_the_next_registration(host, toys):
    toy = toys()
    toy.show(a=True, b=True)
    toy.register()
    wait_offer(host, toy, 2, 2)
    toy.end_stream()
    wait_offer(host, toy, 0, 2)
    toy.register()
    wait_offer(host, toy, 2, 2)


def test_the_end_of_an_old_stream_disconnects_the_new_plugin(host, toys):
    old, new = toys(), toys()
    old.show(a=True)
    old.register()
    wait_offer(host, old, 1, 1)
    new.show(b=True, c=True)
    new.register()
    wait_offer(host, new, 2, 2)
    old.end_stream()
    wait_offer(host, new, 0, 2)


def hand_over(host, toys):
    """A plugin takes over from another one as agents do; returns both, the old one without a stream."""
    old, new = toys(), toys()
    old.show(a=True)
    old.register()
    wait_offer(host, old, 1, 1)
    new.show(b=True, c=True)
    new.register()
    wait_offer(host, new, 2, 2)
    assert "no options here" in toys(refuses=True).register()
    old.end_stream()
    wait_for(lambda: host.ended(old.resource) == 1, 30, "the kubelet to see the old stream's end")
    return old, new


def test_after_a_registration_that_failed_the_end_of_an_old_stream_undoes_nothing(host, toys):
    _, new = hand_over(host, toys)
    new.show(b=True, c=True, d=True)
    wait_offer(host, new, 3, 3)


def test_a_plugin_that_registers_again_after_that_is_noticed_when_it_ends(host, toys):
    _, new = hand_over(host, toys)
    again = toys()
    again.show(b=True, c=True, d=True)
    again.register()
    wait_offer(host, again, 3, 3)
    new.end_stream()
    wait_offer(host, again, 0, 3)


def test_a_restart_removes_sockets_and_counts_nothing_until_the_plugin_is_back(host, toys):
    toy = toys()
    toy.show(a=True)
    toy.register()
    wait_offer(host, toy, 1, 1)
    host.restart()
    assert not (host.plugins / toy.name).exists()
    wait_offer(host, toy, 0, 0)
    again = toys()
    again.show(a=True)
    again.register()
    wait_offer(host, again, 1, 1)


def test_what_it_refuses(host, toys):
    toy = toys()
    assert toy.register(version="v1alpha1").startswith('requested API version "v1alpha1" is not supported by kubelet.')
    for name in ("no-domain", "kubernetes.io/gpu", "toy.dev/" + "x" * 64, "toy.dev/a b"):
        assert toy.register(resource=name) == f'the ResourceName "{name}" is invalid'
