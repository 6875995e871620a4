"""The leakage of flipped and redacted series, through the public API, against enumeration.

`tests.oracles.series` is the oracle; it shares no code with the package. Where the tests compare
with fractions, upper ends have no tolerance at all. `test_local_laws` holds the laws.
"""

import itertools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.contracts.chains import FAMILIES, adversary, example
from tests.contracts.local_verdicts import attained, closed, encloses, judged
from tests.grids import each, pairwise
from tests.oracles import series as oracle
from tests.oracles.enumeration import table_leakage
from tests.oracles.exact import logarithm as exact_log
from undertow.certificate import Witness
from undertow.errors import UndertowError

NAMED: tuple[Any, ...] = ("any", "ignorant", "informed")
SIZES = [(2, 2), (2, 4), (2, 6), (3, 2), (3, 4)]
THREE = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]


def random_channel(rng, rows, columns, zeros=0.0):
    matrix = rng.dirichlet(np.full(columns, 0.7), size=rows).clip(1e-3)
    gone = rng.random(matrix.shape) < zeros
    gone[np.arange(rows), rng.integers(columns, size=rows)] = False
    matrix[gone] = 0.0
    return matrix / matrix.sum(axis=1, keepdims=True)


def random_erasures(rng, n, size, protect):
    """Probabilities of erasure of every kind: never, always, seldom, mostly."""
    table = rng.random((n, size))
    kind = rng.integers(6, size=table.shape)
    table[kind == 0], table[kind == 1] = 0.0, 1.0
    table[kind == 2] *= 1e-6
    table[list(protect)] = 1.0
    return ut.Redaction(table, protect=protect)


# --- the oracles agree ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "family",
    ["absorbing", "varying-zeros"],
)
def test_the_oracles_agree(family):
    rng = np.random.default_rng(list(family.encode()))
    for k, n, zeros in ((2, 3, 0.0), (2, 4, 0.3), (3, 3, 0.2)):
        chain = example(family, k, n).model()
        flips = ut.RandomizedResponse(random_channel(rng, k, 3 if k == 2 else 2, zeros))
        tried = [flips, random_erasures(rng, n, k, [int(rng.integers(n))])]
        if k == 2:
            tried.append(ut.XorNoise(*rng.uniform(0.05, 0.95, 2)))
        for mechanism, against in itertools.product(tried, NAMED):
            found = oracle.truth(mechanism, chain, against)
            exact = exact_log(oracle.exact_ratio(mechanism, chain, against))
            assert found == pytest.approx(float(exact), rel=1e-14, abs=1e-15)
        table = np.array(1.0)
        for channel in oracle.channels_of(flips, n):
            table = np.multiply.outer(table, channel)
        table = np.moveaxis(table, range(0, 2 * n, 2), range(n)).reshape((k,) * n + (-1,))
        dense = table_leakage(oracle.joint_of(chain, n), table)
        assert dense == pytest.approx(oracle.truth(flips, chain), rel=1e-14, abs=1e-15)


def test_the_oracle_replays_the_witness_that_refutes_theorem_2():
    """Both ends known to have the other value: worse than knowing nothing [chakrabarti2022]."""
    chain = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], length=5)
    flips = ut.RandomizedResponse.binary(0.02, 0.02)
    attack: dict[str, Any] = {"target": 2, "length": 5, "value": 0, "other": 1}
    shown = tuple((record, 0) for record in range(5))
    knows = Witness(known=((0, 1), (4, 1)), outputs=shown, **attack)
    assert oracle.replay(knows, flips, chain) == pytest.approx(9.407941541, abs=5e-10)
    ignorant = Witness(known=(), outputs=shown, **attack)
    assert oracle.replay(ignorant, flips, chain) == pytest.approx(8.239232313, abs=5e-10)


# --- enclosure ------------------------------------------------------------------------------------


@each(("family", ("k", "n")), sorted(FAMILIES), SIZES)
def test_flips_are_enclosed(family, k, n):
    rng = np.random.default_rng([k, n, *family.encode()])
    chain = example(family, k, n)
    for columns, zeros in ((k, 0.0), (4, 0.0), (3, 0.3)):
        flips = ut.RandomizedResponse(random_channel(rng, k, columns, zeros))
        one = ut.Adversary(*adversary(chain, int(rng.integers(2**31))))
        for against in (*NAMED, one):
            judged(flips, chain.model(), against)


@each(("family", "n"), sorted(FAMILIES), [2, 3, 4, 6])
def test_xor_noise_is_enclosed(family, n):
    rng = np.random.default_rng([n, *family.encode()])
    chain = example(family, 2, n)
    for noise in (ut.XorNoise(*rng.uniform(0.02, 0.98, 2)), ut.XorNoise(0.2, 1.0)):
        one = ut.Adversary(*adversary(chain, int(rng.integers(2**31))))
        for against in (*NAMED, one):
            leak = ut.leakage(noise, chain.model(), against)
            encloses(leak, oracle.truth(noise, chain.model(), against))
            attained(leak, noise, chain.model(), against)


@each(("family", ("k", "n")), sorted(FAMILIES), [*SIZES, (3, 5)])
def test_redactions_are_enclosed(family, k, n):
    rng = np.random.default_rng([k, n, *family.encode(), 1])
    chain = example(family, k, n)
    for several in (False, True):
        protect = [int(r) for r in rng.permutation(n)[: 2 if several else 1]]
        erasures = random_erasures(rng, n, k, protect)
        known = [int(r) for r in rng.permutation(n)[:2] if r != protect[0]]
        for against in (*NAMED, ut.Adversary(protect[0], known)):
            judged(erasures, chain.model(), against)


@each(
    ("family", ("k", "n"), "seed"),
    ["generic", "zeros", "varying", "varying-zeros", "point-mass"], [(2, 3), (2, 4), (3, 3)],
    range(3),
)  # fmt: skip
def test_the_ends_are_on_the_right_side_of_the_exact_value(family, k, n, seed):
    """In fractions and 50 digits: no rounding excuses an upper end below the truth."""
    rng = np.random.default_rng([7, k, n, seed, *family.encode()])
    chain = example(family, k, n, seed).model()
    tried = [
        ut.RandomizedResponse(random_channel(rng, k, k)),
        random_erasures(rng, n, k, [int(rng.integers(n))]),
    ]
    if k == 2:
        tried.append(ut.XorNoise(*rng.uniform(0.05, 0.95, 2)))
    for mechanism, against in itertools.product(tried, NAMED):
        exact = exact_log(oracle.exact_ratio(mechanism, chain, against))
        leak = ut.leakage(mechanism, chain, against)
        assert exact <= Decimal(leak.upper)
        assert Decimal(leak.lower) <= exact + Decimal("1e-13") * max(Decimal(1), exact)


@pytest.mark.parametrize("cases", [2])
@pytest.mark.parametrize("family", ["generic", "stationary", "varying-zeros"])
def test_tiny_leakages_are_on_the_right_side_of_the_exact_value(family, cases):
    """Logs of nearly equal numbers lose digits: the upper end must make up for that too."""
    rng = np.random.default_rng([8, *family.encode()])
    for number in range(cases):
        k = 2 + number % 2
        chain, off = example(family, k, 3, number).model(), 10.0 ** -rng.uniform(1, 15.5)
        matrix = rng.dirichlet(np.ones(k)) * (1 + off * rng.uniform(-1, 1, (k, k)))
        table = 1 - off * rng.random((3, k))
        table[1] = 1.0
        tried: list[Any] = [ut.RandomizedResponse(matrix / matrix.sum(axis=1, keepdims=True))]
        tried.append(ut.Redaction(table, protect=1))
        if k == 2:
            tried.append(ut.XorNoise(0.45 - off, 0.45 + off))
        for mechanism, against in itertools.product(tried, NAMED):
            exact = exact_log(oracle.exact_ratio(mechanism, chain, against))
            assert exact <= Decimal(ut.leakage(mechanism, chain, against).upper)


def test_certainty_leaks_without_bound():
    chain = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], length=4)
    for against in NAMED:
        for honest in (
            ut.RandomizedResponse.binary(0, 0),
            ut.RandomizedResponse([[0.5, 0.5, 0], [0.2, 0.5, 0.3]]),
            ut.XorNoise(0.0, 0.4),
        ):
            leak = ut.leakage(honest, chain, against)
            assert leak.lower == leak.upper == math.inf
            attained(leak, honest, chain, against)
    deaf = ut.RandomizedResponse.binary(0.5, 0.5)
    assert ut.leakage(deaf, chain).upper < 1e-12
    nothing = ut.Redaction(np.ones((4, 2)), protect=1)
    assert ut.leakage(nothing, chain).upper < 1e-12


def test_a_copy_of_the_protected_record_gives_it_away():
    """On a chain that never moves, one shown record is all of them."""
    chain = ut.MarkovChain(np.eye(2), start=[0.5, 0.5], length=3)
    shown = ut.Redaction([[1, 1], [1, 1], [0.5, 0.5]], protect=0)
    assert ut.leakage(shown, chain, "ignorant").lower == math.inf
    assert ut.leakage(shown, chain, "informed").upper < 1e-12  # nothing is left to learn


# --- long series ----------------------------------------------------------------------------------


@pairwise(
    (("q", "r"), "n", "against"),
    [(0.1, 0.1), (0.02, 0.3), (0.8, 0.7), (0.5, 0.95)], [17, 60, 400], ["any", "ignorant"],
)  # fmt: skip
def test_long_binary_series_are_exact(q, r, n, against):
    rows = [[1 - q, q], [r, 1 - r]]
    for rates in ((0.3, 0.2), (0.45, 0.05)):
        flips = ut.RandomizedResponse.binary(*rates)
        leak = ut.leakage(flips, ut.MarkovChain(rows, length=n), against)
        closed(leak)
        assert leak.lower == pytest.approx(
            oracle.long_leakage(rows, flips.matrix, n, against), rel=1e-10
        )
        attained(leak, flips, ut.MarkovChain(rows, length=n), against)


@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_series_of_any_length_are_exact(against):
    for q, r in ((0.1, 0.1), (0.2, 0.35), (0.7, 0.8)):
        rows = [[1 - q, q], [r, 1 - r]]
        flips = ut.RandomizedResponse.binary(0.2, 0.3)
        chain = ut.MarkovChain(rows)
        leak = ut.leakage(flips, chain, against)
        closed(leak)
        assert leak.upper == pytest.approx(
            oracle.long_leakage(rows, flips.matrix, 300, against), rel=1e-8
        )
        attained(leak, flips, chain, against)
        for n in (1 << p for p in range(1, 10)):
            short = ut.leakage(flips, ut.MarkovChain(rows, length=n), against)
            assert short.lower <= leak.upper


@pytest.mark.parametrize("against", ["any", "ignorant"])
@pytest.mark.parametrize("n", [9, 40, 150])
def test_long_series_with_xor_noise_are_exact(n, against):
    for q, r, noise in (
        (0.1, 0.1, ut.XorNoise(0.14, 0.31)),
        (0.2, 0.35, ut.XorNoise(0.3, 0.7)),
        (0.8, 0.6, ut.XorNoise(0.1, 0.5)),
    ):
        rows = [[1 - q, q], [r, 1 - r]]
        leak = ut.leakage(noise, ut.MarkovChain(rows, length=n), against)
        truth = oracle.long_xor(rows, noise, n, against)
        assert leak.lower <= truth * (1 + 1e-9)
        assert truth <= leak.upper * (1 + 1e-9)
        closed(leak)
        attained(leak, noise, ut.MarkovChain(rows, length=n), against)


@pytest.mark.parametrize("against", ["any", "ignorant"])
@pytest.mark.parametrize("start", ["stationary", [1.0, 0.0], [0.3, 0.7]])
@pytest.mark.parametrize(("q", "r"), [(0.2, 0.1), (0.9, 0.8), (0.0005, 0.001), (1.0, 0.4)])
def test_any_length_is_the_supremum_from_any_start(q, r, start, against):
    flips = ut.RandomizedResponse([[0.5, 0.3, 0.2], [0.2, 0.35, 0.45]])
    rows = [[1 - q, q], [r, 1 - r]]
    endless = ut.leakage(flips, ut.MarkovChain(rows, start=start), against)
    closed(endless)
    shorter = 0.0
    for n in (2, 5, 30, 800):
        leak = ut.leakage(flips, ut.MarkovChain(rows, start=start, length=n), against)
        assert leak.lower <= endless.upper
        shorter = max(shorter, leak.upper)
    if q > 0.001:
        assert shorter == pytest.approx(endless.lower, abs=1e-6)


@pytest.mark.parametrize(
    ("transition", "start"),
    [
        ([[0, 1], [1, 0]], "stationary"),
        ([[1, 0], [0, 1]], [0.5, 0.5]),
        ([[1, 0], [0.3, 0.7]], [0, 1]),
    ],
)
def test_records_that_never_forget_leak_without_bound(transition, start):
    flips = ut.RandomizedResponse.binary(0.2, 0.3)
    for against in ("any", "ignorant"):
        leak = ut.leakage(flips, ut.MarkovChain(transition, start=start), against)
        assert leak.lower == leak.upper == math.inf
        finite = [
            ut.leakage(flips, ut.MarkovChain(transition, start=start, length=n), against).upper
            for n in (10, 20, 30)
        ]
        assert finite[1] > finite[0] + 2
        assert finite[2] > finite[1] + 2
    nothing = ut.RandomizedResponse([[0.5, 0.5], [0.5, 0.5]])
    assert ut.leakage(nothing, ut.MarkovChain(transition, start=start)).upper == 0


def test_certain_records_leak_nothing():
    flips = ut.RandomizedResponse.binary(0.2, 0.3)
    for start, transition in (([1, 0], [[0, 1], [1, 0]]), ("stationary", [[1, 0], [0.5, 0.5]])):
        leak = ut.leakage(flips, ut.MarkovChain(transition, start=start))
        assert (leak.lower, leak.upper, leak.witness) == (0, 0, None)


def test_states_that_never_occur_are_left_out():
    chain = ut.MarkovChain([[0.9, 0.1, 0], [0.2, 0.8, 0], [0.3, 0.3, 0.4]], states=list("abc"))
    channel = [[0.7, 0.3], [0.4, 0.6], [0.01, 0.99]]
    leak = ut.leakage(ut.RandomizedResponse(channel), chain)
    reduced = ut.leakage(
        ut.RandomizedResponse(channel[:2]), ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    )
    assert (leak.lower, leak.upper) == pytest.approx((reduced.lower, reduced.upper), abs=1e-9)
    assert {leak.witness.value, leak.witness.other} == {"a", "b"}


# --- refusals -------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused():
    two = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], length=5)
    three = ut.MarkovChain(THREE, length=5)
    flips, noise = ut.RandomizedResponse.binary(0.1, 0.2), ut.XorNoise(0.1, 0.5)
    erasures = ut.Redaction(np.ones((4, 2)), protect=2)
    wrong: list[tuple[Any, Any, Any]] = [
        (flips, three, "any"),
        (noise, three, "any"),
        (ut.Redaction(np.ones((5, 2)), protect=2), three, "any"),
        (erasures, two, "any"),
        (flips, two, ut.Adversary(5)),
        (flips, two, ut.Adversary(1, [7])),
        (flips, two, "nobody"),
    ]
    for mechanism, chain, against in wrong:
        with pytest.raises(UndertowError):
            ut.leakage(mechanism, chain, against)


def test_groups_are_as_bad_as_copies_of_one_record():
    """Whatever the dependence among three records, nothing tells more than three copies."""
    flips = ut.RandomizedResponse.binary(0.1, 0.2)
    copies = ut.MarkovChain(np.eye(2), start=[0.5, 0.5], length=3)
    leak = ut.leakage(flips, ut.Groups(3))
    encloses(leak, oracle.truth(flips, copies, "ignorant"))
    assert leak.upper == pytest.approx(3 * flips.dp_epsilon())
