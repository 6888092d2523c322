# SPDX-License-Identifier: Apache-2.0
"""Numbers that follow the work on a card, and GPM's means of them."""
import ctypes
import math
import time

import pynvml as nv
import pytest
from conftest import create_whole, mig_on, refuses

LIB = ctypes.CDLL("libnvidia-ml.so.1")
GRAPHICS, SM, TENSOR, PCIE_RX, NVLINK_RX = 1, 2, 5, 21, 60


def fields(device, *ids):
    return [v.value.ullVal if v.nvmlReturn == 0 else v.nvmlReturn for v in nv.nvmlDeviceGetFieldValues(device, list(ids))]


def sample(device, part=None):
    s = nv.nvmlGpmSampleAlloc()
    return nv.nvmlGpmSampleGet(device, s) if part is None else nv.nvmlGpmMigSampleGet(device, part, s)


def metrics(first, second, ids, version=1):
    """{id: value, or the negative return code} of the time between two samples."""
    ids = ids if isinstance(ids, tuple) else (ids,)
    get = nv.c_nvmlGpmMetricsGet_t(version=version, numMetrics=len(ids), sample1=first, sample2=second)
    for i, one in enumerate(ids):
        get.metrics[i].metricId = one
    nv.nvmlGpmMetricsGet(get)
    return {m.metricId: m.value if m.nvmlReturn == 0 else -m.nvmlReturn for m in get.metrics[: len(ids)]}


def after(device, first, part=None):
    """A sample that is later by the clock."""
    started = time.monotonic_ns()
    while time.monotonic_ns() == started:
        pass
    return sample(device, part)


def test_power_temperature_and_utilisation_follow_the_processes(h100):
    device, idle = (nv.nvmlDeviceGetHandleByIndex(i) for i in range(2))
    h100.ctl("attach", "--gpu", 0, "--pid", 1, "--load", 30)
    h100.ctl("attach", "--gpu", 0, "--pid", 2, "--load", 20)
    assert nv.nvmlDeviceGetUtilizationRates(device).gpu == 50
    assert nv.nvmlDeviceGetPowerUsage(device) == 70000 + 315000
    assert nv.nvmlDeviceGetTemperature(device, 0) == 34 + 18
    assert nv.nvmlDeviceGetCurrentClocksEventReasons(device) == 0
    assert nv.nvmlDeviceGetPcieThroughput(device, 1) > 0
    assert {s.pid: s.smUtil for s in nv.nvmlDeviceGetProcessUtilization(device, 0)} == {1: 30, 2: 20}
    assert nv.nvmlDeviceGetUtilizationRates(idle).gpu == 0 and nv.nvmlDeviceGetTemperature(idle, 0) == 34
    h100.ctl("detach", "--pid", 1)
    assert nv.nvmlDeviceGetUtilizationRates(device).gpu == 20
    h100.ctl("attach", "--gpu", 0, "--pid", 3, "--load", 100)
    assert nv.nvmlDeviceGetUtilizationRates(device).gpu == 100, "no card is busier than that"


def test_a_load_is_in_percent(h100):
    assert "percent" in h100.ctl("attach", "--gpu", 0, "--pid", 1, "--load", 101, ok=False).stderr


def test_energy_is_the_integral_of_power(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    h100.ctl("attach", "--gpu", 0, "--pid", 1, "--load", 100)
    since, before = time.monotonic_ns(), nv.nvmlDeviceGetTotalEnergyConsumption(device)
    while time.monotonic_ns() < since + 300_000_000:
        assert nv.nvmlDeviceGetTotalEnergyConsumption(device) >= before
    used = nv.nvmlDeviceGetTotalEnergyConsumption(device) - before
    seconds = (time.monotonic_ns() - since) / 1e9
    assert 700_000 * (seconds - 0.15) < used < 700_000 * (seconds + 0.15)
    assert fields(device, nv.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION)[0] >= before + used
    h100.ctl("detach", "--pid", 1)
    assert nv.nvmlDeviceGetTotalEnergyConsumption(device) >= before + used, "no counter falls"


def test_fields_of_monitors(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert fields(device, nv.NVML_FI_DEV_ECC_SBE_AGG_TOTAL, nv.NVML_FI_DEV_PERF_POLICY_POWER) == [0, 0]
    assert fields(device, nv.NVML_FI_DEV_RETIRED_SBE) == [nv.NVML_ERROR_NOT_SUPPORTED]
    tx = nv.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX
    h100.ctl("attach", "--gpu", 0, "--pid", 1, "--load", 100)
    before = fields(device, (tx, 0xFFFFFFFF))[0]
    while fields(device, (tx, 0xFFFFFFFF))[0] == before:
        pass
    assert fields(device, (tx, 17), (tx, 18))[1] == nv.NVML_ERROR_NOT_SUPPORTED


def test_clocks_follow_the_work_and_what_held_them_down_is_counted(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)

    def clocks():
        return nv.nvmlDeviceGetClockInfo(device, nv.NVML_CLOCK_SM), nv.nvmlDeviceGetCurrentClocksEventReasons(device)

    def held(policy):
        return nv.nvmlDeviceGetViolationStatus(device, policy).violationTime

    assert clocks() == (210, nv.nvmlClocksEventReasonGpuIdle)
    h100.ctl("attach", "--gpu", 0, "--pid", 4711, "--mem", 1, "--load", 99)
    assert clocks() == (1980, nv.nvmlClocksEventReasonNone) and held(nv.NVML_PERF_POLICY_POWER) == 0
    h100.ctl("attach", "--gpu", 0, "--pid", 4712, "--mem", 1, "--load", 99)
    assert clocks() == (1770, nv.nvmlClocksEventReasonSwPowerCap)
    first = held(nv.NVML_PERF_POLICY_POWER)
    assert held(nv.NVML_PERF_POLICY_POWER) > first and held(nv.NVML_PERF_POLICY_THERMAL) == 0
    h100.ctl("temperature", "--gpu", 0, 60)
    assert clocks() == (990, nv.nvmlClocksEventReasonSwPowerCap | nv.nvmlClocksEventReasonSwThermalSlowdown)
    assert fields(device, nv.NVML_FI_DEV_PERF_POLICY_THERMAL)[0] > 0
    h100.ctl("detach", "--pid", 4711)
    h100.ctl("detach", "--pid", 4712)
    last = held(nv.NVML_PERF_POLICY_THERMAL)
    assert clocks() == (210, nv.nvmlClocksEventReasonGpuIdle) and held(nv.NVML_PERF_POLICY_THERMAL) == last


def test_errors_of_nvlinks_are_those_of_the_first(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    h100.ctl("nvlink", "--gpu", 0, "--replays", 3, "--crc-data", 2)
    totals = (nv.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, nv.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, nv.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL)
    assert fields(device, *totals) == [3, 2, 0]
    count = nv.nvmlDeviceGetNvLinkErrorCounter
    assert [count(device, link, nv.NVML_NVLINK_ERROR_DL_REPLAY) for link in (0, 1)] == [3, 0]
    assert count(device, 0, nv.NVML_NVLINK_ERROR_DL_CRC_DATA) == 2


def test_pages_retire_where_rows_are_not_remapped(machine):
    machine("gpus: [{model: t4}]")
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert fields(device, nv.NVML_FI_DEV_RETIRED_SBE, nv.NVML_FI_DEV_RETIRED_PENDING) == [0, 0]
    assert fields(device, nv.NVML_FI_DEV_REMAPPED_COR) == [nv.NVML_ERROR_NOT_SUPPORTED]


@pytest.mark.parametrize("model, has", [("a100-40", 0), ("l4", 0), ("h100-80", 1), ("b200", 1)])
def test_gpm_is_there_from_hopper_on(machine, model, has):
    machine(f"gpus: [{{model: {model}}}]")
    device = nv.nvmlDeviceGetHandleByIndex(0)
    assert nv.nvmlGpmQueryDeviceSupport(device).isSupportedDevice == has
    if not has:
        refuses(nv.NVML_ERROR_NOT_SUPPORTED, nv.nvmlGpmSampleGet, device, nv.nvmlGpmSampleAlloc())


def test_gpm_gives_the_mean_between_two_samples(h100):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    first = sample(device)
    second = after(device, first)
    assert metrics(first, second, (GRAPHICS, SM, NVLINK_RX)) == {GRAPHICS: 0, SM: 0, NVLINK_RX: 0}
    h100.ctl("attach", "--gpu", 0, "--pid", 1, "--load", 50)
    busy = sample(device)
    third = after(device, busy)
    now = metrics(busy, third, (GRAPHICS, SM, TENSOR, PCIE_RX, NVLINK_RX))
    assert now == {
        GRAPHICS: pytest.approx(50, abs=1),
        SM: pytest.approx(45, abs=1),
        TENSOR: pytest.approx(30, abs=1),
        PCIE_RX: pytest.approx(1000, rel=0.02),
        NVLINK_RX: pytest.approx(18 * 512, rel=0.02),
    }
    assert 0 < metrics(first, third, GRAPHICS)[GRAPHICS] < 50, "over all of it"
    assert math.isnan(metrics(third, third, GRAPHICS)[GRAPHICS])
    for one in (first, second, busy, third):
        nv.nvmlGpmSampleFree(one)


def test_gpm_counts_for_each_instance_alone(h100):
    device = mig_on()
    (_, _, a), (_, _, b) = create_whole(device, 9), create_whole(device, 9)
    ids = [nv.nvmlDeviceGetGpuInstanceId(one.device) for one in (a, b)]
    h100.ctl("attach", "--gpu", 0, "--gi", ids[1], "--ci", 0, "--pid", 1, "--load", 80)
    first = [sample(device, i) for i in (*ids, None)]
    second = [after(device, s, i) for s, i in zip(first, (*ids, None))]
    idle, busy, card = (metrics(s, t, GRAPHICS)[GRAPHICS] for s, t in zip(first, second))
    assert idle == 0 and busy == pytest.approx(80, abs=1) and card == pytest.approx(40, abs=1)
    assert metrics(first[1], second[1], NVLINK_RX) == {NVLINK_RX: -nv.NVML_ERROR_NOT_SUPPORTED}
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, metrics, first[0], second[1], GRAPHICS)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, sample, device, 14)
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, sample, a.device)


def test_gpm_refuses_what_cannot_be(h100):
    device, other = (nv.nvmlDeviceGetHandleByIndex(i) for i in range(2))
    first, empty = sample(device), nv.nvmlGpmSampleAlloc()
    second = after(device, first)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, metrics, first, empty, GRAPHICS)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, metrics, first, sample(other), GRAPHICS)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, metrics, second, first, GRAPHICS)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, metrics, first, None, GRAPHICS)
    refuses(nv.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, metrics, first, second, GRAPHICS, 2)
    refuses(nv.NVML_ERROR_NOT_SUPPORTED, sample, device, 1)
    assert metrics(first, second, (8, 4711)) == {8: -nv.NVML_ERROR_NOT_SUPPORTED, 4711: -nv.NVML_ERROR_NOT_SUPPORTED}
    support = nv.c_nvmlGpmSupport_t(version=2)
    assert LIB.nvmlGpmQueryDeviceSupport(device, ctypes.byref(support)) == nv.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
    nv.nvmlGpmSampleFree(first)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlGpmSampleFree, first)
    refuses(nv.NVML_ERROR_INVALID_ARGUMENT, nv.nvmlGpmSampleGet, device, first)


def test_kernels_count_as_work(worker):
    device = nv.nvmlDeviceGetHandleByIndex(0)
    first, energy = sample(device), nv.nvmlDeviceGetTotalEnergyConsumption(device)
    worker.does("cu.spins(100_000_000); cu('cuCtxSynchronize')")
    second = sample(device)
    assert metrics(first, second, GRAPHICS)[GRAPHICS] > 0
    assert nv.nvmlDeviceGetTotalEnergyConsumption(device) - energy >= 63_000
