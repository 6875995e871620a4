"""Boxes: rounding, far known records, loose bounds, and a search that forgets no part."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.levels import classes as boxes
from undertow.bounds.levels.classes import box_leakage
from undertow.models.classes import ChainBox


def box(q, r, length=None):
    """The box of all chains with q in q and r in r."""
    return ChainBox(
        [[1 - q[1], q[0]], [r[0], 1 - r[1]]], [[1 - q[0], q[1]], [r[1], 1 - r[0]]], length=length
    )


def log_ratio(R, u):
    """Return ln (1 + e^{u+R}) / (1 + e^u) in as many digits as the context has."""
    return ((1 + (u + R).exp()) / (1 + u.exp())).ln()


def test_one_step_is_rounded_outwards():
    """M at the ends of every interval, in 50 digits, lies within the range, and close to it."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b = rng.normal(0, 3, 2)
        R, l = rng.normal(0, 3), rng.normal(0, 2)
        at = np.array([[R]])
        ahead = np.array([[l]])
        odds = np.array([[a, b]])
        low, high = boxes._range(at, at, odds, odds, ahead, ahead)
        with localcontext() as context:
            context.prec = 50
            exact = log_ratio(Decimal(R), Decimal(a) + Decimal(l))
            exact -= log_ratio(Decimal(R), Decimal(b) + Decimal(l))
        assert Decimal(float(low[0, 0])) <= exact <= Decimal(float(high[0, 0]))
        assert high - low < 1e-11


def test_states_that_are_never_left_tell_all_that_follows():
    """Odds without bound: M(R) is R itself, on both sides."""
    at = np.array([[1.0]])
    low, high = boxes._log_odds(box((0, 0.1), (0, 0.1)))
    found = boxes._range(-at, at, low[None], high[None], 0 * at, 0 * at)
    assert found[0] <= -1 <= 1 <= found[1]


def test_first_ratios_are_rounded_outwards():
    """ln P(0,v) / P(1,v) of a point, from the log-odds in 50 digits."""
    for odds in np.random.default_rng(1).normal(0, 4, (200, 2)):
        least, most = boxes._first_ratios(odds[None], odds[None])
        with localcontext() as context:
            context.prec = 50
            a, b = (Decimal(float(one)) for one in odds)
            exact = [
                ((1 + (-b).exp()) / (1 + (-a).exp())).ln(),
                ((1 + b.exp()) / (1 + a.exp())).ln(),
            ]
        for value, low, high in zip(exact, least[0].tolist(), most[0].tolist(), strict=True):
            assert Decimal(low) <= value <= Decimal(high)


@pytest.mark.parametrize("known", [[1, 7], [0, 8], [7]])
def test_an_attacker_who_knows_something_is_not_ignorant(known):
    q, r, who = (0.02, 0.03), (0.65, 0.66), ut.Adversary(4, known)
    leak = box_leakage(1.0, box(q, r, 9), who)
    assert leak.lower <= leak.upper
    assert leak.lower > box_leakage(1.0, box(q, r, 9), "ignorant").upper


def test_bounds_that_the_rows_rule_out_do_not_matter():
    """Entries of a row sum to one, so bounds on one of them bound the other."""
    loose = box_leakage(1.0, ChainBox([[0.5, 0.1], [0.2, 0.3]], [[0.9, 0.9], [0.9, 0.6]]))
    tight = box_leakage(1.0, box((0.1, 0.5), (0.4, 0.7)))
    assert loose.lower == pytest.approx(tight.lower, abs=1e-12)
    assert loose.upper == pytest.approx(tight.upper, abs=1e-12)
