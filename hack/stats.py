#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes of the product code beside those of code that reads well. A mirror, not a gate.

    hack/stats.py

Per folder: thousands of lines; lines a file and a function (median / 90th percentile / largest); functions
longer than 100 lines; comments, in percent of all lines; asserts in a thousand lines. Then the ten
longest functions.
"""

import re
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = "base api partition interop kubeclient service controller reconcilers scheduler kubectl nodeagent sim".split()
# From a study of their sources, counted with other tools: good for the order of magnitude.
OTHERS = [
    ("systemd", "112", "360 / 1814 / 5825", "19 / 64 / 1525", "3.9 %", "10", "56"),
    ("curl lib/", "118", "479 / 1755 / 5572", "19 / 77 / 407", "6.6 %", "17", "10"),
    ("h2o lib/", "31.7", "206 / 1186 / 2570", "13 / 43 / 399", "1.9 %", "13", "16"),
    ("jansson src/", "3.7", "257 / 1091 / 1121", "11 / 38 / 212", "2.7 %", "6", "3"),
    ("controller-runtime (Go)", "18.6", "109 / 394 / 1813", "7 / 33 / 149", "1.0 %", "30", "–"),
]
HEADS = ("", "KLOC", "file", "function", "> 100", "comment %", "asserts")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
# Braces of functions, and of nothing else but tables, stand in the first column.
BODY = re.compile(r"^([^\s#/}][^;={}]*?\))\s*\n\{\n(.*?)^\}", re.M | re.S)


def functions(path):
    """(lines from the head to the closing brace, name) of each function."""
    for found in BODY.finditer(path.read_text()):
        name = re.search(r"(\w+)\(", found[1])
        yield found[0].count("\n") + 1, f"{path.relative_to(ROOT)}: {name[1] if name else '?'}"


def spread(values):
    values = sorted(values)
    p90 = values[min(len(values) - 1, int(len(values) * 0.9))]
    return f"{statistics.median(values):.0f} / {p90} / {values[-1]}"


def row(title, files):
    texts = [f.read_text() for f in files]
    lines = sum(t.count("\n") for t in texts)
    lengths = [n for f in files for n, _ in functions(f)]
    commented = sum(c.count("\n") + 1 for t in texts for c in COMMENT.findall(t))
    asserts = sum(len(re.findall(r"\bassert\(", t)) for t in texts)
    long = sum(n > 100 for n in lengths)
    return (
        title,
        f"{lines / 1000:.1f}",
        spread([t.count("\n") for t in texts]),
        spread(lengths),
        f"{100 * long / len(lengths):.1f} %",
        f"{100 * commented / lines:.0f}",
        f"{1000 * asserts / lines:.0f}",
    )


def show(cells):
    print(f"{cells[0]:<24} {cells[1]:>6} {cells[2]:>19} {cells[3]:>16} {cells[4]:>7} {cells[5]:>10} {cells[6]:>8}")


def main():
    sources = {folder: sorted((ROOT / folder).rglob("*.c")) for folder in FOLDERS}
    everything = [f for files in sources.values() for f in files]
    show(HEADS)
    for folder, files in sources.items():
        show(row(folder, files))
    show(row("all", everything))
    print()
    for other in OTHERS:
        show(other)
    print("\nThe longest functions:")
    for lines, name in sorted((f for file in everything for f in functions(file)), reverse=True)[:10]:
        print(f"  {lines:4} {name}")


if __name__ == "__main__":
    main()
