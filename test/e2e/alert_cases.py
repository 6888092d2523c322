# SPDX-License-Identifier: Apache-2.0
"""When each alert of config/monitoring fires, and when it does not: the specification of the rules.

A case is what Prometheus sees, a value a minute in promtool's notation, and what becomes of it at a time. An alert that
must stay quiet has a case without a summary.
"""

from typing import NamedTuple


class Case(NamedTuple):
    alert: str
    series: dict  # a series: its values
    at: str  # the time at which is looked
    summary: str = ""  # of the alert that fires; "": none does
    labels: dict = {}  # noqa: RUF012 - of the alert, besides its severity


HELD = {"node": "n1", "instance": "10.0.0.1:8080"}
IN_NODE = 'node="n1",instance="10.0.0.1:8080"'
OTHER_NODE = 'node="n2",instance="10.0.0.2:8080"'
NODE = f"{{{IN_NODE}}}"
CARD = {**HELD, "Hostname": "n1", "gpu": "0", "UUID": "GPU-1"}
CARD_TEXT = '{node="n1",instance="10.0.0.1:8080",Hostname="n1",gpu="0",UUID="GPU-1"}'
POD = '{instance="10.0.0.1:8080",gpu="GPU-1",namespace="a",pod="web",container="c",reason="ShareOverLimit"}'
MODEL = '{model="H100",instance="c1"}'


def memory(card, free, largest):
    """Of ten cards of one model, in units of a hundredth of one card."""
    return {
        f"cleave_controller_cards{MODEL}": "10x180",
        f"cleave_controller_memory_bytes{MODEL}": f"{card * 10}x180",
        f"cleave_controller_memory_free_bytes{MODEL}": f"{free}x180",
        f"cleave_controller_largest_free_bytes{MODEL}": f"{largest}x180",
    }


def pages(agent, telemetry=None, of=IN_NODE):
    """Whether the two pages of an agent are scraped; telemetry=None: nobody scrapes the second one."""
    found = {f'up{{job="cleave-agent-metrics",{of}}}': agent}
    return {**found, f'up{{job="cleave-telemetry",{of}}}': telemetry} if telemetry else found


def replicas(name, first, second, labels=""):
    """Of two replicas of the controller, which count the same objects at different times."""
    return {f'{name}{{instance="c{i}"{labels}}}': f"{value}x180" for i, value in enumerate((first, second))}


CASES = [
    # --- cards ---
    Case(
        "CleaveCardIll",
        {f"cleave_agent_unhealthy_cards{NODE}": "0x5 1x20", f"cleave_agent_unhealthy_partitions{NODE}": "0x5 2x20"},
        "12m",
        "3 cards or partitions of n1 are not well and get no pods",
        HELD,
    ),
    Case("CleaveCardIll", {f"cleave_agent_unhealthy_cards{NODE}": "1x3 0x20", f"cleave_agent_unhealthy_partitions{NODE}": "0x30"}, "12m"),
    Case("CleaveCardLost", {f"cleave_agent_cards{NODE}": "8x30 7x60"}, "45m", "n1 has 7 cards, fewer than some hours ago", HELD),
    Case("CleaveCardLost", {f"cleave_agent_cards{NODE}": "8x30 0x3 8x60"}, "45m"),
    Case("CleaveXid", {'cleave_agent_xids_total{node="n1",instance="i",xid="79"}': "_x10 1x20"}, "12m", "a card of n1 reported Xid 79", {"node": "n1", "instance": "i", "xid": "79"}),
    Case("CleaveXid", {'cleave_agent_xids_total{instance="i",xid="48"}': "3x30 4x20"}, "32m", "a card of i reported Xid 48", {"instance": "i", "xid": "48"}),
    Case("CleaveXid", {'cleave_agent_xids_total{instance="i",xid="79"}': "_x10 1x40"}, "40m"),
    Case("CleaveXid", {'cleave_agent_xids_total{instance="i",xid="31"}': "_x10 1+1x20"}, "15m"),
    Case(
        "CleaveManyCorrectedErrors",
        {'cleave_agent_xids_total{node="n1",xid="92"}': "_x10 1x20"},
        "12m",
        "the memory of a card of n1 has many corrected errors (Xid 92)",
        {"node": "n1", "xid": "92"},
    ),
    Case("CleaveManyCorrectedErrors", {'cleave_agent_xids_total{node="n1",xid="92"}': "5x60"}, "40m"),
    Case("CleaveRowRemapFailure", {f"DCGM_FI_DEV_ROW_REMAP_FAILURE{CARD_TEXT}": "0x5 1x5"}, "7m", "card 0 of n1 could not remap rows of its memory", CARD),
    Case("CleaveRowRemapFailure", {f"DCGM_FI_DEV_ROW_REMAP_FAILURE{CARD_TEXT}": "0x20"}, "7m"),
    Case(
        "CleaveRowsRemapped",
        {f"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{CARD_TEXT}": "0x70 1x20"},
        "75m",
        "card 0 of n1 remapped rows of its memory after uncorrectable errors",
        CARD,
    ),
    Case("CleaveRowsRemapped", {f"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{CARD_TEXT}": "2x100"}, "75m"),
    Case("CleaveCardHot", {f"DCGM_FI_DEV_GPU_TEMP{CARD_TEXT}": "91x20"}, "12m", "card 0 of n1 has 91 °C", CARD),
    Case("CleaveCardHot", {f"DCGM_FI_DEV_GPU_TEMP{CARD_TEXT}": "89x20"}, "12m"),
    Case(
        "CleaveCardIdle",
        {'DCGM_FI_DEV_GPU_UTIL{Hostname="n1",gpu="0",namespace="a",pod="web"}': "0x300"},
        "4h",
        "pod a/web has card 0 of n1 and has done nothing on it for hours",
        {"namespace": "a", "pod": "web", "Hostname": "n1", "gpu": "0"},
    ),
    Case("CleaveCardIdle", {'DCGM_FI_DEV_GPU_UTIL{Hostname="n1",gpu="0",namespace="a",pod="web"}': "0x150 3x1 0x150"}, "4h"),
    Case("CleaveCardIdle", {'DCGM_FI_DEV_GPU_UTIL{Hostname="n1",gpu="0"}': "0x300"}, "4h"),
    Case("CleaveCardUnwatched", {f"cleave_agent_unwatched_cards{NODE}": "2x90"}, "80m", "the driver of n1 reports no events of 2 cards", HELD),
    Case("CleaveCardUnwatched", {f"cleave_agent_unwatched_cards{NODE}": "2x30 0x60"}, "80m"),
    # --- agents ---
    Case(
        "CleaveAgentDown",
        {'up{job="cleave-agent-metrics",node="n1"}': "1x5 0x20"},
        "20m",
        "the agent of n1 cannot be scraped",
        {"job": "cleave-agent-metrics", "node": "n1"},
    ),
    Case("CleaveAgentDown", {'up{job="other",node="n1"}': "0x30", 'up{job="cleave-agent",node="n1"}': "0x5 1x30"}, "20m"),
    Case("CleaveAgentSilent", replicas("cleave_controller_devices_unanswered", 2, 1), "6m", "2 agents do not answer an order"),
    Case("CleaveAgentSilent", replicas("cleave_controller_devices_unanswered", 0, 0), "6m"),
    Case("CleaveAgentNotServing", replicas("cleave_controller_devices_unserved", 1, 1), "6m", "kubelets of 1 nodes have none of the cards that these nodes offer"),
    Case("CleaveAgentNotServing", replicas("cleave_controller_devices_unserved", 0, 0), "6m"),
    Case("CleaveLibraryStuck", {f"cleave_agent_library_stuck{NODE}": "0x5 1x1 0x2"}, "8m", "a call into the library of the driver does not return on n1", HELD),
    Case("CleaveLibraryStuck", {f"cleave_agent_library_stuck{NODE}": "1x1 0x30"}, "20m"),
    Case(
        "CleaveTelemetryDown",
        pages(agent="1x30", telemetry="1x5 0x20"),
        "20m",
        "the agent of n1 is scraped, but what its cards measure is not",
        {**HELD, "job": "cleave-telemetry"},
    ),
    Case("CleaveTelemetryDown", pages(agent="1x30", telemetry="1x5 0x5 1x20"), "20m"),
    # The agent itself is down, while another one is well: that is CleaveAgentDown's.
    Case("CleaveTelemetryDown", {**pages(agent="0x30", telemetry="0x30"), **pages(agent="1x30", telemetry="1x30", of=OTHER_NODE)}, "20m"),
    # metrics.telemetry=false: nobody scrapes the page, as nobody ever did or from the upgrade on; what dcgm-exporter does is its own.
    Case("CleaveTelemetryDown", {**pages(agent="1x30"), f'up{{job="dcgm-exporter",{IN_NODE}}}': "0x30"}, "20m"),
    Case("CleaveTelemetryDown", pages(agent="1x30", telemetry="1x5 0x2 stale"), "20m"),
    Case(
        "CleaveTelemetryStale",
        {f"cleave_agent_telemetry_stale{CARD_TEXT}": "0x5 1x20"},
        "20m",
        "what card 0 of n1 measures is old: it cannot be read",
        {**HELD, "gpu": "0", "UUID": "GPU-1"},
    ),
    Case("CleaveTelemetryStale", {f"cleave_agent_telemetry_stale{CARD_TEXT}": "0x5 1x8 0x20"}, "20m"),
    Case("CleaveTelemetryStale", pages(agent="1x30"), "20m"),
    Case("CleaveTwoAgents", {f"cleave_agent_standby{NODE}": "1x90"}, "70m", "two agents are on n1, and one of them waits", HELD),
    Case("CleaveTwoAgents", {f"cleave_agent_standby{NODE}": "1x10 0x90"}, "70m"),
    Case(
        "CleaveShareNotKept",
        {f"cleave_agent_share_breach{POD}": "1x20"},
        "10m",
        "container c of a/web does not keep to its share of a card: ShareOverLimit",
        {"namespace": "a", "pod": "web", "container": "c", "reason": "ShareOverLimit"},
    ),
    Case("CleaveShareNotKept", {f"cleave_agent_share_breach{POD}": "1x3 _x20"}, "10m"),
    Case("CleaveChildrenEnd", {'cleave_http_restarts_total{instance="i"}': "0+1x20"}, "15m", "a process of i that serves HTTP ends again and again", {"instance": "i"}),
    Case("CleaveChildrenEnd", {'cleave_http_restarts_total{instance="i"}': "0x10 1x20"}, "15m"),
    # --- changes ---
    Case("CleaveDeviceStalled", replicas("cleave_controller_devices_stalled", 1, 1), "6m", "1 nodes wait for a person"),
    Case("CleaveDeviceStalled", replicas("cleave_controller_devices_stalled", 0, 0), "6m"),
    Case(
        "CleaveChangeStuck",
        {**replicas("cleave_controller_devices", 2, 1, ',ready="false"'), **replicas("cleave_controller_devices", 1, 1, ',ready="unknown"')},
        "65m",
        "the hardware of 3 nodes is not as it should be, or unknown",
    ),
    Case("CleaveChangeStuck", replicas("cleave_controller_devices", 5, 5, ',ready="true"'), "65m"),
    Case("CleaveProfileStalled", replicas("cleave_controller_profiles_stalled", 1, 1), "6m", "1 GPUProfiles wait for a person"),
    Case("CleaveProfileStalled", replicas("cleave_controller_profiles_stalled", 0, 0), "6m"),
    Case("CleaveLabelFailed", replicas("cleave_controller_nodes", 4, 3, ',state="failed"'), "6m", "4 nodes have a label nvidia.com/mig.config that cannot be followed"),
    Case("CleaveLabelFailed", replicas("cleave_controller_nodes", 4, 3, ',state="success"'), "6m"),
    Case("CleaveLabelPending", replicas("cleave_controller_nodes", 1, 1, ',state="pending"'), "65m", "1 nodes have not become what their label nvidia.com/mig.config asks for"),
    Case("CleaveLabelPending", replicas("cleave_controller_nodes", 1, 1, ',state="pending"'), "30m"),
    # --- capacity ---
    Case(
        "CleaveCapacityExhausted",
        {
            'cleave_controller_capacity{instance="c1",resource="nvidia.com/gpu",model="H100"}': "8x60",
            'cleave_controller_free{instance="c1",resource="nvidia.com/gpu",model="H100"}': "0x60",
        },
        "40m",
        "none of nvidia.com/gpu (H100) is free",
        {"resource": "nvidia.com/gpu", "model": "H100"},
    ),
    Case(
        "CleaveCapacityExhausted",
        {
            'cleave_controller_capacity{resource="nvidia.com/gpu",model="H100"}': "8x60",
            'cleave_controller_free{resource="nvidia.com/gpu",model="H100"}': "1x60",
            'cleave_controller_capacity{resource="nvidia.com/gpu",model="A30"}': "0x60",
            'cleave_controller_free{resource="nvidia.com/gpu",model="A30"}': "0x60",
        },
        "40m",
    ),
    Case(
        "CleaveFragmented",
        memory(card=100, free=400, largest=40),
        "70m",
        "cards of H100 have more memory free than one card has, and no free piece is as large as half a card",
        {"model": "H100"},
    ),
    Case("CleaveFragmented", memory(card=100, free=400, largest=50), "70m"),
    Case("CleaveFragmented", memory(card=100, free=90, largest=10), "70m"),
    # --- control ---
    Case("CleaveNoLeader", replicas("leader_election_master_status", 0, 0, ',name="cleave-controller"'), "3m", "0 controllers say that they lead"),
    Case("CleaveNoLeader", replicas("leader_election_master_status", 1, 1, ',name="cleave-controller"'), "3m", "2 controllers say that they lead"),
    Case("CleaveNoLeader", replicas("leader_election_master_status", 1, 0, ',name="cleave-controller"'), "3m"),
    Case("CleaveControllerDown", {'up{job="cleave-controller-metrics"}': "0x30"}, "10m", "no controller can be scraped"),
    Case("CleaveControllerDown", {'up{job="cleave-controller-metrics",instance="a"}': "0x30", 'up{job="cleave-controller-metrics",instance="b"}': "1x30"}, "10m"),
    Case("CleaveLeaderRefused", replicas("cleave_controller_leader_refused", 1, 0), "3m", "the API server refuses the writes of the controller that leads"),
    Case("CleaveLeaderRefused", replicas("cleave_controller_leader_refused", 0, 0), "3m"),
    Case(
        "CleavePolicyNotInForce",
        replicas("cleave_controller_policy_in_force", 0, 1, ',policy="p"'),
        "20m",
        "the admission policy p is not in force",
        {"policy": "p"},
    ),
    Case("CleavePolicyNotInForce", replicas("cleave_controller_policy_in_force", 1, 1, ',policy="p"'), "20m"),
    Case(
        "CleaveReconcileErrors",
        {'controller_runtime_reconcile_errors_total{job="cleave-controller",controller="node"}': "0+60x30"},
        "25m",
        "controller node of cleave-controller fails again and again",
        {"job": "cleave-controller", "controller": "node"},
    ),
    Case("CleaveReconcileErrors", {'controller_runtime_reconcile_errors_total{job="another-operator",controller="node"}': "0+60x30"}, "25m"),
    Case("CleaveHamiMetricsLeftOut", replicas("cleave_scheduler_hami_metrics_left_out", 1, 0), "20m", "the metrics under the names of HAMi are not on the page of cleave-scheduler"),
    Case("CleaveHamiMetricsLeftOut", replicas("cleave_scheduler_hami_metrics_left_out", 0, 0), "20m"),
]
