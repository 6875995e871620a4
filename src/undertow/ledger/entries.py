"""Requests to a ledger, checked before anything is opened."""

import hashlib
import hmac
import json
import math
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from json import loads
from pathlib import Path
from typing import Any, NamedTuple

from undertow.certificate import Leakage, canonical
from undertow.curves import check_delta
from undertow.data.scopes import Scope, as_scope, check_name
from undertow.errors import InvalidInput, LedgerConflict, LedgerDamaged, NotSupported
from undertow.guarantees import GDP, ZCDP, ApproximateDP, PureDP
from undertow.ledger.amounts import Spend, round_up, worst
from undertow.ledger.rules import REST, Entry, Region, Segment, Terms, exact_level, overlay
from undertow.mechanisms import Curved
from undertow.models.base import stands_for
from undertow.models.fitting.checks import accept_option, accepted, check_accepted
from undertow.models.records import RecordDescription
from undertow.models.registry import law_to_dict
from undertow.models.sets import AnyModel
from undertow.numerics import check_choice, check_number, check_positive, shown, up
from undertow.secrets import Person, Window

__all__ = [
    "KEY_VARIABLE",
    "ORIGIN",
    "Change",
    "Event",
    "Row",
    "Seal",
    "Spends",
    "amounts_of",
    "check_terms",
    "decoding",
    "read_key",
    "request",
    "rows",
    "wanted_terms",
]


def wanted_terms(
    model: Any, limit: Any, against: Any, secret: Any, delta: Any = None, pure: Any = None,
    accept: Any = (),
) -> dict[str, Any]:  # fmt: skip
    """Return the terms that were passed, checked; None where nothing was.

    ``checks`` are those of the model, and ``accepted`` the names among ``accept`` that failed.
    """
    if against is not None:
        check_choice(against, "against, of a ledger,", ("any", "ignorant", "informed"))
    if secret is not None and not isinstance(secret, Window | Person):
        raise InvalidInput(
            "the secret of a ledger must be Window(12) or Person(), because it accounts for every "
            f"record, found {shown(secret)}"
        )
    description = None
    if model is not None:
        if not isinstance(model, AnyModel):
            raise InvalidInput(f"a model is required, found {type(model).__name__}")
        model = stands_for(model)
        description = loads(canonical(law_to_dict(model), "model"))
    checks = () if model is None else model.checks
    checked = None if limit is None else check_positive(limit, "the limit")
    rare = None if delta is None else check_delta(delta)
    share = None if pure is None else check_number(pure, "the pure level")
    share = check_positive(share, "the pure level") if share else share
    return {
        "model": description, "limit": checked, "against": against, "delta": rare, "pure": share,
        "unit": None if secret is None else "person" if secret.person else "record",
        "window": None if secret is None or secret.person else secret.window,
        "checks": checks, "accepted": accepted(checks, accept, all_of=False),
    }  # fmt: skip


def check_terms(dataset: str, terms: Terms, wanted: Mapping[str, Any]) -> None:
    """Refuse terms other than the stored ones: two sets of terms would be two guarantees."""
    reasons = {
        "model": "another model: levels are exchanged once, under one model. Open it without one",
        "limit": f"the limit {terms.limit:.7g}. Open it without one, then use set_limit",
        "delta": f"the delta {terms.delta:.7g}. Open it without one, then use set_limit",
        "pure": f"a level of {terms.pure:.7g} set aside; open it without naming one",
        "against": f"the adversary {terms.against!r}; open it without naming one",
        "unit": f"one {terms.unit} as its secret; open it without naming one",
        "window": f"a window of {terms.window} as its secret; open it without naming one",
    }
    for name, reason in reasons.items():
        mine, stored = wanted[name], getattr(terms, name)
        if (
            name == "model" and mine is not None
        ):  # levels are exchanged by the law, whatever its origin
            about = [RecordDescription.from_dict(one.get("records", {})) for one in (mine, stored)]
            if about[0].contradicts(about[1]):
                raise LedgerConflict(
                    f"the data set {dataset!r} is kept for other records: {about[1]}; the model is "
                    f"about {about[0]}"
                )
            mine, stored = ({**one, "origin": None, "records": None} for one in (mine, stored))
        if mine is not None and mine != stored:
            raise LedgerConflict(f"the data set {dataset!r} is kept under {reason}")
    accepted, held = wanted["accepted"], tuple(terms.accepted)
    if accepted and accepted != held:
        kept = accept_option(held) if held else "no acceptance of a failed check"
        raise LedgerConflict(
            f"the data set {dataset!r} is kept under {kept}; open it without accept, or keep the "
            "account of these records under another name from the start"
        )
    if terms.unit == "record":
        check_accepted(wanted["checks"], held)


def request(
    release_id: str, level: Any, scope: Scope | None, about: Any, kind: str, leakage: Any,
    beside: Mapping[str, Any] | None = None,
) -> Entry:  # fmt: skip
    """Return the checked request, or refuse what is no level.

    ``level`` may also be a guarantee (`PureDP`, `ApproximateDP`, `ZCDP`, `GDP`); ``beside`` are mu,
    rho and delta.
    """
    key, where = check_name(release_id, "release id"), as_scope(scope)
    if about is not None and not isinstance(about, Mapping):
        raise InvalidInput(f"about must be a dictionary, found {type(about).__name__}")
    description = loads(canonical(dict(about or {}), "description in about"))
    amounts = {name: part for name, part in (beside or {}).items() if part is not None}
    check_choice(kind, "kind", ("release", "redaction"))
    if kind == "redaction":
        if amounts or (level is not None and level != math.inf):
            raise InvalidInput("a redaction has no finite DP level; pass level=None")
        return Entry(
            key, "redaction", None, check_positive(leakage, "its leakage"), where, description
        )
    if leakage is not None:
        raise InvalidInput(
            "an entry is a 'release' with a DP level or a 'redaction' with a leakage; leakages of "
            "releases are not added, they do not compose"
        )
    if isinstance(level, Curved | Leakage):
        if amounts:
            raise InvalidInput("a guarantee says all of its numbers; pass no mu, rho or delta")
        level, amounts = amounts_of(level)
    parts: dict[str, Any] = {
        name: exact_level(part, f"the {name} of a release") for name, part in amounts.items()
    }
    if "delta" in parts:
        check_delta(parts["delta"])
        if level is None and len(parts) == 1:
            raise InvalidInput("a delta stands beside the DP level (or mu, or rho) it belongs to")
    own = None if level is None and parts else exact_level(level)
    return Entry(key, "release", own, None, where, description, **parts)


def amounts_of(guarantee: Any) -> tuple[float | None, dict[str, float]]:
    """Return the level of a guarantee for one replaced record, and its mu, rho and delta.

    One that speaks of adding or removing a record is taken twice: for GDP 2 mu, for zCDP 4 rho,
    for (e, d) (2 e, d (1 + e^e)), all rounded up.

    >>> amounts_of(GDP(.25)), amounts_of(ApproximateDP(.5, 1e-6))
    ((None, {'mu': 0.25}), (0.5, {'delta': 1e-06}))
    """
    twice = getattr(guarantee, "neighbours", "replace") == "add-remove"
    match guarantee:
        case PureDP(epsilon=epsilon):
            return epsilon, {}
        case GDP(mu=mu):
            return None, {"mu": 2 * mu if twice else mu}
        case ZCDP(rho=rho):
            return None, {"rho": 4 * rho if twice else rho}
        case ApproximateDP(epsilon=epsilon, delta=delta) if not twice:
            return epsilon, {"delta": delta} if delta else {}
        case ApproximateDP(epsilon=epsilon, delta=delta):
            both = up(delta * (1 + math.exp(epsilon)), 16)
            return 2 * epsilon, {"delta": both} if delta else {}
    raise NotSupported(
        f"{type(guarantee).__name__} does not compose in a ledger: of an algorithm together with "
        "others it says nothing that adds up; enter its mu (GDP), its rho (zCDP), or one pair "
        "(epsilon, delta) of it"
    )


ORIGIN = "0" * 64
"""The hash before the first event of a ledger without a key."""


class Event(NamedTuple):
    """One row of the account, as stored."""

    seq: int
    dataset: str
    kind: str
    release_id: str | None
    body: str
    previous: str
    hash: str


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Convert the errors of a malformed row into `LedgerDamaged`."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        raise LedgerDamaged(
            f"{what} is not as it was written; see verify(), and go back to a copy that verifies"
        ) from None


Row = tuple[int, int, float, str]
"""A segment as it is stored: start, end, its DP level rounded up, all of its spend exactly."""


def rows(line: Iterable[Segment]) -> list[Row]:
    """Return segments as they are stored.

    >>> from fractions import Fraction
    >>> rows([Segment(0, 7, Spend(Fraction(1, 4)))])
    [(0, 7, 0.25, '1/4')]
    """
    return [(s.start, s.end, round_up(s.spend.level), str(s.spend)) for s in line]


class Change(NamedTuple):
    """Segments of some cells that an entry replaces: ``old`` by ``new``."""

    cells: list[str]
    old: list[Segment]
    new: list[Segment]


class Spends:
    """The segments of each cell; a hundred thousand groups that were released alike are one line.

    >>> from fractions import Fraction
    >>> spends, one = Spends(), Spend(Fraction(1))
    >>> spends.add(Region(("a", "b"), ("a", "b"), 0, 7), one)
    >>> spends.cells()["b"] == [Segment(0, 7, one)], spends.cells()[""]
    (True, [])
    """

    __slots__ = ("_lines", "_number", "_sizes")

    def __init__(self) -> None:
        """Start with the rest, which has spent nothing."""
        self._number: dict[str, int] = {REST: 0}  # the line of each cell
        self._lines: dict[int, list[Segment]] = {0: []}
        self._sizes: Counter[int] = Counter({0: 1})  # how many cells have a line

    def cells(self) -> dict[str, list[Segment]]:
        """Return the segments of each cell; cells of one history share a list."""
        return {cell: self._lines[number] for cell, number in self._number.items()}

    def most(self, where: Region) -> tuple[Spend, ...]:
        """Return the largest spends in a region: those that no other one there covers."""
        return worst(
            segment.spend
            for number in {self._number[cell] for cell in where.seen}
            for segment in self._lines[number][slice(*self._slice(number, where))]
            if segment.start < where.end and segment.end > where.start
        )

    def expected(self, where: Region) -> Iterator[tuple[list[str], list[Segment]]]:
        """Yield the segments that meet or border the window, after the stored cells they are of."""
        for number, cells in self._grouped(where.seen).items():
            low, high = self._slice(number, where)
            yield cells, self._lines[number][low:high]

    def changes(self, where: Region, spend: Spend) -> list[Change]:
        """Return what adding a spend in a region changes; nothing is changed yet."""
        fresh = set(where.fresh)
        changes = []
        for number, cells in self._grouped(c for c in where.cells if c not in fresh).items():
            low, high = self._slice(number, where)
            old = self._lines[number][low:high]
            changes.append(Change(cells, old, overlay(old, where.start, where.end, spend)))
        if where.fresh:
            # fresh cells were part of the rest until now, so they start with all that it has spent
            line = self._lines[self._number[REST]]
            low, high = self._slice(self._number[REST], where)
            new = overlay(line[low:high], where.start, where.end, spend)
            changes.append(Change([*where.fresh], [], [*line[:low], *new, *line[high:]]))
        return changes

    def add(self, where: Region, spend: Spend | None) -> None:
        """Add a spend in a region; None only sets its fresh cells apart."""
        rest = self._number[REST]
        self._number.update(dict.fromkeys(where.fresh, rest))
        self._sizes[rest] += len(where.fresh)
        if spend is None:
            return
        for number, cells in self._grouped(where.cells).items():
            low, high = self._slice(number, where)
            new = overlay(self._lines[number][low:high], where.start, where.end, spend)
            if len(cells) == self._sizes[number]:  # all of its cells change alike
                self._lines[number][low:high] = new
                continue
            own = len(self._lines)  # these cells part from the others of their line
            line = self._lines[number]
            self._lines[own] = [*line[:low], *new, *line[high:]]
            self._number.update(dict.fromkeys(cells, own))
            self._sizes[own] = len(cells)
            self._sizes[number] -= len(cells)

    def _grouped(self, cells: Iterable[str]) -> dict[int, list[str]]:
        """Return cells by the line they have."""
        groups: dict[int, list[str]] = {}
        for cell in cells:
            groups.setdefault(self._number[cell], []).append(cell)
        return groups

    def _slice(self, number: int, where: Region) -> tuple[int, int]:
        """Return the positions of the segments that meet or border the window."""
        line = self._lines[number]
        # segments are sorted and disjoint: both their starts and their ends increase
        low = bisect_left(line, where.start, key=lambda segment: segment.end)
        return low, bisect_left(line, where.end + 1, lo=low, key=lambda segment: segment.start)


KEY_VARIABLE = "UNDERTOW_LEDGER_KEY"
"""The environment variable that names the file with the key."""

_SHORTEST = 16
"""Bytes that a key must have at least."""


@dataclass(frozen=True, slots=True, repr=False)
class Seal:
    """Hash function of one ledger's events; ``blind`` where its key is not at hand.

    >>> Seal().of(ORIGIN, 1, "w25", "open", None, "{}")[:8]
    '0e84d432'
    """

    key: bytes | None = None
    blind: bool = False

    def of(
        self, previous: str, seq: int, dataset: str, kind: str, release_id: str | None, body: str
    ) -> str:
        """Return the hash of an event: SHA-256 of everything in it and of the hash before it.

        With a key it is the HMAC under that key, which nobody can compute who does not have it.

        >>> Seal(b"sixteen bytes at least").of(ORIGIN, 1, "w25", "open", None, "{}")[:8]
        'f156d8ce'
        """
        content = [previous, seq, dataset, kind, release_id, body]
        text = json.dumps(content, separators=(",", ":")).encode("ascii")
        if self.key is None:
            return hashlib.sha256(text).hexdigest()
        return hmac.digest(self.key, text, "sha256").hex()

    def content(self, event: Event) -> dict[str, Any]:
        """Return the body of an event; one that does not have its own hash is never used."""
        with decoding(f"event {event.seq}"):
            own = self.of(event.previous, *event[:5])
            content = json.loads(event.body) if self.blind or own == event.hash else None
            if type(content) is not dict:
                raise TypeError
            return content

    def origin(self, ledger_id: str) -> str:
        """Return what the first event follows; under a key it names the ledger."""
        return ORIGIN if self.key is None else _tag(self.key, "origin", ledger_id)

    def mark(self, ledger_id: str) -> str | None:
        """Return what the ledger keeps to tell its key from another, None if it has none."""
        return None if self.key is None else _tag(self.key, "key", ledger_id)

    def needed(self, place: str) -> None:
        """Refuse what cannot be done without the key."""
        if self.blind:
            raise LedgerConflict(
                f"{place} is kept under a key, and without it nothing can be checked or added; "
                f"pass key=, --key FILE, or name the file in {KEY_VARIABLE}"
            )

    @classmethod
    def found(cls, key: bytes | None, mark: str | None, ledger_id: str, place: str) -> "Seal":
        """Return the seal of a ledger, or refuse a key that is not its own."""
        if mark is None:
            if key is not None:
                raise LedgerConflict(
                    f"{place} is not kept under a key: it was started without one, or somebody "
                    "wrote it anew; open it without a key if it is the former"
                )
            return cls()
        if key is None:
            return cls(blind=True)
        if not hmac.compare_digest(_tag(key, "key", ledger_id), mark):
            raise LedgerConflict(f"{place} is kept under another key than this one")
        return cls(key)


def read_key(key: object) -> bytes | None:
    """Return a key from its bytes or the name of its file; None: that of the environment, if any.

    >>> read_key(b"sixteen bytes at least")
    b'sixteen bytes at least'
    """
    named = (os.environ.get(KEY_VARIABLE) or None) if key is None else key
    if named is None:
        return None
    if isinstance(named, str | os.PathLike):
        try:
            named = Path(named).expanduser().read_bytes()
        except (OSError, RuntimeError, ValueError):
            raise InvalidInput("the file with the key of the ledger cannot be read") from None
    if not isinstance(named, bytes) or len(named) < _SHORTEST:
        raise InvalidInput(
            f"the key of a ledger is bytes, at least {_SHORTEST} of them, or a file that holds "
            "them; make one with: head -c 32 /dev/urandom > key"
        )
    return named


def _tag(key: bytes, what: str, ledger_id: str) -> str:
    return hmac.digest(key, f"undertow ledger {what} {ledger_id}".encode(), "sha256").hex()
