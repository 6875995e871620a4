"""Leakages of chains of any length: they cover every length, and are attained."""

import math

import pytest

import undertow as ut
from tests.contracts.chain_truths import (
    NAMED,
    count_truth,
    slack,
)
from tests.contracts.chains import Example, example
from tests.grids import each, pairwise


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


@each(("family", "who"), ["stationary", "wavering"], ["any", "ignorant"])
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
