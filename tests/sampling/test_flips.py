"""Flips, erasures and noise chains: exact thresholds, published vectors, planned probabilities.

Statistical tests. Null hypothesis throughout: outputs are independent with exactly the planned
probabilities. Chi-square at 1e-9, with expectations of at least 50 in every bin, so a false alarm
has a probability of about 1e-9 (see `tests.oracles.samples`). Sample sizes are such that flips with
0.7 or 1.3 times the probability are rejected: each test is run on those twins too.
"""

import multiprocessing
import os
import pickle
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from tests.grids import law
from tests.oracles.samples import chi_square
from tests.sampling import port
from tests.sampling.given import given
from undertow.errors import InvalidInput, InvalidPlan
from undertow.mechanisms import RandomizedResponse, Redaction, XorNoise
from undertow.sampling import streams
from undertow.sampling.bits import Insecure, Secure
from undertow.sampling.flips import FULL, Start, Thresholds, erase, flip, noise, steps

VECTORS = port.load()
IDS = [vector["name"] for vector in VECTORS]
GRAIN = 2.0**-53
SHAPE = 1e-9
TWINS = (0.7, 1.3)
FAST = settings(deadline=None, derandomize=True, database=None, max_examples=60)


def grained(probability):
    """A probability as calibrate(...) rounds it."""
    return np.ceil(np.asarray(probability) / GRAIN) * GRAIN


def even_channel(states, rho):
    """k-ary randomised response on the grain."""
    other = float(grained(rho / (states - 1)))
    matrix = np.full((states, states), other)
    np.fill_diagonal(matrix, 1 - (states - 1) * other)
    return RandomizedResponse(matrix)


def codes(series):
    return np.array([x for records in series for x in records], dtype=np.uint8)


def split(outputs, series):
    ends = np.cumsum([len(records) for records in series])
    return [part.tolist() for part in np.split(outputs, ends[:-1])]


def left(draws: Any):
    """How many known bytes were not taken."""
    return draws.first.left, draws.further.left


def mechanism_of(vector):
    """The mechanism that has a vector's thresholds."""
    rows = [[int(text, 16) for text in row] for row in vector["thresholds"]]
    if vector["kind"] == "erasures":
        return Redaction([[one / FULL for one in row] for row in rows], vector["protect"])
    if vector["kind"] == "noise":
        return XorNoise(1 - rows[0][0] / FULL, rows[1][0] / FULL)
    return RandomizedResponse(
        [[(b - a) / FULL for a, b in zip([0, *row], [*row, FULL], strict=True)] for row in rows]
    )


def bulk(mechanism, series, draws):
    """The outputs of the code for many records."""
    records = codes(series)
    if isinstance(mechanism, Redaction):
        erased = erase(Thresholds.of_erasures(mechanism), records, mechanism.length, draws)
        shown = np.where(erased, None, records.astype(object))
        return split(shown, series)
    if isinstance(mechanism, XorNoise):
        return split(records ^ noise(mechanism, [len(s) for s in series], draws), series)
    return split(flip(Thresholds.of(mechanism), records, draws), series)


# --- published vectors ----------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=IDS)
def test_the_vectors_follow_from_their_description(vector):
    assert port.replay(vector) == (vector["outputs"], (0, 0))


@pytest.mark.parametrize("vector", VECTORS, ids=IDS)
def test_the_vectors_are_reproduced_in_bulk(vector):
    draws = given(*(bytes.fromhex(vector[name]) for name in ("first", "further")))
    assert bulk(mechanism_of(vector), vector["records"], draws) == vector["outputs"]
    assert left(draws) == (0, 0)


@pytest.mark.parametrize("vector", VECTORS, ids=IDS)
def test_the_vectors_are_reproduced_record_by_record(vector):
    draws = given(*(bytes.fromhex(vector[name]) for name in ("first", "further")))
    mechanism = mechanism_of(vector)
    if isinstance(mechanism, XorNoise) and len(vector["records"]) > 1:
        pytest.skip("a stream is one series; several draw their starts together")
    made = []
    for records in vector["records"]:
        device = steps(mechanism, draws)
        made.append([device(x) for x in records])
    assert made == vector["outputs"]
    assert left(draws) == (0, 0)


@pytest.mark.parametrize("vector", VECTORS, ids=IDS)
def test_thresholds_and_starts_follow_from_the_mechanism(vector):
    rows = [[int(text, 16) for text in row] for row in vector["thresholds"]]
    mechanism = mechanism_of(vector)
    if isinstance(mechanism, Redaction):
        flat = [one for row in Thresholds.of_erasures(mechanism).thresholds for one in row]
        assert flat == [threshold for row in rows for threshold in row]
        return
    of = Thresholds.of_noise if isinstance(mechanism, XorNoise) else Thresholds.of
    assert [list(row) for row in of(mechanism).thresholds] == rows
    if isinstance(mechanism, XorNoise):
        share = Start.of_noise(mechanism)
        found = {"flips": f"{share.flips:x}", "of": f"{share.of:x}"}
        assert found == vector["start"]


def test_the_vectors_meet_every_case():
    assert {vector["kind"] for vector in VECTORS} == {"flips", "erasures", "noise"}
    undecided = [vector for vector in VECTORS if vector["further"]]
    assert {vector["kind"] for vector in undecided} == {"flips", "erasures", "noise"}


# --- any thresholds, any bytes --------------------------------------------------------------------


THRESHOLD = st.integers(0, FULL) | st.integers(0, 256).map(lambda byte: byte << 56)


@st.composite
def tables(draw):
    rows, outputs = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    row = st.lists(THRESHOLD, min_size=outputs - 1, max_size=outputs - 1).map(sorted)
    return [draw(row) for _ in range(rows)]


def near(rows, draw):
    """A first byte, most often one in which some threshold lies."""
    bytes_of = [min(one >> 56, 255) for row in rows for one in row] or [0]
    return draw(st.sampled_from(bytes_of) | st.integers(0, 255))


@law(FAST, 20, data=st.data())
def test_bulk_agrees_with_the_port_for_any_thresholds(data):
    rows = data.draw(tables())
    records = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=30))
    first = bytes(near(rows, data.draw) for _ in records)
    further = data.draw(st.binary(min_size=7 * len(records), max_size=7 * len(records)))
    vector = {"kind": "flips", "thresholds": [[f"{one:x}" for one in row] for row in rows],
              "first": first.hex(), "further": further.hex(), "records": [records]}  # fmt: skip
    outputs, rest = port.replay(vector)
    draws = given(first, further)
    assert flip(Thresholds(rows), np.array(records, dtype=np.uint8), draws).tolist() == outputs[0]
    assert left(draws) == rest


@law(FAST, 20, data=st.data())
def test_noise_agrees_with_the_port_for_any_probabilities(data):
    probability = st.integers(0, 2**53).map(lambda parts: parts * GRAIN)
    rho0, rho1 = data.draw(probability), data.draw(probability)
    if not rho0 + rho1:
        return
    mechanism = XorNoise(rho0, rho1)
    lengths = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    rows, share = Thresholds.of_noise(mechanism).thresholds, Start.of_noise(mechanism)
    first = bytes(near(rows, data.draw) for _ in range(sum(lengths)))
    further = data.draw(st.binary(min_size=300, max_size=300))
    vector = {"kind": "noise", "thresholds": [[f"{one:x}" for one in row] for row in rows],
              "start": {"flips": f"{share.flips:x}", "of": f"{share.of:x}"},
              "first": first.hex(), "further": further.hex(),
              "records": [[0] * length for length in lengths]}  # fmt: skip
    outputs, rest = port.replay(vector)
    draws = given(first, further)
    made = noise(mechanism, lengths, draws)
    assert split(made, vector["records"]) == outputs
    assert left(draws) == rest


@law(FAST, 20, data=st.data())
def test_erasures_agree_with_the_port_for_any_probabilities(data):
    length, persons = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    rows = [[data.draw(THRESHOLD), data.draw(THRESHOLD)] for _ in range(length)]
    series = [[data.draw(st.integers(0, 1)) for _ in range(length)] for _ in range(persons)]
    first = bytes(near(rows, data.draw) for _ in range(length * persons))
    further = data.draw(st.binary(min_size=7 * len(first), max_size=7 * len(first)))
    vector = {"kind": "erasures", "thresholds": [[f"{one:x}" for one in row] for row in rows],
              "protect": [], "first": first.hex(), "further": further.hex(),
              "records": series}  # fmt: skip
    outputs, rest = port.replay(vector)
    table = Thresholds([one] for row in rows for one in row)
    draws = given(first, further)
    erased = erase(table, codes(series), length, draws)
    assert split(erased, series) == [[x is None for x in records] for records in outputs]
    assert left(draws) == rest


@law(FAST, 20, rows=tables(), number=st.integers(0, FULL - 1))
def test_an_output_has_the_numbers_between_its_thresholds(rows, number):
    content = number.to_bytes(8, "big")
    for row, thresholds in enumerate(rows):
        draws = given(content[:1], content[1:])
        (found,) = flip(Thresholds(rows), np.array([row], dtype=np.uint8), draws).tolist()
        assert found == sum(one <= number for one in thresholds)


def test_large_channels():
    """More states and outputs than a byte can number."""
    table = Thresholds.of(RandomizedResponse(np.eye(300)))
    records = np.arange(300, dtype=np.uint16)
    assert flip(table, records, streams.draws()).tolist() == records.tolist()
    shifted = Thresholds.of(RandomizedResponse(np.roll(np.eye(256), 1, axis=1)))
    records = np.arange(256, dtype=np.uint8)
    assert flip(shifted, records, streams.draws()).tolist() == [*range(1, 256), 0]


def test_a_single_output_is_always_shown():
    table = Thresholds.of(RandomizedResponse([[1.0], [1.0]]))
    assert flip(table, np.array([0, 1, 1], dtype=np.uint8), streams.draws()).tolist() == [0, 0, 0]


@pytest.mark.parametrize("matrix", [[[0.9, 0.1], [0.5, 0.5]], [[1 - 1e-30, 1e-30], [0.5, 0.5]]])
def test_probabilities_without_bits_are_refused(matrix):
    with pytest.raises(InvalidPlan, match=r"2\^-53"):
        Thresholds.of(RandomizedResponse(matrix))


@pytest.mark.parametrize("rows", [[[5, 3]], [[1], [1, 2]], [[-1]], [[FULL + 1]], []])
def test_bad_thresholds_are_refused(rows):
    with pytest.raises(InvalidPlan):
        Thresholds(rows)


# --- where bytes come from ------------------------------------------------------------------------


def test_secure_streams_never_repeat():
    taken = {streams.draws(Secure()).first.take(16).tobytes() for _ in range(50)}
    both = streams.draws()
    assert len(taken) == 50
    assert both.first.take(16).tobytes() != both.further.take(16).tobytes()


def _child(source, queue):
    queue.put(source.take(16).tobytes())


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_does_not_repeat_its_parent():
    """A stream that was begun before the fork, in the parent and two children: three streams."""
    context = multiprocessing.get_context("fork")
    source, queue = streams.draws().first, context.SimpleQueue()
    source.take(5)
    children = [context.Process(target=_child, args=(source, queue)) for _ in range(2)]
    for child in children:
        child.start()
    seen = {queue.get() for _ in children} | {source.take(16).tobytes()}
    for child in children:
        child.join()
    assert len(seen) == 3


@pytest.mark.parametrize("size", [16, 2**14])
def test_a_copied_stream_of_secure_bytes_repeats_nothing(size):
    """Whether begun or not, few bytes or many: there is no key that a copy could share."""
    source = streams.draws().first
    source.take(size)
    copies = [pickle.loads(pickle.dumps(source)) for _ in range(3)]
    assert len({one.take(size).tobytes() for one in (source, *copies)}) == 4


@pytest.mark.parametrize("size", [16, 2**14])
def test_every_piece_takes_new_bits_of_the_operating_system(monkeypatch, size):
    """Its own bytes where they are few, else a key and a counter: 48 of them."""
    real, asked = os.urandom, []

    def counted(count):
        asked.append(count)
        return real(count)

    source = streams.draws().first
    monkeypatch.setattr(os, "urandom", counted)
    source.take(size)
    source.take(size)
    assert asked == ([size] if size < 2**12 else [32, 16]) * 2


def test_without_the_cipher_bytes_come_from_the_operating_system(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    source = streams.draws().first
    assert type(source) is type(streams.single_draws().first)
    assert source.take(9).size == 9


@pytest.mark.parametrize("sizes", [(1,) * 40, (3, 17, 20), (40,)])
def test_seeded_bytes_do_not_depend_on_how_they_are_taken(sizes):
    source = streams.draws(Insecure(7)).first
    assert np.concatenate([source.take(size) for size in sizes]).tolist() == (
        streams.draws(Insecure(7)).first.take(40).tolist()
    )


def test_seeded_bytes_stay_the_same():
    """Raw words of PCG64, which NumPy guarantees not to change."""
    both = streams.draws(Insecure(1))
    assert both.first.take(4).tobytes().hex() == "3e4fef03"
    assert both.further.take(4).tobytes().hex() == "fa16f2f0"


def test_randomness_has_two_kinds():
    wrong: Any = 7
    for made in (streams.draws, streams.single_draws):
        with pytest.raises(InvalidInput, match="Secure"):
            made(wrong)


# --- planned probabilities ------------------------------------------------------------------------


def law_of_flips(matrix, records):
    """How often each (state, output) is expected, as shares."""
    counts = np.bincount(records, minlength=len(matrix)) / records.size
    return (counts[:, None] * matrix).ravel()


def pairs_seen(records, outputs, width):
    return np.bincount(records.astype(int) * width + outputs, minlength=width * width)


SOURCES = [Secure(), Insecure(2024)]


@pytest.mark.parametrize("source", SOURCES, ids=["secure", "seeded"])
@pytest.mark.parametrize(
    "channel",
    [
        RandomizedResponse.binary(grained(0.313112), grained(0.0217)),
        RandomizedResponse.binary(0.25, 0.5),
        even_channel(8, 0.3),
        even_channel(3, 0.59969543),
    ],
    ids=["binary", "between bytes", "eight states", "three states"],
)
def test_flips_have_the_planned_probabilities(channel, source):
    """400,000 records, half of them in each half of the states."""
    matrix = channel.matrix
    states = len(matrix)
    records = np.arange(400_000, dtype=np.uint8) % states

    def p_value(used):
        outputs = flip(Thresholds.of(used), records, streams.draws(source))
        seen = pairs_seen(records, outputs, states)
        return chi_square(seen, law_of_flips(matrix, records))

    assert p_value(channel) > SHAPE
    for factor in TWINS:
        off = grained(matrix * factor)
        np.fill_diagonal(off, 0.0)
        np.fill_diagonal(off, 1 - off.sum(axis=1))
        assert p_value(RandomizedResponse(off)) < SHAPE


def test_rare_flips_have_the_planned_probability():
    """Flips of probability 1e-4, all of them decided by further bytes. 20 million records.

    Expected 2,000 flips; 1e-9 is six standard deviations, 273; the twins are 600 away.
    """
    rate = float(grained(1e-4))
    records = np.zeros(20_000_000, dtype=np.uint8)

    def p_value(rho):
        table = Thresholds.of(RandomizedResponse.binary(rho, rho))
        found = int(flip(table, records, streams.draws(Insecure(5))).sum())
        return chi_square([found, records.size - found], [rate, 1 - rate])

    assert p_value(rate) > SHAPE
    assert all(p_value(float(grained(factor * rate))) < SHAPE for factor in TWINS)


@pytest.mark.parametrize("source", SOURCES, ids=["secure", "seeded"])
def test_erasures_have_the_planned_probabilities(source):
    """100,000 series of four records in all combinations of states."""
    probabilities = grained([[0.119232586, 0.0], [0.546926, 0.75], [1.0, 1.0], [0.0, 0.031]])
    rng = np.random.default_rng(3)
    records = rng.integers(0, 2, (100_000, 4)).astype(np.uint8)

    def p_values(used):
        table = Thresholds.of_erasures(Redaction(used))
        erased = erase(table, records.ravel(), 4, streams.draws(source)).reshape(-1, 4)
        assert erased[:, 2].all()
        for place, state in np.argwhere(probabilities < 1).tolist():
            gone = erased[records[:, place] == state, place]
            law = [probabilities[place, state], 1 - probabilities[place, state]]
            yield chi_square([gone.sum(), (~gone).sum()], law)

    assert min(p_values(probabilities)) > SHAPE
    for factor in TWINS:
        assert (
            min(p_values(np.where(probabilities == 1, 1, grained(factor * probabilities)))) < SHAPE
        )


@pytest.mark.parametrize("source", SOURCES, ids=["secure", "seeded"])
@pytest.mark.parametrize("probabilities", [(0.1, 0.3), (0.45, 0.8)])
def test_noise_chains_have_the_planned_steps_and_starts(source, probabilities):
    """20,000 series of ten records: starts, and 180,000 steps."""
    rho0, rho1 = (float(grained(probability)) for probability in probabilities)
    planned = XorNoise(rho0, rho1)
    steps_of = np.array([[1 - rho0, rho0], [rho1, 1 - rho1]])

    def p_values(used):
        made = noise(used, [10] * 20_000, streams.draws(source)).reshape(-1, 10)
        rate = planned.flip_rate
        yield chi_square(np.bincount(made[:, 0], minlength=2), [1 - rate, rate])
        before, after = made[:, :-1].ravel(), made[:, 1:].ravel()
        yield chi_square(pairs_seen(before, after, 2), law_of_flips(steps_of, before))

    assert min(p_values(planned)) > SHAPE
    for factor in TWINS:
        assert list(p_values(XorNoise(float(grained(factor * rho0)), rho1)))[1] < SHAPE
        back = 0.1 / (factor * planned.flip_rate) - 0.1  # starts with factor times the probability
        start, _ = p_values(XorNoise(float(grained(0.1)), float(grained(back))))
        assert start < SHAPE


def test_keystreams_are_even():
    """All bytes, and all pairs of neighbours with both high bits, of two million."""
    content = streams.draws().first.take(2_000_000)
    assert chi_square(np.bincount(content, minlength=256), np.full(256, 1 / 256)) > SHAPE
    high = (content >> 7).reshape(-1, 4) @ [8, 4, 2, 1]
    assert chi_square(np.bincount(high, minlength=16), np.full(16, 1 / 16)) > SHAPE
