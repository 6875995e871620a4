"""Leakages on hidden chains, held against enumeration of all outputs, sets and values."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

import undertow as ut
from undertow import diagnostics
from undertow.errors import NotSupported
from undertow.models.attractive import hidden_margin, is_attractive

RISING = ut.HiddenChain([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]], (0, 0, 1))
FLIPS = ut.RandomizedResponse.binary(0.2, 0.3)
REGIMES = [
    [0.96, 0.02, 0.02, 0.0], [0.02, 0.62, 0.2, 0.16], [0.18, 0.34, 0.47, 0.01],
    [0.0, 0.18, 0.0, 0.82],
]  # fmt: skip
"""Regimes of an activity record: not attractive."""


def second(a, b, c, d):
    """The chain of order two with these probabilities of 1 after 00, 01, 10, 11."""
    return ut.MarkovChain.second_order([[[1 - a, a], [1 - b, b]], [[1 - c, c], [1 - d, d]]])


def enumerated(law, likelihoods, target, known=()):
    """The largest |ln Pr[z | x, known] / Pr[z | x', known]| over outputs and known values.

    ``likelihoods[t]`` lists what is seen of record t, each as weights of its two states.
    """
    size = law.ndim
    best = 0.0
    for values in itertools.product((0, 1), repeat=len(known)):
        where = [slice(None)] * size
        for record, value in zip(known, values, strict=True):
            where[record] = slice(value, value + 1)
        part = law[tuple(where)]
        others = [t for t in range(size) if t not in known]
        for shown in itertools.product(*(likelihoods for _ in others)):
            seen = part
            for record, weights in zip(others, shown, strict=True):
                shape = [1] * size
                shape[record] = 2
                seen = seen * np.reshape(weights, shape)
            axes = tuple(t for t in range(size) if t != target)
            gain = np.log(seen.sum(axis=axes)) - np.log(part.sum(axis=axes))
            best = max(best, abs(gain[1] - gain[0]))
    return best


@pytest.mark.parametrize("chain", [RISING, ut.HiddenChain.of(second(0.12, 0.5, 0.2, 0.58))])
def test_the_closed_form_is_the_limit_of_enumerated_series(chain):
    columns = [*FLIPS.matrix.T]
    exact = [enumerated(chain.joint(n), columns, n // 2) for n in (1, 3, 5, 7)]
    leak = ut.leakage(FLIPS, chain, "ignorant")
    assert exact == sorted(exact)
    assert exact[-1] <= leak.upper
    assert leak.upper - leak.lower < 1e-8
    # what is missing falls by the same factor with two more records, or faster
    gaps = leak.upper - np.array(exact)
    assert (gaps > 0).all()
    assert gaps[3] < 0.8 * gaps[2] < 0.8**2 * gaps[1] * 1.01


def test_no_likelihood_of_a_level_does_better():
    """The linear program over all likelihoods of a level, n = 4, against the tilted product."""
    law, level = RISING.joint(4), 1.0
    points = list(itertools.product((0, 1), repeat=4))
    target = 1
    rows = []
    for x in range(16):
        for y in range(16):
            if sum(a != b for a, b in zip(points[x], points[y], strict=True)) == 1:
                row = np.zeros(16)
                row[x], row[y] = 1.0, -math.exp(level)
                rows.append(row)
    masses = [np.array([law[p] * (p[target] == v) for p in points]) for v in (0, 1)]
    masses = [mass / mass.sum() for mass in masses]
    best = 0.0
    for one, two in (masses, masses[::-1]):
        done = linprog(
            -one, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=two[None], b_eq=[1]
        )
        best = max(best, math.log(-done.fun))
    weights = [np.array([1.0, math.exp(level)]), np.array([math.exp(level), 1.0])]
    products = enumerated(law, weights, target)
    assert best == pytest.approx(products, rel=1e-9)
    assert best <= ut.leakage(ut.PureDP(level), RISING, "ignorant").upper


@pytest.mark.parametrize("level", [0.01, 1.0, 6.0])
def test_one_hidden_state_per_symbol_is_the_markov_chain(level):
    chain = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
    exact = ut.leakage(ut.PureDP(level), chain, "ignorant")
    copies = np.repeat(np.repeat(chain.transition / 2, 2, axis=0), 2, axis=1)
    hidden = ut.HiddenChain(copies, (0, 0, 1, 1))
    found = ut.leakage(ut.PureDP(level), hidden, "ignorant")
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    assert found.upper == pytest.approx(exact.upper, rel=1e-9)
    for against in ("any", "ignorant", "informed"):
        plain = ut.leakage(ut.PureDP(level), ut.HiddenChain.of(chain), against)
        assert plain.upper == ut.leakage(ut.PureDP(level), chain, against).upper
    attained = ut.leakage(ut.PureDP(level), hidden).lower
    assert attained == pytest.approx(ut.leakage(ut.PureDP(level), chain).upper, rel=1e-4)


def test_attacks_never_exceed_enumeration():
    """With a length the search is one of the enumerated attacks, and close to the best."""
    chain = ut.HiddenChain(RISING.transition, RISING.symbols, length=5)
    columns = [*FLIPS.matrix.T]
    law = chain.joint(5)
    others = [0, 1, 3, 4]
    exact = max(
        enumerated(law, columns, 2, known)
        for count in range(5)
        for known in itertools.combinations(others, count)
    )
    found = ut.leakage(FLIPS, chain)
    assert found.lower <= exact + 1e-12
    assert found.lower >= 0.999 * exact
    assert found.upper >= exact
    witness = found.witness
    assert (witness.target, witness.length) == (2, 5)
    assert {record for record, _ in (*witness.known, *witness.outputs)} <= set(range(5))


def replayed(chain, witness, level):
    """What the algorithm of a witness reveals, by one pass over its records for each value."""
    sums = []
    for value in (witness.value, witness.other):
        pair = []
        for seen in (True, False):
            known, sets = dict(witness.known) | {witness.target: value}, dict(witness.sets)
            message, total = chain.initial, 0.0
            for record in range(witness.length):
                weights = np.array([
                    (known.get(record, symbol) == symbol)
                    * math.exp(level * (seen and symbol in sets.get(record, ())))
                    for symbol in chain.symbols
                ])  # fmt: skip
                message = (message if record == 0 else message @ chain.transition) * weights
                total, message = total + math.log(message.sum()), message / message.sum()
            pair.append(total)
        sums.append(pair[0] - pair[1])
    return sums[0] - sums[1]


@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_witnesses_attain_the_lower_end(against):
    regimes = ut.HiddenChain(REGIMES, (0, 0, 1, 1))
    for chain in (regimes, ut.HiddenChain(regimes.transition, regimes.symbols, length=30)):
        leak = ut.leakage(ut.PureDP(1.0), chain, against)
        assert replayed(chain, leak.witness, 1.0) == pytest.approx(leak.lower, abs=2e-9)
        assert leak.lower > 2


def test_counts_flips_and_levels_agree_where_they_must():
    level = ut.leakage(ut.PureDP(0.25), RISING, "ignorant")
    count = ut.leakage(ut.Laplace(ut.Count(1), scale=4.0), RISING, "ignorant")
    ratio = math.exp(0.25)
    flips = ut.RandomizedResponse.binary(1 / (1 + ratio), 1 / (1 + ratio))
    shown = ut.leakage(flips, RISING, "ignorant")
    assert count.upper == pytest.approx(level.upper, rel=1e-9)
    assert shown.upper == pytest.approx(level.upper, rel=1e-9)
    assert ut.leakage(ut.PureDP(0.25), RISING, "informed").upper == 0.25
    swapped = ut.HiddenChain(RISING.transition, RISING.symbols, states=(1, 0))
    assert ut.leakage(ut.PureDP(0.25), swapped, "ignorant").upper == pytest.approx(level.upper)


def test_total_positivity_is_exact():
    moved = [2, 0, 1]
    other = ut.HiddenChain(
        RISING.transition[np.ix_(moved, moved)], [RISING.symbols[s] for s in moved], (0, 1)
    )
    assert is_attractive(other).margin == is_attractive(RISING).margin > 0
    tipped = np.array(RISING.transition)
    tipped[0] = [0.3, 0.4, 0.3]  # equal rows: minors of exactly 0
    assert hidden_margin(tipped, [0, 0, 1]) == 0
    tipped[0] = [0.3, 0.4 - 2**-50, 0.3 + 2**-50]
    assert hidden_margin(tipped, [0, 0, 1]) < 0


def test_no_plan_is_made_without_an_upper_end():
    regimes = ut.HiddenChain(REGIMES, (0, 0, 1, 1))
    assert math.isinf(ut.leakage(ut.PureDP(1.0), regimes).upper)
    with pytest.raises(NotSupported, match=r"attractive=True.*by_context.*Groups"):
        ut.calibrate(ut.Count(1), regimes, limit=1.0, method="exchange")
    with pytest.raises(NotSupported, match="order two"):
        ut.dp_budget(regimes, limit=1.0)
    plan = ut.calibrate(ut.Count(1), RISING, limit=1.0, against="ignorant")
    assert plan.leakage.upper <= 1.0
    assert ut.Plan.from_json(plan.to_json()).model == RISING
    with pytest.raises(NotSupported, match="hidden chain"):
        ut.leakage(ut.XorNoise(0.1, 0.1), RISING)


def test_robustness_tries_longer_memories():
    chain = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
    plan = ut.calibrate(ut.Count(1), chain, limit=1.0)
    regimes = [[0.97, 0.02, 0.01, 0], [0.05, 0.6, 0.3, 0.05], [0.05, 0.3, 0.6, 0.05],
               [0, 0.01, 0.02, 0.97]]  # fmt: skip
    others = {"regimes": ut.HiddenChain(regimes, (0, 0, 1, 1)), "two": second(0.1, 0.5, 0.2, 0.8)}
    table = diagnostics.robustness(plan, factors=(), others=others)
    assert table.verdicts["regimes"] == "broken"
    assert table["regimes"].to_dict()["upper"] is None
    assert table["two"].leakage.lower > 0
