"""Leakages far below 1: logarithms of ratios near 1 err absolutely, and the ends must pay."""

import itertools
from decimal import Decimal, localcontext
from itertools import combinations, product

import numpy as np
import pytest

import undertow as ut
from tests.grids import each

LEVELS = [1e-6, 1e-8, 1e-9, 1e-10, 1e-12]


def chain(seed, size=2, records=4):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(size), size)
    return ut.MarkovChain(rows, start=rng.dirichlet(np.ones(size)), length=records)


def laws(model):
    """Every series with its probability, in 60 digits."""
    start = [Decimal(float(p)) for p in model.initial]
    steps = [[Decimal(float(p)) for p in row] for row in model.transition]
    for series in product(range(model.size), repeat=model.length):
        likely = start[series[0]]
        for x, y in itertools.pairwise(series):
            likely *= steps[x][y]
        yield series, likely


def odds(model, target, known, value, weight):
    """Pr[output | known, target = value] for an output of the given likelihood."""
    mass = total = Decimal(0)
    for series, likely in laws(model):
        if series[target] == value and all(series[r] == v for r, v in known):
            mass, total = mass + likely * weight(series), total + likely
    return mass / total


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(6))
def test_a_witness_of_all_algorithms_attains_the_lower_end(seed, level):
    """The witness's algorithm has likelihood exp(level #{t : x_t in S_t})."""
    model = chain(seed, size=2 + seed % 2)
    leak = ut.leakage(ut.PureDP(level), model)
    attack = leak.witness
    sets = dict(attack.sets)
    with localcontext() as context:
        context.prec = 60

        def weight(series):
            inside = sum(series[record] in states for record, states in sets.items())
            return (Decimal(level) * inside).exp()

        reached = [
            odds(model, attack.target, attack.known, value, weight)
            for value in (attack.value, attack.other)
        ]
        truth = (reached[0] / reached[1]).ln()
        assert Decimal(leak.lower) <= truth <= Decimal(leak.upper)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(3))
def test_counts_with_much_noise(seed, level):
    model = chain(seed)
    leak = ut.leakage(ut.DiscreteLaplace(ut.Count(1), 1 / level), model)
    with localcontext() as context:
        context.prec = 60
        rate = 1 / Decimal(1 / level)
        noise = {gap: (-rate * gap).exp() for gap in range(5)}
        table = list(laws(model))
        truth = Decimal(0)
        for target in range(4):
            others = [record for record in range(4) if record != target]
            for known in (k for size in range(4) for k in combinations(others, size)):
                for values in product(range(2), repeat=len(known)):
                    parts = []
                    for value in range(2):
                        part = [
                            (likely, sum(series))
                            for series, likely in table
                            if series[target] == value
                            and all(series[r] == v for r, v in zip(known, values, strict=True))
                        ]
                        total = sum(likely for likely, _ in part)
                        parts.append([
                            sum(likely * noise[abs(count - s)] for likely, count in part) / total
                            for s in range(5)
                        ])  # fmt: skip
                    ratios = [a / b for a, b in zip(*parts, strict=True)]
                    truth = max(truth, *(abs(ratio.ln()) for ratio in ratios))
        assert Decimal(leak.lower) <= truth <= Decimal(leak.upper)


RARELY = {
    "leaves": lambda rare: [[0.5, 0.5], [rare, 1.0]],
    "stays": lambda rare: [[1.0, rare], [rare, 1.0]],
    "alternates": lambda rare: [[rare, 1.0], [1.0, rare]],
}


@each(
    ("rare", "method", "rows", "against"),
    [1e-15, 1e-18, 1e-40, 1e-99], ["best", "optimal", "mq", "3r-constant"], RARELY,
    ["any", "ignorant"],
)  # fmt: skip
def test_redactions_on_chains_that_hardly_ever_step(rare, method, rows, against):
    """A plan that keeps its guarantee, or a reason; such chains used to divide by zero."""
    chain = ut.MarkovChain(RARELY[rows](rare))
    try:
        plan = ut.calibrate(ut.Redacted(protect=2, length=6), chain, 1.0, against, method=method)
    except ut.errors.NotSupported:
        return
    assert plan.leakage.proves(1.0)
    assert 0 <= plan.utility <= 1
