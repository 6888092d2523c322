# SPDX-License-Identifier: Apache-2.0
"""The client's conformance suite on the real API server.

The unit tests run the same cases on the fake, so whatever passes both is a promise that the fake keeps
as the server does. The cases make what they need under names of their own and remove it.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import made

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "test" / "unit" / "kc_conformance_support.h"
CASES = re.findall(r"^    X\((\w+)\)", HEADER.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def outcome(cluster):
    """case → (passed, what it said), from one run of the whole suite."""
    done = subprocess.run(
        [made("release", "test/unit/kc_conformance_test"), "--tap", "-j1"],
        env={**os.environ, "CLEAVE_TEST_KUBECONFIG": str(cluster.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = done.stdout + done.stderr
    return {m[2]: (m[1] == "ok", said) for m in re.finditer(r"^(ok|not ok) - kc_conformance::(\w+)", said, re.MULTILINE)}


@pytest.mark.parametrize("case", CASES)
def test_the_api_server_conforms(outcome, case):
    assert case in outcome, f"{case} did not run"
    passed, said = outcome[case]
    assert passed, said
