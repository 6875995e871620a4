"""A role of PostgreSQL that may release: it appends, and cannot rewrite what was appended."""

import uuid

import pytest

from tests.ledger.places import EIGHTH, HALF, LIMIT, MODEL, Place
from undertow.data.scopes import Scope
from undertow.errors import InvalidInput, LedgerUnavailable
from undertow.ledger.book import Ledger
from undertow.ledger.store import Store


@pytest.fixture
def released(postgres_place):
    """A ledger, and the place as the role sees it."""
    role = f"analyst {uuid.uuid4().hex[:8]}"
    ledger = postgres_place.open()
    ledger.reserve("before", EIGHTH)
    postgres_place.forge(f'CREATE ROLE "{role}" LOGIN')
    Store(postgres_place.where).restrict(role)
    user = role.replace(" ", "%20")
    yield ledger, Place("postgresql", postgres_place.where.replace("//postgres:", f"//{user}:", 1))
    postgres_place.forge(f'DROP OWNED BY "{role}"', f'DROP ROLE "{role}"')


def test_a_role_may_release(released):
    owner, place = released
    ledger = Ledger(place.where, "w25")
    ledger.reserve("a", HALF, Scope("cohort", ["a"], 0, 7))
    ledger.begin("a")
    assert ledger.confirm("a", {"value": 1}) == {"value": 1}
    ledger.reserve("b", EIGHTH, Scope("cohort", ["a"], 3, 9))
    ledger.cancel("b", "wrong table")
    ledger.bind("f1")
    owner.reserve("c", EIGHTH)
    ledger.reserve("d", EIGHTH)
    assert ledger.verify() == owner.verify() == 10


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE undertow_events SET body = '{}'",
        "DELETE FROM undertow_events",
        "TRUNCATE undertow_events",
        "UPDATE undertow_ledger SET id = 'x'",
        "UPDATE undertow_ledger SET version = 1",
        "DELETE FROM undertow_ledger",
        "INSERT INTO undertow_datasets VALUES ('new', '{}', '{}')",
        "DROP TABLE undertow_events",
        "ALTER TABLE undertow_events DISABLE TRIGGER ALL",
        "INSERT INTO undertow_events VALUES (9, 'w25', 'limit', NULL, '{}', '', '')",
    ],
)
def test_a_role_cannot_rewrite(released, statement):
    import psycopg

    owner, place = released
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        place.forge(statement)
    assert owner.verify() == 2


def test_a_trigger_stands_behind_the_grants(released, postgres_place):
    """Rights that somebody adds later do not make events changeable."""
    import psycopg

    owner, place = released
    postgres_place.forge("GRANT ALL ON undertow_events TO PUBLIC")
    for statement in (
        "UPDATE undertow_events SET body = '{}'",
        "DELETE FROM undertow_events",
        "TRUNCATE undertow_events",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            place.forge(statement)
    assert owner.verify() == 2


def test_a_role_cannot_raise_the_limit_or_open_accounts(released):
    owner, place = released
    for attempt in (
        lambda: Ledger(place.where, "w25").set_limit(9.0),
        lambda: Ledger(place.where, "second", MODEL, LIMIT),
    ):
        with pytest.raises(LedgerUnavailable, match="denied"):
            attempt()
    assert owner.verify() == 2


def test_what_is_granted_can_be_read_first(postgres_place):
    with pytest.raises(LedgerUnavailable):
        Store("postgresql://127.0.0.1:1/db").restrict("postgres")
    postgres_place.open()
    shown = Store(postgres_place.where).restrict("postgres", only_show=True)
    assert any(line.startswith("GRANT SELECT, INSERT ON") for line in shown)
    with pytest.raises(InvalidInput, match="no role 'nobody'"):
        Store(postgres_place.where).restrict("nobody")
    with pytest.raises(InvalidInput, match="PostgreSQL"):
        Store("year.db").restrict("postgres")
