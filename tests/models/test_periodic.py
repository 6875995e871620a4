"""Chains by a public context: the same as chains with a matrix for each step, and what they say."""

import json
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.grids import each
from undertow.errors import DisclosureWarning, InvalidInput, InvalidModel
from undertow.models.chains import ContextChain
from undertow.models.sets import model_from_dict
from undertow.testing.enumeration import (
    additive_noise_likelihood,
    chain_joint,
    mechanism_leakage,
    pure_dp_leakage,
)

DAY, NIGHT = [[0.8, 0.2], [0.3, 0.7]], [[0.95, 0.05], [0.6, 0.4]]
FLIP = [[0.1, 0.9], [0.7, 0.3]]  # leaves its state more often than not
STATES = ("still", "moving")
PUBLIC = "the context (half of the day) is public: nothing is guaranteed about what the context"


def days(length=8, **more):
    return ut.MarkovChain.periodic(
        {"night": NIGHT, "day": DAY}, STATES, length=length, context="half of the day", **more
    )


# --- the same as a chain with a matrix for each step ----------------------------------------------


@pytest.mark.parametrize("mechanism", [ut.PureDP(0.7), ut.RandomizedResponse.binary(0.2, 0.3)])
def test_one_matrix_is_the_plain_chain(mechanism):
    plain = ut.MarkovChain(DAY, start=[0.6, 0.4], length=7)
    cyclic = ut.MarkovChain.periodic([DAY], length=7, start=[0.6, 0.4])
    own, same = (ut.leakage(mechanism, chain) for chain in (cyclic, plain))
    assert own.upper == pytest.approx(same.upper, rel=1e-10)
    assert own.lower == pytest.approx(same.lower, rel=1e-10)
    stationary = ut.MarkovChain.periodic([DAY], length=7)
    assert stationary.initial == pytest.approx(ut.MarkovChain(DAY).initial, rel=1e-14)


@each(
    ("second", "against"),
    [FLIP, [[0.5, 0.5], [0.5, 0.5]], [[1, 0], [0.5, 0.5]], NIGHT], ["any", "ignorant"],
)  # fmt: skip
def test_two_alternating_matrices_by_enumeration(second, against):
    """Every record, known set, value and, by linear programs, every algorithm of the level."""
    chain = ut.MarkovChain.periodic([DAY, second], length=4)
    joint = chain_joint(chain.initial, chain.transition)
    exact = pure_dp_leakage(joint, 0.9, against).leakage
    found = ut.leakage(ut.PureDP(0.9), chain, against)
    assert found.lower <= exact + 1e-7
    assert found.upper >= exact - 1e-7
    assert found.upper - found.lower < 1e-9
    count = mechanism_leakage(joint, additive_noise_likelihood([0, 1], 1.5, 4), against).leakage
    noisy = ut.leakage(ut.Laplace(ut.Count(1), 1.5), chain, against)
    assert noisy.lower <= count + 1e-12
    assert noisy.upper >= count - 1e-12


def test_phases_and_steps():
    assert days(8, steps_per=2).steps.tolist() == [0, 0, 1, 1, 0, 0, 1]
    assert days(8, steps_per=2, phase=3).steps.tolist() == [1, 0, 0, 1, 1, 0, 0]
    listed = ut.MarkovChain.periodic(np.array([DAY, NIGHT, FLIP]), length=5, phase=2)
    assert (listed.labels, listed.steps.tolist()) == ((0, 1, 2), [2, 0, 1, 2])


# --- what is said ---------------------------------------------------------------------------------


def test_every_certificate_says_what_is_not_guaranteed():
    chain = days()
    plans: list[ut.Plan[Any]] = [
        ut.calibrate(ut.Count("moving"), chain, 1.0),
        ut.calibrate(ut.Count("moving"), chain, 1.0, method="group"),
        ut.calibrate(ut.Series(), chain, 2.0),
        ut.calibrate(ut.Count("moving"), chain, 1.0, delta=1e-6, noise="gaussian"),
    ]
    leaks = [
        ut.leakage(ut.PureDP(1.0), chain),
        ut.leakage(ut.GDP(0.1), chain, delta=1e-6),
        ut.leakage(ut.PureDP(1.0), ut.ModelSet([chain, days(phase=1)])),
        *(plan.leakage for plan in plans),
    ]
    for leak in leaks:
        assert sum(said.startswith(PUBLIC) for said in leak.assumptions) == 1
        assert any("begins at half of the day 'night'" in said for said in leak.assumptions)
    out = ut.release(plans[0], chain.simulate(seed=1))
    assert PUBLIC in " ".join(str(out.report()).replace("- ", "").split())
    assert "Transition matrix of half of the day night" in str(out.report())
    assert ut.leakage(ut.PureDP(1.0), ut.MarkovChain(DAY)).assumptions == (
        "the records follow the stated Markov chain",
        "the algorithm reads the states of records alone, not the readings within a state",
    )


def test_files():
    chain = days(30, steps_per=5, phase=2)
    text = json.dumps(chain.to_dict())
    again = model_from_dict(json.loads(text))
    assert isinstance(again, ContextChain)
    assert (again, hash(again)) == (chain, hash(chain))
    assert len(text) < 500  # each matrix once
    assert chain != days(30, steps_per=5, phase=3)
    assert chain != ut.MarkovChain(chain.transition, STATES, start=chain.initial)
    plan = ut.calibrate(ut.Count("moving"), days(), 1.0)
    assert ut.Plan.from_json(plan.to_json()) == plan
    assert "a matrix for each half of the day (night, day), which is public" in chain.describe()
    hours = ut.MarkovChain.periodic([DAY] * 24, length=25)
    assert "(0, 1, 2, 3 and 20 more)" in hours.describe()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ["night"]}, "one matrix for each of its labels"),
        ({"labels": ["day", "day"]}, "same label"),
        ({"labels": None, "matrices": []}, "one matrix for each of its labels"),
        ({"labels": None}, "one matrix for each of its labels"),
        ({"steps": []}, "at least one"),
        ({"steps": [0, 2]}, "places of labels, 0 to 1"),
        ({"steps": [0, -1]}, "places of labels"),
        ({"steps": [0, True]}, "places of labels"),
        ({"context": 3}, "must be a text"),
        ({"matrices": [DAY, [["a", 1], [0, 1]]]}, "numbers are required"),
        ({"extra": 1}, "no field 'extra'"),
    ],
)
def test_files_that_are_wrong(change, message):
    with pytest.raises((InvalidModel, InvalidInput), match=message):
        model_from_dict(days().to_dict() | change)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: days(None, start=[0.5, 0.5]), "leave start out"),
        (lambda: days(1), "at least 2, found 1"),
        (lambda: days(phase=2), "the cycle of 2, 0 to 1; found 2"),
        (lambda: days(phase=-1), "phase must be at least 0"),
        (lambda: days(steps_per=0), "steps_per"),
        (lambda: days(10**7), "at most 1000000 records"),
        (lambda: ut.MarkovChain.periodic([], length=3), "a transition matrix for each context"),
        (lambda: ut.MarkovChain.periodic(3, length=3), "a transition matrix for each context"),
        (
            lambda: ut.MarkovChain.periodic({"a": DAY, "b": [[0.5, 0.4], [0.5, 0.5]]}, length=3),
            "row 0 of the matrix of 'b' sums to 0.9",
        ),
        (lambda: ut.MarkovChain.periodic([DAY, np.eye(3)], length=3), "has 3 states, that of 0"),
        (lambda: ut.MarkovChain.periodic([DAY, [0.5, 0.5]], length=3), "of 1 must be square"),
        (lambda: ut.MarkovChain.periodic([np.eye(2)], length=3), "no single law"),
        (
            lambda: ut.MarkovChain.by_context({"day": DAY}, ["day", "dusk"]),
            "step 1 has the context 'dusk', which has no matrix; those with one are 'day'",
        ),
        (lambda: ut.MarkovChain.by_context({"day": DAY}, [[]]), "has no matrix"),
        (lambda: ut.MarkovChain.by_context({"day": DAY}, []), "one fewer than records"),
        (lambda: ut.MarkovChain.by_context({"day": DAY}, ["day"], name=" "), "in words"),
    ],
)
def test_refusals(make, message):
    with pytest.raises((InvalidModel, InvalidInput), match=message) as found:
        make()
    assert len(str(found.value).splitlines()) == 1


# --- fitting --------------------------------------------------------------------------------------


def test_steps_are_counted_in_the_context_they_leave():
    found = ut.MarkovChain.fit_by_context(
        [["a", "b", "b", None, "a", "a"], ["b", "a"]],
        [["n", "d", "n", "d", "d", "n"], [None, "n"]],
        prior=0.5,
        name="light",
        public=True,
    )
    assert found.states == ("a", "b")
    assert found.counts["n"].tolist() == [[0, 1], [0, 0]]
    assert found.counts["d"].tolist() == [[1, 0], [0, 1]]
    assert found.matrices["n"][0].tolist() == [0.25, 0.75]
    chain = found.over(["n", "d", "n"])
    assert (chain.context, chain.labels) == ("light", ("n", "d")) or chain.labels == ("d", "n")
    assert found.periodic(9).labels == ("d", "n")
    assert found.periodic(9, cycle=["n", "d"], steps_per=2).steps.tolist() == [0, 0, 1, 1] * 2


def test_a_fit_finds_the_chain_again():
    chain = days(20_001, steps_per=10)
    told = [chain.labels[step] for step in chain.steps] + ["night"]
    found = ut.MarkovChain.fit_by_context(
        chain.simulate(seed=3), told, STATES, name="half of the day", public=True
    )
    assert sum(int(count.sum()) for count in found.counts.values()) == 20_000
    # of 5,000 steps or so from either state: four standard errors
    assert found.matrices["day"] == pytest.approx(np.array(DAY), abs=0.03)
    assert found.matrices["night"] == pytest.approx(np.array(NIGHT), abs=0.06)


@pytest.mark.parametrize(
    ("records", "contexts", "more", "message"),
    [
        (["a", "b"], ["d"], {}, "of the same lengths"),
        (["a", "b", "a"], ["d", "d", "n"], {}, "no step leaves state 'a' at hour 'n'"),
        (["a", "a"], ["d", "d"], {}, "at least two states, found 1"),
        (["a", "b", "a"], ["d"] * 3, {"prior": -1.0}, "prior must be"),
    ],
)
def test_fits_that_fail(records, contexts, more, message):
    with pytest.raises((InvalidModel, InvalidInput), match=message):
        ut.MarkovChain.fit_by_context(records, contexts, name="hour", public=True, **more)


def test_a_fit_warns_and_unseen_contexts_are_named():
    with pytest.warns(DisclosureWarning):
        found = ut.MarkovChain.fit_by_context(list("abba"), list("dddd"))
    with pytest.raises(InvalidModel, match="no records were seen at context 'n'"):
        found.periodic(5, cycle=["d", "n"])
