"""`undertow ledger serve` and its clients, as a person types them."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

import undertow as ut
from tests.cli.calls import call

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNDERTOW_STATE", str(tmp_path / "state"))
    ut.Ledger("year.db", dataset="w25", model=CHAIN, limit=1.0)
    return tmp_path / "year.db"


def test_clients_are_added_listed_and_removed(ledger):
    made = call("ledger", "client", "add", "c.json", "airflow", "--roles", "spend", "--json")
    token = json.loads(made.stdout)["token"]
    assert token not in (ledger.parent / "c.json").read_text()
    assert "airflow" in call("ledger", "client", "list", "c.json").stdout
    again = call("ledger", "client", "add", "c.json", "airflow", "--roles", "read")
    assert again.exit_code == 1
    assert "already" in again.stderr
    assert call("ledger", "client", "add", "c.json", "b", "--roles", "own").exit_code == 2
    assert call("ledger", "client", "remove", "c.json", "airflow").exit_code == 0
    gone = call("ledger", "client", "list", "c.json", "--json")
    assert json.loads(gone.stdout) == {"clients": []}


def test_a_service_is_refused_before_it_listens(ledger):
    call("ledger", "client", "add", "c.json", "airflow", "--roles", "spend")
    for options, code, words in (
        ((), 2, "--clients"),
        (("--clients", "none.json"), 1, "cannot read the file of clients"),
        (("--clients", "c.json", "--bind", "0.0.0.0"), 1, "--behind-proxy"),
        (("--clients", "c.json", "--behind-proxy", "Not A Host"), 1, "lower case"),
        (("--clients", "c.json", "--port", "70000"), 1, "0 to 65535"),
    ):
        found = call("ledger", "serve", "year.db", *options)
        assert (found.exit_code, words in found.stderr) == (code, True), found.stderr
    missing = call("ledger", "serve", "none.db", "--clients", "c.json")
    assert missing.exit_code == 1


def test_the_schema_is_printed(ledger):
    schema = json.loads(call("ledger", "serve", "year.db", "--openapi").stdout)
    assert "/v1/datasets/{dataset}/releases/{release_id}/confirm" in schema["paths"]


def test_a_real_service_is_asked_and_ends_with_an_interrupt(ledger):
    made = call("ledger", "client", "add", "c.json", "airflow", "--roles", "spend", "--json")
    token = json.loads(made.stdout)["token"]
    command = [sys.executable, "-c", "from undertow.cli import main; main()"]
    options = ["ledger", "serve", "year.db", "--clients", "c.json", "--port", "0"]
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stdout is not None
            said = "".join(running.stdout.readline() for _ in range(5))
            base = re.findall(r"http://127.0.0.1:\d+/v1", said)[0]
            body = json.dumps({"level": 0.2}).encode()
            asked = urllib.request.Request(
                f"{base}/datasets/w25/releases/week-1", body, method="PUT",
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )  # fmt: skip
            with urllib.request.urlopen(asked) as answer:
                assert (answer.status, json.load(answer)["result"]) == (201, None)
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(f"{base}/datasets")
        finally:
            running.send_signal(signal.SIGINT)
            _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (0, "")
    assert ut.Ledger("year.db", dataset="w25", create=False).level() == 0.2
