#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Composes the root folder of an image: programs without their symbols, the libraries that they load, and what says whose
they are. There is no shell and no package manager in it.

    hack/images/root.py [--for-drivers] [--limiter LIBRARY]... --version VERSION FOLDER PROGRAM...

Writes FOLDER/root, FOLDER/PROGRAM.debug (the symbols; the program names the file and its build-id) and FOLDER/NAME.spdx.json
(an SBOM, SPDX 2.3, which is also in the root), NAME being the first program's. The limiter's libraries are carried along for
containers on the host, which have what they need: nothing in the image loads them. Modes and contents depend on the programs and
Debian's packages only; the SBOM's time is SOURCE_DATE_EPOCH. Everything but the programs comes from installed packages of
Debian. Of what is linked into them, from Debian's packages and from the libcurl of hack/images/curl.sh, the linker's maps
PROGRAM.map tell.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import linked

REPO = linked.ROOT
DOC = Path("/usr/share/doc")
# The folders of a merged /usr, as Debian's base has them: a runtime that mounts a driver finds its places.
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "var/run": "/run", "etc/os-release": "../usr/lib/os-release"}
# Where the agent looks for the limiter (--limiter-folder).
LIMITER = "usr/lib/cleave/limiter"
FOLDERS = ("usr/bin", "usr/sbin", "usr/lib64", "etc", "run", "tmp", "var/lib", "proc", "sys", "dev")
# What vendors' libraries and tools are linked with; they are loaded or run from the host, with the image's libraries. The first
# three hold nothing since glibc 2.34, but old programs name them.
DRIVERS_NEED = ("libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1")
# Who the programs run as; 65533 is the user of the processes that serve HTTP (service/http_server.c).
USERS = {"root": 0, "cleave-http": 65533, "cleave": 65532}
MOZILLA = Path("/usr/share/ca-certificates/mozilla")


class Root:
    """A root folder in the making, and where each file of it came from."""

    def __init__(self, folder):
        self.folder = folder
        self.origin = {}  # path in the root: path on this machine; None: made here
        shutil.rmtree(folder, ignore_errors=True)
        for name in FOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name, target in LINKS.items():
            (folder / name).symlink_to(target)

    def place(self, path):
        """Where a path of this machine lies in the root, with /lib and its like followed into /usr."""
        path = Path(path)
        return str(Path(os.path.realpath(path.parent)) / path.name).lstrip("/")

    def write(self, name, data, mode=0o644, origin=None):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        path.chmod(mode)
        self.origin[name] = origin

    def copy(self, source, name=None, mode=0o644):
        self.write(name or self.place(source), Path(source).read_bytes(), mode, str(source))

    def library(self, path):
        """A library under its own name, and the link by which the loader finds it."""
        name, real = self.place(path), self.place(os.path.realpath(path))
        self.copy("/" + real, real, 0o755)
        if name != real:
            link = self.folder / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath("/" + real, "/" + os.path.dirname(name)))

    def finish(self):
        for folder, _, _ in os.walk(self.folder):
            os.chmod(folder, 0o755)
        os.chmod(self.folder / "tmp", 0o1777)

    def files(self):
        return sorted(self.origin)


# --- the program ---


def split(program, root, debug, folder="usr/bin", mode=0o755):
    """The program without symbols goes to the root; they go to debug, which the program names."""
    subprocess.run(["objcopy", "--only-keep-debug", "--compress-debug-sections", program, debug], check=True)
    debug.chmod(0o644)
    stripped = root.folder / folder / program.name
    stripped.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["strip", "--strip-all", "-o", stripped, program], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", stripped], check=True)
    stripped.chmod(mode)
    root.origin[f"{folder}/{program.name}"] = str(program)


# --- what goes with it ---


def certificates():
    """The authorities of ca-certificates, as it ships them: the machine's own ones are nobody else's."""
    return "".join(path.read_text().strip() + "\n" for path in sorted(MOZILLA.glob("*.crt")))


def write_users(root):
    root.write("etc/passwd", "".join(f"{name}:x:{uid}:{uid}::/:/usr/sbin/nologin\n" for name, uid in USERS.items()))
    root.write("etc/group", "".join(f"{name}:x:{uid}:\n" for name, uid in USERS.items()))


def write_papers(root, packages):
    """Licences, and for scanners of images a package's entry as they look for it where there is no dpkg."""
    root.copy(REPO / "LICENSE", "usr/share/doc/cleave/LICENSE")
    licences = set()
    for package in packages.values():
        text = (DOC / package.apt / "copyright").read_text(errors="replace")
        root.write(f"usr/share/doc/{package.name}/copyright", text, origin=str(DOC / package.apt / "copyright"))
        licences |= set(re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", text))
        if not package.static:
            root.write(f"var/lib/dpkg/status.d/{package.name}", linked.run("dpkg-query", "-s", package.name))
    for name in sorted(licences):
        if (path := Path("/usr/share/common-licenses") / name).exists():
            root.copy(os.path.realpath(path), f"usr/share/common-licenses/{name}")


# --- the SBOM ---


def spdx_id(kind, name):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def spdx_package(name, version, supplier, purl=None, **more):
    refs = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}] if purl else []
    return {"SPDXID": spdx_id("Package", name), "name": name, "versionInfo": version, "supplier": supplier, "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
            **({"externalRefs": refs} if refs else {}), **more}


def spdx_file(root, name):
    data = (root.folder / name).read_bytes()
    return {"SPDXID": spdx_id("File", name), "fileName": f"./{name}", "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION",
            "checksums": [{"algorithm": kind, "checksumValue": hashlib.new(kind.lower(), data).hexdigest()} for kind in ("SHA1", "SHA256")]}


def purl(package):
    codename = re.search(r"^VERSION_CODENAME=(.*)$", Path("/usr/lib/os-release").read_text(), re.M)[1]
    if package.name in linked.BUILT:
        return f"pkg:deb/debian/{package.name}@{package.version}?arch=source&distro={codename}".replace("+", "%2B")
    arch = linked.run("dpkg-query", "-W", "-f", "${Architecture}", package.name)
    return f"pkg:deb/debian/{package.name.replace('+', '%2B')}@{package.version.replace('+', '%2B')}?arch={arch}&distro={codename}"


def related(of, kind, to):
    return {"spdxElementId": of, "relationshipType": kind, "relatedSpdxElement": to}


def sbom(root, programs, version, packages):
    name = programs[0]
    ours = spdx_package(name, version, "NOASSERTION", primaryPackagePurpose="APPLICATION")
    ours["licenseDeclared"] = ours["licenseConcluded"] = "Apache-2.0"
    image = spdx_package(f"{name}-image", version, "NOASSERTION", primaryPackagePurpose="CONTAINER")
    entries, relations = [image, ours], [related("SPDXRef-DOCUMENT", "DESCRIBES", image["SPDXID"]), related(image["SPDXID"], "CONTAINS", ours["SPDXID"])]
    by_origin = {}
    for package in packages.values():
        # The static libraries are no files of the image: they are named here.
        archives = sorted(Path(path).name for path in package.files) if package.static else []
        comment = {"comment": "linked into the programs: " + ", ".join(archives)} if archives else {}
        source = {"sourceInfo": f"built from the Debian source package {package.source}"}
        entry = spdx_package(package.name, package.version, "Organization: Debian", purl(package), **source, **comment)
        entries.append(entry)
        relations.append(related(ours["SPDXID"], "STATIC_LINK" if package.static else "DYNAMIC_LINK", entry["SPDXID"]) if package.links else
                         related(image["SPDXID"], "CONTAINS", entry["SPDXID"]))
        by_origin.update((path, entry["SPDXID"]) for path in package.files)
    files = [spdx_file(root, name) for name in root.files()]
    for name in root.files():
        relations.append(related(image["SPDXID"], "CONTAINS", spdx_id("File", name)))
        if of := by_origin.get(root.origin[name]):
            relations.append(related(of, "CONTAINS", spdx_id("File", name)))
    relations += [related(ours["SPDXID"], "CONTAINS", spdx_id("File", f"usr/bin/{program}")) for program in programs]
    relations += [related(ours["SPDXID"], "CONTAINS", spdx_id("File", name)) for name in root.files() if name.startswith(f"{LIMITER}/")]
    document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{name}-{version}",
                "creationInfo": {"creators": ["Tool: cleave-hack-images-root"],
                                 "created": datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")},
                "packages": entries, "files": files, "relationships": relations}
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    document["documentNamespace"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}"
    return json.dumps(document, indent=1) + "\n"


# --- all of it ---


def compose(folder, programs, version, for_drivers, limiter):
    folder.mkdir(parents=True, exist_ok=True)
    root, name = Root(folder / "root"), programs[0].name
    libraries, static = set(), set()
    for program in programs:
        split(program, root, folder / f"{program.name}.debug")
        libraries |= set(linked.shared(program).values())
        static |= linked.archives(program)
    for library in limiter:
        split(library, root, folder / f"{library.name}.debug", LIMITER, 0o644)
    extra = {linked.library_path(soname) for soname in DRIVERS_NEED} - libraries if for_drivers else set()
    for path in sorted(libraries | extra):
        root.library(path)
    root.write("etc/ssl/certs/ca-certificates.crt", certificates(), origin=str(MOZILLA))
    root.copy("/usr/lib/os-release")
    root.copy("/etc/debian_version")  # NVIDIA's runtime looks here for where a driver's libraries go
    write_users(root)
    packages = linked.packages(libraries, static)
    linked_names = set(packages)
    certificate = str(next(MOZILLA.glob("*.crt")))
    for key, package in linked.packages({"/usr/lib/os-release", certificate, *extra}, ()).items():
        packages.setdefault(key, package).files.update(package.files)
    for package in packages.values():
        package.links = package.name in linked_names
        package.files = {os.path.realpath(path) if not package.static else path for path in package.files}
        package.files |= {str(MOZILLA)} if package.name == "ca-certificates" else set()
    packages = dict(sorted(packages.items()))
    write_papers(root, packages)
    text = sbom(root, [program.name for program in programs], version, packages)
    (folder / f"{name}.spdx.json").write_text(text)
    root.write(f"usr/share/doc/cleave/{name}.spdx.json", text)
    root.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", required=True)
    parser.add_argument("--for-drivers", action="store_true", help="with what vendors' libraries and tools need")
    parser.add_argument("--limiter", type=Path, action="append", default=[], help="a library of the limiter's")
    parser.add_argument("folder", type=Path)
    parser.add_argument("program", type=Path, nargs="+")
    options = parser.parse_args()
    os.umask(0o022)
    compose(options.folder.resolve(), [program.resolve() for program in options.program], options.version, options.for_drivers, [library.resolve() for library in options.limiter])


if __name__ == "__main__":
    try:
        main()
    except (linked.Unknown, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"root.py: {error}")
