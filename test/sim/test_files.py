# SPDX-License-Identifier: Apache-2.0
"""What the driver shows in /proc, and what its installation leaves on a host."""
import os
import stat

import pynvml as nv
import pytest


@pytest.fixture
def h100(machine):
    return machine("driverVersion: 570.86.15\ngpus: [{model: h100-80, mig: true, count: 2}]", init=False)


def caps(m, card=0):
    root = m.proc / f"driver/nvidia/capabilities/gpu{card}/mig"
    return sorted(str(p.parent.relative_to(root)) for p in root.rglob("access")) if root.exists() else []


def minors(m):
    lines = (m.proc / "driver/nvidia-caps/mig-minors").read_text().splitlines()
    return {name: int(minor) for name, minor in (line.split() for line in lines)}


def test_the_driver_shows_itself_and_its_cards(h100):
    gpu = h100.show()["gpus"][1]
    assert "195 nvidia\n" in (h100.proc / "devices").read_text()
    assert "  570.86.15  " in (h100.proc / "driver/nvidia/version").read_text().splitlines()[0]
    infos = [(p / "information").read_text() for p in sorted((h100.proc / "driver/nvidia/gpus").iterdir())]
    assert len(infos) == 2
    assert f"GPU UUID: \t {gpu['uuid']}\n" in infos[1] and "Device Minor: \t 1\n" in infos[1]


def test_capability_minors_are_the_drivers_and_each_is_one_instances(h100):
    h100.ctl("show")
    of = minors(h100)
    assert of["config"] == 1 and of["monitor"] == 2
    assert of["gpu0/gi0/access"] == 3 and of["gpu0/gi0/ci0/access"] == 4 and of["gpu0/gi1/access"] == 12
    assert of["gpu1/gi0/access"] == 138
    assert len(set(of.values())) == len(of) == 2 + 32 * 15 * 9


def test_capabilities_follow_the_instances(h100):
    h100.smi("mig", "-i", 0, "-cgi", "3g.40gb", "-C")
    gi = h100.show()["gpus"][0]["gpuInstances"][0]["id"]
    assert caps(h100) == [f"gi{gi}", f"gi{gi}/ci0"] and caps(h100, card=1) == []
    file = (h100.proc / f"driver/nvidia/capabilities/gpu0/mig/gi{gi}/ci0/access").read_text()
    assert file == f"DeviceFileMinor: {minors(h100)[f'gpu0/gi{gi}/ci0/access']}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
    h100.smi("mig", "-i", 0, "-dci")
    assert caps(h100) == [f"gi{gi}"]
    h100.smi("mig", "-i", 0, "-dgi")
    assert caps(h100) == [] and not (h100.proc / f"driver/nvidia/capabilities/gpu0/mig/gi{gi}").exists()


def test_a_refused_call_shows_nothing(h100):
    h100.smi("mig", "-i", 0, "-cgi", "7g.80gb")
    before = caps(h100)
    assert h100.smi("mig", "-i", 0, "-cgi", "1g.10gb", ok=False).returncode == nv.NVML_ERROR_INSUFFICIENT_RESOURCES
    assert caps(h100) == before


def test_what_a_killed_client_left_is_put_right_by_the_next(h100):
    h100.smi("mig", "-i", 0, "-cgi", "1g.10gb", "-C")
    left = h100.proc / "driver/nvidia/capabilities/gpu0/mig/gi4/ci0/access"
    left.parent.mkdir(parents=True)
    left.write_text("DeviceFileMinor: 1\n")
    h100.ctl("show")
    assert not left.exists() and len(caps(h100)) == 2


def test_a_reboot_takes_the_capabilities_along(h100):
    h100.smi("mig", "-i", 0, "-cgi", "1g.10gb", "-C")
    h100.ctl("reboot")
    assert caps(h100) == []


def test_other_cards_take_the_place_of_the_old(h100):
    h100.ctl("show")
    h100.fleet.write_text("gpus: [{model: a30}]")
    h100.ctl("init", "--force")
    assert len(list((h100.proc / "driver/nvidia/gpus").iterdir())) == 1


def test_a_driver_root_has_a_drivers_files(h100, tmp_path):
    root = tmp_path / "driver"
    h100.ctl("driver-root", root)
    libraries = root / "usr/lib/x86_64-linux-gnu"
    assert (libraries / "libcuda.so").resolve() == libraries / "libcuda.so.570.86.15"
    assert (libraries / "libnvidia-ml.so.1").resolve().stat().st_size > 10000
    assert os.access(root / "usr/bin/nvidia-smi", os.X_OK)
    assert (root / "lib/firmware/nvidia/570.86.15/gsp_ga10x.bin").exists()
    assert stat.S_ISSOCK((root / "var/run/nvidia-persistenced/socket").stat().st_mode)
    h100.ctl("driver-root", root)


def test_a_dev_root_has_the_devices_of_cards_and_instances(h100, tmp_path):
    h100.smi("mig", "-i", 1, "-cgi", "1g.10gb", "-C")
    gi = h100.show()["gpus"][1]["gpuInstances"][0]["id"]
    h100.ctl("dev-root", tmp_path)
    dev = tmp_path / "dev"
    of = minors(h100)
    assert sorted(p.name for p in dev.iterdir()) == sorted(
        ["nvidia-caps", "nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia1", "nvidiactl"]
    )
    wanted = {1, 2, of[f"gpu1/gi{gi}/access"], of[f"gpu1/gi{gi}/ci0/access"]}
    assert {p.name for p in (dev / "nvidia-caps").iterdir()} == {f"nvidia-cap{n}" for n in wanted}
    node = (dev / "nvidiactl").stat()
    if stat.S_ISCHR(node.st_mode):
        assert (os.major(node.st_rdev), os.minor(node.st_rdev)) == (195, 255)


def test_plain_device_files_where_asked(h100, tmp_path):
    h100.ctl("dev-root", tmp_path, "--plain")
    assert stat.S_ISREG((tmp_path / "dev/nvidia0").stat().st_mode)
