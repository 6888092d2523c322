# SPDX-License-Identifier: Apache-2.0
"""`kubectl cleave plan` for a fleet: how long it takes, and how much memory."""

import json
import statistics
import subprocess
import sys
import time

from fleets import METADATA_ONLY, kubelet_status, make_fleet, read_lists, template_status
from rig import BIN, NODES, Stack, show

RUNS = 5
CHANGES = 2  # its exit status where something would change
PROFILE = {
    "apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "GPUProfile", "metadata": {"name": "all"},
    "spec": {"nodeSelector": {"matchLabels": {"pool": "bench"}}, "devices": [{"mode": "mig", "mig": {"profiles": {"3g.40gb": 2}}}]}}


# A program's peak counts what was resident before its exec, which is this one's: a small one in between starts it.
LAUNCH = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, use = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), use.ru_utime + use.ru_stime, use.ru_maxrss, file=sys.stderr)
"""


def run(stack, *words):
    """Seconds, seconds of CPU and MiB at most of one run, and what it printed."""
    path = stack.dir / "plan.out"
    command = [BIN / "kubectl-cleave", "plan", "-f", stack.dir / "all.json", "--kubeconfig", stack.kubeconfig, *words]
    begin = time.monotonic()
    with open(path, "wb") as out:
        done = subprocess.run([sys.executable, "-IS", "-c", LAUNCH, *command], stdout=out, stderr=subprocess.PIPE, text=True, check=True)
    took = time.monotonic() - begin
    code, cpu, kib = done.stderr.split()[-3:]
    if int(code) != CHANGES:
        sys.exit(f"bench: plan ended with {code}: {done.stderr}")
    return took, float(cpu), int(kib) / 1024, path.read_text()


def measure(stack, name, check, *words):
    runs = [run(stack, *words) for _ in range(RUNS)]
    if not check(runs[0][3]):
        sys.exit(f"bench: plan {' '.join(words)} does not tell of all nodes: {runs[0][3][-300:]}")
    show("plan", f"{name}, median of {RUNS}", f"{statistics.median(r[0] for r in runs):.2f} s", "aim 3")
    show("plan", f"{name}, CPU of it", f"{statistics.median(r[1] for r in runs):.2f} s")
    show("plan", f"{name}, memory at most", f"{max(r[2] for r in runs):.0f} MiB", "aim 100")
    show("plan", f"{name}, printed", f"{len(runs[0][3]) / 2**20:.1f} MiB")


def plan():
    print(f"\nkubectl cleave plan, {NODES} nodes of 8 cards with 7 partitions each, all of which change, on a real API server")
    with Stack("plan") as stack:
        make_fleet(stack, template_status(stack, "all-1g.10gb"), kubelet_status())
        (stack.dir / "all.json").write_text(json.dumps(PROFILE))
        show("plan", "curl reading the same lists", f"{min(read_lists(stack, METADATA_ONLY) for _ in range(2)):.2f} s")
        measure(stack, "text", lambda text: f"Plan: {NODES} of {NODES} nodes change" in text)
        measure(stack, "-o json", lambda text: sum(n["changes"] for n in json.loads(text)["nodes"]) == NODES, "-o", "json")
