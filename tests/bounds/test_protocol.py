"""Problems, provers and their registry: who is asked, and what is made of the answers."""

from dataclasses import dataclass, replace

import pytest

import undertow as ut
from undertow.bounds.groups import GROUP
from undertow.bounds.groups import leakage as group_leakage
from undertow.bounds.one_adversary import ONE_ADVERSARY
from undertow.bounds.protocol import AnswerProver, Problem, Prover, Registry, provers_of
from undertow.certificate import Leakage, Witness
from undertow.errors import Contradiction, EffortSpent, InvalidInput, NotSupported
from undertow.models import registry
from undertow.progress import SPENT

FREE = [[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4], [0.3, 0.3, 0.3, 0.1], [0.05, 0.15, 0.1, 0.7]]
"""Hidden states of which two show each symbol, in no order."""

PROBLEM = Problem(ut.PureDP(1.0), ut.Groups(3))
ATTACK = Witness(0, 3, (), "a", "b")


@dataclass
class Fixed:
    """A prover of one interval, which counts how often it is asked."""

    lower: float
    upper: float
    name: str = "fixed"
    supported: bool = True
    error: Exception | None = None
    asked: int = 0

    def supports(self, problem):
        return self.supported

    def prove(self, problem):
        self.asked += 1
        if self.error is not None:
            raise self.error
        witness = replace(ATTACK, value=self.name)
        return Leakage(self.lower, self.upper, self.name, problem.against, witness)


def test_intervals_are_intersected_until_they_close():
    low, high = Fixed(0.5, 2.0, "low"), Fixed(0.2, 1.0, "high")
    exact, unasked = Fixed(0.75, 0.75, "exact"), Fixed(0.0, 9.0)
    leak = Registry(low, high).prove(PROBLEM)
    assert (leak.lower, leak.upper, leak.method) == (0.5, 1.0, "high")
    assert leak.witness.value == "low"
    leak = Registry(low, high, exact, unasked).prove(PROBLEM)
    assert (leak.lower, leak.upper, leak.method) == (0.75, 0.75, "exact")
    assert not unasked.asked


def test_intervals_that_do_not_meet_contradict_each_other():
    with pytest.raises(Contradiction, match="high proves a leakage of at least 3"):
        Registry(Fixed(0.5, 2.0, "low"), Fixed(3.0, 4.0, "high")).prove(PROBLEM)


def test_a_prover_that_refuses_is_passed_over():
    refuses = Fixed(0, 0, error=NotSupported("the first reason"))
    silent = Fixed(0, 0, supported=False)
    answers = Fixed(0.5, 2.0, "answers")
    assert Registry(refuses, silent, answers).prove(PROBLEM).method == "answers"
    assert not silent.asked
    with pytest.raises(NotSupported, match="the first reason"):
        Registry(refuses, Fixed(0, 0, error=NotSupported("another"))).prove(PROBLEM)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (PROBLEM, "no bound is known of what PureDP leaks under .*Groups"),
        (replace(PROBLEM, secret=ut.Window(2)), "a window is of records in a row"),
        (replace(PROBLEM, mechanism=ut.XorNoise(0.1, 0.2)), "what XorNoise leaks is known for"),
    ],
)
def test_a_problem_that_no_prover_supports_is_refused(problem, words):
    with pytest.raises(NotSupported, match=words):
        Registry().prove(problem)


def test_a_bracket_survives_an_effort_that_ends_later():
    spent = Fixed(0, 0, error=EffortSpent("no effort is left"))
    leak = Registry(Fixed(0.5, 2.0), spent).prove(PROBLEM)
    assert leak.upper == 2.0
    assert SPENT in leak.assumptions
    with pytest.raises(EffortSpent):
        Registry(spent, Fixed(0.5, 2.0)).prove(PROBLEM)


def test_provers_are_asked_in_order():
    registered = Registry(Fixed(0, 1, "second"))
    registered.register(Fixed(0, 1, "third"))
    registered.register(Fixed(0, 1, "first"), first=True)
    names = [prover.name for prover in registered.supporting(PROBLEM)]
    assert names == ["first", "second", "third"]


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_kind_of_model_names_provers(kind):
    models = {
        "set": ut.ModelSet([ut.Groups(2)]),
        "groups": ut.Groups(2),
        "markov-chain": ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]]),
    }
    place = registry.KINDS[kind].provers
    assert (place is None) == (kind == "set")
    if kind in models:
        provers = provers_of(models[kind])
        assert bool(provers) == (place is not None)
        assert all(isinstance(prover, Prover) for prover in provers)


def test_a_prover_of_answers_supports_its_own_problems_only():
    prover = AnswerProver("groups", ut.Groups, group_leakage)
    assert prover.supports(PROBLEM)
    for change in (
        {"model": ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]])},
        {"mechanism": ut.RandomizedResponse.binary(0.2, 0.3)},
        {"mechanism": ut.ApproximateDP(1.0, 1e-6)},
        {"mechanism": ut.PureDP(1.0, "person")},
        {"mechanism": ut.Laplace(ut.Count(1), 2.0), "valid_for": "windows"},
        {"secret": ut.Window(2)},
        {"secret": ut.Person()},
        {"delta": 1e-6},
    ):
        assert not prover.supports(replace(PROBLEM, **change))


# --- the bound by group size ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("against", "window", "records"),
    [
        ("any", 1, 5),
        ("informed", 1, 1),
        ("informed", 3, 3),
        (ut.Adversary(2), 1, 5),
        (ut.Adversary(2, [0, 4]), 1, 3),
        (ut.Adversary(1, [0, 4]), 2, 3),
    ],
)
def test_unknown_records_bound_the_leakage(against, window, records):
    chain = ut.HiddenChain(FREE, (0, 0, 1, 1), length=5)
    problem = Problem(ut.PureDP(0.25), chain, against, ut.Window(window))
    assert GROUP.supports(problem)
    assert GROUP.prove(problem).upper == pytest.approx(records * 0.25, rel=1e-12)
    assert GROUP.prove(problem).upper >= records * 0.25


def test_the_group_bound_needs_a_level_and_an_end():
    chain = ut.HiddenChain(FREE, (0, 0, 1, 1), length=5)
    assert not GROUP.supports(Problem(ut.PureDP(1.0), ut.HiddenChain(FREE, (0, 0, 1, 1))))
    assert not GROUP.supports(Problem(ut.XorNoise(0.1, 0.2), chain))
    assert not GROUP.supports(Problem(ut.PureDP(1.0, "person"), chain))
    assert not GROUP.supports(Problem(ut.PureDP(1.0), chain, delta=1e-6))
    numbers = ut.MultivariateGaussian(0, [[1, 0.5], [0.5, 1]])
    assert not GROUP.supports(Problem(ut.Laplace(ut.Linear([1, 1], spread=1.0), 1.0), numbers))


@pytest.mark.parametrize("against", ["any", "ignorant"])
@pytest.mark.parametrize("mechanism", [ut.PureDP(0.5), ut.Laplace(ut.Count(1), 2.0)], ids=str)
def test_no_short_series_leaks_more_than_its_records(mechanism, against):
    tensor = [[[0.8, 0.2], [0.15, 0.85]], [[0.1, 0.9], [0.07, 0.93]]]
    for model in (
        ut.HiddenChain(FREE, (0, 0, 1, 1), length=4),
        ut.MarkovChain.second_order(tensor, length=4),
    ):
        leak = ut.leakage(mechanism, model, against)
        assert 0.5 < leak.lower <= leak.upper <= 2.0 * (1 + 1e-12)
    endless = ut.leakage(mechanism, ut.HiddenChain(FREE, (0, 0, 1, 1)), against)
    assert 1.1 < endless.lower <= endless.upper < 1.12


def test_an_explicit_adversary_is_bounded_by_all_provers():
    chain = ut.HiddenChain(FREE, (0, 0, 1, 1), length=5)
    problem = Problem(ut.PureDP(0.5), chain, ut.Adversary(2, [0, 4]))
    leak = ut.leakage(problem.mechanism, chain, problem.against)
    alone = ONE_ADVERSARY.prove(problem)
    assert leak.upper == min(alone.upper, GROUP.prove(problem).upper)
    assert leak.lower >= alone.lower


# --- reductions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [{"secret": ut.Window(2)}, {"valid_for": "windows"}], ids=["window", "parts"]
)
def test_a_level_bounds_a_mechanism_from_above_alone(shape):
    """What some algorithm of a level reveals is not what this answer reveals."""
    chain, against = ut.HiddenChain(FREE, (0, 0, 1, 1), length=5), ut.Adversary(1, [0])
    answer = ut.leakage(ut.Laplace(ut.Count(1), 2.0), chain, against, **shape)
    every = ut.leakage(ut.PureDP(0.5), chain, against, **shape)
    assert 0 < every.lower <= every.upper
    assert answer.upper == pytest.approx(every.upper)
    assert answer.lower == 0
    assert answer.witness is None


def test_a_proof_on_whole_series_says_so():
    chain = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], length=6)
    assert ut.leakage(ut.Laplace(ut.Count(1), 2.0), chain).valid_for == "series"
    assert ut.leakage(ut.PureDP(0.5), chain).valid_for == "any"
    assert ut.leakage(ut.RandomizedResponse.binary(0.2, 0.2), chain).valid_for == "any"


@pytest.mark.parametrize("spread", [3, 4.9])
def test_states_farther_apart_than_the_spread_are_refused(spread):
    chain = ut.MarkovChain([[0.5, 0.5], [0.5, 0.5]], (0, 5), length=2)
    noise = ut.Laplace(ut.Linear([1, 1], spread=spread), 1.0)
    with pytest.raises(InvalidInput, match="say spread=5"):
        ut.leakage(noise, chain)


@pytest.mark.parametrize("secret", [ut.Records([3]), ut.Pairs([(0, 1)])], ids=str)
def test_a_leakage_is_about_all_values_of_all_records(secret):
    chain = ut.MarkovChain([[0.5, 0.5], [0.5, 0.5]], length=5)
    with pytest.raises(InvalidInput, match="must be a Window or a Person"):
        ut.leakage(ut.PureDP(1.0), chain, secret=secret)
