"""Series randomised record by record: flips, erasures, and streams for devices.

Each series is randomised by itself. Nothing leaves here but outputs: no message depends on a
record. A record that is missing or no state of the plan counts as a state; only a curator who
says ``strict=True`` has it refused, by its place.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from undertow.accounting import asking, check_ledger, local_entry, released
from undertow.channels import Flips, LocalMechanism, RandomizedResponse, Redaction, XorNoise
from undertow.data.codes import Coded, Lookup, Rule, coded
from undertow.data.table import Scope, Shape
from undertow.errors import (
    AccountWarning,
    InvalidInput,
    InvalidPlan,
    NotSupported,
    UnknownState,
)
from undertow.mechanisms import DiscreteLaplace, Laplace
from undertow.plan import Plan
from undertow.planning.proofs import check_proof
from undertow.queries import State
from undertow.sampling.bits import Insecure, Randomness, Secure
from undertow.sampling.flips import Table, erase, flip, noise
from undertow.sampling.streaming import steps
from undertow.sampling.streams import draws, single_draws

if TYPE_CHECKING:
    from undertow.data.table import Data
    from undertow.ledger.book import Ledger

__all__ = ["Stream", "fingerprint", "output_names", "redact", "sanitize", "stream"]

Drawn = tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]
"""The number of each output, and which records are erased (None: none can be)."""


def sanitize(
    plan: "Plan[Flips]",
    data: "Data | Iterable[Any]",
    *,
    foreign: State | None = None,
    strict: bool = False,
    insecure_seed: int | None = None,
    ledger: "Ledger | None" = None,
    release_id: str | None = None,
) -> Any:
    """Return the series with every record flipped as the plan says, in the form it came in.

    One series is a list, an array, or a column of pandas or Polars; several are a list of these
    or an array with a row for each; `Data` becomes a Polars frame with the columns of persons,
    times and groups as they were, and the outputs last. Absent steps of time stay absent. A
    record that is missing or no state of the plan counts as the state ``foreign``, by default the
    plan's first; ``strict=True`` refuses it by its place, and that refusal depends on the records.

    The plan must be for whole series at least as long as these, whatever window is taken of them.

    Flips come from secure bits; ``insecure_seed`` makes them repeatable and gives up privacy.
    With a ``ledger`` the DP level of the flips is reserved first, and a hash of the outputs is
    recorded before they are returned. Asking again is refused: a second draw is a second release.

    >>> from undertow import MarkovChain, Series, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> plan = calibrate(Series(), chain, limit=3.0)
    >>> sanitize(plan, ["idle", "active", "active", "idle"], insecure_seed=1)
    ['idle', 'idle', 'active', 'idle']
    """
    mechanism = _flips(plan)
    randomness = _randomness(insecure_seed, ledger)
    names = output_names(plan)
    read = coded(data, _rule(plan, foreign, strict))
    _check_lengths(plan, read, data)

    def draw() -> Drawn:
        streams = draws(randomness)
        if isinstance(mechanism, XorNoise):
            flips = noise(mechanism, read.spans.tolist(), streams)
            return read.codes ^ _present(flips, read), None
        return flip(Table.of(mechanism), read.codes, streams), None

    return _accounted(plan, names, data, read, draw, ledger, release_id)


def redact(
    plan: "Plan[Redaction]",
    data: "Data | Iterable[Any]",
    *,
    foreign: State | None = None,
    strict: bool = False,
    insecure_seed: int | None = None,
    ledger: "Ledger | None" = None,
    release_id: str | None = None,
) -> Any:
    """Return the series with records erased as the plan says; every series has its length.

    Where a record is erased, a list has None, an array is masked (with nothing under the mask),
    and a frame has null, and True in the column ``erased``. A protected record is always erased.
    Data, ``foreign``, ``strict``, ``insecure_seed`` and ``ledger`` are those of `sanitize`; a
    redaction is of whole series, and stands in a ledger alone, with the leakage of its plan.

    >>> from undertow import MarkovChain
    >>> from undertow.certificate import Leakage
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"), length=3)
    >>> erasures = Redaction([[1, 0], [1, 1], [0, 0]], protect=1)
    >>> plan = Plan(erasures, chain, 4.0, Leakage(0.0, 4.0, "exact", "any"), "optimal")
    >>> redact(plan, ["active", "active", "idle"])
    ['active', None, 'idle']
    """
    mechanism = _redaction(plan)
    randomness = _randomness(insecure_seed, ledger)
    read = coded(data, _rule(plan, foreign, strict))
    _check_whole(mechanism, read, data)

    def draw() -> Drawn:
        table, length = Table.of_erasures(mechanism), mechanism.length
        erased = erase(table, read.codes, length, draws(randomness))
        erased.reshape(-1, length)[:, list(mechanism.protect)] = True
        return np.where(erased, 0, read.codes), erased

    return _accounted(plan, plan.states, data, read, draw, ledger, release_id)


class Stream:
    """One series, randomised record by record; made by `stream`."""

    def __init__(
        self, plan: "Plan[Any]", mechanism: LocalMechanism, rule: Rule, randomness: Randomness
    ) -> None:
        self._lookup, self._names = Lookup(rule), output_names(plan)
        self._length = plan.length
        self._steps = steps(mechanism, single_draws(randomness))
        self.records = 0

    def push(self, record: Any) -> Any:
        """Return the output of the next record, None if it is erased."""
        if self._length is not None and self.records >= self._length:
            raise InvalidInput(
                f"the plan is for {self._length} records of a series, and all have come; begin a "
                "new stream for the next series"
            )
        number = self._lookup.settled(record, f"record {self.records}")
        output = self._steps.push(number)
        self.records += 1
        return None if output is None else self._names[output]

    def each(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield the output of each record, as soon as it has come."""
        for record in records:
            yield self.push(record)

    def __reduce__(self) -> Any:
        raise TypeError("a stream is never copied: a copy would randomise the same series twice")


def stream(
    plan: "Plan[Any]",
    *,
    foreign: State | None = None,
    strict: bool = False,
    insecure_seed: int | None = None,
) -> Stream:
    """Return what randomises one series record by record, for a device that holds no more.

    Flips need no memory, erasures the number of records so far, a noise chain its state. Bits
    come from the operating system for each record. ``foreign`` and ``strict`` are those of
    `sanitize`. With the same ``insecure_seed``, `sanitize`
    and `redact` make the same outputs of the whole series.

    >>> from undertow import MarkovChain, Series, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> plan = calibrate(Series(), chain, limit=3.0)
    >>> list(stream(plan, insecure_seed=1).each(["idle", "active", "active", "idle"]))
    ['idle', 'idle', 'active', 'idle']
    """
    redacted = isinstance(_check_plan(plan).mechanism, Redaction)
    mechanism: LocalMechanism = _redaction(plan) if redacted else _flips(plan)
    return Stream(plan, mechanism, _rule(plan, foreign, strict), _randomness(insecure_seed, None))


def fingerprint(sanitised: "Data | Iterable[Any]", plan: "Plan[Any]") -> str:
    """Return the hash of outputs that a ledger has recorded as ``sha256``.

    SHA-256 of the outputs as JSON, each followed by a line feed (``null`` for an erased one), with
    one more line feed after each series. Series of a table are its persons, in the order of their
    first rows, each in order of time.

    >>> from undertow import MarkovChain
    >>> from undertow.certificate import Leakage
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> level = Leakage(2.2, 2.2, "exact", "any")
    >>> plan = Plan(RandomizedResponse.binary(.25, .25), chain, 2.2, level, "exact")
    >>> fingerprint([0, 1], plan) == hashlib.sha256(b"0\\n1\\n\\n").hexdigest()
    True
    """
    names = output_names(plan)
    redacted = isinstance(plan.mechanism, Redaction)
    read = coded(sanitised, Rule(names, missing=len(names) if redacted else None, outputs=True))
    return _digest(names, read, read.codes, read.codes == len(names))


def output_names(plan: "Plan[Any]") -> tuple[State, ...]:
    """Return what the outputs of a local plan are called: by default like the states.

    >>> from undertow import MarkovChain
    >>> from undertow.certificate import Leakage
    >>> chain, level = MarkovChain([[.9, .1], [.3, .7]]), Leakage(9.0, 9.0, "exact", "any")
    >>> output_names(Plan(RandomizedResponse([[1, 0, 0], [0, 0, 1]]), chain, 9.0, level, "exact"))
    (0, 1, 2)
    """
    mechanism = plan.mechanism
    if not isinstance(mechanism, RandomizedResponse):
        return plan.states
    if mechanism.outputs is not None:
        return mechanism.outputs
    columns = mechanism.matrix.shape[1]
    return plan.states if columns == len(plan.states) else tuple(range(columns))


def _check_plan(plan: Any) -> "Plan[Any]":
    if not isinstance(plan, Plan):
        raise InvalidInput(f"a Plan is required, found {type(plan).__name__}; use calibrate(...)")
    if isinstance(plan.mechanism, Laplace | DiscreteLaplace):
        raise NotSupported(
            "this plan answers a query with noise, it randomises no series; use release(plan, "
            "data), or plan for Series() or Redacted(...)"
        )
    check_proof(plan)
    return plan


def _flips(plan: "Plan[Any]") -> Flips:
    mechanism = _check_plan(plan).mechanism
    if isinstance(mechanism, Redaction):
        raise NotSupported("this plan erases records, it flips none; use redact(plan, data)")
    rows = mechanism.matrix.shape[0] if isinstance(mechanism, RandomizedResponse) else 2
    _check_states(plan, rows)
    flips: Flips = mechanism
    return flips


def _redaction(plan: "Plan[Any]") -> Redaction:
    mechanism = _check_plan(plan).mechanism
    if not isinstance(mechanism, Redaction):
        raise NotSupported("this plan flips records, it erases none; use sanitize(plan, data)")
    _check_states(plan, mechanism.probabilities.shape[1])
    return mechanism


def _check_states(plan: "Plan[Any]", rows: int) -> None:
    if not plan.states:
        raise NotSupported("the plan's model names no states; plan with a MarkovChain")
    if len(plan.states) != rows:
        raise InvalidPlan(
            f"the plan's mechanism is for {rows} states, its model has {len(plan.states)}; make "
            "the plan again"
        )


def _randomness(insecure_seed: int | None, ledger: "Ledger | None") -> Randomness:
    if insecure_seed is None:
        return Secure()
    if ledger is not None:
        raise InvalidInput("seeded flips are not private: a ledger does not account for them")
    return Insecure(insecure_seed)


def _rule(plan: "Plan[Any]", foreign: State | None, strict: bool) -> Rule:
    """Return what records count as: foreign ones as a state of the plan, by default its first."""
    if foreign is not None and strict:
        raise InvalidInput(
            "strict=True refuses records that are missing or no state of the plan, and foreign=... "
            "counts them as one; say one of both"
        )
    if strict:
        return Rule(plan.states)
    if foreign is not None and foreign not in plan.states:
        raise UnknownState(
            f"foreign records are to count as {foreign!r}, which is not among the plan's states "
            f"{plan.states}"
        )
    return Rule(plan.states, foreign=0 if foreign is None else plan.states.index(foreign))


def _longest(read: Coded, data: Any) -> int:
    """Return the steps of the longest whole series, of which a window or groups may be shown.

    Records that are not shown depend on those that are, so the proof must be about all of them.
    """
    shown = int(read.spans.max())
    if not hasattr(type(data), "answers"):
        return shown
    return max(shown, int(data.shape().series))


def _check_lengths(plan: "Plan[Any]", read: Coded, data: Any) -> None:
    """Refuse series beyond the plan; flips of a window are part of flips of the whole series."""
    if plan.length is None:
        return
    longest = _longest(read, data)
    if longest > plan.length:
        raise InvalidInput(
            f"the plan is for at most {plan.length} records of a series, and one has {longest}, "
            "absent steps and records outside a window or its groups included; plan for that "
            "many, or for any length"
        )


def _check_whole(mechanism: Redaction, read: Coded, data: Any) -> None:
    """Refuse series that do not have exactly the plan's records: erasures go by place."""
    wrong = np.flatnonzero((read.spans != mechanism.length) | (read.lengths != read.spans))
    if wrong.size:
        series = int(wrong[0])
        gaps = int(read.spans[series] - read.lengths[series])
        absent = f", and {gaps} steps are absent" if gaps else ""
        raise InvalidInput(
            f"the plan is for exactly {mechanism.length} records, and series {series} (counting "
            f"from 0) has {int(read.lengths[series])}{absent}; plan for this length"
        )
    longest = _longest(read, data)
    if longest > mechanism.length:
        raise InvalidInput(
            f"the plan is for exactly {mechanism.length} records, and a series has {longest}, of "
            "which a window or some groups are asked for: a redaction is of whole series; plan "
            "for this length"
        )


def _present(flips: npt.NDArray[np.uint8], read: Coded) -> npt.NDArray[np.uint8]:
    """Return the noise at the records that are there; it goes on where steps are absent."""
    if read.places is None:
        return flips
    begins = np.cumsum(read.spans) - read.spans
    return flips[np.repeat(begins, read.lengths) + read.places]


def _accounted(
    plan: "Plan[Any]", names: Sequence[State], data: Any, read: Coded, draw: Callable[[], Drawn],
    ledger: "Ledger | None", release_id: str | None,
) -> Any:  # fmt: skip
    """Return the outputs in the form of the data; reserved before, recorded before they leave."""
    if ledger is None:
        return read.restore(names, *draw())
    table = data if hasattr(type(data), "answers") else _Listed(read)
    shape = table.shape()
    check_ledger(plan, ledger, shape.series)
    asked = asking(plan, table, shape, release_id)
    name, entry = asked.release_id, local_entry(plan, ledger, check_proof(plan))
    known = table.identity()
    for said in [] if known is None else ledger.bind(known):
        warnings.warn(said, AccountWarning, stacklevel=4)
    reserved = ledger.reserve(name, scope=asked.scope, about=asked.about, **entry)
    if reserved.result is not None:
        raise released(name)
    ledger.begin(name)
    numbers, erased = draw()
    result = {
        "records": int(read.lengths.sum()),
        "series": len(read.lengths),
        "sha256": _digest(names, read, numbers, erased),
    }
    outputs = read.restore(names, numbers, erased)
    if ledger.confirm(name, result) != result:
        raise released(name)
    return outputs


@dataclass(frozen=True, slots=True)
class _Listed:
    """The public facts about series that came in lists or arrays: all of them are whole."""

    read: Coded

    def shape(self) -> Shape:
        lengths, longest = self.read.lengths, int(self.read.spans.max())
        return Shape(
            int(lengths.sum()), len(lengths), int(lengths.max()), gaps=False, series=longest,
            shortest=int(lengths.min()), windowed=False, split=False,
        )  # fmt: skip

    def scope(self) -> Scope:
        return Scope()

    def asked(self) -> dict[str, Any]:
        return {"source": "the list of records"}

    def identity(self) -> None:
        return None


def _digest(
    names: Sequence[State], read: Coded, numbers: npt.NDArray[Any],
    erased: npt.NDArray[np.bool_] | None,
) -> str:  # fmt: skip
    lines = [json.dumps(name, default=str).encode() + b"\n" for name in names] + [b"null\n"]
    if erased is not None:
        numbers = np.where(erased, len(names), numbers)
    digest = hashlib.sha256()
    for end, size in zip(np.cumsum(read.lengths), read.lengths, strict=True):
        digest.update(b"".join(lines[number] for number in numbers[end - size : end].tolist()))
        digest.update(b"\n")
    return digest.hexdigest()
