"""What other users, file names, addresses and ends of the process could do to a studio."""

import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient

import undertow as ut
from tests.studio.browsing import chromium
from tests.studio.conftest import ORIGIN, found
from tests.studio.inline import Inline
from tests.studio.test_pages import asked, begun, table, upload, work_of
from tests.studio.test_release import CHAIN, READING
from undertow.ledger.store import without_password
from undertow_studio.app import create_app
from undertow_studio.studio import Settings, Studio
from undertow_studio.tables import Folder, file_argument, sweep

ROOT = Path(__file__).parents[2]
ADDRESS = r"(http://127\.0\.0\.1:\d+/\?token=\S+)"
PASSWORD = "correcthorse7319"


@pytest.fixture
def start(tmp_path):
    """Return how to start the command in a folder of its own; it is ended with the test."""
    started = []

    def begin(*options, browser=None, how=()):
        code = "from undertow.cli import main; main()"
        places = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        told = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": places}
        told |= {} if browser is None else {"BROWSER": str(browser)}
        options = (*options, *([] if browser else ["--no-browser"]))
        one = subprocess.Popen(
            [*how, sys.executable, "-c", code, "studio", *options], start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=told, cwd=tmp_path,
        )  # fmt: skip
        started.append(one)
        return one, found(ADDRESS, one.stdout.readline())

    yield begin
    for one in started:
        if one.poll() is None:
            os.killpg(one.pid, signal.SIGKILL)
        one.communicate()


def browser(tmp_path, more=""):
    """Return a browser that writes down its arguments and the rights of what it is given."""
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/part"\n'
                      f'mv "{tmp_path}/part" "{tmp_path}/arguments"\n{more}\n')  # fmt: skip
    script.chmod(0o700)
    return script


def waited(path):
    for _ in range(600):
        if path.exists():
            return path.read_text()
        time.sleep(0.05)
    raise AssertionError(f"{path.name} did not come")


def test_the_browser_is_given_a_private_file_and_not_the_token(start, tmp_path):
    _, address = start("--demo", browser=browser(tmp_path))
    token = address.partition("token=")[2]
    (told,) = waited(tmp_path / "arguments").splitlines()
    assert token not in told
    door = Path(told.removeprefix("file://"))
    assert stat.S_IMODE(door.stat().st_mode) == 0o600
    assert stat.S_IMODE(door.parent.stat().st_mode) == 0o700
    assert address in door.read_text()
    with httpx.Client(follow_redirects=True) as one:
        assert one.get(address).status_code in (200, 202)
    assert not door.exists()
    with httpx.Client(follow_redirects=True) as other:  # it stays good for one browser
        assert other.get(address).status_code == 403


def test_a_browser_of_the_terminal_keeps_nobody_waiting(start, tmp_path):
    _, address = start("--demo", browser=browser(tmp_path, "exec sleep 600"))
    waited(tmp_path / "arguments")
    with httpx.Client(follow_redirects=True, timeout=60) as one:
        assert one.get(address).status_code in (200, 202)


def test_a_real_browser_comes_in_through_the_file(start, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    place = chromium()
    _, address = start("--demo", browser=browser(tmp_path))
    told = waited(tmp_path / "arguments").strip()
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=place, args=["--no-sandbox"])
        page = opened.new_page()
        page.goto(told)
        page.wait_for_url(re.compile("/depends$"), timeout=120_000)
        assert page.url.startswith(address.partition("?")[0])
        assert not Path(told.removeprefix("file://")).exists()
        page.goto(address.partition("?")[0])
        assert "undertow" in page.content()
        opened.close()


FOREIGN = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate",
           "sec-fetch-dest": "document"}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "token"),
    [
        ({}, "wrong"),
        ({"sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}, None),
        ({"sec-fetch-dest": "iframe"}, None),
        ({"origin": "https://elsewhere.example"}, None),
        ({"host": "elsewhere.example"}, None),
    ],
)
def test_other_sites_do_not_come_in_that_way(more, token):
    settings = Settings(port=8000)
    with TestClient(create_app(settings, Inline()), base_url=ORIGIN) as client:
        asked_for = {"token": token or settings.token}
        refused = client.get("/", params=asked_for, headers=FOREIGN | more)
        assert refused.status_code in (403, 421)
        assert "set-cookie" not in refused.headers
        entered = client.get("/", params={"token": settings.token}, headers=FOREIGN)
        assert entered.status_code == 200
        assert 'url=/"' in entered.text
        assert settings.token not in entered.text
        assert client.get("/", headers=FOREIGN).status_code == 403  # with the cookie
        client.cookies.clear()
        late = client.get("/", params={"token": settings.token}, headers=FOREIGN)
        assert late.status_code == 403


# --- what is left behind --------------------------------------------------------------------------


def uploaded(address):
    """Upload a table, and return the folder it lies in."""
    with httpx.Client(follow_redirects=True, timeout=60) as one:
        one.get(address)
        origin = address.partition("/?")[0]
        given = {"table": ("week.csv", table().encode())}
        answer = one.post(f"{origin}/new/upload", files=given, headers={"Origin": origin})
        assert answer.status_code == 200


def kept(tmp_path):
    return sorted(tmp_path.glob("undertow-studio-*"))


@pytest.mark.parametrize("how", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_uploads_go_with_the_studio(start, tmp_path, how):
    before = signal.signal(how, signal.SIG_DFL)  # the tests themselves may run under nohup
    one, address = start()
    signal.signal(how, before)
    uploaded(address)
    (folder,) = kept(tmp_path)
    assert list(folder.glob("*.csv"))
    one.send_signal(how)
    one.communicate(timeout=60)
    assert not kept(tmp_path)


def test_a_studio_that_outlives_its_terminal_is_left_alone(start, tmp_path):
    one, address = start(how=("nohup",))
    one.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    uploaded(address)
    assert one.poll() is None


def test_uploads_of_a_killed_studio_are_swept_by_the_next(start, tmp_path):
    killed, address = start()
    uploaded(address)
    (left,) = kept(tmp_path)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert list(left.glob("*.csv"))
    _, second = start()
    assert not left.exists()
    (running,) = kept(tmp_path)
    uploaded(second)
    _, _ = start()  # a third one leaves the second alone
    assert list(running.glob("*.csv"))


def test_only_own_dead_folders_are_swept(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    alive, outside = Folder(), tmp_path / "precious"
    outside.mkdir()
    (outside / ".running").touch()
    (outside / "week.csv").write_text("x")
    (tmp_path / "undertow-studio-link").symlink_to(outside)
    bare = tmp_path / "undertow-studio-bare"  # without a lock: it is not ours
    bare.mkdir(mode=0o700)
    (bare / "week.csv").write_text("x")
    wide = tmp_path / "undertow-studio-wide"  # others can enter it
    wide.mkdir(mode=0o755)
    (wide / ".running").touch()
    (tmp_path / "undertow-studio-file").write_text("x")
    dead = tmp_path / "undertow-studio-dead"
    (dead / "deeper").mkdir(parents=True)
    dead.chmod(0o700)
    (dead / ".running").touch()
    (dead / "week.csv").write_text("x")
    (dead / "link").symlink_to(outside)
    assert sweep() == 1
    assert not dead.exists()
    assert (outside / "week.csv").exists()
    assert (bare / "week.csv").exists()
    assert wide.exists()
    assert alive.path.exists()
    alive.remove()
    assert not alive.path.exists()
    alive.remove()  # twice is once


# --- names ----------------------------------------------------------------------------------------

NAMES = ["-rf.csv", "--output=x.csv", "a b.csv", "it's.csv", 'say "x".csv', "a\nrm -rf ~.csv",
         "$(id).csv", "`id`.csv", "~.csv", "a;b&c|d.csv", "-", "#.csv"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_file_names_are_arguments_and_never_options(name):
    (read,) = shlex.split(file_argument(name))
    assert not read.startswith("-")
    assert Path(read) == Path(name)
    shown = subprocess.run(
        ["sh", "-c", f"printf %s {file_argument(name)}"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.removeprefix("./") == name


@pytest.mark.parametrize("name", ["-rf.csv", "a b's.csv", "a\nb.csv"])
def test_the_shown_command_reads_the_table(opened, tmp_path, name):
    path = tmp_path / name
    path.write_text(table())
    client, _ = opened(file=path)
    answer = client.post("/new/file")
    assert answer.status_code == 200, answer.text
    work = work_of(answer)
    reading = READING
    answer = client.post(f"/w/{work}/data", data=reading)
    assert answer.status_code == 200, answer.text
    answer = asked(client, work_of(answer), states="moving")
    assert answer.status_code == 200, answer.text
    work = work_of(answer)
    shell = client.get(f"/w/{work}/code.sh").text
    assert shell.startswith("undertow fit "), shell
    words = shlex.split(shell, comments=True)
    given = words[words.index("fit") + 1]
    assert Path(given) == Path(name)
    assert not given.startswith("-")
    assert words[words.index("release") + 1] == given


# --- the password of the database -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("year.db", "year.db"),
        ("postgresql://db/year", "postgresql://db/year"),
        (f"postgresql://ann:{PASSWORD}@db:5/year?sslmode=require",
         "postgresql://ann@db:5/year?sslmode=require"),
        (f"postgresql://ann:a/b?{PASSWORD}#@db/year", "postgresql://ann@db/year"),
        (f"postgresql://db/year?password={PASSWORD}&user=ann", "postgresql://db/year?user=ann"),
        (f"postgresql://db/year?PassWord={PASSWORD}", "postgresql://db/year"),
        (f"postgresql://db/year?sslpassword={PASSWORD}", "postgresql://db/year"),
        (f"postgresql://ann:{PASSWORD}@db:port/year", "postgresql://"),
        ("postgresql://ann:@db/year", "postgresql://ann@db/year"),
    ],
)  # fmt: skip
def test_addresses_are_shown_without_the_password(where, shown):
    found_ = without_password(where)
    assert PASSWORD not in found_
    assert found_ == shown


def visit(client, studio, work):
    """Return everything that the studio says about a piece of work, and on the way."""
    said = []
    for page in ("", "depends", "question", "costs", "attacker", "release", "statement",
                 "released", "code.sh", "code.py", "plan.json", "model.json", "report.html",
                 "report.json", "report.txt", "report.csv", "nowhere"):  # fmt: skip
        answer = client.get(f"/w/{work}/{page}")
        said += [answer.text, str(answer.headers), str(answer.url)]
    said += [job.reason for job in studio.jobs._jobs.values()] + [repr(studio.settings)]
    return [*said, client.get("/").text]


def test_no_page_shows_the_password_of_the_database(opened, tmp_path, monkeypatch):
    monkeypatch.setenv("UNDERTOW_STATE", str(tmp_path / "state"))
    place = tmp_path / "year.db"
    ut.Ledger(place, "w25", model=CHAIN, limit=3.0)
    where = f"sqlite://ann:{PASSWORD}@/{place}"  # as with PostgreSQL, and needs no server
    client, studio = opened(ledger=where, dataset="w25")
    work = work_of(upload(client, table()))
    said = [client.get(f"/w/{work}/read").text]
    fitted = client.post(f"/w/{work}/data", data=READING | {"model": "ledger"})
    work = work_of(asked(client, work_of(fitted), states="moving"))
    said += [client.post(f"/w/{work}/dry-run").text]
    done = client.post(f"/w/{work}/release", data={"meant": "yes"})
    assert done.url.path.endswith("/released")
    said += [done.text, *visit(client, studio, work)]
    assert any("PGPASSWORD" in text for text in said)
    assert any(f"--ledger sqlite://ann@/{place}" in text for text in said)
    assert not [text for text in said if PASSWORD in text]


def test_no_refusal_shows_the_password_of_the_database(opened, tmp_path, monkeypatch):
    monkeypatch.setenv("UNDERTOW_STATE", str(tmp_path / "state"))
    pytest.importorskip("psycopg", reason="the driver psycopg is not installed")
    where = f"postgresql://ann:{PASSWORD}@127.0.0.1:1/year?connect_timeout=2"
    client, studio = opened(ledger=where, dataset="w25")
    work = work_of(asked(client, begun(client), states="active"))
    chosen = studio.works.find(work)
    real = studio.works.change(chosen, source=type(chosen.source)(chosen.source.path, "week.csv"))
    said = [client.post("/new/ledger").text, client.post(f"/w/{real.id}/dry-run").text]
    said += visit(client, studio, real.id)
    assert any("cannot" in text or "reach" in text for text in said[:2])
    assert not [text for text in said if PASSWORD in text]


def test_settings_and_accounts_do_not_print_the_address():
    from undertow_studio.pages.release import AccountPlace

    assert PASSWORD not in repr(Settings(ledger=f"postgresql://a:{PASSWORD}@b/c"))
    assert PASSWORD not in repr(AccountPlace(f"postgresql://a:{PASSWORD}@b/c", "w25"))
    assert Studio.__doc__
