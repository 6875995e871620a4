"""What is computed away from the server: functions that a worker process is sent."""

import warnings
from dataclasses import dataclass
from typing import Any

from undertow.errors import DisclosureWarning, InvalidInput, NotSupported
from undertow.models.chains import MarkovChain
from undertow.models.fitting.fit import FittedChain
from undertow.models.sets import AnyModel
from undertow.plan import Plan
from undertow.progress import doing, inside
from undertow_studio.questions import AskedQuestion
from undertow_studio.reading import PrivateTable, Reading, naming
from undertow_studio.views.costs import CostRow, Costs, cost_table, error_view, grid, leakage_view
from undertow_studio.views.fading import persons_view

__all__ = ["CostLines", "Fit", "fit", "lines", "methods", "plan"]

_LEVELS, _LIMITS = 11, 9
"""Places of a line, an odd number: the one that was asked for is in the middle."""

MOST_STATES = 100
"""More different values than this are measurements, not states."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A chain fitted to a table, how much was read, and whether persons do not fit, in words."""

    chain: FittedChain
    records: int
    missing: int
    persons: int | None
    people: str


def fit(source: PrivateTable, reading: Reading) -> Fit:
    """Return the chain that the records of a table follow, with its checks computed."""
    with naming(source), warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)  # the page says it
        data = reading.open(source)
        doing("reading the records")
        kept = data.tally(reading.states or None)
        if len(kept.states) > MOST_STATES:
            raise InvalidInput(
                f"there are more than {MOST_STATES} different values, too many for states; say "
                "what makes a state of a record, such as 'steps > 0'"
            )
        doing("testing what the model assumes")
        named = kept.states if len(kept.states) > 1 else None
        chain = MarkovChain.fit(kept, named, public=source.simulated)
        _ = chain.checks  # computed here, once
        people = None if kept.persons is None else len(kept.persons)
        doing("comparing persons")
        said = _people(chain)
        return Fit(chain, kept.records, kept.missing, people, said)


def _people(chain: FittedChain) -> str:
    """Return whether persons do not fit, in words; '' where they cannot be compared."""
    found = [check.outcome for check in chain.checks if check.name == "persons"]
    if "passed" in found:
        return "There is no sign of any: nobody differs from the others by more than chance."
    apart = persons_view(chain)
    return "" if apart is None else apart.words()


def plan(asked: AskedQuestion, model: AnyModel) -> "Plan[Any]":
    """Return the plan with the least noise for a question."""
    from undertow.planning.calibrate import calibrate

    model = asked.model(model)
    made: Plan[Any] = calibrate(asked.query(model), model, asked.limit, **asked.arguments())
    return made


@dataclass(frozen=True, slots=True)
class CostLines:
    """The lines of the page on costs; None, with the reason, where there are none."""

    leakage: Costs | None
    errors: Costs | None
    reasons: tuple[str, ...]


def methods(asked: AskedQuestion, model: AnyModel) -> tuple[CostRow, ...]:
    """Return all methods side by side."""
    model = asked.model(model)
    more = {name: told for name, told in asked.arguments().items() if name == "secret"}
    rows, _ = cost_table(asked.query(model), model, asked.limit, asked.attacker(), **more)
    return rows


def lines(asked: AskedQuestion, model: AnyModel, level: float) -> CostLines:
    """Return leakage against DP level, and error against the limit for every method."""
    model = asked.model(model)
    reasons: list[str] = []
    leaks = errors = None
    try:
        levels = grid(min(max(level, 0.01), 20.0), _LEVELS, 1.5)
        with inside("leakage against DP level"):
            tick = _Counted("levels", len(levels))
            leaks = leakage_view(model, levels, asked.attacker(), levels[_LEVELS // 2], tick)
    except NotSupported as reason:
        reasons.append(str(reason))
    try:
        if not asked.local:
            limits, query = grid(asked.limit, _LIMITS), asked.query(model)
            with inside("error against the limit"):
                errors = error_view(
                    query, model, asked.limit, asked.attacker(), limits,
                    tick=_Counted("limits", len(limits)), secret=asked.secret(),
                )  # fmt: skip
    except NotSupported as reason:
        reasons.append(str(reason))
    return CostLines(leaks, errors, tuple(reasons))


class _Counted:
    """Says how many of a number of places are done; called after each."""

    def __init__(self, words: str, total: int) -> None:
        self.words, self.total, self.done = words, total, 0
        doing(words, 0, total)

    def __call__(self) -> None:
        self.done += 1
        doing(self.words, self.done, self.total)
