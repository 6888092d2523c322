# SPDX-License-Identifier: Apache-2.0
"""Replicas of the controller of which one acts, and what the audit log says that each of them did."""

import base64
import json
import re

from conftest import wait_for

LEASE = "/apis/coordination.k8s.io/v1/namespaces/cleave-system/leases/cleave-controller"
# What operators run in the same proportion, in less time.
SHORT = {"leader_elect_lease_duration": "6s", "leader_elect_renew_deadline": "4s", "leader_elect_retry_period": "800ms"}


def name_of(identity):
    """Of a replica, by the name of its pod: "t7-one_1f" is "one"."""
    return re.sub(r"^t\d+-|_.*$", "", identity)


def holder(rig):
    return name_of((rig.api.find(LEASE) or {"spec": {}})["spec"].get("holderIdentity", ""))


def transitions(rig):
    return (rig.api.find(LEASE) or {"spec": {}})["spec"].get("leaseTransitions", 0)


def replicas(rig, *names, **flags):
    """Replicas with pods and tokens of their own, so that the audit log tells them apart. The first leads before the others start:
    whoever asks first for a free Lease has it."""
    made = [replica(rig, names[0], **flags)]
    wait_leads(rig, made[0])
    return [*made, *(replica(rig, name, **flags) for name in names[1:])]


def replica(rig, name, way=None, **flags):
    """One of them; way(kubeconfig) makes of its credentials those that it gets."""
    kubeconfig = rig.controller_kubeconfig(name)
    made = rig.controller(name, kubeconfig=way(kubeconfig) if way else kubeconfig, **flags)
    made.token_id = token_id(kubeconfig)
    return made


def wait_leads(rig, process, timeout=30):
    wait_for(lambda: holder(rig) == process.name, timeout, lambda: f"{process.name} to lead, not {holder(rig)}")


def token_id(kubeconfig):
    """What the audit log calls the kubeconfig's token."""
    token = json.loads(kubeconfig.read_text())["users"][0]["user"]["token"]
    body = token.split(".")[1]
    return "JTI=" + json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["jti"]


def is_by(event, process):
    return event["user"].get("extra", {}).get("authentication.kubernetes.io/credential-id") == [process.token_id]


def accepted(rig, process, mark):
    """What the API server took from this replica since the mark, its lease apart."""
    return [
        (e["verb"], e["objectRef"].get("resource"), e["objectRef"].get("name"))
        for e in rig.cluster.writes(mark, "cleave-controller")
        if is_by(e, process) and e["responseStatus"]["code"] < 300
    ]


def acted(rig, process, mark):
    """The same without Events: they tell what was done while it led, and may be sent late."""
    return [write for write in accepted(rig, process, mark) if write[1] != "events"]
