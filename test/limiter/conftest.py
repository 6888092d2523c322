# SPDX-License-Identifier: Apache-2.0
"""The limiter in front of the simulated driver: the machine is the one of the simulator's tests."""
import importlib.util
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


sys.path.append(str(ROOT / "test/sim"))
simulator = load("simulator", ROOT / "test/sim/conftest.py")
OUT, machine, h100 = simulator.OUT, simulator.machine, simulator.h100

from container import Container  # noqa: E402


@pytest.fixture
def container(tmp_path, request):
    """container(machine, MiB or {...} of each card): a container with shares of the first cards."""
    made = []

    def start(machine, *shares):
        made.append(Container(machine, tmp_path / f"container{len(made)}", shares))
        return made[-1]

    yield start
    for one in made:
        one.end()
