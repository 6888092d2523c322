# SPDX-License-Identifier: Apache-2.0
"""The images that pods of the tests run: those of `make images`, under names and tags of a registry's."""

import subprocess

from conftest import HACK, ROOT

REGISTRY = "registry.example"
USERS = {"cleave-controller": ["--user", "65532:65532"], "cleave-agent": []}
# The lock is that of hack/run-tests.sh: one make at a time in a variant's folder.
COPY = "make -s images >/dev/null && for name in cleave-controller cleave-agent; do cp -a build/images/$name/root {}/$name; done"


def images(folder, tag="v1"):
    """{"registry.example/cleave-agent:v1": its tar, ...}. Two tags are two images: each has its tag in a file."""
    if not (folder / "cleave-agent").exists():
        (ROOT / "build/release").mkdir(parents=True, exist_ok=True)
        subprocess.run(["flock", "build/release/.lock", "sh", "-ec", COPY.format(folder)], cwd=ROOT, check=True, timeout=1200)
    return {f"{REGISTRY}/{program}:{tag}": image(folder, program, tag) for program in USERS}


def image(folder, program, tag):
    root, tar = folder / program, folder / f"{program}-{tag}.tar"
    (root / "etc/tag").write_text(f"{tag}\n")
    subprocess.run([HACK / "image.sh", *USERS[program], f"{REGISTRY}/{program}:{tag}", tar, root, f"/usr/bin/{program}"], check=True, timeout=60)
    return tar
