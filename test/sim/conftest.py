# SPDX-License-Identifier: Apache-2.0
"""A machine of simulated cards for each test, driven by NVIDIA's own Python client."""
import ctypes
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / os.environ.get("VARIANT", "release") / "sim"

sys.path.insert(
    0, subprocess.run([str(ROOT / "test/venv.sh"), str(ROOT / "test/sim/requirements.txt")], check=True, text=True, capture_output=True).stdout.strip()
)
# By its soname the client then finds this library, and not one of the system's.
ctypes.CDLL(str(OUT / "libnvidia-ml.so.1"), mode=ctypes.RTLD_GLOBAL)

import pynvml as nv  # noqa: E402


class Machine:
    """A state file, and the tools on it."""

    def __init__(self, path, fleet, monkeypatch):
        self.state = path / "state"
        self.proc = path / "proc"
        self.fleet = path / "fleet.yaml"
        self.fleet.write_text(fleet)
        self.env = dict(
            os.environ,
            CLEAVE_SIM_STATE=str(self.state),
            CLEAVE_SIM_FLEET=str(self.fleet),
            CLEAVE_SIM_PROC=str(self.proc),
            PYTHONPATH=os.pathsep.join(sys.path),
        )
        for name in ("CLEAVE_SIM_STATE", "CLEAVE_SIM_FLEET", "CLEAVE_SIM_PROC"):
            monkeypatch.setenv(name, self.env[name])
        monkeypatch.delenv("CLEAVE_SIM_FAULT", raising=False)

    def run(self, tool, *words, ok=True, env=None):
        result = subprocess.run(
            [str(OUT / tool), *map(str, words)], env=dict(self.env, **(env or {})), text=True, capture_output=True
        )
        if ok:
            assert result.returncode == 0, result.stdout + result.stderr
        return result

    def ctl(self, *words, **options):
        return self.run("cleave-simctl", *words, **options)

    def smi(self, *words, **options):
        return self.run("nvidia-smi", *words, **options)

    def show(self):
        return json.loads(self.ctl("show", "--json").stdout)

    def log(self, *words):
        return [json.loads(line) for line in self.ctl("log", "--json", *words).stdout.splitlines()]

    def client(self, code, env=None):
        """Another process that uses NVML: runs Python `code` after nvmlInit."""
        prelude = (
            f"import ctypes; ctypes.CDLL({str(OUT / 'libnvidia-ml.so.1')!r}); import pynvml as nv; nv.nvmlInit()\n"
        )
        return subprocess.Popen(
            [sys.executable, "-c", prelude + code],
            env=dict(self.env, **(env or {})),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """make(fleet): a machine from fleet text; the client is initialised on it."""
    made = []

    def make(fleet, init=True):
        made.append(Machine(tmp_path, fleet, monkeypatch))
        if init:
            nv.nvmlInit()
        return made[-1]

    yield make
    while True:
        try:
            nv.nvmlShutdown()
        except nv.NVMLError_Uninitialized:
            break


@pytest.fixture
def h100(machine):
    return machine("gpus: [{model: h100-80, count: 2}]")


@pytest.fixture
def client(h100):
    """client(**env): another process, not initialised."""
    from cuda import Client  # the limiter's tests, which have it elsewhere, use this file, too

    made = []

    def start(*before, **env):
        made.append(Client(h100, *before, **env))
        return made[-1]

    yield start
    for one in made:
        one.kill()


@pytest.fixture
def worker(client):
    """A process with the primary context of the first card."""
    one = client()
    one.says("cu.init(0)")
    return one


def used(index=0):
    """Bytes of a card that are in use."""
    return nv.nvmlDeviceGetMemoryInfo(nv.nvmlDeviceGetHandleByIndex(index), version=nv.nvmlMemory_v2).used


def listed(index=0):
    """{pid: bytes} of the processes that NVML names on a card."""
    return {p.pid: p.usedGpuMemory for p in nv.nvmlDeviceGetComputeRunningProcesses(nv.nvmlDeviceGetHandleByIndex(index))}


def refuses(code, call, *args):
    """Asserts that the call fails with that NVML return code."""
    with pytest.raises(nv.NVMLError) as caught:
        call(*args)
    assert caught.value.value == code, caught.value


def mig_on(index=0):
    """The card with MIG on, by whatever its generation needs."""
    device = nv.nvmlDeviceGetHandleByIndex(index)
    status = nv.nvmlDeviceSetMigMode(device, 1)
    if status == nv.NVML_ERROR_RESET_REQUIRED:
        ctypes.CDLL("libnvidia-ml.so.1").cleaveSimDeviceReset(device)
    assert nv.nvmlDeviceGetMigMode(device) == [1, 1]
    return device


def create(device, profile, start=None):
    """A GPU instance by profile id; its handle and its info."""
    if start is None:
        gi = nv.nvmlDeviceCreateGpuInstance(device, profile)
    else:
        size = placements(device, profile)[0][1]
        where = nv.c_nvmlGpuInstancePlacement_t(start, size)
        gi = nv.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile, ctypes.byref(where))
    return gi, nv.nvmlGpuInstanceGetInfo(gi)


def create_whole(device, profile, start=None):
    """A GPU instance with the compute instance that spans it: gi, ci, ci info."""
    gi, info = create(device, profile, start)
    slices = nv.nvmlDeviceGetGpuInstanceProfileInfoById(device, profile).sliceCount
    for e in range(nv.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
        try:
            p = nv.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, e, 0)
        except nv.NVMLError_NotSupported:
            continue
        if p.sliceCount == slices:
            ci = nv.nvmlGpuInstanceCreateComputeInstance(gi, p.id)
            return gi, ci, nv.nvmlComputeInstanceGetInfo(ci)
    raise AssertionError("no compute instance spans it")


def placements(device, profile):
    """(start, size) of every placement of the profile."""
    count = ctypes.c_uint(0)
    nv.nvmlDeviceGetGpuInstancePossiblePlacements(device, profile, None, ctypes.byref(count))
    array = (nv.c_nvmlGpuInstancePlacement_t * count.value)()
    nv.nvmlDeviceGetGpuInstancePossiblePlacements(device, profile, array, ctypes.byref(count))
    return [(p.start, p.size) for p in array]


def profiles(device):
    """Every GPU instance profile of the card."""
    found = []
    for e in range(nv.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            found.append(nv.nvmlDeviceGetGpuInstanceProfileInfo(device, e))
        except nv.NVMLError_NotSupported:
            pass
    return found
