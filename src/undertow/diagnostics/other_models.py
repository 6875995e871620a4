"""Robustness of a plan: the leakage of its mechanism under other models than its own.

A grid of chains around the planned one, the chains that the fit leaves plausible, a chain of order
two, and what the checks suggest. The limit is *kept* by a proof, *broken* by an attack, or *open*.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

import numpy as np

from undertow import progress
from undertow.adversaries import Against, words
from undertow.certificate import Leakage
from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.frames import ResultTable
from undertow.models.chains import MarkovChain
from undertow.models.classes import ChainBox
from undertow.models.fitting.fit import FittedChain
from undertow.models.second_order import SecondOrderChain
from undertow.models.sets import AnyModel
from undertow.numerics import check_listed, check_positive
from undertow.plan import Plan, check_plan
from undertow.planning.acceptance import leakage_under
from undertow.queries import State
from undertow.rounding import above, below, columns
from undertow.secrets import ONE_RECORD, Secret

__all__ = ["ModelCase", "Robustness", "robustness"]


FACTORS = (0.5, 0.8, 1.0, 1.25, 2.0)
"""Factors of the odds of leaving a state, for the grid."""

Kind = Literal["planned", "grid", "region", "second order", "check", "other"]
Verdict = Literal["kept", "broken", "open"]


@dataclass(frozen=True, slots=True)
class ModelCase:
    """One model and the leakage of the plan's mechanism under it, or why that is unknown.

    ``factors`` are the odds of leaving each state, relative to the plan's chain (grid only).
    ``whole`` says whether the upper end holds for all that the name says; it does not where
    only corners of a region are known.
    """

    name: str
    kind: Kind
    leakage: Leakage | None
    reason: str | None = None
    factors: tuple[float, ...] = ()
    whole: bool = True

    def verdict(self, limit: float) -> Verdict:
        """Return whether the guarantee holds under this model.

        >>> ModelCase("a day", "other", Leakage(1.2, 1.3, "exact", "any")).verdict(1.0)
        'broken'
        """
        if self.leakage is not None and self.leakage.lower > limit:
            return "broken"
        if self.leakage is not None and self.whole and self.leakage.proves(limit):
            return "kept"
        return "open"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        leak = self.leakage
        return {
            "name": self.name,
            "kind": self.kind,
            "factors": list(self.factors),
            "lower": None if leak is None else leak.lower,
            "upper": None if leak is None or math.isinf(leak.upper) else leak.upper,
            "whole": self.whole,
            "witness": None if leak is None or leak.witness is None else leak.witness.words(),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Robustness(ResultTable):
    """Leakage of a plan under other models, one case for each.

    All of them are about what the plan hides, at its delta, with the missing records that it
    allows.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> plan = calibrate(Count(1), MarkovChain([[.9, .1], [.3, .7]]), limit=1.0)
    >>> table = robustness(plan, factors=(0.5, 1.0, 2.0))
    >>> table.worst.name, table.verdicts["planned"]
    ('odds of leaving x 0.5, x 0.5', 'kept')
    """

    cases: tuple[ModelCase, ...]
    limit: float
    against: Against
    states: tuple[Any, ...]
    secret: Secret = ONE_RECORD
    delta: float = 0.0
    missing: State = "any"

    def descriptions(self) -> list[dict[str, Any]]:
        """Return the description of each case."""
        return [case.to_dict() | {"verdict": case.verdict(self.limit)} for case in self.cases]

    def __iter__(self) -> Iterator[ModelCase]:
        """Iterate over the cases."""
        return iter(self.cases)

    def __getitem__(self, name: str) -> ModelCase:
        """Return the case of a name."""
        for case in self.cases:
            if case.name == name:
                return case
        raise InvalidInput(
            f"no case {name!r}; the cases are {', '.join(case.name for case in self.cases)}"
        )

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Whether the guarantee holds, by the name of the case."""
        return {case.name: case.verdict(self.limit) for case in self.cases}

    @property
    def worst(self) -> ModelCase:
        """The case with the largest leakage that is attained."""
        return max(self.cases, key=lambda c: -math.inf if c.leakage is None else c.leakage.lower)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "limit": self.limit,
            "against": self.against if isinstance(self.against, str) else words(self.against),
            "secret": self.secret.to_dict(),
            "delta": self.delta,
            "missing": self.missing,
            "worst": self.worst.name,
            "cases": self.descriptions(),
        }

    def __str__(self) -> str:
        """Return the table as plain text."""
        lines: list[tuple[str, ...]] = [("model", "leaks at least", "at most", "guarantee")]
        notes = []
        for case in self.cases:
            ends = ("-", "-")
            if case.leakage is not None:
                top = above(case.leakage.upper, 4) if case.whole else "not known"
                ends = (below(case.leakage.lower, 4), top.replace("inf", "not known"))
            lines.append((case.name, *ends, case.verdict(self.limit)))
            if case.reason is not None:
                notes.append(f"{case.name}: {case.reason}")
        return "\n".join([f"limit: {self.promise()}", *columns(lines), *notes])

    def promise(self) -> str:
        """Return what the plan promises, to which each model is held.

        >>> Robustness((), 1.0, "informed", (0, 1), missing="none").promise().partition(", ")[0]
        '1 about the odds between any two values of one record'
        """
        delta = f" at a delta of {self.delta:g}" if self.delta else ""
        patterns = {"any": "any records may be missing", "none": "no record is missing"}
        missing = patterns.get(str(self.missing), f"missing records are in {self.missing!r}")
        return (
            f"{above(self.limit)} about the odds {self.secret.words()}{delta}, to "
            f"{words(self.against, self.secret.window)}; {missing}"
        )


def robustness(
    plan: "Plan[Any]",
    *,
    factors: Sequence[float] = FACTORS,
    fitted: FittedChain | None = None,
    confidence: float = 0.95,
    second_order: SecondOrderChain | None = None,
    others: Mapping[str, AnyModel] | Sequence[AnyModel] | None = None,
    tick: Callable[[], object] | None = None,
) -> Robustness:
    """Return the leakage of the mechanism of a plan under models other than its own.

    Parameters
    ----------
    plan
        What is to be judged.
    factors
        The odds of leaving a state are multiplied by each of these: for each state by itself where
        there are two (a grid), for all alike where there are more. Empty: no grid.
    fitted
        The fit whose confidence region is searched.
    confidence
        The confidence of the region.
    second_order
        A chain of order two; by default that of the fit, where it has counted runs of three.
    others
        Further models, by name, or a list of them.
    tick
        Called after each case.

    >>> from undertow import MarkovChain, RandomizedResponse, Series, calibrate
    >>> truth = MarkovChain([[.7, .3], [.4, .6]])
    >>> fit = MarkovChain.fit(truth.simulate(2000, seed=1), public=True)
    >>> table = robustness(calibrate(Series(), fit, limit=2.0), factors=(1.0,), fitted=fit)
    >>> [case.kind for case in table]
    ['planned', 'grid', 'region', 'second order']
    """
    _check(plan)
    cases = []
    for case in _cases(plan, factors, fitted, confidence, second_order, _named(others)):
        cases.append(case)
        progress.doing("models tried", len(cases))
        if tick is not None:
            tick()
    return Robustness(
        tuple(cases), plan.limit, plan.against, plan.states, plan.leakage.secret, plan.delta,
        plan.missing,
    )  # fmt: skip


def _cases(
    plan: "Plan[Any]", factors: Sequence[float], fitted: FittedChain | None, confidence: float,
    second_order: SecondOrderChain | None, others: Mapping[str, AnyModel],
) -> Iterator[ModelCase]:  # fmt: skip
    yield ModelCase("planned", "planned", plan.leakage)
    around = plan.model.middle() if isinstance(plan.model, ChainBox) else plan.model
    if isinstance(around, MarkovChain):
        odds = [check_positive(factor, "factor") for factor in check_listed(factors, "factors")]
        yield from _grid(plan, around, odds)
    if fitted is not None:
        yield _region(plan, fitted, confidence)
    if second_order is None and fitted is not None and fitted.triples is not None:
        yield _guarded(
            "second order",
            "second order",
            lambda: leakage_under(plan, SecondOrderChain.from_fit(fitted)),
        )
    elif second_order is not None:
        yield _guarded("second order", "second order", lambda: leakage_under(plan, second_order))
    for check in plan.checks:
        model, known = check.alternative, fitted is not None or second_order is not None
        if model is not None and not (known and check.name in ("order", "sample")):
            name = f"check: {check.name}"
            yield _guarded(name, "check", lambda model=model: leakage_under(plan, model))  # type: ignore[misc]
    for name, model in others.items():
        yield _guarded(name, "other", lambda model=model: leakage_under(plan, model))  # type: ignore[misc]


def _named(others: Mapping[str, AnyModel] | Sequence[AnyModel] | None) -> dict[str, AnyModel]:
    """Return further models by name; those of a list are named by what they are."""
    if others is None or isinstance(others, Mapping):
        models = dict(others or {})
    else:
        listed = enumerate(check_listed(others, "others"), 1)
        models = {
            f"{place}: {one.describe() if isinstance(one, AnyModel) else ''}": one
            for place, one in listed
        }
    for name, model in models.items():
        if not isinstance(model, AnyModel):
            raise InvalidInput(
                f"others must be models, found {type(model).__name__} for {name!r}; pass a list "
                "or a dictionary of models such as MarkovChain(...)"
            )
    return models


def _guarded(name: str, kind: Kind, compute: Callable[[], Leakage], **more: Any) -> ModelCase:
    """Return the case, with the reason where no leakage is known."""
    try:
        return ModelCase(name, kind, compute(), **more)
    except (NotSupported, InvalidModel) as refusal:
        return ModelCase(name, kind, None, str(refusal), **more)


def _grid(plan: "Plan[Any]", chain: MarkovChain, factors: Sequence[float]) -> Iterator[ModelCase]:
    if not chain.homogeneous or not isinstance(chain.start, str):
        reason = "a grid needs one transition matrix and a stationary start"
        yield ModelCase("grid", "grid", None, reason)
        return
    repeat = 2 if chain.size == 2 else 1
    for shifts in product(factors, repeat=repeat):
        name = "odds of leaving " + ", ".join(f"x {factor:g}" for factor in shifts)
        moved = shifts if repeat == 2 else shifts * chain.size
        yield _guarded(
            name, "grid", lambda moved=moved: leakage_under(plan, _moved(chain, moved)),  # type: ignore[misc]
            factors=tuple(shifts),
        )  # fmt: skip


def _moved(chain: MarkovChain, factors: Sequence[float]) -> MarkovChain:
    """Return the chain with the odds of leaving each state multiplied by a factor.

    What leaves goes where it went before, in the same shares.
    """
    matrix = np.array(chain.transition)
    for state, factor in enumerate(factors):
        stays = matrix[state, state]
        leaves = 1 - stays
        if factor == 1 or not 0 < stays < 1:
            continue
        new = leaves * factor / (stays + leaves * factor)
        matrix[state] *= new / leaves
        matrix[state, state] = 0.0
        matrix[state, state] = 1 - matrix[state].sum()
    return MarkovChain(matrix, chain.states, length=chain.length)


def _region(plan: "Plan[Any]", fitted: FittedChain, confidence: float) -> ModelCase:
    """Return the worst plausible chain: a bound over the box of the region."""
    region = fitted.region(confidence)
    name = f"{confidence:.6g} region of the fit"
    chains = region.examples(plan.query)
    corners = [_guarded("corner", "region", lambda c=c: leakage_under(plan, c)) for c in chains]  # type: ignore[misc]
    attained = [case.leakage for case in corners if case.leakage is not None]
    best = max(attained, key=lambda leak: leak.lower, default=None)
    try:
        bound = leakage_under(plan, region)
    except NotSupported:
        if best is None:
            return ModelCase(name, "region", None, "no corner of the region has a known leakage")
        reason = "corners of the region; no bound over all of it is known"
        return ModelCase(name, "region", best, reason, whole=False)
    if best is not None:
        bound = replace(bound, lower=min(best.lower, bound.upper), witness=best.witness)
    return ModelCase(name, "region", bound)


def _check(plan: Any) -> None:
    check_plan(plan)
    secret = plan.leakage.secret
    if secret.value_pairs is not None or (secret.targets is not None and plan.task != "redact"):
        raise NotSupported(
            "a plan that protects some values or records only is not compared under other models; "
            "make one for all of them"
        )
