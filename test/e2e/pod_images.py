# SPDX-License-Identifier: Apache-2.0
"""The images that pods of the tests run: the only place that says where they come from."""

import re
import shutil
import subprocess
from pathlib import Path

from conftest import HACK, ROOT

REGISTRY = "registry.example"
PROGRAMS = ("cleave-controller", "cleave-agent")


def images(folder, tag="v1"):
    """{"registry.example/cleave-agent:v1": its tar, ...} of both programs of the release build, with the libraries that they load."""
    return {f"{REGISTRY}/{program}:{tag}": image(folder, program, tag) for program in PROGRAMS}


def image(folder, program, tag):
    root = folder / f"{program}-{tag}"
    for name in ("usr/bin", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    shutil.copy(ROOT / "build" / "release" / program, root / "usr/bin")
    (root / "etc/tag").write_text(f"{tag}\n")  # two tags are two images
    for library in loaded(root / "usr/bin" / program):
        (root / library.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(library).resolve(), root / library.lstrip("/"))
    tar = folder / f"{program}-{tag}.tar"
    subprocess.run([HACK / "image.sh", f"{REGISTRY}/{program}:{tag}", tar, root, f"/usr/bin/{program}"], check=True, timeout=60)
    shutil.rmtree(root)
    return tar


def loaded(program):
    """The paths by which the loader finds what a program needs, its own included."""
    return re.findall(r"^\s*(?:\S+ => )?(/\S+) \(", subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout, re.M)
