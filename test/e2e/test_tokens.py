# SPDX-License-Identifier: Apache-2.0
"""Stolen tokens, whole: all that the tokens of cleave-agent and cleave-controller may do, enumerated on a real API server with the
rights and policies of config/ in force, and compared with the written lists in test/golden/tokens. What is not on a list is refused.

    rights.yaml   verbs by resource and subresource, of everything that the cluster serves
    fields.yaml   fields of the objects that a token may write, each of which was tried (field_walk.py)

GOLDEN_REWRITE=1 writes the lists anew.
"""

import copy
import itertools
import os

import pytest
import yaml
from conftest import ROOT, wait_for
from field_walk import Walk, fields
from stack import GROUP, RESTRICTED, Api, ApiError, rig  # noqa: F401
from koordinator_kind import DEVICES as KOORDINATOR_DEVICES
from koordinator_kind import install as install_koordinator
from koordinator_kind import uninstall as uninstall_koordinator

GOLDEN = ROOT / "test" / "golden" / "tokens"
# Verbs that stand for no request, by which one account takes another's rights.
SPECIAL = (
    ("impersonate", "", "users"),
    ("impersonate", "", "groups"),
    ("impersonate", "", "serviceaccounts"),
    ("bind", "rbac.authorization.k8s.io", "clusterroles"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
    ("approve", "certificates.k8s.io", "signers"),
    ("sign", "certificates.k8s.io", "signers"),
    ("attest", "certificates.k8s.io", "signers"),
    ("use", "policy", "podsecuritypolicies"),
    ("proxy", "", "nodes"),
)
NAMESPACES = ("", "default", "kube-system", "cleave-system", "cleave-node")
AGENTS = ("cleave-agent", "cleave-agent-slots")
OF_SYSTEM = ("cleave-scheduler", "cleave-webhook-certificate")
ACCOUNTS = (*AGENTS, "cleave-controller", *OF_SYSTEM)
REVIEWS = "/apis/authorization.k8s.io/v1"
NODE, POD = "io.k8s.api.core.v1.Node", "io.k8s.api.core.v1.Pod"
ADMISSION = "/openapi/v3/apis/admissionregistration.k8s.io/v1"
CORE, EVENTS, LEASES = "/openapi/v3/api/v1", "/openapi/v3/apis/events.k8s.io/v1", "/openapi/v3/apis/coordination.k8s.io/v1"
OURS, KOORDINATORS = "/openapi/v3/apis/gpu.cleave.dev/v1alpha1", "/openapi/v3/apis/scheduling.koordinator.sh/v1alpha1"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/cleave-system/leases"


class Thief:
    """Tokens as one node or one replica has them, and the API server with each of them."""

    def __init__(self, rig):
        install_koordinator(rig)
        self.rig, self.node, self.other = rig, rig.node(), rig.node(start=False)
        self.node.agent.stop()
        for node in (self.node, self.other):  # the controller manager writes a new Node twice
            wait_for(lambda n=node: is_left_alone(n.node_object()), 30, lambda n=node: f"the last write of others: {n.node_object()}")
        controller = [rig.controller_pod(name) for name in ("leader", "follower")]
        agents = {a: rig.pod(f"{rig.id}-{a}", self.node.name, namespace="cleave-node", account=a) for a in AGENTS}
        bare = rig.pod(f"{rig.id}-bare", self.other.name, namespace="cleave-node", account="cleave-agent")
        tokens = {
            **{f"{account}, own node": rig.token(account, pod) for account, pod in agents.items()},
            "cleave-agent, node without a Device": rig.token("cleave-agent", bare),
            "cleave-agent, bound to no pod": rig.token("cleave-agent"),
            "cleave-controller, leader": rig.token("cleave-controller", controller[0]),
            "cleave-controller, follower": rig.token("cleave-controller", controller[1]),
            "cleave-controller, bound to no pod": rig.token("cleave-controller"),
            **{f"{account}, a replica": self.of_system(account) for account in OF_SYSTEM},
        }
        self.apis = {name: Api(rig.cluster, token) for name, token in tokens.items()}
        rig.give_lease("leader")
        self.wait_in_force()

    def of_system(self, account):
        name = f"{self.rig.id}-{account}"
        return self.rig.token(account, self.rig.pod(name, None, namespace="cleave-system", account=account, schedulerName="none", **RESTRICTED))

    def wait_in_force(self):
        """Policies take effect when the API server's informers have seen them."""
        path = f"{GROUP}/devices/{self.node.name}?dryRun=All&fieldManager=cleave-controller"
        for who, code in (("leader", 200), ("follower", 403), ("bound to no pod", 403)):
            wait_for(lambda w=who, c=code: status(self.apis[f"cleave-controller, {w}"], "PATCH", path, {"spec": {}}) == c, 30, f"{who} to get {code}")
        path = f"{GROUP}/devices/{self.node.name}/status?dryRun=All"
        own = self.rig.api.get(f"{GROUP}/devices/{self.node.name}")
        wait_for(lambda: status(self.apis["cleave-agent, bound to no pod"], "PUT", path, own) == 403, 30, "the agents' policy to be in force")

    def close(self):
        for api in self.apis.values():
            api.close()
        uninstall_koordinator(self.rig)


def is_left_alone(node):
    return not node["spec"].get("taints") and "node.alpha.kubernetes.io/ttl" in node["metadata"].get("annotations", {})


def status(api, method, path, body):
    try:
        api.request(method, path, body, "application/merge-patch+json" if method == "PATCH" else "application/json")
        return 200
    except ApiError as error:
        return error.code


@pytest.fixture
def thief(rig):
    made = Thief(rig)
    yield made
    made.close()


def compare(name, found):
    """Prints what was found, and holds it against the written list."""
    text = yaml.safe_dump(found, sort_keys=False, width=1000)
    print(f"\n--- test/golden/tokens/{name} ---\n{text}")
    path = GOLDEN / name
    if os.environ.get("GOLDEN_REWRITE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEADS[name] + text)
    assert found == yaml.safe_load(path.read_text())


HEADS = {
    "rights.yaml": """# SPDX-License-Identifier: Apache-2.0
# All that RBAC lets the accounts of Cleave ask for, of everything that a cluster with Koordinator's Device serves; "in" names the
# namespaces that were tried where it is not all of them. What every authenticated account may do (asking for its own rights) is
# "everyone". test/e2e/test_tokens.py compares.
""",
    "fields.yaml": """# SPDX-License-Identifier: Apache-2.0
# All fields that a token can write of the objects that RBAC lets it write, with the policies of config/ in force: every field of the
# schema was tried. Of everything else, and with every token that is not here, the API server refuses the request or ignores the
# field. test/e2e/test_tokens.py compares. metadata.managedFields stands where somebody else may be made the owner of fields: of
# Leases and Events alone, which nobody applies, of the Secret and the configuration that their keeper has for itself, and of an
# eviction and a Binding, which are not kept. Not tried is what Kubernetes' own roles let any kube-scheduler write: volumes, claims, Events.
""",
}


# --- verbs, resources and subresources ---


def served(api):
    """{(group, resource with subresource): (verbs, whether it is namespaced)} of everything that the cluster serves, in any version."""
    documents = [("", "/api/v1")]
    for group in api.get("/apis")["groups"]:
        documents += [(group["name"], f"/apis/{v['groupVersion']}") for v in group["versions"]]
    found = {}
    for group, path in documents:
        for resource in api.get(path)["resources"]:
            verbs, _ = found.setdefault((group, resource["name"]), (set(), resource["namespaced"]))
            verbs.update(resource["verbs"])
    return found


def may(api, verb, group, resource, namespace):
    name, _, subresource = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": name, "subresource": subresource, "namespace": namespace}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
    return api.create(f"{REVIEWS}/selfsubjectaccessreviews", review)["status"].get("allowed", False)


def named(group, resource, names=()):
    return " ".join(filter(None, (group, resource, *(names and [f"({', '.join(names)})"]))))


def asked_rights(api, everything):
    """{"group resource": [verbs]} by a question for each verb that a resource or subresource has, in each namespace where it has one. A
    right to what nobody serves is not found so, and stands on no list."""
    rights = {}
    questions = [(verb, *what, namespaced) for what, (verbs, namespaced) in everything.items() for verb in sorted(verbs)]
    questions += [(*special, True) for special in SPECIAL]
    for verb, group, resource, namespaced in questions:
        where = [ns for ns in (NAMESPACES if namespaced else ("",)) if may(api, verb, group, resource, ns)]
        if where:
            text = verb if "" in where else f"{verb} in {', '.join(where)}"
            rights.setdefault(named(group, resource), []).append(text)
    return {what: sorted(verbs) for what, verbs in rights.items()}


def of_what_is_served(rights, everything):
    """Kubernetes' own roles have rights to resources, and to verbs of them, that no API server has any more."""
    has = {named(*what): verbs for what, (verbs, _) in everything.items()}
    for verb, *what in SPECIAL:
        has.setdefault(named(*what), set()).add(verb)
    found = {what: [verb for verb in verbs if verb.split()[0] in has.get(what, ())] for what, verbs in rights.items()}
    return {what: verbs for what, verbs in found.items() if verbs}


def ruled_rights(api):
    """What the API server lists of its own accord: rules with names, and paths that are no resources, show here alone."""
    rights, paths = {}, set()
    for namespace in NAMESPACES[1:]:
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
        status = api.create(f"{REVIEWS}/selfsubjectrulesreviews", review)["status"]
        assert not status["incomplete"], status
        for rule in status["resourceRules"]:
            for group, resource in itertools.product(rule["apiGroups"], rule["resources"]):
                for verb in rule["verbs"]:
                    rights.setdefault(named(group, resource, rule.get("resourceNames", ())), {}).setdefault(verb, set()).add(namespace)
        for rule in status["nonResourceRules"]:
            paths.update(itertools.product(rule["verbs"], rule["nonResourceURLs"]))
    everywhere = set(NAMESPACES[1:])
    listed = {what: sorted(v if ns == everywhere else f"{v} in {', '.join(sorted(ns))}" for v, ns in verbs.items()) for what, verbs in rights.items()}
    return listed, sorted(f"{verb} {path}" for verb, path in paths)


@pytest.mark.long
def test_all_that_rbac_lets_the_accounts_ask_for(rig, thief):
    everything = served(rig.api)
    assert {("", "nodes"), ("", "nodes/status"), ("", "pods/eviction"), ("", "secrets"), ("gpu.cleave.dev", "devices/status")} <= set(everything)
    assert {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} == everything["", "secrets"][0]
    apis = {a: next(api for name, api in thief.apis.items() if name.startswith(f"{a},")) for a in ACCOUNTS}
    asked = {account: asked_rights(api, everything) for account, api in apis.items()}
    ruled = {account: ruled_rights(api) for account, api in apis.items()}
    rights = {}
    for account in ACCOUNTS:
        unnamed = {what: verbs for what, verbs in ruled[account][0].items() if not what.endswith(")")}
        assert asked[account] == of_what_is_served(unnamed, everything), "the API server answers otherwise than it lists"
        assert not any("*" in word for what, verbs in unnamed.items() for word in (what, *verbs))
        rights[account] = ruled[account][0]
    everyone = {w: v for w, v in rights["cleave-agent"].items() if all(r.get(w) == v for r in rights.values()) and w.startswith("auth")}
    assert len({tuple(paths) for _, paths in ruled.values()}) == 1
    found = {"everyone": dict(sorted(everyone.items())), "everyone, paths": ruled["cleave-agent"][1]}
    found.update({a: dict(sorted((w, v) for w, v in rights[a].items() if w not in everyone)) for a in ACCOUNTS})
    compare("rights.yaml", found)


def test_reading_what_is_not_on_the_list_is_refused(rig, thief):
    """The answers to the questions are held against requests: each resource is listed for real with each token."""
    listed = yaml.safe_load((GOLDEN / "rights.yaml").read_text())
    for name, api in thief.apis.items():
        allowed = listed[name.split(",")[0]]
        for (group, resource), (verbs, _) in served(rig.api).items():
            if "list" not in verbs:
                continue
            version = next(g["preferredVersion"]["groupVersion"] for g in rig.api.get("/apis")["groups"] if g["name"] == group) if group else None
            code = status(api, "GET", f"/{f'apis/{version}' if group else 'api/v1'}/{resource}?limit=1", None)
            expected = (200, 404) if "list" in allowed.get(named(group, resource), ()) else (403, 404)
            assert code in expected, (name, group, resource, code)


# --- fields ---


def event_about(kind, name, controller, title="x"):
    version = "v1" if kind in ("Node", "Pod") else "gpu.cleave.dev/v1alpha1"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": title, "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "action": "X",
        "reason": "X",
        "type": "Normal",
        "reportingController": f"gpu.cleave.dev/{controller}",
        "reportingInstance": "x",
        "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"},
        "regarding": {"apiVersion": version, "kind": kind, "name": name, **({"namespace": "default"} if kind == "Pod" else {})},
    }


def device(name):
    return {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "Device", "metadata": {"name": name}}


def koordinators(name):
    return {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": {"name": name}, "spec": {"devices": []}}


class Fields:
    """Outcomes of all fields for one token, by what was asked for."""

    def __init__(self, thief, name):
        self.api, self.admin, self.rig = thief.apis[name], thief.rig.api, thief.rig
        self.manager = name.split(",")[0]
        self.found, self.invalid = {}, {}

    def walk(self, title, document, kind, method, *args):
        suffix = "-koordinator" if "Koordinator" in title else "-serving" if title == "patch Device/status" else ""
        manager = f"{self.manager}{suffix}"
        walk = Walk(self.admin, self.api, document, kind, manager)
        try:
            outcomes = getattr(walk, method)(*args)
        except ApiError as error:
            assert error.code in (403, 404, 405), (title, str(error))
            return
        allowed = fields(outcomes, "allowed")
        if allowed or walk.taken:
            self.found[title] = allowed
        self.invalid[title] = fields(outcomes, "invalid")

    def made(self, path, obj):
        """An object that somebody else made; returns its path."""
        where = f"{path}/{obj['metadata']['name']}"
        if not self.admin.find(where):
            self.admin.create(path, obj)
            self.rig.objects.append(where)
        return where


def walk_all(thief, name):
    rig, node, other = thief.rig, thief.node, thief.other
    who = "agent" if "agent" in name else "controller"
    found = Fields(thief, name)
    nodes, devices = "/api/v1/nodes", f"{GROUP}/devices"
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = found.made(events, event_about("Node", node.name, who, f"{rig.id}-{who}"))
    pod = "/api/v1/namespaces/default/pods"
    pod = found.made(pod, {"metadata": {"name": f"{rig.id}-victim"}, "spec": {"nodeName": node.name, "containers": [{"name": "main", "image": "x"}]}})
    uid = rig.api.get(pod)["metadata"]["uid"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": f"{rig.id}-victim", "namespace": "default"}, "deleteOptions": {"preconditions": {"uid": uid}}}
    pod_name = f"{rig.id}-{name.rsplit(' ', 1)[1]}"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "cleave-controller", "namespace": "cleave-system"}}
    lease["spec"] = {"holderIdentity": f"{pod_name}_x", "leaseDurationSeconds": 15}
    own = ("of its own pod", ("spec", "holderIdentity"), f"{pod_name}_x")
    long = ("hours", ("spec", "leaseDurationSeconds"), 36000)

    taint = {"key": "gpu.cleave.dev/unhealthy", "value": "true", "effect": "NoSchedule"}
    taints = [("gpu.cleave.dev/unhealthy", ("spec", "taints"), [taint]), ("gpu.cleave.dev/unhealthy, NoExecute", ("spec", "taints"), [{**taint, "effect": "NoExecute"}])]
    locked = rig.api.merge(f"{nodes}/{node.name}", {"metadata": {"annotations": {"hami.io/mutex.lock": "x"}}})
    unlock = [("removed", ("metadata", "annotations", "hami.io/mutex.lock"), None)]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": locked["metadata"]["uid"]}
    owners = [("its Node", ("metadata", "ownerReferences"), [owner]), ("its Node, blocked", ("metadata", "ownerReferences"), [{**owner, "blockOwnerDeletion": True}])]
    source = [("whole", ("spec", "source"), {"kind": "GPUProfile", "name": "stolen", "generation": 1})]
    refused = [("whole", ("spec", "refusedLabel"), {"value": "stolen", "reason": "Stolen", "message": "stolen"})]
    nodes_of = [("whole", ("status", "nodes"), {"matched": 1, "upToDate": 1, "progressing": 0, "failed": 0})]
    used_by = [("whole", ("status", "usedBy"), {"gpuProfiles": 1, "nodes": 1})]
    cpu = [("cpu", ("status", "resources"), [{"name": "cpu", "count": 1, "publisher": "controller"}])]

    found.walk("patch Node", CORE, NODE, "patch", f"{nodes}/{node.name}", "", taints)
    found.walk("patch Node/status", CORE, NODE, "patch", f"{nodes}/{node.name}", "/status", unlock)
    found.walk("create Device", OURS, "dev.cleave.gpu.v1alpha1.Device", "create", devices, device(other.name))
    found.walk("patch Device", OURS, "dev.cleave.gpu.v1alpha1.Device", "patch", f"{devices}/{node.name}", "", owners + source + refused)
    found.walk("update Device/status", OURS, "dev.cleave.gpu.v1alpha1.Device", "update", f"{devices}/{node.name}", "/status", cpu)
    conditions = rig.api.get(f"{devices}/{node.name}")["status"]["conditions"]
    gone = [{**c, "status": "Unknown", "reason": "AgentNotServing"} if c["type"] == "Ready" else c for c in conditions]
    lies = [
        ("Ready to AgentNotServing", ("status", "conditions"), gone),
        ("Ready to True", ("status", "conditions"), [{**c, "status": "True"} if c["type"] == "Ready" else c for c in gone]),
        ("Ready alone", ("status", "conditions"), [c for c in gone if c["type"] == "Ready"] if len(gone) > 1 else []),
        ("another", ("status", "conditions"), [*gone, {**gone[0], "type": "Applied"}]),
    ]
    found.walk("patch Device/status", OURS, "dev.cleave.gpu.v1alpha1.Device", "patch", f"{devices}/{node.name}", "/status", lies)
    found.walk("update another node's Device/status", OURS, "dev.cleave.gpu.v1alpha1.Device", "update", f"{devices}/{thief.third}", "/status")
    for plural, kind in (("gpuprofiles", "GPUProfile"), ("migconfigs", "MIGConfig")):
        made = rig.profile("p", {"mode": "native"}) if kind == "GPUProfile" else rig.config(f"{rig.id}-c", {"migEnabled": False})
        found.walk(f"patch {kind}", OURS, f"dev.cleave.gpu.v1alpha1.{kind}", "patch", made)
        found.walk(f"patch {kind}/status", OURS, f"dev.cleave.gpu.v1alpha1.{kind}", "patch", made, "/status", nodes_of if kind == "GPUProfile" else used_by)
    found.walk("create Event", EVENTS, "io.k8s.api.events.v1.Event", "create", events, event_about("Node", node.name, who))
    found.walk("patch Event", EVENTS, "io.k8s.api.events.v1.Event", "patch", event)
    found.walk("update Lease", LEASES, "io.k8s.api.coordination.v1.Lease", "update", f"{LEASE}/cleave-controller", "", [own, long])
    leader = f"{GROUP}/leaders"
    named = ("of its own pod", ("spec", "holder"), f"{pod_name}_x")
    found.walk("patch Leader", OURS, "dev.cleave.gpu.v1alpha1.Leader", "patch", f"{leader}/cleave-controller", "", [named])
    found.walk("create Pod/eviction", "/openapi/v3/api/v1", "io.k8s.api.policy.v1.Eviction", "create", f"{pod}/eviction", eviction)
    found.walk("create Koordinator's Device", KOORDINATORS, "sh.koordinator.scheduling.v1alpha1.Device", "create", KOORDINATOR_DEVICES, koordinators(other.name))
    koordinators_own = found.made(KOORDINATOR_DEVICES, koordinators(node.name))
    found.walk("patch Koordinator's Device", KOORDINATORS, "sh.koordinator.scheduling.v1alpha1.Device", "patch", koordinators_own)
    found.walk("patch Pod", CORE, POD, "patch", pod)
    found.walk("patch Pod/status", CORE, POD, "patch", pod, "/status")
    rig.api.delete(f"{LEASE}/cleave-controller")  # last: nobody leads now
    found.walk("create Lease", LEASES, "io.k8s.api.coordination.v1.Lease", "create", LEASE, lease)
    rig.give_lease("leader")
    thief.wait_in_force()
    return found


def walk_scheduler(thief, name):
    rig, node = thief.rig, thief.node
    found = Fields(thief, name)
    pods = "/api/v1/namespaces/default/pods"
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "x"}]}
    waits = found.made(pods, {"metadata": {"name": f"{rig.id}-waits"}, "spec": spec})
    runs = found.made(pods, {"metadata": {"name": f"{rig.id}-runs"}, "spec": {**spec, "nodeName": node.name}})
    note = [("the program's", ("metadata", "annotations", key), "{}") for key in ("gpu.cleave.dev/allocation", "hami.io/vgpu-devices-allocated", "scheduler.framework.gpushare.allocation", "a")]
    room = [("the program's", ("metadata", "annotations", "gpu.cleave.dev/room"), "7")]
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": f"{rig.id}-waits", "namespace": "default"}, "target": {"apiVersion": "v1", "kind": "Node", "name": node.name}}
    lease = {"metadata": {"name": "cleave-scheduler", "namespace": "cleave-system"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15}}
    found.walk("patch Node", CORE, NODE, "patch", f"/api/v1/nodes/{node.name}", "", room)
    found.walk("create Pod/binding", CORE, "io.k8s.api.core.v1.Binding", "create", f"{waits}/binding", binding, note)
    found.walk("patch Pod/status", CORE, POD, "patch", waits, "/status", note)
    found.walk("patch running Pod/status", CORE, POD, "patch", runs, "/status", note)
    leases = found.made(LEASE, lease)
    found.walk("update Lease", LEASES, "io.k8s.api.coordination.v1.Lease", "update", leases)
    return found


def walk_keeper(thief, name):
    found = Fields(thief, name)
    secret = {"metadata": {"name": "cleave-webhook-certificate", "namespace": "cleave-system"}, "type": "Opaque"}
    hook = yaml.safe_load((ROOT / "config" / "scheduler-webhook" / "webhook.yaml").read_text())
    secrets = found.made("/api/v1/namespaces/cleave-system/secrets", secret)
    hooks = found.made("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", hook)
    found.walk("update Secret", CORE, "io.k8s.api.core.v1.Secret", "update", secrets)
    found.walk("update MutatingWebhookConfiguration", ADMISSION, "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration", "update", hooks)
    return found


WALKS = {"cleave-scheduler": walk_scheduler, "cleave-webhook-certificate": walk_keeper}


@pytest.mark.long
def test_all_fields_that_a_token_can_write(rig, thief):
    thief.third = f"{rig.id}-third"
    rig.api.create(f"{GROUP}/devices", device(thief.third))
    rig.objects.append(f"{GROUP}/devices/{thief.third}")
    results = {name: WALKS.get(name.split(",")[0], walk_all)(thief, name) for name in thief.apis}
    for name, result in results.items():
        print(f"{name}: not valid, whatever was tried: {({t: f for t, f in result.invalid.items() if f})}")
    compare("fields.yaml", {name: result.found for name, result in results.items()})


# --- whose fields they are ---


def label_entry(entries, manager):
    """The fields of metadata.labels in somebody's entry of managedFields."""
    entry = next(e for e in entries if e["manager"] == manager)
    return entry["fieldsV1"].setdefault("f:metadata", {}).setdefault("f:labels", {})


def given(entries):
    label_entry(entries, "applier")["f:pool"] = {}
    return entries


def moved(entries):
    label_entry(entries, "administrator").pop("f:pool")
    return given(entries)


def made_up(entries):
    forged = {"manager": "applier", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {"f:pool": {}}}}}
    return [e for e in entries if e["manager"] != "applier"] + [{**next(e for e in entries if e["manager"] == "applier"), **forged}]


def by_update(entries):
    """Tools that turn to server-side apply take over what an update of theirs owned."""
    label_entry(entries, "kubectl-client-side-apply")["f:pool"] = {}
    return entries


def shared(rig, path, head):
    """An object with labels of an administrator, of one who applies and of one who updates; returns what is applied."""
    for manager, label in (("administrator", "pool"), ("kubectl-client-side-apply", "tier")):
        config = {**head, "metadata": {"name": path.rsplit("/", 1)[1], "labels": {"team": "x"}}}
        rig.api.apply(path, config, "applier")  # first: before that the API server of a bare object keeps no book
        rig.api.request("PATCH", f"{path}?fieldManager={manager}", {"metadata": {"labels": {label: "a"}}}, "application/merge-patch+json")
    return config


FORGERIES = (given, moved, made_up, by_update)


def test_no_token_makes_others_remove_what_they_never_owned(rig, thief):
    """By an entry of managedFields that says so, their next server-side apply would."""
    leader, node = thief.apis["cleave-controller, leader"], thief.node.name
    rig.api.create(KOORDINATOR_DEVICES, koordinators(node))
    for path, head in (
        (f"/api/v1/nodes/{node}", {"apiVersion": "v1", "kind": "Node"}),
        (f"{GROUP}/devices/{node}", {"apiVersion": "gpu.cleave.dev/v1alpha1", "kind": "Device"}),
        (f"{KOORDINATOR_DEVICES}/{node}", {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device"}),
    ):
        config = shared(rig, path, head)
        own = "cleave-controller-koordinator" if "koordinator" in path else "cleave-controller"
        for forge, manager, subresource in itertools.product(FORGERIES, (own, "applier"), ("", "/status")):
            before = rig.api.get(path)["metadata"]["managedFields"]
            forged = {"metadata": {"managedFields": forge(copy.deepcopy(before))}}
            try:
                leader.request("PATCH", f"{path}{subresource}?fieldManager={manager}", forged, "application/merge-patch+json")
                code = 200
            except ApiError as error:
                code = error.code
            print(f"{head['apiVersion']} {head['kind']}{subresource}, {forge.__name__}, as {manager}: {code}")
            assert code in (403, 404) or subresource, (path, forge.__name__, manager)
            assert rig.api.get(path)["metadata"]["managedFields"] == before
        rig.api.apply(path, config, "applier")
        assert rig.api.get(path)["metadata"]["labels"]["pool"] == "a", path


def test_those_who_apply_a_nodes_labels_stay_their_owners(rig, thief):
    """Else what they take out of their configuration would stay."""
    leader, path = thief.apis["cleave-controller, leader"], f"/api/v1/nodes/{thief.node.name}"
    shared(rig, path, {"apiVersion": "v1", "kind": "Node"})
    before = rig.api.get(path)["metadata"]["managedFields"]
    for entries in ([{}], [e for e in before if e["manager"] != "applier"]):
        assert status(leader, "PATCH", f"{path}?fieldManager=cleave-controller", {"metadata": {"managedFields": entries}}) == 403
    assert rig.api.get(path)["metadata"]["managedFields"] == before


def updaters(rig, path):
    return [e["manager"] for e in rig.api.get(path)["metadata"]["managedFields"] if e["operation"] == "Update"]


def test_the_taint_is_written_whoever_owned_the_taints(rig, thief):
    """Somebody who applies a Node's taints, and more who update the Node than the API server keeps apart."""
    leader, path = thief.apis["cleave-controller, leader"], f"/api/v1/nodes/{thief.node.name}"
    mine = {"key": "example.com/mine", "effect": "NoSchedule"}
    wait_for(lambda: not rig.api.get(path)["spec"].get("taints"), 30, "the taints of a new Node to go")
    rig.api.apply(path, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": thief.node.name, "labels": {"team": "x"}}, "spec": {"taints": [mine]}}, "applier")
    for i in range(10 - len(updaters(rig, path))):
        rig.api.request("PATCH", f"{path}?fieldManager=manager-{i}", {"metadata": {"labels": {f"label-{i}": "a"}}}, "application/merge-patch+json")
    assert len(updaters(rig, path)) == 10 and "ancient-changes" not in updaters(rig, path)
    taint = {"key": "gpu.cleave.dev/unhealthy", "value": "true", "effect": "NoSchedule"}
    leader.merge(f"{path}?fieldManager=cleave-controller", {"spec": {"taints": [mine, taint]}})
    live = rig.api.get(path)
    assert [t["key"] for t in live["spec"]["taints"]] == [mine["key"], taint["key"]]
    assert "ancient-changes" in updaters(rig, path)
    assert "f:spec" not in next(e["fieldsV1"] for e in live["metadata"]["managedFields"] if e["manager"] == "applier")


# --- what a pod says of itself ---

PODS = "/api/v1/namespaces/default/pods"
SCHEDULERS = ("metax-tech.com/gpu-devices-allocated", "scheduling.koordinator.sh/device-allocated")


def bare_pod(name, annotations=None, **spec):
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": {"schedulerName": "none", "containers": [{"name": "main", "image": "x"}], **spec}}


def ways(rig, api, name, annotations):
    """Each way on which annotations may reach a pod that is there: what it is called, and a call that tries it."""
    path, body = f"{PODS}/{name}", {"metadata": {"annotations": annotations}}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": annotations}, "target": {"kind": "Node", "name": f"{rig.id}-n0"}}
    yield "update", lambda: api.merge(path, body)
    for subresource in ("status", "ephemeralcontainers", "resize"):
        yield subresource, lambda s=subresource: api.merge(f"{path}/{s}", body)
    yield "binding", lambda: api.create(f"{path}/binding", binding)
    yield "bindings", lambda: api.create("/api/v1/namespaces/default/bindings", binding)


def carried(rig, name, key):
    return rig.api.get(f"{PODS}/{name}")["metadata"].get("annotations", {}).get(key)


@pytest.mark.parametrize("key", SCHEDULERS)
def test_a_pods_author_writes_nothing_that_slices_are_made_by(rig, key):
    rig.add_node_object(f"{rig.id}-n0")
    rig.objects.append(f"/api/v1/nodes/{rig.id}-n0")
    wait_for(lambda: status(rig.api, "POST", f"{PODS}?dryRun=All", bare_pod("x", {key: "[]"})) == 403, 30, "the policy to be in force")
    stranger = Api(rig.cluster, user="system:serviceaccount:default:some-scheduler")
    for i, (way, _) in enumerate(ways(rig, rig.api, "x", {})):
        name = f"{rig.id}-p{i}"
        rig.api.create(PODS, bare_pod(name))
        rig.objects.append(f"{PODS}/{name}")
        for api in (rig.api, stranger):
            code = called(dict(ways(rig, api, name, {key: "stolen"}))[way])
            print(f"{key} by {way}: {code}")
            assert carried(rig, name, key) is None, way
            assert code in (403, 404) or way in ("ephemeralcontainers", "resize"), (way, code)  # these two keep annotations as they are
    stranger.close()


@pytest.fixture
def pod_makers_role(rig):
    """What whoever makes a namespace may give to an account in it."""
    role, binding = f"{rig.id}-pods", f"{rig.id}-account"
    base = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/binding"], "verbs": ["create", "patch"]}]
    rig.api.create(f"{base}/roles", {"metadata": {"name": role}, "rules": rules})
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccount:hami-system:hami-scheduler"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}
    rig.api.create(f"{base}/rolebindings", {"metadata": {"name": binding}, "roleRef": ref, "subjects": [subject]})
    yield
    rig.api.delete(f"{base}/rolebindings/{binding}")
    rig.api.delete(f"{base}/roles/{role}")


def test_an_account_of_a_schedulers_name_is_no_scheduler(rig, pod_makers_role):
    """Where HAMi is not installed, its namespace can be made by others."""
    alike = Api(rig.cluster, user="system:serviceaccount:hami-system:hami-scheduler", group="system:authenticated")
    wait_for(lambda: status(alike, "POST", f"{PODS}?dryRun=All", bare_pod("x")) == 200, 30, "the role to be in force")
    assert status(alike, "POST", f"{PODS}?dryRun=All", bare_pod("x", {SCHEDULERS[0]: "[]"})) == 403
    real = Api(rig.cluster, user="system:serviceaccount:hami-system:hami-scheduler")
    assert status(real, "POST", f"{PODS}?dryRun=All", bare_pod("x", {SCHEDULERS[0]: "[]"})) == 200
    alike.close()
    real.close()


def called(way):
    try:
        way()
        return 200
    except ApiError as error:
        return error.code


@pytest.mark.parametrize("key", SCHEDULERS)
@pytest.mark.parametrize("way", ["update", "status", "binding", "bindings"])
def test_a_scheduler_writes_it_and_nobody_else_changes_it(rig, way, key):
    rig.add_node_object(f"{rig.id}-n0")
    rig.objects.append(f"/api/v1/nodes/{rig.id}-n0")
    name = f"{rig.id}-p"
    rig.api.create(PODS, bare_pod(name, tolerations=[{"operator": "Exists"}]))
    rig.objects.append(f"{PODS}/{name}")
    dict(ways(rig, rig.scheduler, name, {key: "mine"}))[way]()
    assert carried(rig, name, key) == "mine"
    for value in ("stolen", None):
        assert status(rig.api, "PATCH", f"{PODS}/{name}", {"metadata": {"annotations": {key: value}}}) == 403
        assert status(rig.api, "PATCH", f"{PODS}/{name}/status", {"metadata": {"annotations": {key: value}}}) == 403
    assert status(rig.api, "PATCH", f"{PODS}/{name}", {"metadata": {"labels": {"still": "mine"}}}) == 200
    assert carried(rig, name, key) == "mine"
