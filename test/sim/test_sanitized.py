# SPDX-License-Identifier: Apache-2.0
"""The same library under sanitizers, and under the eye of a debugger."""
import os
import subprocess
import sys

import pytest
from conftest import ROOT


def runtime(name):
    out = subprocess.run(["gcc", f"-print-file-name={name}"], check=True, text=True, capture_output=True)
    return out.stdout.strip()


inner = os.environ.get("VARIANT", "release") != "release"


LIBRARIES = {"nvml": "libnvidia-ml.so.1", "metax": "libmxsml.so", "cuda": "libcuda.so.1"}
FLEETS = {"nvml": "h100-80", "metax": "c500", "cuda": "h100-80"}


def compiled(tmp_path, sources, variant, library, *flags):
    """A C client linked with the library of that variant."""
    out = ROOT / "build" / variant / "sim"
    program = tmp_path / "program"
    command = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", *flags]
    command += [f"-I{ROOT}", *(str(ROOT / "test/sim" / source) for source in sources), f"-L{out}", f"-l:{library}"]
    subprocess.run([*command, f"-Wl,-rpath,{out}", "-o", str(program)], check=True)
    return program


def environment(tmp_path, fleet, **more):
    return dict(
        os.environ, CLEAVE_SIM_STATE=str(tmp_path / "s"), CLEAVE_SIM_FLEET=str(ROOT / f"sim/fleets/{fleet}.yaml"), **more
    )


@pytest.mark.skipif(inner, reason="of the plain library")
@pytest.mark.parametrize("vendor", ["nvml", "metax"])
def test_after_no_instruction_is_the_hardware_torn(tmp_path, vendor):
    program = compiled(tmp_path, ["step.c", f"step_{vendor}.c"], "release", LIBRARIES[vendor])
    # A string instruction would be stepped through byte by byte.
    tunables = "glibc.cpu.x86_rep_movsb_threshold=100000000:glibc.cpu.x86_rep_stosb_threshold=100000000"
    env = environment(tmp_path, FLEETS[vendor], GLIBC_TUNABLES=tunables)
    result = subprocess.run([str(program)], env=env, text=True, capture_output=True)
    if result.returncode == 77:
        pytest.skip("ptrace is not allowed here")
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 5000


@pytest.mark.skipif(inner, reason="of the plain library")
@pytest.mark.parametrize("vendor", LIBRARIES)
def test_threads_of_one_process_do_not_race(tmp_path, vendor):
    library = f"../build/tsan/sim/{LIBRARIES[vendor]}"
    subprocess.run(["make", "-s", "-j2", "-C", str(ROOT / "sim"), "VARIANT=tsan", library], check=True)
    program = compiled(tmp_path, [f"threads_{vendor}.c"], "tsan", LIBRARIES[vendor], "-fsanitize=thread")
    env = environment(tmp_path, FLEETS[vendor], TSAN_OPTIONS="halt_on_error=1")
    result = subprocess.run([str(program)], env=env, text=True, capture_output=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(inner, reason="this is that run")
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
    files = ["test_abi.py", "test_mig.py", "test_process.py", "test_metax.py", "test_metax_health.py", "test_metax_faults.py", "test_cuda.py"]
    files += ["test_cuda_work.py", "test_cuda_module.py", "test_cuda_capture.py", "test_cuda_graph.py"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        cwd=ROOT / "test/sim",
        env=env,
        text=True,
        capture_output=True,
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]


@pytest.mark.skipif(inner, reason="leaks of the tools are looked for outside it")
@pytest.mark.parametrize("fleet", ["mixed", "two-vendors"])
def test_the_tools_leak_nothing(tmp_path, fleet):
    out = ROOT / "build/san/sim"
    subprocess.run(["make", "-s", "-j2", "-C", str(ROOT / "sim"), "VARIANT=san"], check=True)
    env = environment(tmp_path, fleet)
    for words in (
        ["cleave-simctl", "init"],
        ["nvidia-smi", "-mig", "1", "-i", "0,1"],
        ["nvidia-smi", "mig", "-cgi", "9,19", "-C", "-i", "0"],
        ["nvidia-smi"],
        ["nvidia-smi", "mig", "-lgip"],
        ["cleave-simctl", "show", "--json"],
        ["cleave-simctl", "show"],
        ["cleave-simctl", "log", "--json"],
        ["cleave-simctl", "reboot"],
    ):
        result = subprocess.run([str(out / words[0]), *words[1:]], env=env, text=True, capture_output=True)
        assert result.returncode == 0, result.stdout + result.stderr
