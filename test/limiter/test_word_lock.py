# SPDX-License-Identifier: Apache-2.0
"""The lock between processes (limiter/word_lock.h) among many that are killed; single promises: test/unit/word_lock_test.c."""
import subprocess

import pytest
from compiled import program


@pytest.fixture(scope="module")
def storm(tmp_path_factory):
    sources = ["test/limiter/lock_storm.c", "limiter/word_lock.c", "limiter/peer.c", "limiter/proc_stat.c"]
    return program(tmp_path_factory.mktemp("lock") / "storm", *sources)


@pytest.mark.parametrize("seed", range(3))
def test_never_two_are_inside_and_what_the_killed_had_is_taken_over(storm, seed):
    result = subprocess.run([str(storm), str(seed)], check=True, text=True, capture_output=True, timeout=100)
    entries, left_behind, violations = map(int, result.stdout.split())
    assert violations == 0 and left_behind > 0 and entries > 1000
