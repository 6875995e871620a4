"""The audit's decision: exact bounds, events chosen on one half, tested on the other."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from undertow.auditing.statistical import (
    LEAST_COUNTS,
    TailEvent,
    choose_event,
    log_ratio_lower,
    share_lower,
    try_event,
)


@given(st.integers(1, 60), st.integers(0, 60), st.sampled_from([0.001, 0.025, 0.05, 0.2]))
@settings(deadline=None, derandomize=True, database=None)
def test_the_bound_is_where_the_tail_has_the_error(hits, more, error):
    draws = hits + more
    bound = share_lower(hits, draws, error)
    assert stats.binom.sf(hits - 1, draws, bound) == pytest.approx(error, rel=1e-6)


def probability_of_error(p, q, draws, error):
    """The exact probability that the bound lies above ln(p / q), a fair coin choosing the value."""
    total = 0.0
    for hits, against in itertools.product(range(draws + 1), repeat=2):
        rest = draws - hits - against
        if rest >= 0 and log_ratio_lower(hits, against, error) > math.log(p / q):
            total += float(
                stats.multinomial.pmf([hits, against, rest], draws, [p / 2, q / 2, 1 - (p + q) / 2])
            )
    return total


@pytest.mark.parametrize(
    ("p", "q"), [(0.9, 0.3), (0.5, 0.4), (0.2, 0.01), (1.0, 0.2), (0.06, 0.02)]
)
def test_the_bound_errs_no_more_than_it_says(p, q):
    """Exact, by enumeration of 40 draws."""
    assert probability_of_error(p, q, 40, 0.05) <= 0.05


def test_no_bound_is_negative_or_infinite():
    assert log_ratio_lower(0, 0, 0.05) == 0
    assert log_ratio_lower(5, 500, 0.05) == 0
    assert 5 < log_ratio_lower(1000, 0, 0.05) < 7


def normal(seed, size=20_000, shift=1.0):
    draw = np.random.default_rng(seed)
    return draw.normal(shift, 1, (size, 1)), draw.normal(0, 1, (size, 1))


def test_a_chosen_event_was_seen_often_enough():
    scores, others = normal(4, size=3000, shift=3.0)
    event = choose_event(scores, others, 0.05).event
    against = others if event.for_value else scores
    seen = int(event.happens(against[:, 0]).sum())
    assert seen >= LEAST_COUNTS or seen == 0


def test_too_few_draws_choose_nothing():
    few = np.arange(50.0)[:, None]
    assert choose_event(few + 9, few, 0.05).guess == 0


def test_outcomes_count_both_values():
    scores, others = np.array([[1.0], [2.0], [3.0]]), np.array([[0.0], [2.5]])
    outcome = try_event(TailEvent(0, 2.0, above=True), scores, others, 0.05)
    assert (outcome.hits, outcome.other_hits, outcome.draws) == (2, 1, 5)
    outcome = try_event(TailEvent(0, 0.5, above=False, for_value=False), scores, others, 0.05)
    assert (outcome.hits, outcome.other_hits) == (0, 1)
