"""A window of records as the secret: the exchange against the linear program, and its laws."""

from datetime import timedelta
from itertools import pairwise as neighbours
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.grids import each
from tests.oracles.windows import histories_leak, window_leak
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.errors import InvalidInput, NotSupported
from undertow.secrets import Records
from undertow.testing.enumeration import chain_joint

UNTYPED: Any = ut  # for what a type checker would refuse first

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
SLOW = ut.MarkovChain([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]])


def _chain(seed, size, length, varying=False, start=None):
    """Return a random chain with entries of at least .03, and its joint table."""
    draw = np.random.default_rng(seed)
    shape = (length - 1, size) if varying else (size,)
    rows = np.maximum(draw.dirichlet(np.ones(size), size=shape), 0.03)
    rows /= rows.sum(axis=-1, keepdims=True)
    first = draw.dirichlet(np.ones(size)) if start is None else np.array(start, dtype=float)
    model = ut.MarkovChain(rows, start=first, length=length)
    return model, chain_joint(first, rows, None if varying else length)


def _check_exact(model, joint, epsilon, window, against="any", **quick):
    truth = window_leak(joint, epsilon, window, against, **quick)
    found = exchange_leakage(epsilon, model, against, window)
    assert found.lower <= truth + 1e-9
    assert truth <= found.upper + 1e-9
    assert found.upper - found.lower < 1e-9
    assert truth == pytest.approx(found.upper, abs=1e-9)


CASES = [
    # size, length, window, varying
    (2, 3, 2, False),
    (2, 4, 2, True),
    (2, 4, 3, False),
    (2, 3, 3, False),
    (3, 3, 2, True),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("epsilon", [0.3, pytest.param(1.5, marks=pytest.mark.soak)])
def test_the_linear_program_against_any(case, epsilon):
    size, length, window, varying = case
    model, joint = _chain(sum(case), size, length, varying)
    _check_exact(model, joint, epsilon, window, all_apart=True)


def test_three_states_whose_sides_want_different_pairs():
    # one record's leakage plus epsilon is smaller (theory of memory, M7): one case of the program
    for seed in range(40):
        model, joint = _chain(seed, 3, 4)
        whole, single = (exchange_leakage(0.5, model, "ignorant", w).upper for w in (2, 1))
        if whole > single + 0.5 + 0.02:
            break
    else:
        pytest.fail("no chain whose sides want different pairs: the case is not tested")
    found = exchange_leakage(0.5, model, "ignorant", 2)
    witness: Any = found.witness
    one, two = witness.histories
    assert one != two
    truth = histories_leak(joint, 0.5, witness.target, {}, one, two)
    assert truth == pytest.approx(found.upper, abs=1e-9)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("window", [2, 3])
def test_the_linear_program_at_length(seed, window):
    for size, length in ((2, 5), (3, 4)):
        model, joint = _chain(seed, size, length, varying=bool(seed % 2))
        for against in ("any", "ignorant"):
            _check_exact(model, joint, 0.6, window, against, all_apart=size == 3)


ZEROS = [
    ([[0.5, 0.5, 0.0], [0.0, 0.4, 0.6], [0.7, 0.0, 0.3]], [0.2, 0.3, 0.5]),
    ([[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5]),
    ([[0.6, 0.4], [0.0, 1.0]], [1.0, 0.0]),
    ([[1.0, 0.0], [0.0, 1.0]], [0.3, 0.7]),
]


@each(
    ("case", "against"),
    [pytest.param(case, id=name) for case, name in zip(
        ZEROS, ["ring", "periodic", "absorbing", "reducible"], strict=True
    )],
    ["any", "ignorant", "informed"],
)  # fmt: skip
def test_impossible_transitions_leave_an_upper_end(case, against):
    rows, start = case
    joint = chain_joint(start, rows, 3)
    truth = window_leak(joint, 0.7, 2, against)
    found = exchange_leakage(0.7, ut.MarkovChain(rows, start=start, length=3), against, 2)
    assert found.lower - 1e-9 <= truth <= found.upper + 1e-9
    assert any("impossible" in said for said in found.assumptions)


def test_records_that_are_certain_leak_nothing():
    still = ut.MarkovChain([[0, 1], [1, 0]], start=[1, 0], length=5)
    assert exchange_leakage(1.0, still, window=3).upper == 0.0


def test_the_window_needs_no_room_in_a_long_chain():
    # two states: the sides of the worst window are those of the worst record
    one = ut.leakage(ut.PureDP(1.0), ACTIVITY)
    assert ut.leakage(ut.PureDP(1.0), ACTIVITY, secret=ut.Window(1)) == one
    for window in (2, 12, 288):
        found = ut.leakage(ut.PureDP(1.0), ACTIVITY, secret=ut.Window(window))
        assert found.upper == pytest.approx(one.upper + window - 1, rel=1e-11)
        assert found.valid_for == "any"
        assert found.secret.window == window


def test_reference_numbers():
    # three states, epsilon .5: the exchange at one record, two and three
    expected: Any = {"any": (3.2304077072, 3.7304077072), "ignorant": (3.2136939595, 3.7145965613)}
    for against, (single, double) in expected.items():
        assert exchange_leakage(0.5, SLOW, against).upper == pytest.approx(single, abs=1e-9)
        assert exchange_leakage(0.5, SLOW, against, 2).upper == pytest.approx(double, abs=1e-9)


@pytest.mark.parametrize("against", ["any", "ignorant", "informed"])
def test_longer_windows_leak_more_up_to_the_whole_series(against):
    model, _ = _chain(3, 3, 6)
    found = [exchange_leakage(0.4, model, against, w) for w in range(1, 7)]
    for shorter, longer in neighbours(found):
        assert shorter.lower <= longer.upper
        assert longer.upper >= shorter.upper - 1e-9
    assert found[-1].upper == pytest.approx(6 * 0.4, rel=1e-12)
    assert found[-1].lower == pytest.approx(6 * 0.4, rel=1e-9)


@each(("window", "against"), [2, 50, 88, 89, 90], ["any", "ignorant"])
def test_a_window_leaves_its_sides_the_rest_of_the_series(against, window):
    # the same chain, told once as one matrix and once as one for each step
    once = ut.MarkovChain(SLOW.transition, length=90)
    each = ut.MarkovChain(np.array([SLOW.transition] * 89), start=SLOW.initial)
    found, again = (exchange_leakage(0.5, chain, against, window) for chain in (once, each))
    assert found.upper == pytest.approx(again.upper, rel=1e-9)
    assert found.lower == pytest.approx(found.upper, rel=1e-9)
    witness: Any = found.witness
    places = [witness.last, *(place for place, _ in (*witness.known, *witness.sets))]
    assert max(places) < 90
    assert min(places) >= 0


def test_noise_goes_through_its_level():
    query = ut.Sum(0, 1, {"inactive": 0, "active": 1})
    noise = ut.Laplace(ut.Count("active"), scale=2.0)
    level = ut.leakage(ut.PureDP(noise.level_upper()), ACTIVITY, secret=ut.Window(4))
    found = ut.leakage(noise, ACTIVITY, secret=ut.Window(4))
    assert found.upper == level.upper
    assert found.upper - found.lower < 1e-9  # two states that follow themselves: a count attains it
    total = ut.leakage(ut.Laplace(query, scale=2.0), ACTIVITY, secret=ut.Window(4))
    assert (total.upper, total.lower, total.witness) == (level.upper, 0.0, None)
    flips = ut.RandomizedResponse.binary(0.3, 0.3)
    flipped = ut.leakage(flips, ACTIVITY, secret=ut.Window(4))
    assert flipped.upper >= ut.leakage(flips, ACTIVITY).upper


def test_a_delta_goes_through_the_closed_exchange():
    guarantee, window = ut.ApproximateDP(0.2, 1e-9), ut.Window(3)
    pure = ut.leakage(ut.PureDP(0.2), ACTIVITY, secret=window)
    delta = 1.01e-9 * (np.exp(pure.upper) - 1) / (np.exp(0.2) - 1)
    found = ut.leakage(guarantee, ACTIVITY, delta=float(delta), secret=window)
    assert found.method == "closed"
    assert found.upper == pytest.approx(pure.upper, rel=1e-6)
    assert found.secret.window == 3


def test_the_budget_is_the_inverse():
    for window in (1, 2, 12):
        level = ut.dp_budget(ACTIVITY, 1.0, secret=ut.Window(window))
        found = ut.leakage(ut.PureDP(level), ACTIVITY, secret=ut.Window(window))
        assert 1 - 1e-9 < found.upper <= 1.0
    assert ut.dp_budget(ACTIVITY, 1.0, secret=ut.Window(1)) == ut.dp_budget(ACTIVITY, 1.0)
    at_delta = ut.dp_budget(ACTIVITY, 1.0, delta=1e-6, secret=ut.Window(12))
    assert at_delta.epsilon == ut.dp_budget(ACTIVITY, 1.0, secret=ut.Window(12))
    assert 0 < at_delta.delta < 1e-6


def test_a_whole_person_covers_every_window():
    found = ut.leakage(ut.PureDP(1.0, unit="person"), ACTIVITY, secret=ut.Window(5))
    assert found.upper == 1.0


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: ut.Window(0), "the window must be at least 1, found 0"),
        (lambda: ut.Window(-3), "the window must be at least 1, found -3"),
        (lambda: UNTYPED.Window(2.5), "the window must be a whole number"),
        (lambda: ut.Window(True), "the window must be a whole number"),
        (lambda: ut.Window("1 hour"), "is a duration: say how far apart records are"),
        (lambda: ut.Window("1 hour", every="an hour"), "every must be a duration such as"),
        (lambda: ut.Window("soon", every="5m"), "the window must be a duration such as"),
        (lambda: ut.Window("0h", every="5m"), "the window must be a duration such as"),
        (lambda: ut.Window(3, every="5m"), "every belongs to a duration"),
        (
            lambda: ut.leakage(ut.PureDP(1), _chain(1, 2, 4)[0], secret=ut.Window(5)),
            "the window has 5 records, but a series has 4",
        ),
        (
            lambda: UNTYPED.leakage(ut.PureDP(1), ACTIVITY, secret=Records([3])),
            "secret must be a Window or a Person here, found Records",
        ),
        (
            lambda: ut.leakage(ut.PureDP(1), ACTIVITY, ut.Adversary(3, [4]), secret=ut.Window(2)),
            "the adversary knows record 4 of the window that it wants, records 3 to 4",
        ),
        (
            lambda: ut.leakage(
                ut.PureDP(1), _chain(1, 2, 4)[0], ut.Adversary(3), secret=ut.Window(2)
            ),
            "ends at record 4, but there are 4 records",
        ),
    ],
)
def test_bad_windows_are_refused_in_one_line(ask, said):
    with pytest.raises(InvalidInput, match=said) as refusal:
        ask()
    assert "\n" not in str(refusal.value)


def test_what_has_no_proof_is_refused():
    pair = ut.MultivariateGaussian(0, [[1, 0.5], [0.5, 1]])
    with pytest.raises(NotSupported, match="a window is of records in a row"):
        ut.leakage(ut.PureDP(1.0), pair, secret=ut.Window(2))
    with pytest.raises(NotSupported, match="XorNoise leaks about a window"):
        ut.leakage(ut.XorNoise(0.1, 0.1), ACTIVITY, secret=ut.Window(2))
    mixing = ut.MarkovChain.mixing(states=2, pi_min=0.2, gap=0.5, length=None)
    with pytest.raises(NotSupported, match="says nothing about a window"):
        ut.leakage(ut.PureDP(1.0), mixing, "ignorant", secret=ut.Window(2))


def test_durations_count_every_record_that_they_touch():
    assert ut.Window("1 hour", every="5m") == ut.Window(12)
    assert ut.Window("1h", every="7m") == ut.Window(9)
    assert ut.Window("1 day", every="1 hour") == ut.Window("24h", every="60 minutes")
    assert ut.Window("90s", every="1m") == ut.Window(2)
    assert ut.Window("1s", every="20ms") == ut.Window(50)
    assert ut.Window(timedelta(hours=1), every=timedelta(minutes=5)) == ut.Window(12)


def test_a_person_is_all_records_of_the_model():
    chain = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], length=30)
    leak = ut.leakage(ut.PureDP(0.05), chain, secret=ut.Person())
    assert (leak.secret, leak.method, leak.lower) == (ut.Person(), "person", 0.0)
    assert 1.5 <= leak.upper <= 1.5 * (1 + 1e-12)
    level = ut.dp_budget(chain, 1.5, secret=ut.Person())
    assert 0.05 * (1 - 1e-9) <= level <= 0.05
    whole = ut.leakage(ut.PureDP(0.5, unit="person"), chain, secret=ut.Person())
    assert (whole.lower, whole.upper) == (0.5, 0.5)
    plan = ut.calibrate(ut.Count(1), chain, 1.0, secret=ut.Person())
    assert ut.leakage(plan.mechanism, chain, secret=ut.Person()).upper == plan.leakage.upper
    assert (plan.unit, ut.Plan.from_json(plan.to_json()).leakage.secret) == ("person", ut.Person())
    with pytest.raises(NotSupported, match="give the chain a length"):
        ut.leakage(ut.PureDP(0.05), ACTIVITY, secret=ut.Person())
    with pytest.raises(NotSupported, match="at a delta is not bounded here"):
        ut.dp_budget(chain, 1.0, secret=ut.Person(), delta=1e-6)
