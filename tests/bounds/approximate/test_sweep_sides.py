"""The sweep of one side and of two, against reference numbers and a linear program."""

import math

import numpy as np
import pytest

from tests.bounds.approximate.sweep_programs import (
    APPROXIMATE,
    PROFILE,
    PURE,
    P,
    gaussian_profile,
    judge_one_side,
    judge_two_sides,
    known_sided_value,
    random_kernel,
    two_sided_delta,
)
from undertow.bounds.curves.sweep import (
    GaussianGrid,
    one_sided_value,
    polygon_of_lines,
    tangent_lines,
)

# --- one side -------------------------------------------------------------------------------------

ONE_SIDE = {
    # curve, records: delta at epsilon .5, 1, 1.5 of the pair (1, 0), then of (0, 1)
    ("pure", 1): ".3939176175 .2666415997 .0567989220 .4279196279 .2666415997 .0007390841",
    ("pure", 2): ".4010102150 .2718330229 .1585728260 .4279196279 .3033518050 .1015088863",
    ("pure", 3): ".4010102150 .2718330229 .1585728260 .4279196279 .3033518050 .1153273625",
    ("(1,1e-3)", 1): ".3947536599 .2679519581 .0588912953 .4287952471 .2679519581 .0027662063",
    ("(1,1e-3)", 2): ".4018545129 .2731494239 .1607836594 .4287952471 .3047048924 .1036532999",
    ("(1,1e-3)", 3): ".4018545129 .2731494239 .1607836594 .4287952471 .3047048924 .1174878601",
    ("profile", 1): ".0433157220 .0137550983 .0039263035 .0433157220 .0106632221 .0020509858",
    ("profile", 2): ".0624002351 .0249145465 .0084592488 .0571865798 .0167250284 .0054219444",
    ("profile", 3): ".0725132976 .0321638018 .0101759725 .0625780858 .0201221674 .0058036835",
    ("profile", 5): ".0776212610 .0332487812 .0110814436 .0625780858 .0209835658 .0058036835",
    ("profile", 8): ".0776212610 .0332487812 .0110814436 .0625780858 .0209835658 .0058036835",
}
CURVES = {"pure": PURE, "(1,1e-3)": APPROXIMATE, "profile": PROFILE}


@pytest.mark.parametrize(("name", "records"), ONE_SIDE)
def test_one_side_has_its_reference_values(name, records):
    values = [
        one_sided_value(CURVES[name], [P] * records, a, b, math.exp(epsilon))
        for a, b in ((1, 0), (0, 1))
        for epsilon in (0.5, 1, 1.5)
    ]
    expected = [float(value) for value in ONE_SIDE[name, records].split()]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1.1e-10)


@pytest.mark.parametrize(
    ("curve", "distance", "value", "expected"),
    [
        (PURE, 3, 1, (0.3110496374, 0.2737129167)),
        (PURE, 4, 0, (0.2495771099, 0.2839785869)),
        (PURE, 5, 1, (0.3085069279, 0.3072574261)),
        (APPROXIMATE, 3, 1, (0.3124116847, 0.2750315057)),
        (APPROXIMATE, 4, 0, (0.2508676061, 0.2853091247)),
        (APPROXIMATE, 5, 1, (0.3098660156, 0.3086150595)),
    ],
)
def test_a_known_value_has_its_reference_values(curve, distance, value, expected):
    found = [
        known_sided_value(curve, P, a, b, math.e, distance, value) for a, b in ((1, 0), (0, 1))
    ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1.1e-10)


def test_a_known_value_equals_its_bridges():
    rng = np.random.default_rng(3)
    kernel = random_kernel(rng, 3)
    ahead = [np.linalg.matrix_power(kernel, power)[:, 2] for power in range(4)]
    bridges = []
    for left in (2, 1):  # steps left after this one
        weighted = kernel * ahead[left]
        bridges.append(weighted / weighted.sum(axis=1, keepdims=True))
    one = one_sided_value(PROFILE, bridges, 0, 1, 1.7)
    other = known_sided_value(PROFILE, kernel, 0, 1, 1.7, 3, 2)
    assert one == pytest.approx(other, rel=1e-11)


def test_a_target_alone_has_the_delta_of_its_curve():
    assert one_sided_value(APPROXIMATE, [], 0, 1, math.e) == pytest.approx(1e-3, rel=1e-9)
    grid = GaussianGrid.of(1.0, step=0.003)
    value = one_sided_value(grid, [], 0, 1, math.e)
    assert gaussian_profile(1.0)(1.0) <= value <= gaussian_profile(1.0)(1.0) * (1 + 1e-4)


def test_a_gaussian_grid_agrees_with_tangents():
    grid = one_sided_value(GaussianGrid.of(0.5, step=0.005), [P] * 4, 1, 0, 2.0)
    lines = tangent_lines(gaussian_profile(0.5), excess=1e-6, most=200)
    tangents = one_sided_value(polygon_of_lines(lines), [P] * 4, 1, 0, 2.0)
    assert grid == pytest.approx(tangents, rel=1e-3)


@pytest.mark.parametrize("seed", range(24))
def test_one_side_is_the_program(seed):
    judge_one_side(seed)


# --- two sides ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("curve", "pair", "expected"),
    [
        (PURE, (1, 0), {0.5: 0.5473497306, 1: 0.4388678524, 2: 0.1806121033}),
        (PURE, (0, 1), {0.5: 0.5283885681, 1: 0.4107856868, 2: 0.1565519356}),
        (APPROXIMATE, (1, 0), {0.5: 0.5483643609, 1: 0.4403786741, 2: 0.1845406092}),
    ],
)
def test_two_sides_have_their_reference_bounds(curve, pair, expected):
    for epsilon, value in expected.items():
        found = two_sided_delta(curve, [P] * 2, [P] * 2, pair[0], pair[1], epsilon)
        assert found == pytest.approx(value, abs=2e-9)


def test_the_counterexample_to_exact_composition_is_an_upper_bound():
    flips = np.array([[0.9, 0.1], [0.1, 0.9]])
    curve = polygon_of_lines([(0.5, 0.1)])
    assert two_sided_delta(curve, [flips], [flips], 0, 1, 2.4727) == pytest.approx(
        0.3136340, abs=2e-6
    )


@pytest.mark.parametrize("seed", range(12))
def test_two_sides_are_never_below_the_program(seed):
    judge_two_sides(seed)
