# SPDX-License-Identifier: Apache-2.0
"""However a program comes to CUDA, it comes to the limiter first; a program without CUDA never meets it."""
import re
import shutil
import subprocess

import pytest
from compiled import ROOT, SMALL_UUID, program, small_cuda
from conftest import OUT
from container import BUILT, Box, TERMS_BYTES, USAGE_BYTES

LIBRARIES = {"libcleave-cuda.so": "libcuda.so.1", "libcleave-nvml.so": "libnvidia-ml.so.1"}
OWN = "/lib/x86_64-linux-gnu/libcuda.so.1"
HELD = "init 0 0 secure 0 total 3000 too much 2 small 0"


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """loader.c: by dlopen, linked with -lcuda, and as a static program."""
    path = tmp_path_factory.mktemp("programs")
    (path / "libcuda.so").symlink_to(OUT / "libcuda.so.1")
    program(path / "loader", "test/limiter/loader.c")
    program(path / "linked", "test/limiter/loader.c", flags=["-DLINKED"], last=[f"-L{path}", "-lcuda"])
    program(path / "static", "test/limiter/loader.c", flags=["-DSTATIC", "-static"])
    program(path / "lookup", "test/limiter/lookup.c")
    return path


@pytest.fixture
def shared(h100, container):
    return container(h100, 3000)


# --- Ways to the library ---


@pytest.mark.parametrize("flags", ["local", "global", "deepbind", "local deepbind", "global deepbind"])
@pytest.mark.parametrize("name", ["libcuda.so.1", "libcuda.so", OWN])
def test_a_program_that_opens_it_is_held_to_the_share(shared, programs, name, flags):
    result = shared.run(programs / "loader", name, *flags.split())
    assert result.stdout.split(" from ")[0] == HELD, result.stdout + result.stderr
    assert result.stdout.split(" from ")[1].strip().endswith(name.split("/")[-1]) and "/real/" not in result.stdout


def test_a_program_that_is_linked_with_it_is_held_to_the_share(shared, programs):
    result = shared.run(programs / "linked")
    assert result.stdout == f"{HELD} from {OWN}\n", result.stderr


def test_a_static_program_that_opens_it_sees_the_share(tmp_path, programs):
    box = Box(tmp_path / "container", small_cuda(tmp_path / "drivers"), [(SMALL_UUID, {"mib": 3000})])
    result = subprocess.run([*box.enter, str(programs / "static"), "libcuda.so.1"], text=True, capture_output=True)
    assert result.stdout.strip() == HELD.split(" too")[0], result.stderr


def test_a_program_that_runs_as_another_user_than_who_started_it_is_held_to_the_share(shared, programs):
    """The dynamic loader takes nothing from such a program's environment."""
    become = 'cp "$0" /usr/lib/cleave/own && chmod 4755 /usr/lib/cleave/own && exec setpriv --reuid 65534 --clear-groups /usr/lib/cleave/own'
    result = shared.run("sh", "-c", become, programs / "linked")
    assert result.stdout == f"{HELD.replace('secure 0', 'secure 1')} from {OWN}\n", result.stderr


def test_a_program_that_opens_the_real_library_by_its_private_path_is_not_held(shared, programs):
    """Nor one with a library of its image's own. Both are seen from outside only, by the agent."""
    real = shared.run(programs / "loader", "/usr/lib/cleave/real/libcuda.so.1")
    assert "total 81008 too much 2" in real.stdout
    assert shared.run(programs / "loader", "libcuda.so.1").stdout.startswith(HELD)


def test_a_program_without_cuda_has_nothing_of_it(shared):
    maps = shared.run("cat", "/proc/self/maps").stdout
    assert "libc.so" in maps and "cleave" not in maps and "libcuda" not in maps
    assert not [line for line in shared.run("env").stdout.splitlines() if line.startswith("LD_")], "nothing is preloaded"
    assert shared.run("ls", "/etc/ld.so.preload").returncode != 0


# --- Functions ---


def sim_functions():
    return re.findall(r"^CUDA\((\w+), \w+, (\w+), (\d+)\)", (ROOT / "sim/cuda_calls.def").read_text(), re.M)


def own_symbols():
    text = "".join((ROOT / "limiter" / name).read_text() for name in ("calls.def", "gated.def"))
    return set(re.findall(r"^(?:CALL|GATE)\((\w+),", text, re.M))


def test_by_symbol_or_by_name_and_version_a_function_is_the_limiters_where_it_has_one_and_else_the_real_one(shared, programs):
    own = own_symbols()
    lines = [f"{symbol} {name} {version} {'own' if symbol in own else 'real'}\n" for symbol, name, version in sim_functions()]
    result = shared.run(programs / "lookup", stdin="".join(lines))
    assert result.returncode == 0 and result.stdout == ""
    assert int(result.stderr.split()[0]) > 40 * len(lines)


def symbols(library, *words):
    return subprocess.run(["objdump", "-T", *words, str(library)], check=True, text=True, capture_output=True).stdout.splitlines()


def test_it_exports_what_it_stands_in_for_and_nothing_else():
    nvml = set(re.findall(r"^(?:LIST|NVML)\((\w+)[,)]", (ROOT / "limiter/nvml_calls.def").read_text(), re.M))
    for library, names in (("libcleave-cuda.so", own_symbols()), ("libcleave-nvml.so", nvml)):
        assert {line.split()[-1] for line in symbols(BUILT / "limiter" / library) if " .text" in line} == names


# --- What it needs of a container ---


@pytest.mark.parametrize("library", LIBRARIES)
def test_it_needs_no_c_library_newer_than_glibc_2_17(library):
    versions = re.findall(r"\(?GLIBC_([0-9.]+)\)?", "\n".join(symbols(BUILT / "limiter" / library)))
    assert versions and max(tuple(map(int, version.split("."))) for version in versions) <= (2, 17)
    assert not [line for line in symbols(BUILT / "limiter" / library) if "GLIBC_PRIVATE" in line or "GLIBCXX" in line]


@pytest.mark.parametrize("library", LIBRARIES)
def test_it_needs_the_c_library_and_the_real_one(library):
    text = subprocess.run(["readelf", "-d", str(BUILT / "limiter" / library)], check=True, text=True, capture_output=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))
    real = f"/usr/lib/cleave/real/{LIBRARIES[library]}"
    assert {real, "libc.so.6"} <= needed <= {real, "libc.so.6", "libdl.so.2", "libpthread.so.0"}
    assert re.findall(r"\(SONAME\).*\[(.+)\]", text) == [LIBRARIES[library]] and "RUNPATH" not in text and "TEXTREL" not in text


@pytest.mark.parametrize("library", LIBRARIES)
def test_it_has_at_most_300_kib_without_what_debuggers_read(tmp_path, library):
    copy = shutil.copy(BUILT / "limiter" / library, tmp_path)
    subprocess.run(["strip", copy], check=True)
    assert (tmp_path / library).stat().st_size <= 300 * 1024


# --- Without its share ---


def patched(at, data):
    return lambda text: text[:at] + data + text[at + len(data) :]


BROKEN = {
    "no terms": ("terms", None, "No such file or directory"),
    "empty terms": ("terms", lambda text: b"", "not the size"),
    "terms that are short": ("terms", lambda text: text[:-1], "not the size"),
    "terms that are long": ("terms", lambda text: text + b"\0", "not the size"),
    "terms of another version": ("terms", patched(8, b"\2\0\0\0"), "another version"),
    "terms of another magic": ("terms", patched(0, b"CVterms2"), "another version"),
    "terms that say another size": ("terms", patched(12, TERMS_BYTES.__add__(1).to_bytes(4, "little")), "another version"),
    "terms of too many cards": ("terms", patched(16, b"\x11\0\0\0"), "another version"),
    "no usage": ("usage", None, "No such file or directory"),
    "empty usage": ("usage", lambda text: b"", "not the size"),
    "usage that is short": ("usage", lambda text: text[:-4096], "not the size"),
    "usage that is long": ("usage", lambda text: text + b"\0", "not the size"),
    "usage of another version": ("usage", patched(8, b"\2\0\0\0"), "another version"),
    "usage of another magic": ("usage", patched(0, b"CVterms1"), "another version"),
    "usage that says another size": ("usage", patched(12, USAGE_BYTES.__add__(1).to_bytes(4, "little")), "another version"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_without_its_share_a_container_has_no_device_and_is_told_why_once(shared, programs, how):
    name, change, why = BROKEN[how]
    text = (shared.share / name).read_bytes()
    (shared.share / name).unlink() if change is None else (shared.share / name).write_bytes(change(text))
    result = shared.run(programs / "loader", "libcuda.so.1")
    assert result.stdout == f"init 100 100 secure 0  from {OWN}\n" and result.returncode == 0
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"cleave: no share of a GPU in this container: /run/cleave/{name}: ") and why in result.stderr


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("mount -o remount,bind,ro /run/cleave/usage", "Read-only file system"),
        ("umount /run/cleave/usage && umount /run/cleave", "No such file or directory"),
        ("mount -t tmpfs none /proc", "does not tell"),
    ],
)
def test_nor_where_it_cannot_write_to_its_share_or_find_itself(shared, programs, how, why):
    result = shared.run("sh", "-c", f'{how} && exec "$0" libcuda.so.1', programs / "loader")
    assert result.stdout.startswith("init 100 100") and result.returncode == 0
    assert len(result.stderr.splitlines()) == 1 and why in result.stderr


def test_a_program_that_does_not_use_cuda_goes_on_when_there_is_no_share(shared):
    """Many programs look for a GPU at their start, and do without one."""
    shutil.rmtree(shared.share)
    shared.share.mkdir()
    code = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); print(c.cuInit(0), c.cuDeviceGetCount(ctypes.byref(ctypes.c_int())), 6 * 7)"
    assert shared.run("python3", "-c", code).stdout.split() == ["100", "3", "42"]
