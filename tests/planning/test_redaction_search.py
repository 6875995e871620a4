"""The search over patterns, for chains of more than two states and several protected records."""

import pytest

import undertow as ut
from undertow.queries import Redacted


@pytest.mark.parametrize("protect", [6, (4, 9)])
def test_every_pattern_is_held_to_the_limit_that_was_asked_for(protect):
    """At a limit of 2, where windows show 10/14 and 6/14, some values beside them fit as well."""
    chain = ut.MarkovChain([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.4, 0.1, 0.5]], length=14)
    asked = Redacted(protect=protect, length=14)
    best, windows = (ut.calibrate(asked, chain, 2.0, method=name) for name in ("optimal", "mq"))
    assert best.leakage.proves(2.0)
    assert best.utility > windows.utility + 0.01
