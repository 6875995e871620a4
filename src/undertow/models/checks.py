"""What was tested before a fitted model is believed, and what each failure would cost.

A leakage is exact under a model; the way from records to the model is not. Whoever fits a model
has looked at the records, so the outcome of a test is a fact about them: `Check.basis` says whether
they were public.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from undertow.errors import InvalidModel
from undertow.models.described import fields, number, text
from undertow.models.origins import Origin, weakest

if TYPE_CHECKING:
    from undertow.models.base import Model

__all__ = [
    "NAMES",
    "Basis",
    "Check",
    "Outcome",
    "checks_from_list",
    "origin_of",
    "privately",
    "untested",
    "without_alternatives",
    "worst_of",
]

Outcome = Literal["passed", "failed", "not tested"]

Basis = Literal["public", "not private", "private"]
"""What a check was computed from: public records, private ones, or a private fit of these."""

NAMES = ("sample", "order", "memory", "time", "hours", "persons")
"""The checks of a fit, in the order in which they are told."""

_BASES: dict[Basis, str] = {
    "public": "computed from public records",
    "not private": "computed from the records themselves: NOT PRIVATE",
    "private": "computed from a private fit",
}

_WORSE: tuple[Outcome, ...] = ("passed", "not tested", "failed")

_MOST = 32
"""Checks that a file may hold."""


@dataclass(frozen=True, slots=True)
class Check:
    """One assumption of a model, whether the records bear it out, and what is at stake.

    ``alternative`` is the model that the records suggest instead. ``leakage`` holds what a plan
    leaks under it: what an attack attains, and what is proved (None where no bound is known).
    ``p_value`` is that of the test by itself, None for what is no test; whether the check failed is
    decided over all tests of a fit together (`undertow.models.checking`).

    >>> found = Check("order", "failed", "the last two records predict more than the last one")
    >>> print(found.said())
    order: failed; the last two records predict more than the last one
    """

    name: str
    outcome: Outcome
    words: str
    basis: Basis = "not private"
    alternative: "Model | None" = None
    leakage: tuple[float, float | None] | None = None
    p_value: float | None = None

    def __post_init__(self) -> None:
        """Refuse outcomes and bases that there are not."""
        if self.outcome not in get_args(Outcome) or self.basis not in get_args(Basis):
            raise InvalidModel(
                f"a check is {', '.join(get_args(Outcome))}, on a basis that is "
                f"{', '.join(get_args(Basis))}; found {self.outcome!r} and {self.basis!r}"
            )

    @property
    def origin(self) -> str:
        """What the check was computed from, in words."""
        return _BASES[self.basis]

    def cost(self) -> str:
        """Return what the plan leaks under the alternative in words, '' where it is not known.

        >>> Check("time", "failed", "it drifts", leakage=(1.23456, 2.0)).cost()
        'this plan leaks between 1.2345 and 2 under the model that the records suggest instead'
        """
        from undertow.rounding import above, below

        if self.leakage is None:
            return ""
        least, most = self.leakage
        span = f"at least {below(least)}"
        if most is not None:
            span = (
                f"between {below(least)} and {above(most)}" if least else f"at most {above(most)}"
            )
        return f"this plan leaks {span} under the model that the records suggest instead"

    def said(self) -> str:
        """Return the check in one line: its name, its outcome, the reason, what a failure costs."""
        cost = self.cost()
        return f"{self.name}: {self.outcome}; {self.words}" + (f"; {cost}" if cost else "")

    def priced(self, lower: float, upper: float | None) -> "Check":
        """Return the check with what a plan leaks under its alternative."""
        return replace(self, leakage=(lower, upper))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        described: dict[str, Any] = {
            "name": self.name,
            "outcome": self.outcome,
            "words": self.words,
            "basis": self.basis,
        }
        if self.alternative is not None:
            described["alternative"] = self.alternative.law_dict()
        if self.leakage is not None:
            described["leakage"] = list(self.leakage)
        if self.p_value is not None:
            described["p_value"] = self.p_value
        return described

    @classmethod
    def from_dict(cls, description: Any) -> "Check":
        """Return the check described by `to_dict`."""
        from undertow.models.registry import model_from_dict

        needed, more = ("name", "outcome", "words", "basis"), ("alternative", "leakage", "p_value")
        read = fields(description, "a check", needed, more)
        other, found = read.get("alternative"), read.get("leakage")
        p_value = read.get("p_value")
        return cls(
            name=text(read["name"], "the name of a check"),
            outcome=read["outcome"],
            words=text(read["words"], "the words of a check"),
            basis=read["basis"],
            alternative=None if other is None else model_from_dict(other),
            leakage=None if found is None else _ends(found),
            p_value=None if p_value is None else number(p_value, "the p-value of a check"),
        )


def checks_from_list(described: Any) -> tuple[Check, ...]:
    """Return the checks of a file.

    >>> checks_from_list([Check("time", "passed", "no drift").to_dict()])[0].outcome
    'passed'
    """
    if not isinstance(described, list) or len(described) > _MOST:
        raise InvalidModel(f"checks are a list of at most {_MOST}; found something else")
    return tuple(map(Check.from_dict, described))


def origin_of(checks: Iterable[Check]) -> Origin:
    """Return the origin of a model of which these checks are known.

    >>> origin_of([Check("order", "passed", "no sign"), *privately(.05)])
    'not public'
    """
    return weakest("not public" if one.basis == "not private" else one.basis for one in checks)


def untested(public: bool, *names: str) -> tuple[Check, ...]:
    """Return the mark of a model that was fitted to records, and whose assumptions nobody tested.

    >>> untested(False, "order")[0].origin
    'computed from the records themselves: NOT PRIVATE'
    """
    basis: Basis = "public" if public else "not private"
    said = "the model was fitted to records, and this was not tested"
    return tuple(Check(name, "not tested", said, basis) for name in names)


def worst_of(several: Iterable[tuple[Check, ...]]) -> tuple[Check, ...]:
    """Return of each check the worst outcome among several models, one of which is true.

    >>> kept, broken = Check("time", "passed", "alike"), Check("time", "failed", "it drifts")
    >>> worst_of([(kept,), (broken,)])[0].words
    'it drifts'
    """
    found: dict[str, Check] = {}
    for check in (check for checks in several for check in checks):
        kept = found.setdefault(check.name, check)
        if _WORSE.index(check.outcome) > _WORSE.index(kept.outcome):
            found[check.name] = check
        elif check.outcome == kept.outcome == "failed" and check is not kept:
            found[check.name] = replace(kept, alternative=_either(kept, check))
    return tuple(found.values())


def _either(first: Check, second: Check) -> "Model | None":
    """Return what two failures of one check suggest together, None where one suggests nothing."""
    from undertow.models.sets import ModelSet

    one, other = first.alternative, second.alternative
    if one is None or other is None or one == other:
        return one if one == other else None
    try:
        return ModelSet([one, other])
    except InvalidModel:  # of other states, or another length
        return None


def without_alternatives(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return checks for a model of other records, to which what they suggest does not apply.

    >>> failed = Check("order", "failed", "two records predict more", leakage=(1.0, 2.0))
    >>> without_alternatives([failed])[0].leakage is None
    True
    """
    return tuple(replace(check, alternative=None, leakage=None) for check in checks)


def privately(miss: float) -> tuple[Check, ...]:
    """Return what is known of a chain that was learnt through noise: its region, and no more.

    ``miss`` is the probability with which the region misses the chain.

    >>> [check.outcome for check in privately(.05)][:2]
    ['passed', 'not tested']
    """
    from undertow.rounding import above

    said = f"the region misses the chain with probability at most {above(miss)}"
    only = "a private fit publishes how often states follow each other, and nothing else"
    others = ("order", "memory", "time", "hours", "persons")
    return (
        Check("sample", "passed", said, "private"),
        *(Check(name, "not tested", only, "private") for name in others),
    )


def _ends(found: Any) -> tuple[float, float | None]:
    if not isinstance(found, list) or len(found) != 2:
        raise InvalidModel("the leakage of a check has two ends")
    least, most = found
    return number(least, "leakage"), None if most is None else number(most, "leakage")
