"""Exact Gaussian noise follows its law, and noise that is 30% off is noticed.

Null hypothesis: a rounded normal variable, or a discrete Gaussian one, of the stated sigma.
Chi-square over the cells with at least five expected, 20,000 draws; a false alarm has probability
1e-9 in each test (asymptotically).
"""

import math

import numpy as np
import pytest
from scipy.stats import chi2, norm

from tests.grids import each
from undertow.errors import InvalidInput, NotSupported
from undertow.sampling.bits import Insecure
from undertow.sampling.normals import discrete_gaussian, rounded_normal

SIZE = 20_000
FALSE_ALARM = 1e-9


def rounded_law(z, sigma):
    return norm.cdf((z + 0.5) / sigma) - norm.cdf((z - 0.5) / sigma)


def discrete_law(z, sigma):
    reach = np.arange(-int(40 * sigma) - 40, int(40 * sigma) + 41)
    return np.exp(-(z**2) / (2 * sigma**2)) / np.exp(-(reach**2) / (2 * sigma**2)).sum()


LAWS = {rounded_normal: rounded_law, discrete_gaussian: discrete_law}


def p_value(sample, law, sigma):
    reach = int(8 * sigma) + 3
    cells = np.arange(-reach, reach + 1)
    expected = SIZE * law(cells.astype(float), sigma)
    kept = cells[expected >= 5]
    seen = np.array([np.count_nonzero(np.asarray(sample) == z) for z in kept], dtype=float)
    seen, expected = np.append(seen, SIZE - seen.sum()), expected[expected >= 5]
    expected = np.append(expected, max(SIZE - expected.sum(), 1e-9))
    if expected[-1] < 5:  # nothing is expected elsewhere: put it with the last cell
        seen, expected = (
            np.append(seen[:-2], seen[-2:].sum()),
            np.append(expected[:-2], expected[-2:].sum()),
        )
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1))


@each(
    ("sigma", "draw"),
    [0.4, 1.0, 3.7, 16.58], [pytest.param(draw, id=draw.__name__) for draw in LAWS],
)  # fmt: skip
def test_noise_follows_its_law_and_twins_do_not(draw, sigma):
    sample = draw(sigma, SIZE)
    law = LAWS[draw]
    assert p_value(sample, law, sigma) >= FALSE_ALARM
    assert p_value(sample, law, 0.7 * sigma) < FALSE_ALARM
    assert p_value(sample, law, 1.3 * sigma) < FALSE_ALARM


def test_the_two_kinds_of_noise_are_told_apart():
    assert p_value(rounded_normal(0.6, SIZE), discrete_law, 0.6) < FALSE_ALARM


@pytest.mark.parametrize("draw", LAWS, ids=lambda draw: draw.__name__)
def test_seeded_noise_repeats_and_secure_noise_does_not(draw):
    assert draw(5.0, 20, Insecure(3)) == draw(5.0, 20, Insecure(3))
    assert draw(500.0, 20) != draw(500.0, 20)


@pytest.mark.parametrize("draw", LAWS, ids=lambda draw: draw.__name__)
def test_what_cannot_be_drawn_is_refused(draw):
    with pytest.raises(InvalidInput, match="sigma"):
        draw(-1.0, 1)
    with pytest.raises(InvalidInput, match="sigma"):
        draw(math.nan, 1)
    with pytest.raises(NotSupported, match="too large"):
        draw(2.0**51, 1)
    with pytest.raises(InvalidInput, match="count"):
        draw(1.0, 0)
