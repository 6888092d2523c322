# SPDX-License-Identifier: Apache-2.0
"""HAMi's metrics from cleave-scheduler, for dashboards of people who had HAMi: what pods were given, as a scrape tells it."""

import re

from conftest import ROOT, wait_for
from stack import rig  # noqa: F401
from test_fractional import CARD_MIB, limits
from test_metrics import parse
from test_scheduler import world  # noqa: F401

MIB = 1 << 20
TYPE = "NVIDIA H100 80GB HBM3"
LEFT_OUT = "cleave_scheduler_hami_metrics_left_out"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


def samples(text):
    """{family: {labels: value}}, where labels are a frozenset of pairs, without the one that HAMi's all have."""
    return {
        name: {frozenset(re.findall(r'(\w+)="([^"]*)"', labels)) - {("zone", "vGPU")}: value for (_, labels), value in of.items()}
        for name, (_, _, of) in parse(text).items()
    }


def labels_of(**labels):
    return frozenset((name, str(value)) for name, value in labels.items())


def test_two_pods_are_scraped_in_hamis_words(world):  # noqa: F811
    w = world({"h100-80": 2})
    (node,) = w.nodes
    w.schedule(hami_metrics="both")
    w.rig.objects.append(f"{QUOTAS}/{w.rig.id}")
    w.rig.api.create(QUOTAS, {"metadata": {"name": w.rig.id}, "spec": {"hard": {"limits.nvidia.com/gpumem": "20000"}}})
    first, second = {"nvidia.com/use-gpuuuid": node.uuid(0)}, {"nvidia.com/use-gpuuuid": node.uuid(1)}
    one = w.pod("one", gpumem=3000, gpucores=30, annotations=first)
    two = w.pod("two", annotations=second, containers={"side": {"cpu": "1"}, "a": limits(gpumem=1000), "b": limits(gpumem=2000, gpucores=10)})
    w.wait_shares(one)
    w.wait_shares(two, n=2)
    where = {"namespace": "default", "node": node.node.name}
    memory = {
        labels_of(**where, pod=one, container_index=0, device_uuid=node.uuid(0)): 3000 * MIB,
        labels_of(**where, pod=two, container_index=1, device_uuid=node.uuid(1)): 1000 * MIB,
        labels_of(**where, pod=two, container_index=2, device_uuid=node.uuid(1)): 2000 * MIB,
    }
    wait_for(lambda: samples(w.scheduler.metrics())["hami_vgpu_memory_allocated_bytes"] == memory, 10, lambda: f"the shares, not {w.scheduler.metrics()}")
    text = w.scheduler.metrics()
    found = samples(text)
    check_cards(found, node)
    check_quota(found)
    assert sorted(found["hami_vgpu_core_allocated_ratio"].values()) == [0, 10, 30]
    legacy = {"podnamespace": "default", "nodename": node.node.name}
    assert found["vGPUMemoryAllocated"][labels_of(**legacy, podname=two, containeridx=2, deviceuuid=node.uuid(1))] == 2000 * MIB
    assert found[LEFT_OUT] == {frozenset(): 0}
    assert {'zone="vGPU"' in line for line in text.splitlines() if re.match(r"(hami_|GPU|vGPU|node|Quota)", line)} == {True}
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert [name for name in found if f"`{name}`" not in page] == []


def check_cards(found, node):
    """The cards, in the names of both generations."""
    cards = [{"node": node.node.name, "device_uuid": node.uuid(i), "device_index": i, "device_type": TYPE} for i in (0, 1)]
    legacy = [{"nodeid": node.node.name, "deviceuuid": node.uuid(i), "deviceidx": i, "devicetype": TYPE} for i in (0, 1)]
    for current, old, more, values in (
        ("hami_gpu_memory_limit_bytes", "GPUDeviceMemoryLimit", {}, [CARD_MIB * MIB] * 2),
        ("hami_gpu_core_limit_ratio", "GPUDeviceCoreLimit", {}, [100, 100]),
        ("hami_gpu_memory_allocated_bytes", "GPUDeviceMemoryAllocated", {"device_cores": 100}, [3000 * MIB] * 2),
        ("hami_gpu_shared_count", "GPUDeviceSharedNum", {}, [1, 2]),
        ("hami_gpu_core_allocated_ratio", "GPUDeviceCoreAllocated", {}, [30, 10]),
        ("hami_node_gpu_overview", "nodeGPUOverview", {"device_cores": 100, "device_memory_limit": CARD_MIB}, [3000 * MIB] * 2),
    ):
        assert found[current] == {labels_of(**card, **more): value for card, value in zip(cards, values, strict=True)}, current
        more = {name.replace("_", ""): value for name, value in more.items()}
        assert found[old] == {labels_of(**card, **more): value for card, value in zip(legacy, values, strict=True)}, old
    ratios = found["hami_node_gpu_memory_allocated_ratio"]
    assert {round(ratio, 9) for ratio in ratios.values()} == {round(3000 / CARD_MIB, 9)} and len(ratios) == 2
    assert sorted(ratios.values()) == sorted(found["nodeGPUMemoryPercentage"].values())


def check_quota(found):
    name = {"namespace": "default", "quota_name": "nvidia.com/gpumem"}
    assert found["hami_resource_quota_used"] == {labels_of(**name, limit=20000): 6000}
    assert found["hami_resource_quota_limit"] == {labels_of(**name): 20000}
    assert found["QuotaUsed"] == {labels_of(quotanamespace="default", quotaName="nvidia.com/gpumem", limit=20000): 6000}


def test_by_itself_no_metric_is_hamis(world):  # noqa: F811
    w = world({"h100-80": 1})
    w.schedule()
    assert [name for name in parse(w.scheduler.metrics()) if name.startswith(("hami", "GPU")) or "hami" in name] == []
