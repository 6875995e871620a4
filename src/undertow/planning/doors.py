"""The refusal of a model whose checks failed: what accepting them costs, and what else there is.

Other models of the same records are offered where they need the acceptance of fewer checks. Each is
tried first: it is made, and the very question is put to it with little effort. A hidden chain is
not tried, because a fit keeps no records, and a thinned chain has the checks of its fit.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from undertow import progress
from undertow.certificate import Leakage
from undertow.errors import FailedChecks, NotSupported, UndertowError
from undertow.models.acceptance import SAME_RECORDS, accept_option, accepted, failed, listed
from undertow.models.base import Model
from undertow.models.checks import Check
from undertow.models.fitting import FittedChain
from undertow.models.periodic import periodic
from undertow.models.second_order_fits import FittedSecondOrderChain
from undertow.models.standing import stands_for
from undertow.rounding import above, below, odds

__all__ = ["Trial", "admit"]

_TRIAL, _COSTS, _DOORS = 0.1, 0.1, 0.1
"""Effort for an answer, what accepting costs, and all other models: together two seconds."""

_MINUTES = {"1m": 1, "5m": 5, "10m": 10, "15m": 15, "20m": 20, "30m": 30, "1h": 60}
"""Steps of records that divide an hour, in minutes."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A cheap answer to a question under one model.

    ``priced`` returns a failed check with what the answer leaks under the model that the check
    suggests; ``under`` is what the answer leaks under another model, refused where the question
    cannot be put to that one.
    """

    priced: Callable[[Check], Check]
    under: Callable[[Model], Leakage]


@dataclass(frozen=True, slots=True)
class _Door:
    """Another model of the records of a fit: how it is made, and which check it is about."""

    check: str
    words: str
    make: Callable[[], Model]


def admit(
    model: Model, accept: object, ask: Callable[[], Trial], *, all_of: bool = True
) -> tuple[str, ...]:
    """Return the accepted names of failed checks, or refuse and say what there is to do.

    ``ask`` tries the question under the model.

    >>> from undertow.models.markov import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> failing = chain.with_checks([Check("memory", "failed", "it is longer")])
    >>> admit(failing, ["memory"], lambda: Trial(lambda check: check, lambda other: None))
    ('memory',)
    """
    checks = stands_for(model).checks
    try:
        return accepted(checks, accept, all_of=all_of)
    except FailedChecks as refusal:
        taken = accepted(checks, accept, all_of=False)
        missing = [check for check in failed(checks) if check.name in refusal.names]
        raise FailedChecks(_refusal(model, missing, taken, ask), refusal.names) from None


def _refusal(
    model: Model, missing: list[Check], taken: tuple[str, ...], ask: Callable[[], Trial]
) -> str:
    """Return what failed, what it costs to accept that, and the models that need less."""
    with progress.granting(_TRIAL):
        try:
            trial = ask()
        except UndertowError:
            trial = None
    costs = [_UNKNOWN] * len(missing) if trial is None else _costs(missing, trial)
    reasons = [
        f"{check.name}: {check.words} ({cost})" for check, cost in zip(missing, costs, strict=True)
    ]
    names = [check.name for check in missing]
    plural = "checks" if len(names) > 1 else "check"
    every = accept_option([*taken, *names])
    doors = [] if trial is None else list(_open(model, [*taken, *names], taken, trial))
    instead = f"; or use {'; or '.join(doors)}" if doors else ""
    return (
        f"the records speak against the model, which failed the {plural} {listed(names)}: "
        f"{'; '.join(reasons)}. Say {every} to take this upon you, and every promise begins with "
        f"what it costs{instead}"
    )


def _costs(missing: list[Check], trial: Trial) -> list[str]:
    """Return what accepting each check costs, in words."""
    costs = []
    with progress.granting(_COSTS):
        for check in missing:
            leaks = trial.priced(check).leakage
            spent = check.alternative is not None and not progress.left() > 0
            costs.append(_UNKNOWN if spent else f"accepting it: {_cost(leaks)}")
    return costs


_UNKNOWN = "accepting it: the cost was not computed"


def _cost(leaks: tuple[float, float | None] | None) -> str:
    """Return what an answer leaks under the model that a check suggests, in words."""
    if leaks is None:
        return "not bounded"
    lower, upper = leaks
    if upper is None:
        return f"not bounded, a leakage of at least {below(lower)}"
    return f"a leakage of up to {above(upper)}, a factor {odds(upper)}"


def _open(model: Model, broken: Sequence[str], taken: Sequence[str], trial: Trial) -> Iterator[str]:
    """Yield the models that answer the question and need the acceptance of fewer checks."""
    with progress.granting(_DOORS):
        for door in _doors(model):
            if door.check not in broken:
                continue
            try:
                other = door.make()
                left = [check.name for check in failed(other.checks)]
                if not set(left) < set(broken):
                    continue
                upper = trial.under(other).upper
            except UndertowError:
                continue
            if math.isinf(upper):
                continue
            names = [*left, *(name for name in taken if name == SAME_RECORDS)]
            more = f" with {accept_option(names)}" if names else ""
            yield f"{door.words}{more} (the same noise leaks up to {above(upper)} there)"


def _doors(model: Model) -> Iterator[_Door]:
    """Yield other models of the records that a model was fitted to, none of them tried."""
    if not isinstance(model, FittedChain):
        return
    order = "a chain of order two, MarkovChain.fit(..., order=2)"
    yield _Door("order", order, lambda: FittedSecondOrderChain.of_fit(model))
    yield _Door("persons", "the chains of all persons, model.population()", model.population)
    yield _Door(
        "hours", "a matrix for each hour, MarkovChain.periodic(...)", lambda: _hourly(model)
    )


def _hourly(model: FittedChain) -> Model:
    """Return the chain with a matrix for each hour of the day; its step must divide an hour."""
    hours = None if model.tally is None else model.tally.hours
    step = _MINUTES.get(str(model.records.every))
    if hours is None or step is None:
        raise NotSupported("the records have no clock times, or steps that divide no hour")
    counts = hours + (model.prior or 0.5)  # (24, k, k)
    rows = counts / counts.sum(axis=2, keepdims=True)
    chain = periodic(
        dict(enumerate(np.asarray(rows))), model.states, length=model.length,
        steps_per=60 // step, context="hour",
    )  # fmt: skip
    return model.passed_on(chain, [check for check in model.checks if check.name != "hours"])
