"""What may change between a recorded answer and the present one: pure functions on numbers.

An answer is a dictionary: an interval (``lower``, ``upper``, and ``attained``, what a replay of
the witness gives), the ``noise`` and ``limit`` of a plan, ``budgets`` of a DP library, an
``output``, the ``exit`` code and ``fields`` of a command, or the name of the error in ``refused``.
Each function yields what is wrong, in words; nothing means that the relation holds.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Answer = dict[str, Any]

CLOSED = 4e-10
"""Width of a closed interval, relative above 1."""

CLOSED_RISE = 1e-9
"""Rise of the upper end of a closed interval, relative."""

OPEN_RISE = 1e-3
"""Rise of the upper end of an open interval, relative; or `OPEN_SHARE` of its width."""

OPEN_SHARE = 0.1

LOUDER = 2e-3
"""Growth of a plan's noise, relative; a budget may shrink as much."""

ATTAINED = 1e-9
"""Distance between a lower end and the replay of its witness, relative above 1."""

PROBED = 1e-12
"""Rounding between two computations of one number, relative above 1."""


class Change(NamedTuple):
    """A purposeful change: what stands there now (None if nothing does), and the reason."""

    now: str | None
    reason: str


CHANGED: dict[str, Change] = {}
"""Purposeful changes that are no numbers.

Keys are ``case NAME`` (renamed or dropped), ``error NAME`` (a refusal's class renamed) and
``field NAME`` (a field of a command's JSON renamed or dropped). A changed number is recorded anew
instead: ``python -m tests.golden --record CASE --reason WORDS``.
"""


def wrong(
    before: Answer, now: Answer, changed: Mapping[str, Change] | None = None
) -> Iterator[str]:
    """Yield in what the present answer breaks the relation to the recorded one."""
    changed = CHANGED if changed is None else changed
    if "refused" in before or "refused" in now:
        named = changed.get(f"error {before.get('refused')}")
        wanted = named.now if named else before.get("refused")
        if wanted != now.get("refused"):
            yield f"refused with {before.get('refused')} before, with {now.get('refused')} now"
        return
    if "noise" in before:
        yield from wrong_plan(before, now)
    elif "upper" in before:
        yield from wrong_interval((before["lower"], before["upper"]), (now["lower"], now["upper"]))
    if "upper" in before:
        yield from wrong_witness(now["lower"], now["upper"], now["attained"])
        if before["attained"] and now["attained"] is None and now["lower"] > 0:
            yield "the lower end had a witness that could be replayed, and has none"
    for name, budget in before.get("budgets", {}).items():
        present = now["budgets"].get(name, 0.0)
        if not present >= budget * (1 - LOUDER):
            yield f"the budget {name} is {present!r}, was {budget!r}"
    if before.get("output") != now.get("output"):
        yield f"the output is {now.get('output')!r}, was {before.get('output')!r}"
    if before.get("exit") != now.get("exit"):
        yield f"the exit code is {now.get('exit')}, was {before.get('exit')}"
    yield from wrong_fields(before.get("fields", {}), now.get("fields", {}), changed)


def wrong_interval(before: tuple[float, float], now: tuple[float, float]) -> Iterator[str]:
    """Yield in what an interval breaks the relation to the recorded one.

    Both contain the same number, so they intersect. The upper end rises by at most `CLOSED_RISE`
    where the recorded interval was closed, elsewhere by at most `OPEN_RISE` or a tenth of its
    width; a lower end of 0 that nothing attains says nothing of a width. The lower end falls by at
    most `OPEN_RISE`, or a tenth of the width: a proof of the upper end alone would be a loss.
    """
    (lower, upper), (low, high) = before, now
    rounding = PROBED * max(1.0, abs(lower))
    if not low <= high:
        yield f"the interval [{low!r}, {high!r}] is empty"
    if high < lower - rounding:
        yield f"the upper end {high!r} is below {lower!r}, which is attained"
    if low > upper + PROBED * max(1.0, abs(upper)):
        yield f"the lower end {low!r} is above {upper!r}, which is proved"
    width = upper - lower
    closed = is_closed(lower, upper)
    bracket = 0.0 if closed or not lower > 0 or math.isinf(width) else OPEN_SHARE * width
    rise = CLOSED_RISE * upper if closed else max(OPEN_RISE * upper, bracket)
    if high > upper + rise:
        yield f"the upper end {high!r} is more than {rise:.2g} above {upper!r}"
    fall = max(OPEN_RISE * lower, bracket)
    if low < lower - fall:
        yield f"the lower end {low!r} is more than {fall:.2g} below {lower!r}"


def is_closed(lower: float, upper: float) -> bool:
    """Return whether both ends of an interval agree."""
    if math.isinf(upper):
        return math.isinf(lower)
    return upper - lower <= CLOSED * max(1.0, upper)


def wrong_plan(before: Answer, now: Answer) -> Iterator[str]:
    """Yield in what a plan breaks the relation to the recorded one.

    No amount of noise grows by more than `LOUDER`, and the leakage is proved to keep the limit; of
    a published method that proves nothing, it does not grow.
    """
    for name, amount in before["noise"].items():
        present = now["noise"].get(name)
        if present is None:
            yield f"the noise has no {name}, which was {amount!r}"
        elif not present <= amount * (1 + LOUDER):
            yield f"{name} is {present!r}, was {amount!r}"
    if now["limit"] != before["limit"]:
        yield f"the limit is {now['limit']!r}, was {before['limit']!r}"
    most = max(before["limit"], before["upper"] * (1 + CLOSED_RISE))
    if not now["lower"] <= now["upper"] <= most:
        yield f"the leakage [{now['lower']!r}, {now['upper']!r}] is not within {most!r}"


def wrong_witness(lower: float, upper: float, attained: float | None) -> Iterator[str]:
    """Yield in what the replay of a witness does not lie within its interval."""
    if attained is None:
        return
    if math.isnan(attained) or attained < lower - ATTAINED * max(1.0, abs(lower)):
        yield f"the witness attains {attained!r}, not the lower end {lower!r}"
    if attained > upper + ATTAINED * max(1.0, abs(upper)):
        yield f"the witness attains {attained!r}, above the upper end {upper!r}"


NOISE_FIELDS, END_FIELDS = ("scale", "sigma"), ("lower", "upper")


def wrong_fields(
    before: Mapping[str, Any], now: Mapping[str, Any], changed: Mapping[str, Change]
) -> Iterator[str]:
    """Yield in what the fields of a command's JSON differ, renamed ones taken by their new name.

    Amounts of noise and the ends of intervals obey their own relation, budgets too.
    """
    if {"lower", "upper"} <= before.keys():
        low, high = now.get("lower"), now.get("upper")
        if low is None or high is None:
            yield "an interval is no longer printed"
        else:
            yield from wrong_interval((before["lower"], before["upper"]), (low, high))
    for name, value in before.items():
        if name in END_FIELDS:
            continue
        rename = changed.get(f"field {name}")
        if rename is not None and rename.now is None:
            continue
        present = now.get(rename.now if rename and rename.now else name)
        numbers = isinstance(value, float) and isinstance(present, int | float)
        if numbers and name in NOISE_FIELDS:
            if not present <= value * (1 + LOUDER):
                yield f"{name} is {present!r}, was {value!r}"
        elif numbers and name == "epsilon":
            if not present >= value * (1 - LOUDER):
                yield f"{name} is {present!r}, was {value!r}"
        elif numbers and name.endswith("upper"):
            if not present <= value * (1 + CLOSED_RISE):
                yield f"{name} is {present!r}, was {value!r}"
        elif not _same(value, present):
            yield f"{name} is {present!r}, was {value!r}"


def _same(one: Any, two: Any) -> bool:
    """Return whether two JSON values agree, numbers up to rounding."""
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_same(one[name], two[name]) for name in one)
    if isinstance(one, float) and isinstance(two, int | float):
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == two)
