"""Who may talk to the studio: the browser that opened it, under its own address only."""

import pytest
from starlette.testclient import TestClient

from tests.studio.conftest import ORIGIN
from tests.studio.inline import Inline
from undertow_studio.app import create_app
from undertow_studio.guard import HEADERS
from undertow_studio.studio import Settings


@pytest.fixture
def fresh():
    """Return a client that has not opened the studio, and its settings."""
    settings = Settings(port=8000, body=2000, upload=5000)
    with TestClient(create_app(settings, Inline()), base_url=ORIGIN) as client:
        yield client, settings


def test_without_the_cookie_there_is_nothing_but_a_refusal(fresh):
    client, _ = fresh
    for path in ("/", "/draw/chain", "/jobs/x", "/w/x/release", "/new/example"):
        answer = client.get(path)
        assert answer.status_code == 403
        assert "open the address" in answer.text


def test_the_token_is_exchanged_once_for_a_cookie_that_pages_cannot_read(fresh):
    client, settings = fresh
    first = client.get("/", params={"token": settings.token}, follow_redirects=False)
    assert first.status_code == 303
    assert first.headers["location"] == "/"
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert settings.token not in cookie
    assert client.get("/").status_code == 200
    # the same browser may open the address again, another one may not
    assert client.get("/", params={"token": settings.token}).status_code == 200
    client.cookies.clear()
    again = client.get("/", params={"token": settings.token})
    assert again.status_code == 403
    assert "was opened already" in again.text


@pytest.mark.parametrize("token", ["", "x", "é", "a" * 5000])
def test_a_wrong_token_opens_nothing_and_does_not_spend_the_right_one(fresh, token):
    client, settings = fresh
    assert client.get("/", params={"token": token}).status_code == 403
    assert client.get("/", params={"token": settings.token}).status_code == 200


def test_two_tokens_are_no_token(fresh):
    client, settings = fresh
    assert client.get(f"/?token={settings.token}&token=x").status_code == 403


def test_the_token_and_the_cookie_are_in_no_printed_form(fresh):
    _, settings = fresh
    assert settings.token not in repr(settings)
    assert settings.cookie not in repr(settings)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:9000", "localhost.evil.example:8000", ""]
)
def test_a_foreign_host_is_refused_even_with_the_cookie(opened, host):
    client, _ = opened()
    assert client.get("/", headers={"Host": host}).status_code == 421


def test_localhost_is_this_machine_too(opened):
    client, _ = opened()
    own = {"Host": "localhost:8000", "Origin": "http://localhost:8000"}
    assert client.get("/", headers=own).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:8000", "http://127.0.0.1:8001"]
)
def test_a_foreign_origin_is_refused_even_with_the_cookie(opened, origin):
    client, _ = opened()
    assert client.get("/", headers={"Origin": origin}).status_code == 403
    sent = client.post("/new/example", data={"name": "family"}, headers={"Origin": origin})
    assert sent.status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_of_another_site_is_refused(opened, site):
    client, _ = opened()
    assert client.get("/", headers={"Sec-Fetch-Site": site}).status_code == 403


def test_a_form_must_say_where_it_comes_from(opened):
    client, _ = opened()
    del client.headers["Origin"]
    assert client.post("/new/example", data={"name": "family"}).status_code == 403
    own = {"Sec-Fetch-Site": "same-origin"}
    assert client.post("/new/example", data={"name": "family"}, headers=own).status_code == 200


def test_another_ports_cookies_are_no_matter(opened):
    client, studio = opened()
    mine = f"{studio.settings.cookie_name}={studio.settings.cookie}"
    others = 'session={"a": 1}; b@d=x; ' + mine
    client.cookies.clear()
    assert client.get("/", headers={"Cookie": others}).status_code == 200
    wrong = f"{studio.settings.cookie_name}=x"
    assert client.get("/", headers={"Cookie": wrong}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/nowhere", "/static/studio.css", "/w/x/release"])
def test_every_answer_forbids_what_a_page_does_not_need(opened, path):
    client, _ = opened()
    answer = client.get(path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert "access-control-allow-origin" not in answer.headers
    assert "unsafe" not in answer.headers["content-security-policy"]


def test_refusals_carry_the_same_headers(fresh):
    client, _ = fresh
    assert client.get("/").headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


def test_a_body_that_is_too_large_is_refused_by_its_length(fresh):
    client, settings = fresh
    client.get("/", params={"token": settings.token})
    own = {"Origin": ORIGIN}
    assert client.post("/draw/chain", content=b"x" * 2001, headers=own).status_code == 413
    table = {"table": ("a.csv", b"a,b\n" + b"1,2\n" * 2000)}
    assert client.post("/new/upload", files=table, headers=own).status_code == 413


def test_a_body_that_does_not_say_its_length_is_counted_while_it_arrives(fresh):
    client, settings = fresh
    client.get("/", params={"token": settings.token})
    sent = []

    def pieces():
        for _ in range(100):
            sent.append(1)
            yield b"name=" + b"x" * 100 + b"&"

    form = {"Origin": ORIGIN, "Content-Type": "application/x-www-form-urlencoded"}
    answer = client.post("/new/example", content=pieces(), headers=form)
    assert answer.status_code == 413
    assert "MiB" in answer.text


def test_the_studio_speaks_no_other_method(opened):
    client, _ = opened()
    assert client.put("/").status_code == 405
    assert client.options("/").status_code == 405


def test_no_page_of_the_framework_is_left(opened):
    client, _ = opened()
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert client.get(path).status_code == 404
