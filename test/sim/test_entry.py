# SPDX-License-Identifier: Apache-2.0
"""The agent's way into a container, on a simulated machine: device files and the CDI spec."""
import json
import os
import shlex
import stat
import subprocess

import pytest
from conftest import ROOT

VERSION = "570.86.15"
MODULES = [f"container/{m}" for m in "container_vendor dri_nodes driver_files driver_mounts entry grant_mark rooted".split()]
MODULES += "cdi/cdi cdi/cdi_common cdi/entry_build vendor/container_vendors".split()
MODULES += ["vendor/metax/container_metax"]
MODULES += [f"vendor/nvidia/{m}" for m in "container_nvidia nvidia_make nvidia_nodes".split()]
BASE = "clock err file log num rfc3339 rng sb xalloc".split()


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    out = tmp_path_factory.mktemp("entry") / "entry"
    sources = ["test/sim/entry.c"]
    sources += [f"nodeagent/{m}.c" for m in MODULES] + [f"base/{m}.c" for m in BASE]
    flags = shlex.split(subprocess.check_output(["pkg-config", "--cflags", "--libs", "jansson"], text=True))
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-I.", "-g", "-O1", *sanitize, *sources, *flags, "-o", str(out)]
    subprocess.run(command, cwd=ROOT, check=True)
    return out


class Host:
    """A simulated machine with its driver installed, and what a program made of it."""

    def __init__(self, machine, path, program):
        self.machine, self.program = machine, program
        self.driver, self.cdi = path / "driver", path / "cdi"
        machine.ctl("driver-root", self.driver)
        (self.driver / "dev").mkdir()

    def devices(self):
        """The names and instance ids that the agent would give."""
        for card in self.machine.show()["gpus"]:
            if not card["gpuInstances"]:
                yield f"{card['uuid']}:{card['index']}"
            for gi in card["gpuInstances"]:
                for ci in gi["computeInstances"]:
                    yield f"{card['uuid']}-{gi['placement']['start']}:{card['index']}:{gi['id']}:{ci['id']}"

    def run(self, *devices):
        words = [self.program, self.machine.proc, self.driver, self.driver, VERSION, self.cdi, *devices]
        return subprocess.run([str(w) for w in words], text=True, capture_output=True)

    def spec(self, vendor="nvidia"):
        return json.loads((self.cdi / f"gpu.cleave.dev-{vendor}.json").read_text())


@pytest.fixture
def host(machine, tmp_path, program):
    probe = tmp_path / "probe"
    try:
        os.mknod(probe, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("device files cannot be made here")
    m = machine(f"driverVersion: {VERSION}\ngpus: [{{model: h100-80, mig: true}}, {{model: h100-80}}]", init=False)
    return Host(m, tmp_path, program)


def nodes_of(edits):
    return [n["path"] for n in edits["containerEdits"]["deviceNodes"]]


def test_each_device_of_the_spec_is_there_with_the_numbers_that_the_driver_gave(host):
    host.machine.smi("mig", "-i", 0, "-cgi", "3g.40gb,1g.10gb", "-C")
    done = host.run(*host.devices())
    assert done.returncode == 0, done.stderr
    devices = host.spec()["devices"]
    assert [len(nodes_of(d)) for d in devices] == [3, 3, 1]
    listed = (host.machine.proc / "devices").read_text().split()
    major = {name: int(number) for number, name in zip(listed, listed[1:]) if number.isdigit()}
    for device in devices:
        card, *caps = device["containerEdits"]["deviceNodes"]
        assert os.major(os.stat(card["hostPath"]).st_rdev) == major["nvidia"] == 195
        for cap in caps:
            found = os.stat(cap["hostPath"])
            assert stat.S_ISCHR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o444
            assert os.major(found.st_rdev) == major["nvidia-caps"]
            assert cap["path"].endswith(f"nvidia-cap{os.minor(found.st_rdev)}")
    owned = [cap for d in devices for cap in nodes_of(d)[1:]]
    assert len(set(owned)) == len(owned), "a capability is one partition's alone"


def test_libraries_resolve_under_each_of_their_names(host):
    assert host.run(*host.devices()).returncode == 0
    mounts = {m["containerPath"]: m for m in host.spec()["containerEdits"]["mounts"]}
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/local/nvidia/lib64"):
        for name in ("libcuda.so", "libcuda.so.1", f"libcuda.so.{VERSION}", "libnvidia-ml.so.1", "libnvidia-nvvm.so.4"):
            mount = mounts[f"{folder}/{name}"]
            assert os.path.isfile(mount["hostPath"]) and not os.path.islink(mount["hostPath"])
            assert mount["hostPath"].endswith(f".so.{VERSION}") and "ro" in mount["options"]
    assert f"/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin" in mounts
    assert mounts["/usr/bin/nvidia-smi"]["hostPath"] == str(host.driver / "usr/bin/nvidia-smi")
    assert mounts["/etc/vulkan/icd.d/nvidia_icd.json"]
    assert mounts["/var/run/nvidia-persistenced/socket"]["hostPath"].endswith("driver/run/nvidia-persistenced/socket")
    assert "hooks" not in host.spec()["containerEdits"]


def test_a_change_of_layout_changes_the_devices_alone(host):
    host.machine.smi("mig", "-i", 0, "-cgi", "3g.40gb", "-C")
    assert host.run(*host.devices()).returncode == 0
    before = host.spec()
    host.machine.smi("mig", "-i", 0, "-cgi", "1g.10gb", "-C")
    assert host.run(*host.devices()).returncode == 0
    after = host.spec()
    assert before["containerEdits"] == after["containerEdits"]
    names = [d["name"] for d in after["devices"]]
    assert len(names) == 3 and set(d["name"] for d in before["devices"]) < set(names)


def test_a_partition_that_is_not_there_gets_no_device_files(host):
    card = host.machine.show()["gpus"][0]
    done = host.run(f"{card['uuid']}-0:{card['index']}:2:0")
    assert done.returncode == 1 and "gi2/access does not exist" in done.stderr
    assert not (host.cdi / "gpu.cleave.dev-nvidia.json").exists()


def test_cards_of_metax_are_their_own_nodes_and_lack_nothing_of_nvidias(machine, tmp_path, program):
    m = machine("gpus: [{model: c500, count: 2}]", init=False)
    host = Host(m, tmp_path, program)
    m.ctl("dev-root", host.driver)
    m.ctl("sys-root", host.driver)
    cards = m.show()["metax"]
    done = host.run(*(f"{c['uuid']}={c['bdf']}" for c in cards))
    assert done.returncode == 0, done.stderr
    spec = host.spec("metax")
    assert nodes_of(spec) == ["/dev/mxcd", "/dev/mxnd", "/dev/mxgd"] and "mounts" not in spec["containerEdits"]
    assert [d["name"] for d in spec["devices"]] == [c["uuid"] for c in cards]
    assert [nodes_of(d) for d in spec["devices"]] == [
        ["/dev/dri/card1", "/dev/dri/renderD128"],
        ["/dev/dri/card2", "/dev/dri/renderD129"],
    ]
    for node in (n for d in [spec, *spec["devices"]] for n in d["containerEdits"]["deviceNodes"]):
        assert os.path.exists(node["hostPath"])
    assert not (host.cdi / "gpu.cleave.dev-nvidia.json").exists()
