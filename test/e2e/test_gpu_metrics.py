# SPDX-License-Identifier: Apache-2.0
"""The page of telemetry: what the cards measure, under dcgm-exporter's names, with the pod on everything."""

import re

import pytest
from conftest import ROOT, wait_for
from kubelet_stub import kubelet  # noqa: F401
from stack import rig, serve  # noqa: F401
from test_fractional_stub import PODS, Shares
from test_metrics import parse
from test_plugin_stub import GPU, SMALL, Host

PAGE = "/metrics/telemetry"
SHARED = """version: v1
sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
"""


class Scraped:
    """A page, by metric and labels."""

    def __init__(self, text):
        self.text, self.families = text, parse(text)

    def find(self, metric, **labels):
        """The values of the series that have these labels; None: the label is not there."""
        found = []
        for (_, text), value in self.families.get(metric, (None, None, {}))[2].items():
            has = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', text))
            if all(has.get(k) == v for k, v in labels.items()):
                found.append(value)
        return found


def scraped(node, what, good):
    """The first page of which this holds."""
    pages = []

    def look():
        code, text = serve(node.agent, PAGE)
        if code == 404:
            return False  # it does not listen yet
        assert code == 200, text
        pages.append(Scraped(text))
        return good(pages[-1])

    wait_for(look, 30, lambda: f"{what}:\n{pages[-1].text if pages else ''}")
    return pages[-1]


@pytest.fixture
def host(rig, kubelet):
    """A node of two H100 that is not started yet."""
    return Host(rig, kubelet, {"h100-80": 2})


def test_a_pod_has_its_card_on_everything(host):
    host.start(telemetry_interval=1)
    host.kubelet.wait_offers(**{GPU: 2})
    pod = host.kubelet.admit("team", "train", {GPU: 1})
    (uuid,) = pod.devices[GPU]
    page = scraped(host.node, "the pod on the page", lambda p: p.find("DCGM_FI_DEV_GPU_TEMP", UUID=uuid, pod="train"))
    for metric in ("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL"):
        assert len(page.find(metric, UUID=uuid, pod="train", namespace="team", container="main", Hostname=host.node.name)) == 1, metric
        assert len(page.find(metric, pod=None)) == 1, f"{metric} of the other card"
    assert page.find("cleave_agent_telemetry_stale") == [0, 0]
    host.kubelet.end(pod)
    scraped(host.node, "the pod to vanish", lambda p: not p.find("DCGM_FI_DEV_GPU_TEMP", pod="train"))


def test_instances_have_the_drivers_profile_and_their_pod(host):
    host.start(telemetry_interval=1)
    host.kubelet.wait_offers(**{GPU: 2})
    host.cut({"1g.10gb": 2})
    host.kubelet.wait_offers(**{GPU: 1, SMALL: 2})
    host.kubelet.admit("team", "small", {SMALL: 1})
    page = scraped(host.node, "the pod on the page", lambda p: p.find("DCGM_FI_DEV_FB_USED", pod="small"))
    assert len(page.find("DCGM_FI_DEV_FB_USED", GPU_I_PROFILE="1g.10gb")) == 2
    assert len(page.find("DCGM_FI_DEV_FB_USED", GPU_I_PROFILE="1g.10gb", pod="small")) == 1
    assert len(page.find("DCGM_FI_DEV_GPU_TEMP", UUID=host.node.uuid(), GPU_I_PROFILE=None)) == 1
    scraped(host.node, "means of GPM", lambda p: len(p.find("DCGM_FI_PROF_SM_ACTIVE", GPU_I_PROFILE="1g.10gb")) == 2)


def test_a_shared_card_is_told_apart_by_process_and_adds_up(host):
    config = host.node.folder / "plugin.yaml"
    config.write_text(SHARED)
    host.start(telemetry_interval=1, plugin_config=config)
    host.kubelet.wait_offers(**{GPU: 8})
    uuid = host.node.uuid()
    pods = []
    for name in ("a", "b"):
        pod = host.kubelet.admit("team", name, {GPU: 1})
        pod.devices[GPU] = [f"{uuid}::{len(pods)}"]
        pods.append(pod)
    host.kubelet.write_checkpoint()
    for pod, pid, mib in zip(pods, (4101, 4102), (1000, 3000), strict=True):
        host.node.ctl("attach", "--gpu", 0, "--pid", pid, "--mem", mib, "--load", 20, "--pod-uid", pod.uid)

    def used(page, **labels):
        return page.find("DCGM_FI_DEV_FB_USED", UUID=uuid, **labels)

    page = scraped(host.node, "what both use", lambda p: used(p, pod="a") == [1000] and used(p, pod="b") == [3000])
    assert len(used(page, pod=None)) == 1
    assert sum(used(page)) + sum(page.find("DCGM_FI_DEV_FB_FREE", UUID=uuid)) + sum(page.find("DCGM_FI_DEV_FB_RESERVED", UUID=uuid)) == 81559
    assert page.find("DCGM_FI_DEV_GPU_TEMP", UUID=uuid, pod=None) and len(page.find("DCGM_FI_DEV_GPU_TEMP", UUID=uuid)) == 1


def test_a_call_that_hangs_leaves_the_last_values_as_stale_ones(host):
    host.start(telemetry_interval=1)
    first, second = host.node.uuid(0), host.node.uuid(1)
    scraped(host.node, "values", lambda p: len(p.find("DCGM_FI_DEV_POWER_USAGE")) == 2)
    host.node.ctl("fault", "add", "--call", "nvmlDeviceGetPowerUsage", "--nth", 0, "--gpu", 0, "--action", "hang:600")
    page = scraped(host.node, "stale values", lambda p: p.find("cleave_agent_telemetry_stale", UUID=first) == [1])
    assert len(page.find("DCGM_FI_DEV_POWER_USAGE", UUID=first)) == 1
    assert not [name for name in page.families if name.startswith("hami_")], "they are off by default"
    scraped(host.node, "the other card to go on", lambda p: p.find("cleave_agent_telemetry_stale", UUID=second) == [0] and p.find("cleave_agent_telemetry_stale", UUID=first) == [1])


def test_the_last_xid_and_the_errors_of_nvlinks_are_the_cards(host):
    counters = host.node.folder / "counters.csv"
    counters.write_text("DCGM_FI_DEV_XID_ERRORS, gauge, Xid\nDCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, counter, Replays\n")
    host.start(telemetry_interval=1, telemetry_counters=counters)
    first, second = host.node.uuid(0), host.node.uuid(1)
    wait_for(lambda: "cleave_agent_unwatched_cards 0" in serve(host.node.agent, "/metrics")[1], 30, "the Xids to be awaited")
    scraped(host.node, "no Xid", lambda p: p.find("DCGM_FI_DEV_XID_ERRORS", err_code="0", err_msg="No Error") == [0, 0])
    host.node.ctl("xid", "--gpu", 0, "--code", 95)
    host.node.ctl("nvlink", "--gpu", 1, "--replays", 3)
    page = scraped(host.node, "the Xid", lambda p: p.find("DCGM_FI_DEV_XID_ERRORS", UUID=first, err_code="95") == [95])
    assert page.find("DCGM_FI_DEV_XID_ERRORS", UUID=second) == [0]
    scraped(host.node, "the errors", lambda p: p.find("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", UUID=second) == [3])


def test_hamis_names_are_there_by_a_flag(rig, kubelet):
    shares = Shares(rig, kubelet, flags={"telemetry_interval": 1, "hami_metrics": "both"})
    node, mib = shares.node, 1 << 20
    pod = shares.pod("a", gpumem=3000)
    uid = node.api.get(f"{PODS}/{pod.name}")["metadata"]["uid"]
    node.ctl("attach", "--gpu", 0, "--pid", 4101, "--mem", 1000, "--load", 20, "--pod-uid", uid)
    of = {"zone": "vGPU", "namespace": "default", "pod": pod.name, "container": "main", "vdevice_index": "0", "device_uuid": node.uuid()}
    page = scraped(node, "what it uses", lambda p: p.find("hami_vgpu_memory_used_bytes", **of) == [1000 * mib])
    assert page.find("hami_vgpu_memory_limit_bytes", **of) == [3000 * mib]
    assert page.find("hami_host_gpu_utilization_ratio", node=node.name, device_uuid=node.uuid(), device_index="0") == [20]
    legacy = {"zone": "vGPU", "podnamespace": "default", "podname": pod.name, "ctrname": "main", "vdeviceid": "0", "deviceuuid": node.uuid()}
    assert page.find("vGPU_device_memory_limit_in_bytes", **legacy) == [3000 * mib]
    hamis = [name for name in page.families if not name.startswith(("DCGM_", "cleave_"))]
    text = (ROOT / "docs" / "gpu-metrics.md").read_text()
    assert len(hamis) == 12 and [name for name in hamis if f"`{name}`" not in text] == []


def test_a_file_of_counters_and_old_labels(host):
    counters = host.node.folder / "counters.csv"
    counters.write_text("# mine\nDCGM_FI_DEV_GPU_TEMP, gauge, Heat\nDCGM_EXP_XID_ERRORS_COUNT, counter, Xids\n")
    host.start(telemetry_interval=1, telemetry_counters=counters, telemetry_labels="oldest")
    page = scraped(host.node, "values", lambda p: p.find("DCGM_FI_DEV_GPU_TEMP", uuid=host.node.uuid(), Hostname=host.node.name))
    assert {n for n in page.families if n.startswith("DCGM")} == {"DCGM_FI_DEV_GPU_TEMP"}
    assert "DCGM_FI_DRIVER_VERSION" not in page.text
    assert "Passed over a line of the file of counters" in host.node.agent.text()


def test_what_the_page_has_is_told(host):
    """Each metric of a page with all counters, and of no other, is in docs/gpu-metrics.md, with its type."""
    text = (ROOT / "docs" / "gpu-metrics.md").read_text()
    told = dict(re.findall(r"^\| `(DCGM_FI_\w+|cleave_agent_telemetry_\w+)` \| (gauge|counter)", text, re.M))
    counters = host.node.folder / "counters.csv"
    counters.write_text("".join(f"{name}, {kind}, x\n" for name, kind in told.items() if name.startswith("DCGM")))
    host.start(telemetry_interval=1, telemetry_counters=counters)
    page = scraped(host.node, "means", lambda p: p.find("DCGM_FI_PROF_SM_ACTIVE"))
    assert {n: family[0] for n, family in page.families.items()}.items() <= told.items()
    assert "Passed over a line" not in host.node.agent.text()


def test_metax_cards_have_neutral_names(rig):
    node = rig.node({"h100-80": 1, "c500": 1}, start=False)
    node.start(telemetry_interval=1)
    page = scraped(node, "values", lambda p: p.find("cleave_gpu_temperature_celsius"))
    told = set(re.findall(r"`(cleave_gpu_\w+)`", (ROOT / "docs" / "gpu-metrics.md").read_text()))
    assert {n for n in page.families if n.startswith("cleave_gpu_")} == told
    assert len(page.find("cleave_gpu_memory_used_bytes", vendor="metax", Hostname=node.name)) == 1
    assert len(page.find("DCGM_FI_DEV_GPU_TEMP")) == 1
    assert len(page.find("cleave_agent_telemetry_stale")) == 2


def test_without_an_interval_there_is_no_page(host):
    host.start(telemetry_interval=0)
    wait_for(lambda: serve(host.node.agent, "/metrics")[0] == 200, 30, "the other page")
    assert serve(host.node.agent, PAGE)[0] == 404
