# SPDX-License-Identifier: Apache-2.0
"""Every library that the programs load has a decision; what hack/dependencies.py tells of Debian's tools it tells rightly."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "hack" / "dependencies.py"

sys.path.insert(0, str(SCRIPT.parent))
spec = importlib.util.spec_from_file_location("dependencies", SCRIPT)
dependencies = importlib.util.module_from_spec(spec)
sys.modules["dependencies"] = dependencies
spec.loader.exec_module(dependencies)

POLICY = """libssl3:
  Installed: 3.0.19-1
  Candidate: 3.0.22-1
  Version table:
     3.0.22-1 500
        500 http://mirror.example/debian-security bookworm-security/main amd64 Packages
     3.0.20-1 500
        500 http://mirror.example/debian bookworm/main amd64 Packages
 *** 3.0.19-1 100
        100 /var/lib/dpkg/status
"""
INSTALLED_ONLY = """libssl3:
  Installed: 3.0.19-1
  Version table:
 *** 3.0.19-1 100
        100 /var/lib/dpkg/status
"""


def package(name="libssl3", version="3.0.19-1", policy=POLICY):
    return dependencies.Package(name, "openssl", version, programs={"cleave-agent"}, offers=dependencies.offers(policy))


@pytest.mark.long
def test_every_library_that_is_used_has_a_row_and_no_row_is_stale():
    done = subprocess.run([SCRIPT, "--rows-only"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_library_without_a_row_and_a_row_without_a_library_are_told():
    rows = dependencies.decided("| package | why |\n|---|---|\n| `libssl3`, `libold1` | TLS |\n| `libssl3` | again |\n`libnone`\n")
    assert rows == ["libssl3", "libold1", "libssl3"]
    told = "\n".join(dependencies.faults({"libssl3": package(), "libnew2": package("libnew2")}, rows))
    assert "libnew2 is used by cleave-agent and has no row" in told
    assert "libold1 has a row in docs/dependencies.md and is used by nothing" in told
    assert "libssl3 has more than one row" in told
    assert list(dependencies.faults({"libssl3": package()}, ["libssl3"])) == []


def test_what_the_security_archive_has_and_is_not_installed_is_a_failure():
    assert list(dependencies.outdated({"libssl3": package(version="3.0.22-1")})) == []
    (told,) = dependencies.outdated({"libssl3": package()})
    assert told == "libssl3 3.0.19-1: the security archive has 3.0.22-1 (http://mirror.example/debian-security bookworm-security/main)"
    assert [version for version, _ in dependencies.updates(package(), security=False)] == ["3.0.20-1"]


def test_without_lists_nothing_fails_and_it_is_said(capsys):
    alone = {"libssl3": package(policy=INSTALLED_ONLY)}
    assert list(dependencies.outdated(alone)) == []
    dependencies.tell_what_is_unknown(alone, None)
    assert "apt has no lists here" in capsys.readouterr().out


def test_what_debian_supports_in_part_only_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(dependencies, "SUPPORT", tmp_path)
    (tmp_path / "security-support-limited").write_text("# comment\nlibsoup.*   as a client only\nopenss[l]  not really\n")
    assert dependencies.support({"libssl3": package()}) == ["libssl3: security-support-limited: not really"]
    monkeypatch.setattr(dependencies, "SUPPORT", tmp_path / "none")
    assert dependencies.support({"libssl3": package()}) is None


def test_the_libcurl_that_we_built_is_judged_by_its_own_version(tmp_path):
    """Its package's version may be another, and is what apt has updates of."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "VERSION").write_text("7.88.1-10+deb12u99\n")
    path = str(tmp_path / "lib" / "libcurl.a")
    found = dependencies.linked.packages_of([path])[path]
    assert (found.name, found.version, found.apt) == ("curl", "7.88.1-10+deb12u99", "libcurl4-openssl-dev")


def test_what_a_program_may_load_counts_and_what_is_linked_into_it(release):
    found = dependencies.packages_of([release("cleave-agent")])
    assert found["libgnutls30"].direct == {"cleave-agent"} and not found["libnettle8"].direct
    assert found["curl"].static and found["libssl-dev"].static and not found["libc6"].static


@pytest.mark.parametrize("argv", [["--help"], ["/no/program"]])
def test_it_says_what_it_is_for_and_what_it_cannot_read(argv):
    done = subprocess.run([SCRIPT, *argv], capture_output=True, text=True, timeout=60)
    assert done.returncode == (0 if argv == ["--help"] else 1)
    assert "docs/dependencies.md" in done.stdout or "/no/program" in done.stderr
