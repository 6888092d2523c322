# SPDX-License-Identifier: Apache-2.0
"""Calls of several cards at the same time: what runs side by side, and what a driver-wide lock puts in a row."""
import subprocess
import threading

import pynvml as nv
import pytest
from conftest import OUT, create

CARDS = 8
CREATE = "nvmlDeviceCreateGpuInstance"
TAKES_S = 0.5
SMALLEST = 19


def on_each_card(work):
    """work(index) in one thread for each card, all begun together."""
    failed = []
    together = threading.Barrier(CARDS)

    def run(index):
        try:
            together.wait()
            work(index)
        except Exception as e:  # noqa: BLE001: shown by the test's own thread
            failed.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(CARDS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def calls(m, name):
    """Those of the log, in the order of their ends."""
    found = sorted((r for r in m.log("--mutating") if r["call"] == name), key=lambda r: r["endNs"])
    assert len(found) == CARDS and {r["resultName"] for r in found} == {"SUCCESS"}
    return found


def lasted_s(done):
    return (done[-1]["endNs"] - min(r["startNs"] for r in done)) / 1e9


def fleet(extra):
    return f"latency: {{{CREATE}: {TAKES_S}s}}\n{extra}\ngpus: [{{model: h100-80, count: {CARDS}, mig: true}}]"


def create_on(index):
    create(nv.nvmlDeviceGetHandleByIndex(index), SMALLEST)


def test_creations_on_several_cards_run_side_by_side(machine):
    m = machine(fleet(""))
    on_each_card(create_on)
    done = calls(m, CREATE)
    assert max(r["startNs"] for r in done) < done[0]["endNs"]


def test_a_driver_wide_lock_puts_them_in_a_row(machine):
    m = machine(fleet(f"driverLock: {{{CREATE}: 100}}"))
    on_each_card(create_on)
    assert lasted_s(calls(m, CREATE)) >= CARDS * TAKES_S


def test_the_lock_is_one_for_all_processes(machine):
    m = machine(fleet(f"driverLock: {{{CREATE}: 100}}"), init=False)
    work = f"nv.nvmlDeviceCreateGpuInstance(nv.nvmlDeviceGetHandleByIndex(%d), {SMALLEST})"
    clients = [m.client(work % i) for i in range(CARDS)]
    assert [c.wait() for c in clients] == [0] * CARDS
    assert lasted_s(calls(m, CREATE)) >= CARDS * TAKES_S


def test_a_hang_on_one_card_leaves_the_others_alone(machine):
    m = machine(f"gpus: [{{model: h100-80, count: {CARDS}, mig: true}}]")
    m.ctl("fault", "add", "--gpu", 0, "--call", CREATE, "--nth", 1, "--action", "hang:3")
    on_each_card(create_on)
    done = calls(m, CREATE)
    assert done[-1]["gpu"] == 0 and done[-2]["endNs"] < done[-1]["startNs"] + 3e9


@pytest.mark.parametrize("latency", ["none", "{cleaveSimDeviceReset: 5s}"])
def test_resets_of_several_cards_run_side_by_side(machine, latency):
    m = machine(f"latency: {latency}\ngpus: [{{model: a100-80, count: {CARDS}}}]", init=False)
    tools = [
        subprocess.Popen([str(OUT / "nvidia-smi"), "--gpu-reset", "-i", str(i)], env=m.env, stdout=subprocess.PIPE, text=True)
        for i in range(CARDS)
    ]
    said = [t.communicate()[0] for t in tools]
    assert [t.returncode for t in tools] == [0] * CARDS, said
    done = calls(m, "cleaveSimDeviceReset")
    if latency != "none":
        assert max(r["startNs"] for r in done) < done[0]["endNs"]


def test_a_client_still_keeps_every_reset_away(machine):
    m = machine(f"gpus: [{{model: a100-80, count: {CARDS}}}]")
    assert m.smi("--gpu-reset", "-i", "3", ok=False).returncode == nv.NVML_ERROR_IN_USE
