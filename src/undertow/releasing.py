"""Data in, private answer out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from undertow.errors import InvalidInput, NotSupported
from undertow.plan import Plan
from undertow.queries import Count, Histogram
from undertow.sampling.apply import randomise
from undertow.sampling.bits import Insecure, Secure

__all__ = ["Release", "release"]


@dataclass(frozen=True, slots=True)
class Release:
    """A released answer: ``value`` is one number, or one per state for a histogram.

    >>> from undertow import Count, MarkovChain, calibrate, release
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> out = release(calibrate(Count("active"), chain, epsilon=1.0), ["idle", "active"] * 50)
    >>> isinstance(out.value, int)
    True
    """

    value: int | dict[Any, int]
    plan: Plan
    randomness: str

    def error_bar(self, beta: float = 0.05) -> float:
        """Return alpha: every number is within alpha of the truth with probability 1 - beta."""
        return self.plan.accuracy(beta)

    def report(self) -> str:
        """Return the release in plain words: the answer, its error bar, the promise."""
        if isinstance(self.value, dict):
            answer = ", ".join(f"{state}: {count}" for state, count in self.value.items())
        else:
            answer = str(self.value)
        lines = [
            f"Released: {answer}",
            f"Error bar: within {self.error_bar():g} of the truth with probability 95%",
            f"Promise: {self.plan.guarantee()}",
            f"Model: {self.plan.model.describe()}",
        ]
        if self.randomness != "secure":
            lines.append(f"NOT PRIVATE: the noise was drawn from {self.randomness}")
        return "\n".join(lines)


def release(plan: Plan, data: Sequence[Any], *, insecure_seed: int | None = None) -> Release:
    """Return the private answer of a plan on one series of records.

    Missing or foreign values count in no state, so a release never fails on a value. Noise
    comes from the operating system's secure source; ``insecure_seed`` makes it repeatable, gives
    up privacy, and is recorded in the release.

    >>> from undertow import Count, MarkovChain, calibrate, release
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> plan = calibrate(Count("active"), chain, epsilon=1.0)
    >>> release(plan, ["idle", "active", None] * 9, insecure_seed=1).randomness
    'insecure, seed 1'
    """
    if not isinstance(plan, Plan):
        raise InvalidInput(f"a Plan is required, found {type(plan).__name__}; use calibrate(...)")
    query = plan.query
    if not isinstance(query, Count | Histogram):
        raise NotSupported(
            f"releasing a {type(query).__name__} needs a declared lattice for its real answer, "
            "which this version does not have; release a Count or a Histogram"
        )
    if isinstance(query, Histogram) and not plan.states:
        raise NotSupported("a histogram needs a model that names the states, e.g. a MarkovChain")
    records = _records(data)
    if plan.length is not None and len(records) != plan.length:
        raise InvalidInput(
            f"the plan is for {plan.length} records, the series has {len(records)}; "
            "plan for this length, or for any length"
        )
    randomness = Secure() if insecure_seed is None else Insecure(insecure_seed)
    exact = query.evaluate(records, plan.states)
    numbers = exact if isinstance(exact, list) else [exact]
    noisy = randomise(plan.mechanism, numbers, randomness)
    value = dict(zip(plan.states, noisy, strict=True)) if isinstance(query, Histogram) else noisy[0]
    return Release(value, plan, randomness.describe())


def _records(data: Sequence[Any]) -> list[Any]:
    if isinstance(data, str | bytes):
        raise InvalidInput("a series of records is required, found one string")
    if isinstance(data, Mapping) or hasattr(data, "columns") or getattr(data, "ndim", 1) != 1:
        raise InvalidInput(
            "a single series of records is required, found a table; pass one of its columns"
        )
    try:
        records = data.tolist() if hasattr(data, "tolist") else list(data)
    except TypeError as error:
        raise InvalidInput(
            f"a series of records is required, found {type(data).__name__}"
        ) from error
    if not isinstance(records, list) or not records:
        raise InvalidInput("the series has no records")
    return records
