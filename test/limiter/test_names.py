# SPDX-License-Identifier: Apache-2.0
"""limiter/cuda_names.tsv: each function of CUDA's driver has a decision, and the tables of the code are as it says."""
import collections
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = ROOT / "limiter/cuda_names.tsv"
SIM = ROOT / "sim/cuda_calls.def"
SHIM = [ROOT / "limiter/calls.def", ROOT / "limiter/gated.def"]

OURS = {"count", "free", "answer", "gate", "context", "lookup"}
ASKS = re.compile(r"Get|Query|Synchronize|Is[A-Z]|CanAccess|Occupancy|Elapsed|ComputeCapability|FindIn")
# A name with one of these may take memory or start work, also where it asks: GetMappedBuffer, GetHandleForAddressRange.
TAKES = re.compile(
    "Alloc|Create|Launch|Mem(?=cpy|set)|Copy|Cpy|Load|Import|Export|Open|Map(?!ped(Mipmapped)?Array)|Prefetch|Instantiate|Upload|Restore|Batch"
    "|Handle|ProcA|Add[A-Z]|Bind|Attach|Begin|Record"
)

Row = collections.namedtuple("Row", "symbol name version first last decision reason")


def rows_of(text):
    return [Row(*line.split("\t")) for line in text.splitlines() if not line.startswith("#")]


ROWS = rows_of(LIST.read_text())


def does_more_than_ask(row):
    """By its name, as CUDA's functions are called."""
    name = row.symbol if row.name == "-" else row.name
    return bool(TAKES.search(name)) or not ASKS.search(name)


def complaints(rows):
    """What is wrong with the list."""
    for row in rows:
        if row.decision == "?":
            yield f"{row.symbol}: nobody has decided"
        elif row.decision not in OURS | {"through"}:
            yield f"{row.symbol}: {row.decision} is no decision"
        if not row.reason.strip():
            yield f"{row.symbol}: the reason is empty"
        elif row.decision == "through" and row.reason == "-" and does_more_than_ask(row):
            yield f"{row.symbol}: passes without a reason"
    for (symbol, count) in collections.Counter(row.symbol for row in rows).items():
        if count > 1:
            yield f"{symbol}: {count} lines"
    keys = [(row.symbol if row.name == "-" else row.name, row.symbol) for row in rows]
    yield from (f"{after[1]}: stands behind {before[1]}" for before, after in zip(keys, keys[1:]) if after < before)


def variants(rows):
    """{lookup name: its rows}"""
    found = collections.defaultdict(list)
    for row in rows:
        if row.name != "-":
            found[row.name].append(row)
    return found


# --- The list ---


def test_the_list_is_decided_reasoned_and_in_order():
    assert list(complaints(ROWS)) == []


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["cuNew\tcuNew\t14000\t14.0\t-\t?\t-"], "cuNew: nobody has decided"),
        (["cuNew\tcuNew\t14000\t14.0\t-\tpass\thost memory"], "cuNew: pass is no decision"),
        (["cuNewGet\tcuNewGet\t14000\t14.0\t-\tthrough\t"], "cuNewGet: the reason is empty"),
        (["cuNewGet\tcuNewGet\t14000\t14.0\t-\tthrough\t "], "cuNewGet: the reason is empty"),
        (["cuNewGet\tcuNewGet\t14000\t14.0\t-\tthrough\t-"], None),
        *(
            ([f"{name}\t{name}\t14000\t14.0\t-\tthrough\t-"], f"{name}: passes without a reason")
            for name in (
                "cuMemAllocNear cuThingCreate cuLaunchTile cuMemcpy4D cuMemsetD64 cuTileLoad cuMemImport cuMemMapTwice cuMemPrefetchAll cuGraphStart "
                "cuMemGetHandleOf cuExternalMemoryGetMappedTexture cuQueueSubmit cuMemGetAllocationCopy"
            ).split()
        ),
        (["cuNew_v2\tcuNew\t14000\t14.0\t-\tfree\t-", "cuNew\tcuNew\t13000\t13.0\t-\tfree\t-"], "cuNew: stands behind cuNew_v2"),
        (["cuNew\tcuNew\t14000\t14.0\t-\tfree\t-"] * 2, "cuNew: 2 lines"),
    ],
)
def test_a_bad_line_is_told(lines, says):
    assert list(complaints(rows_of("\n".join(lines)))) == ([says] if says else [])


def test_variants_of_a_function_are_decided_alike():
    assert {name: {row.decision for row in rows} for name, rows in variants(ROWS).items() if len({row.decision for row in rows}) > 1} == {}


def test_a_later_form_is_handed_out_from_a_later_version():
    """By the version cuGetProcAddress chooses; the limiter exchanges what that has found."""
    for name, rows in variants(ROWS).items():
        for thread in ("_ptds", "_ptsz", ""):
            forms = [row for row in rows if row.symbol.endswith(thread) and (thread or not row.symbol.endswith(("_ptds", "_ptsz")))]
            versions = [int(row.version) for row in forms]
            assert versions == sorted(set(versions)), name


# --- The tables of the code ---


def mismatches(table, rows):
    """Of (symbol, name, version) the ones that the list does not have so."""
    listed = {row.symbol: (row.name, row.version) for row in rows}
    return [entry for entry in table if listed.get(entry[0]) != entry[1:]]


def test_the_simulator_hands_its_functions_out_as_the_list_says():
    table = re.findall(r"^CUDA\((\w+), \w+, (\w+), (\d+)\)", SIM.read_text(), re.M)
    assert table and mismatches(table, ROWS) == []


def test_another_name_or_version_is_told():
    good = ("cuMemAlloc_v2", "cuMemAlloc", "3020")
    assert mismatches([good, ("cuMemAlloc_v2", "cuMemAlloc", "3010"), ("cuMemAlloc", "cuMemAllocOld", "2000"), ("cuNo", "cuNo", "2000")], ROWS) == [
        ("cuMemAlloc_v2", "cuMemAlloc", "3010"),
        ("cuMemAlloc", "cuMemAllocOld", "2000"),
        ("cuNo", "cuNo", "2000"),
    ]


def calls(text):
    """The limiter's table: its symbols, and (symbol, name, version) of those lines that have both."""
    symbols = re.findall(r"^(?:CALL|GATE)\((\w+)", text, re.M)
    return symbols, re.findall(r"^(?:CALL|GATE)\((\w+),(?:(?!^\w).)*?\b(\w+),\s+(\d+)\)$", text, re.M | re.S)


def test_the_limiter_stands_in_for_exactly_what_is_not_passed():
    symbols, table = calls("".join(path.read_text() for path in SHIM))
    decided = {row.symbol for row in ROWS if row.decision in OURS}
    assert (sorted(decided - set(symbols)), sorted(set(symbols) - decided)) == ([], [])
    assert len(symbols) == len(set(symbols)) and mismatches(table, ROWS) == []


def test_the_limiters_table_is_read():
    text = "CALL(cuInit, (unsigned int flags), (flags), cuInit, 2000)\nCALL(cuOne,\n     (int a, int b),\n     (a, b), cuOne,\n     11030)\nGATE(cuTwo_ptsz, (int a), (a), 0)\nCALL(cuThree, (int a), (a))\n"
    assert calls(text) == (["cuInit", "cuOne", "cuTwo_ptsz", "cuThree"], [("cuInit", "cuInit", "2000"), ("cuOne", "cuOne", "11030")])
