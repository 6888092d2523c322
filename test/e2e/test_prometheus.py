# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes controller and agent behind their tokens, with the rules and dashboards as they are shipped.

A minute of the rules is a second here.
"""

import json
import re
import urllib.parse
import urllib.request

import pytest
import yaml
from conftest import wait_for
from kubelet_stub import kubelet  # noqa: F401
from stack import rig  # noqa: F401
from test_metrics_auth import Pair, Scraper, account, can_read, rights  # noqa: F401
from test_monitoring import RULES, all_queries, promtool
from test_plugin_stub import GPU, Host

# What this rig has none of: dcgm-exporter's names come from cards, and shares from pods (test_limiter_audit.py).
OTHERS = re.compile(r"DCGM_FI_|cleave_agent_share_")


def in_seconds(text):
    """Durations of rules and queries, a minute as a second."""
    factors = {"m": 1, "h": 60, "d": 1440}
    return re.sub(r"\b(\d+)([mhd])\b", lambda d: f"{int(d[1]) * factors[d[2]]}s", text)


def shipped_rules():
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in (r for g in groups for r in g["rules"]):
        rule["expr"] = in_seconds(rule["expr"])
        if "for" in rule:
            rule["for"] = in_seconds(rule["for"])
    return {"groups": groups}


class Prometheus:
    def __init__(self, rig, token, **targets):
        folder = rig.folder / "prometheus"
        folder.mkdir()
        (folder / "token").write_text(token)
        (folder / "rules.yaml").write_text(yaml.safe_dump(shipped_rules()))
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [self.job(f"cleave-{name}", served, folder / "token") for name, served in targets.items()],
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        argv = [f"--config.file={folder}/config.yaml", f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:0", "--storage.tsdb.retention.time=1h"]
        self.process = rig.processes("prometheus", "prometheus", *argv)
        wait_for(lambda: self.port() and self.is_ready(), 60, lambda: f"Prometheus:\n{self.process.tail()}")

    def job(self, name, served, token):
        return {
            "job_name": name,
            "scheme": "https",
            "honor_labels": True,
            "authorization": {"credentials_file": str(token)},
            "tls_config": {"ca_file": str(served.pair.ca)},
            "static_configs": [{"targets": [f"127.0.0.1:{served.metrics}"], "labels": {"node": served.process.name}}],
        }

    def port(self):
        found = re.search(r'msg="Listening on" address=127\.0\.0\.1:(\d+)', self.process.text())
        return found and found[1]

    def get(self, path, **words):
        url = f"http://127.0.0.1:{self.port()}{path}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read()

    def is_ready(self):
        try:
            return self.get("/-/ready")
        except OSError:
            return False

    def query(self, expression):
        return json.loads(self.get("/api/v1/query", query=expression))["data"]["result"]

    def value(self, expression):
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def firing(self):
        alerts = json.loads(self.get("/api/v1/alerts"))["data"]["alerts"]
        return {a["labels"]["alertname"] for a in alerts if a["state"] == "firing"}


@pytest.fixture
def watched(rig, rights, kubelet):  # noqa: F811
    """(node, Prometheus): two cards, of which a pod has one; the other one is cut by a profile."""
    pair = Pair(rig.folder / "tls")
    tls = {"metrics_addr": "localhost:0", **pair.flags()}
    controller = Scraper(rig.controller(wait=False, **tls), pair)
    host = Host(rig, kubelet, {"h100-80": 2})
    host.start(health_settle_seconds=3, health_addr="127.0.0.1:0", **tls)
    agent = Scraper(host.node.agent, pair)
    token = account(rig, "prometheus", reads=True)
    wait_for(lambda: can_read(rig, token), 30, "the right to be known")
    prometheus = Prometheus(rig, token, controller=controller, agent=agent)
    rig.wait_ready(rig.profile("p", {"mode": "mig", "mig": {"profiles": {"1g.10gb": 7}}, "selector": {"indices": [1]}}))
    kubelet.wait_offer(GPU, 1)
    kubelet.admit("a", "web", {GPU: 1})
    return host.node, prometheus


def test_the_rules_in_seconds_are_rules(tmp_path):
    assert in_seconds("increase(x_1h_5m[10m]) > 0 unless y offset 1h") == "increase(x_1h_5m[10s]) > 0 unless y offset 60s"
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(shipped_rules()))
    done = promtool("check", "rules", tmp_path / "rules.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_both_are_scraped_and_an_alert_fires_on_an_xid_and_resolves(watched):
    node, prometheus = watched
    wait_for(lambda: {r["metric"]["job"] for r in prometheus.query("up == 1")} == {"cleave-controller", "cleave-agent"}, 30, "both to be scraped")
    wait_for(lambda: prometheus.value("sum(cleave_agent_held)") == 1, 30, "the pod's card")
    assert "CleaveXid" not in prometheus.firing()
    node.ctl("xid", "--gpu", 1, "--code", 48)
    wait_for(lambda: "CleaveXid" in prometheus.firing(), 30, "the alert to fire")
    wait_for(lambda: "CleaveXid" not in prometheus.firing(), 60, "the alert to resolve")


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


def test_each_query_of_the_dashboards_has_data(watched):
    node, prometheus = watched
    node.ctl("xid", "--gpu", 1, "--code", 13)
    # Xids of the last ten seconds are gone after them: each query has to have had data once.
    missing = asked()

    def is_done():
        missing[:] = [(where, q) for where, q in missing if not prometheus.query(in_seconds(q))]
        return not missing

    wait_for(is_done, 60, lambda: f"data for {missing}")


def asked():
    """The queries of the dashboards that this rig has data for."""
    found = [(where, q) for where, q in all_queries() if not OTHERS.search(q)]
    assert len(found) > 30, "most of them"
    return found
