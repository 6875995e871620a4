"""``undertow ledger``: the account of the releases of a data set, and its service over HTTP."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from undertow.cli.options import (
    AcceptOption,
    AgainstOption,
    DeltaOption,
    GroupedCommand,
    JsonOption,
    KeyOption,
    LimitOption,
    ModelOptions,
    SecretOptions,
    command,
    misuse,
    names,
    open_ledger,
    option,
    read_accept,
)
from undertow.cli.output import (
    above,
    answer,
    below,
    interval,
    level_words,
    odds,
    room_words,
    show,
    show_table,
    spent_words,
    strict_json,
    waiting,
)
from undertow.errors import InvalidInput, NotSupported

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger
    from undertow.ledger.rules import Entry, Room

__all__ = ["client_app", "ledger_app"]


LedgerArgument = Annotated[
    str, typer.Argument(metavar="LEDGER", help="Ledger: a file, or a postgresql:// address.")
]
ClientsArgument = Annotated[
    Path, typer.Argument(metavar="CLIENTS", help="File of clients and their roles.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the client.")]


@command
def serve(
    where: LedgerArgument,
    clients: Path | None = option(
        "FILE", "File of clients and their roles ('undertow ledger client add')."
    ),
    bind: str = option("ADDRESS", "Address to listen on; other machines need a proxy with TLS.",
                       "127.0.0.1"),
    port: int = option("N", "Port; 0 takes a free one.", 8765),
    behind: str | None = option(
        "HOSTS", "Host names of the TLS proxy before the service.", name="--behind-proxy"
    ),
    key: KeyOption = None,
    openapi: bool = option(None, "Print the schema of the service, and end.", False),
) -> None:  # fmt: skip
    """Serve a ledger over HTTP to programs that reserve, confirm and read, each with a token.

    The rules are those of the ledger. Tokens are sent as plain text, so the service listens on this
    machine only, unless --behind-proxy names a proxy with TLS. The service keeps no state: stop and
    start it at any time.

    \b
    Examples:
      undertow ledger client add clients.json airflow --roles spend --datasets w25
      undertow ledger serve year.db --clients clients.json
      undertow ledger serve postgresql://ledger@db/privacy --clients clients.json \\
        --bind 0.0.0.0 --behind-proxy ledger.example.org
      undertow ledger serve year.db --openapi
    """
    with _service_extra():
        from undertow.serving.accounts import Accounts, Clients
        from undertow.serving.http import is_loopback, listening, run
        from undertow.serving.ledger_api import ServiceSettings, create_service
    hosts = () if behind is None else tuple(map(str, names(behind, "--behind-proxy")))
    settings = ServiceSettings(hosts)
    accounts = Accounts(where, key)
    if openapi:
        app = create_service(accounts, lambda: Clients(()), settings)
        typer.echo(strict_json(app.openapi()))
        return
    if clients is None:
        raise misuse("--clients is needed: the file that 'undertow ledger client add' writes")
    if not is_loopback(bind) and behind is None:
        raise InvalidInput(
            f"{bind} can be reached from other machines, and tokens would be sent as plain "
            "text; put a proxy with TLS before it and name it with --behind-proxy, or leave --bind "
            "out"
        )
    listed = Clients.read(clients)
    app = create_service(accounts, lambda: Clients.read(clients), settings)
    listener = listening(bind, port)
    rows = [
        ("address", f"http://{bind}:{listener.getsockname()[1]}/v1/"),
        ("ledger", ", ".join(accounts.names()) or "no data set yet"),
        ("clients", ", ".join(client.name for client in listed.listed) or "none yet"),
        ("stop", "Ctrl-C"),
    ]
    show("The service of the ledger", rows)
    run(app, listener)


client_app = typer.Typer(
    name="client", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)


@client_app.callback()
def client() -> None:
    """Manage the clients of a served ledger, their roles and data sets.

    \b
    Examples:
      undertow ledger client add clients.json airflow --roles spend --datasets w25
      undertow ledger client list clients.json
      undertow ledger client remove clients.json airflow
    """


@client_app.command(cls=GroupedCommand, short_help="Add a client, and print its token once.")
@command
def add(
    path: ClientsArgument,
    name: NameArgument,
    roles: str = option("ROLES", "Roles: some of read, spend, limit.", MISSING),
    datasets: str | None = option("NAMES", "Data sets of the client (default: all)."),
    as_json: JsonOption = False,
) -> None:
    """Add a client and print its token once: the file keeps only a hash of it.

    \b
    Example:
      undertow ledger client add clients.json airflow --roles spend --datasets w25
    """
    with _service_extra():
        from undertow.serving.accounts import Role, changing

    listed: tuple[Any, ...] = tuple(names(roles, "--roles"))
    unknown = [role for role in listed if role not in get_args(Role)]
    if unknown:
        raise misuse(f"--roles takes some of {', '.join(get_args(Role))}; found {unknown[0]}")
    sets = None if datasets is None else tuple(map(str, names(datasets, "--datasets")))
    with changing(path) as clients:
        changed, token = clients.add(name, listed, sets)
        changed.write(path)
    rows = [("name", name), ("roles", ", ".join(listed)), ("token", token)]
    rows.append(("keep it", "the token is printed once; the file holds its hash"))
    answer({"name": name, "token": token}, lambda: show("A client", rows), as_json=as_json)


@client_app.command("list", cls=GroupedCommand, short_help="List the clients and their roles.")
@command
def list_clients(path: ClientsArgument, as_json: JsonOption = False) -> None:
    """List the clients of a file, their roles and data sets.

    \b
    Example:
      undertow ledger client list clients.json
    """
    with _service_extra():
        from undertow.serving.accounts import Clients

    listed = Clients.read(path).listed
    fields = [{"name": one.name, "roles": one.roles, "datasets": one.datasets} for one in listed]
    rows = [
        (one.name, f"{', '.join(one.roles)}; {', '.join(one.datasets or ()) or 'all data sets'}")
        for one in listed
    ]
    answer({"clients": fields}, lambda: show("Clients", rows), as_json=as_json)


@client_app.command(cls=GroupedCommand, short_help="Remove a client.")
@command
def remove(path: ClientsArgument, name: NameArgument, as_json: JsonOption = False) -> None:
    """Remove a client; a running service refuses its token from the next request on.

    \b
    Example:
      undertow ledger client remove clients.json airflow
    """
    with _service_extra():
        from undertow.serving.accounts import Clients, changing

    Clients.read(path)  # a missing file is refused before a lock is made beside it
    with changing(path) as clients:
        clients.remove(name).write(path)
    answer({"removed": name}, lambda: show("Removed", [("client", name)]), as_json=as_json)


@contextmanager
def _service_extra() -> Iterator[None]:
    """Turn a missing library of the service into a refusal that names what to install."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise NotSupported(
            f"serving a ledger needs {missing.name}; install it with: pip install "
            "'undertow[service]'"
        ) from None


ledger_app = typer.Typer(
    name="ledger", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)

DatasetOption = Annotated[
    str, typer.Option("--dataset", metavar="NAME", help="Data set in the ledger.")
]
OnlyDatasetOption = Annotated[
    str | None,
    typer.Option("--dataset", metavar="NAME", help="Data set (default: the only one)."),
]


@ledger_app.callback()
def ledger() -> None:
    """Manage the account of a data set: its limit, its releases, what is left.

    \b
    Examples:
      undertow ledger create year.db --dataset w25 --model chain.json --limit 1
      undertow ledger show year.db
      undertow ledger limit year.db --dataset w25 2
      undertow ledger verify year.db
      undertow ledger serve year.db --clients clients.json
    """


ledger_app.command(cls=GroupedCommand, short_help="Serve a ledger over HTTP.")(serve)
ledger_app.add_typer(client_app, short_help="Manage the clients of a served ledger.")


@ledger_app.command(cls=GroupedCommand, short_help="Create the account of a data set.")
@command
def create(
    where: LedgerArgument,
    dataset: DatasetOption,
    model: ModelOptions,
    secret: SecretOptions,
    limit: LimitOption,
    delta: DeltaOption = None,
    pure: float | None = option(
        "LEVEL", "DP level set aside, with --delta, for releases that have one.", group="Expert"
    ),
    against: AgainstOption = None,
    accept: AcceptOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create the account of a data set: its model, its limit, whom and what it protects.

    With --key a new ledger is authenticated by a key, so that a forged file is detected.

    \b
    Example:
      undertow ledger create year.db --dataset w25 --model chain.json --limit 1
    """
    from undertow.secrets import Person, Window

    described = model.read()
    hidden = secret.read(described)
    if not isinstance(hidden, Window | Person | None):
        raise misuse("--secret of a ledger takes records in a row, a duration, or 'person'")
    with waiting("computing the budget"):
        from undertow.ledger.book import Ledger

        _refuse_second(where, dataset)
        book = Ledger(
            where, dataset, described, limit, delta=delta, pure=pure, against=against or "any",
            secret=hidden, accept=read_accept(accept), key=key,
        )  # fmt: skip
    answer(_terms(book), lambda: show("The account", _term_rows(book)), as_json=as_json)


@ledger_app.command("show", cls=GroupedCommand, short_help="Show the releases, and what is left.")
@command
def show_ledger(
    where: LedgerArgument,
    dataset: OnlyDatasetOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the releases of a data set, their joint leakage, and what is left.

    \b
    Example:
      undertow ledger show year.db --dataset w25
    """
    with waiting("reading the ledger"):
        book = open_ledger(where, dataset, key)
        entries, level, left, leak = book.entries(), book.level(), book.left(), book.leakage()
        room = book.room() if book.delta and math.isfinite(level) else None
    if as_json:
        state = {"level": level, "left": left, "leakage": [leak.lower, leak.upper]}
        listed = {"entries": [_entry(entry) for entry in entries]}
        typer.echo(strict_json(_terms(book) | state | _beside(room) | listed))
    else:
        spent, fits = f"a DP level of {above(level)}", level_words(left, book.budget)
        if room is not None:
            from undertow.ledger.amounts import highest
            from undertow.ledger.rules import spend_words

            spent, fits = spend_words(highest(room.spent)), room_words(room, book.budget)
        rows = [
            ("spent", f"{spent} on the most used records"),
            ("leakage", f"{interval(leak)}, of all releases together"),
            ("left", f"{fits} for a release that touches every record"),
        ]
        show("The account", [*_term_rows(book), *rows])
        if entries:
            show_table("Entries", _HEADER, [_cells(entry) for entry in entries])


@ledger_app.command(cls=GroupedCommand, short_help="Change the limit of a data set.")
@command
def limit(
    where: LedgerArgument,
    limit: Annotated[
        float, typer.Argument(metavar="L", help="Limit on the leakage of all releases together.")
    ],
    dataset: DatasetOption,
    delta: float | None = option("D", "Delta of the leakage (default: unchanged)."),
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change the limit on the leakage of all releases of a data set; the change is recorded.

    \b
    Example:
      undertow ledger limit year.db --dataset w25 2
    """
    with waiting("computing the budget"):
        book = open_ledger(where, dataset, key)
        book.set_limit(limit, delta)
    answer(_terms(book), lambda: show("The account", _term_rows(book)), as_json=as_json)


@ledger_app.command(cls=GroupedCommand, short_help="Verify the integrity of a ledger.")
@command
def verify(
    where: LedgerArgument,
    holding: list[str] | None = option(
        "HASH", "Entry of a report to look for; repeatable.", name="--entry"
    ),
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Verify the chain of hashes, every rule at every step, and every total, of all data sets.

    \b
    Example:
      undertow ledger verify year.db
    """
    with waiting("verifying the ledger"):
        from undertow.errors import LedgerDamaged
        from undertow.ledger.book import Ledger, datasets

        existing = datasets(where)
        if not existing:
            raise LedgerDamaged("the ledger holds no data set; go back to a copy that does")
        events = Ledger(where, existing[0], create=False, key=key).verify(*(holding or ()))
    rows = [
        ("events", f"{events}, each chained to the one before by its hash"),
        ("data sets", ", ".join(existing)),
        ("checked", "the chain, every rule at every step, and every total"),
    ]
    fields = {"verified": True, "events": events, "datasets": existing}
    answer(fields, lambda: show("The ledger is intact", rows), as_json=as_json)


@ledger_app.command(cls=GroupedCommand, short_help="Cancel a reservation that was never drawn.")
@command
def cancel(
    where: LedgerArgument,
    dataset: DatasetOption,
    release_id: str = option("ID", "Release, as in 'ledger show'.", MISSING, name="--id"),
    why: str = option("TEXT", "Reason, for the record.", MISSING),
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel the reservation of a release whose noise was never drawn; the record of it stays.

    The id is retired. A release that has begun cannot be cancelled: its noise may have been seen.

    \b
    Example:
      undertow ledger cancel year.db --dataset w25 --id week-7 --why "wrong table"
    """
    with waiting("checking the ledger"):
        book = open_ledger(where, dataset, key)
        book.cancel(release_id, why)
        left = book.left()
    rows = [("release", release_id), ("why", why), ("left", level_words(left, book.budget))]
    fields = {"cancelled": release_id, "why": why, "left": left}
    answer(fields, lambda: show("Cancelled", rows), as_json=as_json)


@ledger_app.command(cls=GroupedCommand, short_help="Accept a ledger restored from an older copy.")
@command
def forget(
    where: LedgerArgument,
    yes: bool = option(None, "Confirmation that lost entries are not accounted.", False),
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Accept a ledger that was restored from an older copy: entries since then are lost.

    Needs --yes, and is recorded. The budget of the lost entries was spent all the same: lower the
    limit by it, if it is known.

    \b
    Example:
      undertow ledger forget year.db --yes
    """
    if not yes:
        raise misuse("recorded entries would be lost; confirm with --yes")
    with waiting("checking the ledger"):
        from undertow.ledger.book import forget as accept

        remembered = accept(where, key=key)
    last = f"event {remembered} was the last one remembered" if remembered else "nothing"
    answer(
        {"forgotten": True, "remembered": remembered},
        lambda: show("The ledger is accepted as it is", [("given up", last)]),
        as_json=as_json,
    )


@ledger_app.command(cls=GroupedCommand, short_help="Grant a role of PostgreSQL append-only access.")
@command
def roles(
    where: LedgerArgument,
    role: str = option("NAME", "Role of the server.", MISSING),
    sql: bool = option(None, "Print the statements, and end.", False),
    as_json: JsonOption = False,
) -> None:
    """Grant a role of PostgreSQL the right to release, not to rewrite events or raise limits.

    The role may append events; a trigger refuses to change or delete any. Run it as their owner.

    \b
    Example:
      undertow ledger roles postgresql://owner@db.example.org/privacy --role analyst
    """
    from undertow.ledger.store import Store

    statements = Store(where).restrict(role, only_show=sql)
    if as_json:
        typer.echo(strict_json({"role": role, "done": not sql, "statements": statements}))
    elif sql:
        typer.echo(";\n".join([*statements, ""]).rstrip())
    else:
        rows = [("role", role), ("may", "reserve, begin, confirm, cancel")]
        show("The ledger may be appended to", [*rows, ("may not", "change or delete events")])


def _refuse_second(where: str, dataset: str) -> None:
    from undertow.errors import LedgerConflict, LedgerUnavailable
    from undertow.ledger.book import datasets

    try:
        existing = datasets(where)
    except LedgerUnavailable:  # no ledger yet, or opening it will raise
        return
    if dataset in existing:
        raise LedgerConflict(
            f"the ledger already has the data set {dataset!r}; see it with 'undertow ledger show', "
            "change its limit with 'undertow ledger limit'"
        )


def _terms(book: "Ledger") -> dict[str, Any]:
    from undertow.models.records import audience_of

    origin = book.model.origin
    return {
        "dataset": book.dataset, "model": book.model.describe(), "origin": origin,
        "audience": audience_of(origin), "against": book.against, "unit": book.unit,
        "limit": book.limit, "budget": book.budget,
        **({"delta": book.delta} if book.delta else {}),
        "secret": book.secret.to_dict(), "accepted": list(book.accepted),
        "conditions": list(book.conditions()),
    }  # fmt: skip


def _beside(room: "Room | None") -> dict[str, Any]:
    """Return the further fields of an account with a delta."""
    from undertow.ledger.amounts import highest, round_up

    if room is None:
        return {}
    spent, terms = highest(room.spent), room.terms
    sums = {"mu": spent.mu, "rho": round_up(spent.rho), "delta_spent": round_up(spent.delta)}
    return {**sums, "left_mu": room.left_mu(), "small_delta": terms.small, "pure": terms.pure}


_PERSON = "all records of one person"


def _term_rows(book: "Ledger") -> list[tuple[str, str]]:
    from undertow.adversaries import words
    from undertow.models.records import CURATORS, audience_of
    from undertow.secrets import Window

    curators = audience_of(book.model.origin) == "curator"
    leak, moved = below(book.limit), f"a factor {odds(book.limit)} in the odds"
    if book.delta:
        leak += f" at delta {above(book.delta)}"
        more, rare = odds(book.limit + math.log(2)), above(2 * book.delta)
        moved = f"more than a factor {more} in the odds with probability at most {rare}"
    return [
        ("data set", book.dataset),
        ("model", book.model.describe()),
        *([("reports", f"for the curator only: {CURATORS}")] if curators else []),
        ("attacker", words(book.against)),
        ("protects", _PERSON if book.secret.person else Window(book.secret.window).length_words()),
        ("limit", "; ".join([f"a leakage of {leak}: {moved}", *book.conditions()])),
        ("budget", f"a DP level of {above(book.budget)} for every record"),
    ]


_HEADER = ("release", "level", "records", "status", "reserved (UTC)", "entry")


def _cells(entry: "Entry") -> list[str]:
    level = "redaction" if entry.spend is None else spent_words(entry.spend)
    shown = entry.release_id if len(entry.release_id) <= 20 else f"{entry.release_id[:12]}…"
    when = entry.at[:16].replace("T", " ")
    status = "begun" if entry.begun and entry.status == "reserved" else entry.status
    return [shown, level, entry.scope.words(), status, when, entry.hash[:8]]


def _entry(entry: "Entry") -> dict[str, Any]:
    return {
        "release_id": entry.release_id, **entry.body(), "status": entry.status,
        "begun": entry.begun, "at": entry.at, "made": entry.made, "why": entry.why,
        "hash": entry.hash,
    }  # fmt: skip
