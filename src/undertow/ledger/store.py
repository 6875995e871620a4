"""Storage of the account: connections, transactions, locks.

SQLite is used with a rollback journal, not a write-ahead log: the ledger then is one file, which
can be copied while no release runs, and works wherever files can be locked. A file with such a log,
or with anything that acts in it, is refused. ``synchronous=EXTRA`` because a commit that returned
must not be undone by a power cut. Each transaction opens its own connection, so that no handle
survives a fork or a file that was replaced. The file is never opened but through SQLite: closing
any other handle of it would drop this process's locks.
"""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path
from stat import S_ISREG

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from undertow import ledger
from undertow.data.scopes import check_name
from undertow.errors import InvalidInput, LedgerDamaged, LedgerError, LedgerUnavailable
from undertow.files import sync_directory
from undertow.ledger.entries import Seal
from undertow.ledger.memory import file_name
from undertow.ledger.transactions import EVENTS, LEDGER, VERSION, Head, Transaction, fill

__all__ = [
    "DURABILITY",
    "PASSWORD_WORDS",
    "VERSION",
    "WAIT",
    "Store",
    "Transaction",
    "file_exists",
    "grants",
    "refusal",
    "without_password",
]


_RELEASING = ("reserve", "begin", "confirm", "cancel", "shape")
"""The events that a role which releases may append."""

_GUARD = """
CREATE OR REPLACE FUNCTION {schema}.undertow_guard() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $guard$
BEGIN
    IF NOT pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'MEMBER')
    THEN
        IF TG_OP <> 'INSERT' THEN
            RAISE EXCEPTION 'events are only appended' USING ERRCODE = '42501';
        ELSIF NEW.kind NOT IN ({kinds}) THEN
            RAISE EXCEPTION 'only the owner opens accounts' USING ERRCODE = '42501';
        END IF;
    END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END
$guard$
"""


def grants(connection: sa.Connection, role: str) -> list[str]:
    """Return the statements that let a role release: append events, keep the derived tables.

    Events cannot be updated, deleted or truncated by anybody but their owner, whatever is granted
    elsewhere: a trigger refuses it. The derived tables must be writable; whatever is done to them
    is found before the next grant, because they must follow from the events.
    """
    check_name(role, "the name of the role")
    quoted = connection.dialect.identifier_preparer.quote_identifier(role)
    schema_name = connection.execute(
        sa.text(
            "SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass(:t)"
        ),
        {"t": EVENTS.name},
    ).scalar()
    if schema_name is None:
        raise InvalidInput("there is no ledger in this database")
    if not connection.execute(
        sa.text("SELECT count(*) FROM pg_roles WHERE rolname = :r"), {"r": role}
    ).scalar():
        raise InvalidInput(f"the server has no role {role!r}; make it with CREATE ROLE")
    schema = str(schema_name)  # as PostgreSQL quotes it
    names = ("ledger", "events", "datasets", "segments")
    ledger, events, datasets, segments = (f"{schema}.undertow_{name}" for name in names)
    kinds = ", ".join(f"'{kind}'" for kind in _RELEASING)
    return [
        f"REVOKE ALL ON {ledger}, {events}, {datasets}, {segments} FROM PUBLIC, {quoted}",
        f"GRANT USAGE ON SCHEMA {schema} TO {quoted}",
        f"GRANT SELECT, INSERT ON {events} TO {quoted}",
        f"GRANT SELECT, UPDATE (seq, hash) ON {ledger} TO {quoted}",
        f"GRANT SELECT, UPDATE (layout, terms) ON {datasets} TO {quoted}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {segments} TO {quoted}",
        _GUARD.format(schema=schema, kinds=kinds).strip(),
        f"DROP TRIGGER IF EXISTS undertow_rows ON {events}",
        f"DROP TRIGGER IF EXISTS undertow_truncate ON {events}",
        (
            f"CREATE TRIGGER undertow_rows BEFORE INSERT OR UPDATE OR DELETE ON {events} "
            f"FOR EACH ROW EXECUTE FUNCTION {schema}.undertow_guard()"
        ),
        (
            f"CREATE TRIGGER undertow_truncate BEFORE TRUNCATE ON {events} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {schema}.undertow_guard()"
        ),
    ]


WAIT = 30.0
"""Seconds that a writer waits for the others before it gives up."""

DURABILITY = "EXTRA"
"""Durability of SQLite: EXTRA also syncs the directory, so that a commit survives a power cut."""

_ROW_VERSIONS = "SELECT " + ", ".join(
    f"(SELECT count(*) FROM undertow_{name}), (SELECT sum(xmin::text::bigint) FROM undertow_{name})"
    for name in ("events", "datasets", "segments")
)
"""PostgreSQL gives every row that is written the number of the transaction, which only grows."""

_ACTING = (
    "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view') "
    "OR (type = 'table' AND rootpage = 0)"
)
"""Objects of a SQLite file that act by themselves; a virtual table has no page of its own."""

_OWN_ROW = sa.select(sa.text("*")).select_from(LEDGER)  # another version may have other columns
_OWN_ROW_LOCKED = _OWN_ROW.with_for_update()

_OPENING: ContextVar[str] = ContextVar("opening")
"""The address of the file that is being opened."""


class Store:
    """A ledger file, or a PostgreSQL database that holds a ledger."""

    def __init__(self, where: object, key: bytes | None = None) -> None:
        """Say where, and the key it is kept under; nothing is opened yet."""
        self._key = key
        text = file_name(where)
        if text is None:
            raise InvalidInput("a ledger is a file name or a postgresql:// address")
        url = _url(text) if "://" in text else None
        self.path: Path | None = None  # of a server
        self.seen = ""  # the id of the ledger that was found by `prepare`
        if url is None or url.drivername == "sqlite":
            self.path = _path(text if url is None else url.database)
            self.address = str(self.path)
            self.place = f"the ledger {self.path.name}"
            self._engine = _sqlite()
        else:  # user, password and options stay out of all messages
            self.place = f"the ledger in PostgreSQL at {url.host or 'this machine'}"
            self.address = url.render_as_string(hide_password=True)
            self._engine = _postgres(url)

    def __repr__(self) -> str:
        return f"Store({self.place!r})"

    def prepare(self, *, needed: bool = False) -> bool:
        """Return whether there is a ledger; refuse what is none, or of another version.

        ``needed`` refuses that there is none.
        """
        present = self._found()
        if needed and not present:
            raise LedgerUnavailable(f"{self.place} does not exist")
        return present

    def _found(self) -> bool:
        if self.path is not None and not file_exists(self.path, self.place):
            return False
        with self._connected() as connection:
            if not sa.inspect(connection).has_table(LEDGER.name):
                if self.path is not None:
                    raise LedgerDamaged(
                        f"{self.place} is a database of something else; name another file"
                    )
                return False
            self.seen = self._row(connection).get("id") or ""
        return True

    def create(self) -> None:
        """Create an empty ledger, whole or not at all, unless another process created it first."""
        if self.path is None:
            with self._connected(writing="create") as connection:
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7853712236)"))
                if not sa.inspect(connection).has_table(LEDGER.name):
                    fill(connection, self._key)
            return
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}")
        try:
            with self._connected(draft, writing="create") as connection:
                fill(connection, self._key)
            with suppress(FileExistsError):
                os.link(draft, self.path)
            sync_directory(self.path.parent)
        except OSError as error:
            raise LedgerUnavailable(
                f"{self.place} cannot be created ({error.strerror or 'no reason given'}); a "
                "ledger needs a file system with hard links and locks: use a local disk"
            ) from None
        finally:
            with suppress(OSError):
                draft.unlink()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Give a transaction that sees one state of the ledger and changes nothing."""
        with self._connected() as connection:
            yield Transaction(connection, self._head(connection), self._mark)

    @contextmanager
    def writing(self, what: str) -> Iterator[Transaction]:
        """Give a transaction that no other writer runs beside; all of it is written, or nothing.

        When this returns, it is on disk; when it raises, the ledger is as it was (only a
        connection cut in the very moment of the commit leaves that open: repeating is safe).
        """
        with self._connected(writing=what) as connection:
            head = self._head(connection)
            head.seal.needed(self.place)
            yield Transaction(connection, head, self._mark)

    def restrict(self, role: str, *, only_show: bool = False) -> list[str]:
        """Let a role of PostgreSQL append events and never change them; return the statements."""
        if self.path is not None:
            raise InvalidInput("roles are kept by PostgreSQL; a file belongs to who may write it")
        with self._connected(writing="" if only_show else "roles") as connection:
            self._head(connection)
            statements = grants(connection, role)
            for statement in [] if only_show else statements:
                connection.exec_driver_sql(statement)
        return statements

    def touched(self, after: object) -> object:
        """Return a mark of the ledger as it was just written, which every later write takes away.

        The clock of a file system ticks so slowly that two writes may have one time; after this
        the file has a time of its own. ``after``: the mark at the end of the transaction.
        """
        if self.path is None:
            return after
        try:
            status = self.path.stat()
            moment = status.st_mtime_ns + 1 + secrets.randbelow(999)
            os.utime(self.path, ns=(status.st_atime_ns, moment))
            return _stamp(self.path)
        except OSError:  # the file of another user, who alone may set its times
            return None

    def _mark(self, connection: sa.Connection) -> object:
        """Return what changes whenever a row does: the times of the file, or the rows' versions."""
        if self.path is not None:
            with suppress(OSError):
                return _stamp(self.path)
            return None
        return tuple(connection.exec_driver_sql(_ROW_VERSIONS).one())

    def _plain(self, connection: sa.Connection) -> None:
        """Refuse a file that is more than its own tables, or not all of the ledger.

        Edits in a write-ahead log leave the times of the file as they were, so that old events
        would not be looked at again (`_mark`); and what acts in a file (a trigger) would change
        rows in the transaction that was just checked. Asked inside the transaction: whoever
        changes either needs the lock.
        """
        if connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal":
            raise LedgerUnavailable(
                f"{self.place} was set to use a write-ahead log, in which edits of it are not "
                "noticed; set it back while nothing else has it open: sqlite3 LEDGER "
                '"PRAGMA journal_mode = DELETE"'
            )
        if connection.exec_driver_sql(_ACTING).scalar():
            raise LedgerDamaged(
                f"{self.place} contains a trigger, a view or a virtual table, which could change "
                "it unseen; go back to a copy without, or drop it and see verify()"
            )

    def _row(self, connection: sa.Connection) -> sa.RowMapping:
        """Return the ledger's own row; writing in PostgreSQL locks it."""
        writing = connection.get_execution_options().get("writing")
        rows = connection.execute(_OWN_ROW_LOCKED if writing else _OWN_ROW).mappings().all()
        if len(rows) != 1 or type(version := rows[0].get("version")) is not int:
            raise self._lost()
        if version != VERSION:
            raise LedgerUnavailable(
                f"{self.place} has version {version}, this undertow reads version {VERSION}; use "
                f"{'a newer undertow' if version > VERSION else 'the undertow that made it'}"
            )
        return rows[0]

    def _head(self, connection: sa.Connection) -> Head:
        """Return the end of the chain and the seal."""
        row = self._row(connection)
        if [type(row.get(one)) for one in ("seq", "hash", "id")] != [int, str, str]:
            raise self._lost()
        if "key_mark" not in row:
            raise self._lost()
        seal = Seal.found(self._key, row["key_mark"], row["id"], self.place)
        return Head(row["seq"], row["hash"], row["id"], seal)

    def _lost(self) -> LedgerDamaged:
        return LedgerDamaged(f"{self.place} has lost the row with its version; use a backup")

    @contextmanager
    def _connected(self, draft: Path | None = None, writing: str = "") -> Iterator[sa.Connection]:
        """Give a connection inside a transaction, with every database error in our words.

        ``draft``: a file that is made for it, in place of the ledger's own.
        """
        if self.path is not None:
            path, mode = (self.path, "rw") if draft is None else (draft, "rwc")
            _OPENING.set(f"{path.as_uri()}?mode={mode}")
        try:
            with self._engine.connect() as plain:
                connection = plain.execution_options(writing=bool(writing))
                if self.path is None and not writing:
                    connection = connection.execution_options(isolation_level="REPEATABLE READ")
                with connection.begin():
                    if self.path is not None:
                        self._plain(connection)
                    if writing:
                        ledger.reached(f"{writing}-begun")
                    yield connection
                    if writing:
                        ledger.reached(f"{writing}-written")
        except DBAPIError as error:
            raise refusal(error.orig, self.place) from None
        if writing:
            ledger.reached(f"{writing}-committed")


def _stamp(path: Path) -> object:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _url(text: str) -> sa.URL:
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidInput("the address of the ledger is no database URL") from None
    backend = url.drivername.partition("+")[0]
    if backend not in ("sqlite", "postgresql", "postgres"):
        raise InvalidInput(f"a ledger is kept in SQLite or PostgreSQL, found {backend!r}")
    if backend == "sqlite" and url.query:
        raise InvalidInput("the address of a SQLite ledger takes no options; pass the file's name")
    return url.set(drivername="sqlite" if backend == "sqlite" else "postgresql+psycopg")


def _path(text: str | None) -> Path:
    if text is None or text == ":memory:":
        raise InvalidInput("a ledger must outlive the process; name a file")
    try:
        return Path(text).expanduser().resolve()
    except (OSError, RuntimeError):
        raise InvalidInput("the path of the ledger cannot be resolved") from None


@cache
def _sqlite() -> sa.Engine:
    """Return what opens all files: a statement compiled for one ledger serves the others."""

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(_OPENING.get(), uri=True, timeout=WAIT, isolation_level=None)

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        writing = connection.get_execution_options().get("writing")
        if writing:
            connection.exec_driver_sql(f"PRAGMA synchronous = {DURABILITY}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


@lru_cache(maxsize=16)
def _postgres(url: sa.URL) -> sa.Engine:
    patience = {
        "connect_timeout": int(WAIT), "keepalives_idle": int(WAIT),
        "tcp_user_timeout": int(1000 * WAIT),
    }  # fmt: skip
    options = {key: value for key, value in patience.items() if key not in url.query}
    try:
        engine = sa.create_engine(
            url,
            poolclass=NullPool,
            connect_args=options,
            isolation_level="READ COMMITTED",
            use_native_hstore=False,
        )
    except (ModuleNotFoundError, NoSuchModuleError):
        raise LedgerUnavailable(
            "a PostgreSQL ledger needs psycopg; install it with: pip install 'undertow[postgres]'"
        ) from None

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        if connection.get_execution_options().get("writing"):
            connection.exec_driver_sql(
                f"SELECT set_config('lock_timeout', '{int(1000 * WAIT)}', true), CASE "
                "current_setting('synchronous_commit') WHEN 'off' THEN "
                "set_config('synchronous_commit', 'on', true) END"
            )

    return engine


PASSWORD_WORDS = (
    "the database's password is not shown: give it in PGPASSWORD, or in the file ~/.pgpass"
)
"""Advice on a missing password."""

_SECRET = ("password", "passwd", "sslpassword")
"""Options of an address that are passwords, whatever their case."""


def without_password(where: str) -> str:
    """Return where a ledger is, without the password that its address may hold.

    The rest stays, so that the address can be used with the password given in another way. File
    names stay as they are; of an address that cannot be read only its kind stays.

    >>> without_password("postgresql://ann:secret@db/year?password=too&sslmode=require")
    'postgresql://ann@db/year?sslmode=require'
    >>> without_password("year.db")
    'year.db'
    """
    if "://" not in where:
        return where
    try:
        url = sa.make_url(where)
    except (ArgumentError, ValueError):
        return f"{where.partition('://')[0]}://"
    secret = [name for name in url.query if name.lower() in _SECRET]
    if url.password is None and not secret:
        return where
    bare = sa.URL.create(
        url.drivername, url.username, None, url.host, url.port, url.database, url.query
    )
    return bare.difference_update_query(secret).render_as_string(hide_password=False)


_REASONS = {
    "SQLITE_BUSY": "another process has it locked",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "it may not be written",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_IOERR": "reading or writing it failed",
    "SQLITE_PERM": "access is denied",
    "22": "it cannot hold this text; use a database in UTF-8",
    "25006": "it may not be written",
    "28": "the log-in was refused",
    "3D": "there is no such database",
    "40": "another process was in the way",
    "42501": "access is denied",
    "53100": "the disk is full",
    "53": "the server is out of resources",
    "55P03": "another process has it locked",
    "57": "the server is shutting down or cut the connection",
}
_DAMAGE = (
    *("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH"),
    *("23", "42", "XX"),
)


def refusal(error: BaseException | None, place: str) -> LedgerError:
    """Return a database's error in our words; its own could quote what was written."""
    code = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None) or ""
    reason = next((text for key, text in _REASONS.items() if code.startswith(key)), None)
    if reason is None and code.startswith(_DAMAGE):
        return LedgerDamaged(
            f"{place} is not a ledger or is damaged ({code}); see verify(), and go back to a copy "
            "that verifies"
        )
    return LedgerUnavailable(
        f"{place} is not available: {reason or 'it cannot be reached'}. When it is, repeat the "
        "release with the same release id: it is charged once"
    )


def file_exists(path: Path, place: str) -> bool:
    """Return whether the file exists, without opening it; refuse what cannot be a ledger.

    An empty file is refused and not filled: it may be what is left of a ledger.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.parent.is_dir():
            return False
        raise LedgerUnavailable(f"{place} cannot be made: its directory does not exist") from None
    except OSError as error:
        raise LedgerUnavailable(f"{place} cannot be reached ({error.strerror})") from None
    if not S_ISREG(status.st_mode):
        raise LedgerUnavailable(f"{place} is a directory or device; name a file")
    if not status.st_size:
        raise LedgerDamaged(
            f"{place} is an empty file, perhaps what is left of a ledger; go back to a copy, or "
            "delete it if nothing was ever released from it"
        )
    return True
