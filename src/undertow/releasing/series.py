"""Series randomised record by record: flips, erasures, and streams for devices.

Each series is randomised by itself, under a secret key of the release by which every record has
bits of its own. Nothing leaves here but outputs: no message depends on a record. A record that is
missing or no state of the plan counts as a state; only a curator who says ``strict=True`` has it
refused, by its place.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from undertow.data.codes import (
    Coded,
    CodedPieces,
    Erased,
    Lookup,
    Numbers,
    Rule,
    coded,
)
from undertow.data.grid import Shape
from undertow.data.readers.lists import PlainSeries, read_records
from undertow.data.records import check_records
from undertow.data.table import Data
from undertow.data.writing import OutputDigest
from undertow.errors import InvalidInput, InvalidPlan, NotSupported
from undertow.ledger.rules import Entry
from undertow.mechanisms import Flips, LocalMechanism, RandomizedResponse, Redaction, XorNoise
from undertow.numerics import check_flag
from undertow.plan import Plan
from undertow.planning.coverage import check_groups, check_proof, group_conditions, group_size
from undertow.releasing.account import (
    account_conditions,
    check_ledger,
    entry_for,
    local_terms,
    released,
    reserve,
)
from undertow.releasing.outputs import ClusterTask, is_spread, outputs_digest, write, writing_to
from undertow.sampling.bits import Insecure, Randomness, chosen
from undertow.sampling.flips import Thresholds, erase, flip, noise
from undertow.sampling.keyed import Digest, Key, check_places, randomised
from undertow.sampling.streaming import steps
from undertow.sampling.streams import draws, single_draws

if TYPE_CHECKING:
    from pathlib import Path

    from undertow.certificate import Leakage
    from undertow.ledger.book import Ledger

__all__ = [
    "Outputs",
    "SeriesRequest",
    "Stream",
    "carry_out",
    "draw",
    "fingerprint",
    "prepare",
    "sanitize",
    "stream",
]


Drawn = tuple[Numbers, Erased]
"""The number of each output, and which records are erased (None: none can be)."""


def sanitize(
    plan: "Plan[Flips] | Plan[Redaction]",
    data: "Data | Iterable[Any]",
    *,
    strict: bool = False,
    insecure_seed: int | None = None,
    ledger: "Ledger | None" = None,
    release_id: str | None = None,
    output: "str | Path | None" = None,
) -> Any:
    """Return the series with every record flipped or erased as the plan says, in its own form.

    One series is a list, an array, or a column of pandas or Polars; several are a list of these
    or an array with a row for each; `Data` becomes a Polars frame with the columns of persons,
    times and groups as they were, and the outputs last. Absent steps of time stay absent. A
    record that is missing or no state of the plan is in the state that the plan names for it
    (``calibrate(..., missing=...)``), by default its first; ``strict=True`` refuses it by its
    place, and that refusal depends on the records.

    Where a record is erased, a list has None, an array is masked (with nothing under the mask),
    and a frame has null, and True in the column ``erased``; a protected record is always erased.

    The plan must be for whole series at least as long as these, whatever window is taken of them;
    erasures are of whole series of the plan's length.
    Records of a Spark frame are written to ``output``, a folder of Parquet files that is not there
    yet and that all workers see; its path is returned.

    Flips come from secure bits; ``insecure_seed`` makes them repeatable and gives up privacy.
    With a ``ledger`` the DP level of the flips is reserved first (erasures stand in a ledger alone,
    with the leakage of their plan), and a hash of the outputs is
    recorded before they are returned. A run that was interrupted before that is repeated with the
    same outputs, if the records are the same. After it asking again is refused: a second draw is
    a second release.

    >>> from undertow import MarkovChain, Series, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> plan = calibrate(Series(), chain, limit=3.0)
    >>> sanitize(plan, ["idle", "active", "active", "idle"], insecure_seed=1)
    ['idle', 'idle', 'active', 'idle']
    """
    _local(plan)
    bits = chosen(insecure_seed, accounted=ledger is not None)
    target = writing_to(output, data, bits)
    ready = prepare(plan, data, ledger, strict=strict, release_id=release_id)
    if target is not None and isinstance(ready.table, Data):
        rule = _rule(plan, strict)
        return write(ClusterTask(ready.table, rule, plan, ready.entry, target), ledger)
    return carry_out(ready, ledger, randomness=bits)


@dataclass(frozen=True, slots=True)
class SeriesRequest:
    """A validated request to randomise series: what is read, spent and guaranteed.

    ``entry`` is the requested ledger entry, None without a ledger; ``conditions`` are what the data
    did not say, each a clause of the guarantee's first sentence.
    """

    plan: "Plan[Any]"
    table: "Data | PlainSeries"
    shape: Shape
    read: Coded | CodedPieces
    entry: Entry | None
    conditions: tuple[str, ...] = ()


def prepare(
    plan: "Plan[Any]",
    data: "Data | Iterable[Any]",
    ledger: "Ledger | None" = None,
    *,
    strict: bool = False,
    release_id: str | None = None,
) -> SeriesRequest:
    """Validate what `sanitize` would do, and return the request.

    First whether these are the records that the plan is about, then whether their types can be its
    states, as for a release. Then the records are read, so that whatever is wrong with them spends
    nothing; nothing is drawn.

    >>> from undertow import MarkovChain, Series, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> prepare(calibrate(Series(), chain, limit=3.0), ["idle", "active"]).table.shape().rows
    2
    """
    proof = _checked(plan)
    table = read_records(data, plan.states)
    conditions = check_records(plan, table)
    table.check_types(plan.states)
    read = table.coded(_rule(plan, strict))
    shape = table.shape()
    check = _check_whole if _erases(plan) else _check_lengths
    # records that are not shown depend on those that are: the proof must be about all of them
    check(plan, read, max(read.longest, int(shape.series)))
    reading = table.reading()
    ungrouped = reading.get("ungrouped", False)
    conditions += group_conditions(plan.model, ungrouped=ungrouped)
    if not ungrouped:
        whose = "series" if isinstance(table, PlainSeries) else reading.get("person")
        check_groups(plan.model, int(shape.series), person=whose)
    check_places(read.longest)
    entry = None
    if ledger is not None:
        check_ledger(plan, ledger, shape.series, table)
        conditions += account_conditions(plan, ledger)
        entry = entry_for(plan, table, shape, release_id, **local_terms(plan, ledger, proof))
    return SeriesRequest(plan, table, shape, read, entry, conditions)


def carry_out(
    ready: SeriesRequest, ledger: "Ledger | None" = None, *, randomness: Randomness | None = None
) -> Any:
    """Return the outputs in the form of the data; reserved before, recorded before they leave."""
    if ledger is None or ready.entry is None:
        return draw(ready, randomness=randomness)[0]
    name = ready.entry.release_id
    if reserve(ready.entry, ready.table, ledger).result is not None:
        raise released(name)
    outputs, result = draw(ready, ledger, randomness=randomness)
    if ledger.confirm(name, result) != result:
        raise released(name)
    return outputs


def draw(
    ready: SeriesRequest, ledger: "Ledger | None" = None, *, randomness: Randomness | None = None
) -> tuple[Any, dict[str, Any]]:
    """Return outputs that no one has seen yet, and what a ledger must record before anyone does.

    The level must be reserved: from here on the ledger holds it to be spent. Secure bits are those
    of a key, by address; a ledger keeps it until the release is recorded, and the same records
    give the same outputs till then. Seeded bits are drawn in order, as in `Plan.stream`.
    """
    read, mechanism = ready.read, ready.plan.mechanism
    if not isinstance(read, Coded):
        raise NotSupported(
            f"{read.data.source.named} is read in pieces, and so are its outputs: have them "
            "written to a file by 'undertow sanitize' with --output, or allow "
            "more memory (memory=...)"
        )
    if ledger is not None and ready.entry is not None:
        ledger.begin(ready.entry.release_id)
    names = mechanism.names(ready.plan.states)
    if isinstance(randomness, Insecure):
        numbers, erased = _DRAWS[type(mechanism)](mechanism, read, draws(randomness))
    else:
        series = (read.labels, read.lengths, read.codes, read.places)
        drawn = randomised(mechanism, _key(ready, ledger), *series)
        numbers, erased = drawn.numbers, drawn.erased
    outputs = OutputDigest(names)
    outputs.feed(read.lengths, numbers, erased)
    result = {
        "records": int(read.lengths.sum()), "series": len(read.lengths),
        "sha256": outputs.result(),
    }  # fmt: skip
    return read.restore(names, numbers, erased), result


class Outputs:
    """Outputs of a table: frames in the order of its rows, as many as pieces in which it is read.

    The level must be reserved, as for `draw`. ``result`` is what a ledger must record; it is there
    when all frames have been taken. Outputs are those of `draw`, whatever the pieces.
    """

    def __init__(self, ready: SeriesRequest, ledger: "Ledger | None" = None) -> None:
        """Derive the key, for which the records are read."""
        if ledger is not None and ready.entry is not None:
            ledger.begin(ready.entry.release_id)
        self._ready, self._key = ready, _key(ready, ledger)
        self._recorded = ledger is not None
        self.result: dict[str, Any] = {}

    def frames(self) -> Iterator[Any]:
        """Yield the outputs with the public columns of their rows, piece after piece."""
        ready, read, carry = self._ready, self._ready.read, None
        mechanism, records, series = ready.plan.mechanism, 0, 0
        names = mechanism.names(ready.plan.states)
        outputs = OutputDigest(names)
        for piece in read.pieces("records randomised"):
            drawn = randomised(
                mechanism, self._key, piece.labels, piece.lengths, piece.codes, piece.places, carry
            )
            carry = drawn.carry
            records += int(piece.lengths.sum())
            series += len(piece.lengths) - piece.goes_on
            if self._recorded:
                outputs.feed(piece.lengths, drawn.numbers, drawn.erased, goes_on=piece.goes_on)
            yield piece.restore(names, drawn.numbers, drawn.erased)
        self.result = {
            "records": records, "series": series, "sha256": outputs.result()
        }  # fmt: skip


def _key(ready: SeriesRequest, ledger: "Ledger | None") -> Key:
    """Return the key to draw under: the ledger's for these very records, or a fresh one."""
    if ledger is None or ready.entry is None:
        return Key.fresh()
    key = ledger.release_key(ready.entry.release_id)
    digest = Digest(key)
    for piece in ready.read.pieces("records compared with an earlier run"):
        digest.feed(piece.labels, piece.lengths, piece.codes, piece.places)
    return key.for_input(digest.result())


def _flipped(mechanism: RandomizedResponse, read: Coded, streams: Any) -> Drawn:
    return flip(Thresholds.of(mechanism), read.codes, streams), None


def _in_runs(mechanism: XorNoise, read: Coded, streams: Any) -> Drawn:
    flips = noise(mechanism, read.spans.tolist(), streams)
    if read.places is not None:  # the noise goes on where steps are absent
        begins = np.cumsum(read.spans) - read.spans
        flips = flips[np.repeat(begins, read.lengths) + read.places]
    return read.codes ^ flips, None


def _redacted(mechanism: Redaction, read: Coded, streams: Any) -> Drawn:
    erased = erase(Thresholds.of_erasures(mechanism), read.codes, mechanism.length, streams)
    # (series, record): a protected record is erased in each
    erased.reshape(-1, mechanism.length)[:, list(mechanism.protect)] = True
    return np.where(erased, 0, read.codes), erased


_DRAWS: dict[type, Callable[..., Drawn]] = {
    RandomizedResponse: _flipped,
    XorNoise: _in_runs,
    Redaction: _redacted,
}
"""Implementation of each local mechanism on whole series, with seeded bits in order."""


class Stream:
    """One series, randomised record by record; made by `Plan.stream`."""

    def __init__(
        self, plan: "Plan[Any]", mechanism: LocalMechanism, rule: Rule, randomness: Randomness
    ) -> None:
        self._lookup, self._names = Lookup(rule), mechanism.names(plan.states)
        self._length = group_size(plan.model) if plan.length is None else plan.length
        self._step = steps(mechanism, single_draws(randomness))
        self.records = 0

    def push(self, record: Any) -> Any:
        """Return the output of the next record, None if it is erased."""
        if self._length is not None and self.records >= self._length:
            raise InvalidInput(
                f"the plan is for {self._length} records of a series, and all have come; begin a "
                "new stream for the next series"
            )
        number = self._lookup.settled(record, f"record {self.records}")
        output = self._step(number)
        self.records += 1
        return None if output is None else self._names[output]

    def each(self, records: Iterable[Any]) -> Iterator[Any]:
        """Yield the output of each record, as soon as it has come."""
        for record in records:
            yield self.push(record)

    def __reduce__(self) -> Any:
        raise NotSupported("a stream is never copied: a copy would randomise the same series twice")


def stream(
    plan: "Plan[Any]",
    *,
    strict: bool = False,
    insecure_seed: int | None = None,
) -> Stream:
    """Return a stream that randomises one series record by record, as on a device.

    Flips need no memory, erasures the number of records so far, a noise chain its state. Bits
    come from the operating system for each record. ``strict`` is that of `sanitize`. With the same
    ``insecure_seed``, `sanitize` makes the same outputs of the whole series.

    >>> from undertow import MarkovChain, Series, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> plan = calibrate(Series(), chain, limit=3.0)
    >>> list(stream(plan, insecure_seed=1).each(["idle", "active", "active", "idle"]))
    ['idle', 'idle', 'active', 'idle']
    """
    _checked(plan)
    bits = chosen(insecure_seed, accounted=False)
    return Stream(plan, plan.mechanism, _rule(plan, strict), bits)


def fingerprint(sanitised: "Data | Iterable[Any]", plan: "Plan[Any]") -> str:
    """Return the hash of outputs that a ledger has recorded as ``sha256``.

    SHA-256 of the outputs as JSON, each followed by a line feed (``null`` for an erased one), with
    one more line feed after each series. Series of a table are its persons, in the order of their
    first rows, each in order of time. Persons of a Spark frame have no order: what is recorded of
    its outputs as ``digest`` is the sum of their hashes.

    >>> from undertow import MarkovChain
    >>> from undertow.certificate import Leakage
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> level = Leakage(2.2, 2.2, "exact", "any")
    >>> plan = Plan(RandomizedResponse.binary(.25, .25), chain, 2.2, level, "exact")
    >>> import hashlib
    >>> fingerprint([0, 1], plan) == hashlib.sha256(b"0\\n1\\n\\n").hexdigest()
    True
    """
    names = _local(plan).names(plan.states)
    missing = len(names) if _erases(plan) else None
    rule = Rule(names, missing=missing, outputs=True)
    if is_spread(sanitised):
        return outputs_digest(cast("Data", sanitised), rule)
    read = coded(sanitised, rule)
    outputs = OutputDigest(names)
    for piece in read.pieces("records read"):
        erased = piece.codes == len(names)
        outputs.feed(piece.lengths, piece.codes, erased, goes_on=piece.goes_on)
    return outputs.result()


def _local(plan: Any) -> LocalMechanism:
    """Return the mechanism of a plan for series, or refuse a plan for an answer."""
    if not isinstance(plan, Plan):
        raise InvalidInput(f"a Plan is required, found {type(plan).__name__}; use calibrate(...)")
    mechanism: Any = plan.mechanism
    if type(mechanism) not in _DRAWS:
        raise NotSupported(
            "this plan answers a query with noise, it randomises no series; use release(plan, "
            "data), or plan for Series() or Redacted(...)"
        )
    local: LocalMechanism = mechanism
    return local


def _erases(plan: Any) -> bool:
    return _local(plan).task == "redact"


def _checked(plan: "Plan[Any]") -> "Leakage":
    """Return the proof of a plan for series, or refuse it."""
    mechanism = _local(plan)
    proof = check_proof(plan)
    if not plan.states:
        raise NotSupported("the plan's model names no states; plan with a MarkovChain")
    if len(plan.states) != mechanism.inputs:
        raise InvalidPlan(
            f"the plan's mechanism is for {mechanism.inputs} states, its model has "
            f"{len(plan.states)}; make the plan again"
        )
    return proof


def _rule(plan: "Plan[Any]", strict: bool) -> Rule:
    """Return how records are read: missing and foreign ones in the state that the plan names."""
    if check_flag(strict, "strict") or plan.rest is None:
        return Rule(plan.states)
    return Rule(plan.states, foreign=plan.states.index(plan.rest))


def _check_lengths(plan: "Plan[Any]", _read: Coded | CodedPieces, longest: int) -> None:
    """Refuse series beyond the plan; flips of a window are part of flips of the whole series.

    ``longest`` counts the steps of the longest whole series, of which a part may be shown.
    """
    if plan.length is not None and longest > plan.length:
        raise InvalidInput(
            f"the plan is for at most {plan.length} records of a series, and one has {longest}, "
            "absent steps and records outside a window or its groups included; plan for that "
            "many, or for any length"
        )


def _check_whole(plan: "Plan[Any]", read: Coded | CodedPieces, longest: int) -> None:
    """Refuse series that do not have exactly the plan's records: erasures go by place."""
    length = plan.mechanism.length
    wrong = read.irregular(length)
    if wrong is not None:
        series, records, gaps = wrong
        absent = f", and {gaps} steps are absent" if gaps else ""
        raise InvalidInput(
            f"the plan is for exactly {length} records, and series {series} (counting from 0) has "
            f"{records}{absent}; plan for this length"
        )
    if longest > length:
        raise InvalidInput(
            f"the plan is for exactly {length} records, and a series has {longest}, of which a "
            "window or some groups are selected: a redaction is of whole series; plan for this "
            "length"
        )
