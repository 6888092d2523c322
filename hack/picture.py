#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a terminal of 100 columns and draws what a person sees there, with its colours, as an SVG.

    hack/picture.py FILE.svg COMMAND...

The script prints the command's output as well, without colours where its own output is no terminal, and exits with the
command's status. Of a terminal's escape sequences it knows those that kubectl-cleave writes: colours for a part of a line.
"""

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path
from xml.sax.saxutils import escape

COLUMNS, ROWS = 100, 50
# Of a character, of a line, and around all, in pixels.
WIDE, HIGH, MARGIN = 8, 18, 14
STYLES = {"": "", "1": "strong", "2": "dim", "31": "bad", "32": "good", "33": "busy"}
HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Made by make pictures. -->
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">
<style>
text {{ font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d0d7de; white-space: pre }}
.strong {{ font-weight: bold; fill: #ffffff }} .dim {{ fill: #8b949e }}
.good {{ fill: #3fb950 }} .busy {{ fill: #d29922 }} .bad {{ fill: #ff7b72 }}
</style>
<rect width="100%" height="100%" rx="6" fill="#0d1117"/>
"""
PAINTED = re.compile(r"\x1b\[(\d+)m(.*?)\x1b\[0m")


def seen(command):
    """The text that the command writes on a terminal, and its exit status."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm", "NO_COLOR": ""}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=its, stderr=its, env=env) as running:
        os.close(its)
        read = b""
        while part := some(ours):
            read += part
    os.close(ours)
    return read.decode().replace("\r\n", "\n"), running.returncode


def some(fd):
    """The next bytes; none when the last writer has gone, which is an error to read."""
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""


def pieces(line):
    """(style, text) of each part of a line."""
    at = 0
    for found in PAINTED.finditer(line):
        yield "", line[at : found.start()]
        yield STYLES[found[1]], found[2]
        at = found.end()
    yield "", line[at:]


def drawn_line(line, y):
    """Each piece has its place, so that columns stand below each other in every font."""
    column, spans = 0, []
    for style, text in pieces(line):
        assert "\x1b" not in text, f"no picture is made of {text!r}"
        if text.strip():
            of = f' class="{style}"' if style else ""
            spans.append(f'<tspan x="{MARGIN + column * WIDE}" textLength="{len(text) * WIDE}"{of}>{escape(text)}</tspan>')
        column += len(text)
    return f'<text y="{y}" xml:space="preserve">{"".join(spans)}</text>'


def drawn(command, output):
    lines = [f"\x1b[2m$ {shlex.join(command)}\x1b[0m", *output.rstrip("\n").split("\n")]
    head = HEAD.format(width=COLUMNS * WIDE + 2 * MARGIN, height=len(lines) * HIGH + 2 * MARGIN, label=escape(shlex.join(command), {'"': "&quot;"}))
    return head + "\n".join(drawn_line(line, MARGIN + (i + 1) * HIGH - 5) for i, line in enumerate(lines)) + "\n</svg>\n"


def main():
    if len(sys.argv) < 3 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    output, status = seen(sys.argv[2:])
    sys.stdout.write(output if sys.stdout.isatty() else PAINTED.sub(r"\2", output))
    Path(sys.argv[1]).write_text(drawn(sys.argv[2:], output), encoding="utf-8")
    sys.exit(status)


if __name__ == "__main__":
    main()
