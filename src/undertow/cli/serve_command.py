"""``undertow ledger serve`` and ``undertow ledger client``: one account for a team, over HTTP."""

from dataclasses import MISSING
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from undertow.cli.commands import command, option
from undertow.cli.options import JsonOption, KeyOption, misuse, names
from undertow.cli.output import answer, show, strict_json
from undertow.errors import InvalidInput, NotSupported

__all__ = ["client_app", "serve"]

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
    from undertow.serving.clients import Role, changing

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
    from undertow.serving.clients import Clients

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
    from undertow.serving.clients import Clients, changing

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
