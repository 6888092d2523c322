#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the unit tests run of the product code, by line and by branch.

    hack/coverage.py

Builds with VARIANT=cov, runs every unit test, and prints the shares of each folder and the files with
the least. Branches are gcov's, which counts the hidden ones of cleanup attributes and asserts too.
The tests in threads, of the simulator and end to end come on top and are not counted here.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COV = ROOT / "build" / "cov"
FOLDERS = "base api partition interop kubeclient service controller reconcilers scheduler kubectl nodeagent".split()


def build():
    done = subprocess.run(["make", "-s", f"-j{os.cpu_count()}", "VARIANT=cov", "unit-build"], cwd=ROOT, check=False)
    if done.returncode:
        sys.exit("coverage.py: the build failed")


def run_tests():
    """False when one failed: its figures would be too small."""
    for old in COV.rglob("*.gcda"):
        old.unlink()
    good = True
    for source in sorted((ROOT / "test/unit").glob("*_test.c")):
        done = subprocess.run([COV / "test/unit" / source.stem], cwd=ROOT, capture_output=True, check=False)
        if done.returncode:
            print(f"coverage.py: {source.stem} failed", file=sys.stderr)
            good = False
    return good


def measure(folder):
    """{file: (lines, lines run, branches, branches taken)}, of files that no test links as well."""
    notes = sorted((COV / folder).rglob("*.gcno"))
    done = subprocess.run(["gcov", "--json-format", "--stdout", "-b", *notes], cwd=ROOT, capture_output=True, text=True, check=True)
    counts = defaultdict(lambda: [0, 0, 0, 0])
    for report in done.stdout.splitlines():
        for file in json.loads(report)["files"]:
            if file["file"].endswith(".c") and file["file"].startswith(folder):
                add(counts[file["file"]], file["lines"])
    return counts


def add(count, lines):
    for line in lines:
        count[0] += 1
        count[1] += line["count"] > 0
        count[2] += len(line["branches"])
        count[3] += sum(b["count"] > 0 for b in line["branches"])


def show(title, count):
    lines, run, branches, taken = count
    print(f"  {title:<34} {lines:>7} {100 * run / max(1, lines):>8.1f} % {branches:>9} {100 * taken / max(1, branches):>8.1f} %")


def main():
    build()
    good = run_tests()
    print(f"  {'':<34} {'lines':>7} {'run':>10} {'branches':>9} {'taken':>10}")
    files, total = {}, [0, 0, 0, 0]
    for folder in FOLDERS:
        found = measure(folder)
        files.update(found)
        sums = [sum(c[i] for c in found.values()) for i in range(4)]
        total = [a + b for a, b in zip(total, sums, strict=True)]
        show(folder, sums)
    show("all", total)
    print("\nThe files of which least is run:")
    for name, count in sorted(files.items(), key=lambda f: f[1][1] / max(1, f[1][0]))[:10]:
        show(name, count)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
