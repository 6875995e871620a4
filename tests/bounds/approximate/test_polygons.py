"""Curves as polygons: of lines, of a Gaussian, of a profile."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from tests.bounds.approximate.sweep_programs import PURE, gaussian_profile
from undertow.bounds.curves.sweep import GaussianGrid, Polygon, polygon_of_lines, tangent_lines
from undertow.errors import InvalidInput


@given(
    st.lists(st.tuples(st.floats(0, 6), st.floats(0, 0.5)), min_size=1, max_size=6),
    st.floats(0, 1),
)
def test_a_polygon_is_the_least_of_its_lines(lines, u):
    polygon = polygon_of_lines(lines)
    exact = min(
        min(math.exp(e) * u + d, 1 - math.exp(-e) * (1 - d - u), 1.0) for e, d in lines
    )  # fmt: skip
    assert exact - 1e-15 <= float(polygon(u)) <= exact * (1 + 1e-13) + 1e-14
    assert float(polygon(u)) >= u


def test_a_pure_curve_starts_at_nothing():
    assert float(PURE(0.0)) == 0.0
    assert PURE.u[0] == 0.0
    assert PURE.u[-1] == PURE.g[-1] == 1.0


@pytest.mark.parametrize(
    ("u", "g"),
    [
        ([0, 0.5], [0, 1]),
        ([0, 0.5, 1], [0, 0.4, 1]),
        ([0, 0.5, 1], [0, 0.6, 0.9]),
        ([0, 0.2, 0.5, 1], [0, 0.2, 0.9, 1]),
        ([0, 1, 1], [0, 1, 1]),
        ([0], [0]),
    ],
)
def test_what_is_no_curve_is_refused(u, g):
    with pytest.raises(InvalidInput, match="curve"):
        Polygon(u, g)


@pytest.mark.parametrize("lines", [[(-1.0, 0.0)], [(1.0, -0.1)], [(1.0, 1.1)], [(800.0, 0.0)]])
def test_what_is_no_level_is_refused(lines):
    with pytest.raises(InvalidInput, match="pair"):
        polygon_of_lines(lines)


@pytest.mark.parametrize("mu", [1 / 17, 0.3, 1.0, 3.0])
def test_chords_of_a_gaussian_grid_lie_above_the_curve(mu):
    grid = GaussianGrid.of(mu)
    nodes = grid.nodes(3)
    u = ndtr(np.linspace(-7, 4, 100_001))
    chords = np.interp(u, nodes.u[: len(grid.u)], nodes.g[: len(grid.u)])
    exact = ndtr(ndtri(u) + mu)
    inside = exact < nodes.u[-1]
    assert (chords[inside] >= exact[inside] * (1 - 1e-13)).all()
    assert grid.inflated < mu * 1.0003


def test_a_coarse_gaussian_grid_is_refused():
    with pytest.raises(InvalidInput, match="too few"):
        GaussianGrid(2.0, 4, 7.0)
    with pytest.raises(InvalidInput, match="span"):
        GaussianGrid(1.0, 100, 9.0)


@pytest.mark.parametrize("mu", [0.06, 1.0])
def test_tangents_of_a_profile_are_close_to_its_curve(mu):
    polygon = polygon_of_lines(tangent_lines(gaussian_profile(mu), most=200))
    u = ndtr(np.linspace(-6, 6, 2001))
    exact = ndtr(ndtri(u) + mu)
    assert (polygon(u) >= exact * (1 - 1e-12)).all()
    assert (polygon(u) <= exact * 1.01).all()
