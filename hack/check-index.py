#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the indexes of docs/architecture.md ("`folder/`, one line a concern") name what the folders hold.

    hack/check-index.py

Each .c and .h of such a folder, or of one below it, is named in the first column without its ending, main.c apart; and each name
there is a file.
"""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path("docs/architecture.md")
TITLE = "one line a concern"
INDEX = re.compile(rf"^`([\w/]+)/`, {TITLE}:\n\n((?:\|.*\n)+)", re.M)


def indexes(page):
    """{folder: names}"""
    found = {}
    for folder, table in INDEX.findall(page):
        cells = [row.split("|")[1] for row in table.splitlines()[2:]]
        found[folder] = {name for cell in cells for name in re.findall(r"`([\w./]+[^/`])`", cell)}
    return found


def tracked():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True).stdout
    return [path for path in map(Path, out.split("\n")) if path.name and path.exists()]


def told(path, folder, names):
    return bool({path.name, path.stem, str(path.relative_to(folder).with_suffix(""))} & names)


def main(args):
    if args:
        print(__doc__.strip())
        return 0
    bad, all_files = 0, tracked()
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    found = indexes(page)
    if len(found) != page.count(TITLE):
        print(f"{PAGE}: {page.count(TITLE)} indexes, of which {len(found)} can be read: each has a folder of its own, a title as the others, a table")
        bad = 1
    for folder, names in found.items():
        files = [path for path in all_files if path.is_relative_to(folder)]
        for path in files:
            if path.suffix in (".c", ".h") and path.name != "main.c" and not told(path, folder, names):
                print(f"{path}: is not in the index of {folder}/ in {PAGE}")
                bad = 1
        for name in sorted(names):
            if not any(told(path, folder, {name}) for path in files):
                print(f"{PAGE}: the index of {folder}/ names {name}, and there is no such file")
                bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
