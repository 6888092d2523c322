#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the Helm chart out of config/chart and of what kustomize makes of config/.

    hack/chart.py [--version VERSION]     build/chart/cleave-VERSION.tgz, and beside it the folder cleave/;
                                          its images have the tag VERSION, as `make images VERSION=VERSION` makes them
    hack/chart.py --values                the table of docs/helm.md

config/chart holds no manifest. The chart gets two files from kustomize: files/objects.json, all objects of
config/, and files/components.json, what each component adds to them and changes in them. The chart's template
puts them together as the values say. Nothing of the archive depends on when or where it was made. Needs kubectl.
"""

import argparse
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "config"
CHART = CONFIG / "chart"
OUT = ROOT / "build" / "chart"
# The C library is ten times as fast.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Lists of the API whose elements are known by a member, and not by their place.
KEYS = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath"}


# --- what kustomize makes ---


def kubectl():
    """The program that the tests use, else the one of PATH."""
    built = subprocess.run([ROOT / "hack" / "kube" / "bin.sh"], capture_output=True, text=True, check=False).stdout.strip()
    return os.path.join(built, "kubectl") if built else "kubectl"


def kustomize(components=(), more=None):
    """The objects of config/ with these components; more holds other fields of the kustomization."""
    with tempfile.TemporaryDirectory() as folder:
        here = os.path.relpath(CONFIG, os.path.realpath(folder))
        overlay = {"resources": [here], "components": [f"{here}/{name}" for name in components], **(more or {})}
        Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
        done = subprocess.run([kubectl(), "kustomize", folder], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"chart.py: kustomize with {overlay}: {done.stderr}")
    return [o for o in yaml.load_all(done.stdout, LOADER) if o]


def component_names():
    """In the order of config/kustomization.yaml, which is the order that counts."""
    lines = (CONFIG / "kustomization.yaml").read_text(encoding="utf-8").splitlines()
    return [name for name in (line.split()[2] for line in lines if re.match(r"# - \S", line)) if name not in OF_KUSTOMIZE_ALONE]


# Members of the specs of workloads and of ServiceMonitors, which components that come later change.
CHANGED_LATER = {"template", "endpoints"}

# It takes a Namespace away; the chart's namespaces.create=false leaves both to whoever installs.
OF_KUSTOMIZE_ALONE = ["components/one-namespace"]


def by_identity(objects):
    """As the chart's template "cleave.identity" prints it."""
    return {f"{o['apiVersion']} {o['kind']} {o['metadata'].get('namespace', '')}/{o['metadata']['name']}": o for o in objects}


# --- what a component changes ---


def difference(old, new, path=()):
    """The steps that make new out of old, each with a path of member names and {member: value} for elements of lists."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from members(old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from elements(old, new, path)
    elif old != new:
        yield step("set", path, new)


def step(how, path, value=None):
    return {"how": how, "at": list(path[:-1]), "key": path[-1], "value": value}


def members(old, new, path):
    for key in sorted(old.keys() - new.keys()):
        yield step("remove", (*path, key))
    for key in sorted(new):
        if key in old:
            yield from difference(old[key], new[key], (*path, key))
        else:
            kinds = {dict: "merge", list: "append"}
            yield step(kinds.get(type(new[key]), "set"), (*path, key), new[key])


def elements(old, new, path):
    key = KEYS.get(path[-1])
    if key is None:
        if old != new:
            grown = new[: len(old)] == old
            yield step("append", path, new[len(old) :]) if grown else step("set", path, new)
        return
    before, after = ({e[key]: e for e in of} for of in (old, new))
    if before.keys() - after.keys():
        sys.exit(f"chart.py: a component takes {before.keys() - after.keys()} out of {'/'.join(map(str, path))}: the chart cannot say that")
    for name, element in after.items():
        if name in before:
            yield from difference(before[name], element, (*path, {"key": key, "value": name}))
    added = [e for name, e in after.items() if name not in before]
    if added:
        yield step("append", path, added)


def component(before, after):
    """What a component adds and changes, between two of kustomize's results."""
    old, new = by_identity(before), by_identity(after)
    if old.keys() - new.keys():
        sys.exit(f"chart.py: a component takes objects away: {old.keys() - new.keys()}: the chart cannot say that")
    changes = {i: list(difference(old[i], o)) for i, o in new.items() if i in old and o != old[i]}
    return {"objects": [o for i, o in new.items() if i not in old], "changes": changes}


def components():
    """All, in order. What a component changes in workloads and ServiceMonitors that other components add is seen with those before it."""
    found, workloads = [], []
    before = kustomize()
    for name in component_names():
        after = kustomize([*workloads, name])
        found.append({"name": name, **component(before, after)})
        if any(CHANGED_LATER & o.get("spec", {}).keys() for o in found[-1]["objects"]):
            workloads.append(name)
            before = after
    return found


# --- the archive ---


def chart_version(described):
    """A tag, v1.2.3, v1.2 or v1, with all three numbers; what git says of anything else as a version before all releases."""
    number = "(?:0|[1-9][0-9]*)"
    # A commit's name may be a number, so a number with neither a "v" nor a dot is no version.
    if match := re.fullmatch(rf"(?:v|(?=\d+\.))({number}(?:\.{number}){{0,2}})(-[0-9A-Za-z.-]+)?", described):
        numbers = [*match[1].split("."), "0", "0"][:3]
        return ".".join(numbers) + (match[2] or "")
    return "0.0.0-g" + re.sub(r"[^0-9A-Za-z-]+", "-", described)


def image_tag(described):
    """As hack/images/build.sh makes it."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", described)


def described():
    done = subprocess.run(["git", "describe", "--tags", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def write_versions(folder, described):
    text = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    (folder / "Chart.yaml").write_text(text.replace("VERSION", chart_version(described)).replace("TAG", image_tag(described)), encoding="utf-8")


def make_folder(folder, described):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(CHART, folder)
    shutil.copy(ROOT / "LICENSE", folder)
    write_versions(folder, described)
    (folder / "files").mkdir()
    for name, content in (("objects", kustomize()), ("components", components())):
        (folder / "files" / f"{name}.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def archive(folder, path):
    """The folder as a .tgz, the same bytes each time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            entry = tarfile.TarInfo(str(Path("cleave") / file.relative_to(folder)))
            entry.size, entry.mode = file.stat().st_size, 0o644
            tar.addfile(entry, io.BytesIO(file.read_bytes()))
    path.write_bytes(gzip.compress(buffer.getvalue(), mtime=0))


def make(described, out=OUT):
    """Returns the archive's path."""
    make_folder(out / "cleave", described)
    path = out / f"cleave-{chart_version(described)}.tgz"
    archive(out / "cleave", path)
    return path


# --- values ---


def values():
    """(path, default as text, what its comment says) of each value of values.yaml; a comment stands above its value."""
    path, comment = [], []
    for line in (CHART / "values.yaml").read_text(encoding="utf-8").split("\n\n", 1)[1].splitlines():
        text = line.strip()
        if text.startswith("#"):
            comment.append(text.removeprefix("#").strip())
            continue
        if match := re.fullmatch(r"( *)([A-Za-z]+):(?: (.+))?", line):
            del path[len(match[1]) // 2 :]
            path.append(match[2])
            if match[3]:
                yield ".".join(path), match[3], " ".join(comment)
        comment = []


def table():
    rows = [f"| `{path}` | `{default}` | {text} |" for path, default, text in values()]
    return "\n".join(["| value | default | what it does |", "|---|---|---|", *rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default=described(), help="of the chart, and the tag of the images that it installs; without it, what git describe says")
    parser.add_argument("--values", action="store_true")
    args = parser.parse_args()
    print(table() if args.values else make(args.version).relative_to(ROOT))


if __name__ == "__main__":
    main()
