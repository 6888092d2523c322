# SPDX-License-Identifier: Apache-2.0
"""A platform team's first day with Cleave on three nodes, two of them with cards: the commands of README.md, in order, and between
them what the team sees: Prometheus with the jobs of docs/monitoring.md, and `kubectl cleave` before a change.

What is not run of the commands is building and pushing the images (the nodes are given them) and `make chart` (made here, as it does).
"""

import json
import time

import pytest
from conftest import wait_for
from forecast import named_layout, wait_true
from handover import NodeWatch, without
from pod_images import images
from pods_rig import pods, pods_cluster, section, steps, without_questions  # noqa: F401
from prometheus_rig import Prometheus, all_queries, page_queries, scrape_configs
from test_plugin_real import LOOK, assert_sees_its_own, held

SMALL, MIDDLE, HALF, GPU = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb", "nvidia.com/mig-3g.40gb", "nvidia.com/gpu"
CARDS = {SMALL: 11, MIDDLE: 2, HALF: 2, GPU: 4}  # of n1, as config/samples/inference.yaml has it: the last card is shared by four
SCRAPED = {"cleave-controller": 2, "cleave-agent": 3, "cleave-telemetry": 3}
PARTITIONS = [name for name in (SMALL, MIDDLE, HALF) for _ in range(CARDS[name])]


def standing(node, workers):
    """What each of the pods has: its container, and its device."""
    return {pod: (node.container(pod)["containerID"], held(node, pod)) for pod in workers}


def start_workers(node, resources):
    """A pod for each, all at once; returns their names once they run."""
    workers = [node.run("worker", f"{LOOK}; sleep 3600", {name: "1"}, "Always") for name in resources]
    for pod in workers:
        node.wait_phase(pod, "Running", timeout=90)
    return workers


def assert_images(pods, tag):
    assert {c["image"].rpartition(":")[2] for p in pods.ours() for c in p["spec"]["containers"]} == {tag}


def discovered(api, job):
    """A job of docs/monitoring.md with the targets that its discovery finds here: Debian's Prometheus is built without Kubernetes'."""
    (where,), (keep, _) = job.pop("kubernetes_sd_configs"), job.pop("relabel_configs")
    (namespace,) = where["namespaces"]["names"]
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io/service-name%3D{keep['regex']}"
    targets = [(f"{address}:{slice['ports'][0]['port']}", end["nodeName"]) for slice in api.get(path)["items"] for end in slice["endpoints"] for address in end["addresses"]]
    return {**job, "static_configs": [{"targets": [target], "labels": {"node": node}} for target, node in targets]}


class Day:
    """The day, a chapter a method."""

    def __init__(self, pods, say):
        self.pods, self.say, self.node = pods, say, pods.node("n1")
        self.other = pods.node("n2")
        self.checkout = pods.checkout()
        self.checkout.make_chart()
        self.readme = steps(section("README.md", "On a cluster"))
        self.before = None

    def install(self):
        started = time.monotonic()
        self.checkout.sh(self.readme[2])
        self.pods.wait_rolled_out()
        self.say(f"helm install to all pods Ready on three nodes: {time.monotonic() - started:.1f} s")
        self.pods.wait_devices()
        self.checkout.sh(self.readme[3])
        self.node.wait_offers(timeout=60, **CARDS)

    def a_pod_for_each_partition(self):
        """And one on a card that is shared. No two have the same."""
        workers = start_workers(self.node, [*PARTITIONS, GPU])
        devices = [assert_sees_its_own(self.node, pod) for pod in workers[:-1]]
        assert len(set(devices)) == len(PARTITIONS)
        self.before = standing(self.node, workers)
        self.say(f"resident memory in the agent's pod: {self.node.resident()}")

    def top_names_the_pods_of_each_partition(self):
        def users():
            (node,) = [n for n in self.asked("top")["nodes"] if n["name"] == self.node.name]
            return sorted(user["name"] for card in node["cards"] for part in card["parts"] for user in part["users"])

        workers = sorted(list(self.before)[:-1])
        wait_for(lambda: users() == workers, 60, lambda: f"{workers}, not {users()}")

    def watch(self):
        prometheus = Prometheus(self.pods, [discovered(self.pods.api, job) for job in scrape_configs()])
        wait_for(lambda: prometheus.jobs_up() == SCRAPED, 60, lambda: f"{SCRAPED}, not {prometheus.jobs_up()}")
        return prometheus

    def an_xid_is_told_and_healed(self, prometheus):
        prometheus.wait_xid_alert(self.other, 0)
        self.other.ctl("xid", "--gpu", 0, "--code", 13)
        # Only shares, which this installation does not give, have no numbers.
        prometheus.wait_data([(where, query) for where, query in [*all_queries(), *page_queries()] if "cleave_agent_share_" not in query], timeout=90)
        wait_for(lambda: prometheus.value("sum(cleave_agent_unhealthy_cards)") == 0, 120, lambda: f"the card to be healed: {self.other.status()}")

    def training(self, layout):
        """A profile for n2, as a file of the checkout."""
        spec = {"nodeSelector": {"matchLabels": {"pool": "training"}}, "devices": [{"mode": "mig", "mig": {"profiles": layout}}]}
        profile = {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "GPUProfile", "metadata": {"name": "training"}, "spec": spec}
        (self.checkout.folder / "training.yaml").write_text(json.dumps(profile))

    def asked(self, question, status=0):
        return json.loads(self.checkout.sh(f"kubectl cleave {question} -o json || [ $? = {status} ]"))

    def a_plan_comes_true(self):
        """For the node's cards, and for nothing else of the cluster."""
        self.training({"1g.10gb": 2, "3g.40gb": 1})
        self.checkout.sh("kubectl label node n2 pool=training")
        plan = self.asked("plan -f training.yaml", status=2)
        assert [node["name"] for node in plan["nodes"]] == ["n2"] and plan["changes"]
        assert [order["waiting"] for order in plan["order"]] == [["n2"]]
        others = self.node.layouts()
        self.checkout.sh("kubectl apply -f training.yaml")
        wait_true(self.other, plan["nodes"][0])
        self.checkout.sh("kubectl wait gpuprofile/training --for=condition=Ready --timeout=2m")
        assert not self.asked("plan -f training.yaml")["changes"]
        assert self.node.layouts() == others and standing(self.node, self.before) == self.before

    def what_why_names_lets_a_pod_run(self):
        wanted = "nvidia.com/mig-4g.40gb"
        pod = self.node.run("waits", "sleep 3600", {wanted: "1"}, nodeSelector={})
        wait_for(lambda: self.asked(f"why {pod}").get("scheduler"), 30, "kube-scheduler to have tried")
        (told,) = self.asked(f"why {pod}")["resources"]
        assert told["verdict"] == f"No node offers {wanted}."
        change = told["change"]
        (card,) = change["cards"]
        assert (change["node"], card["source"]) == ("n2", "training"), change
        self.training(named_layout(card))
        self.checkout.sh("kubectl apply -f training.yaml")
        self.node.wait_phase(pod, "Running", timeout=120)
        assert self.pods.api.get(self.node.pod_path(pod))["spec"]["nodeName"] == "n2"

    def rolled(self, step, tag):
        """A step of the README that replaces all pods, under the eyes of a watch: the figure "absent" is the count of versions."""
        with NodeWatch(self.pods.cluster, self.node.name) as watch:
            self.checkout.sh(self.readme[step])
            self.pods.wait_rolled_out()
            assert_images(self.pods, tag)
            self.node.wait_settled()
            versions = watch.end()
        assert without(versions, {name: str(count) for name, count in CARDS.items()}) == []
        assert standing(self.node, self.before) == self.before
        self.say(f"README's step {step}: {len(versions)} versions of the Node, none without a resource: absent 0 s")

    def uninstall(self):
        self.checkout.sh(without_questions(self.readme[6]))
        wait_for(lambda: self.node.offers() == {}, 30, lambda: f"nothing to be offered: {self.node.offers()}")
        assert [k for n in self.pods.nodes for k in n.labels() if k.startswith(("nvidia.com/", "gpu.cleave.dev/"))] == []
        assert standing(self.node, self.before) == self.before

    def a_pod_gets_what_another_one_leaves(self):
        freed, *_ = self.before
        self.node.delete(freed)
        again = self.node.runner("again", {SMALL: "1"}, LOOK)
        assert [assert_sees_its_own(self.node, again)] == self.before[freed][1]


@pytest.fixture
def day(pods, capsys):
    def say(text):
        with capsys.disabled():
            print(f"\n{text}", end="")

    pods.new_cards()
    day = Day(pods, say)
    yield day
    pods.clear()
    day.checkout.uninstall()
    day.checkout.sh("kubectl label node n1 n2 pool-")


def test_day_one(pods, day):
    day.install()
    day.a_pod_for_each_partition()
    day.top_names_the_pods_of_each_partition()
    prometheus = day.watch()
    day.an_xid_is_told_and_healed(prometheus)
    day.a_plan_comes_true()
    day.what_why_names_lets_a_pod_run()
    prometheus.process.stop()
    pods.cluster.load(images(pods.cluster.rundir, "v2"))
    day.checkout.next_chart("v2")
    day.rolled(4, "v2")
    day.rolled(5, "v1")
    day.uninstall()
    day.install()
    assert standing(day.node, day.before) == day.before
    day.a_pod_gets_what_another_one_leaves()
