# SPDX-License-Identifier: Apache-2.0
"""What a program consists of beside our own code: the shared libraries that it loads or may load, the static ones that are in
it, and the Debian package that each comes from. What hack/dependencies.py judges and hack/images/root.py packs.

Of the static libraries the linker's map tells, PROGRAM.map: the release build has one. A program without a map has none.
"""

import json
import re
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOTE_DLOPEN = 0x407C0C0A  # https://systemd.io/ELF_DLOPEN_METADATA
# The package whose version, changelog and updates are those of a library of ours from Debian's source.
BUILT = {"curl": "libcurl4-openssl-dev"}


class Unknown(Exception):
    """Something cannot be told; the text says what."""


def run(*argv, ok=(0,)):
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode not in ok:
        raise Unknown(f"{' '.join(map(str, argv))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


@dataclass
class Package:
    """A package that gives a program something."""

    name: str  # of the binary package, or of the source for a library that we built
    source: str
    version: str
    apt: str  # the binary package that apt and dpkg know
    files: set = field(default_factory=set)  # what is taken from it, on this machine
    static: bool = False  # it is in the program, and not loaded by it


# --- shared libraries ---


def loaded(path):
    """{soname: path} of all that the loader would load for a program or a library, the loader included."""
    text = run("ldd", path)
    if missing := re.findall(r"^\s*(\S+) => not found", text, re.M):
        raise Unknown(f"{path} needs {', '.join(missing)}, which are not installed")
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", text, re.M))
    found.update((Path(loader).name, loader) for loader in re.findall(r"^\s*(/\S+) \(0x", text, re.M))
    return found


def named(path):
    """The sonames that a program itself names."""
    return set(re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-d", path)))


def library_path(soname):
    """Where the loader finds a library."""
    match = re.search(rf"^\s*{re.escape(soname)} \([^)]*x86-64[^)]*\) => (/\S+)$|^\s*{re.escape(soname)} \([^)]*\) => (/\S+)$",
                      run("/sbin/ldconfig", "-p"), re.M)
    if not match:
        raise Unknown(f"{soname} is not installed")
    return match[1] or match[2]


def notes(data):
    """(owner, type, bytes) of the notes of a section."""
    at = 0
    while at + 12 <= len(data):
        owner_len, len_, kind = struct.unpack_from("<III", data, at)
        owner = data[at + 12 : at + 12 + owner_len].rstrip(b"\0")
        at += 12 + (owner_len + 3) // 4 * 4
        yield owner, kind, data[at : at + len_]
        at += (len_ + 3) // 4 * 4


def section(path, name):
    """The bytes of an ELF file's section; b"" where there is none."""
    match = re.search(rf"\] {re.escape(name)}\s+\S+\s+\S+ (\S+) (\S+)", run("readelf", "-SW", path))
    if not match:
        return b""
    offset, size = (int(part, 16) for part in match.groups())
    return Path(path).read_bytes()[offset : offset + size]


def may_load(path):
    """The sonames that a program says it may load while it runs."""
    found = []
    for owner, kind, text in notes(section(path, ".note.dlopen")):
        if (owner, kind) == (b"FDO", NOTE_DLOPEN):
            found += [soname for entry in json.loads(text.rstrip(b"\0")) for soname in entry["soname"]]
    return found


def shared(program):
    """{soname: path} of all that the program loads or may load."""
    found = loaded(program)
    for soname in may_load(program):
        path = library_path(soname)
        found[soname] = path
        found.update(loaded(path))
    return found


# --- static libraries ---


def archives(program):
    """The static libraries and the compiler's own objects of which something is in the program."""
    listing = Path(f"{program}.map")
    if not listing.exists():
        return set()
    text = listing.read_text(errors="replace")
    included, _, rest = text.partition("\nDiscarded input sections")
    found = set(re.findall(r"^(\S+\.a)\(", included, re.M))
    found |= set(re.findall(r"^LOAD (\S+\.o)$", rest or text, re.M))
    absolute = {str(Path(path).resolve()) for path in found if path.startswith("/")}
    return {path for path in absolute if not Path(path).is_relative_to(ROOT)}


# --- packages ---


def owners(paths):
    """{path: package}: of the file, or of the one that its link leads to, below /usr or, as packages still say, not.

    dpkg reads all its lists each time that it is asked: once for all paths.
    """
    named = {path: (real := str(Path(path).resolve()), real.removeprefix("/usr"), path, "/usr" + path) for path in paths}
    asked = sorted(set().union(*named.values()))
    told = run("dpkg", "-S", *asked, ok=(0, 1)) if asked else ""
    package = {name: owner for owner, name in re.findall(r"^([^:,\s]+)[^\s]*(?:, \S+)*: (/.*)$", told, re.M)}
    found = {path: next((package[name] for name in names if name in package), None) for path, names in named.items()}
    if lost := [path for path, owner in found.items() if owner is None]:
        raise Unknown(f"of no package: {', '.join(lost)}")
    return found


def built(path):
    """The Package of a library that we built, as hack/images/curl.sh leaves it; None of another file."""
    version = Path(path).parent.parent / "VERSION"
    if path.endswith("/lib/libcurl.a") and version.exists():
        return Package("curl", "curl", version.read_text().strip(), BUILT["curl"])
    return None


def packages_of(paths):
    """{path: Package} of files. Files of one package have one Package; its files are empty."""
    of_path = {path: ours for path in paths if (ours := built(path))}
    owner = owners([path for path in paths if path not in of_path])
    names = sorted(set(owner.values()))
    fields = run("dpkg-query", "-W", "-f", "${binary:Package} ${source:Package} ${Version}\n", *names) if names else ""
    known = {}
    for line in fields.splitlines():
        name, source, version = line.split()
        name = name.partition(":")[0]
        known.setdefault(name, Package(name, source, version, name))
    return of_path | {path: known[name] for path, name in owner.items()}


def packages(shared_paths, static_paths):
    """{name: Package} of files."""
    found = {}
    of_path = packages_of([*shared_paths, *static_paths])
    for paths, static in ((shared_paths, False), (static_paths, True)):
        for path in sorted(paths):
            package = found.setdefault(of_path[path].name, of_path[path])
            package.static |= static
            package.files.add(path)
    return found
