"""Rays of cones: the largest quotients are those of the linear programs."""

import math

import numpy as np
import pytest

from undertow.bounds.core.cones import between, ray_error, rays
from undertow.bounds.core.steps import local_program, metric_closure


def metrics(size, count, seed, spread=2.0):
    rng = np.random.default_rng(seed)
    table = rng.uniform(0, spread, (count, size, size))
    table[:, np.arange(size), np.arange(size)] = 0.0
    return metric_closure(table)


@pytest.mark.parametrize("size", range(2, 8))
def test_largest_quotients_are_those_of_the_programs(size):
    distance = metrics(size, 8, size)
    table = np.moveaxis(rays(np.moveaxis(distance, 0, -1)), -1, 0)  # (n, v, m)
    assert table.shape[1] == math.comb(2 * size - 2, size - 1)
    rng = np.random.default_rng(size + 100)
    above, below = rng.dirichlet(np.full(size, 0.5), (2, 8, 20))
    largest = ((above @ table.swapaxes(1, 2)) / (below @ table.swapaxes(1, 2))).max(axis=2)
    program, _, _ = local_program(above, below, distance[:, None])
    np.testing.assert_allclose(largest, program, rtol=1e-9)
    assert (largest * (1 + 2 * ray_error(size)) >= program * (1 - 1e-10)).all()


@pytest.mark.parametrize("size", [3, 4, 5])
def test_rays_lie_in_their_cone(size):
    distance = np.moveaxis(metrics(size, 6, size), 0, -1)
    logs = np.log(rays(distance))
    assert (logs[:, :, None] - logs[:, None, :] <= distance + 1e-12).all()


@pytest.mark.parametrize("size", [3, 4, 6])
def test_limits_without_the_triangle_inequality_are_bounded_too(size):
    rng = np.random.default_rng(size)
    distance = rng.uniform(0, 3, (6, size, size))
    distance[:, np.arange(size), np.arange(size)] = 0.0
    table = np.moveaxis(rays(np.moveaxis(distance, 0, -1)), -1, 0)
    above, below = rng.dirichlet(np.ones(size), (2, 6, 20))
    largest = ((above @ table.swapaxes(1, 2)) / (below @ table.swapaxes(1, 2))).max(axis=2)
    program, _, _ = local_program(above, below, metric_closure(distance)[:, None])
    assert (largest >= program * (1 - 1e-9)).all()


@pytest.mark.parametrize(("upper", "lower"), [(1, 1), (1, 3), (2, 2), (2, 3), (3, 3)])
def test_rays_between_two_values_suffice_for_forms_that_live_on_them(upper, lower):
    size = upper + lower
    distance = metrics(size, 5, size)
    cut = np.moveaxis(distance[:, :upper, upper:], 0, -1)
    above, below = (np.moveaxis(part, -1, 0) for part in between(cut))  # (n, v, states)
    assert above.shape[1] == math.comb(size - 2, upper - 1)
    rng = np.random.default_rng(size)
    alpha, beta = rng.dirichlet(np.ones(upper), (5, 9)), rng.dirichlet(np.ones(lower), (5, 9))
    largest = ((alpha @ above.swapaxes(1, 2)) / (beta @ below.swapaxes(1, 2))).max(axis=2)
    zeros = [np.zeros((5, 9, lower)), np.zeros((5, 9, upper))]
    program, _, _ = local_program(
        np.concatenate([alpha, zeros[0]], axis=2), np.concatenate([zeros[1], beta], axis=2),
        distance[:, None],
    )  # fmt: skip
    np.testing.assert_allclose(largest, program, rtol=1e-9)
