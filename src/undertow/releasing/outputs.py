"""Randomised records of a cluster, written once to a folder, whole.

A frame that is flipped when it is read would be flipped by the same bits at every reading, but
read of changed records, and after the release is recorded: so none is handed out. The outputs are
written to a private folder beside their place, recorded, and get their name last. Whoever is
interrupted before the record does it again, with the same outputs for the same records; whoever
is interrupted after it gives the outputs their name.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.data.codes import Rule
from undertow.data.folds import feed
from undertow.data.readers.spark import Digested, Rewriting, SpreadSeries, needed
from undertow.data.table import Data
from undertow.errors import InvalidInput, NotSupported
from undertow.ledger.rules import Entry
from undertow.plan import Plan
from undertow.releasing.account import released, reserve
from undertow.releasing.drafts import Drafts, abandoned, clear
from undertow.sampling.bits import Randomness, Secure
from undertow.sampling.keyed import Key

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger

__all__ = [
    "ClusterTask",
    "is_spread",
    "outputs_digest",
    "write",
    "writing_to",
]


@dataclass(frozen=True, slots=True)
class ClusterTask:
    """Validated request to randomise the records of a cluster, and the folder of its outputs."""

    data: "Data"
    rule: Rule
    plan: Plan[Any]
    entry: Entry | None
    target: Path

    @property
    def names(self) -> tuple[Any, ...]:
        """The names of outputs."""
        return tuple(self.plan.mechanism.names(self.plan.states))


def is_spread(data: Any) -> bool:
    """Return whether these are records of a cluster.

    >>> is_spread(["idle", "active"])
    False
    """
    return isinstance(data, Data) and data.source.spread


def writing_to(output: "str | Path | None", data: Any, bits: Randomness) -> Path | None:
    """Return where the outputs for records of a cluster go; None for records that are here.

    Refused are a cluster's records without such a place, and a place that is taken.
    """
    if not is_spread(data):
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


def outputs_digest(data: "Data", rule: Rule) -> str:
    """Return the digest of outputs, by persons in any order, that a ledger has recorded."""
    SpreadSeries(data, rule)  # refuses what is no output
    shown = Digested(data, rule)
    data.checked(feed(data, [shown], *needed(data, rule)).summary)
    return shown.result().hex()


def write(task: ClusterTask, ledger: "Ledger | None") -> Path:
    """Return the folder of the outputs: reserved before, recorded before it gets its name.

    Two passes in order of person and time with a ledger (a digest of the records says whether they
    are those of an earlier run), one without.
    """
    if ledger is None or task.entry is None:
        key = Key.fresh()
        with _drafts(task, _name(task.target.name)) as drafts:
            _draw(task, drafts, key, key)
            drafts.publish()
        return task.target
    reservation, name = reserve(task.entry, task.data, ledger), task.entry.release_id
    called = _name(reservation.entry_hash)
    if reservation.result is not None:
        _publish_again(task, called, reservation.result, name)
        return task.target
    ledger.begin(name)
    key = ledger.release_key(name)
    before = Digested(task.data, task.rule, key.exported())
    task.data.checked(feed(task.data, [before], *needed(task.data, task.rule)).summary)
    with _drafts(task, called) as drafts:
        result = _draw(task, drafts, key.for_input(before.result()), key, before.result())
        drafts.keep = True  # from here on it may be recorded, even if the answer is lost
        if ledger.confirm(name, result) != result:
            drafts.keep = False
            raise released(name)
        drafts.publish()
    return task.target


def _drafts(task: ClusterTask, called: str) -> Drafts:
    """Return the drafts of a release, once those of an earlier run are removed."""
    _check_free(task.target)
    clear([task.target], called)
    return Drafts(called, _check_free)


def _draw(
    task: ClusterTask, drafts: Drafts, flips: Key, digest: Key, wanted: bytes | None = None
) -> dict[str, Any]:
    """Write the outputs to a draft, and return what a ledger records of them.

    Refused are records that are not those that were read before.
    """
    source: Any = task.data.source
    data, keys = task.data, (flips.exported(), digest.exported())
    work = Rewriting(data, task.rule, task.plan.mechanism, task.names, *keys)
    data.checked(source.write(data, work, drafts.folder(task.target)).summary)
    if wanted is not None and work.read.result() != wanted:
        raise source.changed()
    drafts.settle()
    return {
        "records": work.read.records,
        "series": work.read.series,
        "digest": work.shown.result().hex(),
    }


def _publish_again(task: ClusterTask, called: str, recorded: dict[str, Any], name: str) -> None:
    """Publish the outputs of an earlier run if they are still there; draw nothing."""
    source: Any = task.data.source
    for path in abandoned([task.target], called):
        left = source.opened(task.data, path)  # as what was written is read
        if outputs_digest(left, _output_rule(task)) == recorded.get("digest"):
            with Drafts(called, _check_free, keep=True) as drafts:
                drafts.adopt(path, task.target)
                drafts.publish()
            return
    raise released(name)


def _output_rule(task: ClusterTask) -> Rule:
    erased = len(task.names) if task.plan.mechanism.task == "redact" else None
    return Rule(tuple(task.names), missing=erased, outputs=True)


def _name(whose: str) -> str:
    return f"folder-{hashlib.sha256(whose.encode()).hexdigest()[:32]}"
