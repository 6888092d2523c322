# SPDX-License-Identifier: Apache-2.0
"""The images that `make images` makes: what is in them and what is not, whose it is, that two builds are the same, that the programs start."""

import fnmatch
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "hack"))
import linked  # noqa: E402

IMAGES = ROOT / "build" / "images"
NAMES = ("cleave-controller", "cleave-scheduler", "cleave-agent")
MOST_BYTES = 12 << 20
LIBRARIES = "usr/lib/x86_64-linux-gnu/"
# What the agent carries along for containers, where it was built; nothing in the image loads it.
LIMITER = "usr/lib/cleave/limiter/"
BOTH = ["libcleave-cuda.so", "libcleave-nvml.so"]
CARRIED = BOTH if all((ROOT / "build/release/limiter" / name).exists() for name in BOTH) else []
# Everything that may be in an image, as patterns; libraries by the names that the loader asks for.
CONTENTS = {
    "programs": ["usr/bin/{name}", "usr/bin/cleave-child"],
    "the agent's alone": ["usr/bin/cleave-watch", "usr/bin/cleave-runtime"],
    "the limiter": [LIMITER + name for name in CARRIED],
    "loader": ["usr/lib64/ld-linux-x86-64.so.2", LIBRARIES + "ld-linux-x86-64.so.2"],
    "the C library": [LIBRARIES + f"lib{part}.so.[0-9]" for part in ("c", "m")],
    "TLS of metrics": [LIBRARIES + f"lib{part}.so.*" for part in ("gnutls", "p11-kit", "idn2", "unistring", "tasn1", "nettle", "hogweed", "gmp", "ffi")],
    "for drivers": [LIBRARIES + f"lib{part}.so.*" for part in ("pthread", "dl", "rt", "stdc++", "gcc_s")],
    "certificates": ["etc/ssl/certs/ca-certificates.crt"],
    "users": ["etc/passwd", "etc/group"],
    "what it is made of": ["etc/os-release", "usr/lib/os-release", "etc/debian_version", "var/lib/dpkg/status.d/*", "usr/share/doc/cleave/{name}.spdx.json"],
    "papers": ["usr/share/doc/cleave/LICENSE", "usr/share/doc/*/copyright", "usr/share/common-licenses/*"],
    "links": ["bin", "sbin", "lib", "lib64", "var/run"],
}


def programs(image):
    """The names of our programs in it."""
    return [image.name, "cleave-child", *(["cleave-watch", "cleave-runtime"] if image.name == "cleave-agent" else [])]


class Image:
    """One archive, as a reader of OCI layouts sees it."""

    def __init__(self, path):
        self.name = path.name.partition(".")[0]
        self.bytes = path.stat().st_size
        with tarfile.open(path) as tar:
            self.parts = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
        self.index = json.loads(self.parts["index.json"])
        self.digest = self.index["manifests"][0]["digest"]
        self.manifest = json.loads(self.blob(self.digest))
        self.config = json.loads(self.blob(self.manifest["config"]["digest"]))
        (layer,) = self.manifest["layers"]
        # Unpacked once: in a compressed archive each step back reads it from the beginning.
        self.layer = tarfile.open(fileobj=io.BytesIO(gzip.decompress(self.blob(layer["digest"]))), mode="r:")
        self.members = {member.name.removeprefix("./"): member for member in self.layer if member.name != "."}

    def blob(self, digest):
        kind, _, value = digest.partition(":")
        data = self.parts[f"blobs/{kind}/{value}"]
        assert hashlib.new(kind, data).hexdigest() == value
        return data

    def read(self, name):
        return self.layer.extractfile(self.members[name]).read()

    def files(self):
        return sorted(name for name, member in self.members.items() if not member.isdir())

    def sbom(self):
        return json.loads(self.read(f"usr/share/doc/cleave/{self.name}.spdx.json"))


def make_images(folder, env=None, umask=-1, **variables):
    """`make images` in a tree. The lock is that of hack/run-tests.sh: one make at a time in a variant's folder."""
    lock = folder / "build/release/.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    argv = ["flock", lock, "make", "-s", "-j2", "images", *(f"{key}={value}" for key, value in variables.items())]
    done = subprocess.run(argv, cwd=folder, env={**os.environ, **(env or {})}, umask=umask, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def images():
    make_images(ROOT)
    return {name: Image(IMAGES / f"{name}.oci.tar") for name in NAMES}


@pytest.fixture(params=NAMES)
def image(request, images):
    return images[request.param]


@pytest.fixture
def unpacked(image, tmp_path):
    image.layer.extractall(tmp_path / image.name)
    return tmp_path / image.name


def patterns(name):
    return [pattern.format(name=name) for group in CONTENTS.values() for pattern in group]


@pytest.mark.long
def test_nothing_is_in_it_that_is_not_listed(image):
    strange = [name for name in image.files() if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns(image.name))]
    assert strange == []


def test_everything_that_is_listed_is_in_one_of_them(images):
    names = {name: image.files() for name, image in images.items()}
    unused = [p for name in NAMES for p in patterns(name) if not any(fnmatch.filter(files, p) for files in names.values())]
    assert unused == []


def test_there_is_no_program_but_ours_and_no_way_to_become_another_user(image):
    ours = sorted(f"usr/bin/{name}" for name in programs(image))
    assert fnmatch.filter(image.files(), "usr/bin/*") == ours and not fnmatch.filter(image.files(), "usr/sbin/*")
    assert [name for name, member in image.members.items() if member.mode & 0o6000] == []
    assert [name for name, member in image.members.items() if member.mode & 0o002 and not member.issym() and name != "tmp"] == []
    assert {(member.uid, member.gid) for member in image.members.values()} == {(0, 0)}
    runnable = [name for name, member in image.members.items() if member.isfile() and member.mode & 0o111]
    assert all(name in ours or ".so" in name for name in runnable)


def test_the_agent_alone_carries_the_limiter_and_whole(images):
    names = {name: [Path(file).name for file in image.files() if file.startswith(LIMITER)] for name, image in images.items()}
    assert names == {"cleave-controller": [], "cleave-scheduler": [], "cleave-agent": CARRIED}
    for name in CARRIED:
        member = images["cleave-agent"].members[LIMITER + name]
        assert (member.mode & 0o7777, is_elf(images["cleave-agent"].read(LIMITER + name))) == (0o644, True)


def test_controller_and_scheduler_are_not_root_and_the_agent_is(images):
    assert {images[name].config["config"]["User"] for name in NAMES[:2]} == {"65532:65532"}
    assert "User" not in images["cleave-agent"].config["config"]
    for name, image in images.items():
        assert image.config["config"]["Entrypoint"] == [f"/usr/bin/{name}"]
        assert b":65532:65532:" in image.read("etc/passwd") and b":65533:" in image.read("etc/passwd")


def test_labels_and_tags_tell_version_and_revision(image):
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip() or "unknown"
    labels = image.config["config"]["Labels"]
    told = {key.removeprefix("org.opencontainers.image."): value for key, value in labels.items()}
    assert told["revision"] == revision and told["licenses"] == "Apache-2.0" and told["title"]
    assert image.manifest["annotations"] == labels
    version = subprocess.run([ROOT / "build/release" / image.name, "--version"], capture_output=True, text=True).stdout.split()[-1]
    assert told["version"] == version
    names = [entry["annotations"]["io.containerd.image.name"] for entry in image.index["manifests"]]
    assert names == [f"localhost/{image.name}:{version}", f"localhost/{image.name}:latest"]
    assert json.loads(image.parts["manifest.json"])[0]["RepoTags"] == names


def test_it_is_small(image):
    assert image.bytes <= MOST_BYTES


def test_the_digest_is_told(image):
    assert (IMAGES / f"{image.name}.digest").read_text().strip() == image.digest


# --- the SBOM and the papers ---


def is_elf(data):
    return data[:4] == b"\x7fELF"


def test_the_sbom_names_each_shared_object_and_its_package(image):
    sbom = image.sbom()
    assert (sbom["spdxVersion"], sbom["dataLicense"]) == ("SPDX-2.3", "CC0-1.0")
    ids = {part["SPDXID"]: part for kind in ("packages", "files") for part in sbom[kind]}
    assert len(ids) == len(sbom["packages"]) + len(sbom["files"])
    assert all(r["relatedSpdxElement"] in ids and r["spdxElementId"] in ids | {sbom["SPDXID"]: sbom} for r in sbom["relationships"])
    files = {part["fileName"].removeprefix("./"): part for part in sbom["files"]}
    for name, part in files.items():
        sums = {check["algorithm"]: check["checksumValue"] for check in part["checksums"]}
        assert sums == {kind: hashlib.new(kind.lower(), image.read(name)).hexdigest() for kind in ("SHA1", "SHA256")}
    # The SBOM itself is the one file that it cannot name.
    regular = {name for name, member in image.members.items() if member.isfile()}
    assert set(files) == regular - {f"usr/share/doc/cleave/{image.name}.spdx.json"}
    holders = {}
    for r in sbom["relationships"]:
        if r["relationshipType"] == "CONTAINS":
            holders.setdefault(r["relatedSpdxElement"], []).append(ids[r["spdxElementId"]])
    elf = [name for name in regular if is_elf(image.read(name))]
    owners = linked.owners(["/" + name for name in elf if not name.startswith(("usr/bin/", LIMITER))])
    for name in elf:
        packages = [p for p in holders[files[name]["SPDXID"]] if p["name"] != f"{image.name}-image"]
        assert len(packages) == 1, name
        assert packages[0]["name"] == owners.get("/" + name, image.name)


def test_the_sbom_names_each_static_library_and_its_version(image):
    static = linked.packages((), set().union(*(linked.archives(ROOT / "build/release" / name) for name in programs(image))))
    assert {"curl", "libssl-dev", "libnghttp2-dev", "libjansson-dev", "libmicrohttpd-dev", "libseccomp-dev"} <= set(static)
    sbom = image.sbom()
    named = {part["name"]: part for part in sbom["packages"]}
    joined = {r["relatedSpdxElement"] for r in sbom["relationships"] if r["relationshipType"] == "STATIC_LINK"}
    for name, package in static.items():
        assert named[name]["versionInfo"] == package.version and named[name]["SPDXID"] in joined
        assert all(Path(path).name in named[name]["comment"] for path in package.files)
    assert len(joined) == len(static)


def test_whatever_is_in_it_comes_with_its_licence(image):
    assert image.read("usr/share/doc/cleave/LICENSE") == (ROOT / "LICENSE").read_bytes()
    ours = {image.name, f"{image.name}-image"}
    packages = {part["name"] for part in image.sbom()["packages"]} - ours
    papers = {name.split("/")[3] for name in fnmatch.filter(image.files(), "usr/share/doc/*/copyright")}
    assert packages == papers
    for name in fnmatch.filter(image.files(), "usr/share/doc/*/copyright"):
        for licence in re.findall(rb"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", image.read(name)):
            assert f"usr/share/common-licenses/{licence.decode()}" in image.members


# --- symbols ---


def build_id(path):
    return re.search(r"Build ID: ([0-9a-f]+)", subprocess.run(["readelf", "-n", path], capture_output=True, text=True).stdout)[1]


@pytest.mark.parametrize("which", ["the program", "cleave-child"])
def test_symbols_lie_apart_and_belong_to_the_program(image, unpacked, which):
    name = which if which == "cleave-child" else image.name
    program, debug = unpacked / "usr/bin" / name, IMAGES / image.name / f"{name}.debug"
    assert build_id(program) == build_id(debug)
    sections = subprocess.run(["readelf", "-SW", program], capture_output=True, text=True).stdout
    assert ".gnu_debuglink" in sections and ".symtab" not in sections and ".debug_info" not in sections
    link = subprocess.run(["readelf", "--string-dump=.gnu_debuglink", program], capture_output=True).stdout
    assert debug.name.encode() in link  # a checksum of any bytes follows
    line = subprocess.run(["addr2line", "-f", "-e", debug, symbol_of(debug, "main")], capture_output=True, text=True).stdout.split()
    assert line[0] == "main" and line[1].endswith("main.c:" + line[1].rpartition(":")[2]) and not line[1].startswith("/")


def symbol_of(debug, name):
    return re.search(rf"^([0-9a-f]+) T {name}$", subprocess.run(["nm", debug], capture_output=True, text=True).stdout, re.M)[1]


# --- it starts ---


def inside(root, *argv):
    """Runs a program in the folder as its root, and in nothing else of this machine."""
    return subprocess.run(["unshare", "--map-root-user", "--root", root, *argv], capture_output=True, text=True, timeout=60)


def test_the_program_starts_from_what_is_in_the_image(image, unpacked):
    version = inside(unpacked, f"/usr/bin/{image.name}", "--version")
    assert (version.returncode, version.stderr) == (0, "") and version.stdout.startswith(image.name)
    usage = inside(unpacked, f"/usr/bin/{image.name}", "--help")
    assert usage.returncode == 0 and "--" in usage.stdout + usage.stderr
    child = inside(unpacked, "/usr/bin/cleave-child")
    assert child.returncode == 2 and "is run by cleave-agent" in child.stderr


def test_the_runtime_for_hosts_loads_no_library(images, tmp_path):
    """A host whose container runtime has no CDI may have an older C library."""
    images["cleave-agent"].layer.extractall(tmp_path)
    runtime = tmp_path / "usr/bin/cleave-runtime"
    assert linked.named(runtime) == set() and runtime.stat().st_size < 1 << 20
    none = subprocess.run([runtime, "--version"], capture_output=True, text=True, env={"PATH": "/nonexistent"})
    assert none.returncode == 1 and none.stderr == "cleave-runtime: there is no runc in /nonexistent: install it there\n"


def test_all_that_may_be_loaded_finds_what_it_needs(image, unpacked):
    for path in sorted(unpacked.rglob("*.so*")):
        if path.is_symlink() or path.name.startswith("ld-linux") or path.name in CARRIED:
            continue
        name = "/" + str(path.relative_to(unpacked))
        found = inside(unpacked, "/lib64/ld-linux-x86-64.so.2", "--list", name)
        assert found.returncode == 0 and "not found" not in found.stdout, found.stdout + found.stderr
    wanted = linked.may_load(unpacked / "usr/bin/cleave-child")
    assert wanted and all((unpacked / LIBRARIES / soname).exists() for soname in wanted)


def test_a_driver_of_ours_is_loaded_with_the_libraries_of_the_image(images, tmp_path, release):
    root = tmp_path / "agent"
    images["cleave-agent"].layer.extractall(root)
    for soname in ("libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"):
        assert (root / LIBRARIES / soname).exists()
    assert not (root / "bin/sh").exists() and not (root / "usr/bin/env").exists()
    assert inside(root, "/bin/sh", "-c", "true").returncode != 0


# --- two builds ---


def tracked():
    done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [name for name in done.stdout.decode().split("\0") if name and (ROOT / name).exists()]


def copy_tree(to):
    """The tree's files elsewhere, without what was built and without git. What is the same keeps its time, so that make builds
    the second copy in a minute once, and afterwards what changed."""
    names = set(tracked())
    for path in list(to.rglob("*")):
        if path.is_file() and not path.is_relative_to(to / "build") and str(path.relative_to(to)) not in names:
            path.unlink()
    for name in names:
        source, target = ROOT / name, to / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


@pytest.mark.long
def test_two_builds_in_different_folders_are_the_same_bit_for_bit(images):
    """Also with another umask, time zone and locale, and compiled by itself (docs/adr/0041). The second folder stays in build/, with what was
    compiled there."""
    elsewhere = ROOT / "build" / "images-again" / "a-folder-with-another-name"
    elsewhere.mkdir(parents=True, exist_ok=True)
    copy_tree(elsewhere)
    config = images["cleave-agent"].config
    labels = config["config"]["Labels"]
    epoch = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    there = {"TZ": "XXX-13:45", "LC_ALL": "C", "LANG": "de_DE.UTF-8", "CCACHE_NAMESPACE": "the second build"}
    make_images(elsewhere, there, 0o077, VERSION=labels["org.opencontainers.image.version"], SOURCE_DATE_EPOCH=epoch)
    for name, image in images.items():
        again = Image(elsewhere / "build/images" / f"{name}.oci.tar")
        assert again.digest == image.digest
        assert (elsewhere / "build/images" / f"{name}.oci.tar").read_bytes() == (IMAGES / f"{name}.oci.tar").read_bytes()


# --- the Containerfile ---


@pytest.fixture
def sees(tmp_path):
    """What a build from the Containerfile has of a tree, by a real builder: sees(tree) gives the names of all files below /src."""
    if os.geteuid() != 0 or not shutil.which("buildah"):
        pytest.skip("a build from the Containerfile needs root and buildah (hack/install-deps.sh)")
    (copied,) = re.findall(r"^COPY \. /src$", (ROOT / "config/images/Containerfile").read_text(), re.M)
    probe = tmp_path / "Containerfile"
    probe.write_text(f"FROM scratch\n{copied}\n")

    def buildah(*words):
        storage = ["--root", tmp_path / "storage", "--runroot", tmp_path / "run", "--storage-driver", "vfs"]
        done = subprocess.run(["buildah", *storage, *words], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def look(tree):
        buildah("bud", "--quiet", "--isolation", "chroot", "--file", probe, "--tag", "probe", tree)
        container = buildah("from", "--pull-never", "probe")
        below = Path(buildah("mount", container)) / "src"
        names = {str(path.relative_to(below)) for path in below.rglob("*") if path.is_symlink() or not path.is_dir()}
        buildah("rm", container)
        return names

    return look


def test_a_build_sees_the_tree_and_nothing_that_was_built_in_it(sees, tmp_path):
    tree = tmp_path / "tree"
    copy_tree(tree)
    stale = {f"build/release/{name}" for name in (*NAMES, "cleave-child", "cleave-watch", "nodeagent/main.o")} | {"build/images/cleave-agent/root/usr/bin/cleave-agent", "hack/__pycache__/linked.pyc"}
    for name in stale:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("built elsewhere")
    assert sees(tree) == set(tracked())
    (tree / ".containerignore").unlink()
    (tree / ".dockerignore").unlink()
    assert sees(tree) >= stale, "the ignore files are what keeps it out"


def test_podman_and_docker_leave_out_the_same():
    lines = [(ROOT / name).read_text().splitlines() for name in (".containerignore", ".dockerignore")]
    assert lines[0] == lines[1] and "build/" in lines[0]
    assert not any(line.startswith("!") for line in lines[0]) and not any(name.startswith("build/") for name in tracked())


def test_the_containerfile_gives_an_image_the_same_user_and_entrypoint(images):
    stages = re.split(r"^FROM ", (ROOT / "config/images/Containerfile").read_text(), flags=re.M)[1:]
    final = {stage.split()[2]: stage for stage in stages if stage.startswith("scratch AS ")}
    assert set(final) == set(NAMES)
    for name, image in images.items():
        config = image.config["config"]
        assert f"/src/build/images/{name}/root/ /" in final[name] and f"ENTRYPOINT {json.dumps(config['Entrypoint'])}" in final[name]
        user = re.search(r"^USER (\S+)$", final[name], re.M)
        assert (user[1] if user else None) == config.get("User")
