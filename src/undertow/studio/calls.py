"""What is computed away from the server: functions that a worker process is sent."""

import warnings
from dataclasses import dataclass
from typing import Any

from undertow.errors import DisclosureWarning, InvalidInput, NotSupported
from undertow.models.fitting import FittedChain
from undertow.models.markov import MarkovChain
from undertow.models.sets import AnyModel
from undertow.plan import Plan
from undertow.progress import doing
from undertow.studio.questions import Asked
from undertow.studio.reading import Reading, Source, naming

__all__ = ["Fit", "fit", "plan"]

MOST_STATES = 100
"""More different values than this are measurements, not states."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A chain fitted to a table, and what the tests of its assumptions say in words."""

    chain: FittedChain
    records: int
    missing: int
    persons: int | None
    order: str
    homogeneity: str


def fit(source: Source, reading: Reading) -> Fit:
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
        return Fit(
            chain, kept.records, kept.missing, people, _words(chain.order_test),
            _words(chain.homogeneity_test),
        )  # fmt: skip


def plan(asked: Asked, model: AnyModel) -> "Plan[Any]":
    """Return the plan with the least noise for a question."""
    from undertow.planning.search import calibrate

    made: Plan[Any] = calibrate(
        asked.query(model), model, asked.limit, **asked.arguments()
    )
    return made


def _words(test: Any) -> str:
    try:
        said: str = test().words()
    except NotSupported as reason:
        return str(reason)
    return said
