#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes what config/monitoring has for Prometheus' operator and for Grafana.

    hack/monitoring.py            writes the files
    hack/monitoring.py --check    says which of them are not up to date, exit code 1

rules/prometheusrule.yaml has the groups of cleave.rules.yaml. dashboards/*.json are the panels of hack/dashboards.py, and
dashboards/kustomization.yaml makes a ConfigMap of each.
"""

import argparse
import json
import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent))
import dashboards  # noqa: E402

HERE = Path(__file__).resolve().parents[1] / "config" / "monitoring"
MADE = "# Made by hack/monitoring.py; change {} and run it again.\n"
LABELS = {"app.kubernetes.io/name": "cleave", "app.kubernetes.io/component": "monitoring", "app.kubernetes.io/part-of": "cleave"}


def text_of(content, source, before=""):
    dumped = yaml.safe_dump(content, sort_keys=False, width=1000, allow_unicode=True)
    return "# SPDX-License-Identifier: Apache-2.0\n" + MADE.format(source) + before + dumped


def prometheus_rule():
    rules = yaml.safe_load((HERE / "cleave.rules.yaml").read_text(encoding="utf-8"))
    metadata = {"name": "cleave", "namespace": "cleave-system", "labels": LABELS}
    return text_of({"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": metadata, "spec": rules}, "cleave.rules.yaml")


def config_maps(names):
    maps = [{"name": f"{name}-dashboard", "namespace": "cleave-system", "files": [f"{name}.json"]} for name in names]
    options = {"disableNameSuffixHash": True, "labels": {**LABELS, "grafana_dashboard": "1"}}
    content = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component", "configMapGenerator": maps, "generatorOptions": options}
    note = "# Dashboards as ConfigMaps; Grafana's sidecar finds them by the label grafana_dashboard (docs/monitoring.md).\n"
    return text_of(content, "hack/dashboards.py", note)


def dashboard(content):
    """A line for each panel: a change of one is one line."""
    lines = ",\n".join("  " + json.dumps(panel, ensure_ascii=False) for panel in content["panels"])
    frame = json.dumps({**content, "panels": []}, indent=1, ensure_ascii=False)
    return frame.replace('"panels": []', f'"panels": [\n{lines}\n ]') + "\n"


def files():
    made = {f"dashboards/{d['uid']}.json": dashboard(d) for d in dashboards.all_of_them()}
    made["dashboards/kustomization.yaml"] = config_maps(sorted(Path(name).stem for name in made))
    made["rules/prometheusrule.yaml"] = prometheus_rule()
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = [(HERE / name, text) for name, text in files().items() if not (HERE / name).exists() or (HERE / name).read_text(encoding="utf-8") != text]
    for path, text in stale:
        if check:
            print(f"{path} is not up to date: run hack/monitoring.py")
        else:
            path.write_text(text, encoding="utf-8")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
