"""Ledgers over Gaussian records: rates add up, and their sum is exchanged once."""

from fractions import Fraction

import numpy as np
import pytest

import undertow as ut
from undertow.errors import BudgetExceeded
from undertow.ledger.rules import budget_of, exchanged, gradual_spread
from undertow.releasing.account import level_of

COVARIANCE = [[6.1, 0.42, 2.44], [0.42, 5.32, 1.67], [2.44, 1.67, 12.84]]
FAMILY = ut.MultivariateGaussian([69, 64, 67], COVARIANCE, spread=40)
LOOSE = ut.MultivariateGaussian([69, 64, 67], COVARIANCE)


def factor():
    """1 + sum |beta| at its worst over all known sets, by plain regression."""
    sigma, best = np.array(COVARIANCE), 1.0
    for target in range(3):
        for mask in range(8):
            known = [j for j in range(3) if mask >> j & 1 and j != target]
            inside = [*known, target]
            hidden = [j for j in range(3) if j not in inside]
            slopes = np.linalg.solve(sigma[np.ix_(inside, inside)], sigma[np.ix_(inside, hidden)])
            best = max(best, 1 + np.abs(slopes[-1]).sum())
    return best


def test_what_counts_as_a_level():
    assert gradual_spread(FAMILY) == 40
    assert gradual_spread(LOOSE) is None
    assert gradual_spread(ut.ModelSet([FAMILY, LOOSE])) is None
    assert gradual_spread(ut.Groups(3)) is None
    narrow = ut.MultivariateGaussian([69, 64, 67], COVARIANCE, spread=20)
    assert gradual_spread(ut.ModelSet([narrow, FAMILY])) == 40
    assert budget_of(1.0, LOOSE, "any") == pytest.approx(1 / 3)
    assert budget_of(1.0, FAMILY, "any") == pytest.approx(1 / factor(), rel=1e-9)
    assert budget_of(1.0, FAMILY, "any", "person") == 1.0
    assert exchanged(budget_of(2.0, FAMILY, "any"), FAMILY, "any").proves(2.0)


def test_a_plan_fits_its_limit_and_two_halves_do(tmp_path):
    ledger = ut.Ledger(tmp_path / "year.db", "families", model=FAMILY, limit=1.0)
    whole = ut.calibrate(ut.Sum(50, 90), FAMILY, limit=1.0)
    half = ut.calibrate(ut.Sum(50, 90), FAMILY, limit=0.4999)
    # released on the steps of a range: a little more than spread / scale
    assert (
        40 / whole.noise.scale
        < level_of(whole, whole.leakage)
        < 40 / whole.noise.scale * (1 + 1e-5)
    )
    reach = 40 + 2 * 3 * Fraction(40, whole.noise.query.steps)  # two steps for each record
    assert Fraction(level_of(whole, whole.leakage)) * Fraction(whole.noise.scale) >= reach
    records = [70.0, 64.0, 68.0]
    ut.release(half, records, ledger=ledger, release_id="one")
    ut.release(half, records, ledger=ledger, release_id="two")
    assert 0.999 <= ledger.leakage().upper <= 1.0
    with pytest.raises(BudgetExceeded):
        ut.release(half, records, ledger=ledger, release_id="three")
    assert ledger.verify() > 0


def test_ranges_other_than_the_spread():
    """The rate counts, not the range: half the range at the same scale costs the same."""
    wide, narrow = (
        ut.Plan.from_json(ut.calibrate(ut.Sum(*ends), FAMILY, limit=1.0).to_json())
        for ends in ((50, 90), (60, 80))
    )
    rates = [level_of(plan, plan.leakage) * plan.noise.scale for plan in (wide, narrow)]
    assert rates == pytest.approx([40, 40], rel=1e-5)
    mean = ut.calibrate(ut.Mean(50, 90), FAMILY, limit=1.0)
    assert level_of(mean, mean.leakage) * mean.noise.scale == pytest.approx(40 / 3, rel=1e-5)


def test_without_a_spread_a_level_is_that_of_differential_privacy(tmp_path):
    ledger = ut.Ledger(tmp_path / "year.db", "families", model=LOOSE, limit=1.0)
    plan = ut.calibrate(ut.Sum(50, 90), LOOSE, limit=1.0)
    with pytest.raises(BudgetExceeded):
        ut.release(plan, [70.0, 64.0, 68.0], ledger=ledger)
    general = ut.calibrate(ut.Sum(50, 90), LOOSE, limit=0.999, method="group")
    ut.release(general, [70.0, 64.0, 68.0], ledger=ledger)
    assert ledger.leakage().upper <= 1.0
