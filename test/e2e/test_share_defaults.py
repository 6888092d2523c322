# SPDX-License-Identifier: Apache-2.0
"""What Kubernetes 1.36 and later add to pods of shares by the policy of config/scheduler-defaults, as HAMi's webhook does."""

import json

import pytest
from conftest import ROOT, wait_for
from stack import rig  # noqa: F401

DEFAULTS = ROOT / "config" / "scheduler-defaults"
PODS = "/api/v1/namespaces/default/pods"
SIZES = {"nvidia.com/gpumem": "3000"}

pytestmark = pytest.mark.new_kubernetes


@pytest.fixture
def make(rig):
    """Makes a pod, as the API server has it then; the policy is asked already."""
    kubectl = rig.cluster.kubectl
    version = json.loads(kubectl.out("version", "-o", "json"))["serverVersion"]
    if (int(version["major"]), int(version["minor"].rstrip("+"))) < (1, 36):
        pytest.skip("this Kubernetes has no MutatingAdmissionPolicy; make nightly runs it on one that has")
    kubectl("apply", "-k", DEFAULTS)

    def made(limits, labels=None, **spec):
        containers = [{"name": f"c{i}", "image": "none", "resources": {"limits": of}} for i, of in enumerate(limits)]
        body = {"metadata": {"generateName": "defaults-", "labels": labels or {}}, "spec": {"containers": containers, **spec}}
        pod = rig.api.create(PODS, body)
        rig.objects.append(f"{PODS}/{pod['metadata']['name']}")
        return pod

    wait_for(lambda: made([SIZES | {"nvidia.com/gpu": "1"}])["spec"]["schedulerName"] == "cleave-scheduler", 30, "the policy to be asked")
    yield made
    kubectl("delete", "-k", DEFAULTS)


def limits(pod):
    return [c["resources"].get("limits", {}) for c in pod["spec"]["containers"]]


def test_a_size_alone_is_one_share(make):
    pod = make([SIZES, {"nvidia.com/gpucores": "30"}, {"nvidia.com/gpu": "2", **SIZES}, {}])
    assert [of.get("nvidia.com/gpu") for of in limits(pod)] == ["1", "1", "2", None]
    assert [c["resources"].get("requests", {}).get("nvidia.com/gpu") for c in pod["spec"]["containers"]] == ["1", "1", "2", None]


def test_an_init_container_gets_its_share_too(make):
    init = {"name": "i", "image": "none", "resources": {"limits": SIZES}}
    pod = make([{}], initContainers=[init])
    assert pod["spec"]["initContainers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_pods_of_shares_go_to_the_scheduler_that_knows_cards_where_they_name_none(make):
    assert make([SIZES])["spec"]["schedulerName"] == "cleave-scheduler"
    assert make([SIZES], schedulerName="hami-scheduler")["spec"]["schedulerName"] == "hami-scheduler"
    assert make([{"nvidia.com/gpu": "1"}])["spec"]["schedulerName"] == "default-scheduler"
    assert make([SIZES | {"nvidia.com/gpu": "1"}], {"hami.io/webhook": "ignore"})["spec"]["schedulerName"] == "default-scheduler"
