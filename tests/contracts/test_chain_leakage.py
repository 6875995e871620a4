"""Leakage, budgets and plans on Markov chains, judged through the public API by the oracle.

The oracle enumerates; it shares no code with what it oracles. Enumerated counts are right to
ROUNDING. Each linear program returns a value attained by an actual epsilon-DP likelihood, so it
must not exceed `upper` by more than ROUNDING, and is within PROGRAM of its optimum.
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import undertow as ut
from tests.contracts.chains import FAMILIES, POSITIVE, Example, adversary, example
from tests.grids import each, pairwise, thinned
from undertow.bounds.enumeration import (
    additive_noise_likelihood,
    adversaries,
    mechanism_leakage,
    pure_dp_adversary,
    pure_dp_leakage,
)

ROUNDING = 1e-12  # relative to max(1, value): sums of positive floats, logs of their ratios
PROGRAM = 1e-9  # how far the oracle lets a linear program be from its optimum
CLOSED = 1e-8  # how far apart the ends of an exact method may be
LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=12)

NAMED: tuple[Any, ...] = ("any", "ignorant", "informed")
ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
FOUR = [
    [0.7, 0.15, 0.1, 0.05],
    [0.1, 0.65, 0.2, 0.05],
    [0.05, 0.15, 0.7, 0.1],
    [0.1, 0.1, 0.2, 0.6],
]


def slack(value):
    return ROUNDING * max(1.0, value) if math.isfinite(value) else 0.0


def against_of(who):
    """The package's word for the oracle's adversary."""
    return who if isinstance(who, str) else ut.Adversary(*who)


def weights(size, states):
    return [int(state in states) for state in range(size)]


def dp_truth(family, k, n, seed, epsilon, who):
    return pure_dp_leakage(example(family, k, n, seed).joint, epsilon, who).leakage


def count_truth(chain: Example, states, scale, who):
    table = additive_noise_likelihood(weights(chain.size, states), scale, chain.length)
    return mechanism_leakage(chain.joint, table, who).leakage


def encloses(leak, truth, error=0.0):
    """The certified interval contains the truth, which the oracle may underestimate by `error`."""
    assert leak.lower <= truth + error + slack(truth)
    assert truth <= leak.upper + slack(truth)


def closed(leak):
    assert leak.lower <= leak.upper
    assert leak.upper - leak.lower <= CLOSED * max(1.0, leak.lower)


def evidence(joint, likelihood, known, target, value):
    """E[likelihood | known, target = value], summed data set by data set."""
    index = [slice(None)] * joint.ndim
    for record, fact in (*known, (target, value)):
        index[record] = fact
    weight = joint[tuple(index)]
    assert weight.sum() > 0
    return float((weight * likelihood[tuple(index)]).sum() / weight.sum())


# --- every epsilon-DP algorithm: the exchange rate against the linear program ---------------------


@pairwise(
    (("k", "n", "epsilon"), "family", "who"),
    [(2, 4, 1.0), (3, 3, 0.5), (2, 3, 3.0)], FAMILIES, NAMED,
)  # fmt: skip
def test_exchange_is_the_program(family, k, n, epsilon, who):
    chain = example(family, k, n)
    leak = ut.leakage(ut.PureDP(epsilon), chain.model(), against=who)
    encloses(leak, dp_truth(family, k, n, 0, epsilon, who), PROGRAM)
    closed(leak)


LONGER: list[Any] = [
    ("zeros", 3, 4, 6, 0.7),
    ("periodic", 4, 3, 8, 2.0),
    ("negative", 2, 5, 2, 2.0),
    ("generic", 2, 5, 1, 0.2),
    ("varying", 2, 5, 4, 1.0),
    ("sticky", 2, 5, 3, 1.0),
    ("varying", 3, 4, 5, 1.0),
    ("generic", 4, 3, 7, 1.0),
]


@pytest.mark.parametrize(
    ("family", "k", "n", "seed", "epsilon"),
    thinned([pytest.param(*case) for case in LONGER], keep=3),
)
def test_exchange_is_the_program_on_longer_chains(family, k, n, seed, epsilon):
    chain = example(family, k, n, seed)
    for who in ("any", "ignorant"):
        leak = ut.leakage(ut.PureDP(epsilon), chain.model(), against=who)
        encloses(leak, dp_truth(family, k, n, seed, epsilon, who), PROGRAM)
        closed(leak)


def judge_one_adversary(family, k, n, epsilon, seed):
    """A random adversary, every value that it may know, every pair."""
    chain = example(family, k, n, seed=10)
    who = adversary(chain, seed)
    leak = ut.leakage(ut.PureDP(epsilon), chain.model(), against=against_of(who))
    encloses(leak, pure_dp_leakage(chain.joint, epsilon, who).leakage, PROGRAM)
    closed(leak)


@pairwise(("family", ("k", "n", "epsilon"), "seed"), FAMILIES, [(2, 6, 1.0), (3, 5, 0.4)], [1, 2])
def test_exchange_for_one_adversary(family, k, n, epsilon, seed):
    judge_one_adversary(family, k, n, epsilon, seed)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "family", thinned(["varying-zeros", "generic", "negative"], keep=["varying-zeros"])
)
def test_exchange_for_one_adversary_of_four_states(family, seed):
    judge_one_adversary(family, 4, 4, 1.5, seed)


@pytest.mark.parametrize(
    ("family", "k", "n", "epsilon", "cases"),
    [
        ("generic", 2, 6, 2.0, 150),
        ("varying-zeros", 2, 6, 1.0, 150),
        ("generic", 3, 5, 1.0, 100),
        ("zeros", 3, 6, 0.5, 25),
        ("varying", 3, 6, 1.0, 25),
        ("generic", 4, 5, 1.0, 25),
        ("point-mass", 4, 5, 0.3, 25),
    ],
)
def test_no_sampled_adversary_beats_the_exchange(family, k, n, epsilon, cases):
    chain = example(family, k, n, seed=20)
    upper = ut.leakage(ut.PureDP(epsilon), chain.model()).upper
    every = list(adversaries(chain.joint))
    rng = np.random.default_rng(20)
    named: dict[tuple[int, tuple[int, ...]], float] = {}
    for number in rng.choice(len(every), size=cases, replace=False):
        case = every[number]
        x, other = case.pairs[rng.integers(len(case.pairs))]
        found = pure_dp_adversary(
            chain.joint, epsilon, case.target, case.known, case.values, x, other
        )
        assert found <= upper + slack(found)
        named[case[:2]] = max(found, named.get(case[:2], 0.0))
    for who, found in list(named.items())[:10]:
        leak = ut.leakage(ut.PureDP(epsilon), chain.model(), against=against_of(who))
        assert found <= leak.upper + slack(found)
        assert leak.upper <= upper + slack(upper)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("who", [*NAMED, (2, (0,)), (0, (2, 3)), (1, ())], ids=str)
def test_exchange_witness_attains_the_lower_end(family, who):
    chain = example(family, 3, 4, seed=30)
    leak = ut.leakage(ut.PureDP(0.9), chain.model(), against=against_of(who))
    if leak.lower == 0.0:
        return
    witness = leak.witness
    assert witness is not None
    assert witness.length == 4
    if not isinstance(who, str):
        assert witness.target == who[0]
        assert {record for record, _ in witness.known} <= set(who[1])
    if who == "ignorant":
        assert witness.known == ()
    exponent = np.zeros((3,) * 4)
    for record, states in witness.sets:
        inside = np.array([float(state in states) for state in range(3)])
        exponent += inside.reshape([-1 if axis == record else 1 for axis in range(4)])
    phi = np.exp(0.9 * exponent)
    top, bottom = (
        evidence(chain.joint, phi, witness.known, witness.target, value)
        for value in (witness.value, witness.other)
    )
    assert math.log(top / bottom) == pytest.approx(leak.lower, abs=1e-9)


# --- noisy counts: the exact method against enumeration -------------------------------------------


@pairwise(
    ("family", ("k", "n", "states"), "scale"),
    FAMILIES, [(2, 6, (1,)), (3, 5, (0, 2)), (4, 4, (2,)), (4, 5, (0, 3))], [0.25, 1.0, 5.0],
)  # fmt: skip
def test_counts_are_enumerated(family, k, n, states, scale):
    chain = example(family, k, n, seed=40)
    model = chain.model()
    for who in (*NAMED, adversary(chain, 1), adversary(chain, 2)):
        leak = ut.leakage(ut.Laplace(ut.Count(states), scale=scale), model, against=against_of(who))
        encloses(leak, count_truth(chain, states, scale, who))
        closed(leak)


@pytest.mark.parametrize("family", ["negative", "wavering", "generic", "varying", "point-mass"])
@pytest.mark.parametrize("who", [(1, (3,)), (3, (1,)), (0, (2,)), (5, (4,)), (2, (1, 4))], ids=str)
def test_unknown_records_beyond_the_known_ones_blur_a_count(family, who):
    """They say nothing about the target, yet they are counted: the output is less clear."""
    for k, n, seed in ((2, 6, 1), (2, 6, 2), (3, 6, 3)):
        chain = example(family, k, n, seed)
        for scale in (0.6, 7.0):
            noisy = ut.Laplace(ut.Count(0), scale=scale)
            leak = ut.leakage(noisy, chain.model(), against=against_of(who))
            encloses(leak, count_truth(chain, (0,), scale, who))


@pytest.mark.parametrize(
    ("family", "n", "seed", "who", "scale", "state"),
    [
        ("negative", 5, 437272, (1, (3,)), 7.14, 0),
        ("negative", 7, 123438, (1, (3, 6)), 7.97, 0),
        ("point-mass", 7, 685509, (5, (2,)), 1.845, 1),
        ("generic", 5, 920584, (3, (1,)), 14.7, 0),
        ("stationary", 7, 524494, (1, (3, 4, 5)), 4.82, 0),
    ],
)
def test_blurred_counts_found_by_search(family, n, seed, who, scale, state):
    """Among 40,000 random cases: the worst output lies inside the range, where blur matters."""
    chain = example(family, 2, n, seed)
    leak = ut.leakage(
        ut.Laplace(ut.Count(state), scale=scale), chain.model(), against=against_of(who)
    )
    encloses(leak, count_truth(chain, (state,), scale, who))


@pytest.mark.parametrize("seed", thinned(range(40), keep=10))
def test_intervals_close_on_time_varying_chains_with_zeros(seed):
    chain = example("varying-zeros", 2, 4 + seed % 3, seed)
    for who in NAMED:
        leak = ut.leakage(ut.Laplace(ut.Count(0), scale=2.5), chain.model(), against=who)
        encloses(leak, count_truth(chain, (0,), 2.5, who))
        closed(leak)
    for who in NAMED[1:]:
        leak = ut.leakage(ut.PureDP(0.4), chain.model(), against=who)
        encloses(leak, pure_dp_leakage(chain.joint, 0.4, who).leakage, PROGRAM)
        closed(leak)


@pytest.mark.parametrize(
    ("n", "seed", "who", "epsilon"),
    [
        (6, 246015, (2, (0, 5)), 6.0),
        (6, 485491, "ignorant", 6.0),
        (6, 540763, "ignorant", 0.8),
        (7, 100419, "ignorant", 0.4),
    ],
)
def test_exchange_intervals_found_open_by_search(n, seed, who, epsilon):
    """Some states are impossible at some times."""
    leak = ut.leakage(
        ut.PureDP(epsilon),
        example("varying-zeros", 2, n, seed).model(),
        against=against_of(who),
    )
    closed(leak)


@pytest.mark.parametrize("family", FAMILIES)
def test_discrete_counts_are_enumerated(family):
    chain = example(family, 3, 4, seed=50)
    for who in (*NAMED, adversary(chain, 3)):
        against = against_of(who)
        for scale in (0.5, 2.0):
            discrete = ut.DiscreteLaplace(ut.Count((1,)), scale=scale)
            leak = ut.leakage(discrete, chain.model(), against=against)
            encloses(leak, count_truth(chain, (1,), scale, who))
            closed(leak)
            smooth = ut.leakage(
                ut.Laplace(ut.Count(1), scale=scale), chain.model(), against=against
            )
            assert smooth.lower == pytest.approx(leak.lower, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("states", [(0, 1, 2)], ids=str)
def test_counting_every_state_reveals_nothing(states):
    chain = example("generic", 3, 4)
    leak = ut.leakage(ut.Laplace(ut.Count(states), scale=0.5), chain.model())
    encloses(leak, 0.0)
    assert leak.upper <= 1e-9


def count_replay(chain, states, scale, witness):
    """The log-ratio at `output`, counted from the smallest answer that the known records allow."""
    counted = np.array(weights(chain.size, states))
    total = sum(np.ix_(*[counted] * chain.length), start=np.zeros(chain.joint.shape))
    answer = witness.output + sum(value in states for _, value in witness.known)
    density = np.exp(-np.abs(answer - total) / scale)
    top, bottom = (
        evidence(chain.joint, density, witness.known, witness.target, value)
        for value in (witness.value, witness.other)
    )
    return math.log(top / bottom)


@pytest.mark.parametrize("family", POSITIVE)
@pytest.mark.parametrize("who", [*NAMED, (3, (1,)), (0, (4,))], ids=str)
def test_count_witness_attains_the_lower_end(family, who):
    chain, states, scale = example(family, 3, 5, seed=60), (1, 2), 0.8
    noisy = ut.Laplace(ut.Count(states), scale=scale)
    leak = ut.leakage(noisy, chain.model(), against=against_of(who))
    witness = leak.witness
    assert witness is not None
    if who == "informed":
        assert [record for record, _ in witness.known] == [
            record for record in range(5) if record != witness.target
        ]
    found = count_replay(chain, states, scale, witness)
    assert found == pytest.approx(leak.lower, abs=1e-10)


@pytest.mark.parametrize(
    ("n", "seed", "who", "scale", "state"),
    [
        (6, 135944, "any", 3.346488883906484, 0),
        (6, 416775, "any", 0.204394270679855, 1),
        (6, 527363, "any", 0.06938975304135273, 0),
        (7, 602838, (2, (0, 3, 4, 5)), 0.4641667551359358, 1),
    ],
)
def test_count_witness_lists_every_record_that_must_be_known(n, seed, who, scale, state):
    """A known record beyond the nearest one tells nothing of the target, but it is counted."""
    chain = example("generic", 2, n, seed)
    noisy = ut.Laplace(ut.Count(state), scale=scale)
    leak = ut.leakage(noisy, chain.model(), against=against_of(who))
    assert leak.witness is not None
    found = count_replay(chain, (state,), scale, leak.witness)
    assert found == pytest.approx(leak.lower, rel=1e-10)


@each(("family", "k"), FAMILIES, [2, 3, 4])
def test_a_count_leaks_no_more_than_its_dp_level_allows(family, k):
    chain = example(family, k, 5, seed=70)
    for who in NAMED:
        count = ut.leakage(ut.Laplace(ut.Count(0), scale=0.7), chain.model(), against=who)
        every = ut.leakage(ut.PureDP(1 / 0.7), chain.model(), against=who)
        assert count.lower <= every.upper + slack(every.upper)


# --- any length -----------------------------------------------------------------------------------


@pairwise(
    ("who", ("k", "lengths"), "family"),
    ["any", "ignorant"],
    [(2, (2, 3, 6, 8)), (3, (2, 4, 6))],
    ["stationary", "sticky", "wavering", "negative"],
)
def test_any_length_covers_every_length(family, k, lengths, who):
    series = example(family, k, 2, seed=80)
    free = ut.MarkovChain(series.transition)
    every = ut.leakage(ut.PureDP(0.6), free, against=who)
    assert every.lower <= every.upper
    for n in lengths:
        short = Example(family, series.transition, "stationary", n).model()
        leak = ut.leakage(ut.PureDP(0.6), short, against=who)
        assert leak.lower <= every.upper + slack(every.upper)


@pairwise(
    ("family", "who", ("k", "lengths")),
    ["stationary", "sticky", "wavering"], NAMED, [(2, (2, 3, 6, 8)), (3, (2, 4, 6))],
)  # fmt: skip
def test_any_length_of_a_count_covers_every_length(family, who, k, lengths):
    """Short series may leak more than long ones: an unknown record blurs a count."""
    series = example(family, k, 2, seed=80)
    noisy = ut.Laplace(ut.Count(0), scale=0.9)
    every = ut.leakage(noisy, ut.MarkovChain(series.transition), against=who)
    assert every.lower <= every.upper
    for n in lengths:
        short = Example(family, series.transition, "stationary", n)
        truth = count_truth(short, (0,), 0.9, who)
        assert truth <= every.upper + slack(truth)


@pytest.mark.parametrize("family", ["stationary", "wavering"])
@pytest.mark.parametrize("who", ["any", "ignorant"])
def test_any_length_is_attained_by_some_length(family, who):
    """The lower end is attained: by a short series or, within the mixing, by a long one."""
    series = example(family, 3, 60, seed=81)
    lengths = (*range(2, 12), 60)
    for mechanism in (ut.PureDP(0.6), ut.Laplace(ut.Count(0), scale=0.9)):
        every = ut.leakage(mechanism, ut.MarkovChain(series.transition), against=who)
        some = [
            ut.leakage(mechanism, ut.MarkovChain(series.transition, length=n), against=who)
            for n in lengths
        ]
        assert every.lower == pytest.approx(max(leak.upper for leak in some), abs=1e-7)


@pytest.mark.parametrize(
    ("epsilon", "anyone", "ignorant"),
    [
        (0.05, 0.192471001157, 0.189850986248),
        (0.2, 0.793454372632, 0.791798466940),
        (0.5, 1.985846982792, 1.985846982792),
        (1.0, 3.474873376754, 3.458264743769),
        (2.0, 5.430933968243, 5.198346780382),
        (4.0, 8.057752706747, 7.502272897300),
        (5.0, 9.343592590847, None),
        (10.0, 14.596645242251, 13.546345974184),
        (20.0, 24.598491607780, None),
    ],
)
def test_activity_chain_of_lange2024(epsilon, anyone, ignorant):
    """Computed elsewhere, to the digits given; the same through a count (positive correlation)."""
    chain = ut.MarkovChain(ACTIVITY)
    for who, expected in (("any", anyone), ("ignorant", ignorant)):
        if expected is None:
            continue
        for mechanism in (ut.PureDP(epsilon), ut.Laplace(ut.Count(1), scale=1 / epsilon)):
            leak = ut.leakage(mechanism, chain, against=against_of(who))
            assert leak.lower - 1e-11 <= expected <= leak.upper + 1e-11
            assert leak.upper == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    ("epsilon", "who", "scale", "digits"),
    [
        (0.5, "any", 7.830413359, 5e-9),
        (1.0, "any", 3.994794182, 5e-9),
        (4.0, "any", 0.814117575, 5e-9),
        (12.0, "any", 0.134669, 5e-7),
        (20.0, "any", 0.064928671, 5e-9),
        (0.5, "ignorant", 7.784041, 5e-7),
        (1.0, "ignorant", 3.992222, 5e-7),
        (4.0, "ignorant", 0.796904, 5e-7),
        (20.0, "ignorant", 0.060777, 5e-7),
    ],
)
def test_activity_scales(epsilon, who, scale, digits):
    plan = ut.calibrate(
        ut.Count(1), ut.MarkovChain(ACTIVITY), limit=epsilon, against=who, method="exact"
    )
    assert plan.mechanism.scale == pytest.approx(scale, abs=digits + 1e-8 * scale)


def test_four_state_scale():
    chain = ut.MarkovChain(FOUR, length=1000)
    plan = ut.calibrate(ut.Count((2, 3)), chain, limit=1.0, method="exact")
    assert plan.mechanism.scale == pytest.approx(4.664211759, abs=1e-7)


@pytest.mark.parametrize(
    ("transition", "start"),
    [
        ([[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5]),
        ([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [0.2, 0.3, 0.5]),
        ([[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5]),
        ([[0.0, 1.0], [1.0, 0.0]], "stationary"),
    ],
    ids=["swap", "cycle", "frozen", "swap-stationary"],
)
@pytest.mark.parametrize("who", ["any", "ignorant"])
def test_infinite_leakage_is_an_answer(transition, start, who):
    chain = ut.MarkovChain(transition, start=start)
    leak = ut.leakage(ut.PureDP(0.5), chain, against=who)
    assert leak.upper == math.inf
    assert leak.lower >= 0.5 * 40 * (1 - 1e-9)  # 40 records leak as much, see below
    assert not leak.proves(1e9)
    for n in (2, 5, 40):
        finite = ut.leakage(
            ut.PureDP(0.5), ut.MarkovChain(transition, start=start, length=n), against=who
        )
        assert finite.lower == pytest.approx(0.5 * n, rel=1e-9)
        assert finite.upper == pytest.approx(0.5 * n, rel=1e-9)


@pytest.mark.parametrize("who", ["any", "ignorant"])
def test_infinite_leakage_of_a_count(who):
    frozen = ut.MarkovChain(np.eye(2), start=[0.5, 0.5])
    leak = ut.leakage(ut.Laplace(ut.Count(1), scale=3.0), frozen, against=who)
    assert leak.upper == math.inf


def test_a_count_of_an_alternating_series_leaks_no_more_than_one_record():
    swap = ut.MarkovChain([[0.0, 1.0], [1.0, 0.0]], start=[0.5, 0.5])
    leak = ut.leakage(ut.Laplace(ut.Count(1), scale=3.0), swap)
    encloses(leak, 1 / 3)  # the counts of the two series of odd length differ by one
