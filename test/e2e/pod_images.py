# SPDX-License-Identifier: Apache-2.0
"""The images that pods of the tests run: those of `make images`, under names and tags of a registry's."""

import re
import shutil
import subprocess
from pathlib import Path

from conftest import HACK, ROOT

REGISTRY = "registry.example"
NOBODY = ["--user", "65532:65532"]
USERS = {"cleave-controller": NOBODY, "cleave-agent": []}
# The lock is that of hack/run-tests.sh: one make at a time in a variant's folder.
COPY = "make -s images >/dev/null && for name in cleave-controller cleave-agent cleave-scheduler; do cp -a build/images/$name/root {}/$name; done"


def images(folder, tag="v1"):
    """{"registry.example/cleave-agent:v1": its tar, ...}. Two tags are two images: each has its tag in a file."""
    if not (folder / "cleave-agent").exists():
        (ROOT / "build/release").mkdir(parents=True, exist_ok=True)
        subprocess.run(["flock", "build/release/.lock", "sh", "-ec", COPY.format(folder)], cwd=ROOT, check=True, timeout=1200)
    return {f"{REGISTRY}/{program}:{tag}": image(folder, program, tag) for program in USERS}


def image(folder, program, tag):
    root, tar = folder / program, folder / f"{program}-{tag}.tar"
    if tar.exists():
        return tar
    (root / "etc/tag").write_text(f"{tag}\n")
    subprocess.run([HACK / "image.sh", "--level", "1", *USERS.get(program, NOBODY), f"{REGISTRY}/{program}:{tag}", tar, root, f"/usr/bin/{program}"], check=True, timeout=60)
    return tar


def scheduler_images(folder, upstream, program):
    """Those of config/scheduler's pod, as images(): ours, and a kube-scheduler under the upstream's name."""
    images(folder)
    root, tar = folder / "kube-scheduler", folder / "kube-scheduler.tar"
    (root / "usr/local/bin").mkdir(parents=True)
    shutil.copy(program, root / "usr/local/bin/kube-scheduler")
    subprocess.run([HACK / "image.sh", "--level", "1", upstream, tar, root, "/usr/local/bin/kube-scheduler"], check=True, timeout=60)
    return {f"{REGISTRY}/cleave-scheduler:v1": image(folder, "cleave-scheduler", "v1"), upstream: tar}


def release_before():
    """The folder of the release before; None where the history does not reach back to it."""
    done = subprocess.run([ROOT / "hack" / "before.sh"], capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode in (0, 2), done.stderr
    if done.returncode == 2:
        return None
    return Path(subprocess.run([ROOT / "hack" / "before.sh", "--folder"], capture_output=True, text=True, check=True).stdout.strip())


def images_before(folder, before):
    """As images(), of the release before, whose programs load Debian's libraries. The tag is "before"."""
    return {f"{REGISTRY}/{program}:before": image_before(folder / "before", before, program) for program in USERS}


def image_before(folder, before, program):
    root = folder / program
    for name in ("usr/bin", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    shutil.copy(before / "bin" / program, root / "usr/bin")
    for library in loaded(before / "bin" / program):
        (root / library.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(library).resolve(), root / library.lstrip("/"))
    return image(folder, program, "before")


def loaded(program):
    """The paths by which the loader finds what a program needs, its own included."""
    return re.findall(r"^\s*(?:\S+ => )?(/\S+) \(", subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout, re.M)


def agent_image(folder, tag, root, entrypoint):
    """An image of no agent, under the agent's name: its reference and its tar."""
    reference, tar = f"{REGISTRY}/cleave-agent:{tag}", folder / f"cleave-agent-{tag}.tar"
    subprocess.run([HACK / "image.sh", "--level", "1", reference, tar, root, entrypoint], check=True, timeout=60)
    return reference, tar
