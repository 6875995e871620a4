"""How often attackers are right: exactly, by simulation, and on the heart-rate records.

Figures are those of [chakrabarti2022]; its X_15 of 30 records is record 14 here.
"""

import gzip
import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from tests.oracles import attackers as oracle
from undertow.auditing.attackers import (
    ATTACKERS,
    Scenario,
    average_bound,
    odds_shift,
    pointwise_bound,
    prior_law,
)
from undertow.auditing.inference import observe, posteriors, read_outputs, viterbi
from undertow.errors import InvalidInput, NotSupported
from undertow_papers.chakrabarti2022.rates import success_rate

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("UNDERTOW_DATA") or ROOT.parent / "shared" / "data")
PROPERTY = settings(deadline=None, derandomize=True, database=None, max_examples=30)
NOTHING = np.empty(0, dtype=np.int64)

HALF = 1 / (np.exp(0.5) + 1)
FIG_2 = ut.RandomizedResponse.binary(HALF, HALF)
MIDDLE = {0.02: 0.831215390, 0.068: 0.729930063, 0.116: 0.683418546,
          0.212: 0.639988381, 0.308: 0.623126314}  # fmt: skip
SINGLE = 0.622459331


def symmetric(theta, length=30):
    return ut.MarkovChain([[1 - theta, theta], [theta, 1 - theta]], length=length)


# --- exact rates ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("theta", "rate"), MIDDLE.items())
def test_figure_2_exactly(theta, rate):
    assert success_rate(FIG_2, symmetric(theta), 14) == pytest.approx(rate, abs=5e-10)
    alone = success_rate(FIG_2, symmetric(theta), 14, attacker="single-bit")
    assert alone == pytest.approx(SINGLE, abs=5e-10)


def exhausted(channel, chain, target, length):
    """The probability to guess right, over every series and every output."""
    codes = list(range(chain.size))
    outputs = [*codes, None] if isinstance(channel, ut.Redaction) else codes
    if isinstance(channel, ut.RandomizedResponse):
        outputs = list(range(channel.matrix.shape[1]))
    total = 0.0
    for seen in itertools.product(outputs, repeat=length):
        mass = np.zeros(chain.size)
        for series, probability in oracle.joint(seen, channel, chain):
            mass[series[target]] += probability
        total += mass.max()
    return total


@pytest.mark.parametrize(
    ("channel", "chain", "length"),
    [
        (ut.RandomizedResponse.binary(0.3, 0.2), ut.MarkovChain(oracle.LAZY), 5),
        (ut.RandomizedResponse([[0.6, 0.4, 0], [0, 0.5, 0.5]]), ut.MarkovChain(oracle.LAZY), 4),
        (ut.RandomizedResponse.symmetric(3, 0.4), ut.MarkovChain(oracle.THREE), 4),
        (ut.XorNoise(0.15, 0.4), ut.MarkovChain(oracle.LAZY), 5),
        (ut.Redaction([[0.5, 0], [0.2, 0.6], [1, 1], [0, 0.9]]), ut.MarkovChain(oracle.LAZY), 4),
        (
            ut.RandomizedResponse.binary(0.3, 0.2),
            ut.MarkovChain([oracle.LAZY, [[0.5, 0.5], [0.1, 0.9]]], start=[0.3, 0.7]),
            3,
        ),
    ],
)
def test_rates_equal_enumeration(channel, chain, length):
    for target in range(length):
        wanted = exhausted(channel, chain, target, length)
        assert success_rate(channel, chain, target, length) == pytest.approx(wanted, abs=1e-12)


def test_an_attacker_who_sees_more_is_right_more_often():
    erasures = ut.Redaction([[0.5, 0.1], [1, 1], [0.3, 0.2]])
    chain = ut.MarkovChain(oracle.LAZY, length=3)
    for target in range(3):
        rates = [
            success_rate(erasures, chain, target, attacker=name)
            for name in ("prior", "single-bit", "correlation-aware")
        ]
        assert rates[0] == pytest.approx(2 / 3)
        assert rates[2] >= max(rates[:2]) - 1e-12


def test_refusals():
    chain = ut.MarkovChain(oracle.LAZY)
    flips = ut.RandomizedResponse.binary(0.3, 0.2)
    for arguments, words in (
        ((flips, chain, 0), "has no length"),
        ((flips, chain, 3, 3), "record 3"),
        ((flips, chain, 0, 3, "lucky"), "'lucky'"),
        ((flips, ut.MarkovChain(oracle.LAZY, length=2), 0, 3), "at most 2"),
        ((ut.Redaction([[1, 1]] * 3), chain, 0, 2), "exactly 3"),
    ):
        with pytest.raises(InvalidInput, match=words):
            success_rate(*arguments)
    with pytest.raises(NotSupported, match="too many outputs"):
        success_rate(flips, chain, 0, 40)
    with pytest.raises(NotSupported, match="too many to weigh"):
        success_rate(ut.RandomizedResponse.symmetric(3, 0.4), ut.MarkovChain(oracle.THREE), 9, 20)


# --- simulation -----------------------------------------------------------------------------------


def staged(outputs, channel, chain, truth=None):
    read = read_outputs(outputs, channel, chain)
    observed = observe(read, channel, chain)
    law = prior_law(chain, read.lengths, NOTHING, NOTHING)
    truth = read.codes if truth is None else np.asarray(truth).reshape(-1)
    return Scenario(chain, observed, observed, law, truth)


# --- heart rates ----------------------------------------------------------------------------------

# Section 4.3: rho0, rho1, Viterbi's accuracy on the record (mean and deviation of 300 runs), and on
# chains with its parameters (mean and deviation of 300 runs of hmmlearn's decoder).
HEART = {
    "N10": (26923, 1323 / 14802, 1324 / 12120, [
        (0.446989, 0.5, 0.5499, 0.0005, 0.5495, 0.0089),
        (0.458259, 0.413509, 0.7185, 0.0203, 0.5638, 0.0092),
        (0.415668, 0.356666, 0.8072, 0.0080, 0.6387, 0.0082),
        (0.347281, 0.283383, 0.8449, 0.0043, 0.7506, 0.0065),
        (0.252385, 0.195807, 0.8838, 0.0026, 0.8559, 0.0037),
    ]),
    "N5": (16859, 2477 / 10390, 2478 / 6468, [
        (0.320529, 0.5, 0.6202, 0.0019, 0.6180, 0.0057),
        (0.300076, 0.235903, 0.7199, 0.0039, 0.7205, 0.0043),
        (0.185905, 0.129462, 0.8287, 0.0028, 0.8332, 0.0030),
        (0.094009, 0.060081, 0.9191, 0.0019, 0.9190, 0.0020),
        (0.040478, 0.024701, 0.9655, 0.0015, 0.9656, 0.0014),
    ]),
}  # fmt: skip
CASES = [(name, place) for name in HEART for place in range(5)]
RUNS = 16


def read_heart(name):
    path = FOLDER / "heartrate" / f"{name}.txt.gz"
    if not path.is_file():
        pytest.skip("no heart-rate data: set UNDERTOW_DATA to the folder that holds heartrate/")
    with gzip.open(path, "rt") as file:
        rates = np.loadtxt(file)[:, 1]
    return (rates >= rates.mean()).astype(np.uint8)


def viterbi_runs(series, q, r, rho0, rho1, seed, *, misled=1.0):
    """The mean accuracy of Viterbi over as many runs as there are series."""
    chain = ut.MarkovChain([[1 - q, q], [r, 1 - r]])
    told, rng = ut.RandomizedResponse.binary(rho0, rho1), np.random.default_rng(seed)
    found = []
    for truth in series:
        flip = rng.random(truth.size) < misled * np.where(truth == 0, rho0, rho1)
        found.append((viterbi(truth ^ flip, told, chain) == truth).mean())
    return np.mean(found)


@pytest.mark.parametrize(("name", "place"), CASES)
def test_figure_4_on_the_records(name, place):
    """Null: the mean of 300 runs that is given. 16 runs, 4 standard errors: 6e-5 each."""
    truth = read_heart(name)
    records, q, r, rows = HEART[name]
    assert truth.size == records
    rho0, rho1, mean, deviation, *_ = rows[place]
    found = viterbi_runs([truth] * RUNS, q, r, rho0, rho1, seed=place)
    assert abs(found - mean) <= 4 * deviation / np.sqrt(RUNS)


# --- the attackers one by one ---------------------------------------------------------------------


@law(PROPERTY, 6, seed=st.integers(0, 2**32), kind=st.sampled_from(["flips", "noise", "erasures"]))
def test_the_informed_attacker_knows_all_but_one(seed, kind):
    rng = np.random.default_rng(seed)
    length, states = 5, 2 if kind == "noise" else 3
    chain = oracle.random_chain(rng, states, length, moving=bool(seed % 2))
    truth = rng.integers(0, states, length)
    channel, seen = ut.XorNoise(*rng.uniform(0.1, 0.9, 2)), rng.integers(0, 2, length).tolist()
    if kind == "flips":
        channel, seen = oracle.random_channel(rng, 3, 3), rng.integers(0, 3, length).tolist()
    if kind == "erasures":
        channel = oracle.random_erasures(rng, 3, length)
        seen = [int(x) if t % 2 else None for t, x in enumerate(truth)]
    guess = ATTACKERS["informed"](staged(seen, channel, chain, truth))
    assert guess.shifts is not None
    unseen = ut.RandomizedResponse(np.ones((states, 1)))
    for target in range(length):
        others = {t: int(x) for t, x in enumerate(truth) if t != target}
        law = posteriors([0] * length, unseen, chain, others)[target]
        found = oracle.posteriors(seen, channel, chain, others)[target]
        assert np.abs(guess.prior[target] - law).max() < 1e-12
        assert guess.states[target] == found.argmax()
        wanted = odds_shift(found[None], law[None])[0]
        assert guess.shifts[target] == pytest.approx(wanted, abs=1e-9)


# --- bounds ---------------------------------------------------------------------------------------


@PROPERTY
@given(seed=st.integers(0, 2**32), states=st.integers(2, 5), epsilon=st.floats(0.01, 8))
def test_the_average_bound_is_the_best_channel_of_that_level(seed, states, epsilon):
    """A linear program over all channels whose outputs are guesses."""
    from scipy.optimize import linprog

    prior = np.random.default_rng(seed).dirichlet(np.ones(states))
    rows, sides = [], np.exp(epsilon)
    for guess in range(states):
        for x, y in itertools.permutations(range(states), 2):
            row = np.zeros((states, states))
            row[x, guess], row[y, guess] = 1, -sides
            rows.append(row.ravel())
    sums = [np.kron(np.eye(states)[x], np.ones(states)) for x in range(states)]
    best = linprog(-np.diag(prior).ravel(), np.array(rows), np.zeros(len(rows)), np.array(sums),
                   np.ones(states))  # fmt: skip
    assert average_bound(prior, epsilon) == pytest.approx(-float(best.fun or 0), abs=1e-7)
    assert pointwise_bound(prior, epsilon) >= average_bound(prior, epsilon) - 1e-12


def test_the_printed_bound_is_wrong():
    """With max(q/r, r/q) in place of the smaller one the bound falls below what is attained."""
    q, r = 0.02, 0.38
    chain = ut.MarkovChain([[1 - q, q], [r, 1 - r]], length=1 + 1)
    flips = ut.RandomizedResponse.binary(0.4, 0.4)
    level = ut.leakage(flips, chain).upper
    rate = success_rate(flips, chain, 0)
    printed = np.exp(level) / (max(q / r, r / q) + np.exp(level))
    assert printed < rate <= average_bound(chain.initial, level) + 1e-12


@pytest.mark.parametrize("theta", [0.1, 0.35])
def test_odds_move_no_further_than_the_leakage(theta):
    """Every output of a short series; the worst of them attains what was certified."""
    chain, flips = symmetric(theta, 7), ut.RandomizedResponse.binary(0.2, 0.3)
    outputs = np.array(list(itertools.product((0, 1), repeat=7)))
    shifts = ATTACKERS["correlation-aware"](staged(outputs, flips, chain)).shifts
    leak = ut.leakage(flips, chain, "ignorant")
    assert leak.lower - 1e-9 <= shifts.max() <= leak.upper + 1e-9
