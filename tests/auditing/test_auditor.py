"""Audits refute broken guarantees, spare kept ones, and stay within what was guaranteed."""

import dataclasses
import json

import numpy as np
import pytest

import undertow as ut
from undertow.auditing import blackbox
from undertow.auditing.auditor import Audit, audit
from undertow.auditing.scenarios import MOST_ATTACKS, DrawnModel, attacks, drawn_models
from undertow.certificate import Leakage, Witness
from undertow.errors import InvalidInput, InvalidPlan, NothingToProtect, NotSupported
from undertow.models.classes import MixingClass
from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.models.groups import Groups
from undertow.models.networks import BayesianNetwork, Contagion
from undertow.models.pedigrees import Pedigree

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=60)
LAZY = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], length=40)
SCALE = 3.9948  # of a count on the activity chain that leaks 1 against any attacker (theory)
FLIPS = 0.34375  # of the lazy chain: leaks just below 4 against any attacker
GRAIN = 2.0**-53
AUDITS = pytest.mark.parametrize(("audits", "alarms"), [pytest.param(8, 3)])


def claimed(mechanism, model, epsilon, against="any", secret=None, witness=None):
    """A plan as it is sold, whatever it leaks."""
    kept = {} if secret is None else {"secret": secret}
    claim = Leakage(epsilon, epsilon, "as sold", against, witness, **kept)
    methods = {ut.RandomizedResponse: "chakrabarti", ut.XorNoise: "chakrabarti"}
    return ut.Plan(mechanism, model, epsilon, claim, methods.get(type(mechanism), "lange"))


def count(factor=1.0, chain=ACTIVITY, **more):
    return claimed(ut.DiscreteLaplace(ut.Count(1), factor * SCALE), chain, 1.0, **more)


def flips(rate, epsilon, **more):
    rate = round(rate / GRAIN) * GRAIN
    return claimed(ut.RandomizedResponse.binary(rate, rate), LAZY, epsilon, **more)


VISITS = ut.MarkovChain([[0.99, 0.01], [0.8, 0.2]], length=11)


def erased(probability=1.0):
    table = np.full((11, 2), 0.0)
    table[2:7] = probability
    table[4] = 1.0
    return claimed(ut.Redaction(table, 4), VISITS, 0.5, against="ignorant")


# --- what must be caught, and what must not -------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "draws"),
    [
        (count(0.7), 5000),
        (flips(0.7 * 0.4577, 1.0), 5000),
        (claimed(ut.DiscreteLaplace(ut.Count(1), 1.0), ACTIVITY, 1.0), 5000),
        (claimed(ut.DiscreteLaplace(ut.Histogram(), 2.0), ACTIVITY, 1.0), 5000),
        (claimed(ut.XorNoise(0.25, 0.25), LAZY, 1.0), 5000),
        (erased(0.5), 5000),
    ],
    ids=["count 30% low", "flips 30% low", "plain DP", "histogram", "xor", "redaction"],
)
@pytest.mark.parametrize("audits", [2])
def test_broken_guarantees_are_caught(plan, draws, audits):
    """Null: the guarantee is kept. Seeded audits; all but one must refute it."""
    assert sum(audit(plan, draws, seed=seed).refuted for seed in range(audits)) >= audits - 1


@pytest.mark.parametrize(
    "plan",
    [
        count(),
        flips(FLIPS, 4.0),
        claimed(ut.DiscreteLaplace(ut.Count(1), 1.0), ACTIVITY, 1.0, against="informed"),
        claimed(ut.DiscreteLaplace(ut.Count("a"), 3.0), Groups(3), 1.0),
    ],
    ids=["count", "flips", "informed", "groups"],
)
@AUDITS
def test_kept_guarantees_are_spared(plan, audits, alarms):
    """Null: the guarantee is kept (leakage at most epsilon, see SCALE and FLIPS).

    Seeded audits at 95% confidence, a false alarm in 5% of them at most: more than 3 of 8, and
    more than 7 of 40, have a probability below 1e-3.
    """
    found = [audit(plan, 2000, seed=seed) for seed in range(audits)]
    assert sum(one.refuted for one in found) <= alarms
    assert max(one.lower for one in found) > 0.15 * plan.limit


def test_real_plans_with_real_noise():
    plan = ut.calibrate(ut.Count(1), ACTIVITY, limit=1.0)
    found = audit(plan, 2000)
    assert found.randomness == "secure"
    assert 0.2 < found.lower < 1.4
    again = audit(ut.Plan.from_json(plan.to_json()), 2000, seed=3)
    assert again == audit(plan, 2000, seed=3)
    assert again.randomness == "insecure, seed 3"


def test_the_published_mechanism_is_audited_against_what_was_asked():
    plan = ut.calibrate(ut.Series(), LAZY, limit=4.0, method="chakrabarti")
    assert plan.leakage.upper > 4.5
    found = audit(plan, 20_000, seed=1)
    assert found.limit == 4.0
    assert found.attacks > 5
    assert 2 < found.lower < 4.6


# --- a black box ----------------------------------------------------------------------------------


def test_any_code_can_be_on_trial():
    plan = count()
    honest = audit(plan, 2000, seed=1, mechanism=_noisy(plan.mechanism.scale))
    assert not honest.refuted
    assert honest.randomness == "that of the mechanism given"
    assert audit(plan, 2000, seed=1, mechanism=_noisy(0.3)).refuted
    bare = audit(plan, 2000, seed=1, mechanism=lambda series: series.sum(axis=1))
    assert bare.refuted
    assert bare.lower > 4


def _noisy(scale):
    draw = np.random.default_rng(5)
    return lambda series: series.sum(axis=1) + draw.laplace(0, scale, len(series))


def test_a_protected_record_that_shows_at_times_is_noticed():
    draw = np.random.default_rng(5)
    plan = erased()
    honest = blackbox.release_code(plan, plan.states)

    def leaky(series):
        shown = honest(series)
        slips = draw.random(len(series)) < 0.1
        shown[slips, 4] = series[slips, 4]
        return shown

    assert not audit(plan, 4000, seed=1).refuted
    assert audit(plan, 4000, seed=1, mechanism=leaky).refuted


@pytest.mark.parametrize(
    "broken",
    [
        lambda series: None,
        lambda series: series[:-1].sum(axis=1),
        lambda series: [["a"]] * len(series),
    ],
    ids=["nothing", "too few", "words"],
)
def test_answers_that_are_none_are_refused(broken):
    with pytest.raises(InvalidInput, match="must return a row of numbers"):
        audit(count(), 1000, mechanism=broken)


@pytest.mark.parametrize(
    "broken",
    [
        lambda series: series[:, 1:],
        lambda series: series + 2,
        lambda series: series.astype(float),
        lambda series: series.astype(int) - 1,
    ],
)
def test_outputs_that_are_none_are_refused(broken):
    with pytest.raises(InvalidInput, match="an output for each of"):
        audit(flips(FLIPS, 4.0), 1000, mechanism=broken)


# --- attacks stay within the guarantee ------------------------------------------------------------


def known_sets(plan, drawn=None):
    drawn = drawn_models(plan)[0] if drawn is None else drawn
    return [(one.target, tuple(record for record, _ in one.known)) for one in attacks(plan, drawn)]


def test_attacks_respect_the_adversary():
    assert {known for _, known in known_sets(count(against="ignorant"))} == {()}
    everyone = tuple(record for record in range(60) if record != 30)
    assert set(known_sets(count(against="informed"))) == {(30, everyone)}
    one = ut.Adversary(7, known=[3, 12])
    assert set(known_sets(count(against=one))) == {(7, (3, 12))}
    found = known_sets(count())
    assert found[0] == (30, ())
    assert all(29 in known for _, known in found if len(known) == 59)
    assert (30, tuple(r for r in range(60) if abs(r - 30) >= 4)) in found


def test_attacks_respect_the_secrets():
    three = ut.MarkovChain(np.full((3, 3), 1 / 3), states=("a", "b", "c"), length=9)
    secret = ut.Pairs([("a", "c")], records=[2])
    plan = claimed(ut.DiscreteLaplace(ut.Count("a"), 2.0), three, 1.0, secret=secret)
    found = attacks(plan, drawn_models(plan)[0])
    assert {one.target for one in found} == {2}
    assert {frozenset((one.value, one.other)) for one in found} == {frozenset("ac")}
    free = claimed(ut.DiscreteLaplace(ut.Count("a"), 2.0), three, 1.0)
    pairs = {frozenset((one.value, one.other)) for one in attacks(free, drawn_models(free)[0])}
    assert pairs == {frozenset("ab"), frozenset("ac"), frozenset("bc")}


def test_the_witness_comes_first():
    witness = Witness(12, 60, ((3, 1), (20, 1)), 0, 1)
    found = attacks(count(witness=witness), DrawnModel(ACTIVITY, 60))
    assert (found[0].target, dict(found[0].known)[3], found[0].value) == (12, 1, 0)
    assert set(dict(found[0].known)) == {*range(4), *range(20, 60)}
    assert found[1].known == witness.known
    assert len(found) <= MOST_ATTACKS
    local = flips(FLIPS, 4.0, witness=Witness(8, 40, ((0, 1), (16, 1)), 0, 1))
    assert attacks(local, drawn_models(local)[0])[0].known == ((0, 1), (16, 1))
    foreign = count(witness=Witness(12, 60, (), "x", "y"))
    assert attacks(foreign, DrawnModel(ACTIVITY, 60))[0].target == 30


def test_periodic_chains():
    chain = ut.MarkovChain([[0.0, 1.0], [1.0, 0.0]], start=[0.5, 0.5], length=6)
    plan = claimed(ut.DiscreteLaplace(ut.Count(1), 1.0), chain, 1.0)
    assert audit(plan, 1000, seed=1).verdict == "consistent"


# --- models ---------------------------------------------------------------------------------------

NETWORK = BayesianNetwork([("a", "b")], {"a": [0.9, 0.1], "b": [[0.9, 0.1], [0.5, 0.5]]})
PAIR = MultivariateGaussian(1, [[1, 0.5], [0.5, 1]])


@pytest.mark.parametrize(
    ("query", "model", "right"),
    [
        (ut.Count(1), NETWORK, 2.0),
        (ut.Count("ill"), Contagion(3, 0.1, (0.1, 0.5)), 3.0),
        (ut.Count("BB"), Pedigree({"kim": ("bob", None), "lee": ("bob", "ann")}, (0.05, 0.5)), 4.0),
        (ut.Sum(0, 2), PAIR, 4.0),
        (ut.Mean(0, 2), PAIR, 2.0),
        (ut.Linear([1.0, 1.0], 2.0, 0.0), PAIR, 4.0),
        (ut.Sum(0, 2), GaussianClass(3, 0.3), 6.0),
        (ut.Count("a"), Groups(3), 3.0),
        (ut.Sum(0, 2), Groups(2), 4.0),
        (ut.Count(1), ut.MarkovChain.box([[0.87, 0.11], [0.29, 0.68]],
                                         [[0.89, 0.13], [0.32, 0.71]]), 5.0),
        (ut.Count(1), ut.ModelSet([ACTIVITY, ut.MarkovChain([[0.6, 0.4], [0.4, 0.6]], length=60)]),
         5.0),
    ],
    ids=str,
)  # fmt: skip
def test_models_of_every_kind(query, model, right):
    """Enough noise is spared and a fifth of it is refuted, on one fixed seed each."""
    plan = claimed(ut.Laplace(query, right), model, 1.0)
    assert not audit(plan, 4000, seed=1).refuted
    quiet = dataclasses.replace(plan, mechanism=ut.Laplace(query, right / 5))
    assert audit(quiet, 4000, seed=1).refuted


@pytest.mark.parametrize(
    ("plan", "error", "words"),
    [
        (claimed(ut.Laplace(ut.Count(1), 9.0), MixingClass(2, 0.1, 0.2, 50), 1.0, "ignorant"),
         NotSupported, "MixingClass"),
        (claimed(ut.Laplace(ut.Linear([1.0, 1.0], 3.0), 9.0), PAIR, 1.0), NotSupported, "lower="),
        (claimed(ut.Laplace(ut.Query(max), 9.0), ACTIVITY, 1.0), NotSupported, "lattice"),
        (claimed(ut.Laplace(ut.Histogram(), 9.0), Groups(2), 1.0), NotSupported, "Histogram"),
        (claimed(ut.Laplace(ut.Histogram(), 9.0), PAIR, 1.0), NotSupported, "Sum, Mean or Linear"),
        (claimed(ut.RandomizedResponse.binary(0.25, 0.25), NETWORK, 2.0), NotSupported,
         "Markov chain"),
        (claimed(ut.RandomizedResponse.binary(0.3, 0.1), LAZY, 9.0), InvalidPlan, "2^-53"),
        (claimed(ut.DiscreteLaplace(ut.Count(1), 1.0),
                  ut.MarkovChain([[1.0, 0.0], [0.0, 1.0]], start=[1, 0], length=5), 1.0),
         NothingToProtect, "nothing to tell apart"),
    ],
)  # fmt: skip
def test_what_cannot_be_audited_is_refused(plan, error, words):
    with pytest.raises(error, match=words.replace("^", r"\^")):
        audit(plan, 1000, seed=1)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"draws": 999}, "draws must be at least 1000"),
        ({"draws": 1e6}, "whole number"),
        ({"confidence": 1.0}, "between 0 and 1"),
        ({"limit": -1.0}, "limit must be positive"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_arguments(more, words):
    with pytest.raises(InvalidInput, match=words):
        audit(count(), **more)
    with pytest.raises(InvalidInput, match="a Plan is required"):
        audit("plan")  # type: ignore[arg-type]


# --- what is told ---------------------------------------------------------------------------------


def test_what_an_audit_says():
    told = []
    found = audit(count(0.2), 3000, seed=1, progress=lambda done, of: told.append((done, of)))
    assert isinstance(found, Audit)
    assert found.words().startswith("refuted: with 95% confidence the leakage is at least ")
    assert "records 0 to " in found.attack_words() or "nothing known" in found.attack_words()
    assert "attack: target record 30 of 60" in str(found)
    body = found.to_dict()
    assert json.loads(json.dumps(body)) == body
    assert body["verdict"] == "refuted"
    assert body["draws"] == 3000
    assert told[-1][0] == found.series
    assert all(done <= of for done, of in told)
    consistent = audit(count(), 1000, seed=1, limit=9.0, confidence=0.9)
    assert consistent.words().startswith("consistent with the guarantee of 9")
    assert "90% confidence" in consistent.words()
