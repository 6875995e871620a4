"""Series randomised record by record: flips, erasures, and streams for devices.

Each series is randomised by itself, under a secret key of the release by which every record has
bits of its own. Nothing leaves here but outputs: no message depends on a record. A record that is
missing or no state of the plan counts as a state; only a curator who says ``strict=True`` has it
refused, by its place.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.data.codes import (
    Coded,
    CodedPieces,
    Lookup,
    OutputDigest,
    Rule,
    coded,
)
from undertow.data.folds import feed
from undertow.data.grid import Shape
from undertow.data.readers.lists import PlainSeries, read_records
from undertow.data.readers.spark import Digested, Rewriting, SpreadSeries, needed
from undertow.data.records import check_records
from undertow.data.table import Data
from undertow.errors import InvalidInput, InvalidPlan, NotSupported
from undertow.ledger.rules import Entry
from undertow.mechanisms import Flips, LocalMechanism, Redaction, XorNoise
from undertow.numerics import check_flag
from undertow.plan import Plan, check_plan
from undertow.planning.coverage import check_groups, check_proof, group_conditions, group_size
from undertow.releasing.account import (
    account_conditions,
    check_ledger,
    entry_for,
    local_terms,
    released,
    reserve,
)
from undertow.releasing.drafts import Drafts, abandoned, clear
from undertow.sampling import flips
from undertow.sampling.bits import Insecure, Randomness, Secure, chosen
from undertow.sampling.flips import steps
from undertow.sampling.keyed import Digest, Key, check_places, randomised
from undertow.sampling.streams import draws, single_draws

if TYPE_CHECKING:
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
    target = _target(output, data, bits)
    ready = prepare(plan, data, ledger, strict=strict, release_id=release_id)
    if target is not None and isinstance(ready.read, SpreadSeries):
        return _write(ready, ready.read, target, ledger)
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
        at = read.places
        if at is not None and isinstance(mechanism, XorNoise):  # noise goes on in absent steps
            at = np.repeat(np.cumsum(read.spans) - read.spans, read.lengths) + at
        numbers, erased = flips.draw(mechanism, read.codes, draws(randomness), read.spans, at)
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

    >>> from undertow import MarkovChain, RandomizedResponse
    >>> from undertow.certificate import Leakage
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> level = Leakage(2.2, 2.2, "exact", "any")
    >>> plan = Plan(RandomizedResponse.binary(.25, .25), chain, 2.2, level, "exact")
    >>> import hashlib
    >>> fingerprint([0, 1], plan) == hashlib.sha256(b"0\\n1\\n\\n").hexdigest()
    True
    """
    rule = Rule.of_outputs(_local(plan), plan.states)
    read, names = coded(sanitised, rule), rule.names
    if isinstance(read, SpreadSeries):
        return _digested(read).hex()
    outputs = OutputDigest(names)
    for piece in read.pieces("records read"):
        erased = piece.codes == len(names)
        outputs.feed(piece.lengths, piece.codes, erased, goes_on=piece.goes_on)
    return outputs.result()


def _local(plan: Any) -> LocalMechanism:
    """Return the mechanism of a plan for series, or refuse a plan for an answer."""
    check_plan(plan)
    mechanism: Any = plan.mechanism
    if not isinstance(mechanism, LocalMechanism):
        raise NotSupported(
            "this plan answers a query with noise, it randomises no series; use release(plan, "
            "data), or plan for Series() or Redacted(...)"
        )
    return mechanism


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


# --- records of a cluster, written once to a folder


def _target(output: "str | Path | None", data: Any, bits: Randomness) -> Path | None:
    """Return where the outputs for records of a cluster go; None for records that are here.

    Refused are a cluster's records without such a place, and a place that is taken.
    """
    if not (isinstance(data, Data) and data.source.spread):
        if output is not None:
            raise NotSupported(
                "output=... is for the records of a Spark frame; leave it out, and write what is "
                "returned"
            )
        return None
    if output is None:
        raise NotSupported(
            "a Spark frame is computed anew at every use, and outputs that are drawn at every use "
            "could be averaged: they are written once; say output='...', a folder for them"
        )
    if not isinstance(bits, Secure):
        raise NotSupported(
            "flips by a seed are drawn in the order of the rows, and those of a Spark frame have "
            "none; leave insecure_seed out"
        )
    target = Path(output).absolute()
    _check_free(target)
    return target


def _check_free(target: Path) -> None:
    """Refuse a place for outputs that is taken, or in no folder."""
    if target.exists() or target.is_symlink():
        raise InvalidInput(f"{target} is there already; name a folder that is not, for the outputs")
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder of {target} is not there; make it first")


def _digested(read: SpreadSeries, secret: bytes | None = None) -> bytes:
    """Return the digest of the records of a cluster, by persons in any order."""
    digest = Digested(read.data, read.rule, secret)
    facts = feed(read.data, [digest], *needed(read.data, read.rule))
    read.data.checked(facts.summary)
    return digest.result()


def _write(ready: SeriesRequest, read: SpreadSeries, target: Path, ledger: "Ledger | None") -> Path:
    """Return the folder of the outputs: reserved before, recorded before it gets its name.

    A frame that is flipped when it is read would be flipped again after the release is recorded,
    so none is handed out: the outputs are written to a private folder, recorded, and named last.
    Whoever is interrupted before the record does it again, with the same outputs for the same
    records; whoever is interrupted after it gives the outputs their name. Two passes in order of
    person and time with a ledger (a digest of the records says whether they are those of an
    earlier run), one without.
    """
    if ledger is None or ready.entry is None:
        key = Key.fresh()
        with _drafts(target, _name(target.name)) as drafts:
            _draw_spread(ready, read, drafts.folder(target), key, key)
            drafts.settle()
            drafts.publish()
        return target
    reservation, name = reserve(ready.entry, ready.table, ledger), ready.entry.release_id
    called = _name(reservation.entry_hash)
    if reservation.result is not None:
        return _publish_again(ready, read, target, called, reservation.result)
    ledger.begin(name)
    key = ledger.release_key(name)
    before = _digested(read, key.exported())
    with _drafts(target, called) as drafts:
        folder = drafts.folder(target)
        result = _draw_spread(ready, read, folder, key.for_input(before), key, before)
        drafts.settle()
        drafts.keep = True  # from here on it may be recorded, even if the answer is lost
        if ledger.confirm(name, result) != result:
            drafts.keep = False
            raise released(name)
        drafts.publish()
    return target


def _drafts(target: Path, called: str) -> Drafts:
    """Return the drafts of a release, once those of an earlier run are removed."""
    _check_free(target)
    clear([target], called)
    return Drafts(called, _check_free)


def _draw_spread(
    ready: SeriesRequest, read: SpreadSeries, folder: Path, flips: Key, digest: Key,
    wanted: bytes | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Write the outputs to a folder, and return what a ledger records of them.

    Refused are records that are not those that were read before.
    """
    data, mechanism, source = read.data, ready.plan.mechanism, read.source
    names = mechanism.names(ready.plan.states)
    work = Rewriting(data, read.rule, mechanism, names, flips.exported(), digest.exported())
    data.checked(source.write(data, work, folder).summary)
    if wanted is not None and work.read.result() != wanted:
        raise source.changed()
    return {
        "records": work.read.records,
        "series": work.read.series,
        "digest": work.shown.result().hex(),
    }


def _publish_again(
    ready: SeriesRequest, read: SpreadSeries, target: Path, called: str, recorded: dict[str, Any]
) -> Path:
    """Publish the outputs of an earlier run if they are still there; draw nothing."""
    rule = Rule.of_outputs(ready.plan.mechanism, ready.plan.states)
    for path in abandoned([target], called):
        left = read.source.opened(read.data, path)  # as what was written is read
        if _digested(SpreadSeries(left, rule)).hex() == recorded.get("digest"):
            with Drafts(called, _check_free, keep=True) as drafts:
                drafts.adopt(path, target)
                drafts.publish()
            return target
    raise released("" if ready.entry is None else ready.entry.release_id)


def _name(whose: str) -> str:
    return f"folder-{hashlib.sha256(whose.encode()).hexdigest()[:32]}"
