"""The ledger of a service, its clients, and the bodies of requests.

Each reader uses one consistent transaction and blocks no writer; the cost of a request is bounded.
Writers wait for the database one by one.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path
from secrets import token_urlsafe
from threading import Lock
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from undertow.certificate import DEEPEST, depth
from undertow.data.scopes import Scope, check_name
from undertow.errors import InvalidInput, LedgerConflict, LedgerUnavailable
from undertow.files import create_new
from undertow.ledger.book import Ledger, Reservation, datasets
from undertow.ledger.rules import Entry
from undertow.models.records import audience_of

__all__ = [
    "Accounts",
    "Amount",
    "Cancelled",
    "Client",
    "Clients",
    "Confirmed",
    "EntryHash",
    "Limit",
    "NoSuchDataset",
    "Page",
    "Question",
    "Role",
    "changing",
]


Role = Literal["read", "spend", "limit"]
"""Read the account; reserve, confirm and cancel releases; change its limit. None implies another
but reading, which both others need."""

_FORMAT = "undertow-clients-1"


@dataclass(frozen=True, slots=True)
class Client:
    """One client: a name, its roles, its data sets (None: all).

    >>> Client("airflow", ("spend",), None, "0" * 64).may("read", "w25")
    True
    >>> Client("airflow", ("spend",), ("w24",), "0" * 64).may("spend", "w25")
    False
    """

    name: str
    roles: tuple[Role, ...]
    datasets: tuple[str, ...] | None
    digest: str

    def __post_init__(self) -> None:
        """Validate every field."""
        check_name(self.name, "the name of a client")
        known = get_args(Role)
        if (
            not self.roles
            or not set(self.roles) <= set(known)
            or len(set(self.roles)) < len(self.roles)
        ):
            raise InvalidInput(
                f"the roles of client {self.name!r} must be some of {', '.join(known)}, each once; "
                f"found {', '.join(map(str, self.roles)) or 'none'}"
            )
        for dataset in self.datasets or ():
            check_name(dataset, "the name of a data set")
        if self.datasets == ():
            raise InvalidInput(f"client {self.name!r} has no data set; leave them out for all")
        if len(self.digest) != 64 or not set(self.digest) <= set("0123456789abcdef"):
            raise InvalidInput(f"the token of client {self.name!r} must be a SHA-256 in hex digits")

    def may(self, role: Role, dataset: str) -> bool:
        """Tell whether the client has a role for a data set; every role reads."""
        known = self.datasets is None or dataset in self.datasets
        return known and (role == "read" or role in self.roles)


@dataclass(frozen=True, slots=True)
class Clients:
    """The clients of a service, with distinct names.

    >>> nobody = Clients(())
    >>> somebody, token = nobody.add("airflow", ("spend",), ("w25",))
    >>> somebody.named(token).name, somebody.named("guess")
    ('airflow', None)
    """

    listed: tuple[Client, ...]

    def __post_init__(self) -> None:
        """Refuse two clients of one name or one token."""
        for field in ("name", "digest"):
            found = [getattr(client, field) for client in self.listed]
            if len(set(found)) < len(found):
                raise InvalidInput(f"two clients have the same {field}; each needs its own")

    def add(
        self, name: str, roles: tuple[Role, ...], datasets: tuple[str, ...] | None = None
    ) -> tuple["Clients", str]:
        """Return the clients with a new one, and its token, which is not stored."""
        if any(client.name == name for client in self.listed):
            raise InvalidInput(
                f"there is a client {name!r} already; remove it first, or take another name"
            )
        token = token_urlsafe(32)
        return Clients((*self.listed, Client(name, roles, datasets, _digest(token)))), token

    def remove(self, name: str) -> "Clients":
        """Return the clients without one, whose token is void from then on."""
        rest = tuple(client for client in self.listed if client.name != name)
        if len(rest) == len(self.listed):
            raise InvalidInput(f"there is no client {name!r}; known: {self._names()}")
        return Clients(rest)

    def named(self, token: str) -> Client | None:
        """Return the client of a token, or None; all hashes are compared."""
        digest, match = _digest(token), None
        for client in self.listed:
            if compare_digest(client.digest, digest):
                match = client
        return match

    @classmethod
    def read(cls, path: Path) -> "Clients":
        """Return the clients of a file that `write` wrote, or refuse the file."""
        try:
            content = json.loads(path.read_text("utf-8"))
            if not isinstance(content, dict) or content.get("format") != _FORMAT:
                raise InvalidInput(_no_file(path))
            return cls(tuple(_client(line) for line in content["clients"]))
        except OSError as problem:
            raise InvalidInput(
                f"cannot read the file of clients {path.name}: {problem.strerror}; make one with "
                "'undertow ledger client add'"
            ) from None
        except (ValueError, KeyError, TypeError, RecursionError) as problem:
            raise (
                problem if isinstance(problem, InvalidInput) else InvalidInput(_no_file(path))
            ) from None

    def write(self, path: Path) -> None:
        """Write the file completely, readable by its owner only, or leave the old one."""
        lines = [
            {
                "name": client.name, "roles": list(client.roles), "sha256": client.digest,
                "datasets": None if client.datasets is None else list(client.datasets),
            }
            for client in self.listed
        ]  # fmt: skip
        text = json.dumps({"format": _FORMAT, "clients": lines}, indent=1) + "\n"
        draft = path.with_name(f".{path.name}.{token_urlsafe(6)}")
        try:
            handle = create_new(draft)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)
        except OSError as problem:
            raise InvalidInput(
                f"cannot write the file of clients {path.name}: {problem.strerror}"
            ) from None

    def _names(self) -> str:
        return ", ".join(client.name for client in self.listed) or "none"


@contextmanager
def changing(path: Path) -> Iterator[Clients]:
    """Yield the clients of a file, none for a new file, under a lock.

    Nobody else changes the file meanwhile: two changes at once would lose one of them, and a
    client that was removed would be back. The lock is a file beside it that stays; the system
    frees it for whoever is killed.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "clients.json"
    ...     with changing(path) as clients:
    ...         clients.add("airflow", ("spend",))[0].write(path)
    ...     [client.name for client in Clients.read(path).listed]
    ['airflow']
    """
    try:
        handle = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as problem:
        raise InvalidInput(
            f"cannot write beside the file of clients {path.name}: {problem.strerror}"
        ) from None
    try:
        with suppress(ImportError):  # a system without such locks
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield Clients.read(path) if path.exists() else Clients(())
    finally:
        os.close(handle)


def _client(line: dict[str, Any]) -> Client:
    if set(line) != {"name", "roles", "datasets", "sha256"}:
        raise ValueError("no client")
    datasets = line["datasets"]
    return Client(
        line["name"],
        tuple(line["roles"]),
        None if datasets is None else tuple(datasets),
        line["sha256"],
    )


def _no_file(path: Path) -> str:
    return f"{path.name} is no file of clients; make one with 'undertow ledger client add'"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


MOST_GROUPS = 1000
"""The most groups of one request: each is looked up."""


EntryHash = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="the hash of an entry")]


class _Strict(BaseModel):
    """A request body without unknown fields and without NaN."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Records(_Strict):
    """The records of a release; an omitted part stands for all.

    ``start`` and ``end`` are whole numbers on the stated clock (start <= time < end); ``groups``
    are values of the column ``by``.
    """

    by: str | None = None
    groups: list[str] | None = None
    start: int | None = None
    end: int | None = None
    clock: str = "time"

    def scope(self) -> Scope:
        """Return the records as a scope of the ledger."""
        return Scope(self.by, self.groups, self.start, self.end, self.clock)


class Question(Records):
    """The records whose remaining budget is requested; all groups by default."""

    groups: Annotated[
        list[str] | None,
        Field(max_length=MOST_GROUPS, description="of more groups ask in parts: the least counts"),
    ] = None


class Amount(_Strict):
    """The spend of a release: a DP level for one replaced record, or mu or rho; and a delta.

    ``about`` describes the release and must be the same when it is repeated; nothing private
    belongs into it. A redaction has its proved leakage in place of a level.
    """

    level: float | None = None
    mu: float | None = None
    rho: float | None = None
    delta: float | None = None
    records: Records = Records()
    about: dict[str, Any] = Field(default_factory=dict)
    leakage: Annotated[float | None, Field(description="of a redaction, which has no level")] = None


class Confirmed(_Strict):
    """The published result; the first confirmation of a release counts."""

    result: dict[str, Any]


class Cancelled(_Strict):
    """The reason of a cancelled release, for the record."""

    why: str


class Limit(_Strict):
    """A new limit on the leakage of all releases; the delta stays by default."""

    limit: float
    delta: float | None = None


class Page(BaseModel):
    """A page of entries: those reserved after a release, up to a number."""

    model_config = ConfigDict(extra="forbid")

    after: str | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


_CLIENT = "client"
"""The field of ``about`` with the client that reserved a release."""


class NoSuchDataset(InvalidInput):
    """The ledger has no data set of that name."""


class Accounts:
    """All data sets of one ledger; rules, races and recovery are those of `Ledger`.

    A release belongs to the client that reserved it: its name is recorded with the entry, and
    nobody else begins, confirms or cancels it.
    """

    def __init__(self, where: str, key: Path | None = None) -> None:
        """Open the ledger, refusing one that is missing or unreadable."""
        self._where, self._key = where, key
        self._open: dict[str, Ledger] = {}
        self._writing, self._verifying = Lock(), Lock()
        datasets(where)

    def names(self) -> list[str]:
        """Return the names of the data sets."""
        return datasets(self._where)

    def _book(self, dataset: str) -> Ledger:
        """Return the account of a data set."""
        if dataset not in self._open:
            if dataset not in datasets(self._where):
                raise NoSuchDataset(f"the ledger has no data set {dataset!r}")
            book = Ledger(self._where, dataset, create=False, key=self._key)
            self._open.setdefault(dataset, book)
        return self._open[dataset]

    @contextmanager
    def _written(self, dataset: str) -> Iterator[Ledger]:
        """Yield the account of a data set to one writer."""
        book = self._book(dataset)
        with self._writing:
            yield book

    def terms(self, dataset: str) -> dict[str, Any]:
        """Return the terms of an account, its spent and its remaining budget."""
        book = self._book(dataset)
        leak, level = book.leakage(), book.level()
        return {
            "dataset": dataset, "model": book.model.describe(), "origin": book.model.origin,
            "audience": audience_of(book.model.origin), "against": book.against,
            "secret": book.secret.to_dict(), "limit": book.limit,
            "delta": book.delta, "budget": book.budget,
            "level": level if math.isfinite(level) else None, "left": book.left(),
            "leakage": {"lower": leak.lower, "upper": leak.upper},
            "accepted": list(book.accepted), "conditions": list(book.conditions()),
        }  # fmt: skip

    def left(self, dataset: str, records: Records) -> dict[str, Any]:
        """Return the remaining budget of the records in a scope."""
        book, scope = self._book(dataset), records.scope()
        return {"level": book.left(scope), "mu": book.left_mu(scope)}

    def releases(self, dataset: str, after: str | None, most: int) -> dict[str, Any]:
        """Return entries in order of reservation, and the id after which to continue."""
        found, rest = self._book(dataset).page(after, most)
        return {"releases": [_told(entry) for entry in found], "next": rest}

    def release(self, dataset: str, release_id: str) -> dict[str, Any] | None:
        """Return the entry of an id, None if there is none."""
        found = self._book(dataset).entry(release_id)
        return None if found is None else _told(found)

    def reserve(
        self, dataset: str, release_id: str, amount: Amount, client: Client
    ) -> tuple[bool, Reservation]:
        """Reserve a release; return whether it is new, and its entry."""
        if _CLIENT in amount.about:
            raise InvalidInput(f"'{_CLIENT}' in about is written by the service; leave it out")
        with self._written(dataset) as book:
            known = book.entry(release_id) is not None
            reservation = book.reserve(
                release_id, amount.level, amount.records.scope(),
                {**amount.about, _CLIENT: client.name}, mu=amount.mu, rho=amount.rho,
                delta=amount.delta, leakage=amount.leakage,
                kind="release" if amount.leakage is None else "redaction",
            )  # fmt: skip
        return not known, reservation

    def begin(self, dataset: str, release_id: str, client: Client) -> None:
        """Record that noise is about to be drawn."""
        with self._written(dataset) as book:
            _own(book, release_id, client)
            book.begin(release_id)

    def confirm(
        self, dataset: str, release_id: str, result: dict[str, Any], client: Client
    ) -> dict[str, Any]:
        """Record a result, and return the recorded one, which alone may be published."""
        with self._written(dataset) as book:
            _own(book, release_id, client)
            return book.confirm(release_id, result)

    def cancel(self, dataset: str, release_id: str, why: str, client: Client) -> None:
        """Cancel the reservation of a release that never began."""
        with self._written(dataset) as book:
            _own(book, release_id, client)
            book.cancel(release_id, why)

    def set_limit(self, dataset: str, limit: float, delta: float | None) -> None:
        """Change the limit, and record the change."""
        with self._written(dataset) as book:
            book.set_limit(limit, delta)

    def verify(self, holding: list[str]) -> int:
        """Verify the ledger and return its number of events; one verification at a time."""
        names = self.names()
        if not names:
            raise NoSuchDataset("the ledger holds no data set")
        book = self._book(names[0])
        if not self._verifying.acquire(blocking=False):
            raise LedgerUnavailable("the ledger is being verified; ask again when that has ended")
        try:
            return book.verify(*holding)
        finally:
            self._verifying.release()


def _own(book: Ledger, release_id: str, client: Client) -> None:
    """Refuse a release that another client reserved, here or outside the service."""
    found = book.entry(release_id)
    if found is not None and found.about.get(_CLIENT) != client.name:
        raise LedgerConflict(
            f"the release {release_id!r} was reserved by another client, and only that one goes on "
            "with it"
        )


def _told(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON; its result is the published one.

    A value of an older service that no reader's stack holds is left out: it is in the ledger.
    """
    became = ("status", "begun", "at", "made", "why", "hash", "result")
    named = {"release_id": entry.release_id, **entry.body()}
    fields = named | {name: getattr(entry, name) for name in became}
    return {name: part if depth(part) <= DEEPEST else None for name, part in fields.items()}
