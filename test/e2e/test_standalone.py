# SPDX-License-Identifier: Apache-2.0
"""The stand-alone verbs of cleave-agent on simulated hosts, without an API server."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SIM = ROOT / "build" / "release" / "sim"
AGENT = ROOT / "build" / "release" / "cleave-agent"
CONTROLLER = AGENT.with_name("cleave-controller")
GOLDEN = ROOT / "test" / "golden" / "standalone"
MIG_FLEETS = ["a100-40", "a100-80", "a30", "b200", "h100-80", "h100-nvl", "h200", "rtx-pro-6000"]
DRAWN_FLEETS = ["a100-40", "a30", "h100-80", "rtx-pro-6000"]
SAMPLE = ROOT / "config" / "samples" / "mig-parted" / "config.yaml"
DEFAULTS = ROOT / "test" / "unit" / "data" / "default-mig-parted-config.yaml"


MIG_PARTED = """version: v1
mig-configs:
  wish:
  - device-filter: "{filter}"
    devices: {devices}
    mig-enabled: true
    mig-devices: {{1g.10gb: 7}}
"""


class Host:
    """A host with simulated cards."""

    def __init__(self, folder, fleet):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.journals = folder / "journals"
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("CLEAVE_", "MIG_PARTED_"))}
        self.env = {
            **keep,
            "CLEAVE_SIM_STATE": str(folder / "hardware"),
            "CLEAVE_SIM_PROC": str(folder / "proc"),
            "CLEAVE_NVML_LIBRARY": str(SIM / "libnvidia-ml.so.1"),
            "CLEAVE_MXSML_LIBRARY": str(SIM / "libmxsml.so"),
            "CLEAVE_NVIDIA_SMI": str(SIM / "nvidia-smi"),
            "CLEAVE_STATE_DIR": str(self.journals),
        }
        if fleet:
            self.env["CLEAVE_SIM_FLEET"] = str(ROOT / "sim" / "fleets" / f"{fleet}.yaml")

    def agent(self, *words, code=0, input="", **env):
        """Runs a verb that must exit with the code. Standard output and error as one text."""
        done = subprocess.run(
            [AGENT, *map(str, words)],
            env={**self.env, **env},
            input=input,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            cwd=ROOT,
        )
        assert done.returncode == code, f"cleave-agent {words} exited with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def inspect(self, *words, **how):
        """With the simulated host's processes, and none of this machine's files and devices."""
        host = self.folder / "host"
        host.mkdir(exist_ok=True)
        roots = {"--proc-root": self.folder / "proc", "--sys-root": self.folder / "sys", "--dev-root": host}
        return self.agent("inspect", *(word for pair in roots.items() for word in pair), *words, **how)

    def ctl(self, *words):
        done = subprocess.run(
            [SIM / "cleave-simctl", *map(str, words)], env=self.env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def cards(self):
        return json.loads(self.ctl("show", "--json"))["gpus"]

    def layout(self):
        """Mode and placements of every card; ids and UUIDs are new with each creation."""
        return [
            (
                gpu["migCurrent"],
                sorted(
                    (gi["profileId"], gi["placement"]["start"], len(gi["computeInstances"]))
                    for gi in gpu["gpuInstances"]
                ),
            )
            for gpu in self.cards()
        ]

    def changes(self):
        """The changing calls since the log was cleared."""
        return [line for line in self.ctl("log", "--mutating").splitlines() if "nvml" in line or "mxSml" in line]

    def attach(self, gpu, profile_start, pid=4711):
        """A process on the instance that begins at the slot."""
        for gi in self.cards()[gpu]["gpuInstances"]:
            if gi["placement"]["start"] == profile_start:
                self.ctl("attach", "--gpu", gpu, "--gi", gi["id"], "--ci", 0, "--pid", pid, "--name", "train")
                return
        raise AssertionError(f"no instance at {profile_start}")

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path


@pytest.fixture
def host(tmp_path):
    return lambda fleet, name="host": Host(tmp_path / name, fleet)


def golden(name, text):
    """Compares with test/golden/standalone; GOLDEN_REWRITE writes instead (make golden)."""
    path = GOLDEN / name
    if os.environ.get("GOLDEN_REWRITE"):
        GOLDEN.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def masked(text):
    """Without what is new with each creation."""
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "xxxxxxxx", text)


def profile(entries, **spec):
    return yaml.safe_dump(
        {
            "apiVersion": "gpu.cleave.dev/v1alpha1",
            "kind": "GPUProfile",
            "metadata": {"name": "test"},
            "spec": {"nodeSelector": {}, "devices": entries, **spec},
        }
    )


def mig(profiles, **entry):
    return {"mode": "mig", "mig": {"profiles": profiles}, **entry}


# --- What is drawn ---


@pytest.mark.parametrize("fleet", DRAWN_FLEETS)
def test_inspect_golden(host, fleet):
    h = host(fleet)
    before = h.inspect("--profiles")
    h.agent("apply", "-c", "all-balanced")
    h.attach(0, 0)
    golden(f"inspect-{fleet}.txt", masked(before + "\n" + h.inspect()))


MACHINES = {
    "nvswitch": "gpus: [{model: h100-80, count: 8}]\nlinks: nvswitch",
    "mesh": "gpus: [{model: a100-80, count: 5}]\nlinks: mesh",
    "pcie": "gpus: [{model: l4, count: 3}, {model: a30, mig: true}]\nlinks: none",
}


@pytest.mark.parametrize("machine", MACHINES)
def test_inspect_topology_golden(host, machine):
    h = host(None)
    fleet = h.folder / "fleet.yaml"
    fleet.write_text(f'driverVersion: 580.95.05\ncudaVersion: "13.0"\nnumaNodes: 2\n{MACHINES[machine]}\n')
    table = h.agent("inspect", "--topology", CLEAVE_SIM_FLEET=str(fleet))
    # Where this machine has a PCI device of the same address, its NUMA node is the one told.
    golden(f"topology-{machine}.txt", re.sub(r"(?m)^(GPU.*) \S+$", r"\1 n", table))


@pytest.mark.parametrize("fleet", DRAWN_FLEETS)
def test_plan_golden(host, fleet):
    h = host(fleet)
    golden(f"plan-{fleet}.txt", masked(h.agent("plan", "-c", "all-balanced")))


def test_inspect_says_what_an_installer_asks(host):
    """From a machine whose driver is missing to one on which all is well; the same words as the Device has."""
    h = host("h100-80")
    h.ctl("init")
    h.ctl("sys-root", h.folder)
    module = h.folder / "sys" / "module" / "nvidia"
    module.rename(h.folder / "unloaded")
    nowhere = {"CLEAVE_NVML_LIBRARY": "/nonexistent/nvml.so", "CLEAVE_MXSML_LIBRARY": "/nonexistent/mxsml.so"}
    said = ["# no driver", h.inspect(code=2, **nowhere)]
    (h.folder / "unloaded").rename(module)
    h.ctl("driver-root", h.folder / "host")
    said += ["# no library in the pod", h.inspect(code=2, **nowhere)]
    (module / "version").write_text("570.86.15\n")
    said += ["# another version in the kernel", h.inspect()]
    h.ctl("sys-root", h.folder)
    for gpu in (0, 1):
        h.ctl("persistence", "--gpu", gpu, 1)
    h.ctl("recovery-action", "--gpu", 1, "reboot")
    said += ["# a reboot is asked for", h.inspect()]
    golden("inspect-readiness.txt", masked("\n".join(said)))


def test_inspect_as_json_is_a_status(host):
    h = host("mixed")
    h.agent("apply", "-c", "all-balanced")
    status = json.loads(h.agent("inspect", "--json"))
    assert {c["type"] for c in status["conditions"]} == {"DriverReady", "ContainerRuntimeReady", "PersistenceMode", "RebootRequired"}
    assert status["summary"]["gpus"] == 8
    assert {m["name"] for m in status["models"]} >= {"NVIDIA H100 80GB HBM3", "NVIDIA A30", "NVIDIA L4"}
    resources = {r["name"]: r["count"] for r in status["resources"]}
    assert resources["nvidia.com/gpu"] == 1
    assert resources["nvidia.com/mig-3g.40gb"] == 2
    partitions = sum(len(d.get("partitions", [])) for d in status["devices"])
    assert partitions == status["summary"]["partitions"] == 4 * 4 + 3 * 3


# --- The life of a layout, on every model ---


@pytest.mark.parametrize("fleet", MIG_FLEETS)
def test_a_layout_is_planned_applied_asserted_and_taken_back(host, fleet):
    h = host(fleet)
    untouched = h.layout()
    h.agent("assert", "-c", "all-balanced", code=1)
    assert "switch MIG on" in h.agent("plan", "-c", "all-balanced")
    assert h.layout() == untouched
    h.agent("apply", "-c", "all-balanced")
    cut = h.layout()
    assert all(mode and len(instances) >= 3 for mode, instances in cut), cut
    h.agent("assert", "-c", "all-balanced")
    h.agent("assert", "-c", "all-disabled", code=1)
    assert "as wanted" in h.agent("plan", "-c", "all-balanced")
    h.agent("apply", "-c", "all-disabled")
    assert h.layout() == untouched
    assert not list(h.journals.glob("*.json"))


@pytest.mark.parametrize("fleet", MIG_FLEETS)
def test_applying_twice_does_nothing(host, fleet):
    h = host(fleet)
    h.agent("apply", "-c", "all-balanced")
    h.ctl("log", "--clear")
    assert "NothingToDo" in h.agent("apply", "-c", "all-balanced")
    assert h.changes() == []


@pytest.mark.parametrize("flags", [[], ["--mig-parted"]], ids=["migconfig", "mig-parted"])
@pytest.mark.parametrize("fleet", MIG_FLEETS + ["mixed"])
def test_an_export_makes_another_host_the_same(host, fleet, flags):
    h = host(fleet)
    h.agent("apply", "-c", "all-balanced")
    path = h.file("layout.yaml", h.agent("export", *flags))
    h.agent("assert", "-f", path)
    other = host(fleet, "other")
    other.agent("apply", "-f", path, "-c", "current")
    assert other.layout() == h.layout()


def test_a_change_keeps_what_need_not_move(host):
    h = host("h100-80")
    h.agent("apply", "-f", h.file("a.yaml", profile([mig({"3g.40gb": 1, "1g.10gb": 2})])))
    before = {p["uuid"] for d in json.loads(h.agent("inspect", "--json"))["devices"] for p in d["partitions"]}
    h.agent("apply", "-f", h.file("b.yaml", profile([mig({"3g.40gb": 1, "1g.10gb": 3})])))
    after = {p["uuid"] for d in json.loads(h.agent("inspect", "--json"))["devices"] for p in d["partitions"]}
    assert before < after


# --- Slices with quotas ---


def sgpu(slices, **block):
    return {
        "selector": {"vendor": "metax"},
        "mode": "sgpu",
        "sgpu": {"qosPolicy": "fixed-share", "slices": slices, **block},
    }


SMALL = {"alias": "small", "memoryMiB": 1024, "computePercent": 10, "count": 3}
BIG = {"alias": "big", "memoryMiB": 32768, "computePercent": 50}


def slices(host):
    """{alias: [MiB, %]} of each card of MetaX."""
    devices = json.loads(host.agent("inspect", "--json"))["devices"]
    return [
        {p["slice"]["alias"]: [p["slice"]["memoryMiB"], p["slice"]["computePercent"]] for p in d.get("partitions", [])}
        for d in devices
        if d["vendor"] == "metax"
    ]


def test_slices_are_planned_applied_asserted_and_taken_back(host):
    h = host("two-vendors")
    wish = h.file("slices.yaml", profile([sgpu([SMALL, BIG], timesliceMilliseconds=10)]))
    native = h.file("native.yaml", profile([{"selector": {"vendor": "metax"}, "mode": "native"}]))
    h.agent("assert", "-f", wish, code=1)
    golden("plan-slices.txt", masked(h.agent("plan", "-f", wish)))
    assert slices(h) == [{}, {}]
    h.agent("apply", "-f", wish)
    cut = {"small-0": [1024, 10], "small-1": [1024, 10], "small-2": [1024, 10], "big": [32768, 50]}
    assert slices(h) == [cut, cut]
    golden("inspect-slices.txt", masked(h.inspect()))
    h.agent("assert", "-f", wish)
    h.ctl("log", "--clear")
    assert "NothingToDo" in h.agent("apply", "-f", wish)
    assert h.changes() == []
    h.agent("apply", "-f", native)
    assert slices(h) == [{}, {}]
    assert not list(h.journals.glob("*.json"))


def test_a_layout_for_mig_concerns_the_cards_of_its_vendor_alone(host):
    h = host("two-vendors")
    h.agent("apply", "-f", h.file("slices.yaml", profile([sgpu([BIG])])))
    h.agent("apply", "-c", "all-balanced")
    assert slices(h) == [{"big": [32768, 50]}] * 2
    path = h.file("layout.yaml", h.agent("export"))
    h.agent("assert", "-f", path)
    assert "indices" not in path.read_text(), "all cards of the vendor are alike"


def test_a_slice_in_use_stays_and_its_neighbours_change(host):
    h = host("c500")
    first = {"selector": {"indices": [0]}}
    h.agent("apply", "-f", h.file("a.yaml", profile([{**sgpu([SMALL, BIG]), **first}])))
    h.ctl("attach", "--gpu", "metax:0", "--slice", 0, "--pid", 7, "--name", "train", "--mem", 100)
    h.agent("apply", "-f", h.file("b.yaml", profile([{**sgpu([SMALL]), **first}])))
    assert sorted(slices(h)[0]) == ["small-0", "small-1", "small-2"]
    other = {**SMALL, "computePercent": 20}
    said = h.agent("apply", "-f", h.file("c.yaml", profile([{**sgpu([other]), **first}])), code=1)
    assert "InUse" in said and "small-0" in said, said
    policy = sgpu([SMALL], qosPolicy="burst-share")
    said = h.agent("apply", "-f", h.file("d.yaml", profile([{**policy, **first}])), code=1)
    assert "InUse" in said, said
    assert sorted(slices(h)[0]) == ["small-0", "small-1", "small-2"]


def test_when_a_slice_cannot_be_made_the_old_ones_stand_again(host):
    h = host("c500")
    h.agent("apply", "-f", h.file("a.yaml", profile([sgpu([SMALL])])))
    before = slices(h)
    h.ctl("fault", "add", "--gpu", "metax:0", "--call", "mxSmlCreateSgpu", "--nth", 1, "--action", "fail:SysfsWriteError:EINVAL")
    said = h.agent("apply", "-f", h.file("b.yaml", profile([{**sgpu([BIG]), "selector": {"indices": [0]}}])), code=1)
    assert "RolledBack" in said, said
    assert slices(h) == before


BY_HAND = """
import ctypes, sys
mx = ctypes.CDLL(sys.argv[1])
slice_id = ctypes.c_uint()
assert mx.mxSmlInit() == 0
mx.mxSmlSetSgpuToggle(0, 1)
assert mx.mxSmlCreateSgpu(0, int(sys.argv[2]), int(sys.argv[3]), ctypes.byref(slice_id)) == 0
"""


def test_a_slice_of_somebody_else_is_left_alone_and_counts(host):
    h = host("c500")
    by_hand = [sys.executable, "-c", BY_HAND, SIM / "libmxsml.so", "40960", "50"]
    subprocess.run(by_hand, env=h.env, check=True, timeout=60)
    card = {"selector": {"indices": [0]}}
    policy = {"qosPolicy": "best-effort"}
    said = h.agent("apply", "-f", h.file("a.yaml", profile([{**sgpu([BIG], **policy), **card}])), code=1)
    assert "the card has 24576 beside slices that Cleave did not make" in said, said
    said = h.agent("apply", "-f", h.file("b.yaml", profile([{**card, "mode": "native"}])), code=1)
    assert "was not made by Cleave" in said, said
    h.agent("apply", "-f", h.file("c.yaml", profile([{**sgpu([SMALL], **policy), **card}])))
    assert "not made by Cleave" in h.inspect()
    h.agent("apply", "-f", h.file("d.yaml", profile([{**sgpu([], **policy), **card}])))
    status = json.loads(h.agent("inspect", "--json"))
    assert [p["slice"].get("foreign") for p in status["devices"][0]["partitions"]] == [True]


@pytest.mark.parametrize(
    "entry, said",
    [
        (sgpu([{**SMALL, "memoryMiB": 1000}]), "slice small-0: 1000 MiB of memory are not a multiple of 128"),
        (sgpu([{**SMALL, "count": 16}]), "adds up to 160 %"),
        (sgpu([SMALL, SMALL]), "two slices have the alias small-0"),
        (sgpu([{**SMALL, "alias": "small-1"}]), "is also that of slice 1 of small"),
        (sgpu([{**SMALL, "memoryMiB": 131072, "count": 1}]), "take 131072 MiB of memory and the card has 65536"),
        ({**sgpu([SMALL]), "mode": "native"}, "goes with mode sgpu only"),
        ({**sgpu([SMALL]), "selector": {"vendor": "amd"}}, '"amd" is none of metax, nvidia'),
        ({**mig({"1g.10gb": 1}), "selector": {"vendor": "metax"}}, "MIGUnsupported"),
    ],
)
def test_slices_that_cannot_be_are_refused_with_the_reason(host, entry, said):
    """With 1 where the card cannot have them, with 2 where no card could: the file is bad."""
    h = host("c500")
    of_card = "card has" in said or "MIGUnsupported" in said
    text = h.agent("apply", "-f", h.file("a.yaml", profile([entry])), code=1 if of_card else 2)
    assert said in text, text
    assert h.changes() == []


# --- Files ---


def test_mig_parted_files_and_their_configmaps_are_read(host):
    h = host("h100x8")
    h.agent("apply", "-f", SAMPLE, "-c", "Two_Cards_Cut")
    assert [len(instances) for _, instances in h.layout()] == [7, 7, 0, 0, 0, 0, 0, 0]
    h.agent("apply", "--file", DEFAULTS, "--config", "all-balanced")
    assert [len(instances) for _, instances in h.layout()] == [4] * 8
    h.agent("assert", MIG_PARTED_CONFIG_FILE=str(DEFAULTS), MIG_PARTED_SELECTED_CONFIG="all-balanced")
    h.agent("assert", "-f", "-", "-c", "all-balanced", input=DEFAULTS.read_text())


def test_import_gives_an_object_for_each_entry(host):
    h = host("h100-80")
    objects = list(yaml.safe_load_all(h.agent("import", DEFAULTS)))
    assert len(objects) == 81
    assert all(o["kind"] == "MIGConfig" and o["apiVersion"] == "gpu.cleave.dev/v1alpha1" for o in objects)
    sample = list(yaml.safe_load_all(h.agent("import", input=SAMPLE.read_text())))
    assert [o["metadata"]["name"] for o in sample] == ["all-disabled", "all-halves", "two-cards-cut"]
    assert sample[2]["spec"]["aliases"] == ["Two_Cards_Cut"]
    imported = h.file("imported.yaml", h.agent("import", SAMPLE))
    h.agent("apply", "-f", imported, "-c", "Two_Cards_Cut")
    assert [len(instances) for _, instances in h.layout()] == [7, 7]


def test_every_default_entry_can_be_planned_where_the_model_has_it(host):
    h = host("h100-80")
    names = [o["metadata"]["name"] for o in yaml.safe_load_all(h.agent("import", DEFAULTS))]
    refused = []
    for name in names:
        done = subprocess.run(
            [AGENT, "plan", "-f", DEFAULTS, "-c", name], env=h.env, capture_output=True, text=True, timeout=60
        )
        if done.returncode:
            assert done.returncode == 1 and re.search("UnknownProfile|Infeasible|selects none", done.stderr), (name, done.stderr)
            refused.append(name)
    assert not {"all-disabled", "all-enabled", "all-balanced", "all-1g.10gb", "all-1g.10gb.me"} & set(refused)
    assert {"all-1g.5gb", "all-1g.24gb-me"} <= set(refused)


# --- What is refused ---


def test_what_is_in_use_is_not_touched_and_named(host):
    h = host("h100-80")
    h.agent("apply", "-c", "all-balanced")
    h.attach(0, 4)
    before = h.layout()[0]
    assert "must drain first" in h.agent("plan", "-c", "all-7g.80gb", code=1)
    text = h.agent("apply", "-c", "all-7g.80gb", code=1)
    assert "InUse" in text and "4711" in text, text
    assert h.layout()[0] == before
    assert h.layout()[1] == (True, [(0, 0, 1)])  # the other card is free
    assert "used by train (pid 4711" in h.inspect()


@pytest.mark.parametrize(
    "entries, said",
    [
        ([mig({"3g.40gb": 2, "1g.10gb": 1})], ["Infeasible", "nearest layout that fits is 3g.40gb x2"]),
        ([mig({"1g.10gb+me": 2})], ["Infeasible", "at most 1"]),
        ([mig({"1g.5gb": 7})], ["UnknownProfile", "1g.10gb"]),
        ([{"mode": "mig", "mig": {"config": "nowhere"}}], ["UnknownConfig", "nowhere"]),
    ],
    ids=["too-much", "me-twice", "other-model", "no-such-config"],
)
def test_what_cannot_be_changes_nothing_and_says_why(host, entries, said):
    h = host("h100-80")
    h.agent("apply", "-c", "all-balanced")
    before = h.layout()
    path = h.file("profile.yaml", profile(entries))
    for verb in ("plan", "apply", "assert"):
        text = h.agent(verb, "-f", path, code=1)
        assert all(word in text for word in said), text
    assert h.layout() == before


@pytest.mark.parametrize("verb", ["plan", "apply", "assert"])
def test_a_mistyped_name_is_no_answer_about_the_cards(host, verb):
    h = host("h100-80")
    h.agent("apply", "-c", "all-balanced")
    before = h.layout()
    assert 'named "all-balancd"' in h.agent(verb, "-c", "all-balancd", code=2)
    assert h.layout() == before


def test_mig_on_a_card_without_it(host):
    h = host("t4")
    assert "MIGUnsupported" in h.agent("apply", "-f", h.file("p.yaml", profile([mig({})])), code=1)
    assert "no MIG" in h.agent("inspect")
    h.agent("apply", "-c", "all-disabled")


@pytest.mark.parametrize("verb", ["plan", "apply", "assert"])
def test_a_layout_for_other_cards_is_no_success(host, verb):
    h = host("h100-80")
    before = h.layout()
    path = h.file("p.yaml", profile([mig({}, selector={"model": "*A100*"})]))
    text = h.agent(verb, "-f", path, code=1)
    assert "test: selects no card of this host" in text
    assert f"{verb}: the layout selects none of this host's 2 cards" in text
    other = MIG_PARTED.format(filter="0x20B010DE", devices="all")
    assert "selects none" in h.agent(verb, "-f", h.file("other.yaml", other), code=1)
    beyond = MIG_PARTED.format(filter="0x233010DE", devices="[7]")
    assert "selects none" in h.agent(verb, "-f", h.file("beyond.yaml", beyond), code=1)
    assert h.layout() == before


def test_a_layout_for_some_of_the_cards_is_judged_by_those(host):
    h = host("h100-80")
    path = h.file("first.yaml", MIG_PARTED.format(filter="0x233010DE", devices="[0]"))
    h.agent("assert", "-f", path, code=1)
    h.agent("apply", "-f", path)
    h.agent("assert", "-f", path)


def test_a_card_without_mig_is_as_all_disabled_wants_it(host):
    h = host("t4")
    h.agent("assert", "-c", "all-disabled")


@pytest.mark.parametrize(
    "text, said",
    [
        ("{", "line"),
        ("version: v2\nmig-configs: {}\n", "v1"),
        (profile([{"mode": "mig", "mig": {"profile": {"1g.10gb": 7}}}]), ".spec.devices[0].mig.profile"),
        ("", "holds nothing"),
    ],
    ids=["yaml", "version", "typing-mistake", "empty"],
)
def test_a_bad_file_is_named_and_nothing_happens(host, text, said):
    h = host("h100-80")
    h.agent("apply", "-c", "all-balanced")
    before = h.layout()
    path = h.file("bad.yaml", text)
    for verb in ("plan", "apply", "assert"):
        answer = h.agent(verb, "-f", path, code=2)
        assert "bad.yaml" in answer and said in answer, answer
    assert h.layout() == before


# --- What is said ---


def test_a_name_in_the_form_of_a_built_in_one_is_told_which_profiles_there_are(host):
    text = host("h100-80").agent("plan", "-c", "all-9g.10gb", code=2)
    assert "no card here has 9g.10gb; there are 1g.10gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb, 1g.10gb+me, 1g.20gb\n" in text
    assert text.count("1g.10gb,") == 1, "once, of two cards"


def test_a_config_with_the_name_of_a_built_in_one_is_named_once(host):
    text = host("h100-80").agent("plan", "-f", SAMPLE, "-c", "nope", code=2)
    assert text.count("all-disabled") == 1 and "all-halves, Two_Cards_Cut" in text


def test_a_host_without_any_library_names_each_and_the_flags(host):
    h = host("h100-80")
    nowhere = {"CLEAVE_NVML_LIBRARY": "/nonexistent/nvml.so", "CLEAVE_MXSML_LIBRARY": "/nonexistent/mxsml.so"}
    text = h.agent("inspect", code=2, **nowhere)
    assert all(word in text for word in ("/nonexistent/nvml.so", "/nonexistent/mxsml.so", "--nvml-library", "--mxsml-library"))


def test_assert_says_what_there_is_and_what_is_wanted(host):
    h = host("h100-80")
    h.agent("apply", "-c", "all-3g.40gb")
    text = h.agent("assert", "-c", "all-balanced", code=1)
    assert text.count("is not as wanted: it has 2x3g.40gb, wanted is 2x1g.10gb 1x2g.20gb 1x3g.40gb\n  ") == 2
    text = h.agent("assert", "-f", h.file("native.yaml", profile([{"mode": "native"}])), code=1)
    assert "it has 2x3g.40gb, wanted is whole" in text


@pytest.mark.parametrize("name", ["inference", "per-model"])
def test_import_of_an_object_of_ours_says_that_it_is_one(host, name):
    path = ROOT / "config" / "samples" / f"{name}.yaml"
    kind = yaml.safe_load(path.read_text())["kind"]
    assert f"{path} is a {kind} already; kubectl apply it" in host("h100-80").agent("import", path, code=2)


def test_what_is_no_layout_is_named_for_what_it_is(host):
    h = host("h100-80")
    pod = h.file("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\n")
    assert f"{pod} is a Pod; wanted is a mig-parted file" in h.agent("import", pod, code=2)
    assert "Pod train is neither a GPUProfile nor a MIGConfig" in h.agent("plan", "-f", pod, code=2)
    assert "standard input: holds nothing" in h.agent("plan", "-f", "-", code=2)
    assert "standard input: YAML line 2" in h.agent("import", "-", input="a: [1\n", code=2)


def test_a_kubeconfig_that_is_not_there_is_named(host, tmp_path):
    h = host("h100-80")
    assert f"{tmp_path}/nowhere does not exist" in h.agent("run", "--node-name", "n1", code=1, KUBECONFIG=f"{tmp_path}/nowhere")


# --- The README ---


def test_the_block_of_the_readme_works_as_printed_on_simulated_cards(tmp_path):
    (block,) = [b for b in re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S) if "CLEAVE_SIM_FLEET" in b]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CLEAVE_", "MIG_PARTED_"))}
    done = subprocess.run(["bash", "-e", "-c", block], cwd=ROOT, env={**env, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Applied: ") == 2
    bar = "  |2g.20gb==========|1g.10gb=|1g.10gb=|3g.40gb============================|\n"
    assert done.stdout.count(bar) == 2 and bar in (ROOT / "README.md").read_text()


# --- Ends ---


def test_exit_codes_and_help(host):
    h = host("h100-80")
    assert "usage: cleave-agent" in h.agent(code=2)
    assert "usage: cleave-agent" in h.agent("--help")
    assert 'unknown verb "cut"' in h.agent("cut", code=2)
    h.agent("version")
    for verb in ("inspect", "plan", "apply", "assert", "export", "import", "run"):
        assert "usage" in h.agent(verb, "--help").lower()
        assert "--nonsense" in h.agent(verb, "--nonsense", code=2) or "nonsense" in h.agent(verb, "--nonsense", code=2)
    for verb in ("plan", "apply", "assert"):
        assert re.search(r"Exits with 0 if .* with 1.*With 2 if nobody could look", h.agent(verb, "--help"), re.S), verb
        assert "name a file (-f)" in h.agent(verb, code=2)
        assert "/nonexistent" in h.agent(verb, "-f", "/nonexistent", code=2)
        assert "choose one with -c" in h.agent(verb, "-f", SAMPLE, code=2)
    assert "/nonexistent" in h.agent("import", "/nonexistent", code=2)
    assert re.search(r"with 0.*1.*not so.*2.*nobody could look", h.agent("--help"), re.S)
    assert re.search(r"^\| 0 \|.*^\| 1 \|.*^\| 2 \| nobody could look", (ROOT / "README.md").read_text(), re.S | re.M)


def test_a_wrong_number_is_told_with_its_flag_and_what_it_may_be(host):
    h = host("h100-80")
    for flag, wrong, last in (("resync-seconds", "0", 86400), ("call-deadline-ms", "soon", 3600000), ("health-settle-seconds", "1.5", 86400), ("telemetry-interval", "3601", 3600)):
        text = h.agent("run", "--node-name=n", f"--{flag}={wrong}", code=2)
        assert re.search(rf'--{flag}: "{re.escape(wrong)}" is not a whole number from \d+ to {last}$', text.strip()), text


def test_a_wrong_word_is_told_with_its_flag_and_what_it_may_be(host):
    h = host("h100-80")
    for flag, words in (("resources", "kubelet, controller or none"), ("telemetry-labels", "old, new or oldest")):
        assert f'--{flag} must be {words}, not "some"' in h.agent("run", "--node-name=n", f"--{flag}=some", code=2)


def test_a_wrong_file_of_counters_is_told_with_its_line(host):
    h = host("h100-80")
    h.file("counters.csv", "# mine\nDCGM_FI_DEV_GPU_TEMP, histogram, Heat\n")
    done = subprocess.run([AGENT, "run", "--node-name=n", "--telemetry-counters=counters.csv"], env=h.env, cwd=h.folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "counters.csv: line 2: the type must be gauge, counter or label" in done.stderr, done


@pytest.mark.parametrize("flag", ["health-addr", "metrics-addr"])
def test_an_address_without_a_port_is_told_with_its_flag(host, flag):
    for program in ([AGENT, "run", "--node-name=n"], [CONTROLLER]):
        for wrong in ("nowhere", ":99999"):
            done = subprocess.run([*program, f"--{flag}={wrong}"], env=host("h100-80").env, capture_output=True, text=True, timeout=60)
            assert done.returncode == 2, done
            assert f"--{flag}: listen address {wrong}: " in done.stderr, done.stderr


@pytest.mark.parametrize("setting", ["mig-strategy=some", "device-list-strategy=cdi", "plugin-config=config.yaml"])
def test_a_wrong_setting_of_the_plugins_ends_the_agent_with_2(host, setting):
    h = host("h100-80")
    h.file("config.yaml", "version: v1\nflags: {migStrategy: some}\n")
    done = subprocess.run([AGENT, "run", "--node-name=n", f"--{setting}"], env=h.env, cwd=h.folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "ould not start" in done.stderr, done


def test_a_host_without_library_or_driver_says_so(host):
    h = host("h100-80")
    for verb in (["inspect"], ["export"], *([v, "-c", "all-balanced"] for v in ("plan", "apply", "assert"))):
        assert "/nonexistent/lib.so" in h.agent(*verb, "--nvml-library", "/nonexistent/lib.so", code=2)
    bare = host(None, "bare")
    assert "driver" in bare.agent("inspect", code=2).lower()


def test_a_failing_call_is_named_and_the_old_layout_stands_again(host):
    h = host("h100-80")
    h.agent("apply", "-c", "all-balanced")
    before = h.layout()[0]
    fault = "nvmlDeviceCreateGpuInstanceWithPlacement:1:fail:UNKNOWN"
    text = h.agent("apply", "-c", "all-7g.80gb", code=1, CLEAVE_SIM_FAULT=fault)
    assert "RolledBack" in text and "nvmlDeviceCreateGpuInstanceWithPlacement" in text, text
    assert h.layout()[0] == before
    assert not list(h.journals.glob("*.json"))


def test_a_change_in_progress_keeps_others_out_and_is_ended_after_a_crash(host, wait_for):
    h = host("h100-80")
    h.agent("apply", "-c", "all-balanced")
    first = subprocess.Popen(
        [AGENT, "apply", "-c", "all-7g.80gb"],
        env={**h.env, "CLEAVE_SIM_FAULT": "nvmlDeviceCreateGpuInstanceWithPlacement:1:hang:60"},
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
    )
    try:
        wait_for(lambda: list(h.journals.glob("*.json")), message="the journal of the first change")
        assert "another process" in h.agent("apply", "-c", "all-disabled", code=2)
        h.agent("inspect")
    finally:
        first.kill()
        first.wait()
    text = h.agent("apply", "-c", "all-7g.80gb")
    assert "an interrupted change" in text, text
    h.agent("assert", "-c", "all-7g.80gb")
    assert not list(h.journals.glob("*.json"))


def test_a_held_failure_leaves_the_card_for_a_person(host):
    h = host("h100-80")
    h.agent("apply", "-c", "all-balanced")
    path = h.file("hold.yaml", profile([mig({"7g.80gb": 1})], failurePolicy="hold"))
    fault = "nvmlDeviceCreateGpuInstanceWithPlacement:1:fail:UNKNOWN"
    text = h.agent("apply", "-f", path, code=1, CLEAVE_SIM_FAULT=fault)
    assert "Held" in text, text
