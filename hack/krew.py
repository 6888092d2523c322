#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes what krew, kubectl's plugin manager, installs kubectl-cleave from.

    hack/krew.py v1.2.3 https://example.org/cleave build/release/kubectl-cleave build/krew

writes two files into the last folder: the archive kubectl-cleave_v1.2.3_linux_amd64.tar.gz, which is to be served below the
address, and the manifest cleave.yaml, made from hack/krew/cleave.yaml. The architecture is that of the program; the same program
gives the same archive. Exit code 1, with the reason, for what krew would refuse.
"""

import argparse
import gzip
import hashlib
import io
import re
import sys
import tarfile
from pathlib import Path
from urllib.parse import urlsplit

import yaml

ROOT = Path(__file__).resolve().parents[1]
# e_machine of an ELF header (elf.h), in Go's words, which are krew's.
MACHINES = {62: "amd64", 183: "arm64"}
# Semantic versioning 2.0.0 with a "v" before it, as krew asks (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/).
VERSION = re.compile(r"v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?")
MAX_SHORT = 50  # characters, by krew-index's rules for names and descriptions


class Refused(Exception):
    pass


def arch_of(program):
    head = program[:20]
    if len(head) < 20 or head[:6] != b"\x7fELF\x02\x01":
        raise Refused("the program is not a 64-bit ELF file")
    machine = int.from_bytes(head[18:20], "little")
    if machine not in MACHINES:
        raise Refused(f"the program is for the machine {machine}; known are {', '.join(MACHINES.values())}")
    return MACHINES[machine]


def checked_version(text):
    if not VERSION.fullmatch(text):
        raise Refused(f"{text!r} is no version as krew takes it, such as v1.2.3")
    return text


def checked_address(text):
    parts = urlsplit(text)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or not re.fullmatch(r"[!-~]+", text) or '"' in text or "\\" in text:
        raise Refused(f"{text!r} is no plain https address")
    return text.rstrip("/")


def archive(program):
    """A tar.gz without times and owners."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for name, content, mode in (("kubectl-cleave", program, 0o755), ("LICENSE", (ROOT / "LICENSE").read_bytes(), 0o644)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def check(manifest):
    """The fields that krew asks for."""
    spec = manifest["spec"]
    if len(spec["shortDescription"]) > MAX_SHORT:
        raise Refused(f"shortDescription has more than {MAX_SHORT} characters")
    for platform in spec["platforms"]:
        if not re.fullmatch(r"[0-9a-f]{64}", platform["sha256"]):
            raise Refused(f"{platform['sha256']!r} is no SHA-256")
        if platform["bin"] not in [f["from"] for f in platform["files"]]:
            raise Refused("bin is not among the files")
    if "{" in yaml.safe_dump(manifest):
        raise Refused("a field of the template was not filled in")


def make(version, address, program, folder):
    content = program.read_bytes()
    version, address, arch = checked_version(version), checked_address(address), arch_of(content)
    name = f"kubectl-cleave_{version}_linux_{arch}.tar.gz"
    packed = archive(content)
    fields = {"version": version, "homepage": address, "arch": arch, "uri": f"{address}/{name}", "sha256": hashlib.sha256(packed).hexdigest()}
    template = (ROOT / "hack/krew/cleave.yaml").read_text(encoding="utf-8").split("\n", 2)
    text = template[0] + "\n" + template[2]
    for field, value in fields.items():
        text = text.replace("{" + field + "}", value)
    check(yaml.safe_load(text))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(packed)
    (folder / "cleave.yaml").write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("address")
    parser.add_argument("program", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    try:
        make(args.version, args.address, args.program, args.folder)
    except (Refused, OSError) as e:
        sys.exit(f"hack/krew.py: {e}")


if __name__ == "__main__":
    main()
