# SPDX-License-Identifier: Apache-2.0
"""cleave-runtime with runc itself: what a container has that the kubelet granted a device, where the container runtime has no CDI.

Each test makes a bundle, as a shim without CDI would: a root folder with busybox, and a config.json in which the answer to Allocate
became mounts and devices. The descriptions are in /run/cdi of a mount namespace of the test's own. Device files are of null and zero,
so that reading one tells which it is.
"""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import wait_for
from kubelet_rig import why_not

ROOT = Path(__file__).resolve().parents[2]
CARD = "GPU-5f0c0000-0000-0000-0000-000000000001"
HALF, OTHER = f"{CARD}-3g.40gb-0", f"{CARD}-3g.40gb-4"
RO = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
NULL, ZERO = os.makedev(1, 3), os.makedev(1, 5)
SOURCE, FOLDER = "/run/cleave/granted", "/run/cleave/devices"


def description(kind, common, **devices):
    """The text of a CDI file, as the agent writes it."""
    entries = [{"name": name, "containerEdits": edits} for name, edits in devices.items()]
    return json.dumps({"cdiVersion": "0.5.0", "kind": f"gpu.cleave.dev/{kind}", "containerEdits": common, "devices": entries})


def mark(name, vendor="nvidia", source=SOURCE):
    return {"destination": f"{FOLDER}/{vendor}/{name}", "type": "bind", "source": source, "options": ["rbind", "rprivate", "ro"]}


class Bundle:
    """A container to be, and what the host has for it."""

    def __init__(self, folder, program):
        self.folder, self.program = folder, program
        self.root, self.host, self.log = folder / "rootfs", folder / "host", folder / "log.json"
        (self.root / "bin").mkdir(parents=True)
        shutil.copy("/bin/busybox", self.root / "bin" / "busybox")
        self.host.mkdir()
        for name, number in (("nvidia0", NULL), ("cap1", ZERO), ("cap2", ZERO)):
            os.mknod(self.host / name, 0o600 | 0o020000, number)
        (self.host / "libcuda.so.570").write_text("the driver's library\n")
        self.files = {"gpu.cleave.dev-nvidia.json": self.nvidia()}
        subprocess.run(["runc", "spec", "--bundle", folder], check=True)
        self.config = json.loads((folder / "config.json").read_text())
        self.config["process"]["terminal"] = False

    def nvidia(self):
        library = self.host / "libcuda.so.570"
        places = ["/usr/lib64/libcuda.so.570", "/usr/lib64/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"]
        mounts = [{"hostPath": str(library), "containerPath": place, "options": RO} for place in places]
        common = {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "deviceNodes": [self.node("/dev/nvidiactl", "nvidia0")], "mounts": mounts}
        devices = {HALF: ("nvidia0", "cap1"), OTHER: ("nvidia0", "cap2")}
        edits = {name: {"deviceNodes": [self.node(f"/dev/{f}", f) for f in files]} for name, files in devices.items()}
        return description("nvidia", common, **edits)

    def node(self, path, name):
        return {"path": path, "hostPath": str(self.host / name), "permissions": "rw"}

    def grant(self, *mounts):
        self.config["mounts"] += mounts

    def save(self, command):
        self.config["process"]["args"] = ["/bin/busybox", "sh", "-c", f"PATH=/bin; for f in ls cat env head wc stat; do eval \"$f() {{ busybox $f \\\"\\$@\\\"; }}\"; done; {command}"]
        text = json.dumps(self.config)
        (self.folder / "config.json").write_text(text)
        return text

    def describe(self):
        """The folder with the descriptions."""
        folder = self.folder / "cdi"
        folder.mkdir(exist_ok=True)
        for name, text in self.files.items():
            (folder / name).write_text(text)
        return folder

    def make(self, *command):
        """Has cleave-runtime make the container, in a mount namespace in which /run has the descriptions and nothing else."""
        cdi = self.describe()
        name = f"cleave-test-{os.getpid()}-{self.folder.name}"
        words = [self.program, "--root", self.folder / "state", "--log", self.log, "--log-format", "json", *(command or ("run",)), "--bundle", self.folder, name]
        script = f"mount -t tmpfs -o mode=755 tmpfs /run && cp -a {shlex.quote(str(cdi))} /run/cdi && exec {shlex.join(map(str, words))}"
        # To files: a container that was created holds them open.
        with open(self.folder / "out", "w+") as out, open(self.folder / "err", "w+") as err:
            code = subprocess.run(["unshare", "-m", "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=60).returncode
            return subprocess.CompletedProcess(words, code, *(f.seek(0) or f.read() for f in (out, err)))

    def run(self, command):
        self.save(command)
        done = self.make()
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, command="echo it runs"):
        """The message of a container that is not made: on standard error, and in the log, from which shims take it for the pod's Event."""
        text = self.save(command)
        done = self.make()
        assert done.returncode == 1 and "it runs" not in done.stdout
        assert (self.folder / "config.json").read_text() == text
        (line,) = self.log.read_text().splitlines()
        assert json.loads(line) == {"level": "error", "msg": done.stderr.strip()}
        return done.stderr


@pytest.fixture
def bundle(tmp_path, release):
    if reason := why_not(tmp_path):
        pytest.skip(reason)
    return Bundle(tmp_path, release("cleave-runtime"))


# --- what a container has ---


def test_a_granted_container_has_libraries_device_files_and_variables(bundle):
    bundle.grant(mark(HALF))
    bundle.config["process"]["env"].append("NVIDIA_VISIBLE_DEVICES=MIG-1")
    said = bundle.run("env; cat /usr/lib64/libcuda.so.1 /usr/local/nvidia/lib64/libcuda.so.1; head -c 3 /dev/cap1 | wc -c; wc -c < /dev/nvidia0; ls /dev; ls -d /run/cleave 2>/dev/null || true")
    assert "NVIDIA_VISIBLE_DEVICES=void\n" in said and "NVIDIA_VISIBLE_DEVICES=MIG-1" not in said
    assert said.count("the driver's library\n") == 2
    lines = said.splitlines()
    assert "3" in lines and "0" in lines  # zero and null, which the devices' cgroup lets it open
    assert "nvidiactl" in lines and "cap2" not in lines
    assert "/run/cleave" not in lines, "the mark is seen in the container"


def test_what_is_mounted_cannot_be_written_and_has_no_rights(bundle):
    bundle.grant(mark(HALF))
    said = bundle.run("cat /proc/self/mountinfo; echo x > /usr/lib64/libcuda.so.1 || echo refused")
    (line,) = [line for line in said.splitlines() if " /usr/lib64/libcuda.so.1 " in line]
    assert {"ro", "nosuid", "nodev"} <= set(line.split()[5].split(",")) and said.endswith("refused\n")
    assert (bundle.host / "libcuda.so.570").read_text() == "the driver's library\n"


def test_a_second_partition_of_the_same_card_is_added_to_the_first(bundle):
    bundle.grant(mark(HALF), mark(OTHER))
    assert bundle.run("ls /dev/cap1 /dev/cap2") == "/dev/cap1\n/dev/cap2\n"


def test_the_files_of_an_old_answer_that_are_another_partitions_by_now_are_taken_out(bundle):
    """After a reboot the kubelet repeats an answer, and capability files have other numbers."""
    bundle.grant(mark(HALF))
    bundle.config["linux"]["devices"] = [{"path": "/dev/cap2", "type": "c", "major": 1, "minor": 9}, {"path": "/dev/mine", "type": "c", "major": 1, "minor": 7}]
    rules = [{"allow": True, "type": "c", "major": 1, "minor": minor, "access": "rw"} for minor in (9, 7)]
    bundle.config["linux"]["resources"]["devices"] += rules
    assert bundle.run("ls /dev/cap1 /dev/cap2 /dev/mine 2>&1 || true").count("No such file") == 1
    linux = json.loads((bundle.folder / "config.json").read_text())["linux"]
    assert [d["path"] for d in linux["devices"]] == ["/dev/mine", "/dev/nvidiactl", "/dev/nvidia0", "/dev/cap1"]
    assert rules[0] not in linux["resources"]["devices"] and rules[1] in linux["resources"]["devices"]


def test_a_slot_is_what_its_file_says_when_the_container_starts(bundle):
    slice_ = {"env": ["METAX_SGPUS=sgpu=0000:05:00.0#1;compute=5;vram=128;alias=slot.3"], "deviceNodes": [bundle.node("/dev/dri/renderD128", "cap1")]}
    bundle.grant(mark("slot.3", "metax"))
    assert "slot.3.gpu.cleave.dev-metax-slot.json" in bundle.refused()
    bundle.log.unlink()
    bundle.files["slot.3.gpu.cleave.dev-metax-slot.json"] = description("metax", {}, **{"slot.3": slice_})
    assert "alias=slot.3\n" in bundle.run("env; ls /dev/dri/renderD128")


def test_create_and_start_are_for_the_same_container(bundle):
    bundle.grant(mark(HALF))
    bundle.save("cat /usr/lib64/libcuda.so.1")
    done = bundle.make("create")
    runtime = [bundle.program, "--root", bundle.folder / "state"]
    name = f"cleave-test-{os.getpid()}-{bundle.folder.name}"
    try:
        assert done.returncode == 0, done.stderr
        subprocess.run([*runtime, "start", name], check=True)
        wait_for(lambda: (bundle.folder / "out").read_text() == "the driver's library\n", 30, "the container to say what it sees")
    finally:
        subprocess.run([*runtime, "delete", "--force", name], check=True)


# --- a shim ---


CONTAINERD = """
version = 3
root = "{folder}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri"]
"""


@pytest.fixture
def ctr(bundle):
    """Runs a container by containerd, which starts cleave-runtime by its shim. containerd lives as long as the command."""
    found = subprocess.run([ROOT / "hack" / "kube" / "containerd.sh"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        pytest.skip("no containerd that serves here; hack/kube/build.sh containerd builds one")
    programs = found.stdout.strip()
    config = bundle.folder / "containerd.toml"
    config.write_text(CONTAINERD.format(folder=bundle.folder))
    (bundle.root / "etc").mkdir()

    def run(name, *command):
        mark = f"type=bind,src={SOURCE},dst={FOLDER}/nvidia/{name},options=rbind:ro"
        words = ["ctr", "run", "--rm", "--rootfs", "--runc-binary", bundle.program, "--mount", mark, bundle.root, "granted", *command]
        script = (
            f"mount -t tmpfs -o mode=755 tmpfs /run && cp -a {shlex.quote(str(bundle.describe()))} /run/cdi && export PATH={shlex.quote(programs)}:$PATH;"
            f" containerd --config {shlex.quote(str(config))} >{shlex.quote(str(bundle.folder))}/containerd.log 2>&1 &"
            f" until ctr version >/dev/null 2>&1; do kill -0 $! || exit 9; done; {shlex.join(map(str, words))}"
        )
        return subprocess.run(["unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c", script], capture_output=True, text=True, timeout=120)

    return run


def test_containerds_shim_gives_a_container_its_devices(ctr):
    done = ctr(HALF, "/bin/busybox", "cat", "/usr/lib64/libcuda.so.1")
    assert (done.returncode, done.stdout) == (0, "the driver's library\n"), done.stderr


def test_containerds_shim_says_why_a_container_is_refused(ctr):
    """From the log whose path it gave, as it does for runc; the kubelet makes the pod's Event of it."""
    done = ctr(f"{CARD}-1g.10gb-6", "/bin/busybox", "true")
    assert done.returncode != 0 and f"cleave-runtime: /run/containerd/io.containerd.runtime.v2.task/default/granted/config.json: device {CARD}-1g.10gb-6" in done.stderr


# --- others' containers ---


def test_a_container_without_a_mark_is_runcs_alone(bundle):
    """Whatever it has: its configuration need not be one that we could read, nor the descriptions be there."""
    bundle.files = {}
    bundle.config["linux"]["resources"]["pids"] = {"limit": 100}
    text = bundle.save("echo it runs").replace('"limit": 100', '"limit": 100, "limit": 100')
    (bundle.folder / "config.json").write_text(text)
    assert bundle.make().stdout == "it runs\n"
    assert (bundle.folder / "config.json").read_text() == text


@pytest.mark.parametrize("source", ["/var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/run/cleave/granted", "./run/cleave/granted"])
def test_what_a_pod_says_of_itself_gives_it_nothing(bundle, source):
    """Its volumes' destinations, its environment and its annotations are its own words."""
    folder = bundle.folder / source.lstrip("./")
    folder.mkdir(parents=True)
    bundle.config["process"]["env"] += [f"CLEAVE={SOURCE}", f"NVIDIA_VISIBLE_DEVICES={HALF}"]
    bundle.config["annotations"] = {"cdi.k8s.io/cleave": f"gpu.cleave.dev/nvidia={HALF}", SOURCE: HALF}
    bundle.grant(mark(HALF, source=str(folder)))
    said = bundle.run("ls /dev /usr 2>&1 || true")
    assert "cap1" not in said and "lib64" not in said


def test_links_of_the_image_lead_out_of_it_nowhere(bundle):
    """runc makes the mounts, in the container's root: a link there is resolved there."""
    outside = bundle.folder / "outside"
    outside.mkdir()
    (bundle.root / "usr" / "local").mkdir(parents=True)
    (bundle.root / "usr" / "local" / "nvidia").symlink_to(outside)
    (bundle.root / "usr" / "lib64").symlink_to("../" * 20 + str(outside).lstrip("/"))
    bundle.grant(mark(HALF))
    assert bundle.run("cat /usr/lib64/libcuda.so.1") == "the driver's library\n"
    assert list(outside.iterdir()) == []


# --- refused ---


def test_a_device_that_is_not_described_is_refused_and_named(bundle):
    bundle.grant(mark(f"{CARD}-1g.10gb-6"))
    said = bundle.refused()
    assert f"device {CARD}-1g.10gb-6 of nvidia" in said and "/var/run/cdi/gpu.cleave.dev-nvidia.json" in said and "the kubelet tries again" in said


def test_without_descriptions_no_granted_container_starts(bundle):
    bundle.files = {}
    bundle.grant(mark(HALF))
    assert "gpu.cleave.dev-nvidia.json: No such file" in bundle.refused()


@pytest.mark.parametrize("destination", ["nvidia/../../../etc", "nvidia/", "NVIDIA/a", "nvidia/a/b", "/a"])
def test_a_mark_that_names_no_device_is_refused(bundle, destination):
    bundle.grant({**mark(HALF), "destination": f"{FOLDER}/{destination}"})
    assert "names no device" in bundle.refused()


def test_a_description_that_others_may_write_is_not_believed(bundle):
    bundle.grant(mark(HALF))
    (bundle.folder / "cdi").mkdir()
    path = bundle.folder / "cdi" / "gpu.cleave.dev-nvidia.json"
    path.touch()
    path.chmod(0o666)
    assert "lets others than root change it" in bundle.refused()


def test_what_this_version_does_not_know_is_refused_and_not_left_out(bundle):
    bundle.grant(mark(HALF))
    bundle.files["gpu.cleave.dev-nvidia.json"] = bundle.nvidia().replace('"permissions"', '"fileMode": 384, "permissions"')
    assert '"fileMode", which this cleave-runtime does not know' in bundle.refused()


@pytest.mark.parametrize("what", ["description", "configuration"])
def test_files_beyond_bounds_are_refused(bundle, what):
    bundle.grant(mark(HALF))
    if what == "description":
        bundle.files["gpu.cleave.dev-nvidia.json"] += " " * (16 << 20)
    else:
        bundle.config["annotations"] = {"long": "x" * (16 << 20)}
    assert "larger than" in bundle.refused()


def test_a_device_file_that_is_gone_is_refused_and_named(bundle):
    bundle.grant(mark(HALF))
    (bundle.host / "cap1").unlink()
    assert f"device file {bundle.host / 'cap1'}: No such file" in bundle.refused()
