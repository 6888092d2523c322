# SPDX-License-Identifier: Apache-2.0
"""hack/cuda-names.py: facts are made anew from headers, decisions stay."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "hack/cuda-names.py"
LIST = ROOT / "limiter/cuda_names.tsv"
SIM = ROOT / "build" / os.environ.get("VARIANT", "release") / "sim" / "libcuda.so.1"

# As NVIDIA's headers are written: a macro leads from a name to the form that programs are linked to; what the driver has besides is
# declared for itself alone.
OLD = """
#ifdef __CUDA_API_VERSION_INTERNAL
#define INTERNAL
#endif
#if defined(INTERNAL) || defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define PTSZ(api) api##_ptsz
#else
#define PTSZ(api) api
#endif
#define cuTake cuTake_v2
#define cuStart PTSZ(cuStart)
CUresult cuTake(int);
CUresult cuStart(int);
CUresult cuLeave(int);
#ifdef INTERNAL
#undef cuTake
#undef cuStart
CUresult cuTake(int);
CUresult cuStart(int);
#endif
static inline CUresult cuStart_inline(int x) {
    if (x) { return 0; }
    return cuLeave(x);
}
"""
OLD_TYPEDEFS = "\n".join(f"typedef CUresult (*PFN_{name})(int);" for name in "cuTake_v2000 cuTake_v3020 cuStart_v7000 cuStart_v7000_ptsz cuLeave_v4000".split())
NEW = OLD.replace("CUresult cuLeave(int);\n", "").replace("#ifdef INTERNAL\n#undef", "CUresult cuArrive(int);\n#ifdef INTERNAL\nCUresult cuLeave(int);\n#undef")
NEW_TYPEDEFS = OLD_TYPEDEFS + "\ntypedef CUresult (*PFN_cuArrive_v12010)(int);\ntypedef CUresult (*PFN_cuProfilerGo_v12010)(void);"

GOOD = """# CUDA: 11.8 12.1
cuArrive\tcuArrive\t12010\t12.1\t-\tgate\t-
cuHidden\t-\t-\t-\t-\tthrough\tin no header
cuLeave\tcuLeave\t4000\t4.0\t11.8\tthrough\thost memory
cuProfilerGo\tcuProfilerGo\t12010\t12.1\t-\tthrough\ta setting
cuStart\tcuStart\t7000\t7.0\t-\tgate\t-
cuStart_ptsz\tcuStart\t7000\t7.0\t-\tgate\t-
cuTake\tcuTake\t2000\t2.0\t<11.8\tcount\t-
cuTake_v2\tcuTake\t3020\t3.2\t-\tcount\t-
"""


def write_headers(folder, version, text, typedefs):
    (folder / version).mkdir(parents=True)
    for name in "cudaGL cudaEGL cudaVDPAU cudaTypedefs cudaGLTypedefs cudaEGLTypedefs cudaVDPAUTypedefs cudaProfilerTypedefs".split():
        (folder / version / f"{name}.h").touch()
    (folder / version / "cuda.h").write_text(text)
    (folder / version / "cudaTypedefs.h").write_text(typedefs)


@pytest.fixture
def names(tmp_path):
    """names(list, words...): the script's exit status, what it says, and the list afterwards."""
    write_headers(tmp_path, "11.8", OLD, OLD_TYPEDEFS)
    write_headers(tmp_path, "12.1", NEW, NEW_TYPEDEFS)

    def run(text, *words):
        listed = tmp_path / "list.tsv"
        listed.write_text(text)
        done = subprocess.run(["/usr/bin/python3", SCRIPT, "--list", listed, "--headers", tmp_path, *words], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr, listed.read_text()

    return run


def test_a_list_as_the_headers_have_it_stays(names):
    assert names(GOOD) == (0, "list.tsv: nothing differs\n", GOOD)
    assert names(GOOD, "--check") == (0, "list.tsv: nothing differs\n", GOOD)


def test_a_new_version_brings_its_symbols_undecided_and_the_decisions_stay(names):
    before = "# CUDA: 11.8\n" + "".join(line for line in GOOD.splitlines(True)[1:] if "12010" not in line).replace("\t11.8\t", "\t-\t")
    assert names(before)[0] == 0
    rc, says, after = names(before, "12.1")
    assert rc == 0 and "+cuArrive\tcuArrive\t12010\t12.1\t-\t?\t-" in says.splitlines()
    assert after == GOOD.replace("\t12.1\t-\tgate\t-", "\t12.1\t-\t?\t-").replace("\tthrough\ta setting", "\t?\t-")


@pytest.mark.parametrize(
    ("wrong", "symbol"),
    [
        (GOOD.replace("\t3020\t", "\t3010\t"), "cuTake_v2"),
        (GOOD.replace("cuTake_v2\tcuTake\t", "cuTake_v2\tcuTake_v2\t"), "cuTake_v2"),
        (GOOD.replace("\t4.0\t11.8\t", "\t4.0\t-\t"), "cuLeave"),
        ("".join(line for line in GOOD.splitlines(True) if not line.startswith("cuArrive")), "cuArrive"),
    ],
)
def test_a_check_names_what_differs_and_writes_nothing(names, wrong, symbol):
    rc, says, after = names(wrong, "--check")
    assert (rc, after) == (1, wrong)
    assert {line[1:].split("\t")[0] for line in says.splitlines()} == {symbol}


def test_forms_without_a_version_each_are_not_guessed(names, tmp_path):
    (tmp_path / "12.1" / "cuda.h").write_text(NEW + "CUresult cuArrive_v2(int);\n")
    rc, says, after = names(GOOD)
    assert (rc, after) == (2, GOOD) and "cuArrive: the symbols ['cuArrive', 'cuArrive_v2'] and the versions [12010]" in says


def test_headers_that_a_compiler_refuses_are_told(names, tmp_path):
    (tmp_path / "12.1" / "cudaGL.h").unlink()
    rc, says, after = names(GOOD)
    assert (rc, after) == (2, GOOD) and "cudaGL.h" in says


def driver(library, listed=LIST):
    done = subprocess.run(["/usr/bin/python3", SCRIPT, "--driver", library, "--list", listed], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_simulated_driver_is_as_the_list_says():
    rc, says = driver(SIM)
    assert rc == 0 and says.endswith("exported functions are as the list has them\n"), says


def test_a_driver_that_differs_is_told(tmp_path):
    text = LIST.read_text()
    for line, instead in (
        ("cuMemAlloc_v2\tcuMemAlloc\t3020", "cuMemAlloc_v2\tcuMemAlloc\t4000"),
        ("cuMemFree_v2\tcuMemFree\t3020", "cuMemFree_v2\tcuMemFree\t3010"),
        ("cuInit\tcuInit\t2000", "cuInitially\tcuInit\t2000"),
    ):
        assert text.count(line) == 1
        text = text.replace(line, instead)
    (tmp_path / "list.tsv").write_text(text)
    assert driver(SIM, tmp_path / "list.tsv") == (
        1,
        "cuInit: exported, not in the list\ncuMemAlloc_v2: cuMemAlloc of 3999 is it already\ncuMemFree_v2: cuMemFree of 3010 is None\n",
    )
