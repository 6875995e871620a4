"""Who may ask a ledger service for what: names, roles, data sets, and hashes of their tokens.

A token is 32 random bytes, shown once. The file holds its SHA-256 only: of a random token nothing
can be guessed from the hash, so no slow hash is needed. Whoever reads the file learns who may do
what, and cannot do it.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, Literal, get_args

from undertow.data.scopes import check_name
from undertow.errors import InvalidInput

__all__ = ["Client", "Clients", "Role", "changing"]

Role = Literal["read", "spend", "limit"]
"""Read the account; reserve, confirm and cancel releases; change its limit. None implies another
but reading, which both others need."""

_FORMAT = "undertow-clients-1"


@dataclass(frozen=True, slots=True)
class Client:
    """One program or person: a name, its roles, the data sets it may ask for (None: all).

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
        """Check every field."""
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
        """Return whether the client has a role for a data set; every role reads."""
        known = self.datasets is None or dataset in self.datasets
        return known and (role == "read" or role in self.roles)


@dataclass(frozen=True, slots=True)
class Clients:
    """All clients of a service, each under a name of its own.

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
        """Return the clients with one more, and its token, which is stored nowhere."""
        if any(client.name == name for client in self.listed):
            raise InvalidInput(
                f"there is a client {name!r} already; remove it first, or take another name"
            )
        token = token_urlsafe(32)
        return Clients((*self.listed, Client(name, roles, datasets, _digest(token)))), token

    def remove(self, name: str) -> "Clients":
        """Return the clients without one; its token is worth nothing from then on."""
        rest = tuple(client for client in self.listed if client.name != name)
        if len(rest) == len(self.listed):
            raise InvalidInput(f"there is no client {name!r}; known: {self._names()}")
        return Clients(rest)

    def named(self, token: str) -> Client | None:
        """Return whose token this is, None if it is nobody's; all hashes are compared."""
        digest, found = _digest(token), None
        for client in self.listed:
            if compare_digest(client.digest, digest):
                found = client
        return found

    @classmethod
    def read(cls, path: Path) -> "Clients":
        """Return the clients of a file that `write` wrote, or refuse what is none."""
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
        """Write the file whole, readable by its owner only, or leave the old one as it was."""
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
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
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
    """Give the clients of a file, none where there is no file yet, to change and write them.

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
