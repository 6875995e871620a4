"""Numbers rounded the safe way, and strict JSON."""

import math

from hypothesis import given
from hypothesis import strategies as st

from tests.cli.calls import strict
from undertow.certificate import Leakage
from undertow.cli import output

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE, st.integers(2, 12))
def test_above_and_below_enclose_the_number(value, digits):
    assert float(output.below(value, digits)) <= value <= float(output.above(value, digits))


@given(st.floats(min_value=0, max_value=700))
def test_odds_are_never_understated(leakage):
    text = output.odds(leakage)
    factor = 10.0 ** int(text[3:]) if text.startswith("10^") else float(text)
    assert factor >= math.exp(leakage)


def test_intervals_in_words():
    def said(lower, upper):
        return output.interval(Leakage(lower, upper, "exchange", "any"))

    assert said(1.0, 1.0) == "1"
    assert said(0.25, 0.5) == "between 0.25 and 0.5"
    assert said(0.1, 0.1) == "between 0.1 and 0.1000001"
    assert said(2.0, math.inf) == "at least 2; nothing finite is proved"
    assert said(math.inf, math.inf) == "unbounded"


def test_meaning_of_infinite_leakages():
    assert "factor" in output.meaning(Leakage(1.0, 1.0, "exchange", "any"))
    assert "no limit is proved" in output.meaning(Leakage(1.0, math.inf, "exchange", "any"))
    assert "exclude" in output.meaning(Leakage(math.inf, math.inf, "exchange", "any"))


def test_json_is_strict_at_every_depth():
    value = {"a": [math.inf, (-math.inf, {"b": math.nan})], "c": 1.5, "d": None, "e": True}
    assert strict(output.strict_json(value)) == {
        "a": ["inf", ["-inf", {"b": "nan"}]],
        "c": 1.5,
        "d": None,
        "e": True,
    }
