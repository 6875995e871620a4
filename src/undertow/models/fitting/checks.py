"""Checks of fitted models: their outcomes, what a failure costs, and what users accept.

A leakage is exact under a model; the way from records to the model is not. Whoever fits a model
has looked at the records, so the outcome of a test is a fact about them: `Check.basis` says whether
they were public.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from undertow.errors import FailedChecks, InvalidInput, InvalidModel
from undertow.models.records import Origin, weakest
from undertow.models.validation import fields, number, text
from undertow.numerics import check_listed, shown

if TYPE_CHECKING:
    from undertow.models.base import Model

__all__ = [
    "NAMES",
    "SAME_RECORDS",
    "Basis",
    "Check",
    "Outcome",
    "accept_option",
    "accepted",
    "check_accepted",
    "checks_from_list",
    "estimated",
    "failed",
    "listed",
    "mark_accounted",
    "origin_of",
    "private_checks",
    "untested",
    "without_alternatives",
    "worst_of",
]


Outcome = Literal["passed", "failed", "not tested"]

Basis = Literal["public", "not private", "private"]
"""Basis of a check: public records, private ones, or a private fit of these."""

NAMES = ("sample", "order", "memory", "time", "hours", "persons")
"""Names of the checks of a fit, in the order of reports."""

_BASES: dict[Basis, str] = {
    "public": "computed from public records",
    "not private": "computed from the records themselves: NOT PRIVATE",
    "private": "computed from a private fit",
}

_SEVERITY: tuple[Outcome, ...] = ("passed", "not tested", "failed")

_MOST_CHECKS = 32
"""Checks that a file may hold."""


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of testing one assumption of a model, and what a failure would cost.

    ``alternative`` is the model that the records suggest instead. ``leakage`` holds what a plan
    leaks under it: what an attack attains, and what is proved (None where no bound is known).
    ``p_value`` is that of the test by itself, None for what is no test; whether the check failed is
    decided over all tests of a fit together (`undertow.models.fitting.hypotheses`).

    >>> check = Check("order", "failed", "the last two records predict more than the last one")
    >>> print(check.summary())
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
        """Refuse unknown outcomes and bases."""
        if self.outcome not in get_args(Outcome) or self.basis not in get_args(Basis):
            raise InvalidModel(
                f"a check is {', '.join(get_args(Outcome))}, on a basis that is "
                f"{', '.join(get_args(Basis))}; found {self.outcome!r} and {self.basis!r}"
            )

    @property
    def origin(self) -> str:
        """The basis of the check, in words."""
        return _BASES[self.basis]

    def cost(self) -> str:
        """Return the leakage of the plan under the alternative in words, '' if unknown.

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

    def summary(self) -> str:
        """Return the check in one line: name, outcome, reason, cost of a failure."""
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
        other, result = read.get("alternative"), read.get("leakage")
        p_value = read.get("p_value")
        return cls(
            name=text(read["name"], "the name of a check"),
            outcome=read["outcome"],
            words=text(read["words"], "the words of a check"),
            basis=read["basis"],
            alternative=None if other is None else model_from_dict(other),
            leakage=None if result is None else _ends(result),
            p_value=None if p_value is None else number(p_value, "the p-value of a check"),
        )


def checks_from_list(described: Any) -> tuple[Check, ...]:
    """Return the checks of a file.

    >>> checks_from_list([Check("time", "passed", "no drift").to_dict()])[0].outcome
    'passed'
    """
    if not isinstance(described, list) or len(described) > _MOST_CHECKS:
        raise InvalidModel(f"checks are a list of at most {_MOST_CHECKS}; found something else")
    return tuple(map(Check.from_dict, described))


def origin_of(checks: Iterable[Check]) -> Origin:
    """Return the origin of a model of which these checks are known.

    >>> origin_of([Check("order", "passed", "no sign"), *private_checks(.05)])
    'not public'
    """
    return weakest("not public" if one.basis == "not private" else one.basis for one in checks)


def untested(public: bool, *names: str) -> tuple[Check, ...]:
    """Return untested checks for a model that was fitted to records.

    >>> untested(False, "order")[0].origin
    'computed from the records themselves: NOT PRIVATE'
    """
    basis: Basis = "public" if public else "not private"
    reason = "the model was fitted to records, and this was not tested"
    return tuple(Check(name, "not tested", reason, basis) for name in names)


def worst_of(several: Iterable[tuple[Check, ...]]) -> tuple[Check, ...]:
    """Return the worst outcome of each check among several models, one of which is true.

    >>> kept, broken = Check("time", "passed", "alike"), Check("time", "failed", "it drifts")
    >>> worst_of([(kept,), (broken,)])[0].words
    'it drifts'
    """
    worst: dict[str, Check] = {}
    for check in (check for checks in several for check in checks):
        current = worst.setdefault(check.name, check)
        if _SEVERITY.index(check.outcome) > _SEVERITY.index(current.outcome):
            worst[check.name] = check
        elif check.outcome == current.outcome == "failed" and check is not current:
            worst[check.name] = replace(current, alternative=_either(current, check))
    return tuple(worst.values())


def _either(first: Check, second: Check) -> "Model | None":
    """Return the union of two alternatives; None if one of them is missing."""
    from undertow.models.sets import ModelSet

    one, other = first.alternative, second.alternative
    if one is None or other is None or one == other:
        return one if one == other else None
    try:
        return ModelSet([one, other])
    except InvalidModel:  # of other states, or another length
        return None


def without_alternatives(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return checks without their alternatives, for a model of other records.

    >>> failed = Check("order", "failed", "two records predict more", leakage=(1.0, 2.0))
    >>> without_alternatives([failed])[0].leakage is None
    True
    """
    return tuple(replace(check, alternative=None, leakage=None) for check in checks)


def private_checks(miss: float) -> tuple[Check, ...]:
    """Return the checks of a private fit: its region passed, all else is not tested.

    ``miss`` is the probability with which the region misses the chain.

    >>> [check.outcome for check in private_checks(.05)][:2]
    ['passed', 'not tested']
    """
    from undertow.rounding import above

    sentence = f"the region misses the chain with probability at most {above(miss)}"
    only = "a private fit publishes how often states follow each other, and nothing else"
    others = ("order", "memory", "time", "hours", "persons")
    return (
        Check("sample", "passed", sentence, "private"),
        *(Check(name, "not tested", only, "private") for name in others),
    )


def _ends(value: Any) -> tuple[float, float | None]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidModel("the leakage of a check has two ends")
    least, most = value
    return number(least, "leakage"), None if most is None else number(most, "leakage")


def mark_accounted(checks: Sequence[Check], name: str, sentence: str) -> tuple[Check, ...]:
    """Return the checks with one marked as passed, and the reason added.

    >>> mark_accounted([Check("sample", "not tested", "30 records")], "sample", "a region")[0].words
    '30 records; a region'
    """
    return tuple(
        replace(check, outcome="passed", words=f"{check.words}; {sentence}", alternative=None)
        if check.name == name and sentence not in check.words
        else check
        for check in checks
    )


def estimated(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Return the checks for the point of a fit: the error of the estimate is untested.

    >>> estimated([Check("sample", "passed", "900 records")])[0].outcome
    'not tested'
    """
    return tuple(
        replace(
            check,
            outcome="not tested",
            words=f"the estimate itself is taken for the truth; {check.words}",
        )
        if check.name == "sample"
        else check
        for check in checks
    )


SAME_RECORDS = "same-records"
"""Accepts that the model was fitted to the records that are released; not a check."""


def failed(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return the checks that failed, in their order.

    >>> checks = Check("time", "failed", "drift"), Check("order", "passed", "alike")
    >>> [check.name for check in failed(checks)]
    ['time']
    """
    return tuple(check for check in checks if check.outcome == "failed")


def accepted(checks: Sequence[Check], accept: object, *, all_of: bool = True) -> tuple[str, ...]:
    """Return the names that are accepted, or refuse a failed check that is not among them.

    Each failed check must be named, and nothing else may be but ``"same-records"``. With
    ``all_of=False`` a failed check may be missing from ``accept``.

    >>> checks = Check("order", "failed", "two records predict more"), Check("time", "passed", "")
    >>> accepted(checks, ["order"])
    ('order',)
    >>> accepted(checks, ["time"])
    Traceback (most recent call last):
    ...
    undertow.errors.InvalidInput: 'time' did not fail and needs no acceptance; 'order' did
    """
    names, broken = _names(accept), [check.name for check in failed(checks)]
    for name in names:
        if name not in (*broken, SAME_RECORDS):
            which = f"{listed(broken)} did" if broken else "no check of this model did"
            raise InvalidInput(f"{name[:40]!r} did not fail and needs no acceptance; {which}")
    if all_of:
        check_accepted(checks, names)
    return tuple(name for name in (*broken, SAME_RECORDS) if name in names)


def check_accepted(checks: Iterable[Check], names: Sequence[str]) -> None:
    """Refuse checks of which one failed and is not among the accepted names."""
    missing = [check for check in failed(checks) if check.name not in names]
    if missing:
        raise FailedChecks(
            f"{_refused(missing)}; {accept_option([*names, *(one.name for one in missing)])} takes "
            "that upon you, and every promise says so",
            tuple(check.name for check in missing),
        )


def accept_option(names: Iterable[str]) -> str:
    """Return names as the argument that accepts them.

    >>> accept_option(["order"]), accept_option(["order", "time"])
    ("accept=('order',)", "accept=('order', 'time')")
    """
    return f"accept={tuple(names)!r}"


def listed(names: Sequence[str]) -> str:
    """Return quoted names in words.

    >>> listed(["order"]), listed(["order", "memory", "time"])
    ("'order'", "'order', 'memory' and 'time'")
    """
    *first, last = map(repr, names)
    return f"{', '.join(first)} and {last}" if first else last


def _refused(missing: Sequence[Check]) -> str:
    plural = "checks" if len(missing) > 1 else "check"
    reasons = "; ".join(f"{check.name}: {check.words}" for check in missing)
    return f"the records speak against the model, which failed the {plural} {reasons}"


def _names(accept: object) -> list[str]:
    names = check_listed(accept, "accept")
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"accept is a list of names of checks, found {shown(name)}")
    return list(dict.fromkeys(names))
