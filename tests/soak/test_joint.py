"""Long runs of histories; `make soak` writes what they saw to soak/last-result.md.

UNDERTOW_SOAK_SECONDS (600 unless told): 0.3 to single releases, 0.5 to ledgers. A short rehearsal
runs with the ordinary tests.
"""

import os

import pytest

from tests.soak.joint import run_accounts, run_releases, table

RELEASES, ACCOUNTS = 20_000, 10_000


def seconds(share):
    return share * float(os.environ.get("UNDERTOW_SOAK_SECONDS", "600"))


@pytest.mark.soak
def test_releases_against_enumeration(lines):
    tally = run_releases(seconds(0.3), RELEASES)
    lines += ["## Single releases against enumeration", "", *table(tally)]
    assert tally.histories > 0
    assert not tally.failures


@pytest.mark.soak
def test_accounts_against_enumeration(lines, tmp_path):
    tally = run_accounts(seconds(0.5), ACCOUNTS, tmp_path)
    lines += ["## Ledgers against enumeration", "", *table(tally)]
    assert tally.histories > 0
    assert not tally.failures


# --- rehearsal ------------------------------------------------------------------------------------


def test_a_short_rehearsal_of_the_histories(tmp_path):
    for tally, histories in ((run_releases(3600, 12), 12), (run_accounts(3600, 4, tmp_path), 4)):
        assert not tally.failures
        assert tally.histories == histories
        assert table(tally)[2] == f"| histories | {histories} |"
    assert not list(tmp_path.iterdir())
