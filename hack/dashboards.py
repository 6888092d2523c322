# SPDX-License-Identifier: Apache-2.0
"""The dashboards of config/monitoring as tables of panels, for hack/monitoring.py.

A panel is (title, what it says, unit, queries), and a query a PromQL expression with the text of its legend.
"""

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# With a variable's "All", cards and nodes without the label are shown as well: dcgm-exporter says Hostname, the scrape says node.
CARD = 'Hostname=~"$node",gpu=~"$gpu"'
HELD = 'namespace=~"$namespace",pod=~"$pod"'
# DCGM_FI_DEV_GPU_UTIL and DCGM_FI_DEV_FB_USED of a card that several pods share have a series for each pod, and one for the rest
# (docs/gpu-metrics.md): only their sum is the card's number.


def graph(title, says, unit, *queries):
    return {"type": "timeseries", "title": title, "says": says, "unit": unit, "queries": queries, "w": 12, "h": 8}


def number(title, says, unit, *queries):
    return {"type": "stat", "title": title, "says": says, "unit": unit, "queries": queries, "w": 4, "h": 4}


def table(title, says, unit, *queries):
    return {"type": "table", "title": title, "says": says, "unit": unit, "queries": queries, "w": 24, "h": 9}


def bars(title, says, unit, *queries):
    return {"type": "bargauge", "title": title, "says": says, "unit": unit, "queries": queries, "w": 12, "h": 8}


CLUSTER = [
    number("Cards", "Cards that agents report.", "short", ("sum(cleave:cards:max)", "cards")),
    number("Free memory", "Memory of healthy cards that nobody was given.", "bytes", ("sum(cleave:memory_free_bytes:max)", "free")),
    number("Nodes not as wanted", "Devices whose condition Ready is not True.", "short", ('sum(max by (ready) (cleave_controller_devices{ready!="true"}))', "nodes")),
    number("Nodes that wait for a person", "Devices with the condition Stalled.", "short", ("max(cleave_controller_devices_stalled)", "nodes")),
    number("Ill cards and partitions", "They get no pods; kubectl describe device NODE says why.", "short", ("sum(cleave_agent_unhealthy_cards) + sum(cleave_agent_unhealthy_partitions)", "ill")),
    number("Agents down", "Agents that cannot be scraped.", "short", ('sum(up{job=~"cleave-agent.*"} == bool 0)', "down")),
    graph("Devices by Ready", "unknown: no agent has reported.", "short", ("max by (ready) (cleave_controller_devices)", "{{ready}}")),
    graph("GPUProfiles by Ready", "false: a rollout goes on, or a profile cannot be followed.", "short", ("max by (ready) (cleave_controller_profiles)", "{{ready}}")),
    graph("Granted", "Containers that were given a card or a part of one, by namespace.", "short", ("sum by (namespace) (cleave:granted:max)", "{{namespace}}")),
    graph("Free", "What pods can still get, by resource.", "short", ("sum by (resource) (cleave:free:max)", "{{resource}}")),
    graph("Utilisation", "Mean of all cards that report it, by model.", "percent", ("avg by (modelName) (sum by (modelName, Hostname, gpu) (DCGM_FI_DEV_GPU_UTIL))", "{{modelName}}")),
    graph("Power", "Of all cards, by model.", "watt", ("sum by (modelName) (max by (modelName, Hostname, gpu) (DCGM_FI_DEV_POWER_USAGE))", "{{modelName}}")),
    graph("Changes of cards", "Attempts to bring a card to its layout, by what came of them.", "short", ("sum by (outcome) (increase(cleave_agent_transactions_total[$__rate_interval]))", "{{outcome}}")),
    graph("Xids", "By number; docs/health.md says which of them make a card ill.", "short", ("sum by (xid) (cleave:xids:increase10m)", "Xid {{xid}}")),
    graph("Errors of reconciling", "By controller.", "ops", ("sum by (controller) (rate(controller_runtime_reconcile_errors_total[$__rate_interval]))", "{{controller}}")),
    graph("Writes to the API server", "By resource and result.", "ops", ("sum by (resource, result) (rate(cleave_controller_writes_total[$__rate_interval]))", "{{resource}} {{result}}")),
]

NODE = [
    number("Cards", "Of the node.", "short", ('sum(cleave_agent_cards{node=~"$node"})', "cards")),
    number("Partitions", "That stand.", "short", ('sum(cleave_agent_partitions{node=~"$node"})', "partitions")),
    number("Ill cards", "They get no pods.", "short", ('sum(cleave_agent_unhealthy_cards{node=~"$node"})', "ill")),
    number("Ill partitions", "While their cards are well.", "short", ('sum(cleave_agent_unhealthy_partitions{node=~"$node"})', "ill")),
    number("Library stuck", "1 while a call into the driver's library is past its deadline.", "short", ('max(cleave_agent_library_stuck{node=~"$node"})', "stuck")),
    number("Containers", "With a card or a partition.", "short", ('sum(cleave_agent_held{node=~"$node"})', "containers")),
    graph("Utilisation", "By card.", "percent", ('sum by (Hostname, gpu) (DCGM_FI_DEV_GPU_UTIL{Hostname=~"$node"})', "{{Hostname}} {{gpu}}")),
    graph("Memory in use", "By card; MiB of the framebuffer.", "mbytes", ('sum by (Hostname, gpu) (DCGM_FI_DEV_FB_USED{Hostname=~"$node"})', "{{Hostname}} {{gpu}}")),
    graph("Temperature", "By card.", "celsius", ('max by (Hostname, gpu) (DCGM_FI_DEV_GPU_TEMP{Hostname=~"$node"})', "{{Hostname}} {{gpu}}")),
    graph("Power", "By card.", "watt", ('max by (Hostname, gpu) (DCGM_FI_DEV_POWER_USAGE{Hostname=~"$node"})', "{{Hostname}} {{gpu}}")),
    graph("Xids", "By number.", "short", ('sum by (node, xid) (cleave:xids:increase10m{node=~"$node"})', "{{node}} Xid {{xid}}")),
    graph("Answers to the kubelet", "Calls of Allocate, by result.", "short", ('sum by (result) (increase(cleave_agent_kubelet_allocations_total{node=~"$node"}[$__rate_interval]))', "{{result}}")),
    graph("Time of a change", "Of the hardware alone, mean.", "s", ('rate(cleave_agent_transaction_seconds_sum{node=~"$node"}[$__rate_interval]) / rate(cleave_agent_transaction_seconds_count{node=~"$node"}[$__rate_interval])', "{{node}}")),
    table("Who has what", "Containers with a card (no partition) or a partition.", "short", ('cleave_agent_held{node=~"$node"}', "")),
]

CARDS = [
    graph("Utilisation", "Part of the time in which a program ran on the card.", "percent", (f"sum by (Hostname, gpu) (DCGM_FI_DEV_GPU_UTIL{{{CARD}}})", "{{Hostname}} {{gpu}}")),
    graph("Compute, by partition", "Ratio of time in which the graphics engine was active; a line without a number is the whole card.", "percentunit", (f"max by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE) (DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{CARD}}})", "{{gpu}} {{GPU_I_PROFILE}} {{GPU_I_ID}}")),
    graph("Memory, by partition", "Used framebuffer in MiB.", "mbytes", (f"sum by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE) (DCGM_FI_DEV_FB_USED{{{CARD}}})", "{{gpu}} {{GPU_I_PROFILE}} {{GPU_I_ID}}")),
    graph("Memory's interface", "Ratio of cycles in which data went to or from memory.", "percentunit", (f"max by (Hostname, gpu, GPU_I_ID) (DCGM_FI_PROF_DRAM_ACTIVE{{{CARD}}})", "{{gpu}} {{GPU_I_ID}}")),
    graph("Tensor cores", "Ratio of cycles in which they were active.", "percentunit", (f"max by (Hostname, gpu, GPU_I_ID) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{CARD}}})", "{{gpu}} {{GPU_I_ID}}")),
    graph("Clocks", "Of the processors and of the memory.", "rotmhz", (f"max by (Hostname, gpu) (DCGM_FI_DEV_SM_CLOCK{{{CARD}}})", "{{gpu}} SM"), (f"max by (Hostname, gpu) (DCGM_FI_DEV_MEM_CLOCK{{{CARD}}})", "{{gpu}} memory")),
    graph("Temperature", "Of the card and of its memory.", "celsius", (f"max by (Hostname, gpu) (DCGM_FI_DEV_GPU_TEMP{{{CARD}}})", "{{gpu}}"), (f"max by (Hostname, gpu) (DCGM_FI_DEV_MEMORY_TEMP{{{CARD}}})", "{{gpu}} memory")),
    graph("Power", "That the card draws.", "watt", (f"max by (Hostname, gpu) (DCGM_FI_DEV_POWER_USAGE{{{CARD}}})", "{{gpu}}")),
    graph("PCIe", "Bytes a second.", "Bps", (f"max by (Hostname, gpu) (DCGM_FI_PROF_PCIE_TX_BYTES{{{CARD}}})", "{{gpu}} out"), (f"max by (Hostname, gpu) (DCGM_FI_PROF_PCIE_RX_BYTES{{{CARD}}})", "{{gpu}} in")),
    graph("Remapped rows", "Rows of memory that were replaced.", "short", (f"max by (Hostname, gpu) (DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{{{CARD}}})", "{{gpu}} uncorrectable"), (f"max by (Hostname, gpu) (DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS{{{CARD}}})", "{{gpu}} correctable")),
    graph("Encoder and decoder", "Utilisation.", "percent", (f"max by (Hostname, gpu) (DCGM_FI_DEV_ENC_UTIL{{{CARD}}})", "{{gpu}} encoder"), (f"max by (Hostname, gpu) (DCGM_FI_DEV_DEC_UTIL{{{CARD}}})", "{{gpu}} decoder")),
    graph("PCIe replays", "Repeated transfers.", "short", (f"max by (Hostname, gpu) (increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER{{{CARD}}}[$__rate_interval]))", "{{gpu}}")),
]

POD = [
    number("Containers with cards", "Of the chosen pods.", "short", (f"sum(cleave_agent_held{{{HELD}}})", "containers")),
    number("Beyond their shares", "Containers that do not keep to their share, or are not held to it.", "short", (f"sum(cleave_agent_share_breach{{{HELD}}}) or vector(0)", "containers")),
    table("Cards and partitions", "That the pods' containers were given.", "short", (f"cleave_agent_held{{{HELD}}}", "")),
    graph("Utilisation", "Of the cards that the pods have.", "percent", (f"max by (namespace, pod, container, gpu) (DCGM_FI_DEV_GPU_UTIL{{{HELD}}})", "{{pod}} {{container}} {{gpu}}")),
    graph("Compute, by partition", "Ratio of time in which the graphics engine was active.", "percentunit", (f"max by (namespace, pod, container, gpu, GPU_I_ID) (DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{HELD}}})", "{{pod}} {{container}} {{gpu}} {{GPU_I_ID}}")),
    graph("Memory of cards and partitions", "Used framebuffer in MiB.", "mbytes", (f"max by (namespace, pod, container, gpu, GPU_I_ID) (DCGM_FI_DEV_FB_USED{{{HELD}}})", "{{pod}} {{container}} {{gpu}} {{GPU_I_ID}}")),
    graph("Memory of shares", "Used, beside what the share has.", "bytes", (f"cleave_agent_share_used_bytes{{{HELD}}}", "{{pod}} {{container}} used"), (f"cleave_agent_share_limit_bytes{{{HELD}}}", "{{pod}} {{container}} limit")),
    graph("Shares in use", "Used memory as a part of the share.", "percentunit", (f"cleave_agent_share_used_bytes{{{HELD}}} / cleave_agent_share_limit_bytes{{{HELD}}}", "{{pod}} {{container}}")),
    graph("Turns of shares", "Part of the time for which a container had its turn on the card, and for which it had work and no turn, beside its guarantee. None of shares whose compute the limiter does not hold; a container that is alone on its card needs no turns.", "percentunit", (f"rate(cleave_agent_share_turn_seconds_total{{{HELD}}}[$__rate_interval])", "{{pod}} {{container}} its turn"), (f"rate(cleave_agent_share_throttled_seconds_total{{{HELD}}}[$__rate_interval])", "{{pod}} {{container}} throttled"), (f"cleave_agent_share_compute_percent{{{HELD}}} / 100", "{{pod}} {{container}} share")),
    graph("Power", "Of the cards that the pods have.", "watt", (f"max by (namespace, pod, gpu) (DCGM_FI_DEV_POWER_USAGE{{{HELD}}})", "{{pod}} {{gpu}}")),
]

CAPACITY = [
    number("Cards", "Of the chosen models.", "short", ('sum(cleave:cards:max{model=~"$model"})', "cards")),
    number("Memory", "Of all cards.", "bytes", ('sum(cleave:memory_bytes:max{model=~"$model"})', "memory")),
    number("Free memory", "Of healthy cards, given to nobody.", "bytes", ('sum(cleave:memory_free_bytes:max{model=~"$model"})', "free")),
    number("Largest free piece", "Largest partition, share or card that still fits somewhere.", "bytes", ('max(cleave:largest_free_bytes:max{model=~"$model"})', "largest")),
    number("Order to hardware", "95 of 100 changes of the last hour took no longer.", "s", ("cleave:wish_seconds:p95_1h", "p95")),
    bars("Free, by resource", "What pods can still get.", "short", ('cleave:free:max{model=~"$model|several"}', "{{resource}} {{model}}")),
    graph("Capacity and free", "By resource.", "short", ('sum by (resource) (cleave:capacity:max{model=~"$model|several"})', "{{resource}} capacity"), ('sum by (resource) (cleave:free:max{model=~"$model|several"})', "{{resource}} free")),
    graph("Granted, by namespace", "Containers that were given a card or a part of one.", "short", ('sum by (namespace, resource) (cleave:granted:max{model=~"$model"})', "{{namespace}} {{resource}}")),
    graph("Fragmentation", "0: the largest free piece is as large as a card; 1: nothing is free in one piece. Empty while less than a card's memory is free in all.", "percentunit", ('cleave:fragmentation:ratio{model=~"$model"}', "{{model}}")),
    graph("Free memory and the largest piece", "By model.", "bytes", ('cleave:memory_free_bytes:max{model=~"$model"}', "{{model}} free"), ('cleave:largest_free_bytes:max{model=~"$model"}', "{{model}} largest piece")),
    graph("Free memory in a week", "If it changes as in the last day.", "bytes", ('predict_linear(cleave:memory_free_bytes:max{model=~"$model"}[1d], 7 * 86400)', "{{model}}")),
    graph("Changes", "Orders to nodes that were done, by how long they took.", "short", ("sum by (le) (increase(cleave_controller_wish_seconds_bucket[$__rate_interval]))", "{{le}} s or less")),
]

DASHBOARDS = [
    ("cleave-cluster", "Cleave / Cluster", CLUSTER, []),
    ("cleave-node", "Cleave / Node", NODE, [("node", "cleave_agent_cards")]),
    ("cleave-card", "Cleave / Card and its partitions", CARDS, [("node", "DCGM_FI_DEV_GPU_TEMP", "Hostname"), ("gpu", "DCGM_FI_DEV_GPU_TEMP")]),
    ("cleave-pod", "Cleave / Pod", POD, [("namespace", "cleave_agent_held"), ("pod", "cleave_agent_held")]),
    ("cleave-capacity", "Cleave / Capacity", CAPACITY, [("model", "cleave_controller_cards")]),
]


def variable(name, metric, label=None):
    query = f"label_values({metric}, {label or name})"
    choice = {"includeAll": True, "multi": True, "allValue": ".*", "refresh": 2, "sort": 1}
    return {"name": name, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name}, **choice}


def target(panel, index, expression, legend):
    now = panel["type"] != "timeseries"
    shape = {"instant": True, "range": False} if now else {"instant": False, "range": True}
    more = {"format": "table"} if panel["type"] == "table" else {"legendFormat": legend}
    return {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": expression, **shape, **more}


def placed(panels):
    """From left to right; a panel that does not fit into the row begins the next one."""
    x = y = height = 0
    for panel in panels:
        if x + panel["w"] > 24:
            x, y, height = 0, y + height, 0
        yield panel, {"x": x, "y": y, "w": panel["w"], "h": panel["h"]}
        x, height = x + panel["w"], max(height, panel["h"])


def panel_of(number, panel, place):
    return {
        "id": number,
        "type": panel["type"],
        "title": panel["title"],
        "description": panel["says"],
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel["unit"]}, "overrides": []},
        "targets": [target(panel, i, *query) for i, query in enumerate(panel["queries"])],
    }


def all_of_them():
    source = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    for uid, title, panels, variables in DASHBOARDS:
        yield {
            "uid": uid,
            "title": title,
            "tags": ["cleave", "gpu"],
            "schemaVersion": 36,
            "editable": False,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "templating": {"list": [source, *(variable(*v) for v in variables)]},
            "panels": [panel_of(i + 1, *p) for i, p in enumerate(placed(panels))],
        }
