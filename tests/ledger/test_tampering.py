"""Whoever changes a row is found out."""

import json
import shutil

import pytest

from tests.grids import each
from tests.ledger.places import EIGHTH, HALF, QUARTER, Place
from undertow.data.scopes import Scope
from undertow.errors import BudgetExceeded, LedgerDamaged
from undertow.ledger import store
from undertow.ledger.book import Ledger
from undertow.ledger.checks import Checks
from undertow.ledger.entries import Event, Seal
from undertow.ledger.replay import Account, replayed
from undertow.ledger.rules import Terms

EVENTS = 8


def written(place):
    """Write a ledger with a bit of everything: eight events, which nobody outside remembers."""
    ledger = place.open(memory=False)
    ledger.reserve("a", QUARTER, Scope("cohort", ["a"], 0, 7), {"plan": "p"})
    ledger.confirm("a", {"value": 17})
    ledger.reserve("b", QUARTER, Scope("cohort", ["b"], 0, 7))
    ledger.confirm("b", {"value": 18})
    ledger.set_limit(1.5)
    ledger.reserve("all", EIGHTH)
    place.open("other", memory=False)
    assert ledger.verify() == EVENTS
    return place


@pytest.fixture(scope="module")
def sqlite_original(tmp_path_factory):
    return written(Place("sqlite", str(tmp_path_factory.mktemp("original") / "ledger.db")))


@pytest.fixture(scope="module")
def postgres_original(postgres):
    place = Place("postgresql", f"{postgres}&options=-csearch_path%3Doriginal")
    bare = Place("postgresql", postgres)
    bare.forge("CREATE SCHEMA original")
    yield written(place)
    bare.forge("DROP SCHEMA original CASCADE")


@pytest.fixture
def ledger(request, place):
    """A copy of that ledger, which is quicker than writing it again."""
    if place.backend == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_original").where, place.where)
    else:
        request.getfixturevalue("postgres_original")
        for name in ("ledger", "events", "datasets", "segments"):
            table = f"undertow_{name}"
            place.forge(
                f"CREATE TABLE {table} (LIKE original.{table} INCLUDING ALL)",
                f"INSERT INTO {table} SELECT * FROM original.{table}",
            )
    return Ledger(place.where, "w25")


FORGERIES = {
    "edited level": [
        "UPDATE undertow_events SET body = replace(body, 'level\":0.', 'level\":0.0') WHERE seq = 2"
    ],
    "edited result": ["UPDATE undertow_events SET body = replace(body, '17', '71') WHERE seq = 3"],
    "edited release id": ["UPDATE undertow_events SET release_id = 'x' WHERE seq = 2"],
    "edited data set": ["UPDATE undertow_events SET dataset = 'other' WHERE seq = 2"],
    "edited kind": ["UPDATE undertow_events SET kind = 'note' WHERE seq = 6"],
    "edited hash": ["UPDATE undertow_events SET hash = previous WHERE seq = 4"],
    "edited previous hash": ["UPDATE undertow_events SET previous = hash WHERE seq = 4"],
    "body that is no JSON": ["UPDATE undertow_events SET body = 'nonsense' WHERE seq = 4"],
    "deleted first": ["DELETE FROM undertow_events WHERE seq = 1"],
    "deleted in the middle": ["DELETE FROM undertow_events WHERE seq = 4"],
    "deleted last": ["DELETE FROM undertow_events WHERE seq = 8"],
    "deleted all": ["DELETE FROM undertow_events"],
    "deleted and renumbered": [
        "DELETE FROM undertow_events WHERE seq = 7",
        "UPDATE undertow_events SET seq = 7 WHERE seq = 8",
        "UPDATE undertow_ledger SET seq = 7",
    ],
    "inserted at the end": [
        (
            "INSERT INTO undertow_events SELECT 9, dataset, 'confirm', 'all', body, hash, previous "
            "FROM undertow_events WHERE seq = 8"
        )
    ],
    "inserted before the start": [
        (
            "INSERT INTO undertow_events SELECT 0, dataset, 'limit', NULL, body, previous, hash "
            "FROM undertow_events WHERE seq = 1"
        )
    ],
    "reordered": [
        "UPDATE undertow_events SET seq = 100 WHERE seq = 2",
        "UPDATE undertow_events SET seq = 2 WHERE seq = 4",
        "UPDATE undertow_events SET seq = 4 WHERE seq = 100",
    ],
    "lowered spend": ["UPDATE undertow_segments SET level = level / 2, exact = '1/1000000'"],
    "lowered exact spend": ["UPDATE undertow_segments SET exact = '1/1000000'"],
    "consistently lowered spend": ["UPDATE undertow_segments SET level = 0.25, exact = '1/4'"],
    "spend that is no number": ["UPDATE undertow_segments SET exact = 'little'"],
    "spend of nothing": ["UPDATE undertow_segments SET exact = '1/0'"],
    "moved spend": ["UPDATE undertow_segments SET start = start - 1 WHERE start > 0"],
    "deleted spend": ["DELETE FROM undertow_segments WHERE start = 0"],
    "added spend": [
        "INSERT INTO undertow_segments VALUES ('w25', 'x', 0, 1, 0.25, '1/4')",
    ],
    "raised limit": ["UPDATE undertow_datasets SET terms = replace(terms, '1.5', '9.5')"],
    "raised budget": [
        "UPDATE undertow_datasets SET terms = replace(terms, '\"budget\":0', '\"budget\":7')"
    ],
    "lost layout": ["UPDATE undertow_datasets SET layout = '{}'"],
    "layout that is no JSON": ["UPDATE undertow_datasets SET layout = 'x'"],
    "another layout": ["UPDATE undertow_datasets SET layout = replace(layout, 'cohort', 'sex')"],
    "lost data set": ["DELETE FROM undertow_datasets WHERE name = 'other'"],
    "added data set": [
        (
            "INSERT INTO undertow_datasets SELECT 'new', terms, layout FROM undertow_datasets "
            "WHERE name = 'other'"
        )
    ],
    "edited head": ["UPDATE undertow_ledger SET seq = 7"],
    "edited head hash": ["UPDATE undertow_ledger SET hash = 'x'"],
    "lost head": ["DELETE FROM undertow_ledger"],
    "second head": ["INSERT INTO undertow_ledger SELECT * FROM undertow_ledger"],
    "lost table": ["DROP TABLE undertow_segments"],
}


@each(("forgery", "place"), FORGERIES, ["sqlite", "postgresql"], indirect=["place"])
def test_a_forgery_is_found(place, ledger, forgery):
    place.forge(*FORGERIES[forgery])
    with pytest.raises(LedgerDamaged):
        ledger.verify()


@each(
    ("forgery", ("place", "known")),
    FORGERIES, [("sqlite", True), ("postgresql", True), ("sqlite", False), ("postgresql", False)],
    indirect=["place"],
)  # fmt: skip
def test_nothing_is_granted_after_a_forgery(place, ledger, forgery, known):
    """Whether this process has verified the ledger before or not; whatever the grant touches."""
    if known:
        ledger.reserve("all", EIGHTH)
    place.forge(*FORGERIES[forgery])
    for attempt in (
        lambda: ledger.reserve("next", EIGHTH, Scope("cohort", ["z"], 50, 51)),
        lambda: ledger.set_limit(9.0),
        lambda: place.open("third"),
    ):
        with pytest.raises(LedgerDamaged):
            attempt()
    if forgery not in ("lost table", "inserted at the end", "deleted all"):
        assert not place.forge("SELECT seq FROM undertow_events WHERE seq > 8")


def test_the_next_writer_notices_a_lost_end(place, ledger):
    place.forge("DELETE FROM undertow_events WHERE seq = 8")
    with pytest.raises(LedgerDamaged, match="8 events were written, 7 are left"):
        ledger.reserve("next", EIGHTH, Scope(start=50))


def test_an_edited_answer_is_never_handed_out(place, ledger):
    place.forge(*FORGERIES["edited result"])
    for call in (
        lambda: ledger.reserve("a", QUARTER, Scope("cohort", ["a"], 0, 7), {"plan": "p"}),
        lambda: ledger.confirm("a", {"value": 1}),
        lambda: ledger.entry("a"),
        ledger.entries,
    ):
        with pytest.raises(LedgerDamaged, match="event 3"):
            call()


def test_a_lost_data_set_is_not_started_anew(place, ledger):
    place.forge("DELETE FROM undertow_datasets")
    for call in (ledger.level, ledger.entries, lambda: ledger.reserve("x", EIGHTH)):
        with pytest.raises(LedgerDamaged, match="no longer in the ledger"):
            call()
    with pytest.raises(LedgerDamaged, match="are no longer in the ledger"):
        place.open()


def forge_event(place, seq, kind, release_id, body):
    """Append an event with a good hash, as someone who knows the format could."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    previous = place.forge(f"SELECT hash FROM undertow_events WHERE seq = {seq - 1}")[0][0]
    own = Seal().of(previous, seq, "w25", kind, release_id, text)
    key = "NULL" if release_id is None else f"'{release_id}'"
    place.forge(
        f"INSERT INTO undertow_events VALUES ({seq}, 'w25', '{kind}', {key}, "
        f"'{text}', '{previous}', '{own}')",
        f"UPDATE undertow_ledger SET seq = {seq}, hash = '{own}'",
    )


ASKED = {
    "kind": "release", "level": 0.7, "leakage": None, "scope": Scope().to_dict(), "about": {},
    "at": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "release_id", "body"),
    [
        ("reserve", "c", ASKED),  # beyond the budget
        ("reserve", "c", {**ASKED, "level": 1e-9}),  # not in the segments
        ("reserve", "c", {**ASKED, "level": "x"}),
        ("reserve", "c", {**ASKED, "kind": "redaction", "level": None, "leakage": 0.1}),
        ("reserve", "c", {}),
        ("reserve", "c", {**ASKED, "scope": {"start": 3, "end": 1}}),
        ("confirm", "nobody", {"result": {}}),
        ("open", None, {"terms": {}}),
        ("limit", None, {"limit": 9.0, "budget": 9.0}),
        ("limit", None, {}),
        ("note", None, {}),
        ("open", None, [1]),
    ],
)
def test_an_event_that_no_ledger_writes_is_found(place, ledger, kind, release_id, body):
    forge_event(place, EVENTS + 1, kind, release_id, body)
    with pytest.raises(LedgerDamaged):
        ledger.verify()


def test_a_second_confirmation_is_found(sqlite_place):
    ledger = sqlite_place.open()
    ledger.reserve("a", HALF)
    ledger.confirm("a", {"value": 1})
    sqlite_place.forge("DROP INDEX IF EXISTS x")  # the unique key refuses it; go around
    rows = sqlite_place.forge("SELECT * FROM undertow_events WHERE seq <= 3")
    sqlite_place.forge(
        "DROP TABLE undertow_events",
        "CREATE TABLE undertow_events (seq BIGINT, dataset TEXT, kind TEXT, release_id TEXT, "
        "body TEXT, previous TEXT, hash TEXT)",
    )
    connection = sqlite_place.connect()
    connection.executemany("INSERT INTO undertow_events VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    assert ledger.verify() == 3
    forge_event(sqlite_place, 4, "confirm", "a", {"result": {"value": 2}})
    with pytest.raises(LedgerDamaged, match="confirmed before"):
        ledger.verify()


def test_an_event_that_has_its_own_hash_must_follow_too(place, ledger):
    """One event in the middle, hashed anew: the next one still names the hash it had before."""
    body, previous = place.forge("SELECT body, previous FROM undertow_events WHERE seq = 3")[0]
    body = body.replace("17", "71")
    own = Seal().of(previous, 3, "w25", "confirm", "a", body)
    place.forge(f"UPDATE undertow_events SET body = '{body}', hash = '{own}' WHERE seq = 3")
    with pytest.raises(LedgerDamaged, match="event 4 does not follow"):
        ledger.verify()


def test_spends_that_change_between_the_check_and_the_grant_are_found(place, ledger, monkeypatch):
    checked = Checks._checked

    def then_forged(self):
        known = checked(self)
        place.forge(*FORGERIES["lowered spend"])
        return known

    monkeypatch.setattr(Checks, "_checked", then_forged)
    with pytest.raises(LedgerDamaged, match="spent levels do not follow"):
        ledger.reserve("next", EIGHTH)


def test_a_second_reservation_is_found():
    """Even one that fits and asks for the same: the release might be made twice."""
    accounts = {"w25": Account(Terms({}, 1.0, 1.0, "any", "record"))}
    body = {**ASKED, "level": 0.25}
    reserve, cancel = (
        Event(seq, "w25", kind, "a", "", "", "") for seq, kind in ((2, "reserve"), (3, "cancel"))
    )
    replayed(accounts, reserve, body)
    with pytest.raises(LedgerDamaged, match="has no place here"):
        replayed(accounts, reserve, body)
    replayed(accounts, cancel, {})
    with pytest.raises(LedgerDamaged, match="has no place here"):
        replayed(accounts, reserve, body)


def test_an_old_copy_is_found_with_a_printed_hash(sqlite_place, tmp_path):
    ledger = sqlite_place.open()
    old = sqlite_place.connect()
    copy = sqlite_place.__class__("sqlite", str(tmp_path / "copy.db"))
    target = copy.connect()
    old.backup(target)
    old.close()
    target.close()
    printed = ledger.reserve("a", HALF).entry_hash
    assert ledger.verify(printed) == 2
    assert Ledger(copy.where, "w25", memory=False).verify() == 1
    with pytest.raises(LedgerDamaged, match="old copy"):
        Ledger(copy.where, "w25", memory=False).verify(printed)


def test_a_budget_is_refused_on_what_is_stored(place, ledger):
    with pytest.raises(BudgetExceeded):
        ledger.reserve("c", 0.75)
    assert store.VERSION == 2
