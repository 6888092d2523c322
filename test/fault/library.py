# SPDX-License-Identifier: Apache-2.0
"""Harm at the other end of the agent: calls into the vendor's library that fail, do not return, or are the agent's last.

The simulator does it (`cleave-simctl fault`); its log of an undisturbed run says which calls there are.
"""

import dataclasses
import json
import re
import subprocess
import time

DEADLINE_MS = 30000  # of the agent: --call-deadline-ms
# Of an agent that is to notice soon that a call does not return, and for how long such a call then takes.
SHORT_DEADLINE_MS, SHORT_HANG_S = 1000, 4
# Longer than the deadline that agents have.
LONG_HANG_S = 60

# By the name that a call of the library begins with, what it may answer for a while, in its own words
# (`cleave-simctl fault names`): what its hardware, a driver or a kernel may do to any call, ...
LOST = {"nvml": ("UNKNOWN", "GPU_IS_LOST", "TIMEOUT"), "mxSml": ("Failure", "SysfsError:EIO", "IOControlFailure")}
# ... what it may do to a reading. A reading is never answered NOT_SUPPORTED once only: that is a fact, no fault.
READ = {"nvml": (*LOST["nvml"], "MEMORY", "NOT_READY"), "mxSml": (*LOST["mxSml"], "OpenDeviceFileFailure", "MmapFailure")}
CREATE = ("INSUFFICIENT_RESOURCES", *LOST["nvml"], "NO_PERMISSION", "NOT_SUPPORTED")
DESTROY = ("IN_USE", *LOST["nvml"], "NOT_FOUND")
SETTING = ("BusyDevice", "SysfsWriteError:EROFS", *LOST["mxSml"], "PermissionDenied")
# Of calls that are no readings.
CODES = {
    "nvmlDeviceSetMigMode": ("IN_USE", *LOST["nvml"], "NO_PERMISSION", "NOT_SUPPORTED"),
    "nvmlDeviceCreateGpuInstanceWithPlacement": CREATE,
    "nvmlGpuInstanceCreateComputeInstance": CREATE,
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement": CREATE,
    "nvmlGpuInstanceDestroy": DESTROY,
    "nvmlComputeInstanceDestroy": DESTROY,
    "nvmlInit_v2": ("DRIVER_NOT_LOADED", "UNKNOWN", "LIB_RM_VERSION_MISMATCH"),
    "mxSmlInit": ("NoDevice", "Failure", "LoadDllFailure"),
    "mxSmlInitWithFlags": ("NoDevice", "Failure", "LoadDllFailure"),
    "mxSmlSetSgpuToggle": SETTING,
    "mxSmlCreateSgpu": ("SysfsWriteError:ENOSPC", "SysfsWriteError:EINVAL", *LOST["mxSml"], "PermissionDenied"),
    "mxSmlRemoveSgpu": ("BusyDevice", "SysfsWriteError:EBUSY", *LOST["mxSml"]),
    "mxSmlSetDeviceSchedClass": SETTING,
    "mxSmlSetDeviceTimeslice": SETTING,
    "mxSmlSetSgpuVramQuota": SETTING,
    "mxSmlSetSgpuComputeQuota": SETTING,
    "mxSmlSetSgpuDeviceQueuePriority": SETTING,
    "mxSmlSetSgpuAlias": SETTING,
}


def library_of(call):
    """The one whose call it is; a new vendor's needs lines above first. (cleaveSimDeviceReset is what nvidia-smi does.)"""
    return next(prefix for prefix in LOST if call.replace("cleaveSim", "nvml").startswith(prefix))


def codes_of(call):
    """What such a call may plausibly be answered."""
    return CODES.get(call, READ[library_of(call)])


@dataclasses.dataclass
class Names:
    """What the simulator can be told to do: the codes of each library, {call: (library, class)}."""

    codes: dict
    calls: dict

    @classmethod
    def of(cls, text):
        """From what `cleave-simctl fault names` prints."""
        names = cls({}, {})
        for library, kind, name, *rest in map(str.split, text.splitlines()):
            if library == "CUDA":  # which pods call, and no agent
                continue
            if kind == "code":
                names.codes.setdefault(library, set()).add(name)
            else:
                names.calls[name] = (library, *rest)
        return names

    def refuses(self, harm):
        """Why the simulator would not take this order; None: it takes it."""
        if harm.call not in self.calls:
            return f"{harm.label()}: no library has this call"
        library, _ = self.calls[harm.call]
        word, _, detail = harm.do.partition(":")
        if word == "fail" and detail.partition(":")[0] not in self.codes[library]:
            return f"{harm.label()}: {library} has no such code"
        return None

    def stratum(self, harm):
        """The library and the class of a call that goes wrong."""
        return self.calls[harm.call]


def ask_simulator(simctl, folder):
    """The Names; folder: for a state file, which simctl wants."""
    fleet = folder / "fleet.yaml"
    fleet.write_text("gpus: [{model: h100-80}]\n")
    env = {"CLEAVE_SIM_STATE": str(folder / "names"), "CLEAVE_SIM_FLEET": str(fleet)}
    return Names.of(subprocess.run([simctl, "fault", "names"], env=env, check=True, text=True, capture_output=True).stdout)


@dataclasses.dataclass
class CallHarm:
    """One call that goes wrong: the nth of this name by anyone on a node, from when people begin to act.

    do: "fail:CODE", "hang:SECONDS" (then it does what it should), "kill" (the caller, before it has an effect), "kill-after".
    """

    node: int
    call: str
    nth: int
    do: str
    seen_s: float = dataclasses.field(default=0.0, compare=False)  # when it was seen to hang

    @property
    def by(self):
        return f"agent{self.node}"

    @property
    def hang_s(self):
        return float(self.do.partition(":")[2]) if self.do.startswith("hang") else 0

    def kills(self):
        return self.do.startswith("kill")

    def order(self, node):
        self.seen_s = 0.0
        node.ctl("fault", "add", "--call", self.call, "--nth", self.nth, "--action", self.do)

    def struck(self, node):
        action = self.do if self.do.startswith("kill") else self.do.partition(":")[0] + ":"
        lines = re.findall(rf"^\s*{self.call} nth={self.nth} {action}.* seen=(\d+)", node.ctl("fault", "list"), re.M)
        return any(int(seen) >= self.nth for seen in lines)

    def hangs(self, node):
        """Does the call that hangs not return yet? One whose process ended never does."""
        if not self.hang_s or not self.struck(node):
            return False
        if any(r["call"] == self.call and r["endNs"] - r["startNs"] >= self.hang_s * 1e9 for r in log_of(node)):
            return False
        self.seen_s = self.seen_s or time.monotonic()
        return time.monotonic() < self.seen_s + self.hang_s

    def words(self):
        return {k: v for k, v in dataclasses.asdict(self).items() if k != "seen_s"}

    def label(self):
        return f"{self.by} {self.call} #{self.nth} {self.do}"


@dataclasses.dataclass
class Call:
    """As the simulator's log has it."""

    name: str
    changes: bool


def is_blinding(harm):
    """A card whose reading fails is not offered: a card that is ill is no card that nobody touches."""
    return harm.do.startswith("fail") and harm.call not in CODES


def flags(harms):
    """Of the agents of a world with these harms."""
    hangs = [h.hang_s for h in harms if h.hang_s]
    return {"call_deadline_ms": SHORT_DEADLINE_MS} if hangs and max(hangs) < LONG_HANG_S else {}


def log_of(node):
    """Every call of all processes on a node, as far back as the simulator keeps them."""
    return [json.loads(line) for line in node.ctl("log", "--json").splitlines() if line.strip()]


def calls_between(log, after, until_ns):
    """Those after a sequence number, until a time."""
    return [Call(r["call"], r["mutating"]) for r in log if r["sequence"] > after and r["startNs"] <= until_ns]


def enumerate_plans(calls):
    """(kind, [harm]) of every call of an undisturbed run; calls: of each node, in order.

    A call that changes something: at each occurrence killed before, killed after, hanging, and failing with a code, the codes in
    turn; the first and the last of each name with every code. A call that reads: of each name the first, the first after
    something was changed, and the last; failing, and the middle one also hanging and killed. In a workload that changes
    nothing, and on other nodes than the first, less. One call of each workload hangs as long as calls do in earnest.
    """
    changing = False
    for node, log in enumerate(calls):
        found = list(plans_of_changes(node, log))
        yield from found
        changing |= bool(found)
        if node == 0:
            yield from plans_of_readings(node, log)
    longest = next((h[0] for kind, h in found if kind == "call-hangs"), None) if changing else None
    if longest:
        yield "call-hangs-for-long", [dataclasses.replace(longest, do=f"hang:{LONG_HANG_S}")]


def plans_of_changes(node, log):
    count = {c.name: sum(other.name == c.name for other in log) for c in log}
    seen = {}
    for call in log:
        nth = seen[call.name] = seen.get(call.name, 0) + 1
        if not call.changes:
            continue
        codes = codes_of(call.name)
        every = codes if nth in (1, count[call.name]) else codes[nth % len(codes) :][:1]
        yield from (("call-fails", [CallHarm(node, call.name, nth, f"fail:{code}")]) for code in every)
        yield from endings(node, call.name, nth)
        yield "killed-after-call", [CallHarm(node, call.name, nth, "kill-after")]


def endings(node, name, nth):
    yield "call-hangs", [CallHarm(node, name, nth, f"hang:{SHORT_HANG_S}")]
    yield "killed-before-call", [CallHarm(node, name, nth, "kill")]


def plans_of_readings(node, log):
    first_change = next((i for i, c in enumerate(log) if c.changes), len(log))
    for turn, name in enumerate(sorted({c.name for c in log if not c.changes})):
        before = sum(c.name == name for c in log[:first_change])
        count = sum(c.name == name for c in log)
        middle = min(before + 1, count)
        codes = codes_of(name)
        for i, nth in enumerate(sorted({1, middle, count})):
            yield "call-fails", [CallHarm(node, name, nth, f"fail:{codes[(turn + i) % len(codes)]}")]
        yield from endings(node, name, middle)
