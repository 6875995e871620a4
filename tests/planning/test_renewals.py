"""Budgets that renew: the numbers, against the posterior written out, and every refusal."""

import itertools
import math

import pytest

import undertow as ut
from undertow.diagnostics.windows import PERIODS, renewal
from undertow.errors import InvalidInput, NotSupported

BIT = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]])


def flips(epsilon):
    lies = 1 / (1 + math.exp(epsilon))
    return ut.RandomizedResponse.binary(lies, lies)


def written_out(kept, epsilon, days):
    """The most that all shown bits tell of one day, by summing over everything: slow and plain."""
    truth = [(1 - 1 / (1 + math.exp(epsilon))), 1 / (1 + math.exp(epsilon))]

    def weight(bits, shown):
        steps = math.prod(kept if a == b else 1 - kept for a, b in itertools.pairwise(bits))
        return 0.5 * steps * math.prod(truth[a != z] for a, z in zip(bits, shown, strict=True))

    def prior(bits):
        return 0.5 * math.prod(kept if a == b else 1 - kept for a, b in itertools.pairwise(bits))

    most = 0.0
    histories = list(itertools.product((0, 1), repeat=days))
    for target in range(days):
        others = [day for day in range(days) if day != target]
        for size in range(days):
            for known in itertools.combinations(others, size):
                for values in itertools.product((0, 1), repeat=size):
                    fits = [
                        bits for bits in histories
                        if all(bits[day] == v for day, v in zip(known, values, strict=True))
                    ]  # fmt: skip
                    before = [sum(prior(b) for b in fits if b[target] == x) for x in (0, 1)]
                    for shown in histories:
                        after = [
                            sum(weight(b, shown) for b in fits if b[target] == x) for x in (0, 1)
                        ]
                        ratio = after[0] * before[1] / (after[1] * before[0])
                        most = max(most, abs(math.log(ratio)))
    return most


@pytest.mark.parametrize("kept", [0.6, 0.9])
def test_the_posterior_written_out(kept):
    chain = ut.MarkovChain([[kept, 1 - kept], [1 - kept, kept]], length=3)
    exact = written_out(kept, 2.0, 3)
    for mechanism in (flips(2.0), ut.PureDP(2.0)):
        found = ut.leakage(mechanism, chain)
        assert found.lower <= exact * (1 + 1e-12)
        assert found.upper >= exact * (1 - 1e-12)
        assert found.upper == pytest.approx(exact, rel=1e-9)


def test_the_numbers_of_the_page():
    found = renewal(BIT, 2.0)
    assert 7.58 < found.leak.lower <= found.leak.upper < 7.59
    assert found.leak.upper == pytest.approx(ut.leakage(flips(2.0), BIT).upper, rel=1e-10)
    assert 0.1155 < found.budget < 0.116
    assert ut.leakage(ut.PureDP(found.budget), BIT).proves(1.0)
    assert not ut.leakage(ut.PureDP(0.116), BIT).proves(1.0)


def test_a_window_of_days():
    week = renewal(BIT, 2.0, "day", secret=ut.Window(7))
    assert week.leak == ut.leakage(ut.PureDP(2.0), BIT, secret=ut.Window(7))
    assert week.leak.upper == pytest.approx(renewal(BIT, 2.0).leak.upper + 6 * 2.0)
    kept = ut.leakage(ut.PureDP(week.budget), BIT, secret=ut.Window(7))
    assert 0.9999 < kept.upper <= 1.0
    assert week.to_dict()["secret"] == {"kind": "window", "records": 7}


@pytest.mark.parametrize(("period", "records"), [("day", 1), ("week", 3), ("month", 2)])
def test_a_trait_adds_up(period, records):
    """A record that never changes leaks its level once for each record of a year."""
    found = renewal(BIT, 0.3, period, records=records, limit=2.0)
    assert found.year == PERIODS[period] * records
    constant = ut.MarkovChain([[1, 0], [0, 1]], start=[0.5, 0.5], length=found.year)
    leak = ut.leakage(ut.PureDP(0.3), constant)
    assert leak.lower <= found.trait == pytest.approx(leak.upper, rel=1e-9)
    assert found.trait_budget * found.year <= 2.0
    assert found.trait_budget == pytest.approx(ut.dp_budget(constant, 2.0), rel=1e-6)
    assert found.to_dict()["renew"] == period


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"period": "year"}, InvalidInput, "every day, week, month; found 'year'"),
        ({"epsilon": -1.0}, InvalidInput, "epsilon must be"),
        ({"limit": 0.0}, InvalidInput, "limit must be"),
        ({"records": 0}, InvalidInput, "at least 1, found 0"),
        ({"model": ut.Pedigree({"kim": ("bob", "ann")})}, NotSupported, "goes on for ever"),
    ],
)
def test_refusals(change, error, message):
    asked = {"model": BIT, "epsilon": 1.0} | change
    with pytest.raises(error, match=message):
        renewal(**asked)
