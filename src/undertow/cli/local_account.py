"""Ledgers as seen by the commands that randomise a series: rehearsed, reserved, settled."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.cli.files import check_output
from undertow.cli.ledger_command import open_ledger
from undertow.cli.local_drafts import abandoned, clear, digest, name_of
from undertow.cli.local_files import Places, Watch
from undertow.cli.options import misuse
from undertow.errors import LedgerConflict, LedgerError

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger, Reservation
    from undertow.ledger.rules import Entry

__all__ = [
    "Account",
    "Asked",
    "Enough",
    "Held",
    "LedgerStage",
    "Recorded",
    "Stage",
    "foretold",
    "left_behind",
    "rehearsed",
]


@dataclass(frozen=True, slots=True)
class Account:
    """The ledger as it was typed."""

    ledger: str | None
    dataset: str | None
    release_id: str | None
    key: Path | None = None

    def __post_init__(self) -> None:
        """Refuse half an account."""
        if (self.ledger is None) != (self.dataset is None):
            raise misuse("--ledger and --dataset go together")
        if self.release_id is not None and self.ledger is None:
            raise misuse("--id goes with --ledger, where releases have names")

    def open(self) -> "Ledger | None":
        """Return the account, None if nothing is accounted."""
        return None if self.ledger is None else open_ledger(self.ledger, self.dataset, self.key)


class Recorded(Exception):  # noqa: N818  (it ends a draw that would be the second)
    """A release was recorded by an earlier run: nothing is drawn, what was drawn is looked for."""


class Held:
    """A ledger that reserves at once, and confirms when the files are there."""

    def __init__(self, book: "Ledger", watch: Watch, places: Places) -> None:
        self._book, self._watch, self._places = book, watch, places
        self.reserved: Reservation | None = None
        self.result: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._book, name)

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *error: Any) -> None:
        """Say that the data changed, unless it was read and the level reserved before."""
        if self.reserved is None:
            self._watch.__exit__(*error)

    @property
    def drafts(self) -> str:
        """What the drafts of this release are called."""
        entry = None if self.reserved is None else self.reserved.entry_hash
        return name_of(entry, self._places.named()[0])

    def reserve(self, release_id: str, **terms: Any) -> "Reservation":
        """Reserve, unless the data changed while it was read, or the outputs have no place.

        Drafts of an earlier run that was not recorded are removed before anything is drawn.
        """
        self._watch.check()
        found = self._book.entry(release_id)
        if found is None or found.result is None:
            self._places.check()
        self.reserved = self._book.reserve(release_id, **terms)
        if self.reserved.result is not None:
            raise Recorded
        clear(self._places.named(), self.drafts)
        return self.reserved

    def confirm(self, _: str, result: dict[str, Any]) -> dict[str, Any]:
        """Keep what is to be recorded."""
        self.result = result
        return result

    def settle(self, files: Mapping[str, str]) -> None:
        """Record the release and the hashes of its files; whoever drew first has it."""
        if self.reserved is None:
            raise LedgerConflict("nothing was reserved for this release")
        self.result = {**self.result, "files": dict(files)}
        if self._book.confirm(self.reserved.release_id, self.result) != self.result:
            from undertow.accounting import released

            raise released(self.reserved.release_id)


def left_behind(places: Places, recorded: Mapping[str, Any], name: str) -> dict[Path, Path] | None:
    """Return the recorded drafts of the files that are asked for, and the place of each.

    A file that is at its place already has no draft. None: some file is neither here nor there.
    """
    hashes, found = recorded.get("files", {}), {}
    for role, path in places.roles().items():
        wanted = hashes.get(role)
        if wanted is None:
            return None
        if digest(path) == wanted:
            continue
        drafts = (draft for draft in abandoned([path], name) if digest(draft) == wanted)
        draft = next(drafts, None)
        if draft is None:
            return None
        found[draft] = path
    return found


class Enough(Exception):  # noqa: N818  (it ends a rehearsal; nothing went wrong)
    """A release has passed all checks and turns to its ledger."""


class Stage:
    """No ledger: whoever asks it anything has read the data and found it fit."""

    asked: "Entry | None" = None

    def __getattr__(self, name: str) -> Any:
        raise Enough


class LedgerStage(Stage):
    """A ledger that lets a release pass all its checks, and stops it before it spends."""

    def __init__(self, book: "Ledger") -> None:
        self.unit, self.model, self.against = book.unit, book.model, book.against

    def bind(self, _: str) -> list[str]:
        """Note nothing: a rehearsal leaves no trace."""
        return []

    def reserve(
        self, release_id: str, *, level: float | None, scope: Any, about: Mapping[str, Any],
        kind: Any = "release", leakage: float | None = None,
    ) -> None:  # fmt: skip
        """Keep what was asked for, and stop."""
        from undertow.ledger.rules import Entry
        from undertow.ledger.scopes import as_scope

        self.asked = Entry(release_id, kind, level, leakage, as_scope(scope), about)
        raise Enough


@dataclass(frozen=True, slots=True)
class Asked:
    """What a release would reserve."""

    entry: "Entry"
    reserved: bool
    left: float | None
    recorded: bool = False


def foretold(book: "Ledger", wanted: "Entry", places: Places) -> Asked:
    """Return what would be spent, or refuse what the ledger would refuse."""
    left = None if wanted.level is None else book.left(wanted.scope)
    found = rehearsed(book, wanted)
    if found is not None and found.result is not None:
        return _published(found, wanted, left, places)
    places.check()
    return Asked(wanted, found is not None, left)


def rehearsed(book: "Ledger", wanted: "Entry") -> "Entry | None":
    """Return what is reserved for a release already, or refuse what the ledger would refuse."""
    from undertow.ledger.rules import check_same

    found = book.entry(wanted.release_id)
    if found is None:
        try:
            _check_room(book, wanted)
        except LedgerError:
            found = book.entry(wanted.release_id)
            if found is None:
                raise
            # the same command in another process took the room between the two looks
    if found is not None:
        check_same(found, wanted)
    return found


def _check_room(book: "Ledger", wanted: "Entry") -> None:
    """Refuse what the ledger would refuse to reserve, without asking it to."""
    from undertow.ledger.rules import Layout, Terms, check_beside, check_fits

    entries = [entry for entry in book.entries() if entry.status != "cancelled"]
    redacted = [entry.leakage for entry in entries if entry.kind == "redaction"]
    check_beside(Layout(used=bool(entries), redaction=next(iter(redacted), None)), wanted)
    terms = Terms({}, book.limit, book.budget, book.against, book.unit)
    check_fits(Fraction(book.level(wanted.scope)), wanted, terms)


def _published(found: "Entry", wanted: "Entry", left: float | None, places: Places) -> Asked:
    """Return that a recorded release would be published, or refuse where its outputs are gone."""
    named = places.named()
    kept = None
    if named:
        kept = left_behind(places, found.result or {}, name_of(found.hash, named[0]))
    if kept is None:
        from undertow.accounting import released

        raise released(wanted.release_id)
    for path in kept.values():
        check_output(path, force=places.force)
    return Asked(wanted, True, left, recorded=True)
