"""Code that ordinary attacks miss: records that weigh more, records and calls that share noise.

In every statistical test the null hypothesis is that the guarantee is kept.
"""

import numpy as np
import pytest

import undertow as ut
from tests.soak.audits import (
    distant,
    interacting,
    noise,
    repeating,
    returning,
    same_flips,
    weighing,
)
from undertow.auditing import scenarios
from undertow.auditing.auditor import audit, suspected_attacks
from undertow.auditing.blackbox import release_code
from undertow.auditing.scenarios import DrawnModel
from undertow.auditing.screening import Repeat, Suspects, screen
from undertow.certificate import Leakage
from undertow.models.gaussian import MultivariateGaussian

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=60)
LAZY = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], length=40)
SCALE = 3.9948  # of a count on the first chain that leaks 1 against any attacker (theory)
FLIPS = 0.34375  # of the second: leaks just below 4 against any attacker
RUNS = [2]


def claimed(mechanism, model, limit, against="any", secret=None):
    more = {} if secret is None else {"secret": secret}
    claim = Leakage(limit, limit, "as sold", against, **more)
    return ut.Plan(mechanism, model, limit, claim, "exact")


COUNT = claimed(ut.DiscreteLaplace(ut.Count(1), SCALE), CHAIN, 1.0)
SERIES = claimed(ut.RandomizedResponse.binary(FLIPS, FLIPS), LAZY, 4.0)


def counted(make):
    return COUNT, lambda seed: make(np.random.default_rng(seed), SCALE)


def flipped(make):
    return SERIES, lambda seed: make(np.random.default_rng(seed), FLIPS)


def last(draw, scale):
    return weighing(-1)(draw, scale)


def both(draw, scale):
    one, two = draw.choice(60, 2, replace=False)

    def run(series):
        extra = 10 * (series[:, one] & series[:, two]).astype(int)
        return series.sum(axis=1) + extra + noise(draw, len(series), scale)

    return run


def one_for_all(draw, scale):
    return lambda series: series.sum(axis=1) + noise(draw, 1, scale)


def two_calls(draw, scale):
    """The same noise for calls 2k and 2k + 1 of the function."""
    kept: list[np.ndarray] = []

    def run(series):
        if kept and len(kept[0]) >= len(series):
            found = kept.pop()[: len(series)]
        else:
            kept[:] = [noise(draw, len(series), scale)]
            found = kept[0]
        return series.sum(axis=1) + found

    return run


def seeded_by_data(draw, scale):
    own = int(draw.integers(2**31))

    def run(series):
        key = int(np.ascontiguousarray(series, dtype=np.uint8).astype(np.int64).sum()), len(series)
        seed = [own, *key, *np.ascontiguousarray(series[0]).astype(np.int64).tolist()]
        return series.sum(axis=1) + noise(np.random.default_rng(seed), len(series), scale)

    return run


def opposite(draw, scale):
    """Noise of the other sign in every second row."""

    def run(series):
        found = noise(draw, len(series) // 2 + 1, scale)
        return series.sum(axis=1) + np.stack([found, -found], axis=1).ravel()[: len(series)]

    return run


def in_clear(draw, rate):
    place = int(draw.integers(40))

    def run(series):
        shown = (series ^ (draw.random(series.shape) < rate)).astype(np.uint8)
        if place < series.shape[1]:
            shown[:, place] = series[:, place]
        return shown

    return run


def told_elsewhere(draw, rate):
    """The output of one record is another record."""

    def run(series):
        shown = (series ^ (draw.random(series.shape) < rate)).astype(np.uint8)
        if series.shape[1] == 40:
            shown[:, 30] = series[:, 5]
        return shown

    return run


def ends(draw, rate):
    def run(series):
        coins = draw.random(series.shape) < rate
        coins[:, -1] = coins[:, 0]
        return (series ^ coins).astype(np.uint8)

    return run


def flips_for_all(draw, rate):
    return lambda series: (series ^ (draw.random((1, series.shape[1])) < rate)).astype(np.uint8)


CODE = {
    "the first record ten times": counted(weighing(0)),
    "the last record ten times": counted(last),
    "some record ten times": counted(weighing(None)),
    "some record six times": counted(weighing(None, 6)),
    "two records that differ": counted(interacting),
    "two records that agree": counted(both),
    "one noise for all": counted(one_for_all),
    "one noise for two rows": counted(repeating(2)),
    "one noise for three rows": counted(repeating(3)),
    "one noise for two calls": counted(two_calls),
    "noise of two signs": counted(opposite),
    "noise that returns after 7": counted(returning(7)),
    "noise that returns after 300": counted(returning(300)),
    "noise seeded by the data": counted(seeded_by_data),
    "a coin for two, 6 apart": flipped(distant(6)),
    "a coin for two, 15 apart": flipped(distant(15)),
    "a coin for both ends": flipped(ends),
    "flips for all series": flipped(flips_for_all),
    "flips for two series": flipped(same_flips),
    "a record in clear": flipped(in_clear),
    "a record told elsewhere": flipped(told_elsewhere),
}


@pytest.mark.parametrize("audits", RUNS)
@pytest.mark.parametrize("name", CODE)
def test_it_is_caught(name, audits):
    """Seeded audits of 2,500 draws, a twentieth of the usual; all but one in twenty refute it."""
    plan, code = CODE[name]
    found = [audit(plan, 2500, seed=seed, mechanism=code(seed)) for seed in range(audits)]
    assert sum(one.refuted for one in found) >= audits - audits // 20


@pytest.mark.parametrize(
    ("plan", "most"),
    [
        (COUNT, 2),
        (SERIES, 2),
        (claimed(ut.XorNoise(0.25, 0.25), LAZY, 4.0), 2),
        (claimed(ut.Laplace(ut.Sum(0, 2), 4.0), MultivariateGaussian(0, np.eye(5)), 1.0), 2),
        (claimed(ut.DiscreteLaplace(ut.Histogram(), 8.0),
                 ut.MarkovChain(np.full((3, 3), 1 / 3), length=9), 1.0), 2),
    ],
    ids=["count", "series", "xor", "gaussian records", "histogram"],
)  # fmt: skip
def test_independent_noise_is_seldom_suspected(plan, most):
    """Null: nothing is shared. Twenty screenings, each kind of suspect at 1%: few name any."""
    drawn = scenarios.drawn_models(plan)[0]
    named = 0
    for seed in range(20):
        own, data = np.random.SeedSequence(seed).spawn(2)
        box = release_code(plan, drawn.model.states, own)
        found = screen(plan, drawn, box, 2000, np.random.default_rng(data))
        assert found.series >= 2000
        named += found.any
    assert named <= most


@pytest.mark.parametrize(
    ("name", "records", "pairs"),
    [("the first record ten times", (0,), ()), ("a coin for both ends", (), ((0, 39),)),
     ("a record told elsewhere", (30,), ((5, 30),))],
)  # fmt: skip
def test_a_screening_names_records(name, records, pairs):
    plan, code = CODE[name]
    drawn = scenarios.drawn_models(plan)[0]
    found = screen(plan, drawn, code(1), 3000, np.random.default_rng(1))
    assert found.records == records
    assert found.pairs[:1] == pairs
    assert not found.repeats


# --- what a suspect may be attacked with ----------------------------------------------------------

ALL = Suspects((3,), ((5, 9),), (Repeat(1, calls=False), Repeat(2, calls=True)))


@pytest.mark.parametrize("against", ["any", "ignorant", "informed"])
def test_attacks_on_suspects_respect_the_adversary(against):
    plan = claimed(ut.DiscreteLaplace(ut.Count(1), 4.0), CHAIN, 1.0, against)
    found = list(suspected_attacks(plan, DrawnModel(CHAIN, 60), ALL))
    assert {attack.target for attack, _ in found} == {3, 5, 9, 30}
    sizes = {len(attack.known) for attack, _ in found}
    assert sizes == {"any": {0, 59}, "ignorant": {0}, "informed": {59}}[against]


def test_attacks_on_suspects_respect_one_adversary_and_the_secrets():
    one = ut.Adversary(5, known=[3, 9])
    plan = claimed(ut.DiscreteLaplace(ut.Count(1), 4.0), CHAIN, 1.0, one)
    found = list(suspected_attacks(plan, DrawnModel(CHAIN, 60), ALL))
    assert {(a.target, tuple(record for record, _ in a.known)) for a, _ in found} == {(5, (3, 9))}
    secret = ut.Records([9])
    plan = claimed(ut.DiscreteLaplace(ut.Count(1), 4.0), CHAIN, 1.0, secret=secret)
    assert {a.target for a, _ in suspected_attacks(plan, DrawnModel(CHAIN, 60), ALL)} == {9}


def test_an_ignorant_attacker_learns_nothing_from_a_weight_within_the_guarantee():
    plan = claimed(ut.DiscreteLaplace(ut.Count(1), 40.0), CHAIN, 1.0, "ignorant")
    code = weighing(0)(np.random.default_rng(1), 40.0)
    assert not audit(plan, 5000, seed=1, mechanism=code).refuted


def test_an_audit_says_what_it_cannot_see():
    found = audit(COUNT, 1000, seed=1)
    assert all(words in str(found) for words in found.cannot_see)
    assert found.to_dict()["cannot_see"] == list(found.cannot_see)
