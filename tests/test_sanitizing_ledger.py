"""Randomised series in a ledger: reserved, recorded, never drawn twice."""

import hashlib
import math
from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest

import undertow as ut
from tests.series_plans import (
    ALTERNATING,
    CHAIN,
    CURATOR,
    ERASE,
    FLIPS,
    FOUR,
    MILD,
    SERIES,
    STATES,
    SURE,
    XOR,
    P,
    data_of,
    plan_for,
)
from undertow.errors import (
    BudgetExceeded,
    InvalidInput,
    InvalidPlan,
    LedgerConflict,
    NotSupported,
    UnknownState,
)
from undertow.mechanisms import RandomizedResponse, flips_epsilon_upper
from undertow.releasing import series as sanitizing
from undertow.releasing.series import fingerprint, sanitize

WHOLE = replace(
    plan_for(MILD.mechanism), leakage=replace(plan_for(MILD.mechanism).leakage, secret=ut.Person())
)


@pytest.fixture
def ledger(tmp_path):
    return ut.Ledger(tmp_path / "year.db", "w25", model=CHAIN, limit=5.0)


def test_flips_reserve_their_level_and_record_a_hash(ledger):
    made = sanitize(MILD, ALTERNATING, ledger=ledger, release_id="week 1")
    entry = ledger.entry("week 1")
    assert entry.status == "confirmed"
    assert np.log(5 / 3) <= entry.level < np.log(5 / 3) + 1e-12
    text = "".join(f'"{x}"\n' for x in made) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert entry.result == {"records": 40, "series": 1, "sha256": digest}
    assert fingerprint(made, MILD) == digest
    assert ledger.verify()


def test_a_second_draw_is_refused(ledger):
    for release_id in ("week 1", None):
        sanitize(MILD, ALTERNATING, ledger=ledger, release_id=release_id)
        with pytest.raises(LedgerConflict, match="use the outputs that were written"):
            sanitize(MILD, ALTERNATING, ledger=ledger, release_id=release_id)
    assert len(ledger.entries()) == 2


def test_an_interrupted_release_can_be_repeated(ledger, monkeypatch):
    """Killed between reservation and record: nothing was shown, so it is charged once."""

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sanitizing, "randomised", killed)
        with pytest.raises(KeyboardInterrupt):
            sanitize(MILD, ALTERNATING, ledger=ledger, release_id="week 1")
    assert ledger.entry("week 1").status == "reserved"
    level = ledger.level()
    sanitize(MILD, ALTERNATING, ledger=ledger, release_id="week 1")
    assert ledger.level() == level
    assert ledger.entry("week 1").status == "confirmed"


def test_of_two_racing_releases_one_is_shown(ledger, monkeypatch):
    """Another process confirms the same release after this one has reserved it."""
    real = ut.Ledger.reserve

    def raced(self, release_id, *args, **more):
        reserved = real(self, release_id, *args, **more)
        self.confirm(release_id, {"records": 40, "series": 1, "sha256": "another"})
        return reserved

    monkeypatch.setattr(ut.Ledger, "reserve", raced)
    with pytest.raises(LedgerConflict, match="second draw"):
        sanitize(MILD, ALTERNATING, ledger=ledger, release_id="week 1")


def test_nothing_is_reserved_for_what_is_refused(ledger):
    refusals = [
        (InvalidInput, lambda: sanitize(MILD, [], ledger=ledger)),
        (UnknownState, lambda: sanitize(MILD, ["?"], strict=True, ledger=ledger)),
        (InvalidInput, lambda: sanitize(MILD, SERIES, ledger=ledger, insecure_seed=1)),
        (NotSupported, lambda: sanitize(XOR, SERIES, ledger=ledger)),
        (NotSupported, lambda: sanitize(SURE, SERIES, ledger=ledger)),
        (LedgerConflict, lambda: sanitize(plan_for(MILD.mechanism, ut.MarkovChain(P)), [0, 1],
                                          ledger=ledger)),
        (InvalidPlan, lambda: sanitize(WHOLE, SERIES,
                                       ledger=ledger)),
        (BudgetExceeded, lambda: sanitize(plan_for(RandomizedResponse.binary(2.0**-20, 2.0**-20)),
                                          SERIES, ledger=ledger)),
    ]  # fmt: skip
    for error, call in refusals:
        with pytest.raises(error):
            call()
    assert ledger.entries() == []


def test_flips_hide_records_and_no_person(tmp_path):
    book = ut.Ledger(tmp_path / "p.db", "w25", model=CHAIN, limit=5.0, secret=ut.Person())
    with pytest.raises(InvalidPlan, match="not between any two histories of one person"):
        sanitize(WHOLE, SERIES, ledger=book)
    with pytest.raises(LedgerConflict, match=r"secret=Person\(\)"):
        sanitize(MILD, SERIES, ledger=book)
    assert book.entries() == []


def test_levels_are_never_rounded_down():
    """ln of an exact ratio, in 60 digits, lies at or below the level; and close to it."""
    with localcontext() as context:
        context.prec = 60
        for parts in (1, 3, 2**20 + 1, 2**51 - 1, 2**52 - 1):
            rho = parts * 2.0**-53
            exact = ((1 - Decimal(rho)) / Decimal(rho)).ln()
            level = Decimal(flips_epsilon_upper(RandomizedResponse.binary(rho, rho)))
            assert exact <= level <= exact + Decimal("1e-13")
    assert flips_epsilon_upper(RandomizedResponse([[0.5, 0.5, 0], [0.5, 0.25, 0.25]])) == math.inf
    assert flips_epsilon_upper(RandomizedResponse([[0.5, 0.5, 0], [0.25, 0.75, 0]])) < math.inf


def test_a_redaction_stands_alone(ledger):
    whole = ut.MarkovChain(P, STATES, length=4)
    plan = plan_for(ERASE.mechanism, whole)
    made = sanitize(plan, [SERIES, SERIES], ledger=ledger, release_id="once")
    entry = ledger.entry("once")
    assert (entry.kind, entry.level) == ("redaction", None)
    assert entry.leakage == plan.leakage.upper
    assert entry.result["sha256"] == fingerprint(made, plan)
    for call in (
        lambda: sanitize(plan, [SERIES], ledger=ledger, release_id="twice"),
        lambda: sanitize(MILD, SERIES, ledger=ledger),
        lambda: ut.release(CURATOR, SERIES, ledger=ledger),
    ):
        with pytest.raises(LedgerConflict, match="redaction"):
            call()
    with pytest.raises(LedgerConflict, match="second draw"):
        sanitize(plan, [SERIES, SERIES], ledger=ledger, release_id="once")


def test_a_redaction_must_cover_the_ledgers_adversary(ledger):
    weak = plan_for(ERASE.mechanism, FOUR, "ignorant")
    with pytest.raises(LedgerConflict, match="against='any'"):
        sanitize(weak, SERIES, ledger=ledger)


def test_a_redaction_is_charged_what_is_proved(tmp_path):
    """A plan that claims less than its erasures leak is refused, whatever its file says."""
    proved = ERASE.leakage.upper
    tight = ut.Ledger(tmp_path / "tight.db", "w25", model=CHAIN, limit=proved / 2)
    with pytest.raises(BudgetExceeded):
        sanitize(ERASE, SERIES, ledger=tight)
    forged = replace(ERASE, limit=0.1, leakage=replace(ERASE.leakage, lower=0.0, upper=0.1))
    for ledger in (tight, None):
        with pytest.raises(InvalidPlan, match="edited"):
            sanitize(forged, SERIES, ledger=ledger)


def test_a_redaction_may_use_the_whole_limit(tmp_path):
    limit = ERASE.leakage.upper
    book = ut.Ledger(tmp_path / "whole.db", "w25", model=CHAIN, limit=limit)
    assert sanitize(ERASE, SERIES, ledger=book)[2] is None


def test_releases_of_other_windows_are_accounted_apart(ledger):
    first = data_of().window("2025-01-06T00:00", "2025-01-06T02:00")
    second = data_of().window("2025-01-06T02:00", "2025-01-06T04:00")
    for window in (first, second):
        sanitize(MILD, window, ledger=ledger)
    assert len(ledger.entries()) == 2
    assert ledger.level() == ledger.entries()[0].level


def test_the_fingerprint_tells_outputs_apart():
    assert fingerprint([["idle"], ["idle"]], FLIPS) != fingerprint([["idle", "idle"]], FLIPS)
    assert fingerprint(["idle", None, None, None], ERASE) != (
        fingerprint(["idle", "idle", None, None], ERASE)
    )
    with pytest.raises(UnknownState, match="no output"):
        fingerprint(["?"], FLIPS)
    with pytest.raises(UnknownState, match="no output"):
        fingerprint([None], FLIPS)
    frame = sanitize(FLIPS, data_of())
    again = ut.Data(frame, value="steps", person="id", time="ts", every="1h")
    assert len(fingerprint(again, FLIPS)) == 64


def test_a_ledger_hears_of_a_draw_before_it_is_made(ledger, monkeypatch):
    """After that, a reservation cannot be given back: someone may have seen a draw."""
    heard = []
    monkeypatch.setattr(ut.Ledger, "begin", lambda _, name: heard.append(name), raising=False)

    def killed(*_):
        assert heard == ["week 1"]
        raise KeyboardInterrupt

    monkeypatch.setattr(sanitizing, "randomised", killed)
    with pytest.raises(UnknownState):
        sanitize(MILD, ["?"], strict=True, ledger=ledger, release_id="week 1")
    assert not heard
    with pytest.raises(KeyboardInterrupt):
        sanitize(MILD, ALTERNATING, ledger=ledger, release_id="week 1")
