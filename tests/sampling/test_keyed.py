"""Bits by address: published vectors, no dependence on pieces, exact thresholds, nothing shared.

`tests.sampling.port_keyed` is the rule written again, one record and one block at a time. What is
random here is what hypothesis draws; keys are known.
"""

import copy
import hashlib
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import port_keyed as port
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import RandomizedResponse, Redaction, XorNoise
from undertow.sampling import keyed, streams
from undertow.sampling.flips import FULL, Start, Thresholds, flip, noise
from undertow.sampling.keyed import (
    PLACES,
    AddressedBytes,
    Carry,
    Digest,
    Key,
    addresses,
    randomised,
)

VECTORS = port.load()
IDS = [vector["name"] for vector in VECTORS]
FAST = settings(deadline=None, derandomize=True, database=None, max_examples=25)
LABELS = st.text(alphabet="01aé\0", max_size=3)
SECRET = bytes(range(32))
KEY = Key(SECRET)


def channel_of(rows):
    """The channel that has some rows of thresholds."""
    return RandomizedResponse(
        [[(b - a) / FULL for a, b in zip([0, *row], [*row, FULL], strict=True)] for row in rows]
    )


def mechanism_of(vector):
    rows = [[int(text, 16) for text in row] for row in vector["thresholds"]]
    if vector["kind"] == "erasures":
        return Redaction([[one / FULL for one in row] for row in rows], vector["protect"])
    if vector["kind"] == "noise":
        return XorNoise(1 - rows[0][0] / FULL, rows[1][0] / FULL)
    return channel_of(rows)


def flat(series):
    """Series of (label, places, records) as the code takes them."""
    labels, lengths = [label for label, _, _ in series], [len(x) for _, _, x in series]
    codes = np.array([x for _, _, records in series for x in records], dtype=np.uint8)
    places = np.array([p for _, places, _ in series for p in places], dtype=np.int64)
    return labels, lengths, codes, places


def shown(made):
    """Outputs as a list, None where a record is erased."""
    if made.erased is None:
        return made.numbers.tolist()
    pairs = zip(made.numbers.tolist(), made.erased.tolist(), strict=True)
    return [None if erased else number for number, erased in pairs]


def cut(series, at):
    """Series cut into pieces: at some numbers of records, in the middle of a series too."""
    listed = [(label, p, x) for label, places, records in series
              for p, x in zip(places, records, strict=True)]  # fmt: skip
    ends = sorted({*(a for a in at if a < len(listed)), len(listed)})
    for begin, end in zip([0, *ends], ends, strict=False):
        piece: list[Any] = []
        for label, place, record in listed[begin:end]:
            if not piece or piece[-1][0] != label:
                piece.append((label, [], []))
            piece[-1][1].append(place)
            piece[-1][2].append(record)
        yield piece


# --- published vectors ----------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS, ids=IDS)
def test_the_vectors_follow_from_their_description(vector):
    assert port.replay(vector) == vector


@pytest.mark.parametrize("vector", VECTORS, ids=IDS)
def test_the_vectors_are_reproduced(vector):
    told = [(one["label"], one["places"], one["records"]) for one in vector["series"]]
    labels, lengths, codes, places = flat(told)
    digest = Digest(Key(bytes.fromhex(vector["key"])))
    digest.feed(labels, lengths, codes, places)
    assert digest.result().hex() == vector["digest"]
    key = Key(bytes.fromhex(vector["key"])).for_input(digest.result())
    assert key.exported().hex() == vector["input_key"]
    found = [one.tobytes().hex() for one in addresses(key, labels)]
    assert found == [one["address"] for one in vector["series"]]
    made = randomised(mechanism_of(vector), key, labels, lengths, codes, places)
    assert shown(made) == [x for one in vector["series"] for x in one["outputs"]]


def test_the_vectors_meet_every_case():
    assert {vector["kind"] for vector in VECTORS} == {"flips", "erasures", "noise"}
    undecided = set()
    for vector in VECTORS:
        rows = [[int(text, 16) for text in row] for row in vector["thresholds"]]
        secret = bytes.fromhex(vector["input_key"])
        for one in vector["series"]:
            for place, x in zip(one["places"], one["records"], strict=True):
                row = rows[x] if vector["kind"] == "flips" else rows[0] + rows[1]
                row = [rows[place][x]] if vector["kind"] == "erasures" else row
                first = port.block(secret, one["label"], 0, place // 16)[place % 16] << 56
                if any(first < border < first + 2**56 for border in row):
                    undecided.add(vector["kind"])
    assert undecided == {"flips", "erasures", "noise"}
    assert max(max(one["places"]) for v in VECTORS for one in v["series"]) == PLACES - 1


# --- pieces, order, engines -----------------------------------------------------------------------

RARE = RandomizedResponse.binary(0.25 + 2.0**-20, 2.0**-12)
EIGHT = RandomizedResponse(np.full((8, 8), 2.0**-4) + np.eye(8) / 2)
RUNS = XorNoise(0.125 + 2.0**-30, 0.25)
ERASURES = Redaction(
    [[0.5 + 2.0**-20, 0.25], [1, 0], [1, 1], [2.0**-12, 0.75]] * 5, protect=[2, 10]
)


@st.composite
def many_series(draw, mechanism):
    """Persons with unlike labels, places with and without gaps, some without records."""
    labels = draw(st.lists(LABELS, unique=True, max_size=6))
    states = 8 if mechanism is EIGHT else 2
    made = []
    for label in labels:
        steps = draw(st.lists(st.integers(1, 3), max_size=12))
        places = [sum(steps[: n + 1]) - 1 for n in range(len(steps))]
        if mechanism is ERASURES:
            places = [place for place in places if place < ERASURES.length]
        made.append((label, places, [draw(st.integers(0, states - 1)) for _ in places]))
    return made


MECHANISMS = pytest.mark.parametrize(
    "mechanism", [RARE, EIGHT, RUNS, ERASURES], ids=["flips", "eight", "noise", "erasures"]
)


@MECHANISMS
@FAST
@given(data=st.data())
def test_outputs_and_digests_do_not_depend_on_pieces(mechanism, data):
    series = data.draw(many_series(mechanism))
    cuts = data.draw(st.lists(st.integers(1, 60), max_size=4))
    labels, lengths, codes, places = flat(series)
    whole, digest = randomised(mechanism, KEY, labels, lengths, codes, places), Digest(KEY)
    digest.feed(labels, lengths, codes, places)
    parts: list[Any] = []
    carry, fold = None, Digest(KEY)
    for piece in cut(series, cuts):
        told: tuple[Any, Any, Any, Any] = flat(piece)
        made = randomised(mechanism, KEY, *told, carry=carry)
        fold.feed(*told)
        parts, carry = parts + shown(made), made.carry
    assert parts == shown(whole)
    assert carry == whole.carry
    assert fold.result() == digest.result()


@MECHANISMS
@FAST
@given(data=st.data())
def test_outputs_are_those_of_the_rule_written_again(mechanism, data):
    series = [one for one in data.draw(many_series(mechanism)) if one[2]]
    if mechanism is ERASURES:
        rows = [[int(p * FULL) for p in row] for row in ERASURES.probabilities.tolist()]
        expected = [port.erasures(rows, (2, 10), SECRET, *one) for one in series]
    elif mechanism is RUNS:
        rows = [[FULL - int(RUNS.rho0 * FULL)], [int(RUNS.rho1 * FULL)]]
        share = Fraction(RUNS.rho0) / (Fraction(RUNS.rho0) + Fraction(RUNS.rho1))
        expected = [port.noise(rows, share, SECRET, *one) for one in series]
    else:
        rows = [list(row) for row in Thresholds.of(mechanism).thresholds]
        expected = [port.flips(rows, SECRET, *one) for one in series]
    made = randomised(mechanism, KEY, *flat(series))
    digest = Digest(KEY)
    digest.feed(*flat(series))
    assert shown(made) == [x for one in expected for x in one]
    assert digest.result() == port.digest(SECRET, series)


@MECHANISMS
@FAST
@given(data=st.data())
def test_the_order_of_persons_does_not_matter(mechanism, data):
    series = data.draw(many_series(mechanism))
    other = data.draw(st.permutations(series))
    found = []
    for one in (series, other):
        outputs, digest = shown(randomised(mechanism, KEY, *flat(one))), Digest(KEY)
        digest.feed(*flat(one))
        ends = np.cumsum([len(records) for _, _, records in one], dtype=int)
        parts = {label: outputs[end - len(x) : end]
                 for (label, _, x), end in zip(one, ends, strict=True)}  # fmt: skip
        found.append((parts, digest.result()))
    assert found[0] == found[1]


@MECHANISMS
def test_places_one_after_the_other_need_not_be_said(mechanism):
    series = [(str(n), [*range(20)], [n % 2, *[1, 0] * 9, 1]) for n in range(5)]
    labels, lengths, codes, places = flat(series)
    said = randomised(mechanism, KEY, labels, lengths, codes, places)
    assert shown(randomised(mechanism, KEY, labels, lengths, codes)) == shown(said)
    head = randomised(mechanism, KEY, labels[:2], [20, 7], codes[:27])
    rest = randomised(mechanism, KEY, labels[1:], [13, *[20] * 3], codes[27:], carry=head.carry)
    assert shown(head) + shown(rest) == shown(said)
    one, two = Digest(KEY), Digest(KEY)
    one.feed(labels, lengths, codes, places)
    two.feed(labels[:2], [20, 7], codes[:27])
    two.feed(labels[1:], [13, *[20] * 3], codes[27:])
    assert one.result() == two.result()


def test_a_piece_without_records_changes_nothing():
    empty = np.empty(0, dtype=np.uint8)
    carry = Carry("a", 3, 1)
    assert randomised(RUNS, KEY, [], [], empty, carry=carry).carry == carry
    assert randomised(RUNS, KEY, ["b"], [0], empty, carry=carry).carry == carry
    digest = Digest(KEY)
    digest.feed(["b"], [0], empty)
    assert digest.result() == bytes(32)


def test_more_states_than_bytes_can_number():
    channel = RandomizedResponse(np.roll(np.eye(300), 1, axis=1))
    records = np.arange(300, dtype=np.uint16)
    made = randomised(channel, KEY, ["a"], [300], records)
    assert made.numbers.tolist() == [*range(1, 300), 0]
    one, two = Digest(KEY), Digest(KEY)
    one.feed(["a"], [1], np.array([256], dtype=np.uint16))
    two.feed(["a"], [1], np.array([0], dtype=np.uint16))
    assert one.result() != two.result()


# --- digests tell inputs apart --------------------------------------------------------------------


def digest_of(*series, key=KEY):
    found = Digest(key)
    found.feed(*flat(series))
    return found.result()


def test_digests_tell_inputs_apart():
    base = [("a", [0, 1], [0, 1]), ("b", [0, 1], [1, 1])]
    others = [
        [("a", [0, 1], [1, 1]), ("b", [0, 1], [0, 1])],  # records of the other person
        [("a", [0, 1], [1, 0]), ("b", [0, 1], [1, 1])],
        [("a", [0, 2], [0, 1]), ("b", [0, 1], [1, 1])],
        [("a", [0, 1], [0, 1]), ("c", [0, 1], [1, 1])],
        [("a", [0, 1], [0, 1])],
        [("a", [0, 1, 2], [0, 1, 0]), ("b", [0, 1], [1, 1])],
    ]
    found = {digest_of(*one) for one in (base, *others)}
    assert len(found) == 1 + len(others)
    assert digest_of(*base, key=Key.fresh()) not in found


def test_labels_and_records_cannot_be_taken_for_each_other():
    """A label that ends like a record: the length of the label stands before it."""
    record = "\0" * 9 + "\1"
    assert digest_of(("a" + record, [0], [1])) != digest_of(("a", [0, 1], [1, 1]))


def test_folds_of_other_persons_are_added():
    a, b, c = (("a", [0], [1]), ("b", [0, 3], [1, 0]), ("c", [0], [0]))
    fold = Digest(KEY)
    fold.feed(*flat([b]))
    fold.merge(digest_of(a, c))
    assert fold.result() == digest_of(a, b, c)
    with pytest.raises(InvalidInput, match="32 bytes"):
        fold.merge(b"short")


# --- keys -----------------------------------------------------------------------------------------


def test_a_key_shows_itself_to_nobody():
    key = Key.fresh()
    for text in (repr(key), str(key), f"{key}", repr([key]), repr({"key": key})):
        assert key.exported().hex() not in text
        assert repr(key.exported()) not in text
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(NotSupported, match="never copied"):
            copied(key)
    for level in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(NotSupported):
            pickle.dumps([key], protocol=level)


def test_keys_are_fresh_and_of_one_size():
    assert len({Key.fresh().exported() for _ in range(50)}) == 50
    wrong: Any
    for wrong in (b"", bytes(31), bytes(33), "0" * 32, bytearray(32), None):
        with pytest.raises(InvalidInput, match="32 secret bytes") as refusal:
            Key(wrong)
        assert "0000" not in str(refusal.value)


def test_what_is_derived_for_one_purpose_serves_no_other():
    digests = [hashlib.sha256(bytes([n])).digest() for n in range(3)]
    found = [KEY.derived(purpose) for purpose in ("bits", "series", "digest")]
    found += [KEY.for_input(one).exported() for one in digests] + [SECRET]
    assert len(set(found)) == 7


def test_without_the_cipher_the_refusal_is_clear(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.ciphers", None)
    with pytest.raises(NotSupported, match="pip install cryptography"):
        randomised(RARE, KEY, ["a"], [1], np.zeros(1, dtype=np.uint8))


# --- blocks ---------------------------------------------------------------------------------------


def blocks_of(monkeypatch, call):
    """All blocks that are enciphered in a call, as bytes."""
    seen: list[bytes] = []
    real = streams.block_cipher

    def recording(key):
        inner = real(key)

        def enciphered(blocks):
            seen.extend(row.tobytes() for row in blocks)
            return inner(blocks)

        return enciphered

    with monkeypatch.context() as patch:
        patch.setattr(keyed, "block_cipher", recording)
        call()
    return seen


def test_no_block_is_used_twice(monkeypatch):
    """Of 40 persons: a block for 16 first bytes, for each undecided record, for each start."""
    labels = [str(n) for n in range(40)]
    codes = np.arange(40 * 96, dtype=np.uint8) % 2
    close = XorNoise(2.0**-9, 2.0**-9)  # every second record or so is undecided
    seen = blocks_of(monkeypatch, lambda: randomised(close, KEY, labels, [96] * 40, codes))
    assert len(set(seen)) == len(seen)
    assert {one[10] for one in seen} == {0, 1, 2}
    assert len({one[:10] for one in seen}) == 40
    counts = [sum(one[10] == stream for one in seen) for stream in (0, 1, 2)]
    assert counts[0] == 40 * 6
    assert counts[1] > 0
    assert counts[2] == 40
    for one in seen:
        index = int.from_bytes(one[11:], "big")
        assert index < (6, 96, 1)[one[10]]


def test_two_persons_share_no_bits():
    """1,000 persons with 64 first bytes each: no window of eight bytes occurs twice."""
    labels = [f"person {n}" for n in range(1000)]
    where = addresses(KEY, labels)
    lengths = np.full(1000, 64)
    source = AddressedBytes(KEY, where, lengths, None, np.zeros(1000, dtype=np.int64))
    bytes_of = source.firsts(0, 64_000).reshape(1000, 64)
    windows = np.lib.stride_tricks.sliding_window_view(bytes_of, 8, axis=1).reshape(-1, 8)
    assert len(np.unique(np.ascontiguousarray(windows).view("<u8"))) == len(windows)


# --- exactness ------------------------------------------------------------------------------------


@FAST
@given(LABELS, st.integers(0, PLACES - 1), st.sampled_from([-1, 0, 1]))
def test_the_threshold_is_exact_to_the_last_bit(label, place, step):
    """A threshold beside the very number of a record, which the rule written again knows."""
    drawn = port.whole_number(SECRET, label, place)
    border = min(max(drawn + step, 0), FULL)
    source = AddressedBytes(
        KEY, addresses(KEY, [label]), np.array([1]), np.array([place]), np.array([0])
    )
    (found,) = flip(Thresholds([[border]]), np.zeros(1, dtype=np.uint8), source).tolist()
    assert found == int(drawn >= border)


@pytest.mark.parametrize("third", [0, 1, 2])
def test_a_start_that_eight_bytes_leave_open_takes_the_next_block(third):
    """The fraction is V + third / 3 of 2^64, for the very number V of the first block."""
    label = "ann"
    numbers = [int.from_bytes(port.block(SECRET, label, 2, n)[:8], "big") for n in (0, 1)]
    share = Start(3 * numbers[0] + third, 3 * FULL)
    source = AddressedBytes(
        KEY, addresses(KEY, ["bob", label]), np.array([1, 1]), None, np.array([0, 0])
    )
    (made,) = share.draw(source, np.array([1])).tolist()
    assert made == bool(port.start(SECRET, label, Fraction(share.flips, share.of)))
    assert made == (third > 0 and numbers[1] < third * FULL // 3)


def test_noise_goes_on_from_a_state_and_begins_without_one():
    where = addresses(KEY, ["a"])
    for state in (0, 1):
        source = AddressedBytes(KEY, where, np.array([4]), None, np.array([7]))
        stuck = noise(XorNoise(0, 2.0**-53), [4], source, state=state)
        assert stuck.tolist() == [state] * 4


# --- bad input ------------------------------------------------------------------------------------


def of(labels, lengths, records, places=None, mechanism: Any = RARE, carry=None):
    codes = np.zeros(records, dtype=np.uint8)
    return randomised(mechanism, KEY, labels, lengths, codes, places, carry)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: of(["a"], [2, 1], 3), "2 lengths with 3 records in all were given for 1 labels"),
        (lambda: of(["a"], [2], 3), "1 lengths with 2 records"),
        (lambda: of(["a", "b"], [4, -1], 3), "2 lengths"),
        (lambda: of(["a", "b", "a"], [1, 1, 1], 3), "sort by person and time"),
        (lambda: of(["a"], [3], 3, [0, 1, 1]), "must grow"),
        (lambda: of(["a"], [3], 3, [0, 2, 1]), "must grow"),
        (lambda: of(["a"], [3], 3, [-1, 0, 1]), "must grow"),
        (lambda: of(["a"], [3], 3, [0, 1]), "must grow"),
        (lambda: of(["a", "b"], [1, 1], 2, [0, -1]), "must grow"),
        (lambda: of(["a"], [1], 1, [3], carry=Carry("a", 3)), "must grow"),
        (lambda: of(["a"], [1], 1, [PLACES]), "a longer step of time"),
        (lambda: of(["a"], [1], 1, carry=Carry("a", PLACES - 1)), "a longer step of time"),
        (lambda: of(["a"], [21], 21, mechanism=ERASURES), "series of 20 records, and one has 21"),
        (lambda: of(["a"], [1], 1, [20], mechanism=ERASURES), "plan for this length"),
    ],
)  # fmt: skip
def test_bad_pieces_are_refused(call, said):
    with pytest.raises(InvalidInput, match=said):
        call()
