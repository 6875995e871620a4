"""``undertow ledger``: the account of what was released, and what is left of it."""

import math
from dataclasses import MISSING
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from undertow.cli.options import (
    AcceptOption,
    AgainstOption,
    JsonOption,
    KeyOption,
    ModelText,
    Unit,
    WindowText,
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

__all__ = [
    "client_app",
    "ledger_app",
    "serve",
]


LedgerArgument = Annotated[
    str, typer.Argument(metavar="LEDGER", help="A file, or a postgresql:// address.")
]
ClientsArgument = Annotated[
    Path, typer.Argument(metavar="CLIENTS", help="The file of clients and their roles.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="What the client is called.")]


@command
def serve(
    where: LedgerArgument,
    clients: Path | None = option("FILE", "Who may ask for what: 'undertow ledger client add'."),
    bind: str = option("ADDRESS", "Where to listen; this machine only by default.", "127.0.0.1"),
    port: int = option("N", "... and on which port; 0 takes a free one.", 8765),
    behind: str | None = option(
        "HOSTS", "Names under which your TLS proxy reaches the service.", name="--behind-proxy"
    ),
    key: KeyOption = None,
    openapi: bool = option(None, "Only print the schema of the service.", False),
) -> None:
    """Keep a ledger for a team: programs reserve, confirm and read over HTTP, each with a token.

    Rules are those of the ledger itself. Tokens travel in the open, so the service listens on this
    machine only, unless --behind-proxy says that a proxy with TLS stands before it. Every request
    is answered from the ledger; stop and start the service as you like.

    \b
    Examples:
      undertow ledger client add clients.json airflow --roles spend --datasets w25
      undertow ledger serve year.db --clients clients.json
      undertow ledger serve postgresql://ledger@db/privacy --clients clients.json \\
        --bind 0.0.0.0 --behind-proxy ledger.example.org
      undertow ledger serve year.db --openapi
    """
    serving = _serving()
    hosts = () if behind is None else tuple(map(str, names(behind, "--behind-proxy")))
    settings = serving.ServiceSettings(hosts)
    accounts = serving.Accounts(where, key)
    if openapi:
        app = serving.create_service(accounts, lambda: serving.Clients(()), settings)
        typer.echo(strict_json(app.openapi()))
        return
    if clients is None:
        raise misuse("--clients is needed: the file that 'undertow ledger client add' writes")
    if not serving.is_loopback(bind) and behind is None:
        raise InvalidInput(
            f"{bind} can be reached from other machines, and tokens would travel in the open; put "
            "a proxy with TLS before it and say --behind-proxy NAME, or leave --bind out"
        )
    kept = serving.Clients.read(clients)
    app = serving.create_service(accounts, lambda: serving.Clients.read(clients), settings)
    bound = serving.listening(bind, port)
    rows = [
        ("address", f"http://{bind}:{bound.getsockname()[1]}/v1/"),
        ("ledger", ", ".join(accounts.names()) or "no data set yet"),
        ("clients", ", ".join(client.name for client in kept.listed) or "none yet"),
        ("ends with", "Ctrl-C"),
    ]
    show("The ledger is served", rows)
    serving.run(app, bound)


client_app = typer.Typer(
    name="client", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)


@client_app.callback()
def client() -> None:
    """Who may ask a served ledger for what.

    \b
    Examples:
      undertow ledger client add clients.json airflow --roles spend --datasets w25
      undertow ledger client list clients.json
      undertow ledger client remove clients.json airflow
    """


@client_app.command(short_help="A new client, and its token, shown once.")
@command
def add(
    path: ClientsArgument,
    name: NameArgument,
    roles: str = option("ROLES", "Some of read, spend, limit.", MISSING),
    datasets: str | None = option("NAMES", "The data sets it may ask for; all if left out."),
    as_json: JsonOption = False,
) -> None:
    """Add a client and print its token: the file keeps a hash of it, and nobody can show it again.

    \b
    Example:
      undertow ledger client add clients.json airflow --roles spend --datasets w25
    """
    from undertow.serving.accounts import Role, changing

    wanted: tuple[Any, ...] = tuple(names(roles, "--roles"))
    unknown = [role for role in wanted if role not in get_args(Role)]
    if unknown:
        raise misuse(f"--roles takes some of {', '.join(get_args(Role))}; found {unknown[0]}")
    sets = None if datasets is None else tuple(map(str, names(datasets, "--datasets")))
    with changing(path) as known:
        more, token = known.add(name, wanted, sets)
        more.write(path)
    rows = [("name", name), ("may", ", ".join(wanted)), ("token", token)]
    rows.append(("keep it", "it is shown only now; the file holds its hash"))
    answer({"name": name, "token": token}, lambda: show("A client", rows), as_json=as_json)


@client_app.command("list", short_help="The clients and their roles.")
@command
def list_clients(path: ClientsArgument, as_json: JsonOption = False) -> None:
    """The clients of a file, what they may do, and for which data sets.

    \b
    Example:
      undertow ledger client list clients.json
    """
    from undertow.serving.accounts import Clients

    listed = Clients.read(path).listed
    told = [
        {
            "name": one.name,
            "roles": list(one.roles),
            "datasets": one.datasets and list(one.datasets),
        }
        for one in listed
    ]
    rows = [
        (one.name, f"{', '.join(one.roles)}; {', '.join(one.datasets or ()) or 'all data sets'}")
        for one in listed
    ]
    answer({"clients": told}, lambda: show("Clients", rows), as_json=as_json)


@client_app.command(short_help="Take a client's token away.")
@command
def remove(path: ClientsArgument, name: NameArgument, as_json: JsonOption = False) -> None:
    """Remove a client; a running service refuses its token from the next request on.

    \b
    Example:
      undertow ledger client remove clients.json airflow
    """
    from undertow.serving.accounts import Clients, changing

    Clients.read(path)  # a missing file is refused before a lock is made beside it
    with changing(path) as known:
        known.remove(name).write(path)
    answer({"removed": name}, lambda: show("Removed", [("client", name)]), as_json=as_json)


def _serving() -> Any:
    """Return the parts of a service, or say what to install."""
    try:
        from undertow.serving import parts
    except ModuleNotFoundError as missing:
        raise NotSupported(
            f"serving a ledger needs {missing.name}; install it with: pip install "
            "'undertow[service]'"
        ) from None
    return parts


ledger_app = typer.Typer(
    name="ledger", no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)

DatasetOption = Annotated[
    str, typer.Option("--dataset", metavar="NAME", help="The data set in the ledger.")
]
OnlyDatasetOption = Annotated[
    str | None,
    typer.Option("--dataset", metavar="NAME", help="The data set, if there is more than one."),
]


@ledger_app.callback()
def ledger() -> None:
    """The account of what was released from a data set, and what is left.

    \b
    Examples:
      undertow ledger create year.db --dataset w25 --model chain.json --limit 1
      undertow ledger show year.db
      undertow ledger limit year.db --dataset w25 2
      undertow ledger verify year.db
      undertow ledger serve year.db --clients clients.json
    """


ledger_app.command(short_help="Keep the account for a team, over HTTP.")(serve)
ledger_app.add_typer(client_app, short_help="Who may ask a served ledger for what.")


@ledger_app.command(short_help="Start the account of a data set.")
@command
def create(
    where: LedgerArgument,
    dataset: DatasetOption,
    model: ModelText,
    whole: WindowText,
    limit: float = option("E", "What all releases together may leak at most.", MISSING),
    delta: float | None = option(
        "D", "How rare outputs may be that break the limit: admits Gaussian noise."
    ),
    pure: float | None = option(
        "LEVEL", "With --delta: a DP level set aside for releases that have one."
    ),
    against: AgainstOption = None,
    accept: AcceptOption = None,
    unit: Unit | None = option(None, "What is protected: one record (default), or a whole person."),
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start the account of a data set: its model, its limit, whom and what it protects.

    With --key a new ledger is kept under a key: whoever rewrites the file without it is noticed.

    \b
    Example:
      undertow ledger create year.db --dataset w25 --model chain.json --limit 1
    """
    described, window = model.read(), whole.read()
    with waiting("computing the budget"):
        from undertow.ledger.book import Ledger

        _refuse_second(where, dataset)
        from undertow.secrets import Person

        book = Ledger(
            where,
            dataset,
            described,
            limit,
            delta=delta,
            pure=pure,
            against=against or "any",
            secret=Person() if unit == "person" else window,
            accept=read_accept(accept),
            key=key,
        )
    answer(_terms(book), lambda: show("The account", _term_rows(book)), as_json=as_json)


@ledger_app.command("show", short_help="What was released, and what is left.")
@command
def show_ledger(
    where: LedgerArgument,
    dataset: OnlyDatasetOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """What was released from a data set, what it leaks together, and what is left.

    \b
    Example:
      undertow ledger show year.db --dataset w25
    """
    with waiting("reading the ledger"):
        book = open_ledger(where, dataset, key)
        entries, level, left, leak = book.entries(), book.level(), book.left(), book.leakage()
        room = book.room() if book.delta and math.isfinite(level) else None
    if as_json:
        found = {"level": level, "left": left, "leakage": [leak.lower, leak.upper]}
        listed = {"entries": [_entry(entry) for entry in entries]}
        typer.echo(strict_json(_terms(book) | found | _beside(room) | listed))
    else:
        spent, fits = f"a DP level of {above(level)}", level_words(left, book.budget)
        if room is not None:
            from undertow.ledger.amounts import highest
            from undertow.ledger.rules import spend_words

            spent, fits = spend_words(highest(room.spent)), room_words(room, book.budget)
        state = [
            ("spent", f"{spent} on the most used records"),
            ("leakage", f"{interval(leak)}, of all releases together"),
            ("left", f"{fits} for a release that touches every record"),
        ]
        show("The account", [*_term_rows(book), *state])
        if entries:
            show_table("Entries", _HEADER, [_cells(entry) for entry in entries])


@ledger_app.command(short_help="Change the limit of a data set.")
@command
def limit(
    where: LedgerArgument,
    limit: Annotated[
        float, typer.Argument(metavar="E", help="What all releases together may leak at most.")
    ],
    dataset: DatasetOption,
    delta: float | None = option(
        "D", "How rare outputs may be that break the limit; as it was if left out."
    ),
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change what all releases from a data set together may leak; the change is recorded.

    \b
    Example:
      undertow ledger limit year.db --dataset w25 2
    """
    with waiting("computing the budget"):
        book = open_ledger(where, dataset, key)
        book.set_limit(limit, delta)
    answer(_terms(book), lambda: show("The account", _term_rows(book)), as_json=as_json)


@ledger_app.command(short_help="Whether the ledger is as it was written.")
@command
def verify(
    where: LedgerArgument,
    holding: list[str] | None = option(
        "HASH", "An entry of a report that must be in it.", name="--entry"
    ),
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the chain of hashes, every rule at every step, and every total; all data sets.

    \b
    Example:
      undertow ledger verify year.db
    """
    with waiting("verifying the ledger"):
        from undertow.errors import LedgerDamaged
        from undertow.ledger.book import Ledger, datasets

        found = datasets(where)
        if not found:
            raise LedgerDamaged("the ledger holds no data set; go back to a copy that does")
        events = Ledger(where, found[0], create=False, key=key).verify(*(holding or ()))
    answer(
        {"verified": True, "events": events, "datasets": found},
        lambda: show(
            "The ledger is as it was written",
            [
                ("events", f"{events}, each chained to the one before by its hash"),
                ("data sets", ", ".join(found)),
                ("checked", "the chain, every rule at every step, and every total"),
            ],
        ),
        as_json=as_json,
    )


@ledger_app.command(short_help="Give back what was reserved and never drawn.")
@command
def cancel(
    where: LedgerArgument,
    dataset: DatasetOption,
    release_id: str = option("ID", "The release, as 'ledger show' names it.", MISSING, name="--id"),
    why: str = option("TEXT", "The reason; it is recorded.", MISSING),
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give back what was reserved for a release whose noise was never drawn; it stays on record.

    The id is retired. What has begun cannot be cancelled: its noise may have been seen.

    \b
    Example:
      undertow ledger cancel year.db --dataset w25 --id week-7 --why "wrong table"
    """
    with waiting("checking the ledger"):
        book = open_ledger(where, dataset, key)
        book.cancel(release_id, why)
        left = book.left()
    if as_json:
        typer.echo(strict_json({"cancelled": release_id, "why": why, "left": left}))
    else:
        shown = level_words(left, book.budget)
        show("Cancelled", [("release", release_id), ("why", why), ("left", shown)])


@ledger_app.command(short_help="Accept that a restored ledger has lost entries.")
@command
def forget(
    where: LedgerArgument,
    yes: bool = option(None, "What was spent in the lost entries is not accounted.", False),
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Accept a ledger that was restored from an older copy: entries since then are lost.

    Needs --yes. The ledger keeps a record of it. What the lost entries spent is spent all the
    same: lower the limit by it, if it is known.

    \b
    Example:
      undertow ledger forget year.db --yes
    """
    if not yes:
        raise misuse("entries that were written would be given up; say --yes")
    with waiting("checking the ledger"):
        from undertow.ledger.book import forget as accept

        remembered = accept(where, key=key)
    if as_json:
        typer.echo(strict_json({"forgotten": True, "remembered": remembered}))
    else:
        last = f"event {remembered} was the last one remembered" if remembered else "nothing"
        show("The ledger is accepted as it is", [("given up", last)])


@ledger_app.command(short_help="A role of PostgreSQL that may release and not rewrite.")
@command
def roles(
    where: LedgerArgument,
    role: str = option("NAME", "A role of the server.", MISSING),
    sql: bool = option(None, "Only print the statements.", False),
    as_json: JsonOption = False,
) -> None:
    """Let a role of PostgreSQL release from the ledger, and neither rewrite it nor raise limits.

    It may append events; a trigger refuses to change or delete any. Run it as their owner.

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
        found = datasets(where)
    except LedgerUnavailable:  # there is none, or it will be said when it is opened
        return
    if dataset in found:
        raise LedgerConflict(
            f"the ledger already has the data set {dataset!r}; see it with 'undertow ledger show', "
            "change its limit with 'undertow ledger limit'"
        )


def _terms(book: "Ledger") -> dict[str, Any]:
    from undertow.models.records import audience_of

    named = ("against", "unit", "limit", "budget", *(("delta",) if book.delta else ()))
    same = {name: getattr(book, name) for name in named}
    if book.secret.window > 1:
        same["protect_window"] = book.secret.window
    same["accepted"] = list(book.accepted)
    same["conditions"] = list(book.conditions())
    origin = book.model.origin
    told = {"model": book.model.describe(), "origin": origin, "audience": audience_of(origin)}
    return {"dataset": book.dataset, **told, **same}


def _beside(room: "Room | None") -> dict[str, Any]:
    """Return what an account with a delta has beside the levels; nothing for any other."""
    from undertow.ledger.amounts import highest, round_up

    if room is None:
        return {}
    spent, terms = highest(room.spent), room.terms
    sums = {"mu": spent.mu, "rho": round_up(spent.rho), "delta_spent": round_up(spent.delta)}
    return {**sums, "left_mu": room.left_mu(), "small_delta": terms.small, "pure": terms.pure}


_PERSON = "all records of one person"


def _at(delta: float) -> str:
    return f" at delta {above(delta)}" if delta else ""


def _term_rows(book: "Ledger") -> list[tuple[str, str]]:
    from undertow.adversaries import words
    from undertow.models.records import CURATORS, audience_of
    from undertow.secrets import Window

    curators = audience_of(book.model.origin) == "curator"
    leak = f"{below(book.limit)}{_at(book.delta)}"
    moved = f"a factor {odds(book.limit)} in the odds"
    if book.delta:
        more, rare = odds(book.limit + math.log(2)), above(2 * book.delta)
        moved = f"more than a factor {more} in the odds with probability at most {rare}"
    return [
        ("data set", book.dataset),
        ("model", book.model.describe()),
        *([("papers", f"the curator's: {CURATORS}")] if curators else []),
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
    became = ("status", "begun", "at", "made", "why", "hash")
    named = {"release_id": entry.release_id, **entry.body()}
    return named | {name: getattr(entry, name) for name in became}
