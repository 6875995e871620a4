"""A ledger over HTTP: the same rules, tokens, roles, and ids that make it idempotent."""

import json
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from starlette.testclient import TestClient

import undertow as ut
from undertow.data.scopes import Scope
from undertow.ledger.book import Ledger
from undertow.ledger.replay import entries_of
from undertow.serving.accounts import Accounts, Clients, Role
from undertow.serving.ledger_api import ServiceSettings, Turns, create_service

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
BASE = "http://localhost:8765"
WEEK = "/v1/datasets/w25/releases/week-1"


class Team:
    """A served ledger with the data sets w25 and other, and its clients by name."""

    def __init__(self, where):
        self.where, self.tokens, self.clients = where, {}, Clients(())
        named: list[tuple[str, Role, tuple[str, ...] | None]] = [
            ("airflow", "spend", None),
            ("second", "spend", None),
            ("reader", "read", ("w25",)),
            ("officer", "limit", None),
        ]
        for name, role, sets in named:
            self.clients, self.tokens[name] = self.clients.add(name, (role,), sets)
        app = create_service(Accounts(where), lambda: self.clients)
        self.http = TestClient(app, base_url=BASE, raise_server_exceptions=False)

    def __call__(self, who, method, path, body=None, **headers):
        token = {"Authorization": f"Bearer {self.tokens[who]}"} if who in self.tokens else {}
        return self.http.request(method, path, json=body, headers={**token, **headers})


@pytest.fixture
def service(tmp_path):
    where = str(tmp_path / "year.db")
    for name in ("w25", "other"):
        ut.Ledger(where, dataset=name, model=CHAIN, limit=1.0)
    return Team(where)


def test_a_release_is_reserved_confirmed_and_given_again(service):
    made = service("airflow", "PUT", WEEK, {"level": 0.2, "about": {"dag": "weekly"}})
    assert (made.status_code, made.json()["result"]) == (201, None)
    again = service("airflow", "PUT", WEEK, {"level": 0.2, "about": {"dag": "weekly"}})
    assert (again.status_code, again.json()["entry"]) == (200, made.json()["entry"])
    assert service("airflow", "POST", f"{WEEK}/begin").status_code == 200
    first = service("airflow", "POST", f"{WEEK}/confirm", {"result": {"active": 7}})
    second = service("airflow", "POST", f"{WEEK}/confirm", {"result": {"active": 8}})
    assert first.json()["result"] == second.json()["result"] == {"active": 7}
    entry = service("reader", "GET", WEEK).json()
    assert entry["about"] == {"dag": "weekly", "client": "airflow"}
    assert entry["status"] == "confirmed"
    book = ut.Ledger(service.where, dataset="w25", create=False)
    assert book.level() == 0.2
    assert service("reader", "GET", "/v1/datasets/w25").json()["left"] == book.left()
    assert service("reader", "POST", "/v1/verify").json()["events"] == book.verify()


def test_what_does_not_fit_is_refused_with_what_would(service):
    refused = service("airflow", "PUT", WEEK, {"level": 0.3})
    assert (refused.status_code, refused.json()["error"]) == (409, "BudgetExceeded")
    fits = service("airflow", "PUT", WEEK, {"level": refused.json()["left"]})
    assert fits.status_code == 201
    inside = {"records": {"start": 0, "end": 7}}
    assert (
        service("reader", "POST", "/v1/datasets/w25/left", inside["records"]).json()["level"] == 0
    )


def test_roles(service):
    level = {"level": 0.01}
    assert service("reader", "PUT", WEEK, level).status_code == 403
    assert service("officer", "PUT", WEEK, level).status_code == 403
    assert service("airflow", "PUT", "/v1/datasets/w25/limit", {"limit": 2.0}).status_code == 403
    assert service("reader", "GET", "/v1/datasets/other").status_code == 403
    assert service("reader", "GET", "/v1/datasets").json() == {"datasets": ["w25"]}
    raised = service("officer", "PUT", "/v1/datasets/w25/limit", {"limit": 2.0})
    assert (raised.status_code, raised.json()["limit"]) == (200, 2.0)
    assert ut.Ledger(service.where, dataset="w25", create=False).limit == 2.0


def test_a_release_belongs_to_the_client_that_reserved_it(service):
    assert service("airflow", "PUT", WEEK, {"level": 0.1}).status_code == 201
    for path, body in (("begin", None), ("confirm", {"result": {}}), ("cancel", {"why": "no"})):
        other = service("second", "POST", f"{WEEK}/{path}", body)
        assert (other.status_code, other.json()["error"]) == (409, "LedgerConflict")
    assert service("second", "PUT", WEEK, {"level": 0.1}).status_code == 409
    assert service("airflow", "POST", f"{WEEK}/cancel", {"why": "wrong table"}).status_code == 200
    assert ut.Ledger(service.where, dataset="w25", create=False).level() == 0


def test_nobody_without_a_token(service):
    for who, headers in (
        (None, {}),
        (None, {"Authorization": "Bearer guess"}),
        (None, {"Authorization": "Basic Z3Vlc3M6Z3Vlc3M="}),
    ):
        found = service(who, "GET", "/v1/datasets/w25", **headers)
        assert (found.status_code, found.json()["error"]) == (401, "Unauthorized")
    assert service(None, "GET", "/v1/health").status_code == 200
    service.clients = service.clients.remove("airflow")
    assert service("airflow", "GET", "/v1/datasets").status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "attacker.example"}, 421),
        ({"Origin": "http://localhost:8765"}, 403),
        ({"Origin": "http://attacker.example"}, 403),
    ],
)
def test_pages_and_foreign_names_are_refused(service, headers, status):
    found = service("airflow", "GET", "/v1/datasets", **headers)
    assert found.status_code == status
    assert "access-control-allow-origin" not in found.headers


@pytest.mark.parametrize(
    "body",
    [
        {"level": -1},
        {"level": "0.1"},
        {"level": 0.1, "more": 1},
        {"level": 0.1, "records": {"start": 3, "end": 3}},
        {"level": 0.1, "about": {"client": "somebody"}},
        {"level": 0.1, "leakage": 0.5},
        {},
    ],
)
def test_malformed_requests_spend_nothing(service, body):
    found = service("airflow", "PUT", WEEK, body)
    assert found.status_code == 422
    assert service("reader", "GET", WEEK).status_code == 404


def test_numbers_that_are_none_and_bodies_that_are_large(service):
    token = {"Authorization": f"Bearer {service.tokens['airflow']}"}
    for content, status in (
        ('{"level": NaN}', 422),
        ('{"level": 1e999}', 422),
        ("{", 422),
        (json.dumps({"level": 0.1, "about": {"x": "y" * 2**21}}), 413),
    ):
        found = service.http.put(
            WEEK, content=content, headers={**token, "Content-Type": "application/json"}
        )
        assert found.status_code == status, content[:20]

    def unannounced():
        for _ in range(40):
            yield b" " * 2**16

    assert service.http.put(WEEK, content=unannounced(), headers=token).status_code == 413
    assert service("reader", "GET", WEEK).status_code == 404


def test_unknown_data_sets_and_damaged_ledgers(service):
    assert service("airflow", "GET", "/v1/datasets/none").status_code == 404
    assert service("airflow", "PUT", WEEK, {"level": 0.1}).status_code == 201
    with sqlite3.connect(service.where) as raw:
        raw.execute("UPDATE undertow_events SET body = replace(body, '0.1', '0.01')")
    found = service("airflow", "PUT", f"{WEEK}b", {"level": 0.1})
    assert (found.status_code, found.json()["error"]) == (500, "LedgerDamaged")


def test_many_clients_at_once_never_overspend(service):
    def one(number):
        return service("airflow", "PUT", f"/v1/datasets/w25/releases/r{number}", {"level": 0.06})

    with ThreadPoolExecutor(8) as pool:
        codes = sorted(answer.status_code for answer in pool.map(one, range(12)))
    assert codes == [201] * 4 + [409] * 8
    assert ut.Ledger(service.where, dataset="w25", create=False).level() <= 0.2503


def test_the_schema_says_what_there_is(service):
    schema = service(None, "GET", "/openapi.json").json()
    assert set(schema["paths"]) >= {"/v1/health", "/v1/datasets/{dataset}/releases/{release_id}"}
    assert service(None, "GET", "/docs").status_code == 404


def test_names_of_hosts_are_checked():
    assert ServiceSettings(("ledger.example.org",)).answers("LEDGER.example.org:8443")
    with pytest.raises(ut.errors.InvalidInput, match="lower case"):
        ServiceSettings(("Ledger.example.org:443",))


# --- texts that no reader takes -------------------------------------------------------------------

HALVES = [
    ("PUT", WEEK, '{"level": 0.1, "about": {"a": "\\ud800"}}'),
    ("PUT", WEEK, '{"level": 0.1, "about": {"\\udfff": 1}}'),
    ("PUT", WEEK, '{"level": 0.1, "about": {"a": [{"b": "x\\ud800y"}]}}'),
    ("PUT", WEEK, '{"level": 0.1, "records": {"by": "c", "groups": ["\\ud800"]}}'),
    ("PUT", WEEK, '{"level": 0.1, "records": {"by": "\\ud800", "groups": ["a"]}}'),
    ("PUT", WEEK, '{"level": 0.1, "\\ud800": 1}'),
    ("PUT", WEEK, '{"level": 0.1, "about": {"a": ' + "[" * 101 + "]" * 101 + "}}"),
    ("PUT", WEEK, '{"level": 0.1, "about": {"a": ' + "[" * 400 + "]" * 400 + "}}"),
    ("POST", f"{WEEK}-kept/confirm", '{"result": {"a": "\\ud800"}}'),
    ("POST", f"{WEEK}-kept/cancel", '{"why": "\\ud800"}'),
    ("POST", "/v1/datasets/w25/left", '{"by": "\\ud800", "groups": ["a"]}'),
]


@pytest.mark.parametrize(("method", "path", "body"), HALVES)
def test_half_a_character_is_refused_and_spends_nothing(service, method, path, body):
    assert service("airflow", "PUT", f"{WEEK}-kept", {"level": 0.01}).status_code == 201
    headers = {
        "Authorization": f"Bearer {service.tokens['airflow']}",
        "Content-Type": "application/json",
    }
    found = service.http.request(method, path, content=body, headers=headers)
    assert (found.status_code, found.json()["error"]) == (422, "InvalidInput")
    listed = service("reader", "GET", "/v1/datasets/w25/releases")
    assert [entry["release_id"] for entry in listed.json()["releases"]] == ["week-1-kept"]
    assert service("reader", "POST", "/v1/verify").json() == {"verified": True, "events": 3}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", f"{WEEK}%ff"),
        ("PUT", f"{WEEK}%ed%a0%80"),
        ("GET", "/v1/datasets/w%c3"),
        ("GET", "/v1/datasets/w25/releases?after=%fe"),
    ],
)
def test_an_address_that_is_no_text_is_refused(service, method, path):
    """Each would be read with a mark in place of its bytes: several ids as one."""
    found = service("airflow", method, path, {"level": 0.1} if method == "PUT" else None)
    assert (found.status_code, found.json()["error"]) == (400, "BadRequest")
    assert not service("reader", "GET", "/v1/datasets/w25/releases").json()["releases"]
    assert service("airflow", "PUT", f"{WEEK}%c3%a9", {"level": 0.1}).status_code == 201


POISONS = {
    "text": ('"poison"', '"\\ud800"', {"dag": "?", "client": "airflow"}),
    "name": ('"dag":"poison"', '"\\ud800":"poison"', {"?": "poison", "client": "airflow"}),
    "deep": ('"poison"', "[" * 400 + "]" * 400, None),
}


@pytest.mark.parametrize("old", POISONS.values(), ids=POISONS)
def test_a_ledger_that_holds_one_is_listed_and_verified(service, old):
    """As an older service wrote it: the event has its own hash, and the account is as it says."""
    plain, broken, shown = old
    service("airflow", "PUT", WEEK, {"level": 0.1, "about": {"dag": "poison"}})
    book = ut.Ledger(service.where, dataset="w25", create=False)
    with book._store.reading() as transaction:
        (event,) = transaction.events("w25", "week-1")
        body = event.body.replace(plain, broken)
        own = transaction.head.seal.of(
            event.previous, event.seq, event.dataset, event.kind, event.release_id, body
        )
        assert entries_of([event._replace(body=body, hash=own)], transaction.head.seal)
    with sqlite3.connect(service.where) as raw:
        raw.execute(
            "UPDATE undertow_events SET body = ?, hash = ? WHERE seq = ?", (body, own, event.seq)
        )
        raw.execute("UPDATE undertow_ledger SET hash = ?", (own,))
    listed = service("reader", "GET", "/v1/datasets/w25/releases")
    assert listed.status_code == 200
    (entry,) = listed.json()["releases"]
    assert entry["about"] == shown
    assert service("reader", "GET", WEEK).json() == entry
    fresh = Team(service.where)
    assert fresh("reader", "POST", "/v1/verify").status_code == 500  # the memory knows another
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNDERTOW_STATE", f"{service.where}.elsewhere")
        fresh = Team(service.where)
        assert fresh("reader", "POST", "/v1/verify").json()["events"] == 3
        assert fresh("airflow", "POST", f"{WEEK}/confirm", {"result": {"a": 1}}).status_code == 200
        assert fresh("reader", "GET", "/v1/datasets/w25").json()["level"] == 0.1
    with sqlite3.connect(service.where) as raw:
        raw.execute("UPDATE undertow_events SET body = replace(body, '0.1', '0.01')")
    assert service("reader", "POST", "/v1/verify").json()["error"] == "LedgerDamaged"


# --- nobody waits for a reader --------------------------------------------------------------------


def test_entries_are_listed_page_by_page(service):
    names = [f"r{number}" for number in range(7)]
    for name in names:
        path = f"/v1/datasets/w25/releases/{name}"
        assert service("airflow", "PUT", path, {"level": 0.01}).status_code == 201
        assert service("airflow", "POST", f"{path}/confirm", {"result": {}}).status_code == 200
    base, after = "/v1/datasets/w25/releases", ""
    for wanted, more in ((names[:3], "r2"), (names[3:6], "r5"), (names[6:], None)):
        page = service("reader", "GET", f"{base}?limit=3{after}").json()
        assert [entry["release_id"] for entry in page["releases"]] == wanted
        assert {entry["status"] for entry in page["releases"]} == {"confirmed"}
        assert page["next"] == more
        after = f"&after={more}"
    assert len(service("reader", "GET", base).json()["releases"]) == 7
    for wrong in ("?limit=0", "?limit=1001", "?limit=x", "?after=none", "?after=%20"):
        assert service("reader", "GET", base + wrong).status_code == 422
    book = ut.Ledger(service.where, dataset="w25", create=False)
    few, rest = book.page(size=1)
    assert ([entry.release_id for entry in few], rest) == (["r0"], "r0")
    assert [*book.page(most=100)[0]] == book.entries()


def test_a_question_is_about_so_many_groups_at_most(service):
    groups = [f"g{number}" for number in range(1001)]
    path = "/v1/datasets/w25/left"
    found = service("reader", "POST", path, {"by": "g", "groups": groups})
    assert found.status_code == 422
    assert "at most 1000 items" in found.json()["message"]
    fewer = service("reader", "POST", path, {"by": "g", "groups": groups[1:]})
    assert fewer.json()["level"] > 0


def test_a_writer_does_not_wait_for_all_readers(tmp_path):
    """Forty questions about a thousand groups each are on their way when a release is reserved."""
    where = str(tmp_path / "year.db")
    book = ut.Ledger(where, dataset="w25", model=CHAIN, limit=1.0)
    book.reserve("all", 0.01, Scope("g", [f"g{number}" for number in range(20_000)], 0, 7))
    service, done = Team(where), []
    question = {"by": "g", "groups": [f"g{number}" for number in range(1000)]}
    begun = threading.Barrier(41)

    def ask(_):
        begun.wait()
        done.append(service("reader", "POST", "/v1/datasets/w25/left", question).status_code)

    with ThreadPoolExecutor(40) as pool:
        asked = pool.map(ask, range(40))
        begun.wait()
        threading.Event().wait(0.2)  # they stand in line before the writer
        one = service("airflow", "PUT", WEEK, {"level": 0.001, "records": {"start": 7, "end": 8}})
        before = len(done)
        list(asked)
    assert one.status_code == 201
    assert before < 30
    assert {*done} == {200}


def test_a_client_has_so_many_requests_at_once():
    turns, most = Turns(answered=2, waiting=1), 0

    async def one(held):
        nonlocal most
        async with turns.taken("reader"):
            held.append(1)
            most = max(most, len(held))
            await anyio.sleep(0.03)
            held.pop()

    async def many():
        held: list[int] = []
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(one, held)
            await anyio.sleep(0.01)
            with pytest.raises(Exception, match="too many requests of this client"):
                await one(held)
            async with turns.taken("another"):
                pass
        await one(held)

    anyio.run(many)
    assert most == 2


def test_one_verification_runs_at_a_time(service, monkeypatch):
    inside, go_on = threading.Event(), threading.Event()
    real = Ledger.verify

    def slow(self, *holding):
        inside.set()
        go_on.wait(30)
        return real(self, *holding)

    monkeypatch.setattr(Ledger, "verify", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(service, "reader", "POST", "/v1/verify")
        inside.wait(30)
        second = service("reader", "POST", "/v1/verify")
        go_on.set()
        assert first.result().status_code == 200
    assert (second.status_code, second.json()["error"]) == (503, "LedgerUnavailable")
    assert service("reader", "POST", "/v1/verify").status_code == 200


@pytest.mark.parametrize(("origin", "audience"), [("hand", "public"), ("not public", "curator")])
def test_terms_say_who_may_see_them(tmp_path, origin, audience):
    """The budget of a fit to private records discloses something of them."""
    where = str(tmp_path / "year.db")
    for name in ("w25", "other"):
        ut.Ledger(where, dataset=name, model=CHAIN.with_origin(origin), limit=1.0)
    terms = Team(where)("reader", "GET", "/v1/datasets/w25").json()
    assert (terms["origin"], terms["audience"]) == (origin, audience)
