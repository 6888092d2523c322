#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that nothing calls what it must not call.

    hack/check-calls.py [FILE...]      all C files by default

Unbounded string functions and goto are out everywhere, sleeping too (only the simulator makes
latency). Clocks, randomness and the environment are injected: base/ and a program's main.c may
ask for them, the limiter in its containers, the simulator and tests as well.
"""

import re
import subprocess
import sys
from pathlib import Path

COMMENT_OR_LITERAL = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

STRINGS = "sprintf vsprintf strcpy strcat strtok strncpy strncat gets atoi atol atoll atof".split()
SLEEPS = "sleep usleep nanosleep clock_nanosleep".split()
WORLD = (
    "time gettimeofday clock_gettime rand srand random srandom drand48 getrandom getenv secure_getenv".split()
)


def rules_for(path):
    top = path.parts[0]
    yield STRINGS, "has no bound or no error; use sb, num or snprintf"
    if top != "sim" and str(path) != "base/clock.c":
        yield SLEEPS, "sleeps; wait on a scope, a condition or a descriptor"
    if top not in ("base", "limiter", "sim", "test") and path.name != "main.c":
        yield WORLD, "asks the world; take a struct clock, a seed or an option instead"


def complaints(path):
    text = COMMENT_OR_LITERAL.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), path.read_text())
    for names, why in rules_for(path):
        for match in re.finditer(r"(?<![\w.>])(%s)\s*\(" % "|".join(names), text):
            yield text.count("\n", 0, match.start()) + 1, f"{match.group(1)}() {why}"
    for match in re.finditer(r"\bgoto\b", text):
        yield text.count("\n", 0, match.start()) + 1, "goto; owners are auto_ locals"


def c_files():
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.[ch]"], check=True, capture_output=True, text=True
    ).stdout
    return [Path(p) for p in out.split() if Path(p).exists()]


def main(args):
    if args and args[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0
    bad = 0
    for path in [Path(a) for a in args] or c_files():
        for line, what in sorted(complaints(path)):
            print(f"{path}:{line}: {what}")
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
