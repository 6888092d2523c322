# SPDX-License-Identifier: Apache-2.0
"""cleave-scheduler beside a stock kube-scheduler: which node and which cards pods with shares get, what is written for it, and what
never is given twice. The nodes' kubelets are stubs that the tests play on; at the end the same with a real one."""

import contextlib
import copy
import itertools
import json
import signal
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import NotYet, wait_for
from extender import SCHEDULERS, USER, Scheduler, free_port, post, scheduler
from kubelet_rig import real_cluster, real_rig  # noqa: F401
from kubelet_stub import KubeletStub
from kubelet_work import GPU, PODS, KubeletWork
from stack import Api, ApiError, condition, rig  # noqa: F401
from test_fractional import CARD_MIB, RUN, limits, seen, sums, told
from test_plugin_stub import Host
from test_security import granted, used

pytestmark = pytest.mark.second_cluster

RECORD = "gpu.cleave.dev/allocation"
HAMIS_RECORD = "hami.io/vgpu-devices-allocated"
ROOM = "gpu.cleave.dev/room"
CARDS = "hami.io/gpu-scheduler-policy"
NODES = "hami.io/node-scheduler-policy"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
MANUAL = {"gpumem": 3000, "gpucores": 30}


# --- nodes without a kubelet ---


class Node(Host):
    """A node whose kubelet is a stub, which offers and admits when it is told to."""

    def __init__(self, rig, fleet):
        super().__init__(rig, KubeletStub(tempfile.mkdtemp(prefix="ck", dir="/tmp")).start(), fleet, slots=True)
        self.work = KubeletWork(rig.api, self.node.name, self.kubelet)
        self.path = self.work.path
        self.start()
        rig.api.merge(self.path, {"spec": {"taints": None}})

    def uuid(self, card):
        return self.node.uuid(card)

    def shares(self):
        """[(pod, card, MiB, percent)], as the Device has them."""
        found = []
        for card in self.node.cards_told():
            for share in card.get("partitions", []):
                size = share["slice"]
                found += [(user["name"], card["index"], size["memoryMiB"], size["computePercent"]) for user in share.get("inUseBy", [])]
        return sorted(found)

    def records(self):
        """(MiB, percent, shares) that the agent's records give of each card, by UUID."""
        given = {}
        for path in (self.node.folder / "state" / "slots").glob("share.*.json"):
            with contextlib.suppress(FileNotFoundError):  # released between the list and the look
                record = json.loads(path.read_text())
                mib, percent, shares = given.get(record["card"], (0, 0, 0))
                given[record["card"]] = (mib + record["memoryMiB"], percent + record["computePercent"], shares + 1)
        return given


class World:
    """Nodes, our controller and agents, and a scheduler."""

    def __init__(self, rig, stack, *fleets, **controller):
        self.rig, self.numbers, self.stack = rig, itertools.count(1), stack
        self.meanwhile = lambda: None  # is done, too, while something is waited for
        self.controller = rig.controller(**controller)
        self.nodes = [Node(rig, fleet) for fleet in fleets]
        for n in self.nodes:
            stack.callback(n.kubelet.stop)
        rig.profile("shares", {"selector": {"vendor": "nvidia"}, "mode": "native", "sharing": {"fractional": {}}})
        cards = {n: sum(fleet.values()) for n, fleet in zip(self.nodes, fleets, strict=True)}
        self.until(lambda: all(self.offers(n) == (10 * k, 100 * k) for n, k in cards.items()), lambda: f"the nodes to offer shares, not {list(map(self.offers, cards))}")

    def offers(self, node):
        given = self.rig.api.get(node.path)["status"]["allocatable"]
        return int(given.get(GPU, 0)), int(given.get("nvidia.com/gpucores", 0))

    def schedule(self, between=None, **how):
        """Starts the scheduler."""
        self.scheduler = self.stack.enter_context(scheduler(self.rig, between, **how))
        return self.scheduler

    def until(self, predicate, message, timeout=60):
        """Waits for it, while the kubelets work."""

        def look():
            for n in self.nodes:
                n.work.do()
            self.meanwhile()
            return predicate()

        return wait_for(look, timeout, message)

    def pod(self, name, n=1, annotations=None, by="cleave-scheduler", containers=None, priority=None, **sizes):
        """A pod that nobody has placed yet; returns its name. containers: sizes by name, instead of one; priority: a PriorityClass."""
        name = f"{self.rig.id}-{name}-{next(self.numbers)}"
        wanted = containers or {"main": limits(n, **sizes)}
        spec = {
            "schedulerName": by,
            "terminationGracePeriodSeconds": 0,
            **({"priorityClassName": priority} if priority else {}),
            "containers": [{"name": c, "image": "none", "resources": {"limits": of}} for c, of in wanted.items()],
        }
        self.rig.objects.append(f"{PODS}/{name}")
        self.rig.api.create(PODS, {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec})
        return name

    def get(self, pod):
        return self.rig.api.get(f"{PODS}/{pod}")

    def delete(self, pod):
        """The kubelets see it while something is waited for."""
        self.rig.api.delete(f"{PODS}/{pod}", now=True)

    def node_of(self, pod):
        """None: it is not bound."""
        name = self.get(pod)["spec"].get("nodeName")
        return next((n for n in self.nodes if n.node.name == name), None)

    def shares(self, pod):
        """[(node, card, MiB, percent)] of all Devices."""
        return [(n, *share[1:]) for n in self.nodes for share in n.shares() if share[0] == pod]

    def wait_shares(self, *pods, n=1):
        """Until agents have made the shares of these pods, n of each; returns those of the first."""
        self.until(lambda: all(len(self.shares(p)) == n for p in pods), lambda: f"the shares of {pods}: {[(p, self.shares(p), self.why(p)) for p in pods]}")
        return self.shares(pods[0])

    def run(self, name, **what):
        """A pod that has its share; returns (pod, node, card)."""
        pod = self.pod(name, **what)
        ((node, card, *_),) = self.wait_shares(pod)
        return pod, node, card

    def why(self, pod):
        """What the scheduler says of it."""
        return condition(self.get(pod), "PodScheduled").get("message", "")

    def wait_refused(self, pod, *words):
        self.until(lambda: all(w in self.why(pod) for w in words), lambda: f"{pod} to be refused with {words}, not {self.why(pod)!r}")
        assert self.node_of(pod) is None

    def assert_within(self):
        """No card is given out beyond what it has."""
        for node in self.nodes:
            for card, (mib, percent, shares) in node.records().items():
                assert mib <= CARD_MIB and percent <= 100 and shares <= 10, f"{node.node.name} {card}: {mib} MiB, {percent} %, {shares} shares"


@pytest.fixture
def world(rig):
    """world({"h100-80": 2}, ...): a node for each fleet, without a scheduler yet."""
    with contextlib.ExitStack() as stack:
        yield lambda *fleets: World(rig, stack, *fleets)


@pytest.fixture
def pair(world):
    """A node with two H100, and the scheduler."""
    made = world({"h100-80": 2})
    made.schedule()
    return made


@pytest.fixture
def two(world):
    """Two nodes with two H100 each, and the scheduler."""
    made = world({"h100-80": 2}, {"h100-80": 2})
    made.schedule()
    return made


# --- what is chosen, and what is written ---


@pytest.mark.parametrize("by", SCHEDULERS)
def test_the_pod_of_hamis_manual_is_bound_with_one_write_that_names_its_cards(pair, by):
    (node,) = pair.nodes
    pod = pair.pod("manual", 2, by=by, **MANUAL)
    shares = pair.wait_shares(pod, n=2)
    assert pair.scheduler.writes(pod) == [("create", "binding")]
    notes = pair.get(pod)["metadata"]["annotations"]
    record = json.loads(notes[RECORD])
    ((name, given),) = [(c["n"], c["s"]) for c in record["c"]]
    assert record["v"] == 1 and name == "main"
    assert {s["u"] for s in given} == {node.uuid(0), node.uuid(1)} and all((s["m"], s["c"]) == (3000, 30) for s in given)
    assert notes[HAMIS_RECORD] == "".join(f"{s['u']},NVIDIA,3000,30:" for s in given) + ";"
    assert shares == [(node, 0, 3000, 30), (node, 1, 3000, 30)]


def test_the_share_is_made_on_the_card_that_the_record_names(pair):
    (node,) = pair.nodes
    for _ in range(3):
        pod, _, card = pair.run("named", gpumem=1000)
        (share,) = json.loads(pair.get(pod)["metadata"]["annotations"][RECORD])["c"][0]["s"]
        assert share["u"] == node.uuid(card)


def test_each_container_of_a_pod_has_its_own_entry(pair):
    pod = pair.pod("many", containers={"a": limits(gpumem=50000), "b": limits(gpumem=50000), "c": {"cpu": "1"}})
    shares = pair.wait_shares(pod, n=2)
    record = json.loads(pair.get(pod)["metadata"]["annotations"][RECORD])
    assert [c["n"] for c in record["c"]] == ["a", "b"]
    assert sorted(card for _, card, *_ in shares) == [0, 1], "both do not fit one card"


@pytest.mark.parametrize(("policy", "same"), [("binpack", True), ("spread", False)])
def test_the_pods_policy_chooses_the_card(pair, policy, same):
    _, _, first = pair.run("first", gpumem=8000)
    _, _, card = pair.run(policy, gpumem=8000, annotations={CARDS: policy})
    assert (card == first) == same


@pytest.mark.parametrize(("policy", "same"), [("binpack", True), ("spread", False)])
def test_the_pods_policy_chooses_the_node(two, policy, same):
    _, first, _ = two.run("first", gpumem=8000)
    _, node, _ = two.run(policy, gpumem=8000, annotations={NODES: policy})
    assert (node is first) == same


def test_a_pod_chooses_cards_by_uuid_and_by_model(world):
    w = world({"h100-80": 2}, {"a100-80": 1})
    w.schedule()
    hopper, ampere = w.nodes
    for card in (1, 0, 1):
        _, *where = w.run("use", gpumem=1000, annotations={"nvidia.com/use-gpuuuid": hopper.uuid(card)})
        assert where == [hopper, card]
    not_these = ",".join([hopper.uuid(0), ampere.uuid(0)])
    assert w.run("nouse", gpumem=1000, annotations={"nvidia.com/nouse-gpuuuid": not_these})[1:] == (hopper, 1)
    assert w.run("nouse-type", gpumem=1000, annotations={"nvidia.com/nouse-gputype": "H100"})[1:] == (ampere, 0)
    none = w.pod("none", gpumem=1000, annotations={"nvidia.com/use-gputype": "B200"})
    w.wait_refused(none, "may be used", "of another model")


def test_a_pod_without_sizes_is_alone_on_its_card(pair):
    _, _, whole = pair.run("whole")
    parts = [pair.run("part", gpumem=1000, annotations={CARDS: "binpack"})[2] for _ in range(3)]
    assert set(parts) == {1 - whole}
    late = pair.pod("late")
    pair.wait_refused(late, "needs 100 % of the memory", "on one card")


def test_a_pod_of_whole_cards_spares_the_nodes_that_give_shares(world):
    w = world({"h100-80": 1}, {"h100-80": 1})
    shared, plain = w.nodes
    w.rig.profile("shares", {"selector": {"vendor": "nvidia"}, "mode": "native"}, nodeSelector={"matchLabels": {"kubernetes.io/hostname": plain.node.name}})
    w.rig.profile("parts", {"selector": {"vendor": "nvidia"}, "mode": "native", "sharing": {"fractional": {}}}, nodeSelector={"matchLabels": {"kubernetes.io/hostname": shared.node.name}})
    w.until(lambda: (w.offers(shared), w.offers(plain)) == ((10, 100), (1, 0)), lambda: f"one node to give shares, not {w.offers(plain)}")
    w.schedule()
    pod = w.pod("whole")
    w.until(lambda: w.node_of(pod), lambda: f"the pod to be bound: {w.why(pod)}")
    assert w.node_of(pod) is plain
    assert RECORD not in w.get(pod)["metadata"].get("annotations", {}), "kube-scheduler counts whole cards exactly"


# --- what does not fit ---


def test_what_fits_the_sums_and_no_card_waits_and_runs_once_there_is_room(two):
    halves = [two.run("half", gpumem=50000) for _ in range(4)]
    assert len({where for _, *where in map(tuple, halves) for where in [tuple(where)]}) == 4, "one on each card"
    late = two.pod("late", gpumem=40000)
    two.wait_refused(late, "needs 40000 MiB on one card; the best of 2 has 31559 MiB")
    said = "needs 40000 MiB on one card; the best of 2 has"
    wait_for(lambda: any(said in e.get("note", "") for e in two.rig.events(late, "FailedScheduling")), 30, "kube-scheduler's Event")
    assert two.shares(late) == [] and not any(two.rig.events(n.node.name, "ShareNotMade") for n in two.nodes)
    (first,) = nodes_written(two)
    gone, node, card = halves[0]
    two.delete(gone)
    assert two.wait_shares(late) == [(node, card, 40000, 0)]
    assert nodes_written(two) in ([first], sorted([first, node.node.name])), "the node that has room, if any"
    two.assert_within()


def nodes_written(world):
    """Names of the Nodes that the scheduler's account has written: one when it started, for it does not know who was refused before."""
    writes = world.rig.cluster.writes(world.rig.mark, f"^{USER}$")
    return sorted({e["objectRef"]["name"] for e in writes if e["objectRef"]["resource"] == "nodes"})


def test_a_refused_pod_is_woken_when_the_agent_has_released_a_share(world):
    """Which kube-scheduler does not see: it tries the pod when the other is deleted, and then no more."""
    w, filters = world({"h100-80": 2}), []
    (node,) = w.nodes

    def between(verb, forward):
        answer = forward()
        filters.extend(["filter"] * (verb == "filter"))
        return answer

    w.schedule(between)
    gone, _ = [w.run("half", gpumem=50000)[0] for _ in range(2)]
    late = w.pod("late", gpumem=40000)
    w.wait_refused(late, "the best of 2 has 31559 MiB")
    before_it = room_told(w, node)
    with frozen(node.node.agent):
        before = len(filters)
        w.delete(gone)
        wait_for(lambda: len(filters) > before, 30, "the pod to be tried again")
    node.work.end_deleted()
    wait_for(lambda: room_told(w, node) != before_it, 30, "the Node to be told to have room")
    w.wait_shares(late)


def room_told(world, node):
    """When the Node was last said to have room; None: never."""
    return world.rig.api.get(node.path)["metadata"].get("annotations", {}).get(ROOM)


@contextlib.contextmanager
def frozen(process):
    process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.signal(signal.SIGCONT)


def test_a_pod_that_asks_for_more_cards_than_any_node_has_stays_pending(two):
    pod = two.pod("greedy", 3, gpumem=1000)
    two.wait_refused(pod, "needs 3 cards with 1000 MiB each; 2 of 2 fit")
    small = two.run("small", gpumem=1000)
    assert small and two.node_of(pod) is None, "others are scheduled past it"


def test_twenty_pods_at_once_fill_two_nodes_and_no_card_beyond_its_memory(two):
    pods = [two.pod("p", gpumem=8000) for _ in range(20)]
    two.wait_shares(*pods)
    two.assert_within()
    by_card = Counter()
    for pod in pods:
        ((node, card, mib, _),) = two.shares(pod)
        by_card[node.node.name, card] += mib
    assert sum(by_card.values()) == 160000 and max(by_card.values()) <= CARD_MIB
    assert all(two.scheduler.writes(pod) == [("create", "binding")] for pod in pods)


def test_a_pod_of_higher_priority_gets_a_card_from_those_of_the_lowest(pair):
    """Kube-scheduler goes by what the sums lack, for which one pod would do; no card has the room then."""
    (node,) = pair.nodes
    middle, high = priority_class(pair.rig, "middle", 10), priority_class(pair.rig, "high", 1000)
    on_card = [
        [pair.run("low", gpumem=size, priority=priority, annotations={"nvidia.com/use-gpuuuid": node.uuid(card)})[0] for size in (30000, 40000)]
        for card, priority in ((0, None), (1, middle))
    ]
    pod = pair.pod("high", gpumem=60000, priority=high)
    assert pair.wait_shares(pod) == [(node, 0, 60000, 0)]
    assert [[p for p in pods if pair.rig.api.find(f"{PODS}/{p}")] for pods in on_card] == [[], on_card[1]], "nobody has gone for nothing"
    pair.wait_shares(*on_card[1])
    pair.assert_within()


def priority_class(rig, name, value):
    """Its name."""
    name = f"{rig.id}-{name}"
    rig.objects.append(f"{PRIORITIES}/{name}")
    rig.api.create(PRIORITIES, {"metadata": {"name": name}, "value": value})
    return name


def test_a_namespaces_quota_counts_each_share_in_hamis_words(pair):
    path = "/api/v1/namespaces/default/resourcequotas"
    pair.rig.objects.append(f"{path}/{pair.rig.id}")
    pair.rig.api.create(path, {"metadata": {"name": pair.rig.id}, "spec": {"hard": {"limits.nvidia.com/gpumem": "10000"}}})
    first = pair.pod("first", 2, gpumem=4000)
    pair.wait_shares(first, n=2)
    late = pair.pod("late", gpumem=3000)
    pair.wait_refused(late, "limits.nvidia.com/gpumem")
    pair.run("small", gpumem=2000)
    pair.delete(first)
    pair.wait_shares(late)


# --- what is killed ---

BIG = 40000  # two fit a card


class Harm:
    """Stands between the two programs, and does something to the second one when it is to bind a pod, twice. It is started again by the
    test's own thread: with another one it would end."""

    def __init__(self, world, what):
        self.world, self.what, self.times = world, getattr(self, what), 0
        self.one_at_a_time, self.ready, self.is_ready = threading.Lock(), None, threading.Condition()

    @property
    def extender(self):
        return self.world.scheduler.extender

    def __call__(self, verb, forward):
        with self.one_at_a_time:
            if verb != "bind" or self.times == 2:
                return forward()
            self.times += 1
            return self.what(forward)

    def start_again(self):
        """Does not wait: it may be killed meanwhile."""
        if not self.extender.process.running():
            self.extender.process.start()
        elif self.extender.is_ready():
            with self.is_ready:
                self.ready = self.extender.process.pid
                self.is_ready.notify()

    def killed_before_it_binds(self, _):
        self.extender.kill()

    def restarted_before_it_binds(self, forward):
        before = self.extender.process.pid
        self.extender.kill()
        with self.is_ready:
            assert self.is_ready.wait_for(lambda: self.ready not in (None, before), 60)
        return forward()

    def not_heard_when_it_has_bound(self, forward):
        assert forward()[0] == 200


@pytest.mark.parametrize("what", ["killed_before_it_binds", "restarted_before_it_binds", "not_heard_when_it_has_bound"])
def test_pods_are_bound_in_the_end_and_no_card_is_given_twice(world, what):
    w = world({"h100-80": 2})
    harm = Harm(w, what)
    w.schedule(harm)
    w.meanwhile = harm.start_again
    pods = [w.pod("p", gpumem=BIG) for _ in range(4)]
    w.wait_shares(*pods)
    assert harm.times == 2
    w.assert_within()


def test_before_its_caches_are_synced_no_question_is_answered(rig):
    """Cards look empty that are full. Its API server does not answer here."""
    kubeconfig = rig.controller_kubeconfig("early")
    kubeconfig.write_text(kubeconfig.read_text().replace(rig.cluster.server, "https://127.0.0.1:9"))
    port = free_port(rig)
    rig.processes("cleave-scheduler", rig.release("cleave-scheduler"), f"--kubeconfig={kubeconfig}", f"--listen=127.0.0.1:{port}", where=rig.where)
    for verb in ("filter", "preempt"):
        status, text = wait_for(lambda verb=verb: (answer := post(rig, port, f"/{verb}", "{}")) and answer[0] != 502 and answer, 30, "an answer")
        assert (status, json.loads(text)) == (503, {"Error": "the scheduler's caches are not synced yet"})


def test_both_programs_are_killed_and_what_was_given_counts(pair):
    before = [pair.run("before", gpumem=50000)[0] for _ in range(2)]
    pair.scheduler.kube.kill()
    pair.scheduler.extender.kill()
    late = pair.pod("late", gpumem=40000)
    pair.scheduler.extender.start()
    pair.scheduler.forget_leader()
    pair.scheduler.kube.start()
    pair.wait_refused(late, "needs 40000 MiB on one card; the best of 2 has 31559 MiB")
    fitting, *_ = pair.run("fitting", gpumem=30000)
    pair.assert_within()
    assert all(pair.shares(pod) for pod in [*before, fitting])


# --- two that do not know of each other ---


@pytest.fixture
def replicas(world):
    """Two nodes with two H100 each, and two cleave-schedulers that no kube-scheduler asks."""
    w = world({"h100-80": 2}, {"h100-80": 2})
    first = Scheduler(w.rig)
    second = copy.copy(first)
    second.ports = {name: free_port(w.rig) for name in first.ports}
    w.replicas = [first, second]
    for s in w.replicas:
        w.stack.callback(s.end)
        s.extender = s.start_extender()
    w.meanwhile = w.assert_within
    w.cards = {n.uuid(card): (n.node.name, card) for n in w.nodes for card in (0, 1)}
    return w


def unplaced(world, count):
    """Pods that wait for somebody to place them, as kube-scheduler has them; two fit a card."""
    return [world.get(world.pod("p", by="nobody", gpumem=BIG)) for _ in range(count)]


def name_of(pod):
    return pod["metadata"]["name"]


def choose(world, replica, pod):
    """The node that it chooses, by name; None: it refuses."""
    answer = replica.ask("filter", {"Pod": pod, "Nodes": None, "NodeNames": [n.node.name for n in world.nodes]})
    return next(iter(answer["NodeNames"]), None)


def bind(replica, pod, node):
    """Whether it says that the pod is bound to the node."""
    args = {"PodName": name_of(pod), "PodNamespace": "default", "PodUID": pod["metadata"]["uid"], "Node": node}
    return replica.ask("bind", args)["Error"] == ""


def bindings(world):
    """The names of pods, once for each Binding of our account that the API server took."""
    writes = world.rig.cluster.writes(world.rig.mark, f"^{USER}$")
    return [e["objectRef"]["name"] for e in writes if e["objectRef"].get("subresource") == "binding" and e["responseStatus"]["code"] < 300]


def promised(world, pod):
    """The node and card that a bound pod's record names, which has what it asks for."""
    ((entry,),) = (c["s"] for c in json.loads(world.get(pod)["metadata"]["annotations"][RECORD])["c"])
    assert (entry["m"], entry["c"]) == (BIG, 0)
    return world.cards[entry["u"]]


def shares_made(world):
    """How many shares agents have made, by node and card."""
    return Counter((n.node.name, card) for n in world.nodes for _, card, *_ in n.shares())


def test_a_room_that_two_promise_is_given_once(replicas):
    """By design (scheduler/view.h): until it has seen the other's Bindings, each promises all the room there is. The agents let those
    wait for whom none is left, and no later question is answered as if it were free."""
    w = replicas
    first, second = unplaced(w, 8), unplaced(w, 8)
    asked = [(w.replicas[0], p) for p in first] + [(w.replicas[1], p) for p in second]
    chosen = [(replica, pod, choose(w, replica, pod)) for replica, pod in asked]
    assert all(node for *_, node in chosen), "there is room for the eight of each"
    with ThreadPoolExecutor() as threads:
        assert all(threads.map(lambda args: bind(*args), chosen))
    w.until(lambda: Counter(bindings(w)) == Counter(name_of(p) for p in first + second), "one Binding of each pod")
    assert Counter(promised(w, name_of(p)) for p in first + second) == dict.fromkeys(w.cards.values(), 4)
    w.until(lambda: shares_made(w) == dict.fromkeys(w.cards.values(), 2), lambda: f"two shares on each card, not {shares_made(w)}")
    for pod in first:
        w.delete(name_of(pod))
    w.wait_shares(*map(name_of, second))
    (late,) = unplaced(w, 1)
    w.until(lambda: [choose(w, replica, late) for replica in w.replicas] == [None, None], "both to see that nothing is left")
    w.assert_within()


def test_a_pod_that_two_are_asked_to_place_at_once_is_bound_once(replicas):
    """As when two kube-schedulers lead for a moment. Who says that a pod is bound to a node is right, each fills a card once at most, and
    when all Bindings have been seen both know what is left."""
    w = replicas
    pods = unplaced(w, 12)

    def place_all(replica):
        """{pod: the node to which it says to have bound it}."""
        chosen = ((pod, choose(w, replica, pod)) for pod in pods)
        return {name_of(pod): node for pod, node in chosen if node and bind(replica, pod, node)}

    with ThreadPoolExecutor() as threads:
        said = list(threads.map(place_all, w.replicas))
    bound = {pod: n.node.name for pod in map(name_of, pods) if (n := w.node_of(pod))}
    assert bound and all(bound.get(pod) == node for one in said for pod, node in one.items())
    w.until(lambda: sorted(bindings(w)) == sorted(bound), lambda: f"one Binding of each of {sorted(bound)}, not {sorted(bindings(w))}")
    places = {pod: promised(w, pod) for pod in bound}
    assert {pod: node for pod, (node, _) in places.items()} == bound
    promises = Counter(places.values())
    assert max(promises.values()) <= 4
    w.until(lambda: shares_made(w) == {card: min(n, 2) for card, n in promises.items()}, lambda: f"shares by {promises}, not {shares_made(w)}")
    is_room = any(promises[card] < 2 for card in w.cards.values())
    (late,) = unplaced(w, 1)
    w.until(lambda: [choose(w, r, late) is not None for r in w.replicas] == [is_room] * 2, lambda: f"both to say what {promises} leaves")
    w.assert_within()


# --- what nobody may say, and what cannot be meant ---

NOTES = {"ours": {RECORD: json.dumps({"v": 1, "c": [], "p": 0})}, "HAMi's": {"hami.io/vgpu-devices-allocated": ";"}}
NOTE = {"annotations": NOTES["ours"]}
BINDING = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "none"}}
MERGE = "application/merge-patch+json"
# Each way on which annotations reach a pod that is there: method, path, more of the body, its type.
WAYS = {
    "update": ("PATCH", f"{PODS}/{{}}", {}, MERGE),
    "status": ("PATCH", f"{PODS}/{{}}/status", {}, MERGE),
    "binding": ("POST", f"{PODS}/{{}}/binding", BINDING, "application/json"),
    "bindings": ("POST", "/api/v1/namespaces/default/bindings", BINDING, "application/json"),
}
# The API server takes no metadata from these.
NO_WAYS = ("ephemeralcontainers", "resize")


@pytest.fixture
def jane(rig):
    """Somebody who may do everything, and is no scheduler."""
    api = Api(rig.cluster, user="jane")
    yield api
    api.close()


def test_a_pod_that_brings_a_record_along_is_not_made(rig, jane):
    pod = {"metadata": {**NOTE, "name": f"{rig.id}-forged"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    with pytest.raises(ApiError, match="cleave-pod-slots"):
        jane.create(PODS, pod)


@pytest.mark.parametrize("whose", NOTES)
@pytest.mark.parametrize("way", WAYS)
def test_nobody_but_schedulers_gives_a_pod_a_record(rig, jane, way, whose):
    name = f"{rig.id}-forged"
    rig.pod(name, None, schedulerName="none")
    method, path, body, kind = WAYS[way]
    with pytest.raises(ApiError, match="cleave-pod-slots"):
        jane.request(method, path.format(name), {**body, "metadata": {"annotations": NOTES[whose], "name": name}}, kind)


@pytest.mark.parametrize("subresource", NO_WAYS)
def test_a_record_does_not_come_by(rig, jane, subresource):
    name = f"{rig.id}-forged"
    rig.pod(name, None, schedulerName="none")
    with contextlib.suppress(ApiError):
        jane.request("PATCH", f"{PODS}/{name}/{subresource}", {"metadata": NOTE}, MERGE)
    assert RECORD not in rig.api.get(f"{PODS}/{name}")["metadata"].get("annotations", {})


def why_never(pair, asked, annotations=None):
    """Why a pod is refused for good, by the scheduler alone: no API server sees the pod."""
    (node,) = pair.nodes
    container = {"name": "main", "resources": {"limits": asked}}
    meta = {"name": "odd", "namespace": "default", "uid": "u", "annotations": annotations or {}}
    answer = pair.scheduler.ask("filter", {"Pod": {"metadata": meta, "spec": {"containers": [container]}}, "Nodes": None, "NodeNames": [node.node.name]})
    assert not answer["NodeNames"]
    return answer["FailedAndUnresolvableNodes"][node.node.name]


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({CARDS: "binpak"}, 'annotation hami.io/gpu-scheduler-policy: "binpak" is none of binpack, spread'),
        ({NODES: "fullest"}, 'annotation hami.io/node-scheduler-policy: "fullest" is none of binpack, spread'),
        ({"nvidia.com/use-gputype": ","}, 'annotation nvidia.com/use-gputype: "," is none of the form one,two'),
        ({"nvidia.com/numa-bind": "maybe"}, 'annotation nvidia.com/numa-bind: "maybe" is none of true, false'),
        ({"nvidia.com/vgpu-mode": "mig"}, "annotation nvidia.com/vgpu-mode asks for cards that are shared in another way"),
    ],
)
def test_an_annotation_that_cannot_be_meant_is_told_with_what_is_allowed(pair, annotations, said):
    """Of a pod that config/slots did not keep from being made."""
    assert said in why_never(pair, limits(1, gpumem=1000), annotations)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"gpumem": "3Gi"}, "container main: nvidia.com/gpumem is 3Gi, which is 3221225472, and counts MiB: write 3072"),
        ({"gpumem": "-1"}, "nvidia.com/gpumem"),
        ({"gpumem": "10000000000000000000"}, "nvidia.com/gpumem"),
        ({"gpucores": "half"}, "nvidia.com/gpucores"),
        ({"n": 65, "gpumem": 1000}, "container main asks for 65 cards, and no node has more than 64"),
    ],
)
def test_a_quantity_that_cannot_be_meant_names_its_field_and_the_remedy(pair, sizes, said):
    """Most of them an API server refuses by itself."""
    sizes = dict(sizes)
    assert said in why_never(pair, limits(sizes.pop("n", 1), **sizes))


# --- rights ---


def test_the_rights_of_the_scheduler_suffice_and_no_more_are_used(pair):
    """Of cleave-scheduler, that is; what a kube-scheduler needs its own roles say."""
    first = [pair.run("half", gpumem=50000)[0] for _ in range(2)]
    late = pair.pod("late", gpumem=40000)
    pair.wait_refused(late, "on one card")
    pair.delete(first[0])
    pair.wait_shares(late)
    done, forbidden = used(pair.rig, USER, pair.rig.mark)
    may = granted(pair.rig, USER)
    assert forbidden == [] and done - may == set()
    assert may - done <= SPARE | {("list", what) for what in ("pods", DEVICES)}, "lists are for API servers without WatchList"


DEVICES = "devices.gpu.cleave.dev"
# A pod is read whose Binding was not answered, a Node is written when nothing else wakes a pod; of quotas and Nodes the audit log has no
# reads; the Lease is kube-scheduler's.
SPARE = {("get", "pods"), ("get", DEVICES), ("patch", "nodes"), *((verb, what) for verb in ("list", "watch") for what in ("resourcequotas", "nodes"))} | {
    (verb, "leases.coordination.k8s.io") for verb in ("create", "get", "update")
}


# --- a real kubelet ---


@contextlib.contextmanager
def real_node(real_rig, **controller):
    """Two H100 on a node with a real kubelet, and the scheduler beside the cluster's own."""
    n = real_rig.node({"h100-80": 2}, slots=True)
    n.wait_offers()  # what the agent of the test before offered is off the Node
    n.start()
    wait_for(lambda: n.agrees(), 30, "the agent")
    real_rig.controller(**controller)
    real_rig.profile("shares", {"selector": {"vendor": "nvidia"}, "mode": "native", "sharing": {"fractional": {}}})
    n.wait_offers(**sums(2))
    with scheduler(real_rig) as n.scheduler:
        yield n


@pytest.fixture
def real(real_rig):
    with real_node(real_rig) as n:
        yield n


@pytest.mark.parametrize("by", SCHEDULERS)
def test_the_pod_of_hamis_manual_runs_on_the_cards_of_its_record(real, by):
    pod = real.run("gpu-pod", RUN, limits(2, **MANUAL), schedulerName=by)
    real.wait_phase(pod, "Running", timeout=60)
    assert real.scheduler.writes(pod) == [("create", "binding")]
    cards, env = seen(real, pod)
    assert cards == ["/dev/nvidia0", "/dev/nvidia1"] and env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    wait_for(lambda: told(real) == {pod: [(0, 3000, 30), (1, 3000, 30)]}, 30, lambda: f"the shares, not {told(real)}")
    assert real.container(pod)["restartCount"] == 0


def test_a_pod_that_fits_no_card_is_not_bound_and_runs_once_there_is_room(real):
    first = [real.run("first", RUN, limits(gpumem=50000), schedulerName="cleave-scheduler") for _ in range(2)]
    for pod in first:
        real.wait_phase(pod, "Running", timeout=60)
    late = real.run("late", RUN, limits(gpumem=40000), schedulerName="cleave-scheduler")

    def why():
        found = condition(real.api.get(real.pod_path(late)), "PodScheduled")
        if not found:
            raise NotYet("no condition yet")
        return found.get("message", "")

    wait_for(lambda: "needs 40000 MiB on one card; the best of 2 has 31559" in why(), 30, lambda: f"the reason, not {why()}")
    assert real.api.get(real.pod_path(late))["spec"].get("nodeName") is None
    real.delete(first[0])
    real.wait_phase(late, "Running", timeout=60)
