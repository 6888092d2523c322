# SPDX-License-Identifier: Apache-2.0
"""/metrics, /healthz and /readyz of both programs, by the habits of Prometheus."""

import re

from conftest import ROOT, wait_for
from stack import fetch, listening_ports, rig, serve  # noqa: F401

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)$')
UNITS = ("_seconds", "_bytes", "_total", "_ratio", "_info")


def parse(text):
    """{family: (type, help, {(name, labels): value})} of the text format; anything odd is a failure."""
    assert text.endswith("\n")
    families, current = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, told = line.split(" ", 3)
            assert name not in families, f"{name} twice"
            families[name] = [None, told, {}]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("counter", "gauge", "histogram"), line
            families[name][0] = kind
            current = name
        else:
            found = SAMPLE.match(line)
            assert found, f"not a sample: {line!r}"
            name, labels, value = found.groups()
            assert name == current or (families[current][0] == "histogram" and re.fullmatch(f"{current}_(bucket|sum|count)", name)), line
            key = (name, labels or "")
            assert key not in families[current][2], f"{line} twice"
            families[current][2][key] = float(value)
    return families


def check_habits(families):
    for name, (kind, told, samples) in families.items():
        assert kind and told.strip(), name
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name), name
        assert (kind == "counter") == name.endswith("_total"), f"{name} is a {kind}"
        if kind == "histogram":
            assert name.endswith(UNITS), f"{name} has no unit"
            check_buckets(name, samples)


def check_buckets(name, samples):
    series = {}
    for (sample, labels), value in samples.items():
        if sample == f"{name}_bucket":
            bound = re.search(r'le="([^"]*)"', labels).group(1)
            rest = re.sub(r',?le="[^"]*"', "", labels).strip(",")
            series.setdefault(rest, []).append((float(bound), value))
    for rest, buckets in series.items():
        bounds, values = zip(*buckets, strict=True)
        assert list(bounds) == sorted(bounds) and bounds[-1] == float("inf"), name
        assert list(values) == sorted(values), name
        assert samples[(f"{name}_count", rest)] == values[-1], name


def test_the_agents_metrics_parse_and_count(rig):
    node = rig.node({"h100-80": 2})
    node.want({"uuid": node.uuid(), "mode": "mig", "mig": {"profiles": [{"profile": "1g.10gb", "count": 7}]}})
    node.wait_ready()
    wait_for(lambda: "cleave_agent_partitions 7" in serve(node.agent, "/metrics")[1], 30, "the gauge")
    families = parse(serve(node.agent, "/metrics")[1])
    check_habits(families)
    assert families["cleave_agent_cards"][2][("cleave_agent_cards", "")] == 2
    assert families["cleave_agent_library_stuck"][2][("cleave_agent_library_stuck", "")] == 0
    assert families["cleave_agent_transactions_total"][2][("cleave_agent_transactions_total", 'outcome="Applied"')] == 1
    assert families["cleave_agent_transaction_seconds"][2][("cleave_agent_transaction_seconds_count", "")] == 1


def test_the_controllers_metrics_parse_and_bear_the_names_dashboards_know(rig):
    controller = rig.controller()
    rig.node()
    rig.wait_ready(rig.profile("p", {"mode": "mig", "mig": {"profiles": {"1g.10gb": 7}}}))
    families = parse(serve(controller, "/metrics")[1])
    check_habits(families)
    assert {"workqueue_depth", "workqueue_adds_total", "controller_runtime_reconcile_total", "leader_election_master_status"} <= families.keys()
    done = families["controller_runtime_reconcile_total"][2]
    assert sum(v for (_, labels), v in done.items() if 'controller="gpuprofile"' in labels and 'result="success"' in labels) > 0
    assert sum(families["controller_runtime_reconcile_errors_total"][2].values()) == 0


def test_the_controllers_own_metrics_tell_of_profiles_nodes_and_writes(rig):
    controller = rig.controller()
    node = rig.node()

    def value(name, labels):
        return parse(serve(controller, "/metrics")[1])[name][2].get((name, labels), 0)

    rig.wait_ready(rig.profile("p", {"mode": "mig", "mig": {"profiles": {"1g.10gb": 7}}}))
    wait_for(lambda: value("cleave_controller_profiles", 'ready="true"') >= 1, 30, "the profile")
    wait_for(lambda: value("cleave_controller_devices", 'ready="true"') >= 1, 30, "the Device")
    node.label(**{"nvidia.com/mig.config": "all-3g.40gb"})
    wait_for(lambda: value("cleave_controller_nodes", 'state="success"') >= 1, 30, "the node")
    families = parse(serve(controller, "/metrics")[1])
    check_habits(families)
    done = {labels: n for (_, labels), n in families["cleave_controller_writes_total"][2].items()}
    for resource in ("devices", "gpuprofiles/status", "nodes/status"):
        assert done[f'resource="{resource}",result="Success"'] >= 1, done
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert [name for name in families if f"`{name}`" not in page] == []


def test_the_agents_metrics_are_in_the_docs(rig):
    node = rig.node()
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert [name for name in parse(serve(node.agent, "/metrics")[1]) if f"`{name}`" not in page] == []


def test_health_and_metrics_have_ports_of_their_own_and_nothing_else_is_served(rig):
    node = rig.node(start=False)
    agent = node.start(health_addr="127.0.0.1:0", metrics_addr=":0")
    wait_for(lambda: len(listening_ports(agent.pid)) == 2, 30, "both ports")
    wait_for(lambda: serve(agent, "/readyz")[0] == 200, 30, "readiness")
    for port in listening_ports(agent.pid):
        for path in ("/", "/debug/pprof", "/healthz/", "/metrics/x"):
            assert fetch(port, path)[0] in (403, 404)
    codes = {tuple(fetch(port, path)[0] for path in ("/healthz", "/readyz", "/metrics")) for port in listening_ports(agent.pid)}
    assert codes == {(200, 200, 404), (404, 404, 200)}


def test_a_controller_without_an_api_server_is_alive_and_not_ready(rig):
    kubeconfig = rig.controller_kubeconfig("lost")
    kubeconfig.write_text(kubeconfig.read_text().replace(rig.cluster.server, "https://127.0.0.1:9"))
    controller = rig.controller("lost", kubeconfig=kubeconfig, wait=False)
    wait_for(lambda: serve(controller, "/healthz")[0] == 200, 30, "the health port")
    code, text = serve(controller, "/readyz")
    assert code == 503 and text.strip()


def test_an_agent_without_an_api_server_is_alive_and_keeps_the_cards(rig):
    node = rig.node(start=False)
    node.kubeconfig.write_text(node.kubeconfig.read_text().replace(rig.cluster.server, "https://127.0.0.1:9"))
    agent = node.start()
    wait_for(lambda: serve(agent, "/healthz")[0] == 200, 30, "the health port")
    assert serve(agent, "/readyz")[0] == 503
    node.wait_reads(2)
    assert agent.stop() == 0
