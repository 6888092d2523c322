# SPDX-License-Identifier: Apache-2.0
"""HAMi-core's own tests of limits, as they are, before the limiter in HAMi-core's place.

HAMI_CORE_TESTS names the folder of its test programs: `hack/hami-core.sh` builds them, into build/hami-core/tests. Those of the runtime API
(test_runtime_*) are not among them: they need NVIDIA's libcudart."""
import os
import pathlib
import re

import pytest
from cuda import CONTEXT, MIB, OUT_OF_MEMORY

FOLDER = os.environ.get("HAMI_CORE_TESTS")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="HAMI_CORE_TESTS names no folder of HAMi-core's tests (hack/hami-core.sh)")

# They ask for at most 1.5 GiB that they must get, and one of them for ten that it need not. The card gives out 2 MiB at a time.
ENOUGH, TOO_LITTLE = {"mib": 4000, "context": CONTEXT}, {"mib": 1}
OF_THE_HOST = ["test_alloc_host", "test_host_alloc", "test_host_register"]
OF_THE_CARD = ["test_alloc", "test_alloc_managed", "test_alloc_pitch", "test_create_array", "test_create_3d_array", "test_mem_create"]
USAGE = re.compile(r"^Current usage: (\d+) bytes, .*, total: (\d+) bytes$", re.M)


@pytest.fixture
def run(container, h100):
    """run(test, share): the ended program, of which nothing is left, and what it was told: (used, the card's size)."""

    def start(name, share):
        one = container(h100, share)
        done = one.run(pathlib.Path(FOLDER) / name)
        assert one.worker().says("cu.free()") == share["mib"] * MIB - share.get("context", 0)
        return done, [tuple(map(int, words)) for words in USAGE.findall(done.stdout)]

    return start


@pytest.mark.parametrize("name", OF_THE_CARD + OF_THE_HOST)
def test_it_passes_and_never_sees_more_than_the_share(run, name):
    done, told = run(name, ENOUGH)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(used <= total == ENOUGH["mib"] * MIB for used, total in told)


@pytest.mark.parametrize("name", OF_THE_CARD)
def test_it_is_refused_what_its_share_has_no_room_for(run, name):
    done, told = run(name, TOO_LITTLE)
    assert done.returncode != 0
    assert re.search(rf"(error at line .*: |cuMemCreate returned ){OUT_OF_MEMORY}\b", done.stdout + done.stderr), done.stdout + done.stderr
    assert all(used <= total == MIB for used, total in told)


@pytest.mark.parametrize("name", OF_THE_HOST)
def test_memory_of_the_host_does_not_count(run, name):
    done, told = run(name, TOO_LITTLE)
    assert done.returncode == 0 and {used for used, _ in told} == {0}, done.stdout + done.stderr
