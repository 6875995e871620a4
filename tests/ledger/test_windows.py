"""An account for a window of records: its budget, what it refuses, and its joint leakage."""

import json
import sqlite3
from fractions import Fraction
from typing import Any

import polars as pl
import pytest

import undertow as ut
from tests.oracles.windows import noisy_counts, released_leak
from undertow.data.scopes import Scope
from undertow.errors import BudgetExceeded, InvalidInput, LedgerConflict, NotSupported
from undertow.ledger.rules import Terms
from undertow.testing.enumeration import chain_joint

ROWS = [[0.882, 0.118], [0.305, 0.695]]
CHAIN = ut.MarkovChain(ROWS, states=("inactive", "active"))
SHORT = ut.MarkovChain(ROWS, states=("inactive", "active"), length=4)
PAIR = ut.Window(2)


@pytest.fixture
def account(tmp_path):
    def open_one(model: Any = CHAIN, limit: Any = 1.0, name="a", **more: Any) -> ut.Ledger:
        return ut.Ledger(tmp_path / "year.db", name, model, limit, memory=False, **more)

    return open_one


def test_the_budget_is_that_of_the_window(account):
    book = account(secret=ut.Window(12))
    assert book.budget == ut.dp_budget(CHAIN, 1.0, secret=ut.Window(12))
    book.set_limit(2.0)
    assert book.budget == ut.dp_budget(CHAIN, 2.0, secret=ut.Window(12))
    assert book.secret == ut.Window(12)
    assert book.verify() == 2


def test_a_delta_goes_with_a_window(account):
    book = account(delta=1e-6, secret=PAIR)
    budget = ut.dp_budget(CHAIN, 1.0, delta=1e-6, secret=PAIR)
    assert book.budget == budget.epsilon
    book.reserve("noise", mu=budget.mu * 0.9)
    found = book.leakage()
    assert found.upper <= 1.0
    assert found.secret.window == 2


def test_all_releases_together_keep_the_limit(account):
    """Two counts of half a series and one of all of it, by enumeration of records and answers."""
    book = account(SHORT, 1.5, secret=PAIR)
    half = book.budget / 2
    for name, start, end in (("first", 0, 2), ("second", 2, 4), ("all", None, None)):
        book.reserve(name, half, Scope(start=start, end=end))
    joint = chain_joint(SHORT.initial, ROWS, 4)
    parts = [(range(2), 1 / half), (range(2, 4), 1 / half), (range(4), 1 / half)]
    likelihood = noisy_counts(2, 4, 1, parts)
    truth = {w: released_leak(joint, likelihood, w) for w in (1, 2, 3)}
    found = book.leakage()
    assert truth[1] < truth[2] <= found.upper <= 1.5
    assert truth[2] > 1.4  # what is spent is used, so that less noise would be found out
    assert truth[3] > 1.5  # a longer window is not covered
    louder = [(records, scale / 1.2) for records, scale in parts]
    assert released_leak(joint, noisy_counts(2, 4, 1, louder), 2) > 1.5
    with pytest.raises(BudgetExceeded):
        book.reserve("more", 1e-3, Scope(start=0, end=1))


def test_the_window_is_one_of_the_terms(account):
    account(secret=PAIR)
    assert account(None, None).secret == PAIR
    assert account(None, None, secret=PAIR).secret == PAIR
    with pytest.raises(LedgerConflict, match="a window of 2 as its secret"):
        account(None, None, secret=ut.Window(3))
    with pytest.raises(InvalidInput, match="the secret of a ledger must be"):
        account(None, None, secret=[3])
    with pytest.raises(InvalidInput, match="the secret of a ledger must be"):
        account(name="b", secret=ut.Records([3]))
    with pytest.raises(InvalidInput, match="the window has 9 records, but a series has 4"):
        account(SHORT, 1.0, name="b", secret=ut.Window(9))


def test_accounts_of_one_record_are_written_as_before(account, tmp_path):
    account()
    account(name="wide", secret=PAIR)
    with sqlite3.connect(tmp_path / "year.db") as file:
        bodies = [json.loads(row[0]) for row in file.execute("SELECT body FROM undertow_events")]
    assert "window" not in bodies[0]["terms"]
    assert bodies[1]["terms"]["window"] == 2
    assert Terms(**bodies[0]["terms"]).window == 1
    file.close()


def test_a_redaction_needs_an_account_for_one_record(account):
    book = account(secret=PAIR)
    with pytest.raises(LedgerConflict, match="known for one record"):
        book.reserve("erased", None, kind="redaction", leakage=0.5)


def test_a_plan_and_its_account_protect_the_same(account):
    rows = {"id": [1] * 8, "t": list(range(8)), "s": ["active", "inactive"] * 4}
    data = ut.Data(pl.DataFrame(rows), value="s", person="id", time="t", every=1)
    hour = ut.calibrate(ut.Count("active"), CHAIN, limit=1.0, secret=PAIR)
    single = ut.calibrate(ut.Count("active"), CHAIN, limit=0.1)
    book = account(secret=PAIR)
    with pytest.raises(LedgerConflict, match=r"protects one record, the ledger 2 records in a row"):
        ut.release(single, data, ledger=book)
    with pytest.raises(LedgerConflict, match=r"2 records in a row, the ledger one record"):
        ut.release(hour, data, ledger=account(name="b"))
    out = ut.release(hour, data, ledger=book)
    assert isinstance(out.value, int)
    assert Fraction(book.level()) <= Fraction(book.budget)
    report = out.report()
    assert "2 records in a row" in str(report)
    assert "someone who thought two histories of the window" in " ".join(str(report).split())
    assert '"records": 2' in report.to_json()
    flips = ut.calibrate(ut.Series(), CHAIN, limit=1.0)
    with pytest.raises(LedgerConflict, match="protects one record"):
        ut.sanitize(flips, data, ledger=book)


def test_gaussian_records_have_no_windows(account):
    pair = ut.MultivariateGaussian(0, [[1, 0.5], [0.5, 1]], spread=40)
    with pytest.raises(NotSupported, match="window is of records in a row"):
        account(pair, 1.0, secret=PAIR)
