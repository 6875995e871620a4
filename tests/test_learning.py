"""Private fits: paid for, repeated for nothing, and together with an answer below the limit."""

import itertools
import math
import shutil
from typing import Any

import numpy as np
import polars as pl
import pytest

import undertow as ut
from undertow.certificate import UNSURE
from undertow.errors import (
    BudgetExceeded,
    InvalidInput,
    InvalidModel,
    LedgerConflict,
    NotSupported,
)
from undertow.models import PrivateFit

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
NAMES = ("inactive", "active")
WIDE = ut.MarkovChain.box([[0.75, 0.08], [0.2, 0.5]], [[0.92, 0.25], [0.5, 0.8]], NAMES)
RECORDS = ut.MarkovChain(ACTIVITY, NAMES).simulate(10_000, seed=1)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A ledger of which nothing is spent: its budget takes a second, and is computed once."""
    path = tmp_path_factory.mktemp("ledger") / "w.db"
    ut.Ledger(path, "w25", model=WIDE, limit=1.0, memory=False)
    return path


@pytest.fixture
def ledger(fresh, tmp_path):
    return ut.Ledger(shutil.copy(fresh, tmp_path / "w.db"), "w25", memory=False)


def fit(ledger, records=RECORDS, private=0.06, **more):
    return ut.MarkovChain.fit(records, private=private, ledger=ledger, **more)


# --- the way through ------------------------------------------------------------------------------


def test_a_fit_is_paid_for_and_repeated_for_nothing(ledger):
    first = fit(ledger)
    assert isinstance(first, PrivateFit)
    assert first.private <= 0.06
    assert ledger.level() == pytest.approx(0.06)
    again = fit(ledger)
    assert (again.noisy == first.noisy).all()
    assert again == first
    assert ledger.level() == pytest.approx(0.06)
    other = fit(ledger, private=0.01, confidence=0.9)
    assert other.release_id != first.release_id
    assert ledger.level() == pytest.approx(0.07)
    assert first.release_id in {entry.release_id for entry in ledger.entries()}


def test_a_fit_is_a_chain_near_the_records(ledger):
    found = fit(ledger)
    exact = np.array(ut.Transitions().evaluate(RECORDS, NAMES)).reshape(2, 2)
    assert np.abs(found.noisy - exact).max() < 25 * found.scale
    assert (found.counts >= 0).all()
    assert found.counts.sum(axis=0) == pytest.approx(found.counts.sum(axis=1), abs=1e-6)
    assert len(found.simulate(50, seed=1)) == 50  # a synthetic series
    assert ut.MarkovChain.from_dict(found.to_dict()) == ut.MarkovChain(found.transition, NAMES)
    assert "0.06" in found.describe()


def test_a_narrowed_account_pays_for_fit_and_answer_together(ledger, tmp_path):
    before = ledger.budget
    found = fit(ledger)
    region = ledger.narrow(found.release_id)
    assert region == found.region() == ledger.model
    assert ledger.narrowed
    assert ledger.budget > before
    assert ut.leakage(ut.PureDP(ledger.budget), region).proves(1.0)
    plan = ledger.plan(ut.Count("active"))
    assert plan.noise.level_upper() + found.private <= ledger.budget
    out = ut.release(plan, RECORDS, ledger=ledger)
    assert ledger.leakage().proves(1.0)
    assert ledger.level() <= ledger.budget
    text = str(out.report())
    for part in ("private fit", "probability at most 0.05", "over the", "unsure which"):
        assert part in " ".join(text.split()), part
    with pytest.raises(BudgetExceeded):
        ut.release(ut.calibrate(ut.Count("active"), region, limit=0.9), RECORDS, ledger=ledger)
    assert ledger.verify() > 0
    assert (fit(ledger).noisy == found.noisy).all()  # repeated after the account was narrowed
    with pytest.raises(LedgerConflict, match="narrowed"):
        fit(ledger, private=0.01)
    with pytest.raises(LedgerConflict, match="narrowed by a fit before"):
        ledger.narrow(found.release_id)
    pairs = ut.calibrate(ut.Count("active"), ut.Groups(2), 0.1)
    with pytest.raises(LedgerConflict, match="another model"):
        ut.release(pairs, ut.Data(RECORDS, ungrouped=True), ledger=ledger)
    again = ut.Ledger(tmp_path / "w.db", "w25", memory=False)  # found as it was left
    assert (again.model, again.budget, again.stated()) == (region, ledger.budget, WIDE)
    again.set_limit(1.5)
    assert again.model == region
    assert again.budget > ledger.budget - 1e-12
    assert again.verify() > 5


def test_persons_need_no_region(tmp_path):
    box = ut.MarkovChain.box(WIDE.lower, WIDE.upper, NAMES, length=30)
    ledger = ut.Ledger(
        tmp_path / "p.db", "p", model=box, limit=1.0, secret=ut.Person(), memory=False
    )
    series = [ut.MarkovChain(ACTIVITY, NAMES).simulate(30, seed=s) for s in range(300)]
    found = fit(ledger, series, private=0.5)
    assert found.scale >= 58 / 0.5
    assert found.private <= 0.5
    assert ledger.level() == found.private
    with pytest.raises(LedgerConflict, match="account of persons"):
        ledger.narrow(found.release_id)
    assert ledger.plan(ut.Count("active")).unit == "person"


def test_tables_of_persons_and_times(ledger):
    frame = pl.DataFrame({
        "who": [p for p in range(100) for _ in range(100)],
        "t": list(range(100)) * 100,
        "v": RECORDS,
    })  # fmt: skip
    data = ut.Data(frame, value="v", person="who", time="t", every=1)
    found = fit(ledger, data)
    exact = data.answers(ut.Transitions(), NAMES).numbers[0]
    assert np.abs(found.noisy.ravel() - exact).max() < 25 * found.scale
    assert sum(exact) == 9900
    with pytest.raises(InvalidInput, match="all records together"):
        fit(ledger, ut.Data(frame.with_columns(g=1), value="v", time="t", person="who", by="g"))


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"ledger": None}, InvalidInput, "class of chains stated beforehand"),
        ({"private": 0.0}, InvalidInput, "private"),
        ({"private": -1}, InvalidInput, "private"),
        ({"confidence": 1.0}, InvalidInput, "between 0 and 1"),
        ({"public": True}, InvalidInput, "not both"),
        ({"states": ("active", "inactive")}, InvalidInput, "another order"),
        ({"private": 5.0}, BudgetExceeded, "fits"),
        ({"private": 0.0005}, NotSupported, "a level of about 0.0"),
        ({"sequences": ["active"]}, InvalidInput, "no record has a neighbour"),
        ({"sequences": []}, InvalidInput, "no records"),
        ({"sequences": [["active", "active"], "idle"]}, InvalidInput, "pass one kind"),
        ({"sequences": "active"}, InvalidInput, "a series of records is required"),
        ({"sequences": RECORDS[:50]}, NotSupported, "records"),
    ],
)
def test_what_cannot_be_fitted_spends_nothing(ledger, change, error, message):
    asked = {"sequences": RECORDS, "private": 0.06, "ledger": ledger, **change}
    with pytest.raises(error, match=message) as caught:
        ut.MarkovChain.fit(asked.pop("sequences"), **asked)
    assert "\n" not in str(caught.value)
    assert ledger.level() == 0.0


def test_a_ledger_without_a_private_level_is_refused(ledger):
    with pytest.raises(InvalidInput, match="private=LEVEL"):
        ut.MarkovChain.fit(RECORDS, ledger=ledger)  # type: ignore[call-overload]


def test_a_window_beyond_the_series_is_refused(ledger):
    frame = pl.DataFrame({"t": range(100), "v": RECORDS[:100]})
    data = ut.Data(frame, value="v", time="t", every=1).window(500, 600)
    with pytest.raises(InvalidInput, match="no record"):
        fit(ledger, data)


def test_a_class_with_states_that_last_for_ever_affords_no_fit(tmp_path):
    box = ut.MarkovChain.box(np.zeros((3, 3)), np.ones((3, 3)))
    with pytest.raises(NotSupported):
        ut.Ledger(tmp_path / "z.db", "z", model=box, limit=1.0, memory=False).plan(ut.Count(0))


def test_a_confidence_is_not_chosen_afterwards(ledger):
    found = fit(ledger)
    assert found.region(0.95) == found.region()
    with pytest.raises(InvalidInput, match="before the noise was drawn"):
        found.region(0.5)


def test_a_state_that_is_never_left_leaves_the_class_as_it_was():
    stuck = PrivateFit(
        [[9000, 700], [0, 0]], NAMES, level=0.06, scale=66.7, sample_size=10_000, within=WIDE
    )
    region = stuck.region()
    assert region.lower[1].tolist() == WIDE.lower[1].tolist()
    assert region.upper[1].tolist() == WIDE.upper[1].tolist()
    assert np.isfinite(stuck.transition).all()


def test_a_fit_outside_the_class_is_refused():
    wrong = PrivateFit(
        [[100, 5000], [4900, 50]], NAMES, level=1.0, scale=4.0, sample_size=10_000, within=WIDE
    )
    with pytest.raises(InvalidModel, match="exclude each other"):
        wrong.region()


def test_narrowing_asks_for_a_fit_that_tells_more(ledger, tmp_path):
    with pytest.raises(LedgerConflict, match="nothing was reserved"):
        ledger.narrow("nothing")
    ledger.reserve("count", 0.001)
    with pytest.raises(LedgerConflict, match="no private fit"):
        ledger.narrow("count")
    near = ut.MarkovChain.box(
        [[0.881, 0.117], [0.304, 0.694]], [[0.883, 0.119], [0.306, 0.696]], NAMES
    )
    other = ut.Ledger(tmp_path / "n.db", "n", model=near, limit=1.0, memory=False)
    found = fit(other, confidence=1 - 1e-6)  # cuts the near box with at most that probability
    with pytest.raises(LedgerConflict, match="stays as it is"):
        other.narrow(found.release_id)
    second = fit(other, private=0.02)
    with pytest.raises(LedgerConflict, match="only the first fit"):
        other.narrow(second.release_id)


def test_an_account_for_a_window_is_narrowed_for_that_window(tmp_path):
    hour = ut.Window(12)
    book = ut.Ledger(tmp_path / "h.db", "h", WIDE, 4.0, secret=hour, memory=False)
    region = book.narrow(fit(book, private=0.1).release_id)
    assert book.budget == ut.dp_budget(region, 4.0, secret=hour) < ut.dp_budget(region, 4.0)
    plan = book.plan(ut.Count("active"))
    assert plan.leakage.secret.window == 12
    ut.release(plan, RECORDS, ledger=book)
    assert book.leakage().secret.window == 12
    assert book.leakage().proves(4.0)
    assert book.verify()


def test_an_account_with_a_delta_is_not_narrowed(tmp_path):
    rare = ut.Ledger(tmp_path / "d.db", "d", model=WIDE, limit=1.0, delta=1e-6, memory=False)
    with pytest.raises(LedgerConflict, match="delta"):
        rare.narrow("any")


# --- what is said of sets -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        ut.ModelSet([ut.MarkovChain(ACTIVITY), ut.MarkovChain([[0.8, 0.2], [0.3, 0.7]])]),
        WIDE,
        ut.ModelSet([WIDE]),
        ut.MarkovChain.box(np.full((3, 3), 0.2), np.full((3, 3), 0.6)),
        ut.MarkovChain.mixing(2, 0.2, 0.5, length=50),
        ut.MultivariateGaussian.bounded(3, 0.2),
    ],
)
def test_sets_and_boxes_say_that_they_hold_for_each_member(model):
    leak = ut.leakage(ut.PureDP(0.1), model)
    assert leak.assumptions.count(UNSURE) == 1
    assert UNSURE not in ut.leakage(ut.PureDP(0.1), ut.MarkovChain(ACTIVITY)).assumptions


# --- fit and answer together, by enumeration ------------------------------------------------------


def joint_leakage(chain, fitted, spend, outputs):
    """The worst ln Pr[a, b | x_i, x_K] / Pr[a, b | x_i', x_K] over all outputs whose region has it.

    ``fitted`` is the level of the noisy table, ``spend(a)`` that of the count after the output a,
    None where the region of a has not the chain in it.
    """
    n = chain.length
    series = list(itertools.product((0, 1), repeat=n))
    law = np.array([
        chain.initial[s[0]] * math.prod(chain.transition[a, b] for a, b in itertools.pairwise(s))
        for s in series
    ])  # fmt: skip
    exact = np.array([ut.Transitions().evaluate(s, (0, 1)) for s in series])
    count = np.array([sum(s) for s in series])
    rows = []
    for a in outputs:
        level = spend(a)
        if level is None:
            continue
        first = np.exp(-np.abs(np.array(a) - exact).sum(axis=1) * fitted / 4)
        rows += [first * np.exp(-np.abs(b - count) * level) for b in range(-1, n + 2)]
    seen = np.array(rows)  # (outputs, series): likelihoods up to factors without x
    worst = 0.0
    for target in range(n):
        others = [t for t in range(n) if t != target]
        for size in range(n):
            for known in itertools.combinations(others, size):
                for values in itertools.product((0, 1), repeat=size):
                    fits = np.array([
                        all(s[t] == v for t, v in zip(known, values, strict=True)) for s in series
                    ])  # fmt: skip
                    two = []
                    for value in (0, 1):
                        mask = law * fits * np.array([s[target] == value for s in series])
                        two.append(seen @ mask / mask.sum())
                    worst = max(worst, float(np.abs(np.log(two[0] / two[1])).max()))
    return worst


def regions(a) -> Any:
    """Two regions, by what the noisy table says: a stand-in for the limits of a long series."""
    stays = a[0] + a[3] > a[1] + a[2]
    low, high = ((0.1, 0.3), (0.3, 0.5)) if stays else ((0.4, 0.6), (0.5, 0.7))
    return low, high


def box(low, high, length):
    lower = [[1 - low[1], low[0]], [high[0], 1 - high[1]]]
    upper = [[1 - low[0], low[1]], [high[1], 1 - high[0]]]
    return ut.MarkovChain.box(lower, upper, length=length)


@pytest.mark.parametrize(
    ("length", "limit"),
    [(3, 1.0), (3, 2.0), (4, 1.0)],
)
def test_fit_and_answer_together_stay_below_the_limit(length, limit):
    fitted = 0.25
    outputs = list(itertools.product(range(-1, length + 1), repeat=4))
    budgets = {
        ends: ut.dp_budget(box(ends[0], ends[1], length), limit)
        for ends in {regions(a) for a in outputs}
    }

    def spends(chain, share):
        q, r = chain.transition[0, 1], chain.transition[1, 0]

        def spend(a):
            low, high = ends = regions(a)
            inside = low[0] <= q <= low[1] and high[0] <= r <= high[1]
            return budgets[ends] - share * fitted if inside else None

        return spend

    found, careless = 0.0, 0.0
    for q, r in [(0.1, 0.3), (0.3, 0.5), (0.2, 0.4), (0.4, 0.5), (0.6, 0.7)]:
        chain = ut.MarkovChain([[1 - q, q], [r, 1 - r]], length=length)
        found = max(found, joint_leakage(chain, fitted, spends(chain, 1), outputs))
        careless = max(careless, joint_leakage(chain, fitted, spends(chain, 0), outputs))
    assert found <= limit
    assert found > 0.6 * limit
    assert careless > limit  # an answer that takes the whole budget, as if the fit were free
