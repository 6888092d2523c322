# SPDX-License-Identifier: Apache-2.0
"""The part of `make bench` about what the cards measure: the page of a real agent, over HTTP, on a node with 16 cards of 7 instances
each, of which 100 have a pod.

Time and memory are beside those of an agent that measures nothing. Cards are read, and the page scraped, once a second, so that what one
reading and one scrape take comes out exactly; the share of a core is that of both every 15 s. The simulated driver's own time is in it.
BENCH_SCRAPES (1000) is the number of scrapes that are timed, BENCH_SCRAPE_SECONDS (60) how long the processor time is measured.
"""

import http.client
import os
import re
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from kubelet_bench import MISSING, SEVENTHS, SMALL, ms, stubbed
from rig import anonymous_mib, cpu_s, free_port, quantile, show

if not MISSING:
    from conftest import wait_for

CARDS, INSTANCES, PODS = 16, 7, 100
SCRAPES = int(os.environ.get("BENCH_SCRAPES", "1000"))
SECONDS = int(os.environ.get("BENCH_SCRAPE_SECONDS", "60"))
INTERVAL_S = 15  # between scrapes, and between readings of the cards (--telemetry-interval)

# What is published of dcgm-exporter; no figures for its scrapes are.
THEIRS = [
    ("dcgm-exporter: memory, one A10G (its issue 609)", "400-500 MiB"),
    ("dcgm-exporter: memory, nodes of 8 cards (pytorch/ci-infra issue 1011)", "417-511 MiB"),
    ("dcgm-exporter: of a core (NVIDIA/gpu-operator issue 340)", "0.2-1.0 %"),
]


@dataclass
class Cost:
    """Of an agent with all its processes."""

    cpu_s: float
    memory_mib: float


def family(pid):
    """A process and those that it started, and so on."""
    children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return [pid, *(p for child in children for p in family(child))]


def fetch(port, path):
    """A page, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:200]}")
        return body
    finally:
        connection.close()


def occupy(host):
    """All cards are cut, and the first instances have pods."""
    host.cut([SEVENTHS] * CARDS)
    for i in range(PODS):
        host.kubelet.admit("machine-learning", f"inference-7d9c5b6f4-{i:05}", {SMALL: 1}, "server")


def cost(host, port, path):
    """What the agent takes while the page is asked for each second."""
    begin = sum(map(cpu_s, family(host.node.agent.pid)))
    end = time.monotonic() + SECONDS
    while (left := end - time.monotonic()) > 0:
        fetch(port, path)
        time.sleep(min(1, left))  # the pace is what is measured
    pids = family(host.node.agent.pid)
    return Cost(sum(map(cpu_s, pids)) - begin, sum(map(anonymous_mib, pids)))


def without():
    """An agent that measures nothing; its other page is asked for as often, by somebody who scrapes both."""
    port = free_port()
    with stubbed("scrape-without", {"h100-80": CARDS}, telemetry_interval=0, metrics_addr=f"127.0.0.1:{port}") as host:
        occupy(host)
        return cost(host, port, "/metrics")


def with_page():
    """(its cost, seconds of each scrape, the page)"""
    port = free_port()
    with stubbed("scrape", {"h100-80": CARDS}, telemetry_interval=1, metrics_addr=f"127.0.0.1:{port}") as host:
        occupy(host)

        def is_complete():
            page = fetch(port, "/metrics/telemetry").decode()
            means = re.findall(r'^DCGM_FI_PROF_SM_ACTIVE\{.*GPU_I_ID="', page, re.M)
            pods = set(re.findall(r'pod="(inference-[^"]+)"', page))
            return (len(means), len(pods)) == (CARDS * INSTANCES, PODS) and page

        page = wait_for(is_complete, 60, "the page to have the means of all instances, and all pods")
        took = []
        for _ in range(SCRAPES):
            begin = time.monotonic()
            fetch(port, "/metrics/telemetry")
            took.append(time.monotonic() - begin)
        return cost(host, port, "/metrics/telemetry"), took, page


def scrape():
    print(f"\nWhat {CARDS} H100 of {INSTANCES} instances measure, {PODS} with a pod, by a real agent over HTTP, {SCRAPES} scrapes")
    before = without()
    after, took, page = with_page()
    show("scrape", "size of the page", f"{len(page) / 1024:.0f} KiB")
    show("scrape", "a scrape, p50", ms(statistics.median(took)))
    show("scrape", "a scrape, p99", ms(quantile(took, 0.99)), "aim 10 ms")
    once = (after.cpu_s - before.cpu_s) / SECONDS
    show("scrape", "processor time of a reading of the cards and a scrape", ms(once))
    show("scrape", f"of a core, at a scrape each {INTERVAL_S} s", f"{once / INTERVAL_S * 100:.3f} %", "aim 0.2 %")
    show("scrape", "additional anonymous memory", f"{after.memory_mib - before.memory_mib:.2f} MiB", "aim 2")
    for what, figure in THEIRS:
        show("scrape", what, figure)
