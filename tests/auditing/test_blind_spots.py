"""What scores alone overlook: even noise, coins that neighbours share."""

import numpy as np
import pytest

import undertow as ut
from undertow.auditing.auditor import audit
from undertow.auditing.statistical import choose_labels, try_event
from undertow.certificate import Leakage

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=60)
LAZY = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], length=40)
SCALE = 3.9948  # of a count on the activity chain that leaks 1 against any attacker (theory)
FLIPS = 0.34375  # of the lazy chain: leaks just below 4 against any attacker
SEEDS = [pytest.param(10, 4, id="10")]


def claimed(mechanism, model, epsilon):
    claim = Leakage(epsilon, epsilon, "as sold", "any")
    return ut.Plan(mechanism, model, epsilon, claim, "exact")


COUNT = claimed(ut.DiscreteLaplace(ut.Count(1), SCALE), ACTIVITY, 1.0)
SERIES = claimed(ut.RandomizedResponse.binary(FLIPS, FLIPS), LAZY, 4.0)


def multiples(step, seed, scale=SCALE):
    """Noise of the right size, on multiples of a step only."""
    draw = np.random.default_rng(seed)
    rate = -np.expm1(-step / scale)

    def run(series):
        one, two = draw.geometric(rate, (2, len(series)))
        return series.sum(axis=1, dtype=np.int64) + step * (one - two)

    return run


def shared(seed, apart=1):
    """Flips of the right rate, one coin for two records some steps apart."""
    draw = np.random.default_rng(seed)

    def run(series):
        places = np.arange(series.shape[1])
        coins = draw.random(series.shape) < FLIPS
        first = places - np.where(places // apart % 2, apart, 0)
        return (series ^ coins[:, first]).astype(np.uint8)

    return run


CODE = {
    "even noise": (COUNT, lambda seed: multiples(2, seed)),
    "multiples of three": (COUNT, lambda seed: multiples(3, seed)),
    "multiples of ten": (COUNT, lambda seed: multiples(10, seed)),
    "shared coins": (SERIES, shared),
    "coins shared two steps apart": (SERIES, lambda seed: shared(seed, 2)),
}


@pytest.mark.parametrize("audits", [3])
@pytest.mark.parametrize("name", CODE)
def test_blind_spots_are_seen(name, audits):
    """Null: the guarantee is kept. Seeded audits of 2,000 draws; all but one refute it."""
    plan, code = CODE[name]
    found = [audit(plan, 2000, seed=seed, mechanism=code(seed)) for seed in range(audits)]
    assert sum(one.refuted for one in found) >= audits - 1
    assert any("modulo" in one.event or "outputs of records" in one.event for one in found)


@pytest.mark.parametrize("plan", [COUNT, SERIES], ids=["count", "series"])
@pytest.mark.parametrize(("audits", "alarms"), SEEDS)
def test_kept_guarantees_are_spared(plan, audits, alarms):
    """Null: the guarantee is kept (see SCALE and FLIPS).

    Seeded audits of 1,000 draws at 95% confidence, a false alarm in 5% of them at most: more than
    4 of 10, and more than 20 of 200, have a probability below 2e-3.
    """
    assert sum(audit(plan, 1000, seed=seed).refuted for seed in range(audits)) <= alarms


@pytest.mark.parametrize(("audits", "alarms"), SEEDS)
def test_many_labels_without_difference_raise_no_alarms(audits, alarms):
    """Null: ln 2, reached by every second of 64 labels. 2,000 draws in each half, error 5%.

    More than 5 of 24, and more than 20 of 200, have a probability below 2e-3. The broken twin
    tests on the draws it chose from.
    """
    law = np.tile([2.0, 1.0], 32), np.tile([1.0, 2.0], 32)
    above, twin = 0, 0
    for seed in range(audits):
        draw = np.random.default_rng(seed)
        first, second = (
            [draw.choice(64, (1000, 1), p=p / p.sum()).astype(np.uint8) for p in law]
            for _ in range(2)
        )
        event = choose_labels(first[0], first[1], 0.05).event
        above += try_event(event, second[0], second[1], 0.05).lower > np.log(2)
        twin += try_event(event, first[0], first[1], 0.05).lower > np.log(2)
    assert above <= alarms < twin
