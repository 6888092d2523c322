#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that each exported prototype has a doc comment directly above it or above its group.

    hack/check-docs.py [HEADER...]      all headers of the product by default

A group is a run of declarations without a blank line between them: one comment may speak for
all of it. The paragraph that opens a header speaks for the first group of prototypes after it.
Destructors (x_free, x_done, x_clear) may go without: their verbs say everything.
"""

import re
import subprocess
import sys
from pathlib import Path

FOLDERS = ("base", "api", "partition", "interop", "kubeclient", "service", "controller", "reconcilers", "scheduler", "kubectl", "nodeagent")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
LITERAL = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)(?!\))", re.S)
FUNCTION = re.compile(r"([A-Za-z_]\w*)\s*\(")
DESTRUCTOR = re.compile(r"_(free|done|clear)$")
CONTROL = {"if", "for", "while", "switch", "return", "sizeof", "_Static_assert", "static_assert"}


def blank(match):
    """Spaces of the same shape, so that line numbers stay; a comment leaves a mark."""
    text = match.group(0)
    mark = "\x01" if text.startswith("/") else " "
    return re.sub(r"[^\n]", mark, text)


def strip_directives(text):
    """Leaves another mark: a directive, or a macro that stands for declarations, neither documents
    nor ends a group."""
    return re.sub(
        r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*|^[A-Z][A-Z0-9_]*\([^;{}]*?\)[ \t]*$",
        lambda m: re.sub(r"[^\n]", "\x02", m.group(0)),
        text,
        flags=re.M,
    )


def declarations(text):
    """(first line, text) of each declaration outside of braces, 0-based lines."""
    start, depth, i = 0, 0, 0
    for i, char in enumerate(text):
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            # The end of a function's body ends a declaration; that of a struct's does not.
            if depth == 0 and re.search(r"\)\s*(?:\w+\s*)*\{", text[start:i]):
                yield first_line(text, start, i), text[start : i + 1]
                start = i + 1
        elif char == ";" and depth == 0:
            yield first_line(text, start, i), text[start : i + 1]
            start = i + 1


def first_line(text, start, end):
    while start < end and (text[start].isspace() or text[start] in "\x01\x02"):
        start += 1
    return text.count("\n", 0, start)


def prototype_name(declaration):
    """The name of the function that is declared, or None."""
    plain = re.sub(r"[\x01\x02]", " ", declaration)
    head = ATTRIBUTE.sub(" ", plain).split("{")[0].strip()
    match = FUNCTION.search(head)
    if not match or head.startswith(("typedef", "static")) or match.group(1) in CONTROL:
        return None
    if "=" in head[: match.start()] or not head[: match.start()].strip():
        return None
    return match.group(1)


def undocumented(path):
    source = path.read_text()
    text = COMMENT.sub(blank, LITERAL.sub(lambda m: '"' + " " * (len(m.group(0)) - 2) + '"', source))
    text = strip_directives(text)
    lines = [line.strip() for line in text.split("\n")]
    covered = set()  # lines of declarations that a comment speaks for
    opened = False  # has the first group of prototypes begun?
    for line, declaration in declarations(text):
        name = prototype_name(declaration)
        above = line - 1
        while above >= 0 and lines[above].startswith("\x02"):
            above -= 1
        documented = above in covered or (above >= 0 and lines[above].startswith("\x01"))
        if name and not opened:
            opened = True
            documented = documented or has_opening_paragraph(source)
        if documented:
            size = declaration.strip(" \n\x01\x02").count("\n")
            covered.update(range(line, line + size + 1))
        if name and not documented and not DESTRUCTOR.search(name):
            yield line + 1, name


def has_opening_paragraph(source):
    """A block comment of its own, "/*" alone on the line, before anything is declared."""
    return bool(re.search(r"^/\*\n \* ", source, re.M))


def product_headers():
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.h"], check=True, capture_output=True, text=True
    ).stdout
    return [Path(p) for p in out.split() if p.split("/")[0] in FOLDERS and Path(p).exists()]


def main(args):
    if args and args[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0
    bad = 0
    for path in [Path(a) for a in args] or product_headers():
        for line, name in undocumented(path):
            print(f"{path}:{line}: {name} has no doc comment above it or its group")
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
