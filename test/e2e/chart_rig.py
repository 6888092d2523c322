# SPDX-License-Identifier: Apache-2.0
"""Helm, and the maker of the chart, for tests.

    maker.make("1.2.3", folder)     the archive of the chart, as `make chart` makes it
    Helm(folder, cluster)           helm("install", ...), on a cluster where there is one
"""

import importlib.util
import os
import subprocess

import yaml
from conftest import HACK, ROOT


def load_maker(config=ROOT / "config"):
    """hack/chart.py, which makes the chart of the manifests in a folder."""
    spec = importlib.util.spec_from_file_location("chart_maker", ROOT / "hack" / "chart.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.CONFIG = config
    return module


maker = load_maker()


class HelmError(AssertionError):
    """helm ended with an error; the message is what it wrote."""


def helm_program():
    found = subprocess.run([HACK / "helm.sh"], capture_output=True, text=True, check=False).stdout.strip()
    assert found, "there is no helm; hack/install-deps.sh --with-helm builds it"
    return f"{found}/bin/helm"


def helm_homes(folder):
    """Variables by which helm keeps what it keeps in a folder."""
    return {f"HELM_{what}_HOME": str(folder / what) for what in ("CACHE", "CONFIG", "DATA")}


class Helm:
    """helm with a chart of its own making, and on a cluster where there is one."""

    def __init__(self, folder, cluster=None):
        self.program = helm_program()
        self.folder = folder
        self.env = {**os.environ, **helm_homes(folder)}
        self.env.pop("KUBECONFIG", None)
        self.cluster = cluster

    def __call__(self, *args, values=None):
        """Runs helm and returns what it printed; values go as a file."""
        more = ["--kubeconfig", self.cluster.kubeconfig] if self.cluster else []
        if values is not None:
            (self.folder / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
            more += ["--values", self.folder / "values.yaml"]
        argv = [str(a) for a in (self.program, *args, *more)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=self.env, check=False)
        if done.returncode != 0:
            raise HelmError(f"{' '.join(argv[1:])}: {done.stdout}{done.stderr}")
        return done.stdout
