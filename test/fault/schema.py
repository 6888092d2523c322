# SPDX-License-Identifier: Apache-2.0
"""The properties of a resource and values for each, made from the schema of its CRD.

By hand there is only what a schema cannot know: texts that mean something to us (WORDS), and objects that are valid as
a whole, from which one property at a time departs (walk.py).
"""

import copy
import re

import yaml
from conftest import ROOT

# Stand for what a run makes up; walk.py puts the run's own in their place.
LANE, UUID, BUS = "thelane", "GPU-thefirstcard", "FFFF:00:00.0"
WORDS = [
    LANE, "test", "no-such", "A_b.c", UUID, "GPU-00000000-0000-0000-0000-000000000000", BUS, "00000000:FF:1F.7",
    "0x233010DE", "0xFFFFFFFF:0xFFFFFFFF", "1g.10gb", "3g.40gb", "1c.3g.40gb", "1g.10gb+me", "9g.999gb", "1g.0gb",
    "NVIDIA H100*", "*", "[", "\u00fc", "all-balanced", "all-1g.10gb", "all-disabled", "all-", "all-9g.999gb", "1%", "100%",
]  # fmt: skip
KEYS = ["1g.10gb", "2g.20gb", "9g.999gb", "1c.3g.40gb", "1g.10gb+me.all", "test", "no-such"]
ABSENT = object()
MANY = 300


def spec_of(plural):
    """The schema of a resource's spec."""
    crd = yaml.safe_load((ROOT / "crds" / f"{plural}.yaml").read_text())
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def properties(schema, path=()):
    """[(path, schema, required)] of each property at any depth; 0 is any entry of a list, "*" any value of a map."""
    for name, sub in schema.get("properties", {}).items():
        yield path + (name,), sub, name in schema.get("required", [])
        yield from properties(sub, path + (name,))
    for step, sub in ((0, schema.get("items")), ("*", schema.get("additionalProperties"))):
        if sub:
            yield path + (step,), sub, False
            yield from properties(sub, path + (step,))


def type_of(schema):
    return "any" if schema.get("x-kubernetes-int-or-string") else schema.get("type")


def numbers(schema):
    low, high = schema.get("minimum", 0), schema.get("maximum", 2**63 - 1 if schema.get("format") == "int64" else 2**31 - 1)
    step = schema.get("multipleOf", 1)
    return sorted({low, low + step, (low + high) // 2 // step * step, high // step * step})


def texts(schema):
    if "enum" in schema:
        return schema["enum"]
    low, high = schema.get("minLength", 0), schema.get("maxLength", MANY)
    pattern = re.compile(schema.get("pattern", ""))
    candidates = WORDS + ["", "a" * high]
    return [w for w in candidates if low <= len(w) <= high and (not w.isascii() or pattern.search(w))]


def least(schema):
    """The smallest value that the schema takes."""
    kind = type_of(schema)
    if kind == "object":
        return {name: least(schema["properties"][name]) for name in schema.get("required", [])}
    if kind == "array":
        return [least(schema["items"]) for _ in range(schema.get("minItems", 0))]
    return {"boolean": [False], "string": texts(schema) if kind == "string" else [], "integer": numbers(schema)}.get(kind, numbers(schema))[0]


def lists(schema, there):
    """An empty one, one of one entry, one with an entry twice, and the longest; walking an entry's own values is for its own turn."""
    items = schema["items"]
    entries = there or [least(items)]
    yield []
    yield [least(items)]
    yield [entries[0]] * 2
    yield [entries[0]] * min(schema.get("maxItems", MANY), MANY)
    yield several(items, schema.get("maxItems", MANY))


def several(items, count):
    """So many entries that differ, where entries are numbers or texts."""
    kind = type_of(items)
    if kind == "integer":
        return [items.get("minimum", 0) + i for i in range(count)]
    if kind == "string":
        return [w for w in (f"x{i}" for i in range(count)) if re.search(items.get("pattern", ""), w)]
    return []


def maps(schema, there):
    values = good(schema["additionalProperties"], None)
    yield {}
    for key in KEYS:
        yield {key: values[0]}
        yield {**(there or {}), key: values[-1]}
    yield {key: values[-1] for key in KEYS}
    yield {f"x{i}": values[0] for i in range(schema.get("maxProperties", MANY))}


def good(schema, there):
    """Values that the schema takes, sensible or not; there is what the object has in this place."""
    kind = type_of(schema)
    if kind == "boolean":
        return [False, True]
    if kind == "integer":
        return numbers(schema)
    if kind == "string":
        return texts(schema)
    if kind == "array":
        return list(lists(schema, there))
    if kind == "any":
        return numbers(schema) + texts(schema)
    if "additionalProperties" in schema:
        return list(maps(schema, there))
    return [{}, least(schema)]


def bad(schema):
    """Values that the schema must refuse."""
    kind = type_of(schema)
    others = {"boolean": "true", "integer": "1", "string": 1, "array": {"0": 1}, "object": [1], "any": [1]}
    yield others[kind]
    if kind in ("integer", "any"):
        yield from (schema["minimum"] - 1, schema["maximum"] + 1) if "maximum" in schema else (schema.get("minimum", 0) - 1,)
        yield 1.5
    if schema.get("multipleOf", 1) > 1:
        yield schema["minimum"] + 1
    if kind == "string" and "enum" in schema:
        yield "no-such"
    if "maxLength" in schema:
        yield "a" * (schema["maxLength"] + 1)
    if schema.get("minLength"):
        yield ""
    if "pattern" in schema:
        yield " \n"
    if "maxItems" in schema:
        yield [least(schema["items"])] * (schema["maxItems"] + 1)
    if schema.get("minItems"):
        yield []


def found(obj, path):
    """What an object has at a path; ABSENT where it has nothing."""
    for step in path:
        obj = child(obj, step)
        if obj is ABSENT:
            return ABSENT
    return obj


def child(obj, step):
    if step == "*":
        return next(iter(obj.values()), ABSENT) if isinstance(obj, dict) else ABSENT
    if isinstance(obj, list):
        return obj[step] if isinstance(step, int) and step < len(obj) else ABSENT
    return obj.get(step, ABSENT) if isinstance(obj, dict) else ABSENT


def changed(obj, schema, path, value):
    """A copy with this value at the path (ABSENT takes it away); what leads there is made. None where it cannot be."""
    obj = copy.deepcopy(obj)
    at = obj
    for step in path[:-1]:
        if child(at, step) is ABSENT:
            if step == "*":
                return None
            put(at, step, least(sub_schema(schema, step)))
        at, schema = child(at, step), sub_schema(schema, step)
    step = next(iter(at), None) if path[-1] == "*" else path[-1]
    if step is None or (value is ABSENT and child(at, step) is ABSENT):
        return None
    if value is ABSENT:
        at.pop(step)
    else:
        put(at, step, copy.deepcopy(value))
    return obj


def put(at, step, value):
    if isinstance(at, list):
        at[step : step + 1] = [value]
    else:
        at[step] = value


def sub_schema(schema, step):
    if step == 0:
        return schema["items"]
    return schema["additionalProperties"] if step == "*" else schema["properties"][step]


def name(path):
    """.spec.devices[].mig.profiles[*]"""
    return ".spec" + "".join({0: "[]", "*": "[*]"}.get(step, f".{step}") for step in path)
