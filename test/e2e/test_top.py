# SPDX-License-Identifier: Apache-2.0
"""`kubectl cleave top` where the agents' metrics are behind TLS and a token, for a user who has the Role cleave-top and nothing else: a port-forward
through a real API server and kubelet into the agents' pods.
"""

import json
import subprocess

import pytest
import yaml
from conftest import wait_for
from pods_rig import pods, pods_cluster  # noqa: F401
from test_plugin_real import held

GPU = "nvidia.com/gpu"
SECRET = """
kubectl apply --server-side -k config/namespace
for ns in cleave-system cleave-node; do kubectl -n $ns create secret tls cleave-metrics-tls --cert=tls.crt --key=tls.key; done
"""


@pytest.fixture(scope="module")
def installed(pods):
    pods.new_cards()
    checkout = pods.checkout()
    checkout.take("components/metrics-auth")
    checkout.name_images()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=cleave-agent-metrics.cleave-node.svc",
         "-keyout", checkout.folder / "tls.key", "-out", checkout.folder / "tls.crt"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    checkout.sh(SECRET)
    checkout.apply()
    pods.wait_devices()
    yield checkout
    pods.clear()
    checkout.uninstall()


@pytest.fixture
def watcher(pods, installed):
    """The file of a user who may do nothing yet."""
    installed.sh("kubectl -n default create serviceaccount watcher")
    config = yaml.safe_load(pods.cluster.kubeconfig.read_text())
    (user,) = config["users"]
    user["user"] = {"token": installed.sh("kubectl -n default create token watcher").strip()}
    file = installed.folder / "watcher.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    yield file
    installed.sh("kubectl -n default delete serviceaccount watcher; kubectl -n cleave-node delete rolebinding top --ignore-not-found")


def test_the_role_is_enough_and_nothing_less(pods, installed, watcher):
    node = pods.node("n2")
    top = f"kubectl cleave top --kubeconfig {watcher}"
    said = installed.sh(f"{top} 2>&1 || [ $? = 1 ]")
    assert said.startswith("Error from server (Forbidden): ") and "pods" in said, said
    installed.sh("kubectl -n cleave-node create rolebinding top --role=cleave-top --serviceaccount=default:watcher")
    wait_for(lambda: "Forbidden" not in installed.sh(f"{top} 2>&1 || [ $? = 1 ]"), 30, "the right to be known")

    worker = node.runner("worker", {GPU: "1"}, "sleep 3600")
    (uuid,) = held(node, worker)

    def users():
        """Of the worker's card."""
        nodes = {n["name"]: n for n in json.loads(installed.sh(f"{top} -o json"))["nodes"]}
        assert set(nodes) == {"n1", "n2", "n3"} and not any("error" in n for n in nodes.values()), nodes
        return [user["name"] for card in nodes["n2"]["cards"] if card["uuid"] == uuid for user in card["users"]]

    wait_for(lambda: users() == [worker], 60, lambda: f"{worker} on its card, not {users()}")
    text = installed.sh(f"{top} n2")
    assert f"    default/{worker} " in text, text
    assert "n1" not in text.split() and "n3" not in text.split(), text


def test_an_agent_that_is_gone_is_told(pods, installed, watcher):
    installed.sh("kubectl -n cleave-node create rolebinding top --role=cleave-top --serviceaccount=default:watcher")
    said = installed.sh(f"kubectl cleave top n7 --kubeconfig {watcher} 2>&1 || [ $? = 1 ]")
    assert said == "error: no agent runs as a pod on node n7 in the namespace cleave-node (-n names another)\n"
