# SPDX-License-Identifier: Apache-2.0
"""The same library under ASan and UBSan: hostile arguments, the life cycle, the tools."""
import os
import subprocess
import sys

import pytest
from conftest import ROOT


def runtime(name):
    out = subprocess.run(["gcc", f"-print-file-name={name}"], check=True, text=True, capture_output=True)
    return out.stdout.strip()


@pytest.mark.skipif(os.environ.get("VARIANT") == "san", reason="this is that run")
def test_the_suite_is_clean_under_sanitizers(tmp_path):
    subprocess.run(["make", "-s", "-j2", "-C", str(ROOT / "sim"), "VARIANT=san"], check=True)
    env = dict(
        os.environ,
        VARIANT="san",
        LD_PRELOAD=f"{runtime('libasan.so')} {runtime('libubsan.so')}",
        # Python leaks on purpose; the tools' own leaks are looked for below.
        ASAN_OPTIONS="detect_leaks=0",
        UBSAN_OPTIONS="print_stacktrace=1",
    )
    files = ["test_abi.py", "test_mig.py", "test_process.py"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        cwd=ROOT / "test/sim",
        env=env,
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]


@pytest.mark.skipif(os.environ.get("VARIANT") == "san", reason="leaks of the tools are looked for outside it")
def test_the_tools_leak_nothing(tmp_path):
    out = ROOT / "build/san/sim"
    subprocess.run(["make", "-s", "-j2", "-C", str(ROOT / "sim"), "VARIANT=san"], check=True)
    env = dict(
        os.environ, CLEAVE_SIM_STATE=str(tmp_path / "s"), CLEAVE_SIM_FLEET=str(ROOT / "sim/fleets/mixed.yaml")
    )
    for words in (
        ["cleave-simctl", "init"],
        ["nvidia-smi", "-mig", "1", "-i", "0,1"],
        ["nvidia-smi", "mig", "-cgi", "9,19", "-C", "-i", "0"],
        ["nvidia-smi"],
        ["nvidia-smi", "mig", "-lgip"],
        ["cleave-simctl", "show", "--json"],
        ["cleave-simctl", "log", "--json"],
        ["cleave-simctl", "reboot"],
    ):
        result = subprocess.run([str(out / words[0]), *words[1:]], env=env, text=True, capture_output=True)
        assert result.returncode == 0, result.stdout + result.stderr
