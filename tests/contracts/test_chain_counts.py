"""Noisy counts of chains: the exact method against enumeration."""

import math

import numpy as np
import pytest

import undertow as ut
from tests.contracts.chain_truths import (
    NAMED,
    against_of,
    closed,
    count_truth,
    encloses,
    evidence,
    slack,
    weights,
)
from tests.contracts.chains import FAMILIES, POSITIVE, adversary, example
from tests.grids import each, pairwise


@pairwise(
    ("family", ("k", "n", "states"), "scale"),
    FAMILIES, [(2, 6, (1,)), (3, 5, (0, 2)), (4, 4, (2,)), (4, 5, (0, 3))], [0.25, 1.0, 5.0],
)  # fmt: skip
def test_counts_are_enumerated(family, k, n, states, scale):
    chain = example(family, k, n, seed=40)
    model = chain.model()
    for who in (*NAMED, adversary(chain, 1), adversary(chain, 2)):
        leak = ut.leakage(ut.Laplace(ut.Count(states), scale=scale), model, against=against_of(who))
        encloses(leak, count_truth(chain, states, scale, who))
        closed(leak)


@each(
    ("family", "who"),
    ["negative", "wavering", "generic", "varying", "point-mass"],
    [
        pytest.param(who, id=str(who))
        for who in ((1, (3,)), (3, (1,)), (0, (2,)), (5, (4,)), (2, (1, 4)), (4, (2,)))
    ],
    few=10,
)
def test_unknown_records_beyond_the_known_ones_blur_a_count(family, who):
    """They say nothing about the target, yet they are counted: the output is less clear."""
    for k, n, seed in ((2, 6, 1), (2, 6, 2), (3, 6, 3)):
        chain = example(family, k, n, seed)
        for scale in (0.6, 7.0):
            noisy = ut.Laplace(ut.Count(0), scale=scale)
            leak = ut.leakage(noisy, chain.model(), against=against_of(who))
            encloses(leak, count_truth(chain, (0,), scale, who))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shift", [0])
def test_discrete_counts_are_enumerated(family, shift):
    chain = example(family, 3, 4, seed=50)
    for number, who in enumerate((*NAMED, adversary(chain, 3))):
        against = against_of(who)
        for scale in (0.5, 2.0)[(number + shift) % 2 :: 2]:
            discrete = ut.DiscreteLaplace(ut.Count((1,)), scale=scale)
            leak = ut.leakage(discrete, chain.model(), against=against)
            encloses(leak, count_truth(chain, (1,), scale, who))
            closed(leak)
            smooth = ut.leakage(
                ut.Laplace(ut.Count(1), scale=scale), chain.model(), against=against
            )
            assert smooth.lower == pytest.approx(leak.lower, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("states", [(0, 1, 2)], ids=str)
def test_counting_every_state_reveals_nothing(states):
    chain = example("generic", 3, 4)
    leak = ut.leakage(ut.Laplace(ut.Count(states), scale=0.5), chain.model())
    encloses(leak, 0.0)
    assert leak.upper <= 1e-9


def count_replay(chain, states, scale, witness):
    """The log-ratio at `output`, counted from the smallest answer that the known records allow."""
    counted = np.array(weights(chain.size, states))
    total = sum(np.ix_(*[counted] * chain.length), start=np.zeros(chain.joint.shape))
    answer = witness.output + sum(value in states for _, value in witness.known)
    density = np.exp(-np.abs(answer - total) / scale)
    top, bottom = (
        evidence(chain.joint, density, witness.known, witness.target, value)
        for value in (witness.value, witness.other)
    )
    return math.log(top / bottom)


@pytest.mark.parametrize("family", POSITIVE)
@pytest.mark.parametrize("who", [*NAMED, (3, (1,)), (0, (4,))], ids=str)
def test_count_witness_attains_the_lower_end(family, who):
    chain, states, scale = example(family, 3, 5, seed=60), (1, 2), 0.8
    noisy = ut.Laplace(ut.Count(states), scale=scale)
    leak = ut.leakage(noisy, chain.model(), against=against_of(who))
    witness = leak.witness
    assert witness is not None
    if who == "informed":
        assert [record for record, _ in witness.known] == [
            record for record in range(5) if record != witness.target
        ]
    found = count_replay(chain, states, scale, witness)
    assert found == pytest.approx(leak.lower, abs=1e-10)


@pytest.mark.parametrize(
    ("n", "seed", "who", "scale", "state"),
    [
        (6, 135944, "any", 3.346488883906484, 0),
        (6, 416775, "any", 0.204394270679855, 1),
        (6, 527363, "any", 0.06938975304135273, 0),
        (7, 602838, (2, (0, 3, 4, 5)), 0.4641667551359358, 1),
    ],
)
def test_count_witness_lists_every_record_that_must_be_known(n, seed, who, scale, state):
    """A known record beyond the nearest one tells nothing of the target, but it is counted."""
    chain = example("generic", 2, n, seed)
    noisy = ut.Laplace(ut.Count(state), scale=scale)
    leak = ut.leakage(noisy, chain.model(), against=against_of(who))
    assert leak.witness is not None
    found = count_replay(chain, (state,), scale, leak.witness)
    assert found == pytest.approx(leak.lower, rel=1e-10)


@each(("family", "k"), FAMILIES, [2, 3, 4])
def test_a_count_leaks_no_more_than_its_dp_level_allows(family, k):
    chain = example(family, k, 5, seed=70)
    for who in NAMED:
        count = ut.leakage(ut.Laplace(ut.Count(0), scale=0.7), chain.model(), against=who)
        every = ut.leakage(ut.PureDP(1 / 0.7), chain.model(), against=who)
        assert count.lower <= every.upper + slack(every.upper)
