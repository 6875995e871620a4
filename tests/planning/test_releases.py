"""Noise against the number of releases, and methods for both kinds of noise side by side."""

import math

import pytest

import undertow as ut
from undertow.errors import InvalidInput, NothingToProtect
from undertow.planning.compare import error_curves
from undertow.planning.releases import RELEASES, noise_by_releases

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], ("inactive", "active"))
ACTIVE = ut.Count("active")
PAIR = (1.0, 1e-6)

# theory-approximate, table of releases: (T, Laplace pure, Gaussian closed, zCDP closed)
PRINTED = [
    (1, 5.65, 16.91, 18.14), (4, 22.60, 33.83, 36.27), (8, 45.20, 47.84, 51.30),
    (9, 50.85, 50.74, 54.41), (12, 67.79, 58.59, 62.82), (26, 146.89, 86.24, 92.47),
    (52, 293.77, 121.96, 130.78), (104, 587.55, 172.48, 184.95), (365, 2062.06, 323.13, 346.48),
]  # fmt: skip


@pytest.fixture(scope="module")
def table():
    return noise_by_releases(CHAIN, 1.0, delta=1e-6)


def test_the_printed_table(table):
    assert [row.releases for row in table] == [row[0] for row in PRINTED] == list(RELEASES)
    for row, (_, *printed) in zip(table, PRINTED, strict=True):
        found = [row.laplace, row.gaussian, row.zcdp]
        assert found == pytest.approx(printed, abs=0.011)
        assert row.swept is None


def test_one_release_and_the_crossings(table):
    one = table.single
    assert one.laplace == pytest.approx(math.sqrt(2) * 3.9947941827, rel=1e-6)
    assert one.gaussian == pytest.approx(16.9133455890, rel=1e-9)
    assert one.zcdp == pytest.approx(math.sqrt(1 / (2 * 0.00152022137)), rel=1e-7)
    assert table.wins("gaussian") == table.wins() == 9
    assert table.wins("zcdp") == 11
    assert table.at(8).gaussian > table.at(8).laplace
    assert table.at(9).gaussian < table.at(9).laplace
    assert table.at(10).zcdp > table.at(10).laplace
    with pytest.raises(InvalidInput, match="no noise was computed by 'swept'"):
        table.wins("swept")


@pytest.mark.parametrize("releases", [1, 9, 52])
def test_the_table_is_what_plans_have(table, releases):
    closed = ut.calibrate(
        ACTIVE, CHAIN, 1.0, delta=1e-6, noise="gaussian", method="closed", releases=releases
    )
    assert closed.noise.amount == pytest.approx(table.at(releases).gaussian, rel=1e-9)
    pure = ut.calibrate(ACTIVE, CHAIN, 1.0, method="exchange", releases=releases)
    assert math.sqrt(2) * pure.noise.amount == pytest.approx(table.at(releases).laplace, rel=1e-9)


def test_the_table_for_programs_and_people(table):
    described = table.to_dict()
    assert described["rows"][3]["gaussian"] == table.at(9).gaussian
    assert str(table).splitlines()[-1].split() == ["365", "2063", "323.2", "346.5", "6.38"]


def test_the_sweep_where_it_is_asked_for():
    short = ut.MarkovChain(CHAIN.transition, CHAIN.states, length=2)
    found = noise_by_releases(short, 1.0, delta=1e-6, releases=(1, 4), sweep=True)
    assert 0 < found.single.swept <= found.single.gaussian
    assert found.at(4).swept == pytest.approx(2 * found.single.swept)
    assert found.wins("swept") <= found.wins("gaussian")
    assert "swept" in str(found)


def test_what_has_no_table():
    with pytest.raises(InvalidInput, match="delta above 0"):
        noise_by_releases(CHAIN, 1.0, delta=0.0)
    with pytest.raises(InvalidInput):
        noise_by_releases(CHAIN, 1.0, delta=1e-6, releases=(0,))
    certain = ut.MarkovChain([[1, 0], [0, 1]], start=[1, 0], length=3)
    with pytest.raises(NothingToProtect):
        noise_by_releases(certain, 1.0, delta=1e-6)


# --- which noise a plan takes ---------------------------------------------------------------------


def test_a_plan_says_why_it_took_its_noise():
    one = ut.calibrate(ACTIVE, CHAIN, 1.0, delta=1e-6)
    assert one.noise.shape == "laplace"
    assert one.delta == 0
    assert one.leakage.assumptions[-1] == (
        "Laplace noise errs 3.4 times less than Gaussian noise would here"
    )
    pure = ut.calibrate(ACTIVE, CHAIN, 1.0)
    assert pure.noise == one.noise
    assert not any("errs" in said for said in pure.leakage.assumptions)


def test_gaussian_noise_is_taken_for_many_releases():
    groups = ut.Groups(2)
    often = ut.calibrate(ACTIVE, groups, 1.0, delta=1e-6, releases=52)
    assert often.noise.shape == "gaussian"
    assert "Gaussian noise errs 2.1 times less than Laplace noise would here" in (
        often.leakage.assumptions
    )
    assert ut.Plan.from_json(often.to_json()) == often
    assert ut.release(often, ["active", "inactive"]).plan is often
    eleven = ut.calibrate(ACTIVE, groups, 1.0, delta=1e-6, releases=11)
    twelve = ut.calibrate(ACTIVE, groups, 1.0, delta=1e-6, releases=12)
    assert [eleven.noise.shape, twelve.noise.shape] == ["laplace", "gaussian"]


# --- comparisons ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_rows_say_which_noise_they_are_about():
    found = ut.compare(
        ACTIVE, CHAIN, *PAIR[:1], delta=1e-6, methods=["exchange", "closed", "exact"]
    )
    shapes = [(row.method, row.noise) for row in found]
    assert ("exchange", "laplace") in shapes
    assert ("closed", "gaussian") in shapes
    assert ("exact", "laplace") in shapes
    assert ("exact", "gaussian") in shapes
    row = found["closed"]
    assert row.scale is None
    assert row.sigma == pytest.approx(16.9133455890, rel=1e-9)
    assert found["exact", "gaussian"].sigma == pytest.approx(16.50010579, rel=1e-7)
    assert found["exact"].sigma is None
    assert found.best.noise.shape == "laplace"
    assert row.leakage.delta == 1e-6


def test_several_releases():
    found = ut.compare(ACTIVE, ut.Groups(2), 1.0, delta=1e-6, releases=52)
    kept = {row.method: row for row in found if row.meets}
    assert kept["closed"].expected_error < kept["exchange"].expected_error
    assert found.best.method == "closed"
    assert found["dependent"].plan is None
    assert "is about one answer" in found["dependent"].reason
    described = found.to_dict()
    assert (described["delta"], described["releases"]) == (1e-6, 52)
    assert "gaussian" in str(found)
    pure = ut.compare(ACTIVE, ut.Groups(2), 1.0, releases=52)
    assert [row.method for row in pure if row.meets] == ["exchange", "group"]


def test_without_a_delta_nothing_is_new():
    found = ut.compare(ACTIVE, ut.Groups(2), 1.0)
    assert {row.noise for row in found} == {"laplace"}
    assert "delta" not in found.to_dict()
    asked = ut.compare(ACTIVE, ut.Groups(2), 1.0, methods=["closed"])
    assert asked["closed"].plan is None
    assert "needs a delta above 0" in asked["closed"].reason


def test_curves_of_both_kinds():
    found = error_curves(ACTIVE, ut.Groups(2), [0.5, 1.0], delta=1e-6, releases=52)
    assert set(found.errors) == {"exchange", "group", "closed"}
    assert (found.errors["closed"] < found.errors["exchange"]).all()
    plan = ut.calibrate(
        ACTIVE, ut.Groups(2), 1.0, delta=1e-6, releases=52, noise="gaussian", method="closed"
    )
    assert found.errors["closed"][1] == pytest.approx(plan.expected_error, rel=1e-6)
