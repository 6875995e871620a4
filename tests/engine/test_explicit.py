"""One explicit adversary on any law that lowers to hidden states: lower <= truth <= upper.

The truth is one linear program over all likelihoods for each value of what is known and each pair
of values; the laws are those of the theory, random ones, and hostile ones with entries of 1e-6,
impossible transitions and states that are never reached.
"""

import itertools
import math

import numpy as np
import pytest

import undertow as ut
from tests.contracts.table import certified
from tests.engine.laws import (
    P3,
    SYMBOLS,
    A,
    B,
    adversary,
    chain,
    hidden,
    order_two,
    rows,
    truth,
)
from tests.oracles import memory
from undertow.bounds.one_adversary import ONE_ADVERSARY
from undertow.bounds.protocol import Problem
from undertow.errors import NotSupported

PROGRAM = 2e-9
"""What a linear program may be below its optimum, and sums of floats may be off."""

LOOSE = 1.6
"""How far above the truth an upper end may be; on random laws the theory has seen 1.55."""


def held(law, level, who, window=1, loose=LOOSE, attained=0.0):
    """Compare a certified interval with the truth, of which an attack attains a share."""
    secret = None if window == 1 else ut.Window(window)
    leak = certified(ut.PureDP(level), law.model, who, secret=secret)
    exact = truth(law, level, who, window)
    assert 0 <= leak.lower <= exact * (1 + 1e-12) + PROGRAM
    assert leak.upper >= exact * (1 - 1e-12)
    assert leak.upper <= loose * exact
    assert leak.lower >= attained * exact
    return leak, exact


REFERENCE = [
    ("A .1 open", A, 0.1, (1, 2), (), 0.15804186),
    ("A .1 ends", A, 0.1, (2, 2), (0, 4), 0.14534409),
    ("A 1 open", A, 1.0, (1, 2), (), 1.45737531),
    ("A 1 next", A, 1.0, (2, 2), (3,), 1.31109443),
    ("B 1 open", B, 1.0, (1, 2), (), 2.52414050),
    ("B 1 ends", B, 1.0, (2, 2), (0, 4), 1.99268172),
    ("P3 1 open", P3, 1.0, (1, 2), (), 2.62174358),
    ("P3 1 next", P3, 1.0, (2, 2), (3,), 1.96106561),
]
"""Kernel, level, records on either side of the target, known records; what one pattern leaks."""


@pytest.mark.parametrize(
    ("matrix", "level", "sides", "known", "printed"),
    [case[1:] for case in REFERENCE], ids=[case[0] for case in REFERENCE],
)  # fmt: skip
def test_reference_numbers(matrix, level, sides, known, printed):
    records = 1 + sum(sides)
    law = chain(matrix, records) if len(matrix) == 3 else hidden(matrix, SYMBOLS, records)
    leak, _ = held(law, level, ut.Adversary(sides[0], known), loose=1.05)
    assert leak.upper >= printed - 5e-9


@pytest.mark.parametrize("known", [(), (0,), (3,), (0, 4), (1, 3)])
@pytest.mark.parametrize("level", [0.1, 1.0])
def test_totally_positive_laws_close(level, known):
    """Theorem E4.2: ordered hidden states, the worst likelihood is a product."""
    leak, exact = held(hidden(B, SYMBOLS, 5), level, ut.Adversary(2, known))
    assert leak.upper <= exact * (1 + 1e-4)
    assert leak.lower >= exact * (1 - 1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_order_one_closes(seed):
    """Theorem E4.1: one hidden state a value, any number of values."""
    rng = np.random.default_rng(seed)
    law = chain(rows(rng, (2 + seed % 2,) * 2, hostile=seed % 3 == 0), 4)
    for _ in range(3):
        leak, exact = held(law, float(rng.choice([0.1, 1.0, 3.0])), adversary(rng, 4))
        assert leak.upper <= exact * (1 + 1e-5) + 1e-9
        assert leak.lower >= exact * (1 - 1e-5) - 1e-9


FREE = [(0, 1, 1), (0, 0, 1, 1), (0, 1, 0, 1), (0, 0, 1, 1, 2)]


@pytest.mark.parametrize("symbols", FREE, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_random_hidden_laws(symbols, seed):
    rng = np.random.default_rng([seed, *symbols])
    records = 5 if max(symbols) == 1 else 4
    law = hidden(rows(rng, (len(symbols),) * 2, hostile=False), symbols, records)
    for _ in range(3):
        held(law, float(rng.choice([0.05, 0.5, 2.0])), adversary(rng, records), attained=0.999)


@pytest.mark.parametrize("symbols", FREE, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_hostile_hidden_laws(symbols, seed):
    """Entries down to 1e-6: the interval holds the truth, however wide it is."""
    rng = np.random.default_rng([seed, *symbols, 9])
    law = hidden(rows(rng, (len(symbols),) * 2, hostile=True), symbols, 4)
    for _ in range(3):
        held(law, float(rng.choice([0.05, 0.5, 2.0])), adversary(rng, 4), loose=math.inf)


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_chains_of_order_two(values, seed):
    rng = np.random.default_rng([seed, values])
    law = order_two(rows(rng, (values,) * 3, hostile=seed % 2 == 1), 4)
    for _ in range(3):
        loose = math.inf if seed % 2 else LOOSE
        held(law, float(rng.choice([0.05, 0.5, 2.0])), adversary(rng, 4), loose=loose)


IMPOSSIBLE = {
    "turns": ([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.9, 0.05, 0.05]], (0, 0, 1)),
    "one way": ([[0.5, 0.5, 0.0, 0.0], [0.0, 0.2, 0.8, 0.0], [0.1, 0.0, 0.3, 0.6],
                 [0.4, 0.0, 0.0, 0.6]], SYMBOLS),
    "told by the known": ([[0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5], [0.4, 0.2, 0.4, 0.0],
                           [0.1, 0.4, 0.0, 0.5]], SYMBOLS),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPOSSIBLE)
@pytest.mark.parametrize("level", [0.1, 1.0, 4.0])
def test_impossible_transitions(name, level):
    """Hidden states that are impossible given what is known take no part in a bound."""
    matrix, symbols = IMPOSSIBLE[name]
    law = hidden(np.array(matrix), symbols, 5)
    for who in (ut.Adversary(2), ut.Adversary(2, [1, 3]), ut.Adversary(1, [0, 3]),
                ut.Adversary(0, [1, 2])):  # fmt: skip
        held(law, level, who, loose=math.inf)


@pytest.mark.parametrize("seed", range(4))
def test_split_states_describe_the_same_law(seed):
    """A hidden state in two parts that behave alike: another description of the same law."""
    rng = np.random.default_rng(seed)
    matrix = rows(rng, (3, 3), hostile=False)
    law = hidden(matrix, (0, 1, 1), 4)
    split = np.zeros((4, 4))
    share = rng.uniform(0.2, 0.8)
    parents = (0, 1, 2, 2)
    weights = (1.0, 1.0, share, 1 - share)
    for s, t in np.ndindex(4, 4):
        split[s, t] = matrix[parents[s], parents[t]] * weights[t]
    twin = hidden(split, (0, 1, 1, 1), 4)
    np.testing.assert_allclose(twin.joint, law.joint, atol=1e-12)
    who = adversary(rng, 4)
    one, exact = held(law, 0.8, who)
    two, _ = held(twin, 0.8, who)
    assert max(one.lower, two.lower) <= exact + PROGRAM <= min(one.upper, two.upper) + 2 * PROGRAM


@pytest.mark.parametrize("seed", range(4))
def test_names_of_the_values_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    matrix, who = rows(rng, (4, 4), hostile=False), adversary(rng, 4)
    one, _ = held(hidden(matrix, (0, 0, 1, 1), 4), 1.0, who)
    two, _ = held(hidden(matrix, (1, 1, 0, 0), 4), 1.0, who)
    assert two.upper == pytest.approx(one.upper, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_windows_as_the_secret(seed):
    """Theorem E7: any two histories of two records in a row."""
    rng = np.random.default_rng(seed)
    law = hidden(rows(rng, (4, 4), hostile=False), SYMBOLS, 5)
    for _ in range(2):
        held(law, float(rng.choice([0.1, 1.0])), adversary(rng, 5, 2), window=2, attained=0.999)


def replayed(joint, values, witness, level):
    """What an attack on a window reveals, by sums over all series of a few records."""
    likelihood = np.ones(joint.shape)
    for record, inside in witness.sets:
        looked = np.exp(level * np.isin(range(values), inside))
        likelihood = likelihood * looked.reshape(
            [-1 if t == record else 1 for t in range(joint.ndim)]
        )
    logs = []
    for history in witness.histories:
        place = [slice(None)] * joint.ndim
        for record, value in (*witness.known, *enumerate(history, start=witness.target)):
            place[record] = value
        law = joint[tuple(place)]
        logs.append(math.log((law * likelihood[tuple(place)]).sum() / law.sum()))
    return logs[0] - logs[1]


@pytest.mark.parametrize("against", ["any", "informed", "ignorant"])
@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("values", [2, 3])
def test_a_window_of_a_chain_of_order_two_is_attacked(values, window, against):
    """The lower end is positive, that of its witness, and below the truth about what it knows."""
    rng = np.random.default_rng([values, window])
    law = order_two(rows(rng, (values,) * 3, hostile=False), 5 if values == 2 else 4)
    leak = certified(ut.PureDP(0.7), law.model, against, secret=ut.Window(window))
    witness = leak.witness
    assert leak.lower >= 0.7 * window * (1 - 1e-12)
    assert replayed(law.joint, values, witness, 0.7) == pytest.approx(leak.lower, abs=1e-12)
    who = ut.Adversary(witness.target, [record for record, _ in witness.known])
    assert leak.lower <= truth(law, 0.7, who, window) + PROGRAM
    assert len(who.known) == (law.joint.ndim - window if against == "informed" else 0)
    endless = certified(ut.PureDP(0.7), law.model.endless(), against, secret=ut.Window(window))
    assert 0.7 * window * (1 - 1e-12) <= endless.lower <= endless.upper


def test_a_window_of_turns_is_attacked():
    """Where no value may follow itself, histories of two values in turn are what can occur."""
    turns = np.array([[[0.0, 1.0], [0.9, 0.1]], [[0.1, 0.9], [1.0, 0.0]]])
    leak = certified(ut.PureDP(1.0), ut.MarkovChain.second_order(turns), secret=ut.Window(2))
    assert leak.lower >= 2 * (1 - 1e-12)


@pytest.mark.parametrize("against", ["any", "informed", "ignorant"])
def test_windows_of_a_short_hidden_series_are_bounded(against):
    """All records of the series at most, those of the window for whoever knows the others."""
    law = hidden(A, SYMBOLS, 4)
    leak = certified(ut.PureDP(0.5), law.model, against, secret=ut.Window(2))
    exact = max(
        truth(law, 0.5, who, 2)
        for start in range(3)
        for who in every(start, against, {*range(4)} - {start, start + 1})
    )
    assert exact <= leak.upper <= (1.0 if against == "informed" else 2.0)
    noisy = certified(ut.Laplace(ut.Count(1), 2.0), law.model, against, secret=ut.Window(2))
    assert leak.upper <= noisy.upper <= leak.upper * (1 + 1e-12)
    assert ut.calibrate(ut.Count(1), law.model, 1.0, against, secret=ut.Window(2)).leakage.proves(1)


def every(start, against, others):
    """Adversaries of a window that begins with a record, by what they know."""
    sizes = {"any": range(len(others) + 1), "ignorant": (0,), "informed": (len(others),)}[against]
    for size in sizes:
        for known in itertools.combinations(sorted(others), size):
            yield ut.Adversary(start, known)


def test_a_window_of_a_chain_with_zeros_is_bounded_where_the_refusal_says():
    zeros = [[0.5, 0.5, 0, 0], [0.2, 0.3, 0.5, 0], [0, 0.3, 0.3, 0.4], [0, 0, 0.6, 0.4]]
    model = ut.HiddenChain(zeros, SYMBOLS)
    with pytest.raises(NotSupported, match=r"mixed\(1e-4\)"):
        ut.leakage(ut.PureDP(0.5), model, secret=ut.Window(3))
    everyone = ut.leakage(ut.PureDP(0.5), model.mixed(1e-2), secret=ut.Window(3)).upper
    who = ut.Adversary(5, [2])
    upper = ut.leakage(ut.PureDP(0.5), model.mixed(1e-2), who, secret=ut.Window(3)).upper
    assert 0 < upper <= everyone < math.inf
    plan = ut.calibrate(ut.Count(1), model, limit=1.0, against=who, secret=ut.Window(3))
    assert plan.leakage.proves(1.0)


@pytest.mark.parametrize("seed", range(3))
def test_more_noise_never_leaks_more(seed):
    rng = np.random.default_rng(seed)
    law, who = hidden(rows(rng, (4, 4), hostile=False), SYMBOLS, 5), adversary(rng, 5)
    leaks = [ut.leakage(ut.PureDP(level), law.model, who) for level in (0.05, 0.2, 0.8, 2.0)]
    assert [leak.upper for leak in leaks] == sorted(leak.upper for leak in leaks)
    assert all(leak.upper < math.inf for leak in leaks)


@pytest.mark.parametrize("records", [4, 5])
@pytest.mark.parametrize("known", [(0,), (1, 3), ()])
def test_far_answers_attack_counts_and_histograms(records, known):
    """On an ordered law the worst answer of a count is far above or far below all others.

    The law is not that of its mirror image: with one state of the two counted it is the answers far
    below that tell most.
    """
    uneven = np.array([[0.9, 0.07, 0.02, 0.01], [0.5, 0.3, 0.15, 0.05], [0.2, 0.25, 0.35, 0.2],
                       [0.1, 0.2, 0.35, 0.35]])  # fmt: skip
    law, who = hidden(uneven, SYMBOLS, records), ut.Adversary(2, known)
    for scale, mechanism in (
        (1.0, ut.Laplace(ut.Count(1), 1.0)),
        (1.0, ut.Laplace(ut.Count(0), 1.0)),
        (0.5, ut.Laplace(ut.Histogram(), 1.0)),
    ):
        leak = ONE_ADVERSARY.prove(Problem(mechanism, law.model, who))
        exact = max(memory.noisy_count(law.joint, scale, who))
        assert leak.lower == pytest.approx(exact, abs=1e-9)
        assert leak.upper >= exact - 1e-12
        assert leak.witness is not None
        assert leak.witness.length == records
        assert all(record < records for record, _ in leak.witness.sets + leak.witness.outputs)


@pytest.mark.soak
@pytest.mark.parametrize("hostile", [False, True])
def test_many_laws(hostile):
    """Every adversary of every size, on hundreds of laws."""
    rng = np.random.default_rng(int(hostile))
    for _ in range(150):
        symbols = FREE[rng.integers(len(FREE))]
        records = 5 if max(symbols) == 1 else 4
        if rng.random() < 0.3:
            law = order_two(rows(rng, (2,) * 3, hostile), records)
        else:
            law = hidden(rows(rng, (len(symbols),) * 2, hostile), symbols, records)
        for _ in range(6):
            level = float(np.exp(rng.uniform(np.log(0.02), np.log(5))))
            held(law, level, adversary(rng, records), loose=math.inf if hostile else 2.0)
