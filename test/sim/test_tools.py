# SPDX-License-Identifier: Apache-2.0
"""nvidia-smi's look-alike and simctl's pictures."""
import pynvml as nv
import pytest
from conftest import ROOT

FLEETS = sorted((ROOT / "sim/fleets").glob("*.yaml"))


@pytest.mark.parametrize("fleet", FLEETS, ids=lambda p: p.stem)
def test_each_fleet_that_is_shipped_works(machine, fleet):
    m = machine(fleet.read_text(), init=False)
    gpus, metax = m.show()["gpus"], m.show()["metax"]
    m.ctl("latency", "preset", "none")
    assert len(gpus) + len(metax) > 0
    if gpus:
        assert m.smi("-L").stdout.count("GPU ") == len(gpus)
        assert "Driver Version: 580.95.05" in m.smi().stdout
    else:
        assert m.smi(ok=False).returncode == nv.NVML_ERROR_DRIVER_NOT_LOADED


def test_the_life_of_an_instance_in_nvidia_smis_words(machine):
    m = machine("gpus: [{model: a100-40}]", init=False)
    assert "pending enable state" in m.smi("-mig", 1, "-i", 0).stdout
    assert m.smi("-r", "-i", 0).stdout == "GPU 00000000:07:00.0 was successfully reset.\nAll done.\n"
    out = m.smi("mig", "-cgi", "9,MIG 2g.10gb:0,1g.5gb", "-C").stdout.splitlines()
    assert out[0] == "Successfully created GPU instance ID  2 on GPU  0 using profile MIG 3g.20gb (ID  9)"
    assert out[1] == (
        "Successfully created compute instance ID  0 on GPU  0 GPU instance ID  2 using profile MIG 3g.20gb (ID  2)"
    )
    listed = m.smi("-L").stdout
    assert [line.split()[1] for line in listed.splitlines()[1:]] == ["3g.20gb", "2g.10gb", "1g.5gb"]
    gis = m.smi("mig", "-lgi").stdout
    assert "4:4" in gis and "0:2" in gis and "MIG 1g.5gb" in gis
    assert "MIG 3g.20gb" in m.smi("mig", "-lci").stdout
    assert "MIG 1c.3g.20gb" in m.smi("mig", "-lcip", "-gi", 2).stdout
    m.ctl("attach", "--gpu", 0, "--gi", 2, "--ci", 0, "--pid", 4242)
    busy = m.smi("mig", "-dci", "-gi", 2, ok=False)
    assert busy.returncode == nv.NVML_ERROR_IN_USE
    assert busy.stdout.endswith("Failed to destroy compute instances: In use by another client\n")
    assert "4242" in m.smi().stdout
    m.ctl("detach", "--pid", 4242)
    m.smi("mig", "-dci"), m.smi("mig", "-dgi")
    assert m.smi("mig", "-lgi", ok=False).stdout == "No GPU instances found: Not Found\n"


def test_what_does_not_fit_is_said(machine):
    m = machine("gpus: [{model: h100-80, mig: true}]", init=False)
    result = m.smi("mig", "-cgi", "0,19", ok=False)
    assert result.returncode == nv.NVML_ERROR_INSUFFICIENT_RESOURCES
    assert result.stdout.endswith(
        "Unable to create a GPU instance on GPU  0 using profile 19: Insufficient Resources\n"
        "Failed to create GPU instances: Insufficient Resources\n"
    )
    assert m.smi("mig", "-cgi", "9g.1gb", ok=False).returncode == nv.NVML_ERROR_INVALID_ARGUMENT


def test_compute_instances_are_made_and_ended_by_id(machine):
    m = machine("gpus: [{model: h100-80, mig: true}]", init=False)
    m.smi("mig", "-cgi", "3g.40gb,3g.40gb")
    assert m.smi("mig", "-lci", ok=False).stdout == "No compute instances found: Not Found\n"
    made = m.smi("mig", "-gi", 1, "-cci", "1,0").stdout.splitlines()
    assert made[0].endswith("GPU instance ID  1 using profile MIG 2c.3g.40gb (ID  1)")
    assert made[1].endswith("GPU instance ID  1 using profile MIG 1c.3g.40gb (ID  0)")
    whole = m.smi("mig", "-gi", 2, "-cci").stdout
    assert "GPU instance ID  2 using profile MIG 3g.40gb (ID  2)" in whole
    full = m.smi("mig", "-gi", 2, "-cci", "1c.3g.40gb", ok=False)
    assert full.returncode == nv.NVML_ERROR_INSUFFICIENT_RESOURCES
    assert m.smi("mig", "-gi", 2, "-cci", "9c.3g.40gb", ok=False).returncode == nv.NVML_ERROR_INVALID_ARGUMENT
    ended = m.smi("mig", "-gi", 1, "-ci", 0, "-dci").stdout
    assert ended == "Successfully destroyed compute instance ID  0 from GPU  0 GPU instance ID  1\n"
    assert m.smi("mig", "-gi", 9, "-dgi", ok=False).returncode == nv.NVML_ERROR_NOT_FOUND


@pytest.mark.parametrize("words", [["-mig", "2"], ["mig", "-cgi"], ["--colour"], ["-L", "-r"], ["-i"]])
def test_what_nvidia_smi_does_not_understand_it_says(machine, words):
    m = machine("gpus: [{model: h100-80}]", init=False)
    result = m.smi(*words, ok=False)
    assert result.returncode == 2 and "nvidia-smi mig" in result.stderr


def test_a_lost_card_is_named_and_left_out(machine):
    m = machine("gpus: [{model: h100-80, count: 2}]", init=False)
    m.ctl("lost", "--gpu", 0, "set")
    out = m.smi("-L").stdout.splitlines()
    assert out[0] == "Unable to determine the device handle for GPU0: GPU is lost" and out[1].startswith("GPU 1:")


def test_placements_and_profiles_are_listed_as_the_real_tool_does(machine):
    m = machine("gpus: [{model: h100-80}, {model: rtx-pro-6000}]", init=False)
    placements = m.smi("mig", "-lgipp").stdout
    assert "GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1\n" in placements
    assert "GPU  0 Profile ID  0 Placement : {0}:8\n" in placements
    assert "GPU  1 Profile ID 14 Placements: {0,3,6,9}:3\n" in placements
    profile = [line for line in m.smi("mig", "-lgip", "-i", 0).stdout.splitlines() if "MIG 3g.40gb" in line][0]
    assert profile.split()[1:9] == ["0", "MIG", "3g.40gb", "9", "0/2", "39.50", "No", "60"]


def test_cards_are_named_by_index_uuid_and_bus(machine):
    m = machine("gpus: [{model: h100-80, count: 2}]", init=False)
    uuid = m.show()["gpus"][1]["uuid"]
    for name in ("1", uuid, "00000000:0F:00.0"):
        assert m.smi("-L", "-i", name).stdout.startswith(f"GPU 1: NVIDIA H100 80GB HBM3 (UUID: {uuid})")
        m.ctl("xid", "--gpu", name, "--code", 1)
    assert m.smi("-L", "-i", "7", ok=False).stdout == "No devices were found\n"


def test_without_a_driver_nvidia_smi_says_so(machine):
    m = machine("gpus: []", init=False)
    result = m.smi(ok=False, env={"CLEAVE_SIM_STATE": "", "CLEAVE_SIM_FLEET": ""})
    assert result.returncode == 9 and "couldn't communicate with the NVIDIA driver" in result.stdout


def test_no_mig_anywhere(machine):
    m = machine("gpus: [{model: l4}]", init=False)
    assert m.smi("mig", "-lgip", ok=False).stdout == "No MIG-supported devices found.\n"
    assert "Unable to enable MIG Mode" in m.smi("-mig", 1, ok=False).stdout
    assert "N/A |\n+---" in m.smi().stdout


def test_show_draws_a_card_as_a_bar_of_its_slots(machine):
    m = machine("gpus: [{model: rtx-pro-6000, mig: true}]", init=False)
    m.smi("mig", "-cgi", "14:0,5:6", "-C")
    m.ctl("attach", "--gpu", 0, "--gi", 2, "--ci", 0, "--pid", 9)
    bar = m.ctl("show").stdout.splitlines()[2].strip()
    assert len(bar) == 72
    assert bar[:18].strip("[] ") == "1g.24gb" and set(bar[18:36]) == {"."} and bar[36:].strip("[]#") == "2g.48gb"


def test_init_does_not_replace_a_machine_unasked(machine):
    m = machine("gpus: [{model: l4}]", init=False)
    m.ctl("init")
    uuid = m.show()["gpus"][0]["uuid"]
    assert "exists" in m.ctl("init", ok=False).stderr
    assert m.show()["gpus"][0]["uuid"] == uuid
    m.ctl("init", "--force")
    assert m.show()["gpus"][0]["uuid"] != uuid
