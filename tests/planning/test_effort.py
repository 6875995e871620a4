"""Work is counted: what a search can win is asked first, and where its effort ends it has proofs.

Nothing here depends on the clock: the work of every call is bounded in counted units, which are the
same on every machine.
"""

import json
import math
import warnings
from itertools import pairwise

import numpy as np
import pytest

import undertow as ut
from tests.cli.calls import call, strict
from undertow import progress
from undertow.errors import EffortSpent, EffortWarning, InvalidInput
from undertow.numerics import GAP
from undertow.planning.coverage import check_proof
from undertow.testing.enumeration import (
    additive_noise_likelihood,
    chain_joint,
    mechanism_leakage,
    pure_dp_leakage,
)

TURNS = [[0.1, 0.9], [0.8, 0.2]]
EFFORTS = (1e-6, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1)


def grid_walk(side, stay):
    """Return the walk on a square grid that stays, or moves to one of the neighbours."""
    rows = np.zeros((side, side, side, side))
    for place in np.ndindex(side, side):
        near = [(place[0] + a, place[1] + b) for a, b in ((0, 1), (1, 0), (0, -1), (-1, 0))]
        near = [each for each in near if all(0 <= at < side for at in each)]
        rows[place][place] = stay
        for each in near:
            rows[place][each] = (1 - stay) / len(near)
    return ut.MarkovChain(rows.reshape(side**2, side**2))


def sparse_walk(size, seed=0):
    """Return a chain whose states lead to six others each."""
    rng = np.random.default_rng(seed)
    rows = 0.1 * np.eye(size) + 0.1 * np.roll(np.eye(size), 1, axis=1)
    for row in rows:
        row[rng.choice(size, size=4, replace=False)] += 0.8 * rng.dirichlet(np.ones(4))
    return ut.MarkovChain(rows)


def random_chain(size, seed=0, **more):
    return ut.MarkovChain(np.random.default_rng(seed).dirichlet(np.ones(size), size=size), **more)


# --- intervals that hold whatever the effort ------------------------------------------------------


@pytest.mark.parametrize("against", ["any", "ignorant"])
@pytest.mark.parametrize("seed", range(6))
def test_every_effort_leaves_an_interval_around_the_enumerated_leakage(seed, against):
    size, length = 2 + seed % 2, 4 - seed % 2
    chain = random_chain(size, seed, length=length)
    joint = chain_joint(chain.initial, chain.transition, length)
    marks = np.eye(size)[1]
    questions: dict[ut.PureDP | ut.Laplace, float] = {
        ut.PureDP(0.7): pure_dp_leakage(joint, 0.7, against).leakage,
        ut.Laplace(ut.Count(1), 1.3): mechanism_leakage(
            joint, additive_noise_likelihood(marks, 1.3, length), against
        ).leakage,
    }
    for mechanism, truth in questions.items():
        unfinished = 0
        for effort in EFFORTS:
            leak = ut.leakage(mechanism, chain, against, effort=effort)
            assert leak.lower <= truth + 1e-9
            assert truth <= leak.upper + 1e-9
            assert leak.unfinished or leak.closed
            unfinished += leak.unfinished
        assert unfinished  # the least effort suffices for none
        assert ut.leakage(mechanism, chain, against).closed


@pytest.mark.parametrize("chain", [grid_walk(3, 0.9), random_chain(12, 3), sparse_walk(20)])
def test_intervals_of_many_states_hold_the_leakage_and_narrow_with_effort(chain):
    level = ut.PureDP(0.05)
    leaks = [ut.leakage(level, chain, effort=effort) for effort in (1e-3, 1e-2, 0.1, 1.0)]
    truth = ut.leakage(level, chain, effort=math.inf) if chain.size > 9 else leaks[-1]
    for less, more in pairwise(leaks):
        assert more.upper <= less.upper * (1 + 10 * GAP)
        assert more.lower >= less.lower * (1 - 10 * GAP)
    for leak in leaks:
        assert leak.lower <= truth.upper
        assert leak.upper >= truth.lower
        assert math.isfinite(leak.upper)
    assert leaks[0].unfinished
    assert any("effort" in note for note in leaks[0].assumptions)


# --- budgets and plans of many states -------------------------------------------------------------

MANY = {
    "3x3": lambda: grid_walk(3, 0.9),
    "4x4": lambda: grid_walk(4, 0.9),
    "50 random": lambda: random_chain(50),
    "50 sparse": lambda: sparse_walk(50),
    "200 random": lambda: random_chain(200),
    "200 sparse": lambda: sparse_walk(200),
}


@pytest.mark.parametrize("name", MANY)
def test_a_budget_of_many_states_is_proved_within_its_effort(name):
    chain, effort = MANY[name](), 0.02
    with pytest.warns(EffortWarning, match="effort=10"):
        level, work = work_of_budget(chain, effort)
    assert level > 0
    assert ut.leakage(ut.PureDP(level), chain, effort=effort).proves(1.0)
    # once more than all: what is kept is charged at once, and what bounds the rest costs little
    assert work <= 3 * effort * progress.EFFORT


def work_of_budget(chain, effort):
    """Return a budget, and the work that it took."""
    before = progress.spent()
    level = ut.dp_budget(chain, limit=1.0, effort=effort)
    return level, progress.spent() - before


def test_more_effort_never_proves_less_of_a_budget():
    chain = grid_walk(3, 0.8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EffortWarning)
        levels = [ut.dp_budget(chain, limit=1.0, effort=effort) for effort in (1e-3, 0.01, 0.1)]
    assert levels[0] <= levels[1] * (1 + 1e-3) <= levels[2] * (1 + 2e-3)


@pytest.mark.parametrize("guarantee", [ut.ApproximateDP(0.1, 1e-7), ut.PureDP(0.1)])
def test_a_guarantee_at_a_delta_keeps_what_was_proved_before_its_effort_ended(guarantee):
    chain = random_chain(13, 1)
    leaks = [
        ut.leakage(guarantee, chain, delta=1e-5, effort=effort) for effort in (1e-3, 0.01, 0.05)
    ]
    assert leaks[0].unfinished
    assert all(leak.upper < math.inf for leak in leaks)
    for less, more in pairwise(leaks):
        assert less.lower <= more.upper <= less.upper * (1 + 10 * GAP)
    if isinstance(guarantee, ut.PureDP):  # what is proved at delta 0 holds at every delta
        assert leaks[2].upper <= ut.leakage(guarantee, chain).upper * (1 + 1e-9)


@pytest.mark.parametrize("against", ["any", "ignorant", ut.Adversary(5, [1, 9])])
def test_flips_of_many_states_have_intervals_within_their_effort(against):
    size = 9
    chain = random_chain(size, 1, length=12)
    flips = ut.RandomizedResponse(0.3 * np.eye(size) + 0.7 / size)
    leaks = [ut.leakage(flips, chain, against, effort=effort) for effort in (1e-3, 1e-2, 1.0)]
    assert leaks[0].unfinished
    assert not leaks[2].unfinished
    for less, more in pairwise(leaks):
        assert less.lower <= more.upper
        assert more.lower <= less.upper < math.inf


def test_chains_of_order_two_have_intervals_within_their_effort():
    rows = np.random.default_rng(0).dirichlet(np.ones(4), (4, 4))
    chain = ut.MarkovChain.second_order(rows, length=6)
    leaks = [ut.leakage(ut.PureDP(0.1), chain, effort=effort) for effort in (1e-4, 0.02, 0.5)]
    assert leaks[0].unfinished
    assert len({leak.upper for leak in leaks}) == 1  # which needs no attack
    for less, more in pairwise(leaks):
        assert less.lower <= more.lower <= more.upper < math.inf


def test_a_plan_holds_wherever_it_is_proved_again():
    chain = random_chain(12, 3)
    for effort in (1e-3, 0.03, 1.0, math.inf):
        plan = ut.calibrate(ut.Count(1), chain, limit=1.0, effort=effort)
        check_proof.forget()
        assert check_proof(plan).proves(1.0)
        assert ut.Plan.from_json(plan.to_json()).leakage.proves(1.0)


def test_what_was_returned_with_the_effort_spent_is_not_kept():
    def ended(_number):
        try:
            progress.spend(0, 5)
        except EffortSpent:
            return "early"
        return "late"

    kept = progress.Metered(ended, most=4)
    for units, told in ((3.0, "early"), (30.0, "late"), (3.0, "early"), (5.5, "late")):
        with progress.allowing(units):
            assert kept(1) == told
    with progress.allowing(12.0):
        kept(1)
        kept(1)
        assert progress.left() == pytest.approx(2.0)
    with progress.allowing(10.0), progress.allowing(3.0):
        with pytest.raises(EffortSpent):
            progress.spend(0, 4)
        assert not progress.left()


@pytest.mark.parametrize("effort", [0, -1, math.nan, True, "quick"])
def test_an_effort_is_a_number_above_nought(effort):
    chain = ut.MarkovChain(TURNS)
    calls = (
        lambda: ut.leakage(ut.PureDP(1.0), chain, effort=effort),
        lambda: ut.dp_budget(chain, 1.0, effort=effort),
        lambda: ut.calibrate(ut.Count(1), chain, 1.0, effort=effort),
        lambda: ut.compare(ut.Count(1), chain, 1.0, effort=effort),
    )
    for one in calls:
        with pytest.raises(InvalidInput, match="effort must be above 0"):
            one()


# --- the command line -----------------------------------------------------------------------------


def test_the_command_takes_an_effort_and_says_where_it_ended():
    chain = json.dumps(random_chain(12, 3).transition.tolist())
    rows = ";".join(",".join(map(str, row)) for row in json.loads(chain))
    model = ("--transition", rows)
    leak = strict(call("leakage", *model, "--epsilon", 1, "--effort", 1e-4, "--json").stdout)
    assert leak["upper"] > leak["lower"]
    assert any("effort" in note for note in leak["assumptions"])
    budget = call("leakage", *model, "--limit", 1, "--effort", 1e-3)
    assert budget.exit_code == 0
    assert "--effort 10" in budget.stderr
    plan = call("plan", *model, "--count", 1, "--limit", 1, "--effort", 1e-3, "--json")
    assert any("effort" in note for note in strict(plan.stdout)["leakage"]["assumptions"])
    for command in ("plan", "compare"):
        wrong = call(command, *model, "--count", 1, "--limit", 1, "--effort", 0)
        assert wrong.exit_code == 2
        assert "--effort" in wrong.stderr
