# SPDX-License-Identifier: Apache-2.0
"""The rules, alerts and dashboards of config/monitoring: what they say of which metrics, and that people can read on.

promtool judges the rules and parses each query; a metric that nobody serves is found here, and not by an empty panel.
"""

import functools
import json
import re
import subprocess

import pytest
import yaml
from alert_cases import CASES
from conftest import ROOT
from prometheus_rig import DASHBOARDS, MONITORING, RULES, all_queries, panels, promtool, scrape_configs

# Prometheus' own.
OWN = {"up"}
WORDS = re.compile(r"\b(?:cleave_|DCGM_FI_|controller_runtime_|leader_election_|workqueue_|hami_)\w+")


def groups():
    return yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]


def rules(kind):
    return [r for g in groups() for r in g["rules"] if kind in r]


# --- the rules ---


def test_promtool_takes_the_rules():
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


def promtools_test(case):
    severity = next(r["labels"]["severity"] for r in rules("alert") if r["alert"] == case.alert)
    expected = [{"exp_labels": {"severity": severity, **case.labels}, "exp_annotations": {"summary": case.summary}}] if case.summary else []
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "alert_rule_test": [{"alertname": case.alert, "eval_time": case.at, "exp_alerts": expected}],
    }


def test_alerts_fire_when_they_should_and_only_then(tmp_path):
    """One run for all: promtool takes a tenth of a second to start."""
    file = tmp_path / "alerts.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [promtools_test(c) for c in CASES]}), encoding="utf-8")
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case_that_fires_and_one_that_does_not():
    names = sorted(r["alert"] for r in rules("alert"))
    assert len(names) == len(set(names)) > 25
    assert sorted({c.alert for c in CASES if c.summary}) == names
    assert sorted({c.alert for c in CASES if not c.summary}) == names


def test_alerts_have_a_severity_and_say_what_is_wrong():
    for rule in rules("alert"):
        assert rule["alert"].startswith("Cleave"), rule
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule
        assert rule["annotations"].keys() == {"summary"}, rule


def test_the_xid_alert_has_the_xids_that_the_agent_takes_for_a_reset_or_a_reboot():
    table = (ROOT / "nodeagent" / "health" / "health.c").read_text(encoding="utf-8")
    rows = re.findall(r"\{(\d+), (\d+), XID_(\w+),", table)
    assert len(rows) > 40
    broken = {xid for first, last, effect in rows if effect in ("RESET", "REBOOT") for xid in range(int(first), int(last) + 1)}
    alert = next(r for r in rules("alert") if r["alert"] == "CleaveXid")
    assert {int(xid) for xid in re.search(r'xid=~"([\d|]+)"', alert["expr"])[1].split("|")} == broken


# --- the paragraphs ---


def sections(page):
    """{heading: text} of the third level."""
    parts = re.split(r"^### (.+)$", page, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_each_alert_has_a_paragraph_and_each_paragraph_an_alert():
    found = sections((ROOT / "docs" / "alerts.md").read_text(encoding="utf-8"))
    assert sorted(found) == sorted(r["alert"] for r in rules("alert"))
    for name, text in found.items():
        assert len(text.split()) > 20, f"{name} says too little"
        assert "`" in text, f"{name} names no command, metric or page to look at"


# --- names of metrics ---


@functools.cache
def served():
    """The names that the sources register; of a histogram those of its series."""
    names = set()
    for folder in ("controller", "reconcilers", "scheduler", "service", "nodeagent"):
        for file in (ROOT / folder).rglob("*.c"):
            text = file.read_text(encoding="utf-8")
            names |= set(re.findall(r'"((?:cleave|controller_runtime|leader_election|workqueue)_\w+)"', text))
    return names


@functools.cache
def dcgm():
    lines = (ROOT / "test" / "e2e" / "dcgm-names.txt").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def recorded():
    return {r["record"] for r in rules("record")}


def is_known(name):
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return name in served() | dcgm() or base in served()


def unknown_in(query):
    unquoted = re.sub(r'"[^"]*"', '""', query)
    rules_named = set(re.findall(r"\bcleave:[\w:]+", unquoted))
    return {n for n in WORDS.findall(re.sub(r"\bcleave:[\w:]+", "", unquoted)) if not is_known(n)} | (rules_named - recorded())


def test_a_name_that_nobody_serves_is_found():
    assert unknown_in("sum(cleave_controller_devices)") == set()
    assert unknown_in('sum(cleave_controller_device{a="cleave_agent_x"}) + cleave:nothing:max') == {"cleave_controller_device", "cleave:nothing:max"}
    assert unknown_in("DCGM_FI_DEV_SM_CLOCKS + DCGM_FI_DEV_SM_CLOCK") == {"DCGM_FI_DEV_SM_CLOCKS"}


def test_rules_are_of_metrics_that_somebody_serves():
    for rule in rules("expr"):
        assert unknown_in(rule["expr"]) == set(), rule


def test_rules_and_dashboards_are_of_metrics_that_the_docs_list():
    page = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("metrics.md", "gpu-metrics.md"))
    named = {n for q in [r["expr"] for r in rules("expr")] + [q for _, q in all_queries()] for n in WORDS.findall(re.sub(r'"[^"]*"|\bcleave:[\w:]+', "", q))}
    named = {re.sub(r"_(bucket|sum|count)$", "", n) for n in named if not n.startswith("DCGM_FI_")}
    assert len(named) > 20
    assert [n for n in sorted(named) if f"`{n}`" not in page] == []


# --- dashboards ---


def test_there_is_a_dashboard_for_each_view():
    assert [f.stem for f in DASHBOARDS] == ["cleave-capacity", "cleave-card", "cleave-cluster", "cleave-node", "cleave-pod"]


def test_each_query_parses(tmp_path):
    """As expressions of rules: promtool of Debian 12 has no other way to parse one."""
    found = all_queries()
    assert len(found) > 40
    file = tmp_path / "queries.yaml"
    asked = [{"record": f"q:{i}", "expr": q, "labels": {"at": where}} for i, (where, q) in enumerate(found)]
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": asked}]}), encoding="utf-8")
    done = promtool("check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("query", ["sum(", "rate(cleave_http_restarts_total)"])
def test_a_query_that_does_not_parse_is_refused(query, tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "q", "rules": [{"record": "q:0", "expr": query}]}]}), encoding="utf-8")
    assert promtool("check", "rules", file).returncode != 0


def test_each_query_is_of_metrics_that_somebody_serves():
    assert [(where, unknown_in(q)) for where, q in all_queries() if unknown_in(q)] == []


SHARED = """
{Hostname="n1",gpu="0",modelName="H100",namespace="a",pod="x"} 40
{Hostname="n1",gpu="0",modelName="H100",namespace="b",pod="y"} 20
{Hostname="n1",gpu="0",modelName="H100"} 5
{Hostname="n1",gpu="1",modelName="H100",namespace="a",pod="z"} 35
""".split("\n")[1:-1]


@pytest.mark.parametrize("metric", ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"])
def test_of_a_card_that_pods_share_dashboards_show_the_sum_of_its_series(metric, tmp_path):
    """These two have a series for each pod, and one for the rest (docs/gpu-metrics.md)."""
    by_card = [{"labels": '{Hostname="n1", gpu="0"}', "value": 65}, {"labels": '{Hostname="n1", gpu="1"}', "value": 35}]
    by_model = [{"labels": '{modelName="H100"}', "value": 50}]
    asked = [(where, q) for where, q in all_queries() if metric + "{" in q + "{" and not where.startswith("cleave-pod")]
    assert len(asked) > 1
    cases = [{"expr": q, "eval_time": "1m", "exp_samples": by_model if " by (modelName)" in q else by_card} for _, q in asked]
    series = [{"series": metric + line.rsplit(" ", 1)[0], "values": line.rsplit(" ", 1)[1] + "x5"} for line in SHARED]
    file = tmp_path / "shared.yaml"
    file.write_text(yaml.safe_dump({"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": cases}]}), encoding="utf-8")
    done = promtool("test", "rules", file)
    assert done.returncode == 0, f"{asked}\n{done.stdout}{done.stderr}"


def test_each_variable_in_a_query_is_one_of_its_dashboard():
    for file in DASHBOARDS:
        dashboard = json.loads(file.read_text(encoding="utf-8"))
        has = {v["name"] for v in dashboard["templating"]["list"]} | {"__rate_interval", "__range"}
        used = {v for p in panels(dashboard) for t in p["targets"] for v in re.findall(r"\$(\w+)", t["expr"])}
        assert used <= has, file.name


def test_panels_have_titles_units_and_places_of_their_own():
    for file in DASHBOARDS:
        dashboard = json.loads(file.read_text(encoding="utf-8"))
        taken = set()
        assert dashboard["uid"] == file.stem and len(dashboard["uid"]) <= 40
        assert len({p["title"] for p in panels(dashboard)}) == len(panels(dashboard)) > 3
        for panel in panels(dashboard):
            assert panel["description"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"]
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
            taken |= cells


# --- who is scraped ---


def jobs_of_the_operator():
    """(job, path): a job has its Service's name, unless the ServiceMonitor names it."""
    for file in ("scrape/servicemonitors.yaml", "telemetry/servicemonitor.yaml"):
        for monitor in yaml.safe_load_all((MONITORING / file).read_text(encoding="utf-8")):
            service = f"cleave-{monitor['spec']['selector']['matchLabels']['app.kubernetes.io/component']}-metrics"
            for endpoint in monitor["spec"]["endpoints"]:
                named = [r["replacement"] for r in endpoint["relabelings"] if r["targetLabel"] == "job"]
                yield (*named, service)[0], endpoint.get("path", "/metrics")


def jobs_of_the_page():
    """The same of docs/monitoring.md."""
    return [(job["job_name"], job.get("metrics_path", "/metrics")) for job in scrape_configs()]


PAGES = {"cleave-agent.*": "/metrics", "cleave-controller.*": "/metrics", "cleave-telemetry.*": "/metrics/telemetry"}


@pytest.mark.parametrize("jobs", [jobs_of_the_operator, jobs_of_the_page])
def test_an_agent_that_is_down_is_counted_once_though_it_has_two_pages(jobs):
    """What rules and dashboards ask of a job is asked of one page."""
    asked = {p for q in [r["expr"] for r in rules("expr")] + [q for _, q in all_queries()] for p in re.findall(r'\bup\{job=~"([^"]+)"', q)}
    assert asked == PAGES.keys()
    for pattern, page in PAGES.items():
        assert [path for job, path in jobs() if re.fullmatch(pattern, job)] == [page], pattern


# --- what is made of them ---


def test_what_is_made_of_rules_and_panels_is_up_to_date():
    done = subprocess.run([ROOT / "hack" / "monitoring.py", "--check"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_prometheus_rule_has_the_same_groups():
    made = yaml.safe_load((MONITORING / "rules" / "prometheusrule.yaml").read_text(encoding="utf-8"))
    assert made["spec"]["groups"] == groups()


def test_the_config_maps_have_all_dashboards():
    made = yaml.safe_load((MONITORING / "dashboards" / "kustomization.yaml").read_text(encoding="utf-8"))
    assert [f for g in made["configMapGenerator"] for f in g["files"]] == [f.name for f in DASHBOARDS]
    assert all(f.stat().st_size < 200_000 for f in DASHBOARDS), "a ConfigMap holds 1 MiB"
