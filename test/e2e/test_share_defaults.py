# SPDX-License-Identifier: Apache-2.0
"""What Kubernetes 1.36 and later add to pods of shares by the policy of config/scheduler-defaults, as HAMi's webhook does."""

import json

import pytest
from conftest import ROOT, wait_for
from share_defaults import CASES, OF_GPUSHARE, OF_KOORDINATOR, OURS, SLOT, check_cases, check_gpushare, check_koordinator
from stack import rig  # noqa: F401

FOLDERS = [ROOT / "config" / name for name in ("scheduler-defaults", "gpushare-defaults", "koordinator-defaults")]
PODS = "/api/v1/namespaces/default/pods"

pytestmark = pytest.mark.new_kubernetes


@pytest.fixture
def create(rig):
    """Makes a pod, as the API server has it then; the policy is asked already."""
    kubectl = rig.cluster.kubectl
    version = json.loads(kubectl.out("version", "-o", "json"))["serverVersion"]
    if (int(version["major"]), int(version["minor"].rstrip("+"))) < (1, 36):
        pytest.skip("this Kubernetes has no MutatingAdmissionPolicy; make nightly runs it on one that has")
    for folder in FOLDERS:
        kubectl("apply", "-k", folder)

    def made(body):
        pod = rig.api.create(PODS, body)
        rig.objects.append(f"{PODS}/{pod['metadata']['name']}")
        return pod

    counted = CASES["shares that are counted stay"][0]
    for pod in (counted, OF_GPUSHARE["its GiB are one share"][0]):
        wait_for(lambda p=pod: made(p)["spec"]["schedulerName"] == OURS, 30, "the policy to be asked")
    slotted = OF_KOORDINATOR["memory alone is one"][0]
    wait_for(lambda: SLOT in made(slotted)["spec"]["containers"][0]["resources"]["limits"], 30, "the policy of Koordinator's words to be asked")
    yield made
    for folder in FOLDERS:
        kubectl("delete", "-k", folder)


def test_pods_of_shares_get_what_they_do_not_say(create):
    check_cases(create)


def test_pods_of_gpushares_become_pods_of_shares(create):
    check_gpushare(create)


def test_pods_of_koordinators_get_their_slots(create):
    check_koordinator(create)
