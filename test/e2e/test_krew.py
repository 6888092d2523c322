# SPDX-License-Identifier: Apache-2.0
"""What hack/krew.py makes for krew: an archive and its manifest."""

import hashlib
import os
import subprocess
import tarfile

import pytest
import yaml
from conftest import ROOT

ADDRESS = "https://example.org/cleave"


def krew(*words):
    return subprocess.run([ROOT / "hack" / "krew.py", *map(str, words)], capture_output=True, text=True, timeout=60)


def program(folder, machine=62, head=b"\x7fELF\x02\x01"):
    """A file that begins as a program for this machine does."""
    path = folder / "program"
    path.write_bytes(head.ljust(18, b"\0") + machine.to_bytes(2, "little") + b"the rest")
    return path


def test_the_manifest_names_the_archive_with_its_sum(tmp_path):
    done = krew("v1.2.3", ADDRESS, program(tmp_path), tmp_path / "out")
    assert done.returncode == 0, done.stderr
    manifest = yaml.safe_load((tmp_path / "out" / "cleave.yaml").read_text())
    assert (manifest["apiVersion"], manifest["kind"], manifest["metadata"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin", {"name": "cleave"})
    assert manifest["spec"]["version"] == "v1.2.3"
    (platform,) = manifest["spec"]["platforms"]
    name = "kubectl-cleave_v1.2.3_linux_amd64.tar.gz"
    assert platform["selector"] == {"matchLabels": {"os": "linux", "arch": "amd64"}}
    assert platform["uri"] == f"{ADDRESS}/{name}"
    assert platform["sha256"] == hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest()


def test_what_the_archive_holds_runs_when_it_is_unpacked(release, tmp_path):
    done = krew("v0.1.0", ADDRESS, release("kubectl-cleave"), tmp_path)
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        assert sorted(tar.getnames()) == ["LICENSE", "kubectl-cleave"]
        tar.extractall(tmp_path / "plugin")
    unpacked = tmp_path / "plugin" / "kubectl-cleave"
    assert os.access(unpacked, os.X_OK)
    assert subprocess.run([unpacked, "version"], capture_output=True, text=True, timeout=60).stdout.startswith("kubectl-cleave ")


def test_the_same_program_gives_the_same_archive(tmp_path):
    sums = set()
    for folder in ("a", "b"):
        assert krew("v1.2.3", ADDRESS, program(tmp_path, machine=183), tmp_path / folder).returncode == 0
        (archive,) = (tmp_path / folder).glob("*_linux_arm64.tar.gz")
        sums.add(archive.read_bytes())
    assert len(sums) == 1


@pytest.mark.parametrize(
    "version, address, machine, head, why",
    [
        ("1.2.3", ADDRESS, 62, b"\x7fELF\x02\x01", "no version as krew takes it"),
        ("v1.2", ADDRESS, 62, b"\x7fELF\x02\x01", "no version as krew takes it"),
        ("v1.2.3/../x", ADDRESS, 62, b"\x7fELF\x02\x01", "no version as krew takes it"),
        ("v1.2.3", "http://example.org", 62, b"\x7fELF\x02\x01", "no plain https address"),
        ("v1.2.3", 'https://example.org/"x', 62, b"\x7fELF\x02\x01", "no plain https address"),
        ("v1.2.3", ADDRESS, 40, b"\x7fELF\x02\x01", "for the machine 40"),
        ("v1.2.3", ADDRESS, 62, b"#!/bin/sh", "not a 64-bit ELF file"),
    ],
)
def test_what_krew_would_refuse_is_refused_and_nothing_written(tmp_path, version, address, machine, head, why):
    done = krew(version, address, program(tmp_path, machine, head), tmp_path / "out")
    assert done.returncode == 1
    assert why in done.stderr
    assert not (tmp_path / "out").exists()
