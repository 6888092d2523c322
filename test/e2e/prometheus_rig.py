# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus with the rules as they are shipped, and what the dashboards ask it.

    Prometheus(rig, jobs)       one that scrapes these jobs; it ends with the rig's processes
    all_queries()               what the dashboards ask, with "All" of each variable
    page_queries()              what docs/gpu-metrics.md asks
    scrape_configs()            the jobs of docs/monitoring.md

A minute of rules and queries is a second here.
"""

import json
import re
import subprocess
import urllib.parse
import urllib.request

import yaml
from conftest import ROOT, wait_for
from namespaces import inside

MONITORING = ROOT / "config" / "monitoring"
RULES = MONITORING / "cleave.rules.yaml"
DASHBOARDS = sorted((MONITORING / "dashboards").glob("*.json"))


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


def promtool(*args):
    return subprocess.run(["promtool", *map(str, args)], capture_output=True, text=True, timeout=120, check=False)


def scrape_configs():
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    return yaml.safe_load(re.search(r"^```yaml\n(scrape_configs:.*?)^```$", page, re.M | re.S)[1])["scrape_configs"]


# --- what dashboards ask ---


def panels(dashboard):
    return [p for p in dashboard["panels"] if p["type"] != "row"]


def queries(dashboard):
    """(where, query) as Grafana would ask them."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield panel["title"], fill(target["expr"])
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], re.fullmatch(r"label_values\((.+), \w+\)", variable["query"]["query"])[1]


def fill(query):
    """With "All" of each variable."""
    return re.sub(r"\$[a-z]\w*", ".*", query.replace("$__rate_interval", "5m").replace("$__range", "1h"))


def all_queries():
    return [(f"{file.stem}: {where}", q) for file in DASHBOARDS for where, q in queries(json.loads(file.read_text(encoding="utf-8")))]


def page_queries():
    """What docs/gpu-metrics.md asks about pods."""
    page = (ROOT / "docs" / "gpu-metrics.md").read_text(encoding="utf-8")
    lines = re.search(r"^```promql\n(.*?)^```$", page, re.M | re.S)[1].splitlines()
    return [(comment.lstrip("# "), query) for comment, query in zip(lines[::2], lines[1::2], strict=True)]


# --- Prometheus ---


class Prometheus:
    """From the start on it scrapes each second; where it runs is where the rig's controller would."""

    def __init__(self, rig, jobs):
        folder = rig.folder / "prometheus"
        folder.mkdir(parents=True)
        (folder / "rules.yaml").write_text(yaml.safe_dump(shipped_rules()))
        times = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        (folder / "config.yaml").write_text(yaml.safe_dump({"global": times, "rule_files": ["rules.yaml"], "scrape_configs": jobs}))
        argv = [f"--config.file={folder}/config.yaml", f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:0", "--storage.tsdb.retention.time=1h"]
        self.process = rig.processes("prometheus", "prometheus", *argv, where=rig.where)
        wait_for(lambda: self.port() and self.is_ready(), 60, lambda: f"Prometheus:\n{self.process.tail()}")

    def port(self):
        found = re.search(r'msg="Listening on" address=127\.0\.0\.1:(\d+)', self.process.text())
        return found and found[1]

    def get(self, path, **words):
        url = f"http://127.0.0.1:{self.port()}{path}?{urllib.parse.urlencode(words)}"
        with inside(self.process.pid, "net"), urllib.request.urlopen(url, timeout=30) as answer:
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

    def jobs_up(self):
        """{job: how many of its targets are scraped}"""
        return {r["metric"]["job"]: int(r["value"][1]) for r in self.query("sum by (job) (up)")}

    def firing(self):
        alerts = json.loads(self.get("/api/v1/alerts"))["data"]["alerts"]
        return {a["labels"]["alertname"] for a in alerts if a["state"] == "firing"}

    def wait_data(self, asked, timeout=60):
        """Until each query has had data once: some is there for seconds, as Xids of the last ten are."""
        missing = list(asked)

        def is_done():
            missing[:] = [(where, q) for where, q in missing if not self.query(in_seconds(q))]
            return not missing

        wait_for(is_done, timeout, lambda: f"data for {missing}")

    def wait_xid_alert(self, node, gpu):
        """An Xid of this card for which it must be reset: the alert fires, and resolves when it is over."""
        assert "CleaveXid" not in self.firing()
        node.ctl("xid", "--gpu", gpu, "--code", 48)
        wait_for(lambda: "CleaveXid" in self.firing(), 30, "the alert to fire")
        wait_for(lambda: "CleaveXid" not in self.firing(), 60, "the alert to resolve")
