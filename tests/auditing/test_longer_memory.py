"""Attacks and audits on chains of order two and hidden chains."""

import itertools
import math

import numpy as np
import pytest

import undertow as ut
from undertow.auditing.attackers import answer_posteriors, given_others
from undertow.auditing.inference import posteriors, viterbi
from undertow.auditing.scenarios import ChainSource
from undertow.certificate import Leakage
from undertow.errors import InvalidInput

SECOND = ut.MarkovChain.second_order([[[0.9, 0.1], [0.4, 0.6]], [[0.8, 0.2], [0.1, 0.9]]])
HIDDEN = ut.HiddenChain([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]], (0, 1, 0), (0, 1))
MODELS = pytest.mark.parametrize("model", [SECOND, HIDDEN], ids=["second order", "hidden"])
FLIPS = ut.RandomizedResponse.binary(0.2, 0.3)


def shown_law(model, outputs, known=None):
    """Pr[records, outputs, known records] of all records, by enumeration."""
    law = model.joint(len(outputs)).copy()
    for records in itertools.product((0, 1), repeat=len(outputs)):
        law[records] *= math.prod(FLIPS.matrix[x, z] for x, z in zip(records, outputs, strict=True))
        if any(records[t] != value for t, value in (known or {}).items()):
            law[records] = 0
    return law


def marginals(law):
    axes = range(law.ndim)
    rows = [law.sum(axis=tuple(a for a in axes if a != t)) for t in axes]
    return np.array(rows) / law.sum()


@MODELS
def test_posteriors_are_those_of_the_enumerated_law(model):
    outputs, known = [0, 1, 1, 0, 1], {3: 1}
    assert np.allclose(posteriors(outputs, FLIPS, model), marginals(shown_law(model, outputs)))
    found = posteriors(outputs, FLIPS, model, known=known)
    assert np.allclose(found, marginals(shown_law(model, outputs, known)))
    law = shown_law(model, outputs)
    likeliest = np.unravel_index(int(law.argmax()), law.shape)
    path = viterbi(outputs, FLIPS, model)
    # the likeliest hidden series shows records that are among the likeliest ones
    assert law[tuple(path)] > 0.4 * law[likeliest]


@MODELS
def test_noise_that_is_a_chain_is_hidden_with_the_chain(model):
    noise = ut.XorNoise(0.1, 0.2)
    rows = posteriors([0, 1, 1, 0], noise, model)
    law = model.joint(4)
    flips = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    total = np.zeros_like(law)
    for records in itertools.product((0, 1), repeat=4):
        flip = [x ^ z for x, z in zip(records, [0, 1, 1, 0], strict=True)]
        steps = [flips.transition[a, b] for a, b in itertools.pairwise(flip)]
        total[records] = law[records] * flips.initial[flip[0]] * math.prod(steps)
    assert np.allclose(rows, marginals(total))


@MODELS
def test_answers_are_weighed_with_the_whole_law(model):
    noise = ut.Laplace(ut.Count(1), 1.5)
    found = answer_posteriors(3.2, noise, model, 4, known={0: 1})[0]
    law = model.joint(4).copy()
    for records in itertools.product((0, 1), repeat=4):
        law[records] *= math.exp(-abs(3.2 - sum(records)) / 1.5) * (records[0] == 1)
    assert np.allclose(found, marginals(law))


@MODELS
def test_all_others_known_is_the_law_given_them(model):
    truth = np.array([0, 1, 1, 0, 0])
    found = given_others(model, truth, np.array([5]))
    law = model.joint(5)
    for record in range(5):
        where = tuple(slice(None) if t == record else truth[t] for t in range(5))
        assert found[record] == pytest.approx(law[where] / law[where].sum())


@MODELS
def test_series_are_drawn_given_what_is_known(model):
    draw = ChainSource(model, 4).given({1: 1})(20_000, np.random.default_rng(3))
    law = model.joint(4)[:, 1]
    law = law / law.sum()
    counts = np.zeros((2, 2, 2))
    np.add.at(counts, (draw[:, 0], draw[:, 2], draw[:, 3]), 1)
    assert (draw[:, 1] == 1).all()
    # chi-square with 7 degrees of freedom: beyond 35 with probability 1e-5
    assert ((counts - 20_000 * law) ** 2 / (20_000 * law)).sum() < 35


def plan_of(mechanism, model, against="any"):
    """A plan with the leakage that is proved for the DP level of its mechanism."""
    leak = ut.leakage(ut.PureDP(mechanism.level_upper(None)), model, against)
    return ut.Plan(mechanism, model, leak.upper, leak, "exchange")


LIVELY = ut.MarkovChain.second_order(
    [[[0.7, 0.3], [0.4, 0.6]], [[0.6, 0.4], [0.3, 0.7]]], length=16
)
RISING = ut.HiddenChain([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]], (0, 0, 1))


@pytest.mark.parametrize(("model", "against"), [(LIVELY, "any"), (RISING, "ignorant")])
def test_release_attack_and_audit_a_plan(model, against):
    plan = plan_of(ut.DiscreteLaplace(ut.Count(1), 8.0), model, against)
    truth = model.simulate(model.length or 40, seed=1)
    released = ut.release(plan, truth, insecure_seed=1)
    found = ut.attack(released, plan, truth, attackers=["prior", "bayes", "informed"])
    assert [verdict.covers for verdict in found.verdicts] == [True, True, against == "any"]
    assert not any(verdict.exceeds() for verdict in found.verdicts)
    assert not ut.audit(plan, 1000, seed=1).refuted
    said = str(released.report())
    assert "as long as each record depends on those before it" in said
    assert ("the last two" if against == "any" else "a hidden state") in said


def test_a_claim_that_forgets_the_memory_is_refuted():
    flips = ut.RandomizedResponse.binary(0.0625, 0.0625)
    claimed = Leakage(0.0, 2.71, "informed", "any")  # ln 15: what one record by itself says
    plan = ut.Plan(flips, SECOND, 2.71, claimed, "exchange")
    found = ut.audit(plan, 6000, seed=2)
    assert found.refuted
    truth = SECOND.simulate(300, seed=3)
    shown = [
        x ^ bool(flip)
        for x, flip in zip(truth, np.random.default_rng(4).random(300) < 0.0625, strict=True)
    ]
    guesses = ut.attack([int(x) for x in shown], plan, truth, attackers=["correlation-aware"])
    assert guesses.verdicts[0].accuracy > 0.9


def test_models_without_a_chain_are_refused():
    with pytest.raises(InvalidInput, match="order two"):
        posteriors([0, 1], FLIPS, ut.Groups(2, states=(0, 1)))
