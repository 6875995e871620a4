"""Keyed flips, erasures and noise chains have the planned probabilities, and no pattern.

Null hypothesis throughout: outputs are independent, with exactly the planned probabilities.
Chi-square at 1e-9, with expectations of at least 50 in every bin: the probability of a false alarm
is about 1e-9 for each test (see `tests.oracles.samples`), and keys are fresh in every run. Each
test is run on broken twins too, with 0.7 and 1.3 times the probability or with bytes that are
used twice, and must reject them.
"""

import numpy as np
import pytest

from tests.oracles.samples import chi_square
from undertow.mechanisms import RandomizedResponse, Redaction, XorNoise
from undertow.sampling.keyed import AddressedBytes, Key, addresses, randomised

SHAPE = 1e-9
TWINS = (0.7, 1.3)
GRAIN = 2.0**-53
PERSONS, LENGTH = 4_000, 100
LABELS = [str(n) for n in range(PERSONS)]


def grained(probability):
    """A probability as calibrate(...) rounds it."""
    return float(np.ceil(probability / GRAIN) * GRAIN)


def drawn(mechanism, records):
    """Outputs of 4,000 persons under a fresh key."""
    return randomised(mechanism, Key.fresh(), LABELS, [LENGTH] * PERSONS, records)


def pairs(before, after, states=2):
    return np.bincount(before.astype(int) * states + after, minlength=states**2)


@pytest.mark.parametrize(
    "matrix",
    [
        [[1 - grained(0.313112), grained(0.313112)], [grained(0.0217), 1 - grained(0.0217)]],
        (np.full((8, 8), grained(0.3 / 7)) + np.diag([1 - 8 * grained(0.3 / 7)] * 8)).tolist(),
    ],
    ids=["binary", "eight states"],
)
def test_flips_have_the_planned_probabilities(matrix):
    """400,000 records, all states alike."""
    law, states = np.array(matrix), len(matrix)
    records = np.arange(PERSONS * LENGTH, dtype=np.uint8) % states

    def p_value(used):
        made = drawn(RandomizedResponse(used), records)
        return chi_square(pairs(records, made.numbers, states), law.ravel() / states)

    assert p_value(law) > SHAPE
    for factor in TWINS:
        off = np.ceil(law * factor / GRAIN) * GRAIN
        np.fill_diagonal(off, 0.0)
        np.fill_diagonal(off, 1 - off.sum(axis=1))
        assert p_value(off) < SHAPE


def test_rare_flips_are_decided_by_the_further_bytes():
    """4 million records, probability 1e-3: expected 4,000 flips; 1e-9 is 6.1 standard deviations,
    386 of them, and the twins are 1,200 away.
    """
    rate = grained(1e-3)
    records = np.zeros(4_000_000, dtype=np.uint8)

    def p_value(rho):
        channel = RandomizedResponse.binary(rho, rho)
        made = randomised(channel, Key.fresh(), LABELS, [1000] * PERSONS, records)
        found = int(made.numbers.sum())
        return chi_square([found, records.size - found], [rate, 1 - rate])

    assert p_value(rate) > SHAPE
    assert all(p_value(grained(factor * rate)) < SHAPE for factor in TWINS)


def test_erasures_have_the_planned_probabilities():
    """4,000 persons with 25 times the same four places, each a series of its own length."""
    planned = np.array([[grained(0.119), 0.0], [grained(0.547), 0.75], [1, 1], [0, grained(0.03)]])
    records = np.tile(np.array([0, 1, 1, 1], dtype=np.uint8), 100_000)
    labels = [str(n) for n in range(100_000)]

    def p_values(used):
        made = randomised(Redaction(used), Key.fresh(), labels, [4] * 100_000, records)
        gone = made.erased.reshape(-1, 4).sum(axis=0)
        for place, state in ((0, 0), (1, 1), (3, 1)):
            law = [planned[place, state], 1 - planned[place, state]]
            yield chi_square([gone[place], 100_000 - gone[place]], law)
        assert gone[2] == 100_000

    assert min(p_values(planned)) > SHAPE
    for factor in TWINS:
        off = np.ceil(np.minimum(planned * factor, 0.99) / GRAIN) * GRAIN
        assert min(p_values(np.where(planned == 1, 1, off))) < SHAPE


def test_noise_chains_have_the_planned_steps_and_starts():
    """4,000 starts, 396,000 steps; of the twins the steps are off."""
    rho0, rho1 = grained(0.1), grained(0.3)
    planned, zeros = XorNoise(rho0, rho1), np.zeros(PERSONS * LENGTH, dtype=np.uint8)
    steps = np.array([[1 - rho0, rho0], [rho1, 1 - rho1]])

    def p_values(used):
        made = drawn(used, zeros).numbers.reshape(PERSONS, LENGTH)
        rate = planned.flip_rate
        yield chi_square(np.bincount(made[:, 0], minlength=2), [1 - rate, rate])
        before, after = made[:, :-1].ravel(), made[:, 1:].ravel()
        share = np.bincount(before, minlength=2) / before.size
        yield chi_square(pairs(before, after), (share[:, None] * steps).ravel())

    assert min(p_values(planned)) > SHAPE
    for factor in TWINS:
        assert list(p_values(XorNoise(grained(factor * rho0), rho1)))[1] < SHAPE
        off = 0.1 / (factor * planned.flip_rate) - 0.1  # starts with factor times the probability
        assert next(p_values(XorNoise(rho0, grained(off)))) < SHAPE


def test_flips_of_neighbours_and_of_persons_are_independent():
    """200,000 pairs each: in a series, at the same place of two persons, sixteen places apart.

    The broken twins use a byte twice in one of these ways.
    """
    coin = RandomizedResponse.binary(0.25, 0.25)
    made = drawn(coin, np.zeros(PERSONS * LENGTH, dtype=np.uint8)).numbers
    made = made.reshape(PERSONS, LENGTH)
    law = np.outer([0.75, 0.25], [0.75, 0.25]).ravel()

    def p_values(flips):
        even = flips[:, :96].reshape(PERSONS, -1, 2)
        yield chi_square(pairs(even[:, :, 0].ravel(), even[:, :, 1].ravel()), law)
        yield chi_square(pairs(flips[::2].ravel(), flips[1::2].ravel()), law)
        blocks = flips[:, :96].reshape(PERSONS, -1, 2, 16)  # the next block
        yield chi_square(pairs(blocks[:, :, 0].ravel(), blocks[:, :, 1].ravel()), law)

    assert min(p_values(made)) > SHAPE
    twins = [np.repeat(made[:, :50], 2, axis=1), np.repeat(made[:2000], 2, axis=0),
             np.repeat(made.reshape(PERSONS, -1)[:, :96].reshape(PERSONS, 3, 2, 16)[:, :, :1], 2, 2)
             .reshape(PERSONS, 96)]  # fmt: skip
    for place, twin in enumerate(twins):
        assert list(p_values(twin))[place] < SHAPE


def test_first_and_further_bytes_are_even_and_independent():
    """400,000 first bytes, as many further ones, and the high bits of both together."""
    key = Key.fresh()
    lengths, begins = np.full(PERSONS, LENGTH), np.zeros(PERSONS, dtype=np.int64)
    source = AddressedBytes(key, addresses(key, LABELS), lengths, None, begins)
    first = source.firsts(0, PERSONS * LENGTH)
    further = source.furthers(np.arange(PERSONS * LENGTH))
    for content in (first, further[:, 0], further[:, 6]):
        assert chi_square(np.bincount(content, minlength=256), np.full(256, 1 / 256)) > SHAPE
    assert chi_square(pairs(first >> 7, further[:, 0] >> 7), np.full(4, 0.25)) > SHAPE
    assert chi_square(pairs(first >> 7, first >> 7), np.full(4, 0.25)) < SHAPE  # a twin
