# SPDX-License-Identifier: Apache-2.0
"""Which fields of an object can a token write? Every field that the API server's schema has is tried, one at a time and as a dry
run, which admission judges like any other request.

    walk = Walk(admin, thief, "/openapi/v3/api/v1", "io.k8s.api.core.v1.Node", "cleave-controller")
    walk.patch(path)                    # fields of the object there, by merge patches
    walk.update(path) / walk.create(path, base)

more: further values, as (what, path, value), shown as "field[what]". Each returns {field: outcome}:
    allowed    the request was taken, and the answer has the field changed
    ignored    the request was taken, and the field is as it was
    refused    403, 405 or 409
    invalid    the server's own validation refused every value that was tried
The last word is whom the thief says to be in metadata.managedFields. Fields are written "metadata.labels[pool]"; lists are tried as a whole, maps by the keys of MAPS and by one that is there.
"""

import copy

from stack import ApiError

DEPTH = 6
MERGE = "application/merge-patch+json"
# Keys to try in maps: those that the product writes, and some that it must not.
LABELS = {
    "pool": "stolen",
    "node-role.kubernetes.io/control-plane": "",
    "topology.kubernetes.io/zone": "stolen",
    "example.com.node-restriction.kubernetes.io/tenant": "stolen",
    "gpu.cleave.dev.node-restriction.kubernetes.io/slots": "true",
    "gpu.cleave.dev/slots": "true",
    "gpu.cleave.dev/X.count": "8",
    "gpu.cleave.dev/X.memory": "many",
    "nvidia.com/anything": "stolen",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.deploy.driver": "false",
    "nvidia.com/mig.config": "all-disabled",
    "nvidia.com/mig.config.state": "success",
    "nvidia.com/mig-1g.10gb.product": "X",
    "nvidia.com/mig-other.product": "X",
    "metax-tech.com/gpu.product": "X",
    "metax-tech.com/gpu.installed.by": "X",
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/pci-1002.present": "false",
    "feature.node.kubernetes.io/cpu-model": "stolen",
    "node.koordinator.sh/gpu-vendor": "x",
    "node.koordinator.sh/gpu-model": "x",
    "node.koordinator.sh/gpu-driver-version": "x",
}
ANNOTATIONS = {
    "example.com/note": "stolen",
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    "node.alpha.kubernetes.io/ttl": "1",
    "metax-tech.com/node-gpu-devices": "[]",
    "hami.io/mutex.lock": "2026-01-01T00:00:00Z,default,x",
    "hami.io/node-nvidia-register": "x",
}
RESOURCES = dict.fromkeys(
    (
        "cpu",
        "memory",
        "pods",
        "ephemeral-storage",
        "hugepages-2Mi",
        "attachable-volumes-csi-x",
        "example.com/x",
        "amd.com/gpu",
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.10gb",
        "metax-tech.com/sgpu",
        "koordinator.sh/gpu-core",
        "koordinator.sh/batch-cpu",
        "aliyun.com/gpu-mem",
        "aliyun.com/x",
    ),
    "2",
)
RESOURCES["hugepages-2Mi"] = "2Mi"
MAPS = {"metadata.labels": LABELS, "metadata.annotations": ANNOTATIONS, "status.capacity": RESOURCES, "status.allocatable": RESOURCES}
# Values by which the server's validation lets a request pass to admission.
VALUES = {
    "metadata.generation": [77],
    "deleteOptions.dryRun": [["All"]],
    "type": ["Warning"],
    "series.lastObservedTime": ["2026-01-02T00:00:00.000000Z"],
    "related": [{"kind": "Pod", "name": "x"}],
    "status.nodeInfo.swap": [{"capacity": 1}],
    "metadata.finalizers": [["example.com/stolen"]],
    "metadata.ownerReferences": [[{"apiVersion": "v1", "kind": "Node", "name": "stolen", "uid": "00000000-0000-0000-0000-000000000001"}]],
    "spec.taints": [[{"key": "example.com/stolen", "effect": "NoSchedule"}]],
    "spec.podCIDR": ["10.66.0.0/24"],
    "spec.podCIDRs": [["10.66.0.0/24"]],
    "status.addresses": [[{"type": "InternalIP", "address": "10.66.66.66"}]],
    "status.phase": ["Terminated"],
    "status.conditions": [
        [{"type": "Ready", "status": "False", "reason": "Stolen", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]
    ],
    "status.config.assigned": [{"configMap": {"namespace": "default", "name": "x", "uid": "u", "resourceVersion": "1", "kubeletConfigKey": "k"}}],
}
# What the server fills in.
SERVERS = {f"metadata.{f}" for f in ("uid", "creationTimestamp", "generation", "resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds")}
TEXTS = ("stolen", "2026-01-01T00:00:00.000000Z", "3")


def get(obj, path):
    for part in path:
        if not isinstance(obj, dict) or part not in obj:
            return None
        obj = obj[part]
    return obj


def put(obj, path, value):
    """A copy with the value there; None removes it."""
    obj = copy.deepcopy(obj)
    at = obj
    for part in path[:-1]:
        if not isinstance(at.get(part), dict):
            at[part] = {}
        at = at[part]
    if value is None:
        at.pop(path[-1], None)
    else:
        at[path[-1]] = value
    return obj


def nested(path, value):
    for part in reversed(path):
        value = {part: value}
    return value


def written(path):
    """("metadata", "labels", "a.b/c") is metadata.labels[a.b/c]."""
    if ".".join(path[:-1]) in MAPS:
        return f"{'.'.join(path[:-1])}[{path[-1]}]"
    return ".".join(path)


STRANGER = "somebody-else"


def disown(live):
    """managedFields by which somebody else applied a label, and would remove it with the next apply."""
    entry = {"manager": STRANGER, "operation": "Apply", "apiVersion": live["apiVersion"], "time": "2026-01-01T00:00:00Z"}
    entry.update({"fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {"f:pool": {}}}}})
    return [*live["metadata"].get("managedFields", []), entry]


class Walk:
    def __init__(self, admin, thief, document, kind, manager):
        self.admin, self.thief, self.query = admin, thief, f"?dryRun=All&fieldManager={manager}"
        self.schemas = admin.get(document)["components"]["schemas"]
        self.root = self.schemas[kind]

    # --- the schema ---

    def resolve(self, schema):
        while "$ref" in schema or "allOf" in schema:
            ref = schema.get("$ref") or schema["allOf"][0].get("$ref")
            if not ref:
                break
            schema = self.schemas[ref.rsplit("/", 1)[1]]
        return schema

    def leaves(self, schema=None, path=(), seen=()):
        """(path, schema) of each field that is no object with fields of its own."""
        schema = self.resolve(schema or self.root)
        for name, sub in schema.get("properties", {}).items():
            sub, at = self.resolve(sub), (*path, name)
            if at in (("apiVersion",), ("kind",), ("metadata", "resourceVersion")):
                continue
            if "properties" in sub and len(at) < DEPTH and id(sub) not in seen:
                yield from self.leaves(sub, at, (*seen, id(sub)))
            else:
                yield at, sub

    def sample(self, schema, depth=0):
        """Some value of this schema."""
        schema = self.resolve(schema)
        if "enum" in schema:
            return schema["enum"][0]
        kind = schema.get("type")
        if kind == "object" and "properties" in schema and depth < DEPTH:
            return {name: self.sample(sub, depth + 1) for name, sub in schema["properties"].items() if name in schema.get("required", ())}
        if kind == "object":
            return {"stolen": "x"}
        if kind == "array":
            return [self.sample(schema["items"], depth + 1)]
        if kind in ("integer", "number"):
            return max(1, schema.get("minimum", 1))
        return True if kind == "boolean" else "stolen"

    def values(self, path, schema, now):
        """What to try, that which is most likely valid first."""
        kind, known = schema.get("type"), VALUES.get(".".join(path))
        if known:
            yield from known
        elif "enum" in schema:
            yield from (v for v in schema["enum"] if v != now)
        elif kind == "boolean":
            yield not now
        elif kind in ("integer", "number"):
            yield (now or 0) + 1
        elif kind == "string":
            yield from (t for t in TEXTS if t != now)
        elif kind == "array":
            yield self.sample(schema)
            if now:
                yield []
        else:
            yield self.sample(schema)
        if now is not None:
            yield None

    def trials(self, live):
        """(field, path, values)"""
        for path, schema in self.leaves():
            if path == ("metadata", "managedFields"):
                yield path, [disown(live)]
                continue
            keys = MAPS.get(".".join(path))
            if not keys:
                yield path, list(self.values(path, schema, get(live, path)))
                continue
            there = get(live, path) or {}
            for key, value in keys.items():
                yield (*path, key), [value if there.get(key) != value else value + "0"]
            for key in there:
                if key not in keys:
                    yield (*path, key), [None]

    # --- the requests ---

    def has_no_right(self, live, send):
        """Does RBAC, which knows no fields, refuse it altogether? Sends what changes nothing."""
        self.taken = False
        try:
            send(("metadata", "name"), live["metadata"]["name"])
            self.taken = True
        except ApiError as error:
            return error.code == 403 and " cannot " in str(error)
        return False

    def judge(self, live, path, values, send):
        found = {"invalid"}
        for value in values:
            try:
                answer = send(path, value)
            except ApiError as error:
                # Kubernetes answers a Binding that is not valid with 500.
                invalid = error.code in (400, 422) or (error.code == 500 and " value: " in str(error))
                if not invalid and error.code not in (403, 405, 409):
                    raise
                found.add("invalid" if invalid else "refused")
                continue
            there, of_server = get(answer, path), ".".join(path) in SERVERS
            if path == ("metadata", "managedFields") and there is not None:  # our own entry may be new
                there = there if any(e.get("manager") == STRANGER for e in there) else get(live, path)
            if answer.get("kind") == "Status":  # says nothing of the object
                changed = value is not None and not of_server
            else:  # some of metadata the server makes itself, whatever is asked
                changed = there == value if of_server else there != get(live, path)
            if changed:
                return "allowed"
            found.add("ignored")
        return next(outcome for outcome in ("refused", "ignored", "invalid") if outcome in found)

    def walk(self, live, send, more):
        if self.has_no_right(live, send):
            return {}
        outcomes = {written(path): self.judge(live, path, values, send) for path, values in self.trials(live)}
        outcomes.update({f"{written(path)}[{text}]": self.judge(live, path, [value], send) for text, path, value in more})
        return outcomes

    def patch(self, path, subresource="", more=()):
        live = self.admin.get(path)
        there = f"{path}{subresource}{self.query}"
        return self.walk(live, lambda at, value: self.thief.request("PATCH", there, nested(at, value), MERGE), more)

    def update(self, path, subresource="", more=()):
        live = self.admin.get(path)
        there = f"{path}{subresource}{self.query}"
        return self.walk(live, lambda at, value: self.thief.request("PUT", there, put(live, at, value)), more)

    def create(self, path, base, more=()):
        """The base is taken as it is; each field besides."""
        there = f"{path}{self.query}"
        return self.walk(base, lambda at, value: self.thief.request("POST", there, put(base, at, value)), more)


def fields(outcomes, *kinds):
    """Those with one of these outcomes, sorted. Where that is every field of spec, of status, or of one below them, that one stands
    for its fields: "spec.devices.*"."""
    wanted = {f for f, o in outcomes.items() if o in kinds}
    for depth in (1, 2):
        groups = {}
        for field in outcomes:
            parts = field.split(".")
            if "[" not in field and not field.startswith("metadata") and len(parts) > depth:
                groups.setdefault(".".join(parts[:depth]), set()).add(field)
        for prefix, members in groups.items():
            if len(members) > 1 and members <= wanted:
                wanted = (wanted - members) | {f"{prefix}.*"}
    return sorted(wanted)
