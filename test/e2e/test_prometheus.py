# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes controller and agent behind their tokens, with the rules and dashboards as they are shipped."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from conftest import wait_for
from kubelet_stub import kubelet  # noqa: F401
from prometheus_rig import Prometheus, all_queries, in_seconds, promtool, scrape_configs, shipped_rules
from stack import rig  # noqa: F401
from test_limiter_audit import Watched
from test_metrics_auth import Pair, Scraper, account, can_read, rights  # noqa: F401
from test_plugin_stub import GPU, Host

SEVENTHS = {"mode": "mig", "mig": {"profiles": {"1g.10gb": 7}}}
JOBS = ("cleave-controller", "cleave-agent", "cleave-telemetry")


def bounds(name):
    """What docs/monitoring.md has against a page of somebody else's."""
    (found,) = (j for j in scrape_configs() if j["job_name"] == name)
    return {key: found[key] for key in ("sample_limit", "metric_relabel_configs")}


def job(name, node, served, token, **more):
    return {
        **bounds(name),
        "job_name": name,
        "scheme": "https",
        "honor_labels": True,
        "authorization": {"credentials": token},
        "tls_config": {"ca_file": str(served.pair.ca)},
        "static_configs": [{"targets": [f"127.0.0.1:{served.metrics}"], "labels": {"node": node}}],
        **more,
    }


class Site:
    """A node with its agent, and the controller; all that Prometheus is to be told of them."""

    def __init__(self, rig):  # noqa: F811
        self.rig, self.pair = rig, Pair(rig.folder / "tls")
        self.tls = {"metrics_addr": "localhost:0", **self.pair.flags()}
        self.agent_flags = {"telemetry_interval": 1, "health_settle_seconds": 3, **self.tls}

    def watch(self, node, **telemetry):
        """Starts the controller, and a Prometheus that may read both; telemetry: more of the job for the agent's second page, which fails then."""
        controller = Scraper(self.rig.controller(wait=False, **self.tls), self.pair)
        agent = Scraper(node.agent, self.pair)
        token = account(self.rig, "prometheus", reads=True)
        wait_for(lambda: can_read(self.rig, token), 30, "the right to be known")
        second = job("cleave-telemetry", node.name, agent, token, metrics_path="/metrics/telemetry", **telemetry)
        prometheus = Prometheus(self.rig, [job("cleave-controller", "control-plane", controller, token), job("cleave-agent", node.name, agent, token), second])
        expected = {**dict.fromkeys(JOBS, 1), "cleave-telemetry": int(not telemetry)}
        wait_for(lambda: prometheus.jobs_up() == expected, 30, lambda: f"all to be scraped, not {prometheus.jobs_up()}")
        return prometheus


@pytest.fixture
def watched(rig, rights, kubelet):  # noqa: F811
    """(node, Prometheus): two cards, of which a pod has one; the other one is cut by a profile."""
    site = Site(rig)
    host = Host(rig, kubelet, {"h100-80": 2})
    host.start(**site.agent_flags)
    prometheus = site.watch(host.node)
    rig.wait_ready(rig.profile("p", {**SEVENTHS, "selector": {"indices": [1]}}))
    kubelet.wait_offer(GPU, 1)
    kubelet.admit("a", "web", {GPU: 1})
    return host.node, prometheus


@pytest.fixture
def of_each_kind(rig, rights, kubelet):  # noqa: F811
    """(node, Prometheus): three cards, of which one is whole, one cut, and one shared; a container has a share of it."""
    site = Site(rig)
    limited = Watched(rig, kubelet, cards=3, agent=site.agent_flags)
    container = limited.container("worker", gpumem=3000)
    shared = limited.card_of(container.pod)
    cut = (shared + 1) % 3
    container.process(1500, card=shared)
    prometheus = site.watch(limited.node)
    sharing = {"mode": "native", "sharing": {"fractional": {}}, "selector": {"indices": [shared]}}
    rig.wait_ready(rig.profile("p", {**SEVENTHS, "selector": {"indices": [cut]}}, sharing))
    yield limited.node, prometheus
    for process in limited.processes:
        process.end()


def test_the_rules_in_seconds_are_rules(tmp_path):
    assert in_seconds("increase(x_1h_5m[10m]) > 0 unless y offset 1h") == "increase(x_1h_5m[10s]) > 0 unless y offset 60s"
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(shipped_rules()))
    done = promtool("check", "rules", tmp_path / "rules.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_fires_on_an_xid_and_resolves(watched):
    node, prometheus = watched
    wait_for(lambda: prometheus.value("sum(cleave_agent_held)") == 1, 30, "the pod's card")
    prometheus.wait_xid_alert(node, 1)


def test_an_agent_that_is_down_is_told_of_once(watched):
    """Though two of its pages are scraped."""
    node, prometheus = watched
    node.agent.kill()
    wait_for(lambda: "CleaveAgentDown" in prometheus.firing(), 60, lambda: f"the alert, besides {prometheus.firing()}")
    assert prometheus.value('count(ALERTS{alertname="CleaveAgentDown"})') == 1
    assert prometheus.value('sum(up{job=~"cleave-agent.*"} == bool 0)') == 1
    assert "CleaveTelemetryDown" not in prometheus.firing()


def test_a_page_of_telemetry_that_cannot_be_scraped_is_told_of_by_an_alert_of_its_own(rig, rights, kubelet):  # noqa: F811
    """It is longer than this Prometheus takes; the agent's other page is not."""
    site = Site(rig)
    host = Host(rig, kubelet, {"h100-80": 1})
    host.start(**site.agent_flags)
    prometheus = site.watch(host.node, sample_limit=1)
    wait_for(lambda: "CleaveTelemetryDown" in prometheus.firing(), 60, lambda: f"the alert, besides {prometheus.firing()}")
    assert "CleaveAgentDown" not in prometheus.firing()


def test_capacity_grants_and_free_room_are_those_of_the_cards(watched):
    """Card 0 is a pod's, card 1 in seven parts that nobody has."""
    _, prometheus = watched
    small = "nvidia.com/mig-1g.10gb"
    expected = {
        f'cleave:capacity:max{{resource="{GPU}"}}': 1,
        f'cleave:granted:max{{resource="{GPU}",namespace="a"}}': 1,
        f'cleave:free:max{{resource="{GPU}"}}': 0,
        f'cleave:capacity:max{{resource="{small}"}}': 7,
        f'cleave:free:max{{resource="{small}"}}': 7,
        "cleave:cards:max": 2,
        "cleave:memory_bytes:max / cleave:memory_free_bytes:max": 2,
        "sum(cleave_controller_wish_seconds_count) >= bool 1": 1,
    }
    wait_for(lambda: {q: prometheus.value(q) for q in expected} == expected, 60, lambda: {q: prometheus.value(q) for q in expected})


def test_a_pod_has_its_cards_own_numbers(watched):
    """Of its whole card, under the node that Prometheus knows as well."""
    node, prometheus = watched
    of = f'Hostname="{node.name}",node="{node.name}",namespace="a",pod="web",UUID="{node.uuid(0)}"'
    wait_for(lambda: prometheus.value(f"DCGM_FI_PROF_SM_ACTIVE{{{of}}}") is not None, 60, "the pod's card, by its counters")
    assert prometheus.value(f"count(DCGM_FI_DEV_POWER_USAGE{{{of}}})") == 1
    assert prometheus.value('count(DCGM_FI_DEV_FB_USED{GPU_I_PROFILE="1g.10gb"})') == 7


def test_each_query_of_each_dashboard_has_data(of_each_kind):
    node, prometheus = of_each_kind
    node.ctl("xid", "--gpu", 1, "--code", 13)
    asked = all_queries()
    assert len(asked) > 70
    prometheus.wait_data(asked)


class Forged(BaseHTTPRequestHandler):
    def do_GET(self):  # noqa: N802
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b'cleave_own 1\napiserver_request_total{job="kube-apiserver"} 1\nup{job="kube-apiserver",instance="a:6443"} 0\n')

    def log_message(self, *_):
        pass


@pytest.fixture
def forger():
    """The address of a server that poses as an API server's page."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Forged)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_whoever_answers_in_an_agents_place_stays_in_its_job(rig, forger):
    """Somebody who has the node, say."""
    static = {"honor_labels": True, "static_configs": [{"targets": [forger]}]}
    prometheus = Prometheus(rig, [{"job_name": "cleave-agent", **bounds("cleave-agent"), **static}])
    wait_for(lambda: prometheus.value("sum(cleave_own)") == 1, 30, "a sample that is the job's own")
    assert prometheus.query('{job="kube-apiserver"}') == []
