#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists every library that the programs have in them, load or may load, what Debian knows of it, and what docs/dependencies.md
decides about it.

    dependencies.py [--rows-only] [PROGRAM...]

Without PROGRAM, those of build/release. Of each package: which program has it in it or loads it, its version, what apt's lists
offer, which CVEs its changelog says are fixed in it, and what debian-security-support says where that is installed. Nothing is
fetched. A library that is in a program is of the version with which the program was linked: after an update, link it again.

Fails when a library has no row in docs/dependencies.md, when a row is of a package that nothing uses any more, and when
the security archive has an update that is not installed; --rows-only: the last is not asked. Exit status 1 then.
"""

import argparse
import gzip
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import linked

ROOT = linked.ROOT
DECISIONS = ROOT / "docs" / "dependencies.md"
PROGRAMS = [ROOT / "build" / "release" / name for name in ("cleave-controller", "cleave-scheduler", "cleave-agent", "cleave-child", "cleave-watch", "cleave-runtime", "kubectl-cleave")]
DOC = Path("/usr/share/doc")
SUPPORT = Path("/usr/share/debian-security-support")
CVE = re.compile(r"CVE-\d{4}-\d{4,}")
NEWEST = 4  # of the CVEs that are fixed, so many are named


@dataclass
class Package:
    name: str
    source: str
    version: str
    apt: str = ""  # the name that apt and dpkg know, where that is another
    static: bool = False  # it is in the programs
    direct: set = field(default_factory=set)  # the programs that name it, or have it in them
    programs: set = field(default_factory=set)  # that load it, or have it in them
    offers: list = field(default_factory=list)  # (version, [archive])


# --- what is used ---


def packages_of(programs):
    found = {}
    for program in programs:
        shared, names = linked.shared(program), linked.named(program) | set(linked.may_load(program))
        named = {path for soname, path in shared.items() if soname in names}
        for given in linked.packages(shared.values(), linked.archives(program)).values():
            package = found.setdefault(given.name, Package(given.name, given.source, given.version, given.apt, given.static))
            package.programs.add(Path(program).name)
            if given.static or given.files & named:
                package.direct.add(Path(program).name)
    return found


# --- what is known ---


def offers(text):
    """[(version, [archive])] of what `apt-cache policy PACKAGE` prints; what is installed is no archive's for that."""
    table = []
    for line in text.partition("Version table:")[2].splitlines():
        if version := re.match(r"^ (?:\*\*\*|   ) (\S+)", line):
            table.append((version[1], []))
        elif table and (archive := re.match(r"^\s+-?\d+ (\w+://\S+ \S+)", line)):
            table[-1][1].append(archive[1])
    return table


def is_newer(version, than):
    return subprocess.run(["dpkg", "--compare-versions", version, "gt", than]).returncode == 0


def updates(package, security):
    """Versions beyond the installed one that the archives have: the security archives', or the others'."""
    for version, archives in package.offers:
        of = sorted({a for a in archives if ("security" in a) == security})
        if of and is_newer(version, package.version):
            yield version, of


def fixed(package):
    """The CVEs that the changelog of what is installed names, newest first; None: it has none here."""
    for name in ("changelog.Debian.gz", "changelog.gz"):
        path = DOC / (package.apt or package.name) / name
        if path.exists():
            return list(dict.fromkeys(CVE.findall(gzip.open(path, "rt", errors="replace").read())))
    return None


def support(packages):
    """What debian-security-support says of them; None: it is not installed."""
    if not SUPPORT.is_dir():
        return None
    release = Path("/etc/debian_version").read_text().partition(".")[0]
    said = []
    for name in (f"security-support-ended.deb{release}", "security-support-limited"):
        path = SUPPORT / name
        for line in path.read_text().splitlines() if path.exists() else ():
            word, _, why = line.partition(" ")
            if word and not word.startswith("#"):
                said += [f"{p.name}: {name}: {why.strip()}" for p in packages.values() if re.fullmatch(word, p.source)]
    return said


# --- what is decided ---


def decided(text):
    """The packages that a table of docs/dependencies.md has rows of: `names` in the first cell."""
    cells = (line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def faults(packages, rows):
    """What is wrong with the table."""
    for name in sorted(set(packages) - set(rows)):
        by = ", ".join(sorted(packages[name].programs))
        yield f"{name} is used by {by} and has no row in docs/dependencies.md: say why it is there, who feeds it, and what was decided"
    for name in sorted(set(rows) - set(packages)):
        yield f"{name} has a row in docs/dependencies.md and is used by nothing any more: take the row out"
    for name in sorted({name for name in rows if rows.count(name) > 1}):
        yield f"{name} has more than one row in docs/dependencies.md"


def outdated(packages):
    for package in packages.values():
        for version, archives in updates(package, security=True):
            yield f"{package.name} {package.version}: the security archive has {version} ({archives[0]})"


# --- the report ---


def describe(package):
    how = "loaded for another library"
    if package.direct:
        how = ("in " if package.static else "named by ") + ", ".join(sorted(package.direct))
    print(f"{package.name} {package.version} (source {package.source}), {how}")
    cves = fixed(package)
    if cves is None:
        print("    no changelog here")
    elif cves:
        print(f"    fixed in it: {len(cves)} CVEs, the newest {', '.join(cves[:NEWEST])}")
    for version, archives in updates(package, security=False):
        print(f"    newer: {version} ({archives[0]})")


def tell_what_is_unknown(packages, said):
    if not any(archives for p in packages.values() for _, archives in p.offers):
        print("apt has no lists here: updates are not known; apt-get update gets them")
    elif not any("security" in a for p in packages.values() for _, archives in p.offers for a in archives):
        print("no security archive is configured: its updates are not known")
    if said is None:
        print("debian-security-support is not installed: what Debian supports in part only is not known")
    elif not said:
        print("debian-security-support: all of them are supported in full")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows-only", action="store_true", help="do not ask for updates")
    parser.add_argument("program", nargs="*", default=PROGRAMS)
    options = parser.parse_args()
    packages = packages_of(options.program)
    wrong = list(faults(packages, decided(DECISIONS.read_text())))
    if not options.rows_only:
        for package in packages.values():
            package.offers = offers(linked.run("apt-cache", "policy", package.apt or package.name))
        for package in sorted(packages.values(), key=lambda p: (not p.direct, p.name)):
            describe(package)
        said = support(packages)
        print("\n".join(said or []), end="\n" if said else "")
        tell_what_is_unknown(packages, said)
        wrong += outdated(packages)
    for text in wrong:
        print(f"not ok - {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except linked.Unknown as error:
        sys.exit(f"dependencies.py: {error}")
