# SPDX-License-Identifier: Apache-2.0
"""Each check of hack/lint.sh finds what it is for, and is quiet about what is right."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"

GOOD_HEADER = LICENCE + """#pragma once

#include <stddef.h>

/* How many there are. */
size_t thing_count(const char *name);
size_t thing_size(const char *name);
"""

GOOD_SOURCE = LICENCE + """#include "base/thing.h"

#include <string.h>

size_t thing_count(const char *name)
{
    return strlen(name); /* not time(), strcpy() or goto */
}
"""


@pytest.fixture
def tree(tmp_path):
    """A small tree of its own with the checks in it."""
    shutil.copytree(ROOT / "hack", tmp_path / "hack", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".clang-format", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "base").mkdir()
    shutil.copy(ROOT / "base" / "err.h", tmp_path / "base")
    write(tmp_path, "base/thing.h", GOOD_HEADER)
    write(tmp_path, "base/thing.c", GOOD_SOURCE)
    return tmp_path


def write(tree, path, text):
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(text)


def lint(tree, check):
    return subprocess.run([tree / "hack" / "lint.sh", check], capture_output=True, text=True, timeout=120)


@pytest.mark.long
@pytest.mark.parametrize("check", ["format", "layers", "length", "headers", "docs", "index", "calls", "spdx", "shell", "spelling"])
def test_a_right_tree_passes_in_silence(tree, check):
    done = lint(tree, check)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    "check, path, text, complaint",
    [
        ("format", "base/bad.c", LICENCE + "int   x;\n", "base/bad.c:2"),
        ("layers", "api/bad.c", LICENCE + '#include "kubeclient/client.h"\n', "api/bad.c:2"),
        ("layers", "nodeagent/gpu/bad.c", LICENCE + '#include "nodeagent/loop/agent.h"\n', "nodeagent/gpu/bad.c:2"),
        ("layers", "partition/bad.c", LICENCE + "#include <curl/curl.h>\n", "partition/bad.c:2"),
        ("layers", "controller/bad.c", LICENCE + '#include "sim/state.h"\n', "controller/bad.c:2"),
        ("length", "base/bad.c", LICENCE + "int x;\n" * 600, "base/bad.c: 601 lines"),
        ("headers", "base/bad.h", LICENCE + "#pragma once\nsize_t bad(void);\n", "does not compile alone with gcc"),
        ("headers", "base/bad.h", LICENCE + "struct bad {\n    int x;\n};\n", "does not compile alone with clang"),
        ("docs", "base/bad.h", GOOD_HEADER + "\nint bad(int x);\n", "base/bad.h:10: bad"),
        ("calls", "base/bad.c", LICENCE + "void f(void)\n{\n    strcpy(a, b);\n}\n", "base/bad.c:4: strcpy"),
        ("calls", "api/bad.c", LICENCE + "long f(void)\n{\n    return time(0);\n}\n", "api/bad.c:4: time"),
        ("calls", "test/unit/bad.c", LICENCE + "void f(void)\n{\n    usleep(1);\n}\n", "bad.c:4: usleep"),
        ("spdx", "base/bad.c", "int x;\n", "base/bad.c: has no"),
        ("shell", "hack/bad.sh", "#!/bin/bash\nrm $1\n", "SC2086"),
        ("spelling", "base/bad.md", "te" "h\n", "base/bad.md:1"),
    ],
)
def test_a_wrong_file_is_named(tree, check, path, text, complaint):
    (tree / ".git/info/exclude").write_text("/hack/*\n!/hack/bad.sh\n")  # our scripts are right: the test above
    write(tree, path, text)
    done = lint(tree, check)
    assert done.returncode == 1
    assert complaint in done.stdout + done.stderr


def test_a_circle_of_includes_is_found(tree):
    """x.c and x.h count as one: thing.h needs other.h, and other.c needs thing.h."""
    write(tree, "base/other.h", GOOD_HEADER)
    write(tree, "base/other.c", GOOD_SOURCE)
    assert lint(tree, "layers").returncode == 0
    write(tree, "base/thing.h", GOOD_HEADER + '#include "base/other.h"\n')
    done = lint(tree, "layers")
    assert done.returncode == 1
    assert "a circle of includes: base/other base/thing" in done.stdout + done.stderr or "base/thing base/other" in done.stdout


def test_an_index_names_what_its_folder_holds(tree):
    def index(*names):
        rows = "".join(f"| `{name}` | it |\n" for name in names)
        write(tree, "docs/architecture.md", f"`base/`, one line a concern:\n\n| files | concern |\n|---|---|\n{rows}\n")
        return lint(tree, "index")

    assert index("err", "thing").returncode == 0
    assert "base/thing.h: is not in the index of base/" in index("err").stdout
    assert "names gone, and there is no such file" in index("err", "thing", "gone").stdout
    write(tree, "docs/architecture.md", "The index of `base/`, one line a concern:\n\n| files | concern |\n|---|---|\n| `err` | it |\n")
    assert "1 indexes, of which 0 can be read" in lint(tree, "index").stdout


SCRIPTS = [
    p.relative_to(ROOT)
    for pattern in ("install-deps.sh", "lint.sh", "check-*.sh", "kube/*.sh")
    for p in sorted((ROOT / "hack").glob(pattern))
    if p.name != "lib.sh"
]


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_each_script_tells_what_it_does(script):
    for folder, program in ((ROOT, script), (ROOT / script.parent, Path(".") / script.name)):
        done = subprocess.run([f"./{program}", "--help"], cwd=folder, capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stderr) == (0, "")
        assert len(done.stdout.splitlines()) >= 2


def test_an_unknown_check_is_refused(tree):
    done = lint(tree, "everything")
    assert done.returncode == 2
    assert "everything" in done.stderr
