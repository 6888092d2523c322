# SPDX-License-Identifier: Apache-2.0
"""What is added to new pods of shares, whoever adds it: the API server by the policy of config/scheduler-defaults (test_share_defaults.py),
or cleave-scheduler's webhook (test_webhook.py).

    check_cases(create)     create(body) makes a pod of a body, and returns it as the API server then has it
"""

GPU, SIZES = "nvidia.com/gpu", {"nvidia.com/gpumem": "3000"}
OURS, DEFAULT = "cleave-scheduler", "default-scheduler"


def container(limits, requests=None, name="c"):
    resources = {"limits": limits, **({"requests": requests} if requests else {})}
    return {"name": name, "image": "none", "resources": resources}


def body(*containers, inits=(), labels=None, **spec):
    named = [{**c, "name": f"c{i}"} for i, c in enumerate(containers)]
    init = {"initContainers": [{**c, "name": f"i{i}"} for i, c in enumerate(inits)]} if inits else {}
    return {"metadata": {"generateName": "defaults-", "labels": labels or {}}, "spec": {"containers": named, **init, **spec}}


# By what is tried: a pod, its scheduler then, and how many shares its containers ask for, init containers first. The API server itself
# makes requests of limits that have none, before it asks anybody.
CASES = {
    "a size alone is one share": (body(container(SIZES)), OURS, ["1"]),
    "each size counts": (body(container({"nvidia.com/gpucores": "30"}), container({"nvidia.com/gpumem-percentage": "50"})), OURS, ["1", "1"]),
    "shares that are counted stay": (body(container({GPU: "2", **SIZES}), container({})), OURS, ["2", None]),
    "requests get theirs": (body(container(SIZES, {"cpu": "1"})), OURS, ["1"]),
    "init containers get theirs": (body(container({}), inits=[container(SIZES), container({})]), OURS, ["1", None, None]),
    "whoever names a scheduler keeps it": (body(container(SIZES), schedulerName="hami-scheduler"), "hami-scheduler", ["1"]),
    "the default's name is none": (body(container(SIZES), schedulerName=DEFAULT), OURS, ["1"]),
    "whoever names a node keeps it": (body(container(SIZES), nodeName="nowhere"), DEFAULT, ["1"]),
    "so do whole cards": (body(container({}), container({GPU: "1"})), OURS, [None, "1"]),
    "none is none": (body(container({GPU: "0"})), DEFAULT, ["0"]),
    "a label keeps a pod as it is": (body(container({GPU: "1", **SIZES}), labels={"hami.io/webhook": "ignore"}), DEFAULT, ["1"]),
    "another value of it does not": (body(container(SIZES), labels={"hami.io/webhook": "on"}), OURS, ["1"]),
    "no card, no change": (body(container({"cpu": "1"})), DEFAULT, [None]),
}

# Values that count as less are written as that: a pod, its containers' percentages then (compute and memory, init containers first), and
# what the pod is told.
CLAMPED = "gpu.cleave.dev/clamped"
CORES, PERCENT = "nvidia.com/gpucores", "nvidia.com/gpumem-percentage"
CLAMPS = {
    "compute above all": (body(container({GPU: "1", CORES: "150"})), [("100", None)], f"container c0: {CORES} counts as 100, not 150"),
    "memory above all": (body(container({PERCENT: "2k"}, {"cpu": "1"})), [(None, "100")], f"container c0: {PERCENT} counts as 100, not 2000"),
    "all is all": (body(container({CORES: "100", PERCENT: "100"})), [("100", "100")], None),
    "MiB before percent": (body(container({**SIZES, PERCENT: "150"})), [(None, None)], f"container c0: {PERCENT} does not count beside nvidia.com/gpumem"),
    "0 MiB say nothing": (body(container({"nvidia.com/gpumem": "0", PERCENT: "50"})), [(None, "50")], None),
    "each container": (
        body(container({CORES: "101", PERCENT: "102"}), container({}), inits=[container({CORES: "103"})]),
        [("100", None), ("100", "100"), (None, None)],
        f"container c0: {CORES} counts as 100, not 101; container c0: {PERCENT} counts as 100, not 102; container i0: {CORES} counts as 100, not 103",
    ),
    "a label keeps a pod as it is": (body(container({GPU: "1", CORES: "150"}), labels={"hami.io/webhook": "ignore"}), [("150", None)], None),
}

# Where gpushare's pods are Cleave's: the same, with the MiB of each share.
GIB = "aliyun.com/gpu-mem"
OF_GPUSHARE = {
    "its GiB are one share": (body(container({GIB: "3"})), OURS, ["1"], ["3072"]),
    "each container has its own": (body(container({GIB: "2"}), container({}), container({GIB: "1"})), OURS, ["1", None, "1"], ["2048", None, "1024"]),
    "requests get theirs": (body(container({GIB: "2"}, {"cpu": "1"})), OURS, ["1"], ["2048"]),
    "init containers get theirs": (body(container({GIB: "2"}), inits=[container({GIB: "4"})]), OURS, ["1", "1"], ["4096", "2048"]),
    "words of ours beside it count": (body(container({GIB: "2", GPU: "1", **SIZES})), OURS, ["1"], ["3k"]),
    "none is none": (body(container({GIB: "0"})), DEFAULT, [None], [None]),
    "whoever names a scheduler keeps it": (body(container({GIB: "2"}), schedulerName="mine"), "mine", ["1"], ["2048"]),
    "whoever names a node keeps it": (body(container({GIB: "2"}), nodeName="nowhere"), DEFAULT, ["1"], ["2048"]),
}

# Where Koordinator's pods get slots beside their words: their number for each container, and the scheduler stays.
SLOT, KOORD = "gpu.cleave.dev/share", "koordinator.sh/gpu"
OF_KOORDINATOR = {
    "a part of a card is one": (body(container({f"{KOORD}-core": "30", f"{KOORD}-memory": "8Gi"})), ["1"]),
    "memory alone is one": (body(container({f"{KOORD}-memory": "8Gi"})), ["1"]),
    "each hundred percent is a card": (body(container({KOORD: "200"})), ["2"]),
    "so is each of memory": (body(container({f"{KOORD}-memory-ratio": "300"})), ["3"]),
    "a number of cards counts": (body(container({f"{KOORD}.shared": "2", f"{KOORD}-core": "100", f"{KOORD}-memory": "16Gi"})), ["2"]),
    "memory counts the cards": (body(container({f"{KOORD}-core": "100", f"{KOORD}-memory-ratio": "200"})), ["2"]),
    "compute alone is none": (body(container({f"{KOORD}-core": "50"})), [None]),
    "nothing of a card is none": (body(container({KOORD: "0"})), [None]),
    "none of them does not": (body(container({f"{KOORD}.shared": "0", KOORD: "50"})), ["1"]),
    "each container has its own": (body(container({KOORD: "50"}), container({}), inits=[container({KOORD: "100"})]), ["1", "1", None]),
    "requests get theirs": (body(container({KOORD: "50"}, {"cpu": "1"})), ["1"]),
    "slots that are there stay": (body(container({KOORD: "50", SLOT: "3"})), ["3"]),
    "words of another vendor's plugin are no words of ours": (body(container({KOORD: "50", "metax-tech.com/sgpu": "1"})), [None]),
    "nor are those of NPUs": (body(container({f"{KOORD}-memory": "8Gi", "koordinator.sh/huawei-npu-core": "1"})), [None]),
    "a scheduler stays": (body(container({KOORD: "50"}), schedulerName="koord-scheduler"), ["1"]),
    "a label keeps a pod as it is": (body(container({KOORD: "50"}), labels={"hami.io/webhook": "ignore"}), [None]),
}


def amounts(pod, kind, resource):
    spec = pod["spec"]
    return [c["resources"].get(kind, {}).get(resource) for c in spec.get("initContainers", []) + spec["containers"]]


def shares(pod, kind):
    return amounts(pod, kind, GPU)


def check_gpushare(create):
    for name, (pod, scheduler, counts, sizes) in OF_GPUSHARE.items():
        made = create(pod)
        assert made["spec"]["schedulerName"] == scheduler, name
        for kind in ("limits", "requests"):
            assert shares(made, kind) == counts, (name, kind)
            assert amounts(made, kind, "nvidia.com/gpumem") == sizes, (name, kind)


def check_koordinator(create):
    for name, (pod, slots) in OF_KOORDINATOR.items():
        made = create(pod)
        assert made["spec"]["schedulerName"] == pod["spec"].get("schedulerName", DEFAULT), name
        for kind in ("limits", "requests"):
            assert amounts(made, kind, SLOT) == slots, (name, kind)


def check_cases(create):
    for name, (pod, scheduler, counts) in CASES.items():
        made = create(pod)
        assert made["spec"]["schedulerName"] == scheduler, name
        assert shares(made, "limits") == shares(made, "requests") == counts, name
    for name, (pod, percents, told) in CLAMPS.items():
        made = create(pod)
        for kind in ("limits", "requests"):
            assert list(zip(amounts(made, kind, CORES), amounts(made, kind, PERCENT))) == percents, (name, kind)
        assert made["metadata"].get("annotations", {}).get(CLAMPED) == told, name
    annotated = body(container({GPU: "1", CORES: "150"}))
    annotated["metadata"]["annotations"] = {"mine": "stays"}
    assert create(annotated)["metadata"]["annotations"] == {"mine": "stays", CLAMPED: f"container c0: {CORES} counts as 100, not 150"}
