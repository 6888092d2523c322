#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the facts of limiter/cuda_names.tsv anew from NVIDIA's headers, and keeps its decisions (docs/cuda-names.md).

    cuda-names.py [--check] [--list FILE] [--headers FOLDER] [VERSION...]
    cuda-names.py --driver LIBRARY [--list FILE]

The headers are those of the CUDA versions that the list names, and of each VERSION, such as 13.6, which the list names from then on.
They come from PyPI's wheels into FOLDER/VERSION (build/cuda-headers); a version whose folder is there is not fetched again.
A symbol that the list lacks gets the decision ?, which the tests refuse. A C compiler is needed to read the headers.

--check     writes nothing, and tells each line that would change
--driver    asks a libcuda.so.1 instead: each function that it exports must be in the list, and what its cuGetProcAddress
            hands out must be the function that the list has under that name from that version on. No GPU is needed.

Exit status 1: something differs. 2: the headers cannot be had, or say what this script does not understand.
"""

import argparse
import collections
import ctypes
import difflib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "limiter" / "cuda_names.tsv"
HEADERS = ROOT / "build" / "cuda-headers"
INCLUDED = "cuda.h cudaGL.h cudaEGL.h cudaVDPAU.h".split()
TYPEDEFS = "cudaTypedefs.h cudaGLTypedefs.h cudaEGLTypedefs.h cudaVDPAUTypedefs.h cudaProfilerTypedefs.h".split()
# What these headers include of others; nothing of it is needed for names.
FOREIGN = "GL/gl.h EGL/egl.h EGL/eglext.h vdpau/vdpau.h cudaProfiler.h".split()
# A program is linked to the symbols of the first or the second, the driver has those of the third too.
MODES = ((), ("CUDA_API_PER_THREAD_DEFAULT_STREAM",), ("__CUDA_API_VERSION_INTERNAL",))
INLINE = re.compile(r"static\s+(?:__inline__|inline)\b[^;{]*\{.*?\n\}", re.S)
FUNCTION = re.compile(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(")
TYPEDEF = re.compile(r"\bPFN_(cu[A-Z]\w*?)_v(\d+)(_ptds|_ptsz|)\)")
SYMBOL = re.compile(r"(\w+?)(?:_v(\d+))?(_ptds|_ptsz|)")
VERSIONS = "# CUDA: "
FLAGS = {"": 1, "_ptds": 2, "_ptsz": 2}  # of cuGetProcAddress: without and with a default stream of each thread


class Unknown(Exception):
    """The facts cannot be told; the text says why."""


Row = collections.namedtuple("Row", "symbol name version first last decision reason")


def order(row):
    """Variants of a function stand together."""
    return row.symbol if row.name == "-" else row.name, row.symbol


def number(version):
    return tuple(map(int, version.split(".")))


# --- the list ---


def read_list(path):
    """Its first lines, and its rows."""
    head, rows = [], []
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            head.append(line)
        else:
            rows.append(Row(*line.split("\t")))
    return head, rows


def versions_of(head):
    return next((line[len(VERSIONS) :].split() for line in head if line.startswith(VERSIONS)), [])


def text_of(head, rows, versions):
    head = [VERSIONS + " ".join(versions) if line.startswith(VERSIONS) else line for line in head]
    return "\n".join(head + ["\t".join(row) for row in sorted(rows, key=order)]) + "\n"


# --- the headers ---


def wheel_of(version):
    major = number(version)[0]
    return f"nvidia-cuda-runtime{'' if major >= 13 else f'-cu{major}'}=={version}.*"


def fetch(version, folder):
    with tempfile.TemporaryDirectory() as scratch:
        platforms = [f"--platform={name}_x86_64" for name in ("manylinux1", "manylinux2014")]
        got = subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", *platforms, "-d", scratch, wheel_of(version)],
            capture_output=True,
            text=True,
        )
        if got.returncode:
            raise Unknown(f"{wheel_of(version)}: {got.stderr.strip()}")
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
            texts = {Path(name).name: wheel.read(name) for name in wheel.namelist() if Path(name).name in INCLUDED + TYPEDEFS}
    folder.parent.mkdir(parents=True, exist_ok=True)
    whole = Path(tempfile.mkdtemp(dir=folder.parent))
    for name, text in texts.items():
        (whole / name).write_bytes(text)
    whole.rename(folder)


def preprocessed(folder, macros):
    with tempfile.TemporaryDirectory() as stubs:
        for name in FOREIGN:
            (Path(stubs) / name).parent.mkdir(exist_ok=True)
            (Path(stubs) / name).touch()
        include = "".join(f"#include <{name}>\n" for name in INCLUDED + TYPEDEFS)
        done = subprocess.run(
            ["cc", "-E", "-P", "-x", "c", f"-I{folder}", f"-I{stubs}", *(f"-D{m}" for m in macros), "-"], input=include, capture_output=True, text=True
        )
    if done.returncode:
        raise Unknown(f"{folder}: {done.stderr.strip()}")
    return INLINE.sub("", done.stdout)


class Headers:
    """What the headers of one version say."""

    def __init__(self, folder):
        texts = [preprocessed(folder, macros) for macros in MODES]
        self.linked = {symbol for text in texts[:2] for symbol in FUNCTION.findall(text)}
        self.typedefs = {found for text in texts for found in TYPEDEF.findall(text)}
        self.symbols = self.linked.union(FUNCTION.findall(texts[2]))
        # cudaProfiler.h is in another wheel.
        declared = {SYMBOL.fullmatch(symbol).group(1, 3) for symbol in self.symbols}
        alone = {name + thread for name, _, thread in self.typedefs if (name, thread) not in declared}
        self.linked |= alone
        self.symbols |= alone


# --- facts ---


def lookups(every):
    """{symbol: (name, version)}. A name's symbols are numbered in the order of the versions that its typedefs have."""
    symbols, versions = collections.defaultdict(dict), collections.defaultdict(set)
    for headers in every:
        for symbol in headers.symbols:
            name, turn, thread = SYMBOL.fullmatch(symbol).groups()
            symbols[name, thread][int(turn or 1)] = symbol
        for name, version, thread in headers.typedefs:
            versions[name, thread].add(int(version))
    found = {}
    for key, by_turn in symbols.items():
        if len(by_turn) != len(versions[key]):
            raise Unknown(f"{key[0]}: the symbols {sorted(by_turn.values())} and the versions {sorted(versions[key])} are not as many")
        for (_, symbol), version in zip(sorted(by_turn.items()), sorted(versions[key])):
            found[symbol] = key[0], version
    return found


def facts(headers):
    """{symbol: (name, version, first, last)} of {version: Headers}, which ascend."""
    found, versions = {}, list(headers)
    for symbol, (name, lookup) in lookups(headers.values()).items():
        first = next(v for v in versions if symbol in headers[v].symbols)
        if first == versions[0]:
            first = min(first, f"{lookup // 1000}.{lookup % 1000 // 10}", key=number)
        linked = [v for v in versions if symbol in headers[v].linked]
        last = f"<{versions[0]}" if not linked else "-" if linked[-1] == versions[-1] else linked[-1]
        found[symbol] = name, str(lookup), first, last
    return found


def renewed(rows, found):
    """The list with new facts. Symbols that no header has were written by hand, and stay."""
    old = {row.symbol: row for row in rows}
    new = [Row(symbol, *fact, *(old[symbol][5:] if symbol in old else ("?", "-"))) for symbol, fact in found.items()]
    return new + [row for row in rows if row.symbol not in found]


def renew(args):
    head, rows = read_list(args.list)
    versions = sorted({*versions_of(head), *args.versions}, key=number)
    headers = {}
    for version in versions:
        if not (args.headers / version).is_dir():
            fetch(version, args.headers / version)
        headers[version] = Headers(args.headers / version)
    was, text = args.list.read_text(), text_of(head, renewed(rows, facts(headers)), versions)
    changes = [line for line in difflib.unified_diff(was.splitlines(), text.splitlines(), n=0, lineterm="") if re.match(r"[-+](?![-+])", line)]
    print("\n".join(changes) if changes else f"{args.list.name}: nothing differs")
    if changes and not args.check:
        args.list.write_text(text)
    return 1 if changes and args.check else 0


# --- a driver ---


class Driver:
    """A libcuda.so.1: what it exports, and what it hands out."""

    def __init__(self, path):
        listed = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True)
        if listed.returncode:
            raise Unknown(listed.stderr.strip())
        names = [line.split()[2].split("@")[0] for line in listed.stdout.splitlines() if line.split()[1] in "TWi"]
        self.library = ctypes.CDLL(path)
        self.at = {ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value: name for name in names if re.match("cu[A-Z]", name)}
        self.symbols = set(self.at.values())

    def hands_out(self, name, version, flags):
        pointer = ctypes.c_void_p()
        asked = name.encode(), ctypes.byref(pointer), version, ctypes.c_uint64(flags)
        if "cuGetProcAddress_v2" in self.symbols:
            self.library.cuGetProcAddress_v2(*asked, ctypes.byref(ctypes.c_int()))
        elif "cuGetProcAddress" in self.symbols:
            self.library.cuGetProcAddress(*asked)
        return self.at.get(pointer.value, "a function that is not exported" if pointer.value else None)


def complaints(driver, rows):
    for symbol in sorted(driver.symbols - {row.symbol for row in rows}):
        yield f"{symbol}: exported, not in the list"
    for row in rows:
        if row.symbol not in driver.symbols or row.name == "-" or "cuGetProcAddress" not in driver.symbols:
            continue
        flags, version = FLAGS[SYMBOL.fullmatch(row.symbol)[3]], int(row.version)
        if (got := driver.hands_out(row.name, version, flags)) != row.symbol:
            yield f"{row.symbol}: {row.name} of {version} is {got}"
        if driver.hands_out(row.name, version - 1, flags) == row.symbol:
            yield f"{row.symbol}: {row.name} of {version - 1} is it already"


def judge(args):
    driver, rows = Driver(args.driver), read_list(args.list)[1]
    wrong = list(complaints(driver, rows))
    print("\n".join(wrong) if wrong else f"{len(driver.symbols)} exported functions are as the list has them")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--list", type=Path, default=LIST, help=argparse.SUPPRESS)
    parser.add_argument("--headers", type=Path, default=HEADERS, help=argparse.SUPPRESS)
    parser.add_argument("--driver", help=argparse.SUPPRESS)
    parser.add_argument("versions", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    try:
        return judge(args) if args.driver else renew(args)
    except Unknown as e:
        print(f"cuda-names.py: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
