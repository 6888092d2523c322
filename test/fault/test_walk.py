# SPDX-License-Identifier: Apache-2.0
"""A sample of the walk of the state space (make torture walks all of it), and what the schemas refuse."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

import schema  # noqa: E402
from conftest import cluster, rundir  # noqa: E402, F401
from walk import BASES, KINDS, Judge, Walkers, cases_of, past_the_schema  # noqa: E402

SAMPLE = {"devices": 1, "migconfigs": 2, "gpuprofiles": 3}


@pytest.fixture
def walkers(cluster, rundir):  # noqa: F811
    built = Walkers(cluster, rundir / "walk", jobs=4)
    yield built
    built.end()


@pytest.mark.parametrize("plural", BASES)
def test_the_schema_refuses_what_is_past_it(walkers, plural):
    judge = Judge(walkers.rig)
    assert not any(judge.refusal(plural, good) for _, good in BASES[plural])
    taken = [f"{path} = {value!r}"[:200] for path, value, spec in past_the_schema(plural) if not judge.refusal(plural, spec)]
    assert taken == [], KINDS[plural]


@pytest.mark.parametrize("plural", ["gpuprofiles", "devices"])
def test_each_term_of_shares_is_walked_with_every_word_that_it_takes(walkers, plural):
    whole, judge = schema.spec_of(plural), Judge(walkers.rig)
    terms = [(path, sub, required) for path, sub, required in schema.properties(whole) if "fractional" in path[:-1]]
    walked = {path[-1]: [case.value for case in cases_of(judge, plural, whole, path, sub, required)] for path, sub, required in terms}
    percents = {"memoryOversubscriptionPercent", "computeOversubscriptionPercent"}
    assert set(walked) == {"maxShares", *percents, "enforcement", "memory", "compute", "qosPolicy", "onExceed", "allowDisable"}
    assert all(len(values) > 1 for values in walked.values()), walked
    assert [f"{path[-1]}: {word}" for path, sub, _ in terms for word in sub.get("enum", []) if word not in walked[path[-1]]] == []


def test_what_a_property_was_before_makes_no_difference(walkers):
    todo = [case for plural, count in SAMPLE.items() for case in walkers.cases([plural], count, values=1)]
    assert len(todo) == sum(SAMPLE.values())
    wrong = [f"{case}: {text}" for case, texts in walkers.run(todo) for text in texts]
    assert wrong == []
