"""Leakages far below 1: both ends against sums in sixty digits."""

import itertools
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations, pairwise, product

import numpy as np
import pytest

import undertow as ut
from tests.grids import each
from tests.oracles.exact import leakage as oracle
from undertow.bounds.levels.replay import replay_count, replay_pure_dp
from undertow.bounds.levels.sides import build_side_laws
from undertow.bounds.levels.sweep import Problems, capped, open_gains
from undertow.bounds.memory.second_order import second_order_leakage
from undertow.certificate import Leakage, Witness
from undertow.models.second_order import SecondOrderChain

Law = Mapping[tuple[int, ...], Decimal]
LEVELS = [10.0**-exponent for exponent in range(5, 14)]


@pytest.fixture(autouse=True)
def _sixty_digits() -> Iterator[None]:
    with localcontext() as context:
        context.prec = 60
        yield


def exact(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def drawn(rng: np.random.Generator) -> list[Fraction]:
    part = Fraction(int(rng.integers(1, 64)), 64)
    return [part, 1 - part]


def chain_and_law(rng: np.random.Generator, n: int) -> tuple[ut.MarkovChain, Law]:
    """A chain on two states and the exact law of n of its records."""
    matrix = [drawn(rng), drawn(rng)]
    start, given = drawn(rng), bool(rng.random() < 0.5)
    if not given:
        leave, back = matrix[0][1], matrix[1][0]
        start = [back / (leave + back), leave / (leave + back)]
    law = {}
    for series in product((0, 1), repeat=n):
        weight = start[series[0]]
        for one, two in pairwise(series):
            weight *= matrix[one][two]
        law[series] = exact(weight)
    floats = [[float(entry) for entry in row] for row in matrix]
    begin = [float(entry) for entry in start] if given else "stationary"
    return ut.MarkovChain(floats, start=begin, length=n), law


def worst_dp(law: Law, n: int, epsilon: float, against: str) -> Decimal:
    """What all epsilon-DP algorithms leak: over product likelihoods, a set for each record."""
    step, best = Decimal(epsilon).exp(), Decimal(1)
    for target in range(n):
        others = [record for record in range(n) if record != target]
        sizes = range(n) if against == "any" else [0]
        for known in (k for size in sizes for k in combinations(others, size)):
            free = [record for record in range(n) if record not in known]
            cases: dict[tuple[int, ...], dict[int, list[tuple[int, ...]]]] = {}
            for series in law:
                facts = cases.setdefault(tuple(series[record] for record in known), {})
                facts.setdefault(series[target], []).append(series)
            for values in cases.values():
                for favoured in product((0, 1), repeat=len(free)):
                    means = []
                    for possible in values.values():
                        total, prior = Decimal(0), Decimal(0)
                        for s in possible:
                            hits = sum(s[r] == f for r, f in zip(free, favoured, strict=True))
                            total, prior = total + law[s] * step**hits, prior + law[s]
                        means.append(total / prior)
                    best = max(best, max(means) / min(means))
    return best.ln()


def holds(leak: Leakage, truth: Decimal) -> bool:
    return Decimal(leak.lower) <= truth <= Decimal(leak.upper)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_dp_algorithms(level, against):
    rng = np.random.default_rng(round(-math.log10(level)))
    for trial in range(8):
        n = 2 + trial % 3
        chain, law = chain_and_law(rng, n)
        leak = ut.leakage(ut.PureDP(level), chain, against)
        assert holds(leak, worst_dp(law, n, level, against))
        assert leak.lower >= 0.99 * leak.upper - 1e-12


@each(("against", "level"), ["any", "ignorant", "informed"], LEVELS)
def test_counts_and_histograms(level, against):
    rng = np.random.default_rng(round(-math.log10(level)))
    width = Decimal(1 / level)
    for trial in range(4):
        n = 2 + trial % 2
        chain, law = chain_and_law(rng, n)

        def count(series, answer):
            return (-abs(Decimal(answer) - series.count(0)) / width).exp()

        def histogram(series, answer):
            off = sum(abs(Decimal(answer[state]) - series.count(state)) for state in (0, 1))
            return (-off / width).exp()

        truth = oracle(law, count, range(n + 1), against)
        for noise in (ut.Laplace, ut.DiscreteLaplace):
            assert holds(ut.leakage(noise(ut.Count(0), scale=1 / level), chain, against), truth)
        answers = list(product(range(-1, n + 2), repeat=2))
        truth = oracle(law, histogram, answers, against)
        assert holds(ut.leakage(ut.Laplace(ut.Histogram(), scale=1 / level), chain, against), truth)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("against", ["any", "ignorant", "informed"])
def test_flips(level, against):
    rng = np.random.default_rng(round(-math.log10(level)))
    keep = 0.5 + level / 2
    flips = [[keep, 1 - keep], [1 - keep, keep]]

    def likelihood(series, output):
        return math.prod(
            (Decimal(flips[x][z]) for x, z in zip(series, output, strict=True)), start=Decimal(1)
        )

    for n in (2, 3):
        chain, law = chain_and_law(rng, n)
        truth = oracle(law, likelihood, list(product((0, 1), repeat=n)), against)
        assert holds(ut.leakage(ut.RandomizedResponse(flips), chain, against), truth)


@pytest.mark.parametrize("level", LEVELS)
def test_order_two_against_the_informed(level):
    """The level of the flips themselves, whatever the chain."""
    keep = 0.5 + level / 2
    chain = SecondOrderChain([[[0.5, 0.5], [0.25, 0.75]], [[0.75, 0.25], [0.5, 0.5]]], length=4)
    flips = ut.RandomizedResponse([[keep, 1 - keep], [1 - keep, keep]])
    truth = (Decimal(keep) / Decimal(1 - keep)).ln()
    leak = second_order_leakage(flips, chain, "informed")
    assert holds(leak, truth)
    assert leak.lower >= 0.9 * leak.upper - 1e-13


@pytest.mark.parametrize("level", LEVELS)
def test_trees(level):
    rng = np.random.default_rng(round(-math.log10(level)))
    for _ in range(4):
        root, tables = drawn(rng), [[drawn(rng), drawn(rng)] for _ in range(2)]
        law = {
            series: exact(
                root[series[0]] * tables[0][series[0]][series[1]] * tables[1][series[0]][series[2]]
            )
            for series in product((0, 1), repeat=3)
        }
        network = ut.BayesianNetwork(
            [("a", "b"), ("a", "c")],
            {
                "a": [float(x) for x in root],
                "b": [[float(x) for x in row] for row in tables[0]],
                "c": [[float(x) for x in row] for row in tables[1]],
            },
        )
        assert network.observed == ("a", "b", "c")
        for against in ("any", "ignorant"):
            leak = ut.leakage(ut.PureDP(level), network, against)
            assert holds(leak, worst_dp(law, 3, level, against))


def test_replays_are_rounded_down():
    chain = ut.MarkovChain([[0.75, 0.25], [0.5, 0.5]], start=[0.5, 0.5], length=2)
    attack = Witness(0, 2, ((1, 0),), value=0, other=1, sets=((0, (0,)),), output=1)
    assert replay_pure_dp(attack, chain, 1e-9) <= 1e-9
    assert replay_count(attack, chain, [0], 1e9)[1] <= 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_sides_that_forget_slowly_are_closed_by_their_growth(seed):
    """Sticky chains: what the growth test caps is not below what very long sides attain."""
    rng = np.random.default_rng(seed)
    rare = 10.0 ** rng.uniform(-4, -2.5)
    kernel = (1 - rare) * np.kron(np.eye(2), np.full((2, 2), 0.5)) + rare * rng.dirichlet(
        np.ones(4), 4
    )
    problems = Problems(
        build_side_laws(ut.MarkovChain(kernel), 1), np.array([1]), np.array([0]), np.array([2]),
        float(rng.choice([1e-3, 0.02])),
    )  # fmt: skip
    gain = open_gains(problems, 16_384, np.zeros(1))
    assert capped(problems, gain * (1 + 1e-4)).all()
    assert not capped(problems, gain * (1 - 1e-6)).any()


TINY = [1e-6, 1e-8, 1e-9, 1e-10, 1e-12]


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


@pytest.mark.parametrize("level", TINY)
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


@pytest.mark.parametrize("level", TINY)
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
