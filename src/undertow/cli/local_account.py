"""Ledgers as seen by the commands that randomise a series: rehearsed, reserved, settled."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from undertow.cli.ledger_command import open_ledger
from undertow.cli.local_files import Watch
from undertow.cli.options import misuse
from undertow.errors import LedgerConflict

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger, Reservation
    from undertow.ledger.rules import Entry

__all__ = ["Account", "Asked", "Enough", "Held", "LedgerStage", "Stage", "foretold"]


@dataclass(frozen=True, slots=True)
class Account:
    """The ledger as it was typed."""

    ledger: str | None
    dataset: str | None
    release_id: str | None

    def __post_init__(self) -> None:
        """Refuse half an account."""
        if (self.ledger is None) != (self.dataset is None):
            raise misuse("--ledger and --dataset go together")
        if self.release_id is not None and self.ledger is None:
            raise misuse("--id goes with --ledger, where releases have names")

    def open(self) -> "Ledger | None":
        """Return the account, None if nothing is accounted."""
        return None if self.ledger is None else open_ledger(self.ledger, self.dataset)


class Held:
    """A ledger that reserves at once, and confirms when the files are there."""

    def __init__(self, book: "Ledger", watch: Watch) -> None:
        self._book, self._watch = book, watch
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

    def reserve(self, *asked: Any, **terms: Any) -> "Reservation":
        """Reserve, unless the data changed while it was read."""
        self._watch.check()
        self.reserved = self._book.reserve(*asked, **terms)
        return self.reserved

    def confirm(self, _: str, result: dict[str, Any]) -> dict[str, Any]:
        """Keep what is to be recorded."""
        self.result = result
        return result

    def settle(self) -> None:
        """Record the release; whoever drew first has it."""
        from undertow.accounting import released

        if self.reserved is None:
            raise LedgerConflict("nothing was reserved for this release")
        name = self.reserved.release_id
        if self._book.confirm(name, self.result) != self.result:
            raise LedgerConflict(str(released(name)).replace("release_id", "--id"))


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


def foretold(book: "Ledger", wanted: "Entry") -> Asked:
    """Return what would be spent, or refuse what the ledger would refuse."""
    from undertow.accounting import released
    from undertow.ledger.rules import Layout, Terms, check_beside, check_fits, check_same

    entries = {entry.release_id: entry for entry in book.entries()}
    left = None if wanted.level is None else book.left(wanted.scope)
    found = entries.get(wanted.release_id)
    if found is not None:
        check_same(found, wanted)
        if found.result is not None:
            raise LedgerConflict(str(released(wanted.release_id)).replace("release_id", "--id"))
        return Asked(wanted, True, left)
    redacted = [entry.leakage for entry in entries.values() if entry.kind == "redaction"]
    check_beside(Layout(used=bool(entries), redaction=next(iter(redacted), None)), wanted)
    terms = Terms({}, book.limit, book.budget, book.against, book.unit)
    check_fits(Fraction(book.level(wanted.scope)), wanted, terms)
    return Asked(wanted, False, left)
