"""A chain learnt from the records that are to be protected: through noise, and on account.

*What is guaranteed of a fit and its answers together.* Let a ledger hold a class of chains, stated
beforehand, under which the level e_f of the fit is affordable. The fit publishes the noisy table of
transitions a, at the level e_f; a region R(a) follows from it, and answers are planned under it.
Every output (a, b) of fit and answers has a likelihood Pr[a | x] Pr[b | a, x] of the records x. One
replaced record changes the first factor by at most e^{e_f} and the second by at most e^{e_2}, where
e_2 = e_2(a) may depend on a, and on earlier answers. So it is one of the likelihoods that the
exchange theorem goes through for the level e_f + e_2(a), and for every chain P of R(a) and every
adversary ln Pr[a, b | x_i, x_K] / Pr[a, b | x_i', x_K] is at most the leakage of `PureDP(e_f +
e_2(a))` under P. The account keeps the sum of levels within the budget of the limit under R(a)
(`undertow.ledger.book.Ledger.narrow`): the limit holds whenever R(a) has the true chain in it,
which fails with probability 1 - confidence at most, over records and noise. For rare values of x_i
and x_K a miss may be likelier than that. It is no guarantee against an attacker who is unsure which
chain is true: a mixture of chains can leak more than each of them.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.data.readers.lists import PlainSeries, read_records
from undertow.data.table import Data
from undertow.errors import InvalidInput, LedgerConflict, NotSupported
from undertow.ledger.rules import Entry, check_same
from undertow.models.fitting.private import PrivateFit, check_confidence
from undertow.models.records import RecordDescription
from undertow.numerics import check_positive
from undertow.planning.calibrate import plan_at_level
from undertow.queries import State, Transitions
from undertow.releasing.account import check_ledger, entry_for, spend_terms
from undertow.releasing.request import ReleaseRequest, carry_out, prepare
from undertow.rounding import above
from undertow.sampling.bits import chosen

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger

__all__ = [
    "private_fit",
]


_SPLIT = 0.05
"""Probability with which noise may exceed the figure in the refusal of a small level."""


def private_fit(
    data: Any,
    states: Sequence[State] | None = None,
    *,
    level: float,
    ledger: "Ledger | None",
    confidence: float = 0.95,
    prior: float = 0.5,
    length: int | None = None,
    release_id: str | None = None,
    insecure_seed: int | None = None,
) -> PrivateFit:
    """Return the chain fitted to records through noise of a DP ``level``, which a ledger pays.

    ``data`` is a `undertow.Data`, one series, or a list of series; ``states`` are those of the
    ledger's model. The unit is that of the ledger: one record, or all records of a person. The same
    fit again gives the recorded counts and spends nothing. ``confidence`` is that of the region,
    and fixed here. Refused before anything is spent: a level that the ledger does not afford, one
    too small to learn anything, records without neighbours.

    >>> import tempfile
    >>> from undertow import Ledger, MarkovChain
    >>> folder = tempfile.TemporaryDirectory()
    >>> wide = MarkovChain.box([[.6, .1], [.2, .5]], [[.9, .4], [.5, .8]])
    >>> ledger = Ledger(f"{folder.name}/w.db", "w", model=wide, limit=1.0, memory=False)
    >>> records = MarkovChain([[.882, .118], [.305, .695]]).simulate(10_000, seed=1)
    >>> fit = private_fit(records, level=.06, ledger=ledger)
    >>> fit.counts.shape, ledger.level(), ledger.narrow(fit.release_id).size
    ((2, 2), 0.06, 2)
    >>> folder.cleanup()
    """
    spent, sure = (
        check_positive(level, "private (the DP level of the fit)"),
        check_confidence(confidence),
    )
    if ledger is None:
        raise InvalidInput(
            "a private fit spends a DP level, which must be affordable on a class of chains stated "
            "beforehand: pass ledger=Ledger(..., model=THAT_CLASS, limit=...)"
        )
    names = _states(states, ledger)
    table = _readable(data, names)
    if table.touched()[0] is not None:
        raise InvalidInput("a fit is of all records together; leave the groups (by=...) out")
    stated = ledger.stated()
    plan = plan_at_level(
        Transitions(), stated, spent, ledger.against, ledger.secret,
        accept=ledger.accepted,
    )  # fmt: skip
    shape, noise = table.shape(), plan.noise
    _check_useful(len(names), shape.rows - shape.persons, noise, spent)
    # which records they are, the account knows
    described = table.described() or RecordDescription()
    fitted = {
        "scale": noise.amount, "confidence": sure, "states": list(names), "records": shape.rows,
        **({"described": described.to_dict()} if described else {}),
    }  # fmt: skip
    ready = _named(prepare(plan, table), fitted, release_id)
    noisy = _counts(ready, ledger, insecure_seed)
    return PrivateFit(
        noisy, names, level=ready.level, scale=noise.amount, sample_size=shape.rows,
        confidence=sure, within=stated, prior=prior or 0.5, length=length,
        release_id=_entry_of(ready).release_id,
    ).with_records(described)  # fmt: skip


def _entry_of(ready: ReleaseRequest) -> Entry:
    if ready.entry is None:
        raise InvalidInput("a private fit needs a ledger")
    return ready.entry


def _counts(ready: ReleaseRequest, ledger: "Ledger", insecure_seed: int | None) -> Any:
    """Return the noisy table: recorded earlier, or drawn now and paid for."""
    entry, size = _entry_of(ready), len(ready.plan.states)
    recorded = ledger.entry(entry.release_id)
    if recorded is not None and recorded.result is not None:
        check_same(recorded, entry)
        return np.array(recorded.result["numbers"][0]).reshape(size, size)
    if ledger.narrowed:
        raise LedgerConflict(
            "a private fit has narrowed this account already, and only one does: plan under "
            "ledger.model, or repeat that very fit"
        )
    check_ledger(ready.plan, ledger, ready.shape.series, ready.table)
    randomness = chosen(insecure_seed, accounted=True)
    out = carry_out(ready, ledger, randomness=randomness)
    return [list(row.values()) for row in out.value.values()]


def _states(states: Sequence[State] | None, ledger: "Ledger") -> tuple[State, ...]:
    """Return the states of the ledger's model, which are those of the fit."""
    own = ledger.model.states
    if not own:
        raise NotSupported(
            "the ledger's model names no states; keep the account under a class of chains, such as "
            "MarkovChain.box(lower, upper, states=...)"
        )
    if states is not None and tuple(states) != own:
        raise InvalidInput(
            f"the fit is of {len(tuple(states))} states, and the ledger's model has others, or in "
            f"another order: {', '.join(map(repr, own[:12]))}; leave states out"
        )
    return own


def _named(ready: ReleaseRequest, fitted: dict[str, Any], release_id: str | None) -> ReleaseRequest:
    """Return the request with an entry that states its purpose before any noise is drawn."""
    terms = spend_terms(ready.plan, ready.proof)
    entry = entry_for(ready.plan, ready.table, ready.shape, release_id, **terms)
    text = json.dumps([entry.release_id, fitted], sort_keys=True, default=str)
    name = release_id or hashlib.sha256(text.encode()).hexdigest()[:32]
    about = {**entry.about, "fit": fitted}
    return replace(ready, entry=replace(entry, release_id=name, about=about))


def _check_useful(size: int, pairs: int, noise: Any, level: float) -> None:
    """Refuse a fit that would be uninformative, judged by public numbers alone."""
    if pairs < 1:
        raise InvalidInput(
            "no record has a neighbour in the same series: there are no transitions to count; take "
            "a wider window, or name the person and the time of the records"
        )
    off, each = noise.quantile(_SPLIT / size**2), pairs / size
    if off > each / 2:
        needed = level * 2 * off / each
        raise NotSupported(
            f"a level of {level:g} puts noise of up to {above(off)} on each of {size**2} counts, "
            f"and {pairs} pairs of records are about {each:.0f} for each state: such a fit says "
            f"nothing; a level of about {above(needed, 2)} would be needed, or "
            f"{math.ceil(2 * off * size)} records"
        )


def _readable(data: Any, states: Sequence[State]) -> Data | PlainSeries:
    """Return the reader of a table, of one series, or of a list of series."""
    if not isinstance(data, list | tuple):
        return read_records(data, states)
    nested = [isinstance(item, list | tuple | np.ndarray) for item in data]
    if any(nested) and not all(nested):
        raise InvalidInput("some of the records are series and some are not; pass one kind")
    items = [item for item in data if len(item)] if any(nested) else data
    if not len(items):
        raise InvalidInput("there are no records: nothing to fit")
    return read_records(items, states)
